// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/base/crc32c.h"

#include <isa-l.h>

#include <algorithm>

namespace emlio {

uint32_t Crc32c(const void* data, size_t size, uint32_t before) {
  // crc32_iscsi is the raw update: no inversion before or after. Its length is an int.
  constexpr size_t kMaxPiece = size_t{1} << 30;
  auto* bytes = static_cast<unsigned char*>(const_cast<void*>(data));
  uint32_t state = ~before;
  while (size > 0) {
    const size_t piece = std::min(size, kMaxPiece);
    state = crc32_iscsi(bytes, static_cast<int>(piece), state);
    bytes += piece;
    size -= piece;
  }
  return ~state;
}

}  // namespace emlio
