// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/convert/compressed_shard.h"

#include <fmt/format.h>

#include <algorithm>

#include "emlio/base/crc32c.h"
#include "emlio/base/endian.h"
#include "emlio/tfrecord/content.h"

namespace emlio::convert {
namespace {

// Many small records for one call of the inflater.
constexpr size_t kWindowBytes = size_t{256} << 10;

}  // namespace

CompressedShardReader::CompressedShardReader(const RandomAccessFile* file, Compression compression,
                                             uint64_t max_record_bytes)
    : inflater_(file, compression),
      max_record_bytes_(max_record_bytes),
      name_(file->path() + " (decompressed)"),
      window_(kWindowBytes) {}

Status CompressedShardReader::FillWindow() {
  if (window_begin_ < window_end_ || at_end_) return OkStatus();
  const Result<size_t> read = inflater_.Read(window_);
  if (!read.ok()) {
    return {read.status().code(), fmt::format("{}: {}", Place(), read.status().message())};
  }
  window_begin_ = 0;
  window_end_ = *read;
  at_end_ = window_end_ == 0;
  return OkStatus();
}

Status CompressedShardReader::Take(uint64_t size, std::vector<uint8_t>* to) {
  while (size > 0) {
    EMLIO_RETURN_IF_ERROR(FillWindow());
    if (at_end_) return OkStatus();
    const size_t piece = std::min<uint64_t>(size, window_end_ - window_begin_);
    const auto from = window_.begin() + static_cast<std::ptrdiff_t>(window_begin_);
    to->insert(to->end(), from, from + static_cast<std::ptrdiff_t>(piece));
    window_begin_ += piece;
    size -= piece;
  }
  return OkStatus();
}

// REQUIRES: the first header does not hold, and only it was taken.
Status CompressedShardReader::ExplainFirstHeader() const {
  std::vector<uint8_t> head = header_;
  head.insert(head.end(), window_.begin() + static_cast<std::ptrdiff_t>(window_begin_),
              window_.begin() + static_cast<std::ptrdiff_t>(window_end_));
  head.resize(std::min(head.size(), tfrecord::kContentHeadBytes));
  const auto content = tfrecord::RecognizeContent(head);
  return Corrupt(fmt::format("{}: length checksum does not hold; {}", Place(),
                             content == tfrecord::Content::kUnknown
                                 ? "this is not a compressed TFRecord file, or it is damaged"
                                 : fmt::format("not a TFRecord file was compressed but {}",
                                               tfrecord::ContentName(content))));
}

Result<bool> CompressedShardReader::ReadRecord(std::span<const uint8_t>* payload) {
  header_.clear();
  EMLIO_RETURN_IF_ERROR(Take(tfrecord::kHeaderBytes, &header_));
  if (header_.empty()) return false;
  uint64_t payload_bytes = 0;
  const bool whole = header_.size() == tfrecord::kHeaderBytes;
  if (whole ? !tfrecord::DecodeHeader(header_.data(), &payload_bytes) : record_ == 0) {
    if (record_ == 0) return ExplainFirstHeader();
    return Corrupt(fmt::format("{}: length checksum does not hold", Place()));
  }
  if (!whole) {
    return Truncated(
        fmt::format("{}: truncated inside the record header ({} of {} bytes); its "
                    "writer never finished",
                    Place(), header_.size(), tfrecord::kHeaderBytes));
  }
  if (payload_bytes > max_record_bytes_) {
    return LimitExceeded(
        fmt::format("{}: the record claims {} bytes, more than the limit of {} bytes for one "
                    "record",
                    Place(), payload_bytes, max_record_bytes_));
  }
  body_.clear();
  EMLIO_RETURN_IF_ERROR(Take(payload_bytes + tfrecord::kFooterBytes, &body_));
  if (body_.size() < payload_bytes + tfrecord::kFooterBytes) {
    return Truncated(
        fmt::format("{}: truncated inside the payload or its checksum ({} of {} bytes); its writer "
                    "never finished",
                    Place(), body_.size(), payload_bytes + tfrecord::kFooterBytes));
  }
  const uint32_t stored = UnmaskCrc(LoadLe<uint32_t>(body_.data() + payload_bytes));
  const uint32_t computed = Crc32c(body_.data(), payload_bytes);
  if (stored != computed) {
    return tfrecord::PayloadChecksumError(name_, record_, offset_, stored, computed);
  }
  *payload = std::span<const uint8_t>(body_).first(payload_bytes);
  next_record_ = record_ + 1;
  next_offset_ = offset_ + payload_bytes + tfrecord::kFramingBytes;
  return true;
}

Result<bool> CompressedShardReader::Next(std::span<const uint8_t>* payload) {
  if (!failure_.ok()) return failure_;
  record_ = next_record_;
  offset_ = next_offset_;
  Result<bool> more = ReadRecord(payload);
  failure_ = more.status();
  return more;
}

}  // namespace emlio::convert
