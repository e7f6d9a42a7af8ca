// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

#include "emlio/wire/messages.h"

// PROTOCOL.md's message tables in code: for every message its type number, its name and its fields
// in canonical order. One description serves the writer and the reader, so they cannot disagree.
// Private to the codec.
namespace emlio::wire {

// Fields(io, message) calls, for every field, one of
//   Number(key, value, min, max)            an unsigned integer or an enumeration
//   NumberOr(key, value, default, min, max) the same, left out when it has its default
//   ColumnOr(key, value, default, min, max) at the end of a row: always written, may be missing
//   Text(key, value), TextOr(key, value)    str; TextOr: left out when empty
//   Name(key, value)                        bin: a shard name, any bytes
//   Hash(key, value)                        bin of 16 bytes
//   Bitmap(key, value)                      bin, left out when empty
//   U32s(key, value, max_count)             bin: little-endian uint32 values
//   Texts(key, value, max_count)            array of str
//   Rows(key, value, min_count, max_count)  array of arrays, each laid out by its own Schema
//   RowsOr(key, value, max_count)           the same, left out when empty
//   Require(key, holds, what)               a relation between fields; read side only
template <typename M>
struct Schema;

inline constexpr uint64_t kAnyU32 = std::numeric_limits<uint32_t>::max();
inline constexpr uint64_t kAnyU64 = std::numeric_limits<uint64_t>::max();
// Error code numbers that later versions may add; unknown ones are read as kInternal.
inline constexpr uint64_t kMaxCodeNumber = 0xffff;
// The lowest value of Open.max_chunk.
inline constexpr uint64_t kMinMaxChunkBytes = 4096;

template <>
struct Schema<Hello> {
  static constexpr uint64_t kType = 1;
  static constexpr std::string_view kName = "Hello";
  static void Fields(auto& io, auto& m) {
    io.Number("min", m.min_version, 1, kAnyU32);
    io.Number("max", m.max_version, 1, kAnyU32);
    io.Require("max", m.min_version <= m.max_version, "is below min");
    io.TextOr("agent", m.agent);
  }
};

template <>
struct Schema<Welcome> {
  static constexpr uint64_t kType = 2;
  static constexpr std::string_view kName = "Welcome";
  static void Fields(auto& io, auto& m) {
    io.Number("version", m.version, 1, kAnyU32);
    io.TextOr("agent", m.agent);
    io.Hash("run", m.run_id);
    io.Texts("datasets", m.datasets, kMaxDatasets);
    io.NumberOr("energy", m.energy_port, 0, 0, 0xffff);
    io.TextOr("boot", m.boot_id);
  }
};

template <>
struct Schema<Describe> {
  static constexpr uint64_t kType = 3;
  static constexpr std::string_view kName = "Describe";
  static void Fields(auto& io, auto& m) { io.Text("dataset", m.dataset); }
};

template <>
struct Schema<ManifestPage::Shard> {
  static void Fields(auto& io, auto& row) {
    io.Name("name", row.name);
    io.Require("name", !row.name.empty(), "is empty");
    io.Number("records", row.records, 0, kAnyU64);
    io.Number("payload_bytes", row.payload_bytes, 0, kAnyU64);
    io.Number("max_record_bytes", row.max_record_bytes, 0, kMaxRecordBytes);
    io.Hash("fingerprint", row.fingerprint);
    io.ColumnOr("unreadable_bytes", row.unreadable_bytes, 0, 0, kAnyU64);
  }
};
template <>
struct Schema<ManifestPage> {
  static constexpr uint64_t kType = 4;
  static constexpr std::string_view kName = "ManifestPage";
  static void Fields(auto& io, auto& m) {
    io.Text("dataset", m.dataset);
    io.Hash("digest", m.digest);
    io.Number("page", m.page, 0, kMaxManifestPages - 1);
    io.Number("pages", m.pages, 1, kMaxManifestPages);
    io.Require("page", m.page < m.pages, "is not below pages");
    io.Rows("shards", m.shards, 0, kMaxManifestPageShards);
  }
};

template <>
struct Schema<NeedManifest> {
  static constexpr uint64_t kType = 5;
  static constexpr std::string_view kName = "NeedManifest";
  static void Fields(auto& io, auto& m) {
    io.Number("id", m.open_id, 1, kAnyU64);
    io.Hash("digest", m.digest);
  }
};

template <>
struct Schema<Open::Source> {
  static void Fields(auto& io, auto& row) {
    io.Hash("digest", row.manifest_digest);
    io.Number("weight", row.weight, 1, kAnyU32);
    io.Number("shuffle", row.shuffle, 0, 0xff);
    io.ColumnOr("block_records", row.block_records, 0, 0, kAnyU32);
    io.ColumnOr("window_blocks", row.window_blocks, 0, 0, kAnyU32);
  }
};
template <>
struct Schema<Open> {
  static constexpr uint64_t kType = 6;
  static constexpr std::string_view kName = "Open";
  static void Fields(auto& io, auto& m) {
    io.Number("id", m.open_id, 1, kAnyU64);
    io.Text("dataset", m.dataset);
    io.TextOr("job", m.job);
    io.TextOr("loader", m.loader);
    io.Rows("sources", m.sources, 1, kMaxSources);
    io.Number("seed", m.seed, 0, kAnyU64);
    io.Number("batch", m.global_batch, 0, kAnyU64);
    io.Number("tail", m.tail, 0, 0xff);
    io.Hash("plan", m.plan_hash);
    io.Number("rank", m.rank, 0, kAnyU32);
    io.Number("world", m.world_size, 0, kAnyU32);
    io.Number("epoch", m.epoch, 0, kAnyU64);
    io.Number("step", m.step, 0, kAnyU64);
    io.Number("epochs", m.epochs, 0, kAnyU64);
    io.NumberOr("stride", m.stride, 1, 1, kMaxStride);
    io.Bitmap("assigned", m.assigned);
    io.Bitmap("filled", m.filled);
    io.Number("streams", m.streams, 1, kMaxStreams);
    io.Number("credit", m.credit_bytes, 0, kAnyU64);
    io.NumberOr("max_chunk", m.max_chunk_bytes, kMaxChunkPayloadBytes, kMinMaxChunkBytes,
                kMaxChunkPayloadBytes);
  }
};

template <>
struct Schema<Opened> {
  static constexpr uint64_t kType = 7;
  static constexpr std::string_view kName = "Opened";
  static void Fields(auto& io, auto& m) {
    io.Number("id", m.open_id, 1, kAnyU64);
    io.Number("steps", m.steps_per_epoch, 0, kAnyU64);
    io.Hash("plan", m.plan_hash);
  }
};

template <>
struct Schema<Join> {
  static constexpr uint64_t kType = 8;
  static constexpr std::string_view kName = "Join";
  static void Fields(auto& io, auto& m) {
    io.Number("id", m.open_id, 1, kAnyU64);
    io.Number("stream", m.stream, 0, kMaxStreams - 1);
    io.Number("gen", m.generation, 0, kAnyU32);
    io.Number("seq", m.last_sequence, 0, kAnyU64);
  }
};

template <>
struct Schema<Chunk> {
  static constexpr uint64_t kType = 9;
  static constexpr std::string_view kName = "Chunk";
  static void Fields(auto& io, auto& m) {
    io.Number("id", m.open_id, 1, kAnyU64);
    io.Number("stream", m.stream, 0, kMaxStreams - 1);
    io.Number("gen", m.generation, 0, kAnyU32);
    io.Number("seq", m.sequence, 1, kAnyU64);
    io.Number("epoch", m.epoch, 0, kAnyU64);
    io.Number("step", m.step, 0, kAnyU64);
    io.Number("begin", m.flow_begin, 0, kAnyU64);
    io.Number("end", m.flow_end, 0, kAnyU64);
    io.U32s("slots", m.slots, kMaxChunkRecords);
    io.U32s("sizes", m.sizes, kMaxChunkRecords);
    io.U32s("crcs", m.crcs, kMaxChunkRecords);
    io.NumberOr("offset", m.record_offset, 0, 0, kMaxRecordBytes);
    io.NumberOr("total", m.record_total, 0, 0, kMaxRecordBytes);
  }
};

template <>
struct Schema<StreamAck> {
  static void Fields(auto& io, auto& row) {
    io.Number("stream", row.stream, 0, kMaxStreams - 1);
    io.Number("gen", row.generation, 0, kAnyU32);
    io.Number("seq", row.sequence, 0, kAnyU64);
  }
};
template <>
struct Schema<Grant> {
  static constexpr uint64_t kType = 10;
  static constexpr std::string_view kName = "Grant";
  static void Fields(auto& io, auto& m) {
    io.Number("id", m.open_id, 1, kAnyU64);
    io.Number("limit", m.limit, 0, kAnyU64);
    io.Number("epoch", m.epoch, 0, kAnyU64);
    io.Number("step", m.step, 0, kAnyU64);
    io.RowsOr("acks", m.acks, kMaxStreams);
  }
};

template <>
struct Schema<Fill> {
  static constexpr uint64_t kType = 11;
  static constexpr std::string_view kName = "Fill";
  static void Fields(auto& io, auto& m) {
    io.Number("id", m.open_id, 1, kAnyU64);
    io.Number("epoch", m.epoch, 0, kAnyU64);
    io.Number("step", m.step, 0, kAnyU64);
    io.U32s("slots", m.slots, kMaxChunkRecords);
    io.Require("slots", !m.slots.empty(), "is empty");
    io.Number("reason", m.reason, 1, 2);
  }
};

template <>
struct Schema<Skip> {
  static constexpr uint64_t kType = 12;
  static constexpr std::string_view kName = "Skip";
  static void Fields(auto& io, auto& m) {
    io.Number("id", m.open_id, 1, kAnyU64);
    io.Number("epoch", m.epoch, 0, kAnyU64);
    io.Number("step", m.step, 0, kAnyU64);
    io.Number("slot", m.slot, 0, kAnyU32);
    io.Name("shard", m.shard);
    io.Number("record", m.record, 0, kAnyU64);
    io.Number("offset", m.offset, 0, kAnyU64);
    io.Number("code", m.code, 1, kMaxCodeNumber);
    io.TextOr("text", m.message);
    io.NumberOr("begin", m.flow_begin, 0, 0, kAnyU64);
    io.NumberOr("end", m.flow_end, 0, 0, kAnyU64);
    io.Require("end", m.flow_begin <= m.flow_end, "is below begin");
  }
};

template <>
struct Schema<Error> {
  static constexpr uint64_t kType = 13;
  static constexpr std::string_view kName = "Error";
  static void Fields(auto& io, auto& m) {
    io.Number("id", m.open_id, 0, kAnyU64);
    io.Number("code", m.code, 1, kMaxCodeNumber);
    io.TextOr("text", m.message);
  }
};

template <>
struct Schema<EpochEnd::StreamEnd> {
  static void Fields(auto& io, auto& row) {
    io.Number("stream", row.stream, 0, kMaxStreams - 1);
    io.Number("gen", row.generation, 0, kAnyU32);
    io.Number("seq", row.sequence, 0, kAnyU64);
  }
};
template <>
struct Schema<EpochEnd> {
  static constexpr uint64_t kType = 14;
  static constexpr std::string_view kName = "EpochEnd";
  static void Fields(auto& io, auto& m) {
    io.Number("id", m.open_id, 1, kAnyU64);
    io.Number("epoch", m.epoch, 0, kAnyU64);
    io.Number("flow", m.flow_position, 0, kAnyU64);
    io.Rows("streams", m.streams, 0, kMaxStreams);
  }
};

template <>
struct Schema<Ping> {
  static constexpr uint64_t kType = 15;
  static constexpr std::string_view kName = "Ping";
  static void Fields(auto& io, auto& m) { io.Number("nonce", m.nonce, 0, kAnyU64); }
};

template <>
struct Schema<Pong> {
  static constexpr uint64_t kType = 16;
  static constexpr std::string_view kName = "Pong";
  static void Fields(auto& io, auto& m) { io.Number("nonce", m.nonce, 0, kAnyU64); }
};

template <>
struct Schema<Close> {
  static constexpr uint64_t kType = 17;
  static constexpr std::string_view kName = "Close";
  static void Fields(auto& io, auto& m) { io.Number("id", m.open_id, 1, kAnyU64); }
};

}  // namespace emlio::wire
