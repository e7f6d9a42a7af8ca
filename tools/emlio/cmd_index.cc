// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "commands.h"
#include "console.h"
#include "emlio/base/clock.h"
#include "emlio/base/file.h"
#include "emlio/base/hash128.h"
#include "emlio/dataset/dali_index.h"
#include "emlio/dataset/dataset.h"
#include "interrupt.h"
#include "record_source.h"

namespace emlio::tool {
namespace {

// How many indexes for DALI had to be written.
Result<uint64_t> EnsureDaliIndexes(const IndexCommand& command, const dataset::Dataset& data) {
  uint64_t written = 0;
  const auto& shards = data.manifest().shards();
  for (uint32_t i = 0; i < shards.size(); ++i) {
    if (InterruptFlag::IsSet()) return Cancelled("interrupted by a signal");
    std::string path = data.path(i);
    if (!command.dali_idx) {
      const std::filesystem::path inside =
          std::filesystem::path(command.dali_directory) / shards[i].name;
      EMLIO_RETURN_IF_ERROR(MakeDirectories(inside.parent_path().string()));
      path = inside.string();
    }
    EMLIO_ASSIGN_OR_RETURN(const bool is_new, dataset::EnsureDaliIndex(data, i, path + ".idx"));
    if (is_new) ++written;
  }
  return written;
}

}  // namespace

int RunIndex(const IndexCommand& command) {
  const Report report(command.json);
  if (const Status status = report.Check(); !status.ok()) return Fail(status);
  dataset::DatasetOptions options;
  options.name = "index";
  options.patterns = command.patterns;
  options.index_directory = command.index_directory;
  options.index_beside = command.index_beside;
  options.index_policy =
      command.rebuild ? dataset::IndexPolicy::kRebuild : dataset::IndexPolicy::kEnsure;
  options.max_record_bytes = command.max_record_bytes;
  options.on_bad_shard = command.on_bad_shard;
  options.index_threads = command.jobs;
  options.is_interrupted = &InterruptFlag::IsSet;

  uint64_t built = 0;
  const int64_t begin_ns = SystemClock().NowNs();
  auto opened = [&] {
    ProgressBar bar("indexing", "shards");
    options.progress = [&](const dataset::Progress& progress) {
      built = progress.shards_indexed;
      bar.Update({.items_done = progress.shards_done,
                  .items_total = progress.shards_total,
                  .bytes_done = progress.bytes_done,
                  .bytes_total = progress.bytes_total});
    };
    return dataset::Dataset::Open(options);
  }();
  Result<uint64_t> dali_written = uint64_t{0};
  if (opened.ok() && (command.dali_idx || !command.dali_directory.empty())) {
    dali_written = EnsureDaliIndexes(command, **opened);
  }
  const double seconds = static_cast<double>(SystemClock().NowNs() - begin_ns) / kNsPerSecond;
  if (!opened.ok()) return report.Finish(opened.status(), {{"seconds", seconds}});
  if (!dali_written.ok()) return report.Finish(dali_written.status(), {{"seconds", seconds}});

  const dataset::Manifest& manifest = (*opened)->manifest();
  if (report.for_people()) {
    fmt::print("{}, {}, {}{}; {} built, {:.2f} s\ndigest {}\n",
               FormatCount(manifest.shards().size(), "shard"),
               FormatCount(manifest.records(), "record"),
               FormatBytes(static_cast<double>(manifest.payload_bytes())), UnreadableText(manifest),
               FormatCount(built, "index"), seconds, ToHex(manifest.digest()));
  }
  if (report.for_people() && *dali_written > 0) {
    fmt::print("{} for DALI written\n", FormatCount(*dali_written, "index"));
  }
  auto shards = nlohmann::ordered_json::array();
  for (const dataset::ShardInfo& shard : manifest.shards()) {
    shards.push_back({{"name", shard.name},
                      {"records", shard.records},
                      {"payload_bytes", shard.payload_bytes},
                      {"max_record_bytes", shard.max_record_bytes},
                      {"fingerprint", ToHex(shard.fingerprint)},
                      {"unreadable_bytes", shard.unreadable_bytes}});
  }
  return report.Finish(OkStatus(), {{"shards", manifest.shards().size()},
                                    {"records", manifest.records()},
                                    {"payload_bytes", manifest.payload_bytes()},
                                    {"max_record_bytes", manifest.max_record_bytes()},
                                    {"unreadable_bytes", manifest.unreadable_bytes()},
                                    {"built", built},
                                    {"dali_written", *dali_written},
                                    {"digest", ToHex(manifest.digest())},
                                    {"seconds", seconds},
                                    {"shard_list", std::move(shards)}});
}

}  // namespace emlio::tool
