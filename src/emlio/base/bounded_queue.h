// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "emlio/base/mutex.h"

namespace emlio {

// What a queue did, to tell a slow consumer (push waits, full) from a slow producer (pop waits,
// empty). Counters only grow.
struct QueueStats {
  uint64_t pushed = 0;
  uint64_t popped = 0;
  uint64_t push_wait_ns = 0;  // summed time that Push was blocked on a full queue
  uint64_t pop_wait_ns = 0;   // summed time that Pop was blocked on an empty queue
  size_t size = 0;            // now
  size_t max_size = 0;        // the highest ever
};

// A bounded, closable, measured queue between threads; first in, first out. All methods may be
// called from any thread. After Close, Push refuses and Pop hands out what is left, then nullopt:
// the end is a value.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) {}

  // Waits for room. False (and the item is dropped) when the queue is closed.
  bool Push(T item) EMLIO_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (items_.size() >= capacity_ && !closed_) {
      const auto begin = std::chrono::steady_clock::now();
      while (items_.size() >= capacity_ && !closed_) not_full_.Wait(mu_);
      stats_.push_wait_ns += Since(begin);
    }
    if (closed_) return false;
    Append(std::move(item));
    return true;
  }

  // Never waits. False when full or closed; the item is moved from only on success.
  bool TryPush(T&& item) EMLIO_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (closed_ || items_.size() >= capacity_) return false;
    Append(std::move(item));
    return true;
  }

  // Waits for an item; nullopt once the queue is closed and empty.
  std::optional<T> Pop() EMLIO_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (items_.empty() && !closed_) {
      const auto begin = std::chrono::steady_clock::now();
      while (items_.empty() && !closed_) not_empty_.Wait(mu_);
      stats_.pop_wait_ns += Since(begin);
    }
    return TakeFront();
  }

  // Never waits; nullopt when there is nothing now.
  std::optional<T> TryPop() EMLIO_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return TakeFront();
  }

  void Close() EMLIO_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    closed_ = true;
    not_full_.NotifyAll();
    not_empty_.NotifyAll();
  }

  QueueStats stats() const EMLIO_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    QueueStats stats = stats_;
    stats.size = items_.size();
    return stats;
  }

 private:
  static uint64_t Since(std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() -
                                                                begin)
        .count();
  }
  void Append(T item) EMLIO_REQUIRES(mu_) {
    items_.push_back(std::move(item));
    ++stats_.pushed;
    if (items_.size() > stats_.max_size) stats_.max_size = items_.size();
    not_empty_.NotifyOne();
  }
  std::optional<T> TakeFront() EMLIO_REQUIRES(mu_) {
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    ++stats_.popped;
    not_full_.NotifyOne();
    return item;
  }

  const size_t capacity_;
  mutable Mutex mu_;
  CondVar not_full_;
  CondVar not_empty_;
  std::deque<T> items_ EMLIO_GUARDED_BY(mu_);
  QueueStats stats_ EMLIO_GUARDED_BY(mu_);
  bool closed_ EMLIO_GUARDED_BY(mu_) = false;
};

}  // namespace emlio
