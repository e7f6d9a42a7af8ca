// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "emlio/base/status.h"
#include "emlio/convert/shard_set.h"
#include "emlio/tfrecord/record.h"

namespace emlio::convert {

struct RecompressOptions : ShardSetOptions {
  std::vector<std::string> sources;  // paths
  uint64_t max_record_bytes = tfrecord::kDefaultMaxRecordBytes;
};

struct RecompressSummary : ShardSetSummary {
  uint64_t gzip = 0;  // so many of the sources are such
  uint64_t zlib = 0;
  uint64_t plain = 0;
  uint64_t source_bytes = 0;  // of all sources
};

// Turns TFRecord shards that are compressed as a whole, with gzip or zlib, into plain ones with the
// same records in the same order: one for each source, of the same name without an ending .gz,
// .gzip, .zz or .zlib. The content decides what a source is, not its name; one that is not
// compressed is copied. All checksums are verified on the way.
// kInvalidArgument: no source, two of one name, or one that lies in the destination, where both
// would be read as one data set. kUnsupported: compressed otherwise. kCorrupt, kTruncated,
// kLimitExceeded: name the source, the record and the offset in the decompressed data.
// kShardChanged: a source changed while it was read.
Result<RecompressSummary> RecompressShards(const RecompressOptions& options,
                                           const ProgressFunction& progress = {});

}  // namespace emlio::convert
