// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "emlio/base/clock.h"

namespace emlio::transport {

// The timeout of a Poll as it runs down; -1 stands for ever.
class PollTimeout {
 public:
  explicit PollTimeout(int timeout_ms)
      : deadline_ns_(timeout_ms < 0    ? std::numeric_limits<int64_t>::max()
                     : timeout_ms == 0 ? 0
                                       : SystemClock().NowNs() + int64_t{timeout_ms} * kNsPerMs) {}

  // In the form that poll() takes, rounded up.
  int LeftMs() const {
    if (deadline_ns_ == 0) return 0;
    if (deadline_ns_ == std::numeric_limits<int64_t>::max()) return -1;
    const int64_t left_ns = deadline_ns_ - SystemClock().NowNs();
    return static_cast<int>(std::max<int64_t>(0, (left_ns + kNsPerMs - 1) / kNsPerMs));
  }
  bool Over() const { return LeftMs() == 0; }

 private:
  const int64_t deadline_ns_;
};

// The shorter of two waits.
inline int CapWait(int wait_ms, int64_t cap_ms) {
  if (wait_ms >= 0 && wait_ms <= cap_ms) return wait_ms;
  return static_cast<int>(std::clamp<int64_t>(cap_ms, 0, std::numeric_limits<int>::max()));
}

}  // namespace emlio::transport
