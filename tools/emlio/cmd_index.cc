// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "console.h"
#include "emlio/base/clock.h"
#include "emlio/base/hash128.h"
#include "emlio/dataset/dataset.h"

namespace emlio::tool {

int RunIndex(const IndexCommand& command) {
  const Report report(command.json);
  dataset::DatasetOptions options;
  options.name = "index";
  options.patterns = command.patterns;
  options.index_directory = command.index_directory;
  options.index_beside = command.index_beside;
  options.index_policy =
      command.rebuild ? dataset::IndexPolicy::kRebuild : dataset::IndexPolicy::kEnsure;
  options.max_record_bytes = command.max_record_bytes;
  options.index_threads = command.jobs;

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
  const double seconds = static_cast<double>(SystemClock().NowNs() - begin_ns) / kNsPerSecond;
  if (!opened.ok()) return report.Finish(opened.status(), {{"seconds", seconds}});

  const dataset::Manifest& manifest = (*opened)->manifest();
  if (report.for_people()) {
    fmt::print("{}, {}, {}; {} built, {:.2f} s\ndigest {}\n",
               FormatCount(manifest.shards().size(), "shard"),
               FormatCount(manifest.records(), "record"),
               FormatBytes(static_cast<double>(manifest.payload_bytes())),
               FormatCount(built, "index"), seconds, ToHex(manifest.digest()));
  }
  auto shards = nlohmann::ordered_json::array();
  for (const dataset::ShardInfo& shard : manifest.shards()) {
    shards.push_back({{"name", shard.name},
                      {"records", shard.records},
                      {"payload_bytes", shard.payload_bytes},
                      {"max_record_bytes", shard.max_record_bytes},
                      {"fingerprint", ToHex(shard.fingerprint)}});
  }
  return report.Finish(OkStatus(), {{"shards", manifest.shards().size()},
                                    {"records", manifest.records()},
                                    {"payload_bytes", manifest.payload_bytes()},
                                    {"max_record_bytes", manifest.max_record_bytes()},
                                    {"built", built},
                                    {"digest", ToHex(manifest.digest())},
                                    {"seconds", seconds},
                                    {"shard_list", std::move(shards)}});
}

}  // namespace emlio::tool
