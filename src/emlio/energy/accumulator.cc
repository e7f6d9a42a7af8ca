// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy/accumulator.h"

#include <algorithm>
#include <cmath>

#include "emlio/base/nanoseconds.h"

namespace emlio::energy {
namespace {

// Less than that many CPU-seconds a second is an idle host.
constexpr double kBusyCpus = 0.2;
// A counter that stood still and then shows less than that share of what went on before has lost
// the time for which it stood.
constexpr double kCaughtUpShare = 0.5;

}  // namespace

Accumulator::Accumulator(const Domain& domain, const Options& options)
    : quantity_(domain.quantity),
      always_draws_(AlwaysDraws(domain.kind)),
      per_unit_(domain.per_unit),
      range_units_(domain.range_units),
      max_watts_(domain.max_watts),
      refresh_ns_(domain.refresh_ns),
      usual_ns_(std::max(domain.refresh_ns, domain.update_period_ns)),
      options_(options) {}

double Accumulator::Joules() const {
  return quantity_ == Quantity::kEnergy ? static_cast<double>(used_units_) * per_unit_
                                        : used_joules_;
}

Sample Accumulator::Add(int64_t time_ns, std::optional<uint64_t> value) {
  if (!started_) {
    started_ = true;
    value_ns_ = moved_ns_ = time_ns;
  }
  sample_.time_ns = time_ns;
  sample_.knot = false;
  if (!value) {
    if (!in_gap_) ++sample_.gaps;
    in_gap_ = true;
    sample_.state = SampleState::kMissing;
    // Until the next good reading says more. What is stalled has been unknown for longer.
    sample_.void_ns = void_ns_ + (time_ns - (stalled_ ? moved_ns_ : value_ns_));
    return sample_;
  }
  if (!has_value_) {
    has_value_ = true;
    sample_.state = SampleState::kFirst;
    sample_.knot = true;
    void_ns_ = time_ns - value_ns_;
    moved_ns_ = time_ns;
  } else if (quantity_ == Quantity::kPower) {
    AddPower(time_ns, *value);
  } else {
    AddEnergy(time_ns, *value);
  }
  in_gap_ = false;
  value_ = *value;
  value_ns_ = time_ns;
  sample_.joules = Joules();
  sample_.void_ns = void_ns_ + (stalled_ ? time_ns - moved_ns_ : 0);
  return sample_;
}

void Accumulator::AddPower(int64_t time_ns, uint64_t value) {
  const int64_t elapsed_ns = time_ns - value_ns_;
  sample_.knot = true;
  sample_.state = SampleState::kMoved;
  moved_ns_ = time_ns;
  const double before = static_cast<double>(value_) * per_unit_;
  const double now = static_cast<double>(value) * per_unit_;
  if (in_gap_) {
    // Power that was not read says nothing of the time between, as a counter would.
    void_ns_ += elapsed_ns;
  } else if (elapsed_ns > options_.max_power_gap_ns) {
    ++sample_.ambiguous;
    void_ns_ += elapsed_ns;
    sample_.state = SampleState::kAmbiguous;
  } else if (now > max_watts_) {
    // GPUs have been seen to report terawatts.
    ++sample_.resets;
    void_ns_ += elapsed_ns;
    sample_.state = SampleState::kReset;
  } else {
    // The reading before may have been one of those.
    used_joules_ += (std::min(before, max_watts_) + now) / 2 * Seconds(elapsed_ns);
    sample_.spread_joules += std::abs(now - std::min(before, max_watts_)) / 2 * Seconds(elapsed_ns);
  }
}

void Accumulator::AddEnergy(int64_t time_ns, uint64_t value) {
  if (value == value_) {
    StandStill(time_ns);
    return;
  }
  const std::optional<uint64_t> used = Used(time_ns, value);
  const int64_t interval_ns = time_ns - moved_ns_;
  sample_.knot = true;
  if (stalled_) {
    // Counters that stop counting do not say what was used meanwhile.
    void_ns_ += interval_ns;
    sample_.state = SampleState::kMoved;
  } else if (!used) {
    void_ns_ += interval_ns;
  } else if (const double joules = static_cast<double>(*used) * per_unit_;
             CaughtUp(time_ns, joules)) {
    used_units_ += *used;
    sample_.state = SampleState::kMoved;
    // Behind a long gap nobody knows how often it moved meanwhile.
    if (!in_gap_ || interval_ns <= kMaxUnmovedNs) {
      watts_before_ = watts_;
      // The first move says nothing of power: when it had moved before that nobody saw.
      watts_ = interval_ns_ > 0 && interval_ns > 0 ? joules / Seconds(interval_ns) : 0;
      interval_ns_ = interval_ns;
    }
  } else {
    void_ns_ += interval_ns;
    ++sample_.stalls;
    sample_.stall_busy = true;
    sample_.state = SampleState::kMoved;
  }
  stalled_ = false;
  stood_since_.reset();
  moved_ns_ = time_ns;
}

bool Accumulator::Possible(uint64_t units, int64_t time_ns) const {
  return static_cast<double>(units) * per_unit_ <=
         max_watts_ * Seconds(time_ns - moved_ns_ + refresh_ns_);
}

bool Accumulator::CaughtUp(int64_t time_ns, double joules) {
  const int64_t most_ns =
      std::max(kMaxUnmovedNs, kUnmovedIntervals * std::max(usual_ns_, interval_ns_));
  const bool stood = value_ns_ - moved_ns_ > most_ns;
  // In a gap nobody saw whether it stood still or its domain used less.
  const bool may_have_stood = in_gap_ && time_ns - moved_ns_ > most_ns;
  if (!always_draws_ || (!stood && !may_have_stood)) return true;
  const double expected = std::max(watts_, watts_before_) * Seconds(time_ns - moved_ns_);
  if (stood && joules < kCaughtUpShare * expected) return false;
  sample_.spread_joules += std::max(0.0, expected - joules);
  return true;
}

std::optional<uint64_t> Accumulator::Used(int64_t time_ns, uint64_t value) {
  if (range_units_ > 0 &&
      max_watts_ * Seconds(time_ns - value_ns_) > static_cast<double>(range_units_) * per_unit_) {
    ++sample_.ambiguous;
    sample_.state = SampleState::kAmbiguous;
    return std::nullopt;
  }
  std::optional<uint64_t> used;
  bool wrapped = false;
  if (value > value_) {
    used = value - value_;
  } else if (range_units_ > 0 && value_ <= range_units_) {
    used = range_units_ - value_ + value;
    wrapped = true;
  }
  if (!used || !Possible(*used, time_ns)) {
    ++sample_.resets;
    sample_.state = SampleState::kReset;
    return std::nullopt;
  }
  if (wrapped && !stalled_) ++sample_.wraps;
  return used;
}

void Accumulator::StandStill(int64_t time_ns) {
  if (stalled_) {
    sample_.state = SampleState::kStalled;
  } else if (time_ns - moved_ns_ < options_.stall_ns) {
    sample_.state = SampleState::kNoUpdate;
  } else if (always_draws_ || busy_) {
    stalled_ = true;
    ++sample_.stalls;
    sample_.stall_busy = busy_;
    sample_.state = SampleState::kStalled;
  } else {
    // Nothing was used: that is known now, and at this time.
    sample_.state = SampleState::kIdle;
    sample_.knot = true;
    moved_ns_ = time_ns;
    stood_since_.reset();
  }
}

bool Accumulator::WantsBusy(int64_t time_ns) const {
  if (quantity_ != Quantity::kEnergy || !has_value_ || stalled_) return false;
  // Once for the begin, and when it is about to be decided: asking is not free.
  const int64_t stood_ns = time_ns - moved_ns_;
  return stood_ns >= options_.stall_ns / 4 * (stood_since_ ? 3 : 1);
}

void Accumulator::SetBusy(int64_t time_ns, std::optional<double> cpu_seconds) {
  if (!stood_since_) {
    stood_since_ = BusyMark{time_ns, cpu_seconds};
    busy_ = true;
    return;
  }
  const int64_t elapsed_ns = time_ns - stood_since_->time_ns;
  if (elapsed_ns <= 0 || !cpu_seconds || !stood_since_->cpu_seconds) {
    busy_ = true;  // what is not known is not taken for idleness
    return;
  }
  busy_ = *cpu_seconds - *stood_since_->cpu_seconds >= kBusyCpus * Seconds(elapsed_ns);
}

}  // namespace emlio::energy
