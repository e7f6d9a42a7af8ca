// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>

#include "emlio/base/file.h"
#include "emlio/base/mutex.h"
#include "emlio/base/status.h"
#include "emlio/dataset/dataset.h"
#include "emlio/dataset/find_shards.h"
#include "emlio/dataset/shard_data.h"
#include "emlio/tfrecord/index.h"

// One shard of a data set and its index, while a data set is opened (open_shards.h) and in use
// (local_dataset.h). Private to the module.
namespace emlio::dataset {

struct OpenedShard {
  std::string path;
  ShardData data;
  tfrecord::ShardIndex index;

  // Whether the file under its name is the one that was opened, and was not changed.
  bool IsAsOpened() const {
    const auto now = IdentityOf(path);
    return now.ok() && *now == data.identity();
  }
};

// What opening one shard led to.
struct OpenOutcome {
  Status status;
  std::optional<OpenedShard> shard;
  std::string stale;  // why a saved index was not used
  Status unsaved;     // why the new index is in memory only
  tfrecord::Damage damage;
};

// Adds up what the indexing threads do.
class ProgressReporter {
 public:
  ProgressReporter(const ProgressCallback& callback, uint64_t shards, uint64_t bytes)
      : callback_(callback) {
    progress_.shards_total = shards;
    progress_.bytes_total = bytes;
  }
  // Part of a shard was indexed.
  void Indexed(uint64_t bytes) EMLIO_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    progress_.bytes_done += bytes;
    indexing_ = true;
    if (callback_) callback_(progress_);
  }
  // A shard is open; `bytes` of it were not told by Indexed.
  void Opened(uint64_t bytes, bool was_indexed) EMLIO_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    progress_.bytes_done += bytes;
    ++progress_.shards_done;
    if (was_indexed) ++progress_.shards_indexed;
    indexing_ = indexing_ || was_indexed;
    if (callback_ && indexing_) callback_(progress_);
  }

 private:
  const ProgressCallback& callback_;
  Mutex mu_;
  Progress progress_ EMLIO_GUARDED_BY(mu_);
  bool indexing_ EMLIO_GUARDED_BY(mu_) = false;
};

// The default of DatasetOptions::index_directory; empty when the environment has no home. Reads the
// environment: once for a data set, on the thread that opens it.
std::string DefaultIndexDirectory();

// Opens a shard, and loads or builds its index, as the options of its data set say; in these an
// empty index_directory means that there is none. Thread-safe.
OpenOutcome OpenShard(const FoundShard& found, const DatasetOptions& options,
                      ProgressReporter* reporter, const std::stop_token& stop);

}  // namespace emlio::dataset
