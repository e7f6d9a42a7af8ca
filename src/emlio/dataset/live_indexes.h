// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <set>
#include <vector>

#include "emlio/base/mutex.h"
#include "emlio/base/status.h"
#include "emlio/dataset/manifest.h"
#include "emlio/dataset/open_shard.h"
#include "emlio/tfrecord/index.h"

// The indexes that a data set uses. Private to the module.
namespace emlio::dataset {

// The index in use of each shard: first its own, and one that was built anew if that is damaged.
// Thread-safe.
class LiveIndexes {
 public:
  // Both outlive it.
  LiveIndexes(const std::vector<OpenedShard>& shards, const Manifest& manifest);
  LiveIndexes(const LiveIndexes&) = delete;
  LiveIndexes& operator=(const LiveIndexes&) = delete;

  // Stays valid, and readable, when it is replaced. On the way of every record.
  const tfrecord::ShardIndex* Of(uint32_t shard) const { return indexes_[shard].load(); }

  // `index` was in use when it did not lead to a record. Finds out whether it or the shard is
  // damaged, which takes long, once a shard. The index: it is replaced by one that is built anew,
  // unless another thread has done it; always an error, since what was planned with the damaged one
  // cannot be used. The shard: `bad` says what is wrong with the record. `reason` is what the
  // suspicion rests on, and is returned when nothing was found.
  Status Mend(uint32_t shard, const tfrecord::ShardIndex* index, const Status& reason, Status* bad)
      EMLIO_EXCLUDES(mend_mu_);
  // What those are told who planned with an index that was replaced since.
  Status Replaced(uint32_t shard) const;

 private:
  const std::vector<OpenedShard>& shards_;
  const Manifest& manifest_;
  // One that was replaced stays: others may be reading it.
  std::vector<std::atomic<const tfrecord::ShardIndex*>> indexes_;
  Mutex mend_mu_;
  std::set<uint32_t> suspected_ EMLIO_GUARDED_BY(mend_mu_);
  std::set<uint32_t> rotten_ EMLIO_GUARDED_BY(mend_mu_);  // whose indexes are good
  std::deque<tfrecord::ShardIndex> mended_ EMLIO_GUARDED_BY(mend_mu_);
};

}  // namespace emlio::dataset
