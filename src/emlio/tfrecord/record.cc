// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/tfrecord/record.h"

#include <fmt/format.h>

#include <array>

#include "emlio/tfrecord/content.h"

namespace emlio::tfrecord {
namespace {

// The first header does not hold: says what the file is instead, or returns `otherwise`.
Status ExplainFirstHeader(const RandomAccessFile& file, Status otherwise) {
  std::array<uint8_t, kContentHeadBytes> head;
  EMLIO_ASSIGN_OR_RETURN(const size_t head_bytes, file.ReadAt(0, head.size(), head.data()));
  const Content content = RecognizeContent({head.data(), head_bytes});
  switch (content) {
    case Content::kUnknown:
      return otherwise;
    case Content::kGzip:
    case Content::kZlib:
      return Unsupported(fmt::format(
          "shard {} is not a TFRecord file but {}: 'emlio convert recompress' makes plain shards "
          "of such",
          file.path(), ContentName(content)));
    case Content::kZstd:
      return Unsupported(fmt::format(
          "shard {} is not a TFRecord file but {}: decompress it, or write the records without "
          "compression",
          file.path(), ContentName(content)));
    default:
      return Corrupt(fmt::format(
          "{}: length checksum does not hold; not a TFRecord file but {}{}",
          Place(file.path(), 0, 0), ContentName(content),
          content == Content::kGitLfsPointer ? ": fetch the file itself with 'git lfs pull'" : ""));
  }
}

}  // namespace

std::string Place(std::string_view path, uint64_t record, uint64_t offset) {
  return fmt::format("shard {}, record {} at offset {}", path, record, offset);
}

Status HeaderChecker::Check(uint64_t record, uint64_t offset, std::span<const uint8_t> header,
                            uint64_t* payload_bytes) const {
  if (header.size() < kHeaderBytes) {
    Status truncated = Truncated(fmt::format(
        "{}: truncated inside the record header ({} of {} bytes); the file was cut or its writer "
        "never finished",
        Place(file.path(), record, offset), header.size(), kHeaderBytes));
    return record == 0 ? ExplainFirstHeader(file, std::move(truncated)) : truncated;
  }
  if (!DecodeHeader(header.data(), payload_bytes)) {
    Status corrupt = Corrupt(
        fmt::format("{}: length checksum does not hold{}", Place(file.path(), record, offset),
                    record == 0 ? "; this is not a TFRecord file, or it is damaged" : ""));
    return record == 0 ? ExplainFirstHeader(file, std::move(corrupt)) : corrupt;
  }
  if (*payload_bytes > max_record_bytes) {
    return LimitExceeded(fmt::format(
        "{}: the record claims {} bytes, more than the limit of {} bytes for one record; the file "
        "has {} bytes",
        Place(file.path(), record, offset), *payload_bytes, max_record_bytes, file_bytes));
  }
  if (!FitsAt(file_bytes, offset, *payload_bytes)) {
    return Truncated(
        fmt::format("{}: truncated inside the payload or its checksum: {} bytes of payload do not "
                    "fit in a file of {} bytes; the file was cut or its writer never finished",
                    Place(file.path(), record, offset), *payload_bytes, file_bytes));
  }
  return OkStatus();
}

Status PayloadChecksumError(std::string_view path, uint64_t record, uint64_t offset,
                            uint32_t stored_crc32c, uint32_t computed_crc32c) {
  return Corrupt(fmt::format("{}: payload checksum does not hold (stored {:08x}, computed {:08x})",
                             Place(path, record, offset), stored_crc32c, computed_crc32c));
}

}  // namespace emlio::tfrecord
