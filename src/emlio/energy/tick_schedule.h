// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace emlio::energy {

// Both clocks at one moment.
struct Moment {
  int64_t monotonic_ns = 0;
  int64_t wall_ns = 0;   // since 1970
  int64_t apart_ns = 0;  // how far apart the two were read at most

  friend bool operator==(const Moment&, const Moment&) = default;
};
Moment ReadMoment();

// When ticks are due (METRICS.md section 7): deadlines of the monotonic clock that fall on
// multiples of the interval on the wall clock. Pure arithmetic; one thread at a time.
class TickSchedule {
 public:
  TickSchedule(int64_t interval_ns, const Moment& now);

  int64_t deadline_ns() const { return deadline_ns_; }

  struct Tick {
    int64_t late_ns = 0;        // after its deadline
    int64_t missed = 0;         // deadlines that passed since then
    int64_t clock_step_ns = 0;  // what the wall clock jumped since the last tick; 0: it did not
  };
  // Awake at or behind the deadline: how that tick went. Sets the next deadline, behind `now`.
  Tick Advance(const Moment& now);

 private:
  int64_t NextAligned(const Moment& now) const;

  const int64_t interval_ns_;
  int64_t deadline_ns_;
  Moment last_;
};

}  // namespace emlio::energy
