// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "emlio/base/buffer.h"
#include "emlio/base/mutex.h"
#include "emlio/base/thread.h"
#include "emlio/dataset/dataset.h"
#include "emlio/session/sender.h"
#include "emlio/transport/transport.h"

namespace emlio::daemon {

// One chunk on its way through the gather threads. `session` and `stream` are the router's own
// notes: nobody else looks at them.
struct GatherTask {
  std::shared_ptr<void> session;
  uint32_t stream = 0;
  session::ChunkJob job;
  std::vector<uint32_t> local_shards;  // one per record of the job: its shard in `dataset`
  std::shared_ptr<const dataset::Dataset> dataset;
  bool let_go = false;  // nobody will want these records again soon
  // Results: one of the two.
  Buffer payload;
  std::vector<transport::FilePiece> pieces;
  Status status;
  dataset::BadItem bad;  // of an error that one record is to blame for: which, and why
};

struct GatherScratch {
  std::vector<dataset::GatherItem> items;
  std::vector<dataset::StoredPiece> pieces;
};

// Sets `pieces` and the job's checksums if all of its records are in memory, so that they can be
// sent from where they are. Never waits for storage. False if not, and when anything is wrong: a
// GatherPool finds out what.
bool FindInMemory(GatherTask* task, GatherScratch* scratch);

// Threads that copy records from shards into pooled buffers. Submit and TakeDone are for the
// router thread; `wake` is called from a gather thread after a task has become done.
//
// The first thread does all of the work as long as it keeps up, which from the page cache it does:
// copying on more cores than needed costs cache misses and switches. The others step in when a task
// has waited for kPatience, that is when storage makes the first one wait.
class GatherPool {
 public:
  GatherPool(int threads, uint32_t max_chunk_bytes, uint64_t max_idle_bytes,
             std::function<void()> wake);
  ~GatherPool();  // drops what is queued, finishes what is running

  // Never waits: the router bounds what is under way by bytes.
  void Submit(std::unique_ptr<GatherTask> task);
  std::vector<std::unique_ptr<GatherTask>> TakeDone() EMLIO_EXCLUDES(mu_);

 private:
  struct Queued {
    std::chrono::steady_clock::time_point since;
    std::unique_ptr<GatherTask> task;
  };

  void Run(bool is_first);
  void Finish(std::unique_ptr<GatherTask> task, std::vector<dataset::GatherItem>* scratch)
      EMLIO_EXCLUDES(mu_);
  std::unique_ptr<GatherTask> Pop(bool is_first) EMLIO_EXCLUDES(mu_);
  void Gather(GatherTask* task, std::vector<dataset::GatherItem>* scratch);

  BufferPool small_;  // chunks of small batches do not occupy large buffers
  BufferPool large_;
  const std::function<void()> wake_;
  Mutex mu_;
  CondVar work_;     // for the first thread: there is a task
  CondVar backlog_;  // for the others: watch over the tasks
  std::deque<Queued> queue_ EMLIO_GUARDED_BY(mu_);
  bool is_watched_ EMLIO_GUARDED_BY(mu_) = false;  // one of the others waits for a task to ripen
  bool closed_ EMLIO_GUARDED_BY(mu_) = false;
  std::vector<std::unique_ptr<GatherTask>> done_ EMLIO_GUARDED_BY(mu_);
  std::vector<Thread> threads_;  // last: they use all of the above
};

}  // namespace emlio::daemon
