// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace emlio {

// CRC-32C (Castagnoli, reflected, as in RFC 3720 appendix B.4) of `size` bytes; "123456789" gives
// 0xE3069283. With `before`, the checksum of the bytes in front of these, of both together. Uses
// the processor's CRC instructions (ISA-L). Thread-safe.
uint32_t Crc32c(const void* data, size_t size, uint32_t before = 0);

// TFRecord stores checksums masked, so that a checksum over data that hold checksums stays sound.
// https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details
inline constexpr uint32_t kCrcMaskDelta = 0xa282ead8u;
inline constexpr uint32_t MaskCrc(uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + kCrcMaskDelta;
}
inline constexpr uint32_t UnmaskCrc(uint32_t masked) {
  const uint32_t rotated = masked - kCrcMaskDelta;
  return (rotated >> 17) | (rotated << 15);
}

}  // namespace emlio
