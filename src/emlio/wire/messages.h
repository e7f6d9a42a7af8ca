// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "emlio/base/hash128.h"
#include "emlio/base/status.h"

// The messages of PROTOCOL.md, decoded. Field meanings, ranges and who may send what when are
// specified there; the comments here are reminders.
namespace emlio::wire {

inline constexpr uint32_t kProtocolVersion = 1;

// Limits that every decoder enforces before it allocates (PROTOCOL.md, "Limits").
inline constexpr size_t kMaxHeaderBytes = size_t{4} << 20;
inline constexpr size_t kMaxChunkPayloadBytes = size_t{4} << 20;
inline constexpr size_t kMaxChunkRecords = size_t{1} << 16;
inline constexpr size_t kMaxStringBytes = 4096;
inline constexpr size_t kMaxShardNameBytes = 1024;
inline constexpr size_t kMaxManifestPageShards = 8192;
inline constexpr size_t kMaxManifestPages = 1024;
inline constexpr size_t kMaxStreams = 256;
inline constexpr size_t kMaxBitmapBytes = size_t{1} << 20;
inline constexpr size_t kMaxDatasets = 4096;  // names in one Welcome
inline constexpr uint32_t kMaxStride = uint32_t{1} << 16;
inline constexpr size_t kMaxSources = 64;  // data sets mixed in one plan
// Records of one rank's batch: both ends keep a few dozen bytes for each slot of an open step.
inline constexpr uint32_t kMaxBatchSlots = uint32_t{1} << 22;
inline constexpr uint64_t kMaxRecordBytes = 0xffffffffu;

// A record counts this much more than its payload in the flow position, so that tiny and empty
// records are bounded by credit too: what TFRecord itself adds.
inline constexpr uint64_t kRecordOverheadBytes = 16;

// Names one (re-)opening of a session. Random, not 0.
using OpenId = uint64_t;

// First message on a control connection.
struct Hello {
  uint32_t min_version = kProtocolVersion;
  uint32_t max_version = kProtocolVersion;
  std::string agent;  // "emlio/0.1.0", for logs
};
struct Welcome {
  uint32_t version = kProtocolVersion;
  std::string agent;
  Hash128 run_id{};                   // differs each time a daemon process starts
  std::vector<std::string> datasets;  // names that may be opened
  uint16_t energy_port = 0;           // of the agent that measures this host; 0: none
  std::string boot_id{};              // of the host: which host it is; empty: not told
};

// Asks for the manifest of a data set; answered by Manifest pages or Error.
struct Describe {
  std::string dataset;
};
// One page of a manifest. From the daemon: answer to Describe. From the receiver: answer to
// NeedManifest, with the merged manifest. All pages of one manifest travel in order.
struct ManifestPage {
  struct Shard {
    std::string name;
    uint64_t records = 0;
    uint64_t payload_bytes = 0;
    uint64_t max_record_bytes = 0;
    Hash128 fingerprint{};
    uint64_t unreadable_bytes = 0;  // left out: the file's end is damaged
    friend bool operator==(const Shard&, const Shard&) = default;
  };
  std::string dataset;
  Hash128 digest{};  // of the whole manifest
  uint32_t page = 0;
  uint32_t pages = 1;
  std::vector<Shard> shards;
};
// The daemon does not know the merged manifest that Open named.
struct NeedManifest {
  OpenId open_id = 0;
  Hash128 digest{};
};

// Subscribes one rank.
struct Open {
  struct Source {
    Hash128 manifest_digest{};  // of the merged manifest
    uint32_t weight = 1;
    uint8_t shuffle = 0;         // plan::Shuffle
    uint32_t block_records = 0;  // of shuffle block
    uint32_t window_blocks = 0;
  };
  OpenId open_id = 0;
  std::string dataset;          // which of the daemon's data sets serves it
  std::string job;              // common to all ranks of a training job; empty: nothing is compared
  std::string loader;           // tells loaders of one job apart
  std::vector<Source> sources;  // length 1 for now
  uint64_t seed = 0;
  uint64_t global_batch = 0;
  uint8_t tail = 0;  // plan::Tail
  Hash128 plan_hash{};
  uint32_t rank = 0;
  uint32_t world_size = 1;
  uint64_t epoch = 0;  // cursor: the first step wanted
  uint64_t step = 0;
  uint64_t epochs = 1;  // passes to send, the first (maybe partial) one included; 0 = endless
  // Only the steps that leave the same remainder as `step` when divided by it are wanted.
  uint32_t stride = 1;
  std::vector<uint8_t>
      assigned;                 // bitmap over the merged manifest's shards, LSB first; empty = all
  std::vector<uint8_t> filled;  // bitmap over this rank's slots from the cursor on that are filled
                                // already (taking over from another daemon); empty = none
  uint32_t streams = 4;
  uint64_t credit_bytes = 0;  // initial Grant.limit
  uint32_t max_chunk_bytes = kMaxChunkPayloadBytes;
};
struct Opened {
  OpenId open_id = 0;
  uint64_t steps_per_epoch = 0;
  Hash128 plan_hash{};
};

// First message on a data connection, or a later one that moves it to a newer session.
struct Join {
  OpenId open_id = 0;
  uint32_t stream = 0;         // 0 .. streams-1
  uint32_t generation = 0;     // 0 at first, +1 each time this stream is joined again
  uint64_t last_sequence = 0;  // last chunk received of this stream; 0 = none
};

// Fills slots; followed by its payload frame. Two forms: whole records (`slots`, `sizes`, `crcs` of
// equal length, payload = the records' bytes one behind the other), or a piece of one large record
// (`slots` of length 1, offset/total set; payload = bytes [offset, offset+payload size)).
struct Chunk {
  OpenId open_id = 0;
  uint32_t stream = 0;
  uint32_t generation = 0;
  uint64_t sequence = 0;  // per stream and generation, from 1
  uint64_t epoch = 0;
  uint64_t step = 0;
  uint64_t flow_begin = 0;  // PROTOCOL.md, "Flow position"
  uint64_t flow_end = 0;
  std::vector<uint32_t> slots;
  std::vector<uint32_t> sizes;  // payload bytes of each record in this chunk
  std::vector<uint32_t> crcs;   // CRC-32C of each whole record, unmasked
  uint64_t record_offset = 0;   // piece: where it begins in its record
  uint64_t record_total = 0;    // piece: the record's payload size; 0 = not a piece
};

struct StreamAck {
  uint32_t stream = 0;
  uint32_t generation = 0;
  uint64_t sequence = 0;  // every chunk up to here was received
  friend bool operator==(const StreamAck&, const StreamAck&) = default;
};
// Credit and acknowledgement; idempotent, absolute.
struct Grant {
  OpenId open_id = 0;
  uint64_t limit = 0;  // chunks with flow_end <= limit may be sent
  uint64_t epoch = 0;  // and all chunks of steps up to this one, however large
  uint64_t step = 0;
  std::vector<StreamAck> acks;
};

enum class FillReason : uint8_t { kCrc = 1, kLost = 2 };
// Asks for slots again.
struct Fill {
  OpenId open_id = 0;
  uint64_t epoch = 0;
  uint64_t step = 0;
  std::vector<uint32_t> slots;
  FillReason reason = FillReason::kCrc;
};

// A slot that will not be filled: the record is bad where it is stored, or cannot be read.
struct Skip {
  OpenId open_id = 0;
  uint64_t epoch = 0;
  uint64_t step = 0;
  uint32_t slot = 0;
  std::string shard;
  uint64_t record = 0;
  uint64_t offset = 0;  // of the record's header in the shard file
  Code code = Code::kCorrupt;
  std::string message;  // "payload checksum ..."
  // The record's range in the flow position; both 0 where an older daemon does not say it.
  uint64_t flow_begin = 0;
  uint64_t flow_end = 0;
};

// Ends the session that it names (open_id 0: the whole control connection).
struct Error {
  OpenId open_id = 0;
  Code code = Code::kInternal;
  std::string message;
};

// Everything of one epoch was sent; chunks may still be on their way on the streams.
struct EpochEnd {
  struct StreamEnd {
    uint32_t stream = 0;
    uint32_t generation = 0;
    uint64_t sequence = 0;  // last one used so far in this generation
    friend bool operator==(const StreamEnd&, const StreamEnd&) = default;
  };
  OpenId open_id = 0;
  uint64_t epoch = 0;
  uint64_t flow_position = 0;
  std::vector<StreamEnd> streams;
};

struct Ping {
  uint64_t nonce = 0;
};
struct Pong {
  uint64_t nonce = 0;
};
// The receiver wants nothing more of this session.
struct Close {
  OpenId open_id = 0;
};

// The alternatives' order is not the wire type number: that is in codec.cc and PROTOCOL.md.
using AnyMessage = std::variant<Hello, Welcome, Describe, ManifestPage, NeedManifest, Open, Opened,
                                Join, Chunk, Grant, Fill, Skip, Error, EpochEnd, Ping, Pong, Close>;

// The same message gives the same bytes. Texts are made valid UTF-8 and cut to kMaxStringBytes;
// REQUIRES otherwise: the message keeps the limits above (the peer refuses it if not).
std::vector<uint8_t> Encode(const AnyMessage& message);
// The hot one: no variant; `out` is overwritten and keeps its capacity from call to call.
void EncodeChunk(const Chunk& chunk, std::vector<uint8_t>* out);

// Decodes a header frame. kProtocol names the offending field; kUnsupported an unknown type. Reads
// nothing outside `header`, allocates at most what the limits above allow and never more than the
// bytes that are there justify.
Result<AnyMessage> Decode(std::span<const uint8_t> header);
// Checks that a chunk's fields are consistent with each other and with its payload frame (sizes sum
// up, flow range, limits). Both ends call it; kProtocol says what is wrong.
Status CheckChunk(const Chunk& chunk, size_t payload_bytes);

}  // namespace emlio::wire
