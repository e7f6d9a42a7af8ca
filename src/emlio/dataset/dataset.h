// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "emlio/base/status.h"
#include "emlio/dataset/manifest.h"

namespace emlio::dataset {

// Progress of a long operation over shards. May be called from several threads, one at a time.
struct Progress {
  uint64_t shards_done = 0;
  uint64_t shards_total = 0;
  uint64_t bytes_done = 0;  // bytes of shard files covered
  uint64_t bytes_total = 0;
};
using ProgressCallback = std::function<void(const Progress&)>;

struct DatasetOptions {
  // What users and peers call it: 1 to 255 bytes, no '/'.
  std::string name;
  // Files, directories (all regular files directly inside that do not start with '.' or end in
  // ".idx", ".txt", ".json", ".emlio-index" or ".tmp.*") or glob patterns (*, ?, [...]; "**" is not
  // special). A shard's name is its path relative to the part of its pattern before the first
  // component with a wildcard (for a plain file: its own directory). A file that several patterns
  // match (same device and inode) counts once; two different files with one name are
  // kInvalidArgument.
  // Those endings are skipped among what a wildcard matches, too; a component that exists exactly
  // as it is written is no wildcard. Details: find_shards.h.
  std::vector<std::string> patterns;
  // Where sidecar indexes are kept; empty means $XDG_CACHE_HOME/emlio/index, or
  // ~/.cache/emlio/index. With `index_beside`, next to the shards instead. An index that cannot be
  // written (read-only mount) is kept in memory, with a warning. One that lies in either place
  // already is used.
  std::string index_directory;
  bool index_beside = false;
  // A larger record is kLimitExceeded when the shard is opened. At most 2^32 - 1.
  uint64_t max_record_bytes = uint64_t{256} << 20;
  int index_threads = 0;      // 0: one per processor; at most kMaxThreads
  ProgressCallback progress;  // called while indexes are built; may be empty
};

// Where one record is.
struct RecordLocation {
  uint64_t payload_offset = 0;  // in the shard file; the record's header begins 12 bytes before
  uint64_t payload_bytes = 0;
};

// One piece of a record to be copied out. `begin`+`size` lie inside the payload (the whole payload
// for all but very large records).
struct GatherItem {
  uint32_t shard = 0;
  uint64_t record = 0;
  uint64_t begin = 0;
  uint64_t size = 0;
  uint8_t* to = nullptr;
  uint32_t crc32c = 0;  // out: the record's payload checksum as stored, unmasked
};

// The opened shards of a data set on this host. The inodes are kept open: files that are renamed
// or replaced later do not matter. Immutable after Open; all methods are thread-safe.
class Dataset {
 public:
  // Finds the shards, opens them and their indexes, building those that are missing or stale, in
  // parallel. kNotFound names a pattern without a match, or the patterns if there is no record at
  // all; kUnsupported names a compressed shard; kCorrupt / kTruncated name shard, record, offset.
  static Result<std::unique_ptr<Dataset>> Open(DatasetOptions options);
  virtual ~Dataset() = default;

  virtual const std::string& name() const = 0;
  virtual const Manifest& manifest() const = 0;
  // Path of the shard, for messages.
  virtual const std::string& path(uint32_t shard) const = 0;
  // REQUIRES: shard and record are inside the manifest. Kept in memory or in a mapped index: O(1),
  // no system call.
  virtual RecordLocation Locate(uint32_t shard, uint64_t record) const = 0;
  // A hint that Locate of this record comes soon: random places in a large index are cache misses.
  virtual void Prefetch(uint32_t shard, uint64_t record) const = 0;
  // Copies payload pieces and checksums out of the mapped shards. Checks that each record's header
  // still has the indexed length (and a valid length checksum): kShardChanged, naming shard,
  // record and offset, when it has not or when the file became shorter. Does not check payload
  // checksums: the receiver does.
  virtual Status Gather(std::span<GatherItem> items) const = 0;
  // Reads one record anew and compares its payload checksum. Ok, kCorrupt ("payload checksum",
  // naming shard, record, offset) or kShardChanged.
  virtual Status VerifyRecord(uint32_t shard, uint64_t record) const = 0;
};

}  // namespace emlio::dataset
