// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/epoll.h>

#include <array>
#include <cstdint>

#include "emlio/base/status.h"
#include "emlio/transport/descriptors.h"

namespace emlio::transport {

// Descriptors that are waited for together, each with a tag by which it is told. Level-triggered. A
// descriptor leaves the set when it is closed.
class EpollSet {
 public:
  using Events = std::array<epoll_event, 64>;

  static Result<EpollSet> Create();
  // `what`: EPOLLIN, EPOLLOUT. Ends and errors are always told.
  void Add(int fd, uint32_t what, uint64_t tag) const { Control(EPOLL_CTL_ADD, fd, what, tag); }
  void Change(int fd, uint32_t what, uint64_t tag) const { Control(EPOLL_CTL_MOD, fd, what, tag); }
  // How many of `events` were set; 0 also when a signal came. wait_ms < 0 waits for ever.
  Result<int> Wait(int wait_ms, Events* events) const;

 private:
  explicit EpollSet(Descriptor fd) : fd_(std::move(fd)) {}
  void Control(int operation, int fd, uint32_t what, uint64_t tag) const;

  Descriptor fd_;
};

}  // namespace emlio::transport
