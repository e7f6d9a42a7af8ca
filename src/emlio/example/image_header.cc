// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/example/image_header.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "emlio/base/endian.h"

namespace emlio::example {
namespace {

using Bytes = std::span<const uint8_t>;
using std::string_view_literals::operator""sv;

bool HasAt(Bytes data, size_t at, std::string_view text) {
  return data.size() >= at && data.size() - at >= text.size() &&
         std::memcmp(data.data() + at, text.data(), text.size()) == 0;
}

// All REQUIRE: the bytes are there.
uint32_t Be16(Bytes data, size_t at) { return uint32_t{data[at]} << 8 | data[at + 1]; }
uint32_t Be32(Bytes data, size_t at) { return Be16(data, at) << 16 | Be16(data, at + 2); }
uint32_t Le16(Bytes data, size_t at) { return LoadLe<uint16_t>(data.data() + at); }
uint32_t Le24(Bytes data, size_t at) { return Le16(data, at) | uint32_t{data[at + 2]} << 16; }
uint32_t Le32(Bytes data, size_t at) { return LoadLe<uint32_t>(data.data() + at); }

// Each sets the size and the channels when the header holds.

// ITU-T T.81, annex B: segments up to the frame header.
void ReadJpeg(Bytes data, ImageHeader* header) {
  size_t at = 2;
  while (at + 1 < data.size() && data[at] == 0xff) {
    const uint8_t marker = data[at + 1];
    if (marker == 0xff) {  // fill byte
      ++at;
      continue;
    }
    at += 2;
    if (marker == 0x01 || (marker >= 0xd0 && marker <= 0xd7)) continue;  // no segment
    if (marker == 0xd9 || marker == 0xda || data.size() - at < 2) return;
    const size_t length = Be16(data, at);
    const bool is_frame =
        marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
    if (!is_frame) {
      if (length < 2 || length > data.size() - at) return;
      at += length;
      continue;
    }
    if (length < 8 || data.size() - at < 8 || data[at + 7] == 0) return;
    header->height = Be16(data, at + 3);
    header->width = Be16(data, at + 5);
    header->channels = data[at + 7];
    return;
  }
}

// PNG (third edition), 11.2.1.
void ReadPng(Bytes data, ImageHeader* header) {
  if (data.size() < 26 || Be32(data, 8) != 13 || !HasAt(data, 12, "IHDR")) return;
  static constexpr std::array<uint8_t, 7> kChannels = {1, 0, 3, 3, 2, 0, 4};  // by colour type
  const uint8_t colour_type = data[25];
  if (colour_type >= kChannels.size() || kChannels[colour_type] == 0) return;
  header->width = Be32(data, 16);
  header->height = Be32(data, 20);
  header->channels = kChannels[colour_type];
}

// RFC 9649: lossy, lossless and extended files.
void ReadWebp(Bytes data, ImageHeader* header) {
  if (HasAt(data, 12, "VP8 ") && data.size() >= 30 && HasAt(data, 23, "\x9d\x01\x2a"sv)) {
    header->width = Le16(data, 26) & 0x3fff;
    header->height = Le16(data, 28) & 0x3fff;
    header->channels = 3;
  } else if (HasAt(data, 12, "VP8L") && data.size() >= 25 && data[20] == 0x2f) {
    const uint32_t bits = Le32(data, 21);
    header->width = (bits & 0x3fff) + 1;
    header->height = (bits >> 14 & 0x3fff) + 1;
    header->channels = (bits >> 28 & 1) != 0 ? 4 : 3;
  } else if (HasAt(data, 12, "VP8X") && data.size() >= 30) {
    header->width = Le24(data, 24) + 1;
    header->height = Le24(data, 27) + 1;
    header->channels = (data[20] & 0x10) != 0 ? 4 : 3;
  }
}

// BITMAPCOREHEADER, or BITMAPINFOHEADER and what was made of it.
void ReadBmp(Bytes data, ImageHeader* header) {
  if (data.size() < 30) return;
  const uint32_t header_bytes = Le32(data, 14);
  const bool is_core = header_bytes == 12;
  static constexpr std::array<uint32_t, 6> kInfoBytes = {40, 52, 56, 64, 108, 124};
  if (!is_core && std::find(kInfoBytes.begin(), kInfoBytes.end(), header_bytes) == kInfoBytes.end())
    return;
  const uint32_t planes = Le16(data, is_core ? 22 : 26);
  if (planes != 1) return;
  const uint32_t bits_per_pixel = Le16(data, is_core ? 24 : 28);
  if (is_core) {
    header->width = Le16(data, 18);
    header->height = Le16(data, 20);
  } else {
    header->width = Le32(data, 18);
    const uint32_t height = Le32(data, 22);  // negative: rows from the top
    header->height = height >= 0x80000000 ? 0 - height : height;
  }
  header->channels = bits_per_pixel == 32 ? 4 : 3;
}

// GIF89a, 18.
void ReadGif(Bytes data, ImageHeader* header) {
  if (data.size() < 10) return;
  header->width = Le16(data, 6);
  header->height = Le16(data, 8);
  header->channels = 3;
}

// A whole number of a PNM header, behind blanks and comments; 0 when there is none below 2^31.
uint32_t ReadPnmNumber(Bytes data, size_t* at) {
  constexpr size_t kMaxHeaderBytes = 100;
  const size_t end = std::min(data.size(), kMaxHeaderBytes);
  bool in_comment = false;
  for (; *at < end; ++*at) {
    const char c = static_cast<char>(data[*at]);
    if (c == '#') in_comment = true;
    if (c == '\n' || c == '\r') in_comment = false;
    if (!in_comment && " \t\r\n\v\f"sv.find(c) == std::string_view::npos) break;
  }
  uint64_t number = 0;
  for (; *at < end && data[*at] >= '0' && data[*at] <= '9'; ++*at) {
    number = number * 10 + (data[*at] - '0');
    if (number > 0x7fffffff) return 0;
  }
  return *at < end ? static_cast<uint32_t>(number) : 0;  // something ends the last number
}

void ReadPnm(Bytes data, ImageHeader* header) {
  const uint8_t kind = data[1] - '0';
  size_t at = 2;
  header->width = ReadPnmNumber(data, &at);
  header->height = ReadPnmNumber(data, &at);
  header->channels = kind == 3 || kind == 6 ? 3 : 1;
}

}  // namespace

std::string_view ImageFormatName(ImageFormat format) {
  static constexpr std::array<std::string_view, kImageFormats> kNames = {
      "jpeg", "png", "webp", "bmp", "gif", "tiff", "pnm"};
  return kNames[static_cast<size_t>(format)];
}

std::optional<ImageFormat> RecognizeImage(Bytes data) {
  if (HasAt(data, 0, "\xff\xd8\xff")) return ImageFormat::kJpeg;
  if (HasAt(data, 0, "\x89PNG\r\n\x1a\n")) return ImageFormat::kPng;
  if (HasAt(data, 0, "RIFF") && HasAt(data, 8, "WEBP")) return ImageFormat::kWebp;
  if (HasAt(data, 0, "GIF87a") || HasAt(data, 0, "GIF89a")) return ImageFormat::kGif;
  if (HasAt(data, 0, "II*\0"sv) || HasAt(data, 0, "MM\0*"sv) || HasAt(data, 0, "II+\0"sv) ||
      HasAt(data, 0, "MM\0+"sv)) {
    return ImageFormat::kTiff;
  }
  if (HasAt(data, 0, "BM")) return ImageFormat::kBmp;
  if (data.size() >= 3 && data[0] == 'P' && data[1] >= '1' && data[1] <= '6' &&
      " \t\r\n#"sv.find(static_cast<char>(data[2])) != std::string_view::npos) {
    return ImageFormat::kPnm;
  }
  return std::nullopt;
}

std::optional<ImageHeader> ReadImageHeader(Bytes data) {
  const std::optional<ImageFormat> format = RecognizeImage(data);
  if (!format.has_value()) return std::nullopt;
  ImageHeader header{.format = *format};
  switch (*format) {
    case ImageFormat::kJpeg:
      ReadJpeg(data, &header);
      break;
    case ImageFormat::kPng:
      ReadPng(data, &header);
      break;
    case ImageFormat::kWebp:
      ReadWebp(data, &header);
      break;
    case ImageFormat::kBmp:
      ReadBmp(data, &header);
      break;
    case ImageFormat::kGif:
      ReadGif(data, &header);
      break;
    case ImageFormat::kTiff:
      break;
    case ImageFormat::kPnm:
      ReadPnm(data, &header);
      break;
  }
  if (header.width == 0 || header.height == 0) {
    if (*format == ImageFormat::kBmp || *format == ImageFormat::kPnm) return std::nullopt;
    return ImageHeader{.format = *format};
  }
  return header;
}

}  // namespace emlio::example
