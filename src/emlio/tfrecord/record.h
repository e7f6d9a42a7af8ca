// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "emlio/base/crc32c.h"
#include "emlio/base/endian.h"
#include "emlio/base/file.h"
#include "emlio/base/status.h"

namespace emlio::tfrecord {

// The framing of one record (FORMAT.md, "Record"):
//   length u64 LE | masked CRC-32C of the length | payload | masked CRC-32C of the payload
inline constexpr size_t kHeaderBytes = 12;
inline constexpr size_t kFooterBytes = 4;
inline constexpr size_t kFramingBytes = kHeaderBytes + kFooterBytes;

// What a single record may hold where the user gives no other limit, and the highest limit that can
// be given.
inline constexpr uint64_t kDefaultMaxRecordBytes = uint64_t{256} << 20;
inline constexpr uint64_t kHighestMaxRecordBytes = 0xffffffff;

// REQUIRES: kHeaderBytes of room at `to`.
inline void EncodeHeader(uint64_t payload_bytes, uint8_t* to) {
  StoreLe<uint64_t>(to, payload_bytes);
  StoreLe<uint32_t>(to + 8, MaskCrc(Crc32c(to, 8)));
}
// False when the length checksum does not hold. REQUIRES: kHeaderBytes bytes at `from`.
inline bool DecodeHeader(const uint8_t* from, uint64_t* payload_bytes) {
  *payload_bytes = LoadLe<uint64_t>(from);
  return MaskCrc(Crc32c(from, 8)) == LoadLe<uint32_t>(from + 8);
}
// Whether a record of that payload, framing included, ends inside the file. Any values are allowed.
inline constexpr bool FitsAt(uint64_t file_bytes, uint64_t offset, uint64_t payload_bytes) {
  return offset <= file_bytes && file_bytes - offset >= kFramingBytes &&
         payload_bytes <= file_bytes - offset - kFramingBytes;
}

// "shard PATH, record N at offset O": how every message about a record begins. The offset is that
// of its header.
std::string Place(std::string_view path, uint64_t record, uint64_t offset);

// Checks headers of one file, so that all readers accept the same files and word errors alike.
// Borrows the file.
struct HeaderChecker {
  const RandomAccessFile& file;
  uint64_t file_bytes = 0;
  uint64_t max_record_bytes = kDefaultMaxRecordBytes;

  // `header` holds what the file has at `offset`: kHeaderBytes bytes, or fewer at its end. On
  // success the whole record lies inside the file and within the limit. kTruncated: the file ends
  // inside the record. kCorrupt: "length checksum"; for the first record also what the file seems
  // to be instead. kUnsupported: a compressed file. kLimitExceeded: both numbers.
  Status Check(uint64_t record, uint64_t offset, std::span<const uint8_t> header,
               uint64_t* payload_bytes) const;
};

Status PayloadChecksumError(std::string_view path, uint64_t record, uint64_t offset,
                            uint32_t stored_crc32c, uint32_t computed_crc32c);

}  // namespace emlio::tfrecord
