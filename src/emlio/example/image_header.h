// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

// What an encoded image says about itself in its first bytes. Nothing here decodes pixels.
namespace emlio::example {

enum class ImageFormat { kJpeg, kPng, kWebp, kBmp, kGif, kTiff, kPnm };
inline constexpr int kImageFormats = 7;

// "jpeg", "png", "webp", "bmp", "gif", "tiff", "pnm": as data sets write it.
std::string_view ImageFormatName(ImageFormat format);

// The format by the signature alone, which for BMP and PNM is as short as two or three bytes: for
// data that are known to be images.
std::optional<ImageFormat> RecognizeImage(std::span<const uint8_t> data);

struct ImageHeader {
  ImageFormat format = ImageFormat::kJpeg;
  // In pixels; both 0 when the header is cut or damaged, and for TIFF, whose header may lie
  // anywhere in the file.
  uint32_t width = 0;
  uint32_t height = 0;
  uint32_t channels = 0;  // after decoding, a palette's 3 included; 0 where width is
};

// For data that may be anything: text that happens to begin like a BMP or PNM is no image, those
// two need a header that holds. Reads a JPEG up to its frame header, of the other formats the first
// hundred bytes at most. Any bytes are allowed.
std::optional<ImageHeader> ReadImageHeader(std::span<const uint8_t> data);

}  // namespace emlio::example
