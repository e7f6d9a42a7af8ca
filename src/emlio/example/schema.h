// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emlio/base/status.h"
#include "emlio/example/feature_spec.h"
#include "emlio/example/image_header.h"
#include "emlio/example/record_content.h"

namespace emlio::example {

inline constexpr size_t kFeatureKinds = 3;

// The smallest and the largest of what was added.
template <typename T>
struct Range {
  T min{};
  T max{};
  bool empty = true;

  void Add(T value) {
    if (empty || value < min) min = value;
    if (empty || value > max) max = value;
    empty = false;
  }
};

// A bytes value, for showing: as much of it as fits, and what it seems to be.
struct BytesSample {
  std::string begin;  // its first kMaxSampleBytes
  uint64_t bytes = 0;
  std::optional<ImageHeader> image;
};
inline constexpr size_t kMaxSampleBytes = 4096;
inline constexpr size_t kMaxSampleValues = 64;

// What the records have in one feature.
struct FeatureSummary {
  std::string name;  // any bytes
  // Records that have it as that kind, by FeatureKind.
  std::array<uint64_t, kFeatureKinds> records_by_kind{};
  uint64_t records_without_list = 0;  // they name it and give it no list: a loader sees none
  Range<uint64_t> values;             // in each record that has a list of it
  // Of the values themselves; NaN is left out.
  Range<int64_t> int64_values;
  Range<float> float_values;
  Range<uint64_t> value_bytes;
  // Bytes values that are images, by ImageFormat, and the sizes of those that tell them.
  std::array<uint64_t, kImageFormats> images{};
  Range<uint32_t> widths;
  Range<uint32_t> heights;
  Range<uint32_t> channels;
  // The first kMaxSampleValues values of the first record that has a list; the vector of that
  // record's kind is filled.
  std::optional<FeatureKind> sample_kind;
  uint64_t sample_values = 0;  // how many that record has
  std::vector<int64_t> sample_int64s;
  std::vector<float> sample_floats;
  std::vector<BytesSample> sample_bytes;

  // Records that have it with a list.
  uint64_t records() const;
  // The kind, when all of them agree.
  std::optional<FeatureKind> kind() const;
};

// Gathers what the records of a data set hold, one by one. Memory depends on the number of
// different features (at most kMaxFeatures), not on that of records. Not thread-safe.
class Schema {
 public:
  static constexpr size_t kMaxFeatures = 10'000;

  // Any bytes.
  void Add(std::span<const uint8_t> record);

  uint64_t records() const { return records_; }
  uint64_t records_of(RecordContent content) const {
    return contents_[static_cast<size_t>(content)];
  }
  // Records that a batch with features can have: examples, and empty ones among them.
  uint64_t examples() const {
    const uint64_t examples = records_of(RecordContent::kExample);
    return examples > 0 ? examples + records_of(RecordContent::kEmpty) : 0;
  }
  // In bytewise order of their names.
  const std::map<std::string, FeatureSummary, std::less<>>& features() const { return features_; }
  // Whether features were left out since there are more than kMaxFeatures.
  bool is_cut() const { return is_cut_; }

  // The strictest spec by which every record that was added can be read. kInvalidArgument says why
  // there is none: records disagree about the kind, no record has a list, or the name is not UTF-8
  // and so cannot be asked for. REQUIRES: one of features().
  Result<FeatureSpec> SpecOf(const FeatureSummary& feature) const;

 private:
  uint64_t records_ = 0;
  std::array<uint64_t, kRecordContents> contents_{};
  std::map<std::string, FeatureSummary, std::less<>> features_;
  bool is_cut_ = false;
};

// The sample of one bytes value.
BytesSample SampleOf(std::span<const uint8_t> value);

}  // namespace emlio::example
