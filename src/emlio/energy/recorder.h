// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emlio/base/clock.h"
#include "emlio/base/mutex.h"
#include "emlio/energy/accumulator.h"
#include "emlio/energy/meter.h"

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

// One domain at one moment. Opaque but for being kept and given to Recorder::Between.
struct EdgePoint {
  double joules = 0;
  double spread_joules = 0;
  double uncertainty_joules = 0;
  double void_ns = 0;
  int64_t outside_ns = 0;  // how far the moment is from the samples
  int64_t knot_ns = -1;    // the last time before it at which joules are known
  Sample counts;           // of the last sample before it
};

// All domains at one moment. Plain data: it outlives the samples that it was made of.
struct Edge {
  int64_t time_ns = 0;
  std::vector<EdgePoint> points;  // in the order of Recorder::domains()
};

// The energy of one domain in one window. Which domain: the one at the same place of domains().
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

struct RecorderOptions {
  size_t kept_ticks = 6000;  // ten minutes at 100 ms
  AccumulatorOptions accumulator;
  std::string root = "/";  // of /proc/stat
};

// Reads all meters of a host when it is told to, keeps the latest samples, and answers what a
// window of time used. Sample is called by one thread at a time; everything else from any thread.
// Times are those of the clock.
class Recorder {
 public:
  Recorder(std::string node, std::vector<Meter> meters, const RecorderOptions& options,
           const Clock& clock = SystemClock());

  const std::string& node() const { return node_; }
  const std::vector<Domain>& domains() const { return domains_; }

  // Reads every meter once. The samples, in the order of domains(), live until the next call.
  std::span<const Sample> TakeSample() EMLIO_EXCLUDES(mu_);

  // Windows up to this time lie among the samples of all domains. 0: there are none yet.
  int64_t sampled_until_ns() const EMLIO_EXCLUDES(mu_);

  // A moment as all domains saw it. One that lies outside the samples is counted as not sampled.
  Edge EdgeAt(int64_t time_ns) const EMLIO_EXCLUDES(mu_);
  // What was used between two edges of this recorder, a domain each.
  std::vector<Energy> Between(const Edge& begin, const Edge& end,
                              const WindowRules& rules = {}) const;
  // The same for a window that is still among the samples.
  std::vector<Energy> Window(int64_t begin_ns, int64_t end_ns, const WindowRules& rules = {}) const;

  // REQUIRES: `energies` is what Between returned.
  Total TotalOf(std::span<const Energy> energies) const;

 private:
  // The samples of one tick lie beside each other.
  const Sample& At(size_t tick, size_t domain) const EMLIO_REQUIRES(mu_);
  std::optional<size_t> KnotBefore(size_t tick, size_t domain) const EMLIO_REQUIRES(mu_);
  std::optional<size_t> KnotAfter(size_t tick, size_t domain) const EMLIO_REQUIRES(mu_);
  EdgePoint PointAt(size_t domain, int64_t time_ns) const EMLIO_REQUIRES(mu_);
  Energy Difference(const Domain& domain, const EdgePoint& begin, const EdgePoint& end,
                    int64_t length_ns, const WindowRules& rules) const;
  std::optional<double> BusyCpuSeconds() const;

  const std::string node_;
  const RecorderOptions options_;
  const Clock& clock_;
  std::vector<Domain> domains_;
  std::vector<std::unique_ptr<Counter>> counters_;
  std::vector<Accumulator> accumulators_;
  std::vector<Sample> latest_;

  mutable Mutex mu_;
  std::vector<Sample> ring_ EMLIO_GUARDED_BY(mu_);  // kept_ticks rows of domains
  uint64_t ticks_ EMLIO_GUARDED_BY(mu_) = 0;        // ever taken
  int64_t sampled_until_ns_ EMLIO_GUARDED_BY(mu_) = 0;
};

}  // namespace emlio::energy
