// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "emlio/base/hash128.h"
#include "emlio/base/status.h"
#include "emlio/convert/conversion_state.h"

namespace emlio::convert {

// How far a conversion is; the bytes are those of the source. Totals of 0 are not known yet.
struct Progress {
  uint64_t records_done = 0;
  uint64_t records_total = 0;
  uint64_t bytes_done = 0;
  uint64_t bytes_total = 0;
  // Of those done: what an earlier run had finished.
  uint64_t records_kept = 0;
  uint64_t bytes_kept = 0;
};
// Called about ten times a second, and once at the end, by the thread that called the conversion.
// May be empty.
using ProgressFunction = std::function<void(const Progress&)>;

// More shards than this are a mistake: opening them would cost more than reading them.
inline constexpr uint64_t kMaxShards = 1'000'000;

// A shard of this size costs next to nothing to open, and is quickly copied or made again.
inline constexpr uint64_t kGoodShardBytes = uint64_t{128} << 20;

// What every conversion needs to know about its destination.
struct ShardSetOptions {
  std::string destination;  // folder; made when missing
  // Shards are named <prefix>-<number>-of-<count>.tfrecord, both numbers with at least five digits,
  // unless the set brings names of its own.
  std::string prefix;
  // Replaces the shards that the folder holds already, with their indexes, and drops an unfinished
  // conversion with other options. Without it such a folder is refused: two sets in one folder
  // would be read as one data set. Shards are what is named as above, with whatever prefix, or as
  // one of the new set; other files that would be read as shards are refused in any case, for they
  // may be somebody's own.
  bool overwrite = false;
  // Writes nothing, but proves that the shards that are there are those that the source gives.
  bool check = false;
  int threads = 0;       // 0: one per processor; at most kMaxThreads
  std::stop_token stop;  // once stopped, the conversion soon ends with kCancelled
};

// What was written, or checked.
struct ShardSetSummary {
  uint64_t shards = 0;
  uint64_t records = 0;
  uint64_t payload_bytes = 0;
  uint64_t file_bytes = 0;
  uint64_t kept_shards = 0;  // of these: finished by an earlier run
  uint64_t recommended_shards = 0;
};

// What all workers of one conversion count together.
struct Tally {
  std::atomic<uint64_t> records{0};
  std::atomic<uint64_t> bytes{0};
  std::atomic<uint64_t> records_kept{0};
  std::atomic<uint64_t> bytes_kept{0};

  // These counts, with the totals of `total`.
  Progress Of(Progress total) const;
};

// Where the function that makes one shard's records puts them.
class ShardSink {
 public:
  virtual ~ShardSink() = default;

  // `source_bytes` only moves the progress; `source` says in messages what the record is made of.
  // kCancelled when the conversion is being given up.
  Status Append(std::span<const uint8_t> payload, uint64_t source_bytes, std::string_view source);
  uint64_t source_bytes() const { return source_bytes_; }

 protected:
  ShardSink(Tally* tally, std::stop_token stop) : tally_(tally), stop_(std::move(stop)) {}

 private:
  virtual Status Take(std::span<const uint8_t> payload, std::string_view source) = 0;

  Tally* const tally_;
  const std::stop_token stop_;
  uint64_t source_bytes_ = 0;
};

// A set of shards to be made: always the same bytes for the same set.
struct ShardSet {
  // Everything that decides about the bytes, but what `source` covers; the first names the kind of
  // conversion and the version of its records. REQUIRES: as StateHead has it.
  ConversionOptions options;
  uint64_t shards = 1;
  // Of the shards, where the prefix and the number do not make it.
  std::vector<std::string> names;
  // Makes all records of one shard. Called once a shard, for several shards at a time.
  std::function<Status(uint64_t shard, ShardSink* sink)> fill;
  // Names what one shard is made of: another value means other records. Several at a time.
  std::function<Hash128(uint64_t shard)> source;
  // Other files of the destination: name and content.
  std::vector<std::pair<std::string, std::string>> files;
  Progress total;  // the totals

  // Of one shard of this set.
  std::string Name(const ShardSetOptions& shard_options, uint64_t shard) const;
};

// What can be told before anything is looked at. kInvalidArgument: a prefix that cannot be part of
// a file name, no destination, a number of threads.
Status CheckShardSetOptions(const ShardSetOptions& options);

// The same for a set that brings names of its own.
Status CheckDestination(const ShardSetOptions& options);

// kInvalidArgument: no shard, more of them than records, or more than kMaxShards.
Status CheckShardCount(uint64_t shards, uint64_t records);

// How many shards so many bytes should be split into: about kGoodShardBytes each. `records` is 0
// where nobody knows yet how many there are.
uint64_t RecommendedShards(uint64_t bytes, uint64_t records);

// Writes the set, several shards at a time, and returns when all is done; with options.check, reads
// and compares it instead.
//
// Until all of it is finished it lies in a folder of its own inside the destination (STATE.md).
// After a failure or a cancellation, or when the process was killed, the shards that are finished
// stay there, and the same call goes on with them; the destination itself is as it was. Shards of
// other sets (with options.overwrite) are removed, with their indexes, when the new set takes their
// place.
//
// kInvalidArgument, unless options.overwrite: the destination holds shards already, or an
// unfinished conversion with other options. kPermissionDenied: another one is at work there.
// Checking: kCorrupt names the shard, the record and what it should have been made of; kNotFound a
// shard that is missing.
// REQUIRES: CheckShardSetOptions and CheckShardCount were ok; or CheckDestination, for 1 to
// kMaxShards names that are all different.
Result<ShardSetSummary> MakeShardSet(const ShardSetOptions& options, const ShardSet& set,
                                     const ProgressFunction& progress);

// Shard i of n holds the records [FirstRecord(i), FirstRecord(i + 1)); sizes differ by one at most.
inline uint64_t FirstRecord(uint64_t shard, uint64_t shards, uint64_t records) {
  const uint64_t quotient = records / shards;
  const uint64_t remainder = records % shards;
  return shard * quotient + (shard < remainder ? shard : remainder);
}

}  // namespace emlio::convert
