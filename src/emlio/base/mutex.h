// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

// Clang checks these with -Wthread-safety; other compilers see nothing.
// https://clang.llvm.org/docs/ThreadSafetyAnalysis.html
#if defined(__clang__)
#define EMLIO_TSA(x) __attribute__((x))
#else
#define EMLIO_TSA(x)
#endif
#define EMLIO_GUARDED_BY(x) EMLIO_TSA(guarded_by(x))
#define EMLIO_REQUIRES(...) EMLIO_TSA(requires_capability(__VA_ARGS__))
#define EMLIO_EXCLUDES(...) EMLIO_TSA(locks_excluded(__VA_ARGS__))

namespace emlio {

// std::mutex with annotations: fields name the mutex that guards them.
class EMLIO_TSA(capability("mutex")) Mutex {
 public:
  void Lock() EMLIO_TSA(acquire_capability()) { mu_.lock(); }
  void Unlock() EMLIO_TSA(release_capability()) { mu_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mu_;
};

class EMLIO_TSA(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mu) EMLIO_TSA(acquire_capability(mu)) : mu_(mu) { mu_.Lock(); }
  ~MutexLock() EMLIO_TSA(release_capability()) { mu_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mu_;
};

// A condition variable for Mutex. Waits may wake spuriously: always loop on the predicate.
class CondVar {
 public:
  void Wait(Mutex& mu) EMLIO_REQUIRES(mu) {
    std::unique_lock<std::mutex> lock(mu.mu_, std::adopt_lock);
    cv_.wait(lock);
    lock.release();
  }
  // False when the deadline passed.
  bool WaitUntil(Mutex& mu, std::chrono::steady_clock::time_point deadline) EMLIO_REQUIRES(mu) {
    std::unique_lock<std::mutex> lock(mu.mu_, std::adopt_lock);
    const bool in_time = cv_.wait_until(lock, deadline) == std::cv_status::no_timeout;
    lock.release();
    return in_time;
  }
  void NotifyOne() { cv_.notify_one(); }
  void NotifyAll() { cv_.notify_all(); }

 private:
  std::condition_variable cv_;
};

}  // namespace emlio
