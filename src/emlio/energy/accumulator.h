// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "emlio/base/clock.h"
#include "emlio/energy/domain.h"

namespace emlio::energy {

// What the latest reading of a domain was (METRICS.md section 4).
enum class SampleState : uint8_t {
  kFirst,      // nothing to compare it with
  kMoved,      // energy was used, or power was read
  kNoUpdate,   // the counter has not moved: not 0 W, only not known yet
  kMissing,    // the reading failed
  kReset,      // not the same count as before
  kAmbiguous,  // too late to tell how often it wrapped
  kStalled,    // it has not moved for so long that it does not count
  kIdle,       // the same while the host idles, of a domain that may use nothing
};

// One domain at one tick. All but time and state are sums since the first reading.
struct Sample {
  int64_t time_ns = 0;
  double joules = 0;
  // Integrated power: what changes between readings can make wrong. Counters: what one may have
  // lost while it stood still, or while it could not be read.
  double spread_joules = 0;
  int64_t void_ns = 0;  // time for which joules are not known
  uint32_t wraps = 0;
  uint32_t resets = 0;
  uint32_t gaps = 0;
  uint32_t stalls = 0;
  uint32_t ambiguous = 0;
  SampleState state = SampleState::kMissing;
  bool knot = false;        // joules are known at this very time
  bool stall_busy = false;  // of the latest stall: the CPUs were busy
};

// For how long a counter of what always draws may stand still and still be believed: so many of the
// intervals in which it moves, and at least that long.
inline constexpr int64_t kUnmovedIntervals = 3;
inline constexpr int64_t kMaxUnmovedNs = 500 * kNsPerMs;

struct AccumulatorOptions {
  int64_t stall_ns = 2 * kNsPerSecond;
  int64_t max_power_gap_ns = kNsPerSecond;
};

// Turns the readings of one domain into joules: tells use, wraps, resets, gaps and stalls apart. No
// I/O and no clock of its own. One thread at a time.
class Accumulator {
 public:
  using Options = AccumulatorOptions;
  explicit Accumulator(const Domain& domain, const Options& options = {});

  // The reading at that time, which never goes back; none when it failed.
  Sample Add(int64_t time_ns, std::optional<uint64_t> value);

  // Whether the counter stands still for so long that it matters if the host is busy; SetBusy then
  // says how many CPU-seconds were used since any fixed moment, before the next Add. None: unknown.
  bool WantsBusy(int64_t time_ns) const;
  void SetBusy(int64_t time_ns, std::optional<double> cpu_seconds);

 private:
  void AddEnergy(int64_t time_ns, uint64_t value);
  void AddPower(int64_t time_ns, uint64_t value);
  void StandStill(int64_t time_ns);
  // The units used since the last reading; none when it cannot be told, which is recorded.
  std::optional<uint64_t> Used(int64_t time_ns, uint64_t value);
  // Whether the domain can have used that much since the counter last moved.
  bool Possible(uint64_t units, int64_t time_ns) const;
  // Whether what a counter shows after it stood still is what was used meanwhile. What it may lack
  // though it is believed becomes part of the spread: of a gap, too, in which it may have paused.
  bool CaughtUp(int64_t time_ns, double joules);
  double Joules() const;

  const Quantity quantity_;
  const bool always_draws_;
  const double per_unit_;
  const uint64_t range_units_;
  const double max_watts_;
  const int64_t refresh_ns_;
  const int64_t usual_ns_;  // at least: the intervals in which it moves
  const Options options_;

  Sample sample_;
  bool started_ = false;    // there was a reading, good or not
  bool has_value_ = false;  // there was a good one
  bool in_gap_ = false;
  bool stalled_ = false;
  uint64_t value_ = 0;
  int64_t value_ns_ = 0;  // of the last good reading
  int64_t moved_ns_ = 0;  // of the last good reading that was a new value
  int64_t void_ns_ = 0;   // without what is open at the moment
  // Of the last two intervals between moves that are believed: mean power, 0: not known; and the
  // length of the last, 0: there was none.
  double watts_ = 0;
  double watts_before_ = 0;
  int64_t interval_ns_ = 0;
  uint64_t used_units_ = 0;
  double used_joules_ = 0;  // integrated

  struct BusyMark {
    int64_t time_ns;
    std::optional<double> cpu_seconds;
  };
  std::optional<BusyMark> stood_since_;
  bool busy_ = true;
};

}  // namespace emlio::energy
