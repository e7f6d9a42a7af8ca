// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/example/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "emlio/base/utf8.h"
#include "emlio/example/example.h"

namespace emlio::example {
namespace {

using Bytes = std::span<const uint8_t>;

template <typename T>
std::vector<T> FirstOf(std::vector<T> values) {
  if (values.size() > kMaxSampleValues) values.resize(kMaxSampleValues);
  return values;
}

void AddImage(Bytes value, FeatureSummary* to) {
  const std::optional<ImageHeader> image = ReadImageHeader(value);
  if (!image.has_value()) return;
  ++to->images[static_cast<size_t>(image->format)];
  if (image->width == 0) return;
  to->widths.Add(image->width);
  to->heights.Add(image->height);
  to->channels.Add(image->channels);
}

void AddFeature(const FeatureView& feature, FeatureSummary* to) {
  if (!feature.kind().has_value()) {
    ++to->records_without_list;
    return;
  }
  const FeatureKind kind = *feature.kind();
  const bool is_first = !to->sample_kind.has_value();
  if (is_first) {
    to->sample_kind = kind;
    to->sample_values = feature.values();
  }
  ++to->records_by_kind[static_cast<size_t>(kind)];
  to->values.Add(feature.values());
  // The kind is right, so reading cannot fail.
  switch (kind) {
    case FeatureKind::kInt64: {
      std::vector<int64_t> values;
      (void)feature.ReadInt64(&values);
      for (const int64_t value : values) to->int64_values.Add(value);
      if (is_first) to->sample_int64s = FirstOf(values);
      break;
    }
    case FeatureKind::kFloat: {
      std::vector<float> values;
      (void)feature.ReadFloat(&values);
      for (const float value : values) {
        if (!std::isnan(value)) to->float_values.Add(value);
      }
      if (is_first) to->sample_floats = FirstOf(values);
      break;
    }
    case FeatureKind::kBytes: {
      std::vector<Bytes> values;
      (void)feature.ReadBytes(&values);
      for (const Bytes value : values) {
        to->value_bytes.Add(value.size());
        AddImage(value, to);
      }
      if (is_first) {
        for (const Bytes value : FirstOf(values)) to->sample_bytes.push_back(SampleOf(value));
      }
      break;
    }
  }
}

}  // namespace

uint64_t FeatureSummary::records() const {
  return std::accumulate(records_by_kind.begin(), records_by_kind.end(), uint64_t{0});
}

std::optional<FeatureKind> FeatureSummary::kind() const {
  std::optional<FeatureKind> kind;
  for (size_t i = 0; i < kFeatureKinds; ++i) {
    if (records_by_kind[i] == 0) continue;
    if (kind.has_value()) return std::nullopt;
    kind = static_cast<FeatureKind>(i);
  }
  return kind;
}

BytesSample SampleOf(Bytes value) {
  const Bytes begin = value.first(std::min(value.size(), kMaxSampleBytes));
  return {.begin = std::string(begin.begin(), begin.end()),
          .bytes = value.size(),
          .image = ReadImageHeader(value)};
}

void Schema::Add(Bytes record) {
  ++records_;
  const RecordContent content = RecognizeRecord(record);
  ++contents_[static_cast<size_t>(content)];
  if (content != RecordContent::kExample) return;
  const auto view = ExampleView::Parse(record);
  if (!view.ok()) return;  // never: it was recognised by parsing it
  for (const FeatureView& feature : view->features()) {
    auto at = features_.find(feature.name());
    if (at == features_.end()) {
      if (features_.size() == kMaxFeatures) {
        is_cut_ = true;
        continue;
      }
      at = features_.emplace(feature.name(), FeatureSummary()).first;
      at->second.name = feature.name();
    }
    AddFeature(feature, &at->second);
  }
}

Result<FeatureSpec> Schema::SpecOf(const FeatureSummary& feature) const {
  if (ValidUtf8Prefix(feature.name) != feature.name.size()) {
    return InvalidArgument("its name is not UTF-8");
  }
  if (feature.records() == 0) return InvalidArgument("no record has a list of it");
  const std::optional<FeatureKind> kind = feature.kind();
  if (!kind.has_value()) {
    std::string counts;
    for (size_t i = 0; i < kFeatureKinds; ++i) {
      if (feature.records_by_kind[i] == 0) continue;
      counts += fmt::format("{}{} records have it as {}", counts.empty() ? "" : ", ",
                            feature.records_by_kind[i], KindName(static_cast<FeatureKind>(i)));
    }
    return InvalidArgument(counts);
  }
  FeatureSpec spec;
  spec.name = feature.name;
  spec.kind = *kind;
  spec.optional = feature.records() < examples();
  const bool is_fixed = feature.values.min == feature.values.max && feature.values.min > 0 &&
                        feature.values.max <= kMaxFeatureLength;
  spec.scalar = is_fixed && feature.values.min == 1;
  spec.length = is_fixed ? static_cast<uint32_t>(feature.values.min) : 0;
  return spec;
}

}  // namespace emlio::example
