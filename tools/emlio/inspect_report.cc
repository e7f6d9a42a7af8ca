// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "inspect_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "console.h"
#include "emlio/base/utf8.h"
#include "emlio/example/example.h"
#include "emlio/example/feature_spec.h"
#include "emlio/example/record_content.h"
#include "text.h"

namespace emlio::tool {
namespace {

using example::BytesSample;
using example::FeatureKind;
using example::FeatureSpec;
using example::FeatureSummary;
using example::FeatureView;
using example::ImageFormat;
using example::ImageHeader;
using example::Range;
using example::RecordContent;
using example::Schema;
using nlohmann::ordered_json;
using Bytes = std::span<const uint8_t>;

// Of long values a person sees so much.
constexpr size_t kMaxShownTextBytes = 4096;
constexpr size_t kMaxShownHexBytes = 256;
constexpr size_t kMaxShownValues = 4096;
constexpr size_t kMaxRangeColumns = 24;
constexpr size_t kMaxCellColumns = 120;
constexpr size_t kMaxSampleJsonBytes = 256;
constexpr size_t kMaxBarColumns = 40;

std::string_view AsText(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string_view ImageTitle(ImageFormat format) {
  static constexpr std::array<std::string_view, example::kImageFormats> kTitles = {
      "JPEG", "PNG", "WebP", "BMP", "GIF", "TIFF", "PNM"};
  return kTitles[static_cast<size_t>(format)];
}

std::string NumberText(int64_t value) { return std::to_string(value); }
// The shortest text that reads back as the same float.
std::string NumberText(float value) { return fmt::format("{}", value); }

// JSON has no infinity and no NaN. Widened as the shortest text has it: 0.1f becomes 0.1.
ordered_json FloatJson(float value) {
  if (!std::isfinite(value)) return NumberText(value);
  return std::strtod(NumberText(value).c_str(), nullptr);
}

template <typename T, typename Format>
std::string RangeText(const Range<T>& range, Format format) {
  if (range.empty) return "";
  if (range.min == range.max) return format(range.min);
  return fmt::format("{} to {}", format(range.min), format(range.max));
}
std::string CountRangeText(const Range<uint64_t>& range) {
  return RangeText(range, [](uint64_t count) { return FormatCount(count); });
}
std::string SizeRangeText(const Range<uint64_t>& range) {
  return RangeText(range, [](uint64_t bytes) { return FormatBytes(static_cast<double>(bytes)); });
}

// --- cells of the table of features

std::string TypeCell(const FeatureSummary& feature) {
  std::string text;
  for (size_t i = 0; i < example::kFeatureKinds; ++i) {
    if (feature.records_by_kind[i] == 0) continue;
    if (!text.empty()) text += '/';
    text += example::KindName(static_cast<FeatureKind>(i));
  }
  return text.empty() ? "no list" : text;
}

std::string RangeCell(const FeatureSummary& feature) {
  if (!feature.value_bytes.empty) return SizeRangeText(feature.value_bytes);
  std::string exact, rounded;
  if (!feature.int64_values.empty) {
    exact = RangeText(feature.int64_values, [](int64_t value) { return NumberText(value); });
    rounded = RangeText(feature.int64_values, [](int64_t value) {
      return fmt::format("{:.3g}", static_cast<double>(value));
    });
  } else {
    exact = RangeText(feature.float_values, [](float value) { return NumberText(value); });
    rounded =
        RangeText(feature.float_values, [](float value) { return fmt::format("{:.3g}", value); });
  }
  return exact.size() <= kMaxRangeColumns ? exact : rounded;
}

std::string BytesCell(const BytesSample& value) {
  return value.image ? ImageText(*value.image)
                     : QuoteBytes(value.begin, value.bytes, kMaxCellColumns);
}

std::string SampleCell(const FeatureSummary& feature) {
  if (!feature.sample_kind.has_value()) return "";
  std::vector<std::string> items;
  for (const int64_t value : feature.sample_int64s) items.push_back(NumberText(value));
  for (const float value : feature.sample_floats) items.push_back(NumberText(value));
  for (const BytesSample& value : feature.sample_bytes) items.push_back(BytesCell(value));
  if (feature.sample_values == 1) return items[0];
  std::string text = "[";
  for (const std::string& item : items) {
    if (text.size() > 1) text += ", ";
    if (TextColumns(text) > kMaxCellColumns) break;
    text += item;
  }
  return text + (items.size() < feature.sample_values ? ", ...]" : "]");
}

std::string RecordsCell(const FeatureSummary& feature, const Schema& schema) {
  return feature.records() == schema.examples() ? "all" : FormatCount(feature.records());
}

// "image/encoded: 100 JPEG, 320x240 to 500x375, 3 channels"; "" for a feature without images.
std::string ImagesLine(const FeatureSummary& feature) {
  std::string formats;
  for (size_t i = 0; i < feature.images.size(); ++i) {
    if (feature.images[i] == 0) continue;
    if (!formats.empty()) formats += ", ";
    formats += fmt::format("{} {}", FormatCount(feature.images[i]),
                           ImageTitle(static_cast<ImageFormat>(i)));
  }
  if (formats.empty()) return "";
  std::string line = fmt::format("images in {}: {}", Printable(feature.name), formats);
  if (!feature.widths.empty) {
    const auto plain = [](uint32_t value) { return std::to_string(value); };
    const Range<uint32_t>&widths = feature.widths, &heights = feature.heights;
    line += widths.min == widths.max && heights.min == heights.max
                ? fmt::format(", {}x{}", widths.min, heights.min)
                : fmt::format(", width {}, height {}", RangeText(widths, plain),
                              RangeText(heights, plain));
    line += fmt::format(", {} channel{}", RangeText(feature.channels, plain),
                        feature.channels.max == 1 ? "" : "s");
  }
  return line + '\n';
}

// --- one record

// A value of bytes, in full or as much as a person would read; indented.
std::string BytesText(Bytes value, size_t columns) {
  const std::string_view text = AsText(value);
  if (const auto image = example::ReadImageHeader(value)) {
    return fmt::format("  {}, {}\n", ImageText(*image),
                       FormatBytes(static_cast<double>(value.size())));
  }
  if (IsText(text)) {
    const std::string quoted =
        QuoteBytes(text.substr(0, kMaxShownTextBytes), value.size(), kAnyWidth);
    if (TextColumns(quoted) + 2 <= columns) return "  " + quoted + '\n';
    std::string lines = WrapText(text.substr(0, kMaxShownTextBytes), 2, columns);
    if (value.size() > kMaxShownTextBytes) {
      lines += fmt::format("  ... {} more bytes\n", FormatCount(value.size() - kMaxShownTextBytes));
    }
    return lines;
  }
  if (text.size() <= 16) return "  " + QuoteBytes(text, text.size(), kAnyWidth) + '\n';
  std::string lines;
  const std::string dump = HexDump(text.substr(0, kMaxShownHexBytes));
  for (size_t at = 0; at < dump.size();) {
    const size_t end = dump.find('\n', at) + 1;
    lines += "  " + dump.substr(at, end - at);
    at = end;
  }
  if (value.size() > kMaxShownHexBytes) {
    lines += fmt::format("  ... {} more bytes\n", FormatCount(value.size() - kMaxShownHexBytes));
  }
  return lines;
}

template <typename T>
std::string NumbersText(const std::vector<T>& values, size_t columns) {
  std::vector<std::string> items;
  for (size_t i = 0; i < std::min(values.size(), kMaxShownValues); ++i) {
    items.push_back(NumberText(values[i]));
  }
  std::string text = WrapItems(items, 2, columns);
  if (values.size() > kMaxShownValues) {
    text += fmt::format("  ... {} more values\n", FormatCount(values.size() - kMaxShownValues));
  }
  return text;
}

// Calls visit(values) with the feature's values as a vector of int64_t, float or Bytes; not for a
// feature without a list.
template <typename Visit>
void VisitValues(const FeatureView& feature, Visit visit) {
  if (!feature.kind().has_value()) return;
  switch (*feature.kind()) {
    case FeatureKind::kInt64: {
      std::vector<int64_t> values;
      if (feature.ReadInt64(&values).ok()) visit(values);
      break;
    }
    case FeatureKind::kFloat: {
      std::vector<float> values;
      if (feature.ReadFloat(&values).ok()) visit(values);
      break;
    }
    case FeatureKind::kBytes: {
      std::vector<Bytes> values;
      if (feature.ReadBytes(&values).ok()) visit(values);
      break;
    }
  }
}

struct ValuesText {
  size_t columns;
  std::string text;
  void operator()(const std::vector<int64_t>& values) { text = NumbersText(values, columns); }
  void operator()(const std::vector<float>& values) { text = NumbersText(values, columns); }
  void operator()(const std::vector<Bytes>& values) {
    for (size_t i = 0; i < std::min(values.size(), kMaxShownValues); ++i) {
      text += BytesText(values[i], columns);
    }
    if (values.size() > kMaxShownValues) {
      text += fmt::format("  ... {} more values\n", FormatCount(values.size() - kMaxShownValues));
    }
  }
};

std::string FeatureText(const FeatureView& feature, size_t columns) {
  ValuesText values{.columns = columns, .text = ""};
  VisitValues(feature, [&](const auto& list) { values(list); });
  const std::string name = Printable(feature.name());
  if (!feature.kind().has_value()) return name + ": no list\n";
  return fmt::format("{}: {}, {}\n{}", name, example::KindName(*feature.kind()),
                     FormatCount(feature.values(), "value"), values.text);
}

std::string ListText(const example::FeatureListView& list) {
  return fmt::format("{} ({}{}{})", Printable(list.name), FormatCount(list.steps, "step"),
                     list.kind ? " of " : "", list.kind ? example::KindName(*list.kind) : "");
}

// --- JSON

ordered_json ImageJson(const ImageHeader& image) {
  ordered_json json = {{"format", example::ImageFormatName(image.format)}};
  if (image.width > 0) {
    json["width"] = image.width;
    json["height"] = image.height;
    json["channels"] = image.channels;
  }
  return json;
}

// A value of bytes, of which `begin` is all or the beginning.
ordered_json BytesJson(std::string_view begin, uint64_t bytes,
                       const std::optional<ImageHeader>& image) {
  ordered_json json = {{"bytes", bytes}};
  if (image.has_value()) json["image"] = ImageJson(*image);
  const bool is_cut = begin.size() < bytes;
  if (IsText(begin, is_cut)) {
    json["text"] = begin.substr(0, ValidUtf8Prefix(begin));
  } else {
    json["base64"] = Base64(begin);
  }
  if (is_cut) json["cut"] = true;
  return json;
}
ordered_json ValueJson(int64_t value) { return value; }
ordered_json ValueJson(float value) { return FloatJson(value); }
ordered_json ValueJson(Bytes value) {
  return BytesJson(AsText(value), value.size(), example::ReadImageHeader(value));
}

template <typename T>
ordered_json RangeJson(const Range<T>& range) {
  return {{"min", range.min}, {"max", range.max}};
}

ordered_json FeatureJson(const FeatureSummary& feature, const Schema& schema) {
  ordered_json json = {{"name", feature.name}, {"kinds", ordered_json::object()}};
  for (size_t i = 0; i < example::kFeatureKinds; ++i) {
    if (feature.records_by_kind[i] == 0) continue;
    json["kinds"][example::KindName(static_cast<FeatureKind>(i))] = feature.records_by_kind[i];
  }
  json["records"] = feature.records();
  json["records_without_list"] = feature.records_without_list;
  const auto spec = schema.SpecOf(feature);
  json["spec"] = spec.ok() ? ordered_json(example::FeatureSpecText(*spec)) : ordered_json();
  if (!feature.values.empty) json["values_per_record"] = RangeJson(feature.values);
  if (!feature.int64_values.empty) json["int64_range"] = RangeJson(feature.int64_values);
  if (!feature.float_values.empty) {
    json["float_range"] = {{"min", FloatJson(feature.float_values.min)},
                           {"max", FloatJson(feature.float_values.max)}};
  }
  if (!feature.value_bytes.empty) json["size_range"] = RangeJson(feature.value_bytes);
  ordered_json images;
  for (size_t i = 0; i < feature.images.size(); ++i) {
    if (feature.images[i] == 0) continue;
    images["formats"][example::ImageFormatName(static_cast<ImageFormat>(i))] = feature.images[i];
  }
  if (!images.empty()) {
    if (!feature.widths.empty) {
      images["width"] = RangeJson(feature.widths);
      images["height"] = RangeJson(feature.heights);
      images["channels"] = RangeJson(feature.channels);
    }
    json["images"] = std::move(images);
  }
  auto first = ordered_json::array();
  for (const int64_t value : feature.sample_int64s) first.push_back(ValueJson(value));
  for (const float value : feature.sample_floats) first.push_back(ValueJson(value));
  for (const BytesSample& value : feature.sample_bytes) {
    first.push_back(BytesJson(std::string_view(value.begin).substr(0, kMaxSampleJsonBytes),
                              value.bytes, value.image));
  }
  json["first_values"] = std::move(first);
  return json;
}

}  // namespace

std::string ImageText(const ImageHeader& image) {
  if (image.width == 0) return std::string(ImageTitle(image.format));
  return fmt::format("{} {}x{}, {} channel{}", ImageTitle(image.format), image.width, image.height,
                     image.channels, image.channels == 1 ? "" : "s");
}

std::string ContentText(const Schema& schema) {
  std::string text;
  for (int i = 0; i < example::kRecordContents; ++i) {
    const auto content = static_cast<RecordContent>(i);
    const uint64_t records = schema.records_of(content);
    if (records == 0) continue;
    const std::string_view name = example::RecordContentName(content);
    if (records == schema.records()) return std::string(name);
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", FormatCount(records), name);
  }
  return text;
}

std::string FeaturesText(const Schema& schema, size_t columns) {
  if (schema.features().empty()) return "";
  Table table({{"feature"}, {"type"}, {"values"}, {"records", true}, {"range"}, {"first value"}});
  std::string images;
  for (const auto& [name, feature] : schema.features()) {
    table.AddRow({Printable(name), TypeCell(feature), CountRangeText(feature.values),
                  RecordsCell(feature, schema), RangeCell(feature), SampleCell(feature)});
    images += ImagesLine(feature);
  }
  std::string text = table.Render(columns) + images;
  for (const std::string& line : FeaturesOptionOf(schema).left_out) {
    text += fmt::format("no spec for {}\n", line);
  }
  return text;
}

std::string SizesText(const dataset::SizeHistogram& sizes, size_t columns) {
  static constexpr std::string_view kUnits[] = {"B", "KiB", "MiB", "GiB"};
  const auto bins = sizes.bins();
  uint64_t most = 0;
  for (const auto& bin : bins) most = std::max(most, bin.records);
  Table table({{"", true}, {"", true}, {"", true}, {""}});
  const size_t bar_columns = std::min(kMaxBarColumns, columns / 2);
  for (const auto& bin : bins) {
    uint64_t from = bin.from, to = bin.to;
    size_t unit = 0;
    for (; from >= 1024 && unit + 1 < std::size(kUnits); ++unit) {
      from /= 1024;
      to /= 1024;
    }
    const double share = static_cast<double>(bin.records) / static_cast<double>(most);
    const auto length = static_cast<size_t>(std::ceil(share * static_cast<double>(bar_columns)));
    table.AddRow({bin.to - bin.from == 1 ? fmt::format("{} {}", from, kUnits[unit])
                                         : fmt::format("{}-{} {}", from, to, kUnits[unit]),
                  FormatCount(bin.records),
                  fmt::format("{:.1f} %", 100 * static_cast<double>(bin.records) /
                                              static_cast<double>(sizes.records())),
                  std::string(length, '#')});
  }
  return table.Render(columns);
}

std::string RecordText(Bytes record, size_t columns) {
  const RecordContent content = example::RecognizeRecord(record);
  std::string text;
  if (content == RecordContent::kExample || content == RecordContent::kSequenceExample) {
    const auto view = example::ExampleView::Parse(record);
    if (view.ok()) {
      for (const FeatureView& feature : view->features()) text += FeatureText(feature, columns);
    }
  }
  if (content == RecordContent::kSequenceExample) {
    if (const auto lists = example::ReadFeatureLists(record); lists.ok()) {
      for (const auto& list : *lists) text += "list " + ListText(list) + '\n';
    }
  }
  if (content == RecordContent::kRaw) text = BytesText(record, columns);
  return text;
}

std::string OtherRecordText(Bytes record, size_t columns) {
  if (example::RecognizeRecord(record) == RecordContent::kSequenceExample) {
    std::string text;
    if (const auto lists = example::ReadFeatureLists(record); lists.ok()) {
      for (const auto& list : *lists) text += (text.empty() ? "lists " : ", ") + ListText(list);
    }
    const auto context = example::ExampleView::Parse(record);
    if (context.ok() && !context->features().empty()) {
      text += "; context " + Printable(context->Describe());
    }
    return CutTo(text, columns);
  }
  if (const auto image = example::ReadImageHeader(record)) return ImageText(*image);
  return QuoteBytes(AsText(record.first(std::min<size_t>(record.size(), columns))), record.size(),
                    columns);
}

std::string FileKindsText(std::span<const dataset::FileKind> kinds) {
  Table table({{"files", true}, {"are"}, {"for example"}});
  for (const dataset::FileKind& kind : kinds) {
    std::string what = kind.what;
    if (what == "something else")
      what = "else: " + QuoteBytes(kind.first_bytes, kind.first_bytes.size(), 24);
    table.AddRow({FormatCount(kind.files), what, Printable(kind.first_path)});
  }
  return table.Render(kAnyWidth);
}

ordered_json ContentJson(const Schema& schema) {
  ordered_json json;
  for (int i = 0; i < example::kRecordContents; ++i) {
    const auto content = static_cast<RecordContent>(i);
    json[example::RecordContentName(content)] = schema.records_of(content);
  }
  return json;
}

ordered_json FeaturesJson(const Schema& schema) {
  auto json = ordered_json::array();
  for (const auto& [name, feature] : schema.features())
    json.push_back(FeatureJson(feature, schema));
  return json;
}

ordered_json SizesJson(const dataset::SizeHistogram& sizes) {
  auto bins = ordered_json::array();
  for (const auto& bin : sizes.bins()) {
    bins.push_back({{"from", bin.from}, {"to", bin.to}, {"records", bin.records}});
  }
  return {{"records", sizes.records()},
          {"min", sizes.smallest()},
          {"max", sizes.largest()},
          {"mean", sizes.records() > 0
                       ? static_cast<double>(sizes.bytes()) / static_cast<double>(sizes.records())
                       : 0.0},
          {"bins", std::move(bins)}};
}

ordered_json RecordJson(Bytes record) {
  const RecordContent content = example::RecognizeRecord(record);
  ordered_json json = {{"content", example::RecordContentName(content)}};
  if (content == RecordContent::kExample) {
    auto features = ordered_json::array();
    if (const auto view = example::ExampleView::Parse(record); view.ok()) {
      for (const FeatureView& feature : view->features()) {
        auto values = ordered_json::array();
        VisitValues(feature, [&](const auto& list) {
          for (const auto& value : list) values.push_back(ValueJson(value));
        });
        const auto kind = feature.kind();
        features.push_back(
            {{"name", feature.name()},
             {"kind", kind ? ordered_json(example::KindName(*kind)) : ordered_json()},
             {"values", std::move(values)}});
      }
    }
    json["features"] = std::move(features);
    return json;
  }
  if (content == RecordContent::kSequenceExample) {
    auto list_json = ordered_json::array();
    if (const auto lists = example::ReadFeatureLists(record); lists.ok()) {
      for (const auto& list : *lists) {
        list_json.push_back(
            {{"name", list.name},
             {"steps", list.steps},
             {"kind", list.kind ? ordered_json(example::KindName(*list.kind)) : ordered_json()}});
      }
    }
    json["feature_lists"] = std::move(list_json);
  }
  json["payload"] = ValueJson(record);
  return json;
}

ordered_json FileKindsJson(std::span<const dataset::FileKind> kinds) {
  auto json = ordered_json::array();
  for (const dataset::FileKind& kind : kinds) {
    json.push_back({{"what", kind.what}, {"files", kind.files}, {"first", kind.first_path}});
  }
  return json;
}

FeaturesOption FeaturesOptionOf(const Schema& schema) {
  FeaturesOption option;
  for (const auto& [name, feature] : schema.features()) {
    const auto spec = schema.SpecOf(feature);
    if (spec.ok()) {
      option.specs.push_back(*spec);
    } else {
      option.left_out.push_back(fmt::format("{}: {}", Printable(name), spec.status().message()));
    }
  }
  if (schema.is_cut()) {
    option.left_out.push_back(
        fmt::format("what comes behind the first {} features", FormatCount(Schema::kMaxFeatures)));
  }
  return option;
}

ordered_json FeaturesOptionJson(const FeaturesOption& option) {
  auto json = ordered_json::object();
  for (const FeatureSpec& spec : option.specs) json[spec.name] = example::FeatureSpecText(spec);
  return json;
}

}  // namespace emlio::tool
