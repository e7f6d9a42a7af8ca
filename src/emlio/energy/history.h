// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emlio/energy/accumulator.h"
#include "emlio/energy/domain.h"
#include "emlio/energy/tick_schedule.h"

namespace emlio::energy {

// What a figure is (METRICS.md section 5). Joules go with the first four only.
enum class State {
  kMeasured,
  kIntegrated,
  kVirtualised,
  kShared,
  kBelowResolution,
  kImplausible,
  kGap,
  kUnavailable,
};
// "measured", "below_resolution", ...
std::string_view StateName(State state);

// One domain at one moment. Opaque but for being kept and given to EnergyBetween.
struct EdgePoint {
  double joules = 0;
  double spread_joules = 0;
  double uncertainty_joules = 0;
  double void_ns = 0;
  int64_t outside_ns = 0;     // how far the moment is from the samples
  int64_t unmoved_ns = 0;     // void time, the counter not having moved up to the newest sample
  double unmoved_joules = 0;  // what may have been used since it last moved, and is not in joules
  int64_t knot_ns = -1;       // the last time before it at which joules are known
  Sample counts;              // of the last sample before it
  Sample counts_behind;       // of the next time at which joules are known
};

// All domains at one moment. Plain data: it outlives the samples that it was made of.
struct Edge {
  int64_t time_ns = 0;
  std::vector<EdgePoint> points;  // in the order of the domains
};

// The energy of one domain in one window. Which domain: the one at the same place of the domains.
struct Energy {
  State state = State::kUnavailable;
  std::optional<double> joules;  // none: not known. Never 0 for what is missing
  double uncertainty_joules = 0;
  int64_t void_ns = 0;
  uint32_t wraps = 0;
  uint32_t resets = 0;
  uint32_t gaps = 0;
  uint32_t stalls = 0;
  uint32_t ambiguous = 0;
  std::string cause;  // why there are no joules, or why they are not exactly those of the domain
  std::string fix;
};

// The sum of the domains in the total.
struct Total {
  State state = State::kUnavailable;
  std::optional<double> joules;
  double uncertainty_joules = 0;
  std::vector<std::string> domains;  // that are summed
  std::vector<std::string> missing;  // that lack joules, so that there is no sum
  std::vector<std::string> without;  // that nothing on this host counts
};

struct WindowRules {
  bool allow_gaps = false;
};

// What was used between two edges of the same domains, a domain each.
std::vector<Energy> EnergyBetween(std::span<const Domain> domains, const Edge& begin,
                                  const Edge& end, const WindowRules& rules = {});
// REQUIRES: `energies` is what EnergyBetween returned for these domains.
Total TotalOf(std::span<const Domain> domains, std::span<const Energy> energies);

// A GPU that has both a counter and power, in one window: two ways to the same joules.
struct GpuCheck {
  size_t counter = 0;  // places among the domains
  size_t power = 0;
  double gap_percent = 0;  // of the integrated power, beside the counter
  bool apart = false;      // by more than 5 %: one of them is wrong
};
// Of those of which both are known.
std::vector<GpuCheck> CompareGpus(std::span<const Domain> domains,
                                  std::span<const Energy> energies);

// The latest samples of one host's domains, and what they say about a moment. No lock of its own.
class History {
 public:
  History(std::vector<Domain> domains, size_t kept_ticks);

  const std::vector<Domain>& domains() const { return domains_; }
  // One sample a domain, none earlier than those before. `taken`: when the tick was.
  void Append(std::span<const Sample> samples, const Moment& taken = {});
  // A moment as all domains saw it. One that lies outside the samples is counted as not sampled.
  Edge EdgeAt(int64_t time_ns) const;

  // Ticks are counted from 1 on. How many there were; those before the first one that is kept are
  // forgotten.
  uint64_t ticks() const { return ticks_; }
  uint64_t first_kept() const { return ticks_ - kept() + 1; }
  // REQUIRES: first_kept() <= number <= ticks().
  const Moment& TakenAt(uint64_t number) const { return taken_[(number - 1) % rows_]; }
  std::span<const Sample> SamplesAt(uint64_t number) const {
    return std::span(ring_).subspan((number - 1) % rows_ * domains_.size(), domains_.size());
  }

 private:
  // The samples of one tick lie beside each other.
  const Sample& At(size_t tick, size_t domain) const;
  size_t kept() const;
  std::optional<size_t> KnotBefore(size_t tick, size_t domain) const;
  std::optional<size_t> KnotAfter(size_t tick, size_t domain) const;
  EdgePoint PointAt(size_t domain, int64_t time_ns) const;
  // What is not known at a moment behind the last time that the counter moved, sample `from`.
  void AddUnmoved(size_t domain, size_t from, int64_t time_ns, EdgePoint* point) const;

  const std::vector<Domain> domains_;
  const size_t rows_;
  std::vector<Sample> ring_;  // rows_ ticks of all domains
  std::vector<Moment> taken_;
  uint64_t ticks_ = 0;  // ever appended
};

}  // namespace emlio::energy
