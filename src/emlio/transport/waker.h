// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>

#include "emlio/base/status.h"

namespace emlio::transport {

// Ends a poll() from another thread. Many Wakes between two polls cost one system call.
class Waker {
 public:
  static Result<std::unique_ptr<Waker>> Create();
  ~Waker();
  Waker(const Waker&) = delete;
  Waker& operator=(const Waker&) = delete;

  // From any thread.
  void Wake();
  // Whether Wake was called since the last Drain. The owner puts fd() into its poll set and calls
  // Drain whenever that is readable or pending() says so.
  bool pending() const { return pending_.load(std::memory_order_acquire); }
  void Drain();
  int fd() const { return fd_; }

 private:
  explicit Waker(int fd) : fd_(fd) {}

  const int fd_;
  std::atomic<bool> pending_ = false;
};

}  // namespace emlio::transport
