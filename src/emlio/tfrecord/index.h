// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "emlio/base/file.h"
#include "emlio/base/hash128.h"
#include "emlio/base/status.h"
#include "emlio/tfrecord/record.h"

namespace emlio::tfrecord {

// The name of an index that lies beside its shard is the shard's name and this.
inline constexpr char kIndexSuffix[] = ".emlio-index";

// Where records begin according to an index that was made earlier, of this shard or a copy of it.
class KnownOffsets {
 public:
  virtual ~KnownOffsets() = default;
  virtual uint64_t records() const = 0;
  // Header offset and payload length; nullopt when the entry cannot be. REQUIRES: below records().
  struct Entry {
    uint64_t offset = 0;
    uint64_t payload_bytes = 0;
  };
  virtual std::optional<Entry> Locate(uint64_t record) const = 0;
};

struct IndexOptions {
  uint64_t max_record_bytes = kDefaultMaxRecordBytes;
  // A damaged length field, or a cut, is no error: the shard is indexed up to there, and from there
  // on where `known` has records whose headers hold (FORMAT.md, "Damaged shards").
  bool keep_readable = false;
  std::span<const KnownOffsets* const> known;  // tried in order; borrowed
  // Called every few MiB with the number of bytes of the shard covered since the last call; the
  // calls of one successful Build add up to the size of the shard. May be empty.
  std::function<void(uint64_t bytes)> progress;
  // Once a stop is requested Build ends with kCancelled within 64 records.
  std::stop_token stop;
};

// What Build with `keep_readable` has met.
struct Damage {
  // Records whose length field is damaged and whose place is known: they are in the index.
  uint64_t bad_records = 0;
  Status first_bad;   // says what is wrong with the first of them, and where
  Status unreadable;  // the same of the record from which on nothing can be read; ok: none
};

// Where the records of one shard begin, and what the shard holds (FORMAT.md, "Index"). Immutable;
// const methods are thread-safe. In memory (8 bytes a record) when built, mapped when loaded.
class ShardIndex : public KnownOffsets {
 public:
  // Of a shard without records.
  explicit ShardIndex(const FileIdentity& shard);

  // Reads the headers and checksums of the whole shard, not its large payloads. Errors as
  // HeaderChecker has them; kShardChanged when the file changed meanwhile. With `keep_readable`
  // damage is no error but noted in `damage`, unless the file is something else altogether, or a
  // record is whole and over the limit.
  static Result<ShardIndex> Build(const RandomAccessFile& shard, const IndexOptions& options,
                                  Damage* damage = nullptr);

  // Opens a saved index; the time does not depend on the number of records. Every failure means
  // "build it again": kNotFound (there is none), kShardChanged (it is of another file, or of
  // another state of this one), kUnsupported (a version that this code does not know), kCorrupt.
  static Result<ShardIndex> Load(const std::string& index_path, const FileIdentity& shard);
  // The same, whatever shard and state it is of.
  static Result<ShardIndex> LoadAny(const std::string& index_path);

  // Replaces what was there. The index appears whole or not at all. REQUIRES: made by Build.
  Status Save(const std::string& index_path) const;

  // Reads the whole table and compares its checksum: kCorrupt when it is not what was saved. Always
  // ok for an index in memory.
  Status CheckTable() const;

  // Of the file that it was loaded from; empty for one in memory.
  const std::string& path() const { return path_; }

  uint64_t records() const override { return records_; }
  uint64_t payload_bytes() const { return payload_bytes_; }
  uint64_t max_record_bytes() const { return max_record_bytes_; }
  // Of the shard's end: what lies behind the records and cannot be read.
  uint64_t unreadable_bytes() const { return unreadable_bytes_; }
  const Hash128& fingerprint() const { return fingerprint_; }
  // Of the shard that was indexed; `device` is not kept in a saved index and is 0 then.
  const FileIdentity& shard_identity() const { return shard_; }

  // Where record `record` has its header, and its length; O(1). nullopt when the mapped index is
  // damaged (its file was changed behind our back). What it returns always lies inside the indexed
  // shard and is no longer than max_record_bytes(). REQUIRES: record < records().
  std::optional<Entry> Locate(uint64_t record) const override;
  // Brings the entry nearer to the processor, for a Locate that comes soon. Never faults.
  void Prefetch(uint64_t record) const;

 private:
  ShardIndex() = default;

  std::string path_;
  FileIdentity shard_;
  uint32_t table_crc_ = 0;  // of a loaded one
  uint64_t records_ = 0;
  uint64_t payload_bytes_ = 0;
  uint64_t max_record_bytes_ = 0;
  uint64_t unreadable_bytes_ = 0;
  Hash128 fingerprint_{};
  // records_ + 1 offsets, the last one where the last record ends; in one of the two.
  std::vector<uint64_t> offsets_;
  std::unique_ptr<MappedFile> mapped_;
};

}  // namespace emlio::tfrecord
