// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/transport/descriptors.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

namespace emlio::transport {

Status CheckDescriptorsLeft(int count) {
  std::vector<int> opened;
  int error = 0;
  while (static_cast<int>(opened.size()) < count && error == 0) {
    const int fd = ::eventfd(0, EFD_CLOEXEC);
    if (fd < 0) {
      error = errno;
    } else {
      opened.push_back(fd);
    }
  }
  for (const int fd : opened) ::close(fd);
  if (error == 0) return OkStatus();
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return LimitExceeded(fmt::format(
      "cannot open another connection: {} (this process may open {} files); raise the limit with "
      "\"ulimit -n\"",
      std::strerror(error), limit.rlim_cur));
}

}  // namespace emlio::transport
