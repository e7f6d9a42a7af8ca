// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
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
  std::span<const Sample> TakeSample() EMLIO_EXCLUDES(mu_);

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
