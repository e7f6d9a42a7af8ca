// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy/tick_schedule.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>

#include "emlio/base/clock.h"

namespace emlio::energy {
namespace {

constexpr int64_t kMaxMisalignedNs = kNsPerMs;
// Clocks that are disciplined gain or lose up to 500 millionths.
constexpr int64_t kSlewDivisor = 2000;

int64_t Now(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec * kNsPerSecond + now.tv_nsec;
}

}  // namespace

Moment ReadMoment() {
  Moment best;
  // Whoever is interrupted between both clocks sees a jump that was none: the closest of some
  // pairs.
  for (int attempt = 0; attempt < 4; ++attempt) {
    const int64_t before_ns = Now(CLOCK_MONOTONIC);
    const int64_t wall_ns = Now(CLOCK_REALTIME);
    const int64_t after_ns = Now(CLOCK_MONOTONIC);
    const Moment moment{before_ns + (after_ns - before_ns) / 2, wall_ns, after_ns - before_ns};
    if (attempt == 0 || moment.apart_ns < best.apart_ns) best = moment;
    if (best.apart_ns < kNsPerMs / 100) break;
  }
  return best;
}

TickSchedule::TickSchedule(int64_t interval_ns, const Moment& now)
    : interval_ns_(interval_ns), deadline_ns_(NextAligned(now)), last_(now) {}

int64_t TickSchedule::NextAligned(const Moment& now) const {
  const int64_t since_ns = now.wall_ns % interval_ns_;
  return now.monotonic_ns + interval_ns_ - since_ns;
}

TickSchedule::Tick TickSchedule::Advance(const Moment& now) {
  Tick tick;
  tick.late_ns = std::max<int64_t>(0, now.monotonic_ns - deadline_ns_);
  tick.missed = tick.late_ns / interval_ns_;

  const int64_t elapsed_ns = now.monotonic_ns - last_.monotonic_ns;
  const int64_t jump_ns = now.wall_ns - last_.wall_ns - elapsed_ns;
  const int64_t explained_ns = kNsPerMs + elapsed_ns / kSlewDivisor + now.apart_ns + last_.apart_ns;
  if (std::abs(jump_ns) > explained_ns) tick.clock_step_ns = jump_ns;
  last_ = now;

  deadline_ns_ += (tick.missed + 1) * interval_ns_;
  // Slewing moves the wall clock away from the monotonic one little by little.
  const int64_t wall_then_ns = now.wall_ns + deadline_ns_ - now.monotonic_ns;
  const int64_t off_ns = wall_then_ns % interval_ns_;
  if (std::min(off_ns, interval_ns_ - off_ns) > kMaxMisalignedNs + now.apart_ns) {
    deadline_ns_ = NextAligned(now);
  }
  return tick;
}

}  // namespace emlio::energy
