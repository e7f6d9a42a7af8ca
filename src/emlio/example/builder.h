// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace emlio::example {

// Builds a serialized tf.train.Example. Equal features give equal bytes: features come in bytewise
// order of their names, numbers packed. One thread at a time.
class ExampleBuilder {
 public:
  // Each sets one feature and replaces an earlier one of that name. No values give an empty list.
  void SetBytes(std::string_view name, std::span<const std::span<const uint8_t>> values);
  void SetInt64(std::string_view name, std::span<const int64_t> values);
  void SetFloat(std::string_view name, std::span<const float> values);
  // For the usual single value.
  void SetBytes(std::string_view name, std::string_view value);
  void SetInt64(std::string_view name, int64_t value) { SetInt64(name, {&value, 1}); }
  void SetFloat(std::string_view name, float value) { SetFloat(name, {&value, 1}); }

  std::string Serialize() const;
  void Clear() { features_.clear(); }

 private:
  std::map<std::string, std::string, std::less<>> features_;  // name -> serialized Feature
};

}  // namespace emlio::example
