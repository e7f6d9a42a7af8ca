// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "emlio/base/status.h"
#include "emlio/example/feature_spec.h"

// What a payload of unknown origin is. For people who look at a data set; reading a batch needs
// none of it.
namespace emlio::example {

enum class RecordContent {
  kEmpty,            // no bytes: an Example without features, or nothing at all
  kExample,          // tf.train.Example
  kSequenceExample,  // tf.train.SequenceExample: read as an Example it has its context only
  kRaw,              // neither
};
inline constexpr int kRecordContents = 4;

// "empty", "tf.train.Example", "tf.train.SequenceExample", "raw".
std::string_view RecordContentName(RecordContent content);

// A payload does not say what it is: this is the kind that it fits. Bytes that are neither kind of
// Example pass for one about as rarely as random bytes form a valid message with a named list.
RecordContent RecognizeRecord(std::span<const uint8_t> record);

// One feature list of a SequenceExample. Borrows the record.
struct FeatureListView {
  std::string_view name;  // any bytes
  uint64_t steps = 0;
  std::optional<FeatureKind> kind;  // of the first step that has a list
};

// The feature lists of a serialized tf.train.SequenceExample in bytewise order of their names; of
// several with one name the last. Its context is what ExampleView::Parse of the same record finds.
// kCorrupt when it is not one.
Result<std::vector<FeatureListView>> ReadFeatureLists(std::span<const uint8_t> record);

}  // namespace emlio::example
