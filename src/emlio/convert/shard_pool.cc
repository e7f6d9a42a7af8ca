// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/convert/shard_pool.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "emlio/base/mutex.h"
#include "emlio/base/thread.h"

namespace emlio::convert {
namespace {

// Also how soon a signal is acted on.
constexpr std::chrono::milliseconds kReportInterval{10};

using ShardWork = std::function<Status(uint64_t shard, const std::stop_token& stop)>;

// The workers' common state. The thread that made it waits and reports.
class ShardPool {
 public:
  ShardPool(uint64_t shards, const ShardWork& work) : shards_(shards), work_(work) {}

  Status Run(const ShardSetOptions& options, const std::function<void()>& report) {
    const uint64_t wanted = options.threads > 0 ? static_cast<uint64_t>(options.threads)
                                                : std::thread::hardware_concurrency();
    const uint64_t count = std::clamp<uint64_t>(wanted, 1, shards_);
    {
      MutexLock lock(mu_);
      running_workers_ = count;
    }
    EMLIO_ASSIGN_OR_RETURN(
        std::vector<Thread> workers,
        StartPool("convert", static_cast<int>(count), [this](int, std::stop_token) { Work(); }));
    {
      MutexLock lock(mu_);
      running_workers_ -= count - workers.size();
    }
    while (IsRunningAfterInterval()) {
      report();
      if (options.stop.stop_requested()) Fail(Cancelled("the conversion was interrupted"));
    }
    for (Thread& worker : workers) worker.Join();
    MutexLock lock(mu_);
    return status_;
  }

 private:
  bool IsRunningAfterInterval() EMLIO_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    const auto deadline = std::chrono::steady_clock::now() + kReportInterval;
    while (running_workers_ > 0 && worker_ended_.WaitUntil(mu_, deadline)) {
    }
    return running_workers_ > 0;
  }

  void Work() EMLIO_EXCLUDES(mu_) {
    while (true) {
      uint64_t shard;
      {
        MutexLock lock(mu_);
        if (!status_.ok() || next_shard_ == shards_) {
          --running_workers_;
          worker_ended_.NotifyAll();
          return;
        }
        shard = next_shard_++;
      }
      if (Status status = work_(shard, stop_.get_token()); !status.ok()) Fail(std::move(status));
    }
  }

  void Fail(Status status) EMLIO_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (status_.ok()) status_ = std::move(status);
    stop_.request_stop();
  }

  const uint64_t shards_;
  const ShardWork& work_;
  std::stop_source stop_;
  Mutex mu_;
  CondVar worker_ended_;
  uint64_t running_workers_ EMLIO_GUARDED_BY(mu_) = 0;
  uint64_t next_shard_ EMLIO_GUARDED_BY(mu_) = 0;
  Status status_ EMLIO_GUARDED_BY(mu_);  // of the first failure
};

}  // namespace

Status ForEachShard(const ShardSetOptions& options, uint64_t shards, const ShardWork& work,
                    const std::function<void()>& report) {
  return ShardPool(shards, work).Run(options, report);
}

}  // namespace emlio::convert
