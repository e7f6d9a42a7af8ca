// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/daemon/gather.h"

#include <algorithm>
#include <utility>

#include "emlio/base/log.h"

namespace emlio::daemon {
namespace {

constexpr size_t kSmallBufferBytes = size_t{256} << 10;
constexpr auto kPatience = std::chrono::milliseconds(2);

void ToItems(const GatherTask& task, std::vector<dataset::GatherItem>* items) {
  const session::ChunkJob& job = task.job;
  items->clear();
  for (size_t i = 0; i < job.records.size(); ++i) {
    dataset::GatherItem item;
    item.shard = task.local_shards[i];
    item.record = job.records[i].record;
    item.begin = job.header.record_offset;
    item.size = job.header.sizes[i];
    items->push_back(item);
  }
}

}  // namespace

bool FindInMemory(GatherTask* task, GatherScratch* scratch) {
  ToItems(*task, &scratch->items);
  scratch->pieces.clear();
  if (!task->dataset->FindInMemory(scratch->items, &scratch->pieces) ||
      !task->dataset->CheckUnchanged(scratch->items.front().shard).ok()) {
    return false;
  }
  task->job.header.crcs.clear();
  for (const dataset::StoredPiece& piece : scratch->pieces) {
    task->pieces.push_back({piece.descriptor, piece.offset, piece.size});
    task->job.header.crcs.push_back(piece.crc32c);
  }
  return true;
}

GatherPool::GatherPool(int threads, uint32_t max_chunk_bytes, uint64_t max_idle_bytes,
                       std::function<void()> wake)
    : small_(kSmallBufferBytes, max_idle_bytes / 4 / kSmallBufferBytes),
      large_(max_chunk_bytes, std::max<uint64_t>(1, max_idle_bytes / max_chunk_bytes)),
      wake_(std::move(wake)) {
  auto pool =
      StartPool("emlio-read", threads, [this](int number, std::stop_token) { Run(number == 0); });
  if (pool.ok()) {
    threads_ = *std::move(pool);
  } else {
    LogError("{}", pool.status().message());
  }
}

GatherPool::~GatherPool() {
  MutexLock lock(mu_);
  closed_ = true;
  queue_.clear();
  work_.NotifyAll();
  backlog_.NotifyAll();
}

void GatherPool::Submit(std::unique_ptr<GatherTask> task) {
  if (threads_.empty()) {  // the system has none to give: slow, but right
    std::vector<dataset::GatherItem> scratch;
    Finish(std::move(task), &scratch);
    return;
  }
  MutexLock lock(mu_);
  queue_.push_back({std::chrono::steady_clock::now(), std::move(task)});
  work_.NotifyOne();
  if (!is_watched_) backlog_.NotifyOne();
}

std::unique_ptr<GatherTask> GatherPool::Pop(bool is_first) {
  MutexLock lock(mu_);
  while (!closed_) {
    if (queue_.empty()) {
      (is_first ? work_ : backlog_).Wait(mu_);
      continue;
    }
    if (!is_first) {
      const auto ripe = queue_.front().since + kPatience;
      if (std::chrono::steady_clock::now() < ripe) {
        const bool is_watch = !std::exchange(is_watched_, true);
        if (is_watch) {
          backlog_.WaitUntil(mu_, ripe);
          is_watched_ = false;
        } else {
          backlog_.Wait(mu_);
        }
        continue;
      }
    }
    std::unique_ptr<GatherTask> task = std::move(queue_.front().task);
    queue_.pop_front();
    if (!is_first && !queue_.empty()) backlog_.NotifyOne();  // somebody else watches on
    return task;
  }
  return nullptr;
}

std::vector<std::unique_ptr<GatherTask>> GatherPool::TakeDone() {
  MutexLock lock(mu_);
  return std::exchange(done_, {});
}

void GatherPool::Run(bool is_first) {
  std::vector<dataset::GatherItem> scratch;
  while (auto task = Pop(is_first)) Finish(std::move(task), &scratch);
}

void GatherPool::Finish(std::unique_ptr<GatherTask> task,
                        std::vector<dataset::GatherItem>* scratch) {
  Gather(task.get(), scratch);
  {
    MutexLock lock(mu_);
    done_.push_back(std::move(task));
  }
  wake_();
}

void GatherPool::Gather(GatherTask* task, std::vector<dataset::GatherItem>* scratch) {
  session::ChunkJob& job = task->job;
  if (job.verify) {
    task->status = task->dataset->VerifyRecord(task->local_shards.front(),
                                               job.records.front().record, &task->bad);
    if (!task->status.ok()) return;
  }
  ToItems(*task, scratch);
  task->payload = job.payload_bytes <= kSmallBufferBytes ? small_.Take() : large_.Take();
  task->payload.Truncate(job.payload_bytes);
  uint8_t* to = task->payload.data();
  for (dataset::GatherItem& item : *scratch) {
    item.to = to;
    to += item.size;
  }
  task->status = task->dataset->Gather(*scratch, &task->bad);
  // Sooner or later a shard that is rewritten with records of the same sizes is met; one look a
  // chunk costs little.
  if (task->status.ok()) task->status = task->dataset->CheckUnchanged(scratch->front().shard);
  if (!task->status.ok()) return;
  job.header.crcs.clear();
  if (task->let_go) task->dataset->LetGo(*scratch);
  for (const dataset::GatherItem& item : *scratch) job.header.crcs.push_back(item.crc32c);
}

}  // namespace emlio::daemon
