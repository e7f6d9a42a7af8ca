// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/example/feature_spec.h"

#include <fmt/format.h>

#include <charconv>

namespace emlio::example {
namespace {

Status BadSpec(std::string_view name, std::string_view text) {
  return InvalidArgument(fmt::format(
      "feature '{}': '{}' is not a kind of feature; write bytes, int64 or float, then nothing "
      "for exactly one value, [N] for N values (1 to {}), [] for any number, and then ? if a "
      "record may lack it; for example int64, float[3], bytes[]?",
      name, text, kMaxFeatureLength));
}

}  // namespace

std::string_view KindName(FeatureKind kind) {
  switch (kind) {
    case FeatureKind::kBytes:
      return "bytes";
    case FeatureKind::kInt64:
      return "int64";
    case FeatureKind::kFloat:
      return "float";
  }
  return "unknown";
}

Result<FeatureSpec> ParseFeatureSpec(std::string_view name, std::string_view text) {
  FeatureSpec spec;
  spec.name = name;
  std::string_view rest = text;
  if (rest.ends_with('?')) {
    spec.optional = true;
    rest.remove_suffix(1);
  }
  bool known = false;
  for (const FeatureKind kind : {FeatureKind::kBytes, FeatureKind::kInt64, FeatureKind::kFloat}) {
    if (!rest.starts_with(KindName(kind))) continue;
    spec.kind = kind;
    rest.remove_prefix(KindName(kind).size());
    known = true;
    break;
  }
  if (!known) return BadSpec(name, text);
  if (rest.empty()) return spec;

  if (rest.size() < 2 || rest.front() != '[' || rest.back() != ']') return BadSpec(name, text);
  const std::string_view digits = rest.substr(1, rest.size() - 2);
  spec.scalar = false;
  spec.length = 0;
  if (digits.empty()) return spec;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), spec.length);
  if (error != std::errc() || end != digits.data() + digits.size() || spec.length == 0 ||
      spec.length > kMaxFeatureLength) {
    return BadSpec(name, text);
  }
  return spec;
}

std::string FeatureSpecText(const FeatureSpec& spec) {
  std::string text(KindName(spec.kind));
  if (!spec.scalar) text += spec.length == 0 ? "[]" : fmt::format("[{}]", spec.length);
  if (spec.optional) text += '?';
  return text;
}

}  // namespace emlio::example
