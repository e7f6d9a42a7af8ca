// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emlio/base/status.h"
#include "emlio/dataset/manifest.h"
#include "emlio/dataset/shard_data.h"

namespace emlio::dataset {

// Progress of a long operation over shards. May be called from several threads, one at a time.
struct Progress {
  uint64_t shards_done = 0;
  uint64_t shards_total = 0;
  uint64_t shards_indexed = 0;  // of those done: whose index had to be built
  uint64_t bytes_done = 0;      // bytes of shard files covered
  uint64_t bytes_total = 0;
};
using ProgressCallback = std::function<void(const Progress&)>;

// What is done with indexes that were saved earlier.
enum class IndexPolicy {
  // The usual: one that fits is used, wherever it lies. Tables of up to a million records are
  // checked; damage that only a larger one shows is found, and mended, when it is met. An index
  // that cannot be written (read-only mount) is kept in memory, with a warning.
  kUse,
  // Who asks for this wants good indexes in the place that the options name: tables are checked
  // whole, those elsewhere do not count, and one that cannot be written is an error.
  kEnsure,
  // The same, and all are built anew.
  kRebuild,
};

// What is done with a shard that is cut, or has a damaged length field, when it is indexed.
enum class BadShardPolicy : uint8_t {
  kError,  // the data set cannot be opened
  // What can be read is used: the records before that place, and those behind it that an index of
  // EMLIO's or DALI's knows, with a warning. FORMAT.md, "Damaged shards".
  kKeepReadable,
};
Result<BadShardPolicy> ParseBadShardPolicy(std::string_view name);  // "error", "keep-readable"
std::string_view BadShardPolicyName(BadShardPolicy policy);

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
  // ~/.cache/emlio/index. With `index_beside`, next to the shards instead.
  std::string index_directory;
  bool index_beside = false;
  IndexPolicy index_policy = IndexPolicy::kUse;
  BadShardPolicy on_bad_shard = BadShardPolicy::kError;
  // A larger record is kLimitExceeded when the shard is opened. At most 2^32 - 1.
  uint64_t max_record_bytes = uint64_t{256} << 20;
  int index_threads = 0;  // 0: one per processor, but at least 8; at most kMaxThreads
  IoMode io = IoMode::kAuto;
  // A data set of at most so many shards keeps a descriptor of each, also where they are mapped,
  // for Dataset::FindInMemory.
  uint64_t max_descriptors = 0;
  ProgressCallback progress;  // called while indexes are built; may be empty
  // Asked on the calling thread every 50 ms while shards are opened; true ends Open with
  // kCancelled soon. Indexes that are finished by then stay. May be null.
  bool (*is_interrupted)() = nullptr;
};

// Where one record is.
struct RecordLocation {
  uint64_t payload_offset = 0;  // in the shard file; the record's header begins 12 bytes before
  uint64_t payload_bytes = 0;
};

struct RecordId {
  uint32_t shard = 0;
  uint64_t record = 0;
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

// The same piece where it is stored.
struct StoredPiece {
  int descriptor = -1;  // of its shard; open as long as the data set
  uint64_t offset = 0;
  uint64_t size = 0;
  uint32_t crc32c = 0;
};

// A record that Gather or VerifyRecord found to be bad where it is stored.
struct BadItem {
  size_t position = 0;  // among the items
  Status reason;        // without the place: kCorrupt, or kIo when the system cannot read it
};

// The opened shards of a data set on this host. The inodes are kept open: files that are renamed
// or replaced later do not matter. What it says does not change after Open; all methods are
// thread-safe.
class Dataset {
 public:
  // Finds the shards, opens them and their indexes, building those that are missing or stale, in
  // parallel. kNotFound names a pattern without a match, or the patterns if there is no record at
  // all; kUnsupported names a compressed shard; kCorrupt / kTruncated name shard, record, offset.
  // kTruncated also for a shard that was cut between two records, if an index beside it tells.
  static Result<std::unique_ptr<Dataset>> Open(DatasetOptions options);
  virtual ~Dataset() = default;

  virtual const std::string& name() const = 0;
  virtual const Manifest& manifest() const = 0;
  // How it is read: kMmap or kPread.
  virtual IoMode io() const = 0;
  // Path of the shard, for messages.
  virtual const std::string& path(uint32_t shard) const = 0;
  // REQUIRES: shard and record are inside the manifest. Kept in memory or in a mapped index: O(1),
  // no system call. Without meaning where the index is damaged, which Gather finds out and mends.
  virtual RecordLocation Locate(uint32_t shard, uint64_t record) const = 0;
  // A hint that Locate of this record comes soon: random places in a large index are cache misses.
  virtual void Prefetch(uint32_t shard, uint64_t record) const = 0;
  // Has the system read those of the records that are not in memory, and returns without waiting
  // for them, unless the device's queue is full. A hint: never fails. Best in the order in which
  // they will be gathered, about 1 MiB at a time: whether any have to be read is found out by
  // samples.
  virtual void ReadAhead(std::span<const RecordId> records) const = 0;
  // Whether the last calls of ReadAhead found nothing to read: it is enough to ask now and then.
  virtual bool seems_in_memory() const = 0;
  // Copies payload pieces and checksums out of the shards. Checks that each record's header
  // still has the indexed length (and a valid length checksum), and not the payload checksums: the
  // receiver does. Errors name shard, record and offset:
  // - kShardChanged when the file became shorter or was written to.
  // - Where a header does not fit its index entry although size, time and inode of the file are
  //   what they were, one of both is damaged. The shard is indexed again, once, which takes long.
  //   When that succeeds the new index replaces the damaged one: kShardChanged too, for what was
  //   planned with the damaged one cannot be gathered. When it does not, but the index has the
  //   checksum with which it was saved, the record is bad: kCorrupt, and `bad` has it. The other
  //   items can be gathered without it.
  // - kIo, and `bad` has it, for a record of an unchanged file that the system cannot read.
  // `bad` keeps an ok reason unless one record is to blame; it may be null.
  virtual Status Gather(std::span<GatherItem> items, BadItem* bad) const = 0;
  Status Gather(std::span<GatherItem> items) const { return Gather(items, nullptr); }
  // Instead of Gather, where pieces are sent from the shards themselves: appends where they lie
  // (`to` is not looked at). Checks what Gather checks, never waits for storage, and fails without
  // saying why where Gather does, where a piece does not seem to be in memory, and where that
  // cannot be found out: on some file systems, and where shards have no descriptors. After false
  // `pieces` is unspecified.
  virtual bool FindInMemory(std::span<const GatherItem> items,
                            std::vector<StoredPiece>* pieces) const {
    (void)items;
    (void)pieces;
    return false;
  }
  // Whether memory is too small to keep what was read, so that records which are not wanted again
  // soon should be let go. Never with kMmap.
  virtual bool is_larger_than_memory() const = 0;
  // Lets go of the memory that holds these records for the next who reads them. A hint.
  virtual void LetGo(std::span<const GatherItem> items) const = 0;
  // kShardChanged when the file has another size or time than when it was opened: records that
  // still fit their index may be other ones. Another file under the name, or none, does not matter.
  virtual Status CheckUnchanged(uint32_t shard) const = 0;
  // Reads one record anew and compares its payload checksum. Ok, kCorrupt ("payload checksum",
  // naming shard, record, offset; `bad` has it), or an error of Gather.
  virtual Status VerifyRecord(uint32_t shard, uint64_t record, BadItem* bad) const = 0;
  Status VerifyRecord(uint32_t shard, uint64_t record) const {
    return VerifyRecord(shard, record, nullptr);
  }
};

}  // namespace emlio::dataset
