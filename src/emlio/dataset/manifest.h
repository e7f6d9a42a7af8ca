// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "emlio/base/hash128.h"
#include "emlio/base/status.h"

namespace emlio::dataset {

// One line of a manifest.
struct ShardInfo {
  std::string name;  // unique in its data set; see docs in dataset.h for how it is made
  uint64_t records = 0;
  uint64_t payload_bytes = 0;     // sum over the records
  uint64_t max_record_bytes = 0;  // the largest payload
  Hash128 fingerprint{};          // see tfrecord/FORMAT.md, "Fingerprint"
  // Of the file's end, left out because it cannot be read (BadShardPolicy::kKeepReadable). No part
  // of the contents: hosts whose copies are damaged differently may have the same records.
  uint64_t unreadable_bytes = 0;

  bool HasContentsOf(const ShardInfo& other) const {
    return records == other.records && payload_bytes == other.payload_bytes &&
           max_record_bytes == other.max_record_bytes && fingerprint == other.fingerprint;
  }
  friend bool operator==(const ShardInfo&, const ShardInfo&) = default;
};

// A named, ordered set of shards: what a data set holds, without where it lies. The order is by
// shard name, bytewise (as unsigned bytes), and so is the same on every host. Immutable.
class Manifest {
 public:
  Manifest() = default;
  // Sorts by name. kInvalidArgument when a name occurs twice or is empty, kNotFound when there is
  // no record at all.
  static Result<Manifest> Create(std::vector<ShardInfo> shards);
  // The union over storage nodes. The same name with the same contents counts once; with other
  // contents it is kPlanMismatch, naming the shard.
  static Result<Manifest> Merge(std::span<const Manifest> manifests);

  const std::vector<ShardInfo>& shards() const { return shards_; }
  uint64_t records() const { return records_; }
  uint64_t payload_bytes() const { return payload_bytes_; }
  uint64_t max_record_bytes() const { return max_record_bytes_; }
  uint64_t unreadable_bytes() const;  // the sum
  // Names the exact contents: XXH3-128 over every shard's (name length u64 LE, name, records u64
  // LE, fingerprint), in order.
  const Hash128& digest() const { return digest_; }
  // Position of the shard with that name, or -1.
  int64_t Find(std::string_view name) const;

 private:
  std::vector<ShardInfo> shards_;
  uint64_t records_ = 0;
  uint64_t payload_bytes_ = 0;
  uint64_t max_record_bytes_ = 0;
  Hash128 digest_{};
};

}  // namespace emlio::dataset
