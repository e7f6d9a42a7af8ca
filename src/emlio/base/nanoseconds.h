// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>

// Times are int64_t nanoseconds nearly everywhere: here is what others want instead.
namespace emlio {

inline double Seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

// A time of SystemClock, for CondVar::WaitUntil.
inline std::chrono::steady_clock::time_point SteadyTime(int64_t ns) {
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(ns));
}

// What the calling thread has used of processors; 0 where the system does not say.
inline int64_t ThreadCpuNs() {
  timespec used;
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used) != 0) return 0;
  return static_cast<int64_t>(used.tv_sec) * 1'000'000'000 + used.tv_nsec;
}

}  // namespace emlio
