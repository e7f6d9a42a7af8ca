// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/dataset/live_indexes.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "emlio/base/file.h"
#include "emlio/base/log.h"

namespace emlio::dataset {

using tfrecord::ShardIndex;

LiveIndexes::LiveIndexes(const std::vector<OpenedShard>& shards, const Manifest& manifest)
    : shards_(shards), manifest_(manifest), indexes_(shards.size()) {
  for (size_t i = 0; i < shards.size(); ++i) indexes_[i] = &shards[i].index;
}

Status LiveIndexes::Mend(uint32_t shard, const ShardIndex* index, const Status& reason,
                         Status* bad) {
  MutexLock lock(mend_mu_);
  if (indexes_[shard] != index) return Replaced(shard);
  const std::string& index_path = index->path();
  const OpenedShard& opened = shards_[shard];
  if (!opened.IsAsOpened()) return reason;
  const auto rotten = [&] {
    *bad = Corrupt("length checksum does not hold: damaged where it is stored");
    return reason;
  };
  // Nothing damages one in memory.
  if (index_path.empty() || rotten_.contains(shard)) return rotten();
  // One that was mended is not to blame.
  if (!suspected_.insert(shard).second) return reason;

  const auto file = OpenForReading(opened.path);
  if (!file.ok()) return reason;
  LogWarning("shard {} or its index {} is damaged: the shard is indexed again", opened.path,
             index_path);
  const ShardInfo& info = manifest_.shards()[shard];
  tfrecord::IndexOptions options;
  options.max_record_bytes = std::max<uint64_t>(info.max_record_bytes, 1);
  auto built = ShardIndex::Build(**file, options);
  if (!built.ok()) {
    if (index->CheckTable().ok()) {
      rotten_.insert(shard);
      return rotten();
    }
    return reason.WithContext(
        fmt::format("the shard cannot be indexed again ({})", built.status().message()));
  }
  if (const Status saved = built->Save(index_path); !saved.ok()) {
    LogWarning("the index is kept in memory: {}", saved.message());
  }
  if (built->fingerprint() != info.fingerprint || built->records() != info.records) {
    return ShardChanged(
        fmt::format("shard {} is not what index {} said; it was indexed again: start again",
                    opened.path, index_path));
  }
  auto loaded = ShardIndex::Load(index_path, built->shard_identity());
  const bool saved = loaded.ok() && loaded->CheckTable().ok();
  mended_.push_back(saved ? *std::move(loaded) : *std::move(built));
  indexes_[shard] = &mended_.back();
  return Replaced(shard);
}

Status LiveIndexes::Replaced(uint32_t shard) const {
  return ShardChanged(
      fmt::format("the index of shard {} was damaged while it was in use and has been built "
                  "again: begin the pass again",
                  shards_[shard].path));
}

}  // namespace emlio::dataset
