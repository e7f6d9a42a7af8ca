// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <thread>

#include "emlio/base/mutex.h"
#include "emlio/base/thread.h"
#include "emlio/energy/testing/fake_host.h"

namespace emlio::energy::testing {

// A host whose counters go on by themselves, in real time: for what has a thread of its own.
class LiveHost {
 public:
  LiveHost() {
    fake_.TwoSockets();
    thread_ = Thread("live-host", [this](std::stop_token stop) {
      int64_t before_ns = SystemClock().NowNs();
      while (!stop.stop_requested()) {
        const int64_t now_ns = SystemClock().NowNs();
        {
          const MutexLock lock(mu_);
          fake_.Advance(static_cast<double>(now_ns - before_ns) * 1e-9);
        }
        before_ns = now_ns;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  }
  const Host& host() const { return fake_.host; }
  void SetWatts(const std::string& zone, double watts) {
    const MutexLock lock(mu_);
    fake_.SetWatts(zone, watts);
  }

 private:
  Mutex mu_;
  FakeHost fake_;
  Thread thread_;
};

// Of the domains in the total of FakeHost::TwoSockets.
inline constexpr double kTwoSocketsWatts = 98;

}  // namespace emlio::energy::testing
