// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/example/columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "emlio/example/example.h"
#include "emlio/example/wire_format.h"

namespace emlio::example {
namespace {

using Bytes = std::span<const uint8_t>;

void Prepare(std::span<const FeatureSpec> specs, size_t records, std::vector<Column>* out) {
  // A spec is user input; what is reserved ahead for it is bounded.
  constexpr size_t kMaxReserved = size_t{1} << 20;
  out->resize(specs.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    Column& column = (*out)[i];
    column.spec = specs[i];
    column.present.clear();
    column.row_offsets.clear();
    column.int64_values.clear();
    column.float_values.clear();
    column.bytes_values.clear();
    if (column.spec.optional) column.present.reserve(records);
    if (column.spec.length == 0) {
      column.row_offsets.reserve(records + 1);
      column.row_offsets.push_back(0);
    }
    const size_t values = std::min(kMaxReserved, records * column.spec.length);
    switch (column.spec.kind) {
      case FeatureKind::kBytes:
        column.bytes_values.reserve(values);
        break;
      case FeatureKind::kInt64:
        column.int64_values.reserve(values);
        break;
      case FeatureKind::kFloat:
        column.float_values.reserve(values);
        break;
    }
  }
}

Status DoesNotFit(const FeatureSpec& spec, std::string_view how) {
  return InvalidArgument(fmt::format("feature {} was asked for as {}, but {}",
                                     wire::Quoted(spec.name), FeatureSpecText(spec), how));
}

Status Missing(const FeatureSpec& spec, Bytes record) {
  const auto view = ExampleView::Parse(record);
  return DoesNotFit(spec,
                    "the record lacks it; it has " + (view.ok() ? view->Describe() : "damage"));
}

// Appends one record's values of one feature to its column. `entry` has no data when the record
// lacks the feature.
template <FeatureKind kKind, typename T>
Status AppendValues(Bytes record, Bytes entry, Column* column, std::vector<T>* values) {
  const FeatureSpec& spec = column->spec;
  const bool ragged = spec.length == 0;
  wire::Collector<kKind, T> collector(
      values, ragged ? std::numeric_limits<uint64_t>::max() : uint64_t{spec.length});
  if (entry.data() != nullptr) wire::ReadFeature(wire::ToView(entry), collector);
  const bool present = collector.kind().has_value();
  if (spec.optional) column->present.push_back(present ? 1 : 0);
  if (!present) {
    if (!spec.optional) return Missing(spec, record);
    values->resize(values->size() + spec.length);
  } else if (*collector.kind() != kKind) {
    return DoesNotFit(spec, fmt::format("the record has it as {}", KindName(*collector.kind())));
  } else if (!ragged && collector.values() != spec.length) {
    return DoesNotFit(spec, fmt::format("the record has {} values of it (any number is {}[])",
                                        collector.values(), KindName(kKind)));
  }
  if (ragged) column->row_offsets.push_back(values->size());
  return OkStatus();
}

Status AppendRecord(Bytes record, std::span<Bytes> found, std::vector<Column>* columns) {
  std::fill(found.begin(), found.end(), Bytes());
  // Writers tend to keep one order: the feature behind the last one found is looked at first.
  size_t expected = 0;
  wire::ForEachEntry(record, [&](std::string_view name, protozero::data_view entry) {
    for (size_t tried = 0; tried < found.size(); ++tried) {
      if ((*columns)[expected].spec.name == name) {
        found[expected] = wire::ToSpan(entry);  // of equal names the last one counts
        tried = found.size();
      }
      if (++expected == found.size()) expected = 0;
    }
  });
  for (size_t i = 0; i < found.size(); ++i) {
    Column* column = &(*columns)[i];
    switch (column->spec.kind) {
      case FeatureKind::kBytes:
        EMLIO_RETURN_IF_ERROR(
            AppendValues<FeatureKind::kBytes>(record, found[i], column, &column->bytes_values));
        break;
      case FeatureKind::kInt64:
        EMLIO_RETURN_IF_ERROR(
            AppendValues<FeatureKind::kInt64>(record, found[i], column, &column->int64_values));
        break;
      case FeatureKind::kFloat:
        EMLIO_RETURN_IF_ERROR(
            AppendValues<FeatureKind::kFloat>(record, found[i], column, &column->float_values));
        break;
    }
  }
  return OkStatus();
}

}  // namespace

Status ParseColumns(std::span<const FeatureSpec> specs, std::span<const Bytes> records,
                    std::vector<Column>* out, size_t* bad_record) {
  Prepare(specs, records.size(), out);
  std::vector<Bytes> found(specs.size());
  for (size_t i = 0; i < records.size(); ++i) {
    *bad_record = i;
    try {
      EMLIO_RETURN_IF_ERROR(AppendRecord(records[i], found, out));
    } catch (const protozero::exception& error) {
      return Corrupt(fmt::format("not a tf.train.Example: {}", error.what()));
    }
  }
  return OkStatus();
}

}  // namespace emlio::example
