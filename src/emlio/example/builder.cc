// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/example/builder.h"

#include <protozero/pbf_writer.hpp>
#include <utility>

#include "emlio/example/wire_format.h"

namespace emlio::example {
namespace {

using protozero::pbf_writer;

// A Feature message whose list is written by `write_values`.
template <typename WriteValues>
std::string Feature(protozero::pbf_tag_type list_tag, WriteValues&& write_values) {
  std::string list;
  pbf_writer list_writer(list);
  write_values(list_writer);
  std::string feature;
  feature.reserve(list.size() + 16);
  pbf_writer(feature).add_message(list_tag, list);
  return feature;
}

}  // namespace

void ExampleBuilder::SetBytes(std::string_view name,
                              std::span<const std::span<const uint8_t>> values) {
  features_.insert_or_assign(std::string(name), Feature(wire::kBytesList, [&](pbf_writer& list) {
                               for (const auto value : values)
                                 list.add_bytes(wire::kListValue, wire::ToView(value));
                             }));
}

void ExampleBuilder::SetInt64(std::string_view name, std::span<const int64_t> values) {
  features_.insert_or_assign(std::string(name), Feature(wire::kInt64List, [&](pbf_writer& list) {
                               list.add_packed_int64(wire::kListValue, values.begin(),
                                                     values.end());
                             }));
}

void ExampleBuilder::SetFloat(std::string_view name, std::span<const float> values) {
  features_.insert_or_assign(std::string(name), Feature(wire::kFloatList, [&](pbf_writer& list) {
                               list.add_packed_float(wire::kListValue, values.begin(),
                                                     values.end());
                             }));
}

void ExampleBuilder::SetBytes(std::string_view name, std::string_view value) {
  const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(value.data()),
                                       value.size());
  SetBytes(name, {&bytes, 1});
}

std::string ExampleBuilder::Serialize() const {
  std::string entry;
  std::string features;
  for (const auto& [name, feature] : features_) {
    entry.clear();
    pbf_writer entry_writer(entry);
    entry_writer.add_string(wire::kEntryKey, name);
    entry_writer.add_message(wire::kEntryValue, feature);
    pbf_writer(features).add_message(wire::kFeaturesEntry, entry);
  }
  std::string example;
  pbf_writer(example).add_message(wire::kExampleFeatures, features);
  return example;
}

}  // namespace emlio::example
