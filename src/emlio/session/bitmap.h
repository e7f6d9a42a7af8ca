// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace emlio::session {

// Bit `index` of a bitmap as it travels: least significant bit of the first byte first. Bits behind
// the end are 0.
inline bool TestBit(const std::vector<uint8_t>& bitmap, uint64_t index) {
  return index / 8 < bitmap.size() && ((bitmap[index / 8] >> (index % 8)) & 1) != 0;
}
inline void SetBit(std::vector<uint8_t>* bitmap, uint64_t index) {
  if (bitmap->size() <= index / 8) bitmap->resize(index / 8 + 1);
  (*bitmap)[index / 8] |= static_cast<uint8_t>(1u << (index % 8));
}

}  // namespace emlio::session
