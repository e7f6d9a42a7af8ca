// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/example/record_content.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "emlio/example/example.h"
#include "emlio/example/wire_format.h"

namespace emlio::example {
namespace {

using wire::pbf_reader;
using wire::pbf_wire_type;

// SequenceExample { Features context = 1; FeatureLists feature_lists = 2; }
// FeatureLists    { map<string, FeatureList> feature_list = 1; }
// FeatureList     { repeated Feature feature = 1; }
constexpr protozero::pbf_tag_type kSequenceFeatureLists = 2;
constexpr protozero::pbf_tag_type kFeatureListsEntry = 1;
constexpr protozero::pbf_tag_type kFeatureListFeature = 1;

std::optional<FeatureKind> KindOf(pbf_reader feature) {
  std::optional<FeatureKind> kind;
  while (feature.next()) {
    if (feature.wire_type() == pbf_wire_type::length_delimited) {
      if (feature.tag() == wire::kBytesList) kind = FeatureKind::kBytes;
      if (feature.tag() == wire::kFloatList) kind = FeatureKind::kFloat;
      if (feature.tag() == wire::kInt64List) kind = FeatureKind::kInt64;
    }
    feature.skip();
  }
  return kind;
}

FeatureListView ReadList(pbf_reader entry) {
  FeatureListView list;
  while (entry.next()) {
    if (entry.wire_type() != pbf_wire_type::length_delimited) {
      entry.skip();
    } else if (entry.tag() == wire::kEntryKey) {
      const protozero::data_view key = entry.get_view();
      list.name = {key.data(), key.size()};
    } else if (entry.tag() == wire::kEntryValue) {
      pbf_reader feature_list = entry.get_message();
      while (feature_list.next(kFeatureListFeature, pbf_wire_type::length_delimited)) {
        const auto kind = KindOf(feature_list.get_message());
        if (!list.kind.has_value()) list.kind = kind;
        ++list.steps;
      }
    } else {
      entry.skip();
    }
  }
  return list;
}

// Whether the two outer messages have nothing but what Example and Features define.
bool HasExampleFieldsOnly(std::span<const uint8_t> record) {
  pbf_reader example(wire::ToView(record));
  while (example.next()) {
    if (example.tag_and_type() !=
        tag_and_type(wire::kExampleFeatures, pbf_wire_type::length_delimited)) {
      return false;
    }
    pbf_reader features = example.get_message();
    while (features.next()) {
      if (features.tag_and_type() !=
          tag_and_type(wire::kFeaturesEntry, pbf_wire_type::length_delimited)) {
        return false;
      }
      features.skip();
    }
  }
  return true;
}

}  // namespace

std::string_view RecordContentName(RecordContent content) {
  static constexpr std::array<std::string_view, kRecordContents> kNames = {
      "empty", "tf.train.Example", "tf.train.SequenceExample", "raw"};
  return kNames[static_cast<size_t>(content)];
}

RecordContent RecognizeRecord(std::span<const uint8_t> record) {
  if (record.empty()) return RecordContent::kEmpty;
  // The context of a SequenceExample, or of one without lists the whole, is an Example as well.
  const auto view = ExampleView::Parse(record);
  if (!view.ok()) return RecordContent::kRaw;
  const auto lists = ReadFeatureLists(record);
  if (lists.ok() && std::any_of(lists->begin(), lists->end(),
                                [](const FeatureListView& list) { return !list.name.empty(); })) {
    return RecordContent::kSequenceExample;
  }
  const auto& features = view->features();
  const bool has_list = std::any_of(features.begin(), features.end(),
                                    [](const FeatureView& f) { return f.kind().has_value(); });
  return has_list || HasExampleFieldsOnly(record) ? RecordContent::kExample : RecordContent::kRaw;
}

Result<std::vector<FeatureListView>> ReadFeatureLists(std::span<const uint8_t> record) {
  std::map<std::string_view, FeatureListView> lists;
  try {
    pbf_reader example(wire::ToView(record));
    while (example.next(kSequenceFeatureLists, pbf_wire_type::length_delimited)) {
      pbf_reader feature_lists = example.get_message();
      while (feature_lists.next(kFeatureListsEntry, pbf_wire_type::length_delimited)) {
        const FeatureListView list = ReadList(feature_lists.get_message());
        lists.insert_or_assign(list.name, list);
      }
    }
  } catch (const protozero::exception& error) {
    return Corrupt(fmt::format("not a tf.train.SequenceExample: {}", error.what()));
  }
  std::vector<FeatureListView> in_order;
  for (const auto& [name, list] : lists) in_order.push_back(list);
  return in_order;
}

}  // namespace emlio::example
