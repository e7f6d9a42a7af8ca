// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emlio/base/status.h"
#include "emlio/example/feature_spec.h"

namespace emlio::example {

// One feature of a record. Borrows the record's bytes.
class FeatureView {
 public:
  // Any bytes; not always UTF-8.
  std::string_view name() const { return name_; }
  // nullopt when the feature is there but has no list at all; an empty list has its kind and no
  // values.
  std::optional<FeatureKind> kind() const { return kind_; }
  uint64_t values() const { return values_; }

  // The values in order; `to` is overwritten, its capacity reused. The spans of ReadBytes borrow
  // the record. kInvalidArgument when the feature is of another kind.
  Status ReadInt64(std::vector<int64_t>* to) const;
  Status ReadFloat(std::vector<float>* to) const;
  Status ReadBytes(std::vector<std::span<const uint8_t>>* to) const;

 private:
  friend class ExampleView;
  Status CheckKind(FeatureKind wanted) const;

  std::string_view name_;
  std::span<const uint8_t> entry_;
  std::optional<FeatureKind> kind_;
  uint64_t values_ = 0;
};

struct ParseLimits {
  uint64_t max_record_bytes = 0xffffffff;
  uint32_t max_features = 65536;  // map entries, repeated ones included
};

// A serialized tf.train.Example, for looking at whatever it holds; batches of known features are
// read faster by ParseColumns. Copies no payload; the record must outlive it. Immutable.
class ExampleView {
 public:
  // Walks the whole record, so that nothing that is found later can be malformed. kCorrupt when it
  // is not an Example, kLimitExceeded with both numbers.
  static Result<ExampleView> Parse(std::span<const uint8_t> record, const ParseLimits& limits = {});

  // By name, bytewise. Of several entries with one name the last is kept, as protobuf demands.
  const std::vector<FeatureView>& features() const { return features_; }
  // nullptr when absent.
  const FeatureView* Find(std::string_view name) const;
  // "'image' (1 bytes), 'label' (1 int64)": for messages; long lists are cut.
  std::string Describe() const;

 private:
  std::vector<FeatureView> features_;
};

}  // namespace emlio::example
