// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "emlio/transport/zmtp.h"

namespace {

using emlio::Buffer;
using emlio::transport::ZmtpReader;

// What comes of the bytes when they arrive in pieces of `step`; the first of them is not read.
std::string Read(const uint8_t* data, size_t size, size_t step, bool is_opened) {
  ZmtpReader reader("DEALER", 1 << 16, [](uint64_t frame_bytes) {
    return Buffer::Allocate(std::min<uint64_t>(frame_bytes, 100));
  });
  std::vector<uint8_t> bytes;
  if (is_opened) bytes = emlio::transport::ZmtpOpening("DEALER");
  bytes.insert(bytes.end(), data, data + size);
  std::string result;
  for (size_t at = 0;;) {
    for (;;) {
      const ZmtpReader::Next next = reader.Take();
      if (next.item == ZmtpReader::Item::kNothing) break;
      result += static_cast<char>('0' + static_cast<int>(next.item));
      for (const Buffer* part : {&next.message.header, &next.message.payload}) {
        result += std::to_string(part->size()) + ":";
        result.append(reinterpret_cast<const char*>(part->data()), part->size());
      }
      result.append(next.context.begin(), next.context.end());
      if (next.item == ZmtpReader::Item::kBad) return result;
    }
    if (at == bytes.size()) return result;
    const auto space = reader.Space();
    if (space.empty()) std::abort();
    const size_t count = std::min({step, space.size(), bytes.size() - at});
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), count, space.begin());
    reader.Filled(count);
    at += count;
  }
}

}  // namespace

// However the bytes are cut, the same comes of them.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const size_t step = 1 + data[0] / 2;
  const bool is_opened = (data[0] & 1) != 0;
  if (Read(data + 1, size - 1, step, is_opened) != Read(data + 1, size - 1, size, is_opened)) {
    std::abort();
  }
  return 0;
}
