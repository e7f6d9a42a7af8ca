// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>

#include "emlio/base/status.h"
#include "emlio/tfrecord/writer.h"

namespace emlio::convert {

// How far a conversion is; the bytes are those of the source. Totals of 0 are not known yet.
struct Progress {
  uint64_t records_done = 0;
  uint64_t records_total = 0;
  uint64_t bytes_done = 0;
  uint64_t bytes_total = 0;
};
// Called about ten times a second, and once at the end, by the thread that called the conversion.
// May be empty.
using ProgressFunction = std::function<void(const Progress&)>;

// More shards than this are a mistake: opening them would cost more than reading them.
inline constexpr uint64_t kMaxShards = 1'000'000;

// What every conversion needs to know about its destination.
struct ShardSetOptions {
  std::string destination;  // folder; made when missing
  // Shards are named <prefix>-<number>-of-<count>.tfrecord, both numbers with at least five digits.
  std::string prefix;
  // Replaces the shards that the folder holds already, of whatever prefix. Without it such a folder
  // is refused: two sets in one folder would be read as one data set.
  bool overwrite = false;
  int threads = 0;       // 0: one per processor; at most kMaxThreads
  std::stop_token stop;  // once stopped, the conversion soon ends with kCancelled
};

// What was written.
struct ShardSetSummary {
  uint64_t shards = 0;
  uint64_t records = 0;
  uint64_t payload_bytes = 0;
  uint64_t file_bytes = 0;
};

// What all workers of one conversion count together.
struct Tally {
  std::atomic<uint64_t> records{0};
  std::atomic<uint64_t> bytes{0};
};

// Where the function that makes one shard's records puts them.
class ShardSink {
 public:
  ShardSink(tfrecord::ShardWriter* writer, Tally* tally, std::stop_token stop)
      : writer_(writer), tally_(tally), stop_(std::move(stop)) {}
  // `source_bytes` only moves the progress. kCancelled when the conversion is being given up.
  Status Append(std::span<const uint8_t> payload, uint64_t source_bytes);

 private:
  tfrecord::ShardWriter* const writer_;
  Tally* const tally_;
  const std::stop_token stop_;
};

// Makes all records of one shard. Called once a shard, for several shards at a time.
using FillShard = std::function<Status(uint64_t shard, ShardSink* sink)>;

// kInvalidArgument: no shard, more of them than records, or more than kMaxShards.
Status CheckShardCount(uint64_t shards, uint64_t records);

// Makes the folder. kInvalidArgument: a prefix that cannot be part of a file name, or, unless
// options.overwrite, a folder that holds shards already.
Status CheckDestination(const ShardSetOptions& options);

// Writes a set of shards, several at a time, and returns when all is done. Each shard appears whole
// or not at all; when one fails, or the conversion is cancelled, the shards that this call has
// finished are removed again. Shards of other sets (with options.overwrite) are removed, their
// indexes too, once the new set is complete. `total` has the totals for `progress`.
// REQUIRES: CheckDestination(options) was ok; shards >= 1.
Result<ShardSetSummary> WriteShardSet(const ShardSetOptions& options, uint64_t shards,
                                      const FillShard& fill, const Progress& total,
                                      const ProgressFunction& progress);

// Shard i of n holds the records [FirstRecord(i), FirstRecord(i + 1)); sizes differ by one at most.
inline uint64_t FirstRecord(uint64_t shard, uint64_t shards, uint64_t records) {
  const uint64_t quotient = records / shards;
  const uint64_t remainder = records % shards;
  return shard * quotient + (shard < remainder ? shard : remainder);
}

}  // namespace emlio::convert
