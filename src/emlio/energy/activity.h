// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace emlio::energy {

// What a host has done since it started, in units that are not joules: the only thing that can be
// said of a host without counters. None: the kernel does not tell.
struct Activity {
  std::optional<double> cpu_seconds;               // of all CPUs together, not idle
  std::optional<double> gpu_seconds;               // see GpuBusy; ReadActivity leaves it out
  std::optional<uint64_t> network_received_bytes;  // all interfaces but loopback
  std::optional<uint64_t> network_sent_bytes;
  std::optional<uint64_t> storage_read_bytes;  // whole devices; what the page cache has is not read
  std::optional<uint64_t> storage_written_bytes;
};
// From /proc below `root`. Never fails.
Activity ReadActivity(const std::string& root);
// What was done between two readings; none where one of them is missing or a counter fell.
Activity Between(const Activity& before, const Activity& after);

struct ByteCounts {
  uint64_t in = 0;
  uint64_t out = 0;
};
// Sums of /proc/net/dev without "lo"; nothing when the text is not of its form.
std::optional<ByteCounts> ParseNetDev(std::string_view text);
// Sums of /proc/diskstats over whole devices that are no stack of others; `is_whole` tells which.
std::optional<ByteCounts> ParseDiskStats(std::string_view text,
                                         const std::function<bool(std::string_view)>& is_whole);

}  // namespace emlio::energy
