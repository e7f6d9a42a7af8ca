// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stop_token>
#include <string>
#include <utility>

#include "commands.h"
#include "console.h"
#include "emlio/base/clock.h"
#include "emlio/dataset/find_shards.h"
#include "interrupt.h"

namespace emlio::tool {
namespace {

// Runs `convert(options, progress)` with a progress bar; a signal stops it in an orderly way.
// `add` puts what is special about the conversion into its report.
template <typename Options, typename Convert, typename Add>
int RunConversion(Options options, const std::string& json_path, Convert convert, Add add) {
  const Report report(json_path);
  std::stop_source stop;
  options.stop = stop.get_token();
  ProgressBar bar(options.check ? "checking" : "converting", "records");
  const int64_t begin_ns = SystemClock().NowNs();
  auto summary = convert(options, [&](const convert::Progress& progress) {
    if (InterruptFlag::IsSet()) stop.request_stop();
    bar.Update({.items_done = progress.records_done,
                .items_total = progress.records_total,
                .bytes_done = progress.bytes_done,
                .bytes_total = progress.bytes_total,
                .items_kept = progress.records_kept,
                .bytes_kept = progress.bytes_kept});
  });
  const double seconds = static_cast<double>(SystemClock().NowNs() - begin_ns) / kNsPerSecond;
  bar.Finish();
  if (!summary.ok()) {
    return report.Finish(summary.status(), {{"destination", options.destination}});
  }
  if (report.for_people()) {
    fmt::print("{}, {}, {} in {}, {:.2f} s{}\n", FormatCount(summary->shards, "shard"),
               FormatCount(summary->records, "record"),
               FormatBytes(static_cast<double>(summary->payload_bytes)), options.destination,
               seconds, options.check ? ": equal to the source" : "");
    if (summary->kept_shards > 0) {
      fmt::print("{} kept of an unfinished conversion\n",
                 FormatCount(summary->kept_shards, "shard"));
    }
  }
  nlohmann::ordered_json json = {{"destination", options.destination},
                                 {"shards", summary->shards},
                                 {"records", summary->records},
                                 {"payload_bytes", summary->payload_bytes},
                                 {"file_bytes", summary->file_bytes},
                                 {"seconds", seconds},
                                 {"kept_shards", summary->kept_shards},
                                 {"recommended_shards", summary->recommended_shards},
                                 {"checked", options.check}};
  add(*summary, report, &json);
  return report.Finish(OkStatus(), std::move(json));
}

}  // namespace

int RunConvertImageFolder(const ConvertImageFolderCommand& command) {
  return RunConversion(command.options, command.json, &convert::ImageFolderToShards,
                       [](const convert::ImageFolderSummary& summary, const Report& report,
                          nlohmann::ordered_json* json) {
                         if (report.for_people()) {
                           fmt::print("{}, {} passed over\n",
                                      FormatCount(summary.classes.size(), "class"),
                                      FormatCount(summary.passed_over, "other file"));
                         }
                         (*json)["passed_over"] = summary.passed_over;
                         (*json)["classes"] = summary.classes;
                       });
}

int RunConvertRecompress(ConvertRecompressCommand command) {
  auto found = dataset::FindShards(command.patterns);
  if (!found.ok()) {
    return Report(command.json)
        .Finish(found.status(), {{"destination", command.options.destination}});
  }
  for (dataset::FoundShard& shard : *found)
    command.options.sources.push_back(std::move(shard.path));
  return RunConversion(command.options, command.json, &convert::RecompressShards,
                       [](const convert::RecompressSummary& summary, const Report& report,
                          nlohmann::ordered_json* json) {
                         if (report.for_people()) {
                           fmt::print("{} of sources: {} gzip, {} zlib, {} not compressed\n",
                                      FormatBytes(static_cast<double>(summary.source_bytes)),
                                      summary.gzip, summary.zlib, summary.plain);
                         }
                         (*json)["source_bytes"] = summary.source_bytes;
                         (*json)["gzip_sources"] = summary.gzip;
                         (*json)["zlib_sources"] = summary.zlib;
                         (*json)["plain_sources"] = summary.plain;
                       });
}

int RunConvertSynthetic(const ConvertSyntheticCommand& command) {
  return RunConversion(
      command.options, command.json, &convert::SyntheticShards,
      [](const convert::ShardSetSummary&, const Report&, nlohmann::ordered_json*) {});
}

}  // namespace emlio::tool
