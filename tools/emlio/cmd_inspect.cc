// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "commands.h"
#include "console.h"
#include "emlio/base/hash128.h"
#include "emlio/dataset/size_histogram.h"
#include "emlio/dataset/survey.h"
#include "emlio/example/record_content.h"
#include "emlio/example/schema.h"
#include "inspect_report.h"
#include "interrupt.h"
#include "record_source.h"
#include "text.h"

namespace emlio::tool {
namespace {

// Sizes come out of the indexes, 8 bytes a record: a fraction of a second for so many.
constexpr uint64_t kMaxSizes = 10'000'000;

using nlohmann::ordered_json;

std::string Bytes(uint64_t bytes) { return FormatBytes(static_cast<double>(bytes)); }

// What the first records hold.
struct Sample {
  example::Schema schema;
  dataset::SizeHistogram sizes;
  uint64_t wanted = 0;
  std::optional<uint64_t> other;  // the first record that is no Example,
  std::string other_text;         // and a line about it
};

// Reads the first records. What it has by then stays valid after an error.
Status ReadSample(RecordSource& source, uint64_t wanted, Sample* sample) {
  const uint64_t records = source.manifest().records();
  sample->wanted = wanted == 0 ? records : std::min(wanted, records);
  ProgressBar bar("reading", "records");
  for (uint64_t number = 0; number < sample->wanted; ++number) {
    if (InterruptFlag::IsSet()) return Cancelled("interrupted by a signal");
    EMLIO_ASSIGN_OR_RETURN(const std::span<const uint8_t> record, source.Read(number));
    sample->schema.Add(record);
    sample->sizes.Add(record.size());
    if (!sample->other.has_value() && !record.empty() &&
        example::RecognizeRecord(record) != example::RecordContent::kExample) {
      sample->other = number;
      sample->other_text = OtherRecordText(record, OutputColumns() - 12);
    }
    bar.Update({.items_done = number + 1,
                .items_total = sample->wanted,
                .bytes_done = sample->sizes.bytes()});
  }
  return OkStatus();
}

// What the manifest says, without reading a record.
ordered_json DatasetJson(const InspectCommand& command, const dataset::Manifest& manifest) {
  return {{"sources", command.source.sources},
          {"shards", manifest.shards().size()},
          {"records", manifest.records()},
          {"payload_bytes", manifest.payload_bytes()},
          {"max_record_bytes", manifest.max_record_bytes()},
          {"unreadable_bytes", manifest.unreadable_bytes()},
          {"digest", ToHex(manifest.digest())}};
}

ordered_json ShardsJson(const RecordSource& source) {
  auto shards = ordered_json::array();
  for (uint32_t i = 0; i < source.manifest().shards().size(); ++i) {
    const dataset::ShardInfo& shard = source.manifest().shards()[i];
    ordered_json json = {{"name", shard.name}};
    if (source.local() != nullptr) json["path"] = source.local()->path(i);
    json["records"] = shard.records;
    json["payload_bytes"] = shard.payload_bytes;
    json["max_record_bytes"] = shard.max_record_bytes;
    json["fingerprint"] = ToHex(shard.fingerprint);
    json["unreadable_bytes"] = shard.unreadable_bytes;
    shards.push_back(std::move(json));
  }
  return shards;
}

// "500" or "480 to 520", over all shards.
template <typename Get, typename Format>
std::string OverShards(const dataset::Manifest& manifest, Get get, Format format) {
  example::Range<uint64_t> range;
  for (const dataset::ShardInfo& shard : manifest.shards()) range.Add(get(shard));
  return range.min == range.max ? format(range.min)
                                : fmt::format("{} to {}", format(range.min), format(range.max));
}

void PrintDataset(const dataset::Manifest& manifest) {
  fmt::print("{:<12}{}, {}, {}{}\n", "data set", FormatCount(manifest.shards().size(), "shard"),
             FormatCount(manifest.records(), "record"), Bytes(manifest.payload_bytes()),
             UnreadableText(manifest));
  if (manifest.shards().size() > 1) {
    const auto records = [](const dataset::ShardInfo& shard) { return shard.records; };
    const auto bytes = [](const dataset::ShardInfo& shard) { return shard.payload_bytes; };
    const auto format_count = [](uint64_t count) { return FormatCount(count); };
    fmt::print("{:<12}{} records, {}\n", "a shard", OverShards(manifest, records, format_count),
               OverShards(manifest, bytes, &Bytes));
  }
  fmt::print("{:<12}{} on average, {} at most\n", "a record",
             Bytes(manifest.payload_bytes() / manifest.records()),
             Bytes(manifest.max_record_bytes()));
  fmt::print("{:<12}{}\n", "digest", ToHex(manifest.digest()));
}

void PrintSample(const Sample& sample, const dataset::Manifest& manifest) {
  const example::Schema& schema = sample.schema;
  if (schema.records() == 0) return;
  fmt::print("{:<12}{} ({}){}\n", "content", ContentText(schema),
             schema.records() == manifest.records()
                 ? "all records"
                 : fmt::format("the first {} records", FormatCount(schema.records())),
             schema.examples() == 0 ? "; to be read without features" : "");
  if (sample.other.has_value()) {
    fmt::print("{:<12}{}\n", fmt::format("record {}", *sample.other), sample.other_text);
  }
  const std::string features = FeaturesText(schema, OutputColumns());
  if (!features.empty()) fmt::print("\n{}", features);
}

void PrintSizes(const dataset::SizeHistogram& sizes, uint64_t records, bool of_sample) {
  if (sizes.records() == 0) return;
  std::string of = "of all records";
  if (sizes.records() < records) {
    of = of_sample ? fmt::format("of the first {}", FormatCount(sizes.records()))
                   : fmt::format("of {} records, evenly spaced", FormatCount(sizes.records()));
  }
  fmt::print("\nsizes {}\n{}", of, SizesText(sizes, OutputColumns()));
}

// Everything about the data set.
int Overview(const InspectCommand& command, const Report& report, RecordSource& source) {
  const dataset::Manifest& manifest = source.manifest();
  Sample sample;
  const Status status = ReadSample(source, command.records, &sample);
  const dataset::SizeHistogram sizes =
      source.local() != nullptr ? dataset::RecordSizes(*source.local(), kMaxSizes) : sample.sizes;
  if (report.for_people()) {
    PrintDataset(manifest);
    PrintSample(sample, manifest);
    PrintSizes(sizes, manifest.records(), source.local() == nullptr);
  }
  ordered_json json = DatasetJson(command, manifest);
  json["records_read"] = sample.schema.records();
  json["content"] = ContentJson(sample.schema);
  json["features"] = FeaturesJson(sample.schema);
  json["features_option"] = FeaturesOptionJson(FeaturesOptionOf(sample.schema));
  json["sizes"] = SizesJson(sizes);
  json["shard_list"] = ShardsJson(source);
  return report.Finish(status, std::move(json));
}

// The features option alone, for pasting or loading; what has to be said besides goes to standard
// error.
int PrintSchema(const InspectCommand& command, RecordSource& source) {
  Sample sample;
  if (const Status status = ReadSample(source, command.records, &sample); !status.ok()) {
    return Fail(status);
  }
  const example::Schema& schema = sample.schema;
  const FeaturesOption option = FeaturesOptionOf(schema);
  for (const std::string& line : option.left_out) {
    Say("emlio: left out: {}\n", line);
  }
  if (option.specs.empty()) {
    return Fail(NotFound(fmt::format(
        "the first {} records have no feature that could be asked for ({}): read them without "
        "features",
        schema.records(), ContentText(schema))));
  }
  if (schema.examples() < schema.records()) {
    Say("emlio: not every record can be read with features: {}\n", ContentText(schema));
  }
  fmt::print("{}\n", FeaturesOptionJson(option).dump(2));
  return kExitOk;
}

int OneRecord(const InspectCommand& command, const Report& report, RecordSource& source) {
  ordered_json json = DatasetJson(command, source.manifest());
  const auto number = source.Find(command.record);
  if (!number.ok()) return report.Finish(number.status().WithContext("--record"), std::move(json));
  const RecordPlace place = source.Locate(*number);
  const std::string& shard = source.manifest().shards()[place.shard].name;
  ordered_json record_json = {{"number", *number}, {"shard", shard}, {"record", place.record}};
  if (!place.path.empty()) {
    record_json["path"] = place.path;
    record_json["offset"] = place.offset;
  }
  const auto payload = source.Read(*number);
  if (!payload.ok()) {
    json["record"] = std::move(record_json);
    return report.Finish(payload.status(), std::move(json));
  }
  if (report.for_people()) {
    fmt::print("{:<10}{} of {}: shard {}, record {}{}\n", "record", FormatCount(*number),
               FormatCount(source.manifest().records()), Printable(shard), place.record,
               place.path.empty() ? "" : fmt::format(" at offset {}", place.offset));
    if (!place.path.empty()) fmt::print("{:<10}{}\n", "file", Printable(place.path));
    fmt::print("{:<10}{} bytes\n", "size", FormatCount(payload->size()));
    fmt::print("{:<10}{}\n", "content",
               example::RecordContentName(example::RecognizeRecord(*payload)));
    const std::string text = RecordText(*payload, OutputColumns());
    if (!text.empty()) fmt::print("\n{}", text);
  }
  record_json["bytes"] = payload->size();
  record_json.update(RecordJson(*payload));
  json["record"] = std::move(record_json);
  return report.Finish(OkStatus(), std::move(json));
}

// The data set cannot be opened: says what its files are, where that may be the reason.
int ExplainFailure(const InspectCommand& command, const Report& report, const Status& status) {
  ordered_json json = {{"sources", command.source.sources}};
  const bool may_be_other_files =
      status.code() == Code::kCorrupt || status.code() == Code::kTruncated ||
      status.code() == Code::kUnsupported || status.code() == Code::kLimitExceeded ||
      status.code() == Code::kNotFound;
  if (may_be_other_files) {
    if (const auto kinds = dataset::SurveyFiles(command.source.sources); kinds.ok()) {
      if (report.for_people()) fmt::print("{}", FileKindsText(*kinds));
      std::fflush(stdout);  // before the error
      json["files"] = FileKindsJson(*kinds);
    }
  }
  return report.Finish(status, std::move(json));
}

}  // namespace

int RunInspect(const InspectCommand& command) {
  // --schema prints its own kind of result.
  const Report report(command.schema ? "" : command.json);
  if (const Status status = report.Check(); !status.ok()) return Fail(status);
  const auto source = RecordSource::Open(command.source);
  if (!source.ok()) {
    return command.schema ? Fail(source.status())
                          : ExplainFailure(command, report, source.status());
  }
  if (command.schema) return PrintSchema(command, **source);
  if (!command.record.empty()) return OneRecord(command, report, **source);
  return Overview(command, report, **source);
}

}  // namespace emlio::tool
