// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "buffer_pool.h"
#include "emlio/base/mutex.h"
#include "emlio/base/status.h"
#include "emlio/base/thread.h"
#include "link_model.h"
#include "namespaces.h"

namespace emlio::wanlab {

// The directions of a link, by where frames go.
enum Direction : int { kToCompute = 0, kToStorage = 1 };
inline constexpr Direction kDirections[] = {kToCompute, kToStorage};

// What a link's thread did, beside what its two models count.
struct LinkCounts {
  int64_t cpu_ns = 0;  // of the thread; the kernel's receiving of what it delivers is in it
  uint64_t wake_ups = 0;
  uint64_t write_errors = 0;  // frames that a device did not take
  int last_write_errno = 0;
  uint64_t packet_memory_bytes = 0;
};

// A thread that carries frames between two devices, both ways. All that it knows belongs to that
// thread; others reach it by Call.
class LinkThread {
 public:
  // `storage` and `compute` are the devices at the two ends.
  static Result<std::unique_ptr<LinkThread>> Start(int number, TunDevice storage, TunDevice compute,
                                                   uint64_t seed);
  // Frames that are still on their way are lost.
  ~LinkThread();

  struct View {
    LinkModel& to_compute;
    LinkModel& to_storage;
    // Frames that the kernel dropped before this thread could read them.
    uint64_t to_compute_device_drops;
    uint64_t to_storage_device_drops;
    LinkCounts counts;
  };
  // Runs `what` in the link's thread, between two frames, and waits for it. REQUIRES: one caller at
  // a time.
  void Call(const std::function<void(const View&)>& what) EMLIO_EXCLUDES(mutex_);

  // What the system allowed, in this order of preference: "realtime", "nice", "normal". With less
  // than the first, frames may wait until what is measured leaves a core.
  const std::string& priority() const { return priority_; }

 private:
  struct Path {
    int from = -1;
    int to = -1;
    std::unique_ptr<LinkModel> model;
    BufferRef reading;  // a buffer of the largest size that the next frame is read into
  };

  LinkThread() = default;
  void Run(const std::stop_token& stop);
  // Reads a few frames; true when there may be more.
  bool Read(Path* path);
  void Deliver(Path* path);
  // The shortest time between two wake-ups.
  int64_t TickNs() const;
  void RunCall() EMLIO_EXCLUDES(mutex_);

  TunDevice storage_;
  TunDevice compute_;
  UniqueFd waker_;  // an eventfd, written when there is a call, or the end has come
  std::atomic<bool> called_ = false;
  BufferPool pool_;
  Path paths_[2];
  LinkCounts counts_;
  std::string priority_;

  Mutex mutex_;
  CondVar changed_;
  const std::function<void(const View&)>* call_ EMLIO_GUARDED_BY(mutex_) = nullptr;
  bool started_ EMLIO_GUARDED_BY(mutex_) = false;
  Thread thread_;
};

}  // namespace emlio::wanlab
