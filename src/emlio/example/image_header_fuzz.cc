// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
// Any bytes as an image: nothing is read outside them, and what is said fits together.
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "emlio/example/image_header.h"

namespace {

void Expect(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace emlio::example;
  // The fuzzer rarely guesses a signature: its first byte takes one.
  static const std::vector<std::vector<uint8_t>> kStarts = {
      {},
      {0xff, 0xd8, 0xff},
      {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n', 0, 0, 0, 13, 'I', 'H', 'D', 'R'},
      {'R', 'I', 'F', 'F', 0, 0, 0, 0, 'W', 'E', 'B', 'P', 'V', 'P', '8'},
      {'G', 'I', 'F', '8', '9', 'a'},
      {'B', 'M'},
      {'P', '6'}};
  std::vector<uint8_t> image;
  if (size > 0) {
    image = kStarts[data[0] % kStarts.size()];
    image.insert(image.end(), data + 1, data + size);
  }
  image.shrink_to_fit();  // so that the sanitizer sees a read past the end

  const auto format = RecognizeImage(image);
  const auto header = ReadImageHeader(image);
  if (!header.has_value()) {
    Expect(!format || *format == ImageFormat::kBmp || *format == ImageFormat::kPnm);
    return 0;
  }
  Expect(format == header->format);
  Expect(!ImageFormatName(header->format).empty());
  Expect((header->width == 0) == (header->height == 0));
  if (header->width == 0) Expect(header->channels == 0);
  return 0;
}
