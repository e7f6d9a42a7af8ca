// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

namespace emlio {

// Time as seen by code that must be testable without waiting.
class Clock {
 public:
  virtual ~Clock() = default;
  // Nanoseconds of a clock that never goes back; its zero means nothing.
  virtual int64_t NowNs() const = 0;
};

// CLOCK_MONOTONIC; thread-safe. The object lives for the whole process.
const Clock& SystemClock();

// A clock that tests move by hand; thread-safe.
class ManualClock : public Clock {
 public:
  int64_t NowNs() const override { return now_ns_.load(); }
  void AdvanceNs(int64_t by_ns) { now_ns_ += by_ns; }

 private:
  std::atomic<int64_t> now_ns_{0};
};

inline constexpr int64_t kNsPerMs = 1'000'000;
inline constexpr int64_t kNsPerSecond = 1'000'000'000;

}  // namespace emlio
