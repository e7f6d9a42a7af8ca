// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Protocol buffers written by hand, so that tests can form what no builder writes.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace emlio::example {

inline std::span<const uint8_t> AsBytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}
inline std::string AsString(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
// A length-delimited field.
inline std::string Field(int number, std::string_view contents) {
  return Varint(number << 3 | 2) + Varint(contents.size()) + std::string(contents);
}
inline std::string VarintField(int number, uint64_t value) {
  return Varint(number << 3) + Varint(value);
}
inline std::string Fixed32Field(int number, float value) {
  return Varint(number << 3 | 5) +
         std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

inline std::string BytesList(std::string_view values) { return Field(1, values); }
inline std::string FloatList(std::string_view values) { return Field(2, values); }
inline std::string Int64List(std::string_view values) { return Field(3, values); }
inline std::string Entry(std::string_view name, std::string_view feature) {
  return Field(1, Field(1, name) + Field(2, feature));
}
inline std::string Example(std::string_view entries) { return Field(1, entries); }

}  // namespace emlio::example
