// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "emlio/base/status.h"

namespace emlio::example {

// The three lists that a feature of tf.train.Example may hold.
enum class FeatureKind { kBytes, kInt64, kFloat };

// "bytes", "int64", "float".
std::string_view KindName(FeatureKind kind);

// The largest fixed length of a spec: an absent optional feature becomes that many zeros.
inline constexpr uint32_t kMaxFeatureLength = uint32_t{1} << 24;

// A feature that a user wants, and the shape in which it comes.
struct FeatureSpec {
  std::string name;
  FeatureKind kind = FeatureKind::kBytes;
  uint32_t length = 1;    // values in each record; 0 = any number (ragged)
  bool scalar = true;     // exactly one value, and no dimension for it
  bool optional = false;  // may be absent from a record
};

// Reads what users write for one feature:
//   "int64"    exactly one value           column shape (B,)
//   "int64[3]" exactly three values        column shape (B, 3)
//   "int64[]"  any number, none included   ragged
// and likewise "bytes" and "float"; with a "?" behind it a record may lack the feature.
// kInvalidArgument names the feature, the text and what can be written.
Result<FeatureSpec> ParseFeatureSpec(std::string_view name, std::string_view text);

// The text that ParseFeatureSpec reads back.
std::string FeatureSpecText(const FeatureSpec& spec);

}  // namespace emlio::example
