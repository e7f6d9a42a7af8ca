// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/tfrecord/index.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "emlio/tfrecord/content.h"
#include "emlio/tfrecord/fingerprint.h"

namespace emlio::tfrecord {
namespace {

// FORMAT.md, "Index".
constexpr std::array<uint8_t, 8> kMagic = {'E', 'M', 'L', 'I', 'O', 'I', 'X', '\n'};
constexpr uint32_t kVersion = 2;
constexpr size_t kIndexHeaderBytes = 96;
constexpr size_t kAtVersion = 8;
constexpr size_t kAtRecords = 16;
constexpr size_t kAtPayloadBytes = 24;
constexpr size_t kAtMaxRecordBytes = 32;
constexpr size_t kAtShardBytes = 40;
constexpr size_t kAtShardMtimeNs = 48;
constexpr size_t kAtShardInode = 56;
constexpr size_t kAtFingerprint = 64;
constexpr size_t kAtTableChecksum = 80;
constexpr size_t kAtUnreadableBytes = 84;
constexpr size_t kAtChecksum = 92;

// Small records are scanned in windows of this size. Behind a payload of at least kSparseBytes only
// the few bytes between two payloads are read.
constexpr size_t kWindowBytes = size_t{256} << 10;
constexpr size_t kSparseBytes = size_t{16} << 10;
constexpr uint64_t kProgressBytes = uint64_t{4} << 20;
constexpr uint64_t kStopEveryRecords = 64;

// Forward-only reads of a few bytes each: through a window while records are small, alone
// otherwise.
class Scanner {
 public:
  Scanner(const RandomAccessFile& file, uint64_t file_bytes)
      : file_(file),
        file_bytes_(file_bytes),
        window_(std::min<uint64_t>(kWindowBytes, std::max<uint64_t>(file_bytes, kFramingBytes))) {}

  // Up to `size` bytes at `offset`, fewer at the end of the file; valid until the next call.
  // `sparse`: the bytes behind these will probably not be asked for.
  Result<std::span<const uint8_t>> Peek(uint64_t offset, size_t size, bool sparse) {
    const bool inside = offset >= begin_ && offset - begin_ <= valid_bytes_ &&
                        size <= valid_bytes_ - (offset - begin_);
    if (!inside) {
      const uint64_t left = file_bytes_ - std::min(offset, file_bytes_);
      const size_t wanted =
          static_cast<size_t>(std::min<uint64_t>(sparse ? size : window_.size(), left));
      EMLIO_ASSIGN_OR_RETURN(valid_bytes_, file_.ReadAt(offset, wanted, window_.data()));
      begin_ = offset;
    }
    const size_t at = static_cast<size_t>(offset - begin_);
    return std::span<const uint8_t>(window_.data() + at, std::min(size, valid_bytes_ - at));
  }

 private:
  const RandomAccessFile& file_;
  const uint64_t file_bytes_;
  std::vector<uint8_t> window_;
  uint64_t begin_ = 0;
  size_t valid_bytes_ = 0;
};

bool SameFile(const FileIdentity& a, const FileIdentity& b) {
  return a.size_bytes == b.size_bytes && a.mtime_ns == b.mtime_ns && a.inode == b.inode;
}

Status Damaged(const std::string& index_path, std::string_view what) {
  return Corrupt(fmt::format("index {} is damaged or not an index: {}", index_path, what));
}

// Whether the header of a record is damaged, or the shard cut there; else it is whole and over the
// limit, or cannot be read at all.
bool IsDamage(const Status& status, uint64_t file_bytes, uint64_t offset, uint64_t payload_bytes) {
  return status.code() == Code::kCorrupt || status.code() == Code::kTruncated ||
         status.code() == Code::kUnsupported ||
         (status.code() == Code::kLimitExceeded && !FitsAt(file_bytes, offset, payload_bytes));
}

// Whether the file is known to be something other than a shard.
Result<bool> IsOtherContent(const RandomAccessFile& file) {
  std::array<uint8_t, kContentHeadBytes> head;
  EMLIO_ASSIGN_OR_RETURN(const size_t head_bytes, file.ReadAt(0, head.size(), head.data()));
  return RecognizeContent({head.data(), head_bytes}) != Content::kUnknown;
}

// Finds the records behind a damaged length field.
class Salvager {
 public:
  Salvager(const HeaderChecker& checker, std::span<const KnownOffsets* const> known)
      : checker_(checker), known_(known) {}

  // The length of a record whose header does not hold; nullopt when nobody knows it. An index is
  // believed when a later record has its header where the index says, or the file its end: of
  // another shard's index no header holds.
  using MaybeBytes = std::optional<uint64_t>;
  Result<MaybeBytes> PayloadBytes(uint64_t record, uint64_t offset) {
    for (const KnownOffsets* known : known_) {
      if (record >= known->records()) continue;
      const auto entry = Whole(*known, record);
      if (!entry.has_value() || entry->offset != offset) continue;
      if (record < confirmed_until_ && known == confirmed_) return MaybeBytes(entry->payload_bytes);
      EMLIO_ASSIGN_OR_RETURN(const uint64_t next, NextThatHolds(*known, record, *entry));
      if (next == 0) continue;
      confirmed_ = known;
      confirmed_until_ = next;
      return MaybeBytes(entry->payload_bytes);
    }
    return MaybeBytes();
  }

 private:
  // The entry if such a record can be in the shard.
  std::optional<KnownOffsets::Entry> Whole(const KnownOffsets& known, uint64_t record) const {
    auto entry = known.Locate(record);
    if (entry.has_value() && (entry->payload_bytes > checker_.max_record_bytes ||
                              !FitsAt(checker_.file_bytes, entry->offset, entry->payload_bytes))) {
      entry.reset();
    }
    return entry;
  }

  // The next record whose header holds where `known` has it, or the number behind the last one if
  // it is `record` itself and ends with the file; 0: none.
  Result<uint64_t> NextThatHolds(const KnownOffsets& known, uint64_t record,
                                 KnownOffsets::Entry entry) const {
    uint64_t end = entry.offset + entry.payload_bytes + kFramingBytes;
    if (end == checker_.file_bytes) return record + 1;
    for (uint64_t next = record + 1; next < known.records(); ++next) {
      const auto later = Whole(known, next);
      if (!later.has_value() || later->offset != end) return 0;
      std::array<uint8_t, kHeaderBytes> header;
      EMLIO_ASSIGN_OR_RETURN(const size_t read,
                             checker_.file.ReadAt(end, header.size(), header.data()));
      uint64_t payload_bytes = 0;
      if (read == header.size() && DecodeHeader(header.data(), &payload_bytes) &&
          payload_bytes == later->payload_bytes) {
        return next;
      }
      end += later->payload_bytes + kFramingBytes;
    }
    return 0;
  }

  const HeaderChecker& checker_;
  const std::span<const KnownOffsets* const> known_;
  const KnownOffsets* confirmed_ = nullptr;
  uint64_t confirmed_until_ = 0;
};

}  // namespace

ShardIndex::ShardIndex(const FileIdentity& shard)
    : shard_(shard), fingerprint_(Xxh3(nullptr, 0)), offsets_(1, shard.size_bytes) {}

Result<ShardIndex> ShardIndex::Build(const RandomAccessFile& shard, const IndexOptions& options,
                                     Damage* damage) {
  EMLIO_ASSIGN_OR_RETURN(const FileIdentity identity, shard.Identity());
  const uint64_t file_bytes = identity.size_bytes;
  const HeaderChecker checker{shard, file_bytes, options.max_record_bytes};
  Scanner scanner(shard, file_bytes);
  Salvager salvager(checker, options.known);
  Fingerprinter fingerprinter;
  ShardIndex index;
  index.shard_ = identity;
  uint64_t offset = 0;
  uint64_t reported_bytes = 0;
  bool sparse = false;
  while (offset < file_bytes) {
    EMLIO_ASSIGN_OR_RETURN(const auto header, scanner.Peek(offset, kHeaderBytes, sparse));
    uint64_t payload_bytes = 0;
    Status status = checker.Check(index.records_, offset, header, &payload_bytes);
    if (!status.ok()) {
      if (!options.keep_readable || !IsDamage(status, file_bytes, offset, payload_bytes)) {
        return status;
      }
      EMLIO_ASSIGN_OR_RETURN(const auto known, salvager.PayloadBytes(index.records_, offset));
      if (!known.has_value()) {
        EMLIO_ASSIGN_OR_RETURN(const bool is_other,
                               index.records_ == 0 ? IsOtherContent(shard) : Result<bool>(false));
        if (is_other) return status;
        if (damage != nullptr) damage->unreadable = std::move(status);
        index.unreadable_bytes_ = file_bytes - offset;
        break;
      }
      payload_bytes = *known;
      if (damage != nullptr && damage->bad_records++ == 0) damage->first_bad = std::move(status);
    }
    sparse = payload_bytes >= kSparseBytes;
    // The checksum and the header behind it are neighbours: one read.
    const uint64_t footer_offset = offset + kHeaderBytes + payload_bytes;
    EMLIO_ASSIGN_OR_RETURN(const auto footer,
                           scanner.Peek(footer_offset, kFooterBytes + kHeaderBytes, sparse));
    if (footer.size() < kFooterBytes) break;  // became shorter: found out below
    fingerprinter.Add(payload_bytes, footer.data());
    index.offsets_.push_back(offset);
    ++index.records_;
    index.payload_bytes_ += payload_bytes;
    index.max_record_bytes_ = std::max(index.max_record_bytes_, payload_bytes);
    offset = footer_offset + kFooterBytes;
    if (options.progress && offset - reported_bytes >= kProgressBytes) {
      options.progress(offset - std::exchange(reported_bytes, offset));
    }
    if (index.records_ % kStopEveryRecords == 0 && options.stop.stop_requested()) {
      return Cancelled(fmt::format("indexing shard {} was interrupted", shard.path()));
    }
  }
  EMLIO_ASSIGN_OR_RETURN(const FileIdentity after, shard.Identity());
  if (after != identity) {
    return ShardChanged(fmt::format(
        "shard {} was changed while it was indexed: wait until it is written", shard.path()));
  }
  if (offset + index.unreadable_bytes_ != file_bytes) {
    return IoError(fmt::format("shard {}: reading ends at offset {}, but the file has {} bytes",
                               shard.path(), offset, file_bytes));
  }
  if (options.progress && file_bytes > reported_bytes) {
    options.progress(file_bytes - reported_bytes);
  }
  index.offsets_.push_back(offset);
  index.offsets_.shrink_to_fit();
  index.fingerprint_ = fingerprinter.Digest();
  return index;
}

Result<ShardIndex> ShardIndex::Load(const std::string& index_path, const FileIdentity& shard) {
  EMLIO_ASSIGN_OR_RETURN(ShardIndex index, LoadAny(index_path));
  if (!SameFile(index.shard_, shard)) {
    return ShardChanged(fmt::format(
        "index {} is of another state of the shard ({} records in {} bytes; the file has {} bytes "
        "now)",
        index_path, index.records_, index.shard_.size_bytes, shard.size_bytes));
  }
  return index;
}

Result<ShardIndex> ShardIndex::LoadAny(const std::string& index_path) {
  ShardIndex index;
  index.path_ = index_path;
  EMLIO_ASSIGN_OR_RETURN(index.mapped_, MappedFile::Map(index_path));
  const MappedFile& file = *index.mapped_;
  if (file.size() < kIndexHeaderBytes) return Damaged(index_path, "it is too short");
  std::array<uint8_t, kIndexHeaderBytes> header;
  const CopyRange whole_header{file.data(), header.data(), header.size()};
  if (!GuardedCopy({&whole_header, 1})) return Damaged(index_path, "it became shorter");

  if (!std::equal(kMagic.begin(), kMagic.end(), header.begin())) {
    return Damaged(index_path, "it does not begin as an index");
  }
  if (const auto version = LoadLe<uint32_t>(&header[kAtVersion]); version != kVersion) {
    return Unsupported(fmt::format("index {} has version {}, this EMLIO knows version {}",
                                   index_path, version, kVersion));
  }
  if (LoadLe<uint32_t>(&header[kAtChecksum]) != Crc32c(header.data(), kAtChecksum)) {
    return Damaged(index_path, "the header checksum does not hold");
  }
  index.records_ = LoadLe<uint64_t>(&header[kAtRecords]);
  index.payload_bytes_ = LoadLe<uint64_t>(&header[kAtPayloadBytes]);
  index.max_record_bytes_ = LoadLe<uint64_t>(&header[kAtMaxRecordBytes]);
  index.shard_.size_bytes = LoadLe<uint64_t>(&header[kAtShardBytes]);
  index.shard_.mtime_ns = LoadLe<int64_t>(&header[kAtShardMtimeNs]);
  index.shard_.inode = LoadLe<uint64_t>(&header[kAtShardInode]);
  std::memcpy(index.fingerprint_.data(), &header[kAtFingerprint], index.fingerprint_.size());
  index.table_crc_ = LoadLe<uint32_t>(&header[kAtTableChecksum]);
  index.unreadable_bytes_ = LoadLe<uint64_t>(&header[kAtUnreadableBytes]);

  const uint64_t table_bytes = file.size() - kIndexHeaderBytes;
  if (table_bytes % sizeof(uint64_t) != 0 || table_bytes / sizeof(uint64_t) == 0 ||
      table_bytes / sizeof(uint64_t) - 1 != index.records_) {
    return Damaged(index_path, "its size does not fit its record count");
  }
  // records_ is bounded by the size of the index, so the product below cannot overflow.
  const uint64_t framing_bytes = index.records_ * kFramingBytes;
  if (index.unreadable_bytes_ > index.shard_.size_bytes ||
      framing_bytes > index.shard_.size_bytes - index.unreadable_bytes_ ||
      index.payload_bytes_ != index.shard_.size_bytes - index.unreadable_bytes_ - framing_bytes ||
      index.max_record_bytes_ > index.payload_bytes_) {
    return Damaged(index_path, "its sizes contradict each other");
  }
  return index;
}

Status ShardIndex::Save(const std::string& index_path) const {
  if (mapped_ != nullptr) return InternalError("a loaded index is not saved again");
  std::array<uint8_t, kIndexHeaderBytes> header{};
  std::copy(kMagic.begin(), kMagic.end(), header.begin());
  StoreLe<uint32_t>(&header[kAtVersion], kVersion);
  StoreLe<uint64_t>(&header[kAtRecords], records_);
  StoreLe<uint64_t>(&header[kAtPayloadBytes], payload_bytes_);
  StoreLe<uint64_t>(&header[kAtMaxRecordBytes], max_record_bytes_);
  StoreLe<uint64_t>(&header[kAtShardBytes], shard_.size_bytes);
  StoreLe<int64_t>(&header[kAtShardMtimeNs], shard_.mtime_ns);
  StoreLe<uint64_t>(&header[kAtShardInode], shard_.inode);
  std::memcpy(&header[kAtFingerprint], fingerprint_.data(), fingerprint_.size());
  StoreLe<uint32_t>(&header[kAtTableChecksum],
                    Crc32c(offsets_.data(), offsets_.size() * sizeof(uint64_t)));
  StoreLe<uint64_t>(&header[kAtUnreadableBytes], unreadable_bytes_);
  StoreLe<uint32_t>(&header[kAtChecksum], Crc32c(header.data(), kAtChecksum));

  EMLIO_ASSIGN_OR_RETURN(auto file, AtomicFile::Create(index_path));
  EMLIO_RETURN_IF_ERROR(file->Append(header.data(), header.size()));
  // In pieces: the file buffers what it is given.
  constexpr size_t kPieceOffsets = size_t{1} << 17;
  for (size_t at = 0; at < offsets_.size(); at += kPieceOffsets) {
    const size_t count = std::min(kPieceOffsets, offsets_.size() - at);
    EMLIO_RETURN_IF_ERROR(file->Append(offsets_.data() + at, count * sizeof(uint64_t)));
  }
  return file->Commit();
}

Status ShardIndex::CheckTable() const {
  if (mapped_ == nullptr) return OkStatus();
  std::vector<uint8_t> piece(kWindowBytes);
  uint32_t crc = 0;
  for (size_t at = kIndexHeaderBytes; at < mapped_->size(); at += piece.size()) {
    piece.resize(std::min(kWindowBytes, mapped_->size() - at));
    const CopyRange range{mapped_->data() + at, piece.data(), piece.size()};
    if (!GuardedCopy({&range, 1})) return Damaged(path_, "it became shorter");
    crc = Crc32c(piece.data(), piece.size(), crc);
  }
  return crc == table_crc_ ? OkStatus() : Damaged(path_, "the table's checksum does not hold");
}

void ShardIndex::Prefetch(uint64_t record) const {
  const void* table = offsets_.data();
  if (mapped_ != nullptr) table = mapped_->data() + kIndexHeaderBytes;
  __builtin_prefetch(static_cast<const uint64_t*>(table) + record);
}

std::optional<ShardIndex::Entry> ShardIndex::Locate(uint64_t record) const {
  std::array<uint64_t, 2> bounds;
  if (mapped_ == nullptr) {
    bounds = {offsets_[record], offsets_[record + 1]};
  } else {
    const CopyRange range{mapped_->data() + kIndexHeaderBytes + record * sizeof(uint64_t),
                          reinterpret_cast<uint8_t*>(bounds.data()), sizeof(bounds)};
    if (!GuardedCopy({&range, 1})) return std::nullopt;
  }
  const auto [begin, end] = bounds;
  if (end > shard_.size_bytes - unreadable_bytes_ || begin > end || end - begin < kFramingBytes)
    return std::nullopt;
  const uint64_t payload_bytes = end - begin - kFramingBytes;
  if (payload_bytes > max_record_bytes_) return std::nullopt;
  return Entry{begin, payload_bytes};
}

}  // namespace emlio::tfrecord
