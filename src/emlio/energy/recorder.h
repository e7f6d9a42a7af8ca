// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "emlio/base/clock.h"
#include "emlio/base/mutex.h"
#include "emlio/energy/accumulator.h"
#include "emlio/energy/history.h"
#include "emlio/energy/meter.h"

namespace emlio::energy {

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
  // `taken`: when the tick is, for ReadTicks.
  std::span<const Sample> TakeSample(const Moment& taken = {}) EMLIO_EXCLUDES(mu_);

  // Windows up to this time lie among the samples of all domains. 0: there are none yet.
  int64_t sampled_until_ns() const EMLIO_EXCLUDES(mu_);

  // History::EdgeAt.
  Edge EdgeAt(int64_t time_ns) const EMLIO_EXCLUDES(mu_);
  // What was used between two edges of this recorder, a domain each.
  std::vector<Energy> Between(const Edge& begin, const Edge& end,
                              const WindowRules& rules = {}) const {
    return EnergyBetween(domains_, begin, end, rules);
  }
  // The same for a window that is still among the samples.
  std::vector<Energy> Window(int64_t begin_ns, int64_t end_ns, const WindowRules& rules = {}) const
      EMLIO_EXCLUDES(mu_);

  // Ticks are counted from 1 on.
  struct TickRange {
    uint64_t begin = 0;
    uint64_t end = 0;  // not in it
  };
  // Calls `use` for the ticks from number `from` on, at most `most` of them, and says which they
  // were: they begin later when ticks were forgotten meanwhile. `use` is quick, for the sampler
  // waits meanwhile, and calls nothing of this.
  TickRange ReadTicks(uint64_t from, size_t most,
                      const std::function<void(const Moment& taken, std::span<const Sample>)>& use)
      const EMLIO_EXCLUDES(mu_);
  // The number of the first tick that is kept and not earlier than that; the next one's if all are.
  uint64_t TickFrom(int64_t monotonic_ns) const EMLIO_EXCLUDES(mu_);

  // REQUIRES: `energies` is what Between returned.
  Total TotalOf(std::span<const Energy> energies) const {
    return energy::TotalOf(domains_, energies);
  }

 private:
  std::optional<double> BusyCpuSeconds() const;

  const std::string node_;
  const RecorderOptions options_;
  const Clock& clock_;
  const std::vector<Domain> domains_;
  std::vector<std::unique_ptr<Counter>> counters_;
  std::vector<Accumulator> accumulators_;
  std::vector<Sample> latest_;

  mutable Mutex mu_;
  History history_ EMLIO_GUARDED_BY(mu_);
  int64_t sampled_until_ns_ EMLIO_GUARDED_BY(mu_) = 0;
};

}  // namespace emlio::energy
