// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/dataset/dataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <utility>

#include "emlio/base/file.h"
#include "emlio/base/log.h"
#include "emlio/base/system_limits.h"
#include "emlio/base/thread.h"
#include "emlio/dataset/find_shards.h"
#include "emlio/dataset/local_dataset.h"
#include "emlio/dataset/open_shards.h"
#include "emlio/tfrecord/record.h"

namespace emlio::dataset {
namespace {

bool IsLargerThanMemory(const std::vector<FoundShard>& found) {
  uint64_t bytes = 0;
  for (const FoundShard& shard : found) bytes += shard.identity.size_bytes;
  return bytes > UsableMemoryBytes() / 2;
}

// kUnsupported when a file system that shards lie on refuses to map them. Tries one file of each.
Status TryToMap(const std::vector<FoundShard>& found) {
  std::set<uint64_t> devices;
  for (const FoundShard& shard : found) {
    if (shard.identity.size_bytes == 0 || !devices.insert(shard.identity.device).second) continue;
    const auto mapped = MappedFile::Map(shard.path);
    // What else may be wrong, opening it says.
    if (mapped.status().code() == Code::kUnsupported) return mapped.status();
  }
  return OkStatus();
}

Status CheckOptions(const DatasetOptions& options) {
  if (options.name.empty() || options.name.size() > 255 ||
      options.name.find('/') != std::string::npos) {
    return InvalidArgument(
        fmt::format("'{}' cannot name a data set: 1 to 255 bytes without '/'", options.name));
  }
  if (options.patterns.empty()) {
    return InvalidArgument(fmt::format("data set '{}' has no file and no pattern", options.name));
  }
  if (options.max_record_bytes == 0 ||
      options.max_record_bytes > tfrecord::kHighestMaxRecordBytes) {
    return InvalidArgument(fmt::format("a largest record of {} bytes is not possible: 1 to {}",
                                       options.max_record_bytes, tfrecord::kHighestMaxRecordBytes));
  }
  return CheckThreadCount("index_threads", options.index_threads);
}

}  // namespace

Result<BadShardPolicy> ParseBadShardPolicy(std::string_view name) {
  for (const auto policy : {BadShardPolicy::kError, BadShardPolicy::kKeepReadable}) {
    if (name == BadShardPolicyName(policy)) return policy;
  }
  return InvalidArgument(
      fmt::format("on-bad-shard '{}': must be 'error' or 'keep-readable'", name));
}

std::string_view BadShardPolicyName(BadShardPolicy policy) {
  return policy == BadShardPolicy::kError ? "error" : "keep-readable";
}

Result<std::unique_ptr<Dataset>> Dataset::Open(DatasetOptions options) {
  EMLIO_RETURN_IF_ERROR(CheckOptions(options));
  const std::string context = fmt::format("data set '{}'", options.name);
  auto found = FindShards(options.patterns);
  if (!found.ok()) return found.status().WithContext(context);
  const bool is_larger_than_memory = IsLargerThanMemory(*found);
  // Every shard takes a descriptor when it is not mapped.
  if (options.io == IoMode::kAuto) {
    options.io = is_larger_than_memory && found->size() < MaxOpenFiles() / 2 ? IoMode::kPread
                                                                             : IoMode::kMmap;
    if (options.io == IoMode::kMmap) {
      if (const Status status = TryToMap(*found); !status.ok()) {
        LogInfo("{}: reading shards instead of mapping them: {}", context, status.message());
        options.io = IoMode::kPread;
      }
    }
  }
  if (found->size() > options.max_descriptors) options.max_descriptors = 0;
  auto shards = OpenShards(options, *found);
  if (!shards.ok()) return shards.status().WithContext(context);

  std::vector<ShardInfo> infos;
  infos.reserve(shards->size());
  for (size_t i = 0; i < shards->size(); ++i) {
    const tfrecord::ShardIndex& index = (*shards)[i].index;
    infos.push_back({(*found)[i].name, index.records(), index.payload_bytes(),
                     index.max_record_bytes(), index.fingerprint(), index.unreadable_bytes()});
  }
  auto manifest = Manifest::Create(std::move(infos));
  if (!manifest.ok()) {
    return manifest.status().WithContext(
        fmt::format("{} ({})", context, fmt::join(options.patterns, ", ")));
  }
  return std::unique_ptr<Dataset>(std::make_unique<LocalDataset>(
      std::move(options.name), *std::move(manifest), *std::move(shards), options.io,
      is_larger_than_memory && options.io == IoMode::kPread));
}

}  // namespace emlio::dataset
