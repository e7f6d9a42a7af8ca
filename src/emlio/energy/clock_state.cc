// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy/clock_state.h"

#include <sys/timex.h>

#include <cstdlib>

#include "emlio/base/clock.h"
#include "emlio/energy/sysfs.h"

namespace emlio::energy {
namespace {

constexpr int64_t kNsPerUs = 1000;

}  // namespace

ClockReading ReadClock() {
  ClockReading reading;
  reading.at = ReadMoment();
  timex state{};
  const int outcome = adjtimex(&state);
  if (outcome < 0) return reading;  // not synchronised, as far as is known
  const int64_t unit_ns = (state.status & STA_NANO) != 0 ? 1 : kNsPerUs;
  reading.offset_ns = state.offset * unit_ns;
  reading.esterror_ns = state.esterror * kNsPerUs;
  reading.maxerror_ns = state.maxerror * kNsPerUs;
  reading.synchronised = outcome != TIME_ERROR && (state.status & STA_UNSYNC) == 0;
  return reading;
}

std::string_view ClockStateName(ClockState state) {
  switch (state) {
    case ClockState::kOk:
      return "ok";
    case ClockState::kFlagged:
      return "flagged";
    case ClockState::kRefused:
      return "refused";
  }
  return "refused";
}

ClockState JudgeClock(int64_t offset_ns, int64_t bound_ns, int64_t interval_ns) {
  const int64_t apart_ns = std::abs(offset_ns) + bound_ns;
  if (apart_ns * 2 <= interval_ns) return ClockState::kOk;
  return apart_ns <= interval_ns ? ClockState::kFlagged : ClockState::kRefused;
}

std::string BootId(const std::string& root) {
  return ReadLine(root + "proc/sys/kernel/random/boot_id");
}

}  // namespace emlio::energy
