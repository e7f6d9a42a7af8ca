// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/tfrecord/reader.h"

#include <algorithm>
#include <cstring>

namespace emlio::tfrecord {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

}  // namespace

Result<std::unique_ptr<ShardReader>> ShardReader::Open(const RandomAccessFile* file,
                                                       uint64_t max_record_bytes) {
  EMLIO_ASSIGN_OR_RETURN(const FileIdentity identity, file->Identity());
  return std::unique_ptr<ShardReader>(new ShardReader(file, identity.size_bytes, max_record_bytes));
}

Result<bool> ShardReader::Next(std::span<const uint8_t>* payload) {
  record_ = next_record_;
  offset_ = next_offset_;
  if (offset_ == checker_.file_bytes) return false;
  EMLIO_ASSIGN_OR_RETURN(const auto header, Fetch(offset_, kHeaderBytes));
  uint64_t payload_bytes = 0;
  EMLIO_RETURN_IF_ERROR(checker_.Check(record_, offset_, header, &payload_bytes));
  // From here on the record is known to lie inside the file: its size is safe to allocate.
  const size_t body_bytes = payload_bytes + kFooterBytes;
  EMLIO_ASSIGN_OR_RETURN(const auto body, Fetch(offset_ + kHeaderBytes, body_bytes));
  if (body.size() < body_bytes) {
    return Truncated(Place(checker_.file.path(), record_, offset_) +
                     ": truncated while it was read: the file became shorter");
  }
  next_record_ = record_ + 1;
  next_offset_ = offset_ + payload_bytes + kFramingBytes;
  const uint32_t stored = UnmaskCrc(LoadLe<uint32_t>(body.data() + payload_bytes));
  const uint32_t computed = Crc32c(body.data(), payload_bytes);
  if (stored != computed) {
    return PayloadChecksumError(checker_.file.path(), record_, offset_, stored, computed);
  }
  *payload = body.first(payload_bytes);
  return true;
}

Result<std::span<const uint8_t>> ShardReader::Fetch(uint64_t from, size_t size) {
  // Reading only goes forward: `from` is never before the buffer.
  const uint64_t skip = from - buffer_offset_;
  if (skip > buffered_bytes_ || size > buffered_bytes_ - skip) {
    const size_t kept = skip < buffered_bytes_ ? buffered_bytes_ - static_cast<size_t>(skip) : 0;
    if (kept > 0) std::memmove(buffer_.data(), buffer_.data() + skip, kept);
    const size_t usual = static_cast<size_t>(std::min<uint64_t>(kBufferBytes, checker_.file_bytes));
    buffer_.resize(std::max({buffer_.size(), usual, size}));
    buffer_offset_ = from;
    buffered_bytes_ = kept;
    // Never past the size that was taken at Open, so that a growing file reads as it was.
    const uint64_t left = checker_.file_bytes - (from + kept);
    const size_t wanted = static_cast<size_t>(std::min<uint64_t>(buffer_.size() - kept, left));
    EMLIO_ASSIGN_OR_RETURN(const size_t read,
                           checker_.file.ReadAt(from + kept, wanted, buffer_.data() + kept));
    buffered_bytes_ += read;
  }
  const size_t begin = static_cast<size_t>(from - buffer_offset_);
  return std::span<const uint8_t>(buffer_.data() + begin, std::min(size, buffered_bytes_ - begin));
}

}  // namespace emlio::tfrecord
