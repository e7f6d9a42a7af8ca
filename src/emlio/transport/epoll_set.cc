// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/transport/epoll_set.h"

#include <cerrno>

namespace emlio::transport {

Result<EpollSet> EpollSet::Create() {
  Descriptor fd(::epoll_create1(EPOLL_CLOEXEC));
  if (fd.get() < 0) return ErrnoStatus(errno, "cannot create an epoll set");
  return EpollSet(std::move(fd));
}

Result<int> EpollSet::Wait(int wait_ms, Events* events) const {
  const int count =
      ::epoll_wait(fd_.get(), events->data(), static_cast<int>(events->size()), wait_ms);
  if (count < 0 && errno == EINTR) return 0;
  if (count < 0) return ErrnoStatus(errno, "epoll_wait");
  return count;
}

void EpollSet::Control(int operation, int fd, uint32_t what, uint64_t tag) const {
  epoll_event event{};
  event.events = what;
  event.data.u64 = tag;
  (void)::epoll_ctl(fd_.get(), operation, fd, &event);
}

}  // namespace emlio::transport
