// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
// Any bytes as a record: view, columns and schema must agree, and none may crash.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "emlio/example/columns.h"
#include "emlio/example/example.h"
#include "emlio/example/record_content.h"
#include "emlio/example/schema.h"

namespace {

void Expect(bool condition) {
  if (!condition) std::abort();
}

// What a schema says of a record must be enough to read it.
void CheckSchema(std::span<const uint8_t> record) {
  using namespace emlio::example;
  (void)ReadFeatureLists(record);
  Schema schema;
  schema.Add(record);
  std::vector<FeatureSpec> specs;
  for (const auto& [name, feature] : schema.features()) {
    const auto spec = schema.SpecOf(feature);
    if (spec.ok()) specs.push_back(*spec);
  }
  std::vector<Column> columns;
  size_t bad_record = 0;
  Expect(specs.empty() || ParseColumns(specs, {&record, 1}, &columns, &bad_record).ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace emlio::example;
  const std::span<const uint8_t> record(data, size);
  CheckSchema(record);
  const auto view = ExampleView::Parse(record);

  std::vector<FeatureSpec> specs;
  if (view.ok()) {
    (void)view->Describe();
    for (const FeatureView& feature : view->features()) {
      FeatureSpec spec;
      spec.name = feature.name();
      spec.kind = feature.kind().value_or(FeatureKind::kInt64);
      spec.length = 0;
      spec.scalar = false;
      spec.optional = true;
      specs.push_back(spec);
    }
  } else {
    specs.resize(2);
    specs[0].name = "a";
    specs[1].name = "b";
    specs[1].kind = FeatureKind::kFloat;
    specs[1].length = 2;
  }
  std::vector<Column> columns;
  size_t bad_record = 0;
  const emlio::Status status = ParseColumns(specs, {&record, 1}, &columns, &bad_record);
  if (!view.ok()) return 0;
  Expect(status.ok());
  for (size_t i = 0; i < specs.size(); ++i) {
    const FeatureView& feature = view->features()[i];
    Expect(columns[i].row_offsets.size() == 2);
    Expect(columns[i].row_offsets[1] == feature.values());
    std::vector<int64_t> ints;
    if (feature.ReadInt64(&ints).ok()) Expect(ints == columns[i].int64_values);
    std::vector<std::span<const uint8_t>> bytes;
    if (feature.ReadBytes(&bytes).ok()) {
      for (const auto value : bytes) {
        for (const uint8_t byte : value) (void)*const_cast<const volatile uint8_t*>(&byte);
      }
    }
  }
  return 0;
}
