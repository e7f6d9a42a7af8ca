// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/transport/waker.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace emlio::transport {

Result<std::unique_ptr<Waker>> Waker::Create() {
  const int fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0) return ErrnoStatus(errno, "cannot create the eventfd of a transport");
  return std::unique_ptr<Waker>(new Waker(fd));
}

Waker::~Waker() { ::close(fd_); }

void Waker::Wake() {
  if (pending_.exchange(true, std::memory_order_acq_rel)) return;
  const uint64_t one = 1;
  // Fails only when the counter is at its limit, and then the descriptor is readable anyway.
  [[maybe_unused]] const ssize_t written = ::write(fd_, &one, sizeof(one));
}

void Waker::Drain() {
  // In this order: were the flag cleared first, a Wake in between would set it again and lose its
  // write to the read, and no later Wake would write any more.
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t bytes = ::read(fd_, &count, sizeof(count));
  pending_.store(false, std::memory_order_release);
}

}  // namespace emlio::transport
