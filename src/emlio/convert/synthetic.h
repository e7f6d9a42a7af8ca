// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "emlio/base/status.h"
#include "emlio/convert/shard_set.h"

namespace emlio::convert {

struct SyntheticOptions : ShardSetOptions {
  SyntheticOptions() { prefix = "synthetic"; }

  uint64_t records = 0;
  uint64_t record_bytes = 0;  // of the raw payload, or of the feature `data`
  uint64_t shards = 1;
  uint64_t seed = 0;
  bool as_example = false;
};

// Writes records for tests and measurements: record i of the data set (in shard order) is
//   raw:      i as u64 LE, then record_bytes - 8 bytes that look random
//   Example:  feature `id` (int64): i; feature `data` (bytes): record_bytes such bytes
// The bytes depend on seed and i only, and do not compress. kInvalidArgument: no records, a
// number of shards that CheckShardCount refuses, a raw record below 8 bytes or a record of more
// than 256 MiB.
Result<ShardSetSummary> SyntheticShards(const SyntheticOptions& options,
                                        const ProgressFunction& progress = {});

}  // namespace emlio::convert
