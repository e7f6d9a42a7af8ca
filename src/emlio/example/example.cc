// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/example/example.h"

#include <fmt/format.h>

#include <algorithm>

#include "emlio/example/wire_format.h"

namespace emlio::example {
namespace {

struct Counter {
  void Start(FeatureKind new_kind) {
    kind = new_kind;
    values = 0;
  }
  void Bytes(protozero::data_view) { ++values; }
  void Int64(int64_t) { ++values; }
  void Floats(protozero::data_view packed) { values += packed.size() / sizeof(float); }

  std::optional<FeatureKind> kind;
  uint64_t values = 0;
};

}  // namespace

std::string wire::Quoted(std::string_view name) {
  constexpr size_t kMaxBytes = 80;
  std::string text = "'";
  for (const char c : name.substr(0, kMaxBytes)) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '\'' || c == '\\') {
      text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      text += c;
    }
  }
  return text + (name.size() > kMaxBytes ? "...'" : "'");
}

Status FeatureView::CheckKind(FeatureKind wanted) const {
  if (kind_ == wanted) return OkStatus();
  return InvalidArgument(fmt::format("feature {} holds {}, not {}", wire::Quoted(name_),
                                     kind_ ? KindName(*kind_) : "no list", KindName(wanted)));
}

Status FeatureView::ReadInt64(std::vector<int64_t>* to) const {
  EMLIO_RETURN_IF_ERROR(CheckKind(FeatureKind::kInt64));
  to->clear();
  to->reserve(values_);
  wire::Collector<FeatureKind::kInt64, int64_t> collector(to, values_);
  wire::ReadFeature(wire::ToView(entry_), collector);
  return OkStatus();
}

Status FeatureView::ReadFloat(std::vector<float>* to) const {
  EMLIO_RETURN_IF_ERROR(CheckKind(FeatureKind::kFloat));
  to->clear();
  to->reserve(values_);
  wire::Collector<FeatureKind::kFloat, float> collector(to, values_);
  wire::ReadFeature(wire::ToView(entry_), collector);
  return OkStatus();
}

Status FeatureView::ReadBytes(std::vector<std::span<const uint8_t>>* to) const {
  EMLIO_RETURN_IF_ERROR(CheckKind(FeatureKind::kBytes));
  to->clear();
  to->reserve(values_);
  wire::Collector<FeatureKind::kBytes, std::span<const uint8_t>> collector(to, values_);
  wire::ReadFeature(wire::ToView(entry_), collector);
  return OkStatus();
}

Result<ExampleView> ExampleView::Parse(std::span<const uint8_t> record, const ParseLimits& limits) {
  if (record.size() > limits.max_record_bytes) {
    return LimitExceeded(fmt::format("a record of {} bytes is more than the limit of {} bytes",
                                     record.size(), limits.max_record_bytes));
  }
  ExampleView view;
  uint64_t entries = 0;
  try {
    wire::ForEachEntry(record, [&](std::string_view name, protozero::data_view entry) {
      if (++entries > limits.max_features) return;  // counted on for the message, not kept
      Counter counter;
      wire::ReadFeature(entry, counter);
      FeatureView feature;
      feature.name_ = name;
      feature.entry_ = wire::ToSpan(entry);
      feature.kind_ = counter.kind;
      feature.values_ = counter.values;
      view.features_.push_back(feature);
    });
  } catch (const protozero::exception& error) {
    return Corrupt(fmt::format("not a tf.train.Example: {}", error.what()));
  }
  if (entries > limits.max_features) {
    return LimitExceeded(fmt::format("a record of {} features is more than the limit of {}",
                                     entries, limits.max_features));
  }
  auto& features = view.features_;
  // Entries with one name in the order of the record, which is that of their addresses.
  std::sort(features.begin(), features.end(), [](const auto& a, const auto& b) {
    return a.name_ != b.name_ ? a.name_ < b.name_ : a.entry_.data() < b.entry_.data();
  });
  // Keeps the last of each run of equal names.
  const auto first_kept =
      std::unique(features.rbegin(), features.rend(),
                  [](const auto& a, const auto& b) { return a.name_ == b.name_; });
  features.erase(features.begin(), first_kept.base());
  return view;
}

const FeatureView* ExampleView::Find(std::string_view name) const {
  const auto at = std::lower_bound(
      features_.begin(), features_.end(), name,
      [](const FeatureView& feature, std::string_view wanted) { return feature.name_ < wanted; });
  return at != features_.end() && at->name_ == name ? &*at : nullptr;
}

std::string ExampleView::Describe() const {
  constexpr size_t kMaxListed = 20;
  if (features_.empty()) return "no features";
  std::string text;
  for (size_t i = 0; i < std::min(kMaxListed, features_.size()); ++i) {
    const FeatureView& feature = features_[i];
    if (i > 0) text += ", ";
    text += feature.kind_ ? fmt::format("{} ({} {})", wire::Quoted(feature.name_), feature.values_,
                                        KindName(*feature.kind_))
                          : fmt::format("{} (no list)", wire::Quoted(feature.name_));
  }
  if (features_.size() > kMaxListed) {
    text += fmt::format(" and {} more", features_.size() - kMaxListed);
  }
  return text;
}

}  // namespace emlio::example
