// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "emlio/base/buffer.h"
#include "emlio/base/crc32c.h"
#include "emlio/plan/plan.h"
#include "emlio/session/sender.h"

// What the tests of both state machines share: made-up records, and the daemon's reading threads.
namespace emlio::session::testing {

inline std::shared_ptr<const plan::Plan> MakePlan(std::vector<uint64_t> shard_records,
                                                  uint64_t global_batch,
                                                  plan::Shuffle shuffle = plan::Shuffle::kNone,
                                                  plan::Tail tail = plan::Tail::kKeep) {
  plan::PlanSpec spec;
  spec.sources.resize(1);
  spec.sources[0].shard_records = std::move(shard_records);
  spec.sources[0].shuffle = shuffle;
  if (shuffle == plan::Shuffle::kBlock) {
    spec.sources[0].block_records = 4;
    spec.sources[0].window_blocks = 3;
  }
  spec.global_batch = global_batch;
  spec.tail = tail;
  return std::make_shared<const plan::Plan>(*plan::Plan::Create(std::move(spec)));
}

// Records whose size is given by a function and whose bytes tell shard, record and offset.
class FakeRecords : public RecordSource {
 public:
  using SizeOf = std::function<uint64_t(uint32_t shard, uint64_t record)>;
  explicit FakeRecords(SizeOf size_of) : size_of_(std::move(size_of)) {}
  explicit FakeRecords(uint64_t bytes) : size_of_([bytes](uint32_t, uint64_t) { return bytes; }) {}

  uint64_t PayloadBytes(uint32_t shard, uint64_t record) const override {
    return size_of_(shard, record);
  }
  void Place(uint32_t shard, uint64_t record, wire::Skip* skip) const override {
    skip->shard = "shard-" + std::to_string(shard);
    skip->record = record;
    skip->offset = 1000 * record;
  }

  static uint8_t ByteAt(const plan::PlannedRecord& record, uint64_t offset) {
    uint64_t x = (record.shard * 0x100000001b3u + record.record) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 29) ^ offset) * 0xbf58476d1ce4e5b9u;
    return static_cast<uint8_t>(x >> 56);
  }
  std::vector<uint8_t> Bytes(const plan::PlannedRecord& record) const {
    std::vector<uint8_t> bytes(PayloadBytes(record.shard, record.record));
    for (uint64_t i = 0; i < bytes.size(); ++i) bytes[i] = ByteAt(record, i);
    return bytes;
  }

 private:
  const SizeOf size_of_;
};

// Reads the records of a job: fills in its checksums and returns its payload.
inline std::shared_ptr<Buffer> Read(const FakeRecords& records, ChunkJob* job) {
  auto payload = std::make_shared<Buffer>(Buffer::Allocate(job->payload_bytes));
  uint8_t* to = payload->data();
  job->header.crcs.clear();
  for (size_t i = 0; i < job->records.size(); ++i) {
    const std::vector<uint8_t> bytes = records.Bytes(job->records[i]);
    for (uint32_t at = 0; at < job->header.sizes[i]; ++at) {
      *to++ = bytes[job->header.record_offset + at];
    }
    job->header.crcs.push_back(Crc32c(bytes.data(), bytes.size()));
  }
  return payload;
}

}  // namespace emlio::session::testing
