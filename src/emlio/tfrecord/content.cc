// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/tfrecord/content.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

namespace emlio::tfrecord {
namespace {

bool StartsWith(std::span<const uint8_t> bytes, std::string_view prefix) {
  return bytes.size() >= prefix.size() &&
         std::memcmp(bytes.data(), prefix.data(), prefix.size()) == 0;
}

// RFC 1950: method 8, window at most 32 KiB, no preset dictionary, the two bytes a multiple of 31.
bool LooksLikeZlib(std::span<const uint8_t> bytes) {
  return bytes.size() >= 2 && (bytes[0] & 0x0f) == 8 && (bytes[0] >> 4) <= 7 &&
         (bytes[1] & 0x20) == 0 && (bytes[0] * 256 + bytes[1]) % 31 == 0;
}

// RFC 1952, one member, compared byte by byte: header, optional fields, an empty deflate stream,
// and a trailer of zeros (CRC-32 and length of nothing).
bool HoldsEmptyGzip(std::span<const uint8_t> bytes) {
  constexpr uint8_t kHeaderCrc = 2, kExtra = 4, kName = 8, kComment = 16;
  if (bytes.size() < 10 || !StartsWith(bytes, "\x1f\x8b\x08")) return false;
  const uint8_t flags = bytes[3];
  size_t at = 10;
  if ((flags & kExtra) != 0) {
    if (bytes.size() - at < 2) return false;
    const size_t extra_bytes = 2 + bytes[at] + size_t{256} * bytes[at + 1];
    if (extra_bytes > bytes.size() - at) return false;
    at += extra_bytes;
  }
  for (const uint8_t text : {kName, kComment}) {
    if ((flags & text) == 0) continue;
    const auto end = std::find(bytes.begin() + at, bytes.end(), 0);
    if (end == bytes.end()) return false;
    at = static_cast<size_t>(end - bytes.begin()) + 1;
  }
  if ((flags & kHeaderCrc) != 0) at += 2;
  if (at > bytes.size()) return false;
  const auto rest = bytes.subspan(at);
  using std::string_view_literals::operator""sv;
  for (const std::string_view empty :
       {"\x03\x00\0\0\0\0\0\0\0\0"sv, "\x01\x00\x00\xff\xff\0\0\0\0\0\0\0\0"sv}) {
    if (rest.size() == empty.size() && StartsWith(rest, empty)) return true;
  }
  return false;
}

}  // namespace

std::string_view ContentName(Content content) {
  switch (content) {
    case Content::kUnknown:
      return "";
    case Content::kGzip:
      return "gzip data";
    case Content::kZlib:
      return "zlib data";
    case Content::kZstd:
      return "zstd data";
    case Content::kGitLfsPointer:
      return "a Git-LFS pointer";
    case Content::kTar:
      return "a tar archive";
    case Content::kZip:
      return "a zip archive";
    case Content::kParquet:
      return "a Parquet file";
    case Content::kHdf5:
      return "an HDF5 file";
  }
  return "";
}

Content RecognizeContent(std::span<const uint8_t> head) {
  if (StartsWith(head, "\x1f\x8b")) return Content::kGzip;
  if (StartsWith(head, "\x28\xb5\x2f\xfd")) return Content::kZstd;
  if (StartsWith(head, "version https://git-lfs")) return Content::kGitLfsPointer;
  if (StartsWith(head, "PK\x03\x04")) return Content::kZip;
  if (StartsWith(head, "PAR1")) return Content::kParquet;
  if (StartsWith(head, "\x89HDF\r\n\x1a\n")) return Content::kHdf5;
  constexpr size_t kTarMagicAt = 257;
  if (head.size() > kTarMagicAt && StartsWith(head.subspan(kTarMagicAt), "ustar")) {
    return Content::kTar;
  }
  if (LooksLikeZlib(head)) return Content::kZlib;
  return Content::kUnknown;
}

bool IsSidecarOrUnfinished(std::string_view name) {
  return name.ends_with(".idx") || name.ends_with(".txt") || name.ends_with(".json") ||
         name.ends_with(".emlio-index") || name.find(".tmp.") != std::string_view::npos;
}

Result<bool> IsEmptyGzip(const RandomAccessFile& file) {
  constexpr size_t kMaxBytes = 1024;  // room for a long file name in the header
  EMLIO_ASSIGN_OR_RETURN(const FileIdentity identity, file.Identity());
  if (identity.size_bytes > kMaxBytes) return false;
  std::vector<uint8_t> bytes(identity.size_bytes);
  EMLIO_ASSIGN_OR_RETURN(const size_t read, file.ReadAt(0, bytes.size(), bytes.data()));
  return HoldsEmptyGzip({bytes.data(), read});
}

}  // namespace emlio::tfrecord
