// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace emlio {

static_assert(std::endian::native == std::endian::little,
              "EMLIO's formats are little-endian and so are the machines it is built for");

// Unaligned little-endian loads and stores. REQUIRES: the bytes are inside the buffer.
template <typename T>
inline T LoadLe(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}
template <typename T>
inline void StoreLe(void* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}

}  // namespace emlio
