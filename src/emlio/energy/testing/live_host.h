// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include "emlio/base/clock.h"
#include "emlio/base/mutex.h"
#include "emlio/energy/testing/fake_host.h"

namespace emlio::energy::testing {

// A host whose counters go on by themselves, in real time: for what has a thread of its own. A
// counter is counted up when it is read, so that it shows what was used until then however late
// anybody is: what a test measures is exact on the busiest machine. A fork shows the same.
class LiveHost {
 public:
  LiveHost() : counted_ns_(SystemClock().NowNs()) {
    fake_.TwoSockets();
    fake_.host.read_zone = [this](const std::string& path) {
      const MutexLock lock(mu_);
      Count();
      ++readings_;
      return fake_.Shown(path);
    };
  }
  // For what ends before this does.
  const Host& host() const { return fake_.host; }
  // Waits until every counter was read so many times more by this process: a window of that time
  // has samples in it however late whoever takes them is.
  void AwaitReadings(int count) {
    const int64_t deadline_ns = SystemClock().NowNs() + 30 * kNsPerSecond;  // against hangs only
    const int64_t until = Readings() + int64_t{kCounters} * (count + 1);
    while (Readings() < until && SystemClock().NowNs() < deadline_ns) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_GE(Readings(), until);
  }
  void SetWatts(const std::string& zone, double watts) {
    const MutexLock lock(mu_);
    Count();
    fake_.SetWatts(zone, watts);
  }

 private:
  static constexpr int kCounters = 6;  // of FakeHost::TwoSockets

  int64_t Readings() {
    const MutexLock lock(mu_);
    return readings_;
  }
  void Count() EMLIO_REQUIRES(mu_) {
    const int64_t now_ns = SystemClock().NowNs();
    fake_.AdvanceUnwritten(static_cast<double>(now_ns - counted_ns_) * 1e-9);
    counted_ns_ = now_ns;
  }

  Mutex mu_;
  int64_t counted_ns_ EMLIO_GUARDED_BY(mu_);
  int64_t readings_ EMLIO_GUARDED_BY(mu_) = 0;
  FakeHost fake_;
};

// Of the domains in the total of FakeHost::TwoSockets.
inline constexpr double kTwoSocketsWatts = 98;

}  // namespace emlio::energy::testing
