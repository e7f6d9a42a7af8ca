// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/base/system_limits.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <string_view>

namespace emlio {
namespace {

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

// The number in a file of one line; no limit when there is no such file or it says "max".
uint64_t LimitIn(const std::string& path) {
  std::ifstream file(path);
  uint64_t limit = 0;
  return file >> limit ? limit : kNoLimit;
}

// The lowest limit of a group and its ancestors. Inside a container the path may be one of the
// host, which is not there; the mounted root is then the container's own group.
uint64_t LowestLimit(const std::string& mount, std::string group, std::string_view file) {
  uint64_t lowest = kNoLimit;
  while (true) {
    lowest = std::min(lowest, LimitIn(mount + group + "/" + std::string(file)));
    const size_t slash = group.rfind('/');
    if (slash == std::string::npos) return lowest;
    group.resize(slash);
  }
}

}  // namespace

uint64_t UsableMemoryBytes(const std::string& root) {
  uint64_t usable = kNoLimit;
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGESIZE);
  if (pages > 0 && page_bytes > 0) usable = static_cast<uint64_t>(pages) * page_bytes;
  const std::string mount = root + "sys/fs/cgroup";
  std::ifstream groups(root + "proc/self/cgroup");
  // "0::/path" of version 2, "4:memory:/path" of version 1.
  for (std::string line; std::getline(groups, line);) {
    std::istringstream fields(line);
    std::string number, controllers, path;
    std::getline(fields, number, ':');
    std::getline(fields, controllers, ':');
    std::getline(fields, path);
    if (controllers.empty()) {
      usable = std::min(usable, LowestLimit(mount, path, "memory.max"));
    } else if (("," + controllers + ",").find(",memory,") != std::string::npos) {
      usable = std::min(usable, LowestLimit(mount + "/memory", path, "memory.limit_in_bytes"));
    }
  }
  return usable;
}

uint64_t TcpSendWindowBytes(const std::string& root) {
  std::ifstream file(root + "proc/sys/net/ipv4/tcp_wmem");
  uint64_t smallest = 0;
  uint64_t initial = 0;
  uint64_t largest = 0;
  if (!(file >> smallest >> initial >> largest)) largest = uint64_t{4} << 20;
  // The rest is the kernel's own bookkeeping (3.47 MB of 4 MiB were seen on their way).
  return std::max<uint64_t>(largest / 100 * 83, 1);
}

uint64_t MaxOpenFiles() {
  rlimit limit = {};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 1024;
}

void RaiseMaxOpenFiles() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace emlio
