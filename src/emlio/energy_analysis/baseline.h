// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emlio/base/status.h"
#include "emlio/energy_analysis/statistics.h"

namespace emlio::energy_analysis {

// What goes on while a baseline is taken. The monitor runs in all of them.
enum class BaselineKind {
  kOff,      // nothing of EMLIO
  kReady,    // daemons up, contexts loaded, no data
  kRunning,  // training from data that are in memory already: running-without-I/O
};
std::string_view BaselineKindName(BaselineKind kind);  // "off", "ready", "running-without-io"
std::optional<BaselineKind> BaselineKindFromName(std::string_view name);

// One repetition of a baseline.
struct BaselineRun {
  std::string id = {};
  double seconds = 0;
  std::vector<double> watts = {};   // mean of each domain, in the order of the domains given
  std::vector<double> series = {};  // mean of all domains together, over equal parts of the time
  // Of all CPUs of the busiest node, 0 to 1; none: of one node it is not known. Which node that is.
  std::optional<double> cpu_use = {};
  std::string cpu_node = {};
};

// The limits of E24.
struct BaselineLimits {
  double min_seconds = 60;
  size_t min_runs = 3;
  double max_cpu_use = 0.05;  // not for kRunning, which works
  double max_drift_sd = 3;
  double drift_floor = 0.01;  // a drift below this share of the power is never refused
};

struct DomainBaseline {
  std::string domain = {};
  Summary watts = {};
};
struct Baseline {
  BaselineKind kind = BaselineKind::kReady;
  size_t runs = 0;
  double seconds = 0;  // of all runs together
  std::vector<DomainBaseline> domains = {};
  Summary watts = {};  // all domains together
  // The highest of all runs and nodes; none: of one of them it is not known.
  std::optional<double> cpu_use = 0;
  double drift_watts = 0;  // from the first part of the first run to the last of the last
  double drift_sd = 0;     // that in standard deviations around the line
};

// The baseline, or everything that is wrong with it in one message.
Result<Baseline> MakeBaseline(BaselineKind kind, std::span<const std::string> domains,
                              std::span<const BaselineRun> runs, const BaselineLimits& limits = {});

// How far the power moved over all parts along a fitted line, and the standard deviation of the
// parts around it.
struct Drift {
  double watts = 0;
  double residual_sd = 0;
};
Drift DriftOf(std::span<const double> parts);

// Total and net energy of one run: net = total - power × time. Uncertainties are half widths of 95
// %: that of the baseline is of a single stretch of time, because one run is one.
struct NetEnergy {
  double total_joules = 0;
  double total_uncertainty = 0;
  double net_joules = 0;
  double net_uncertainty = 0;
  double seconds = 0;
  double mean_watts = 0;
};
NetEnergy NetOf(double total_joules, double uncertainty_joules, double seconds,
                const Summary& baseline_watts);

// Mean net energy of several runs: scatter between them and the baseline's own uncertainty.
// REQUIRES: as many of both.
Estimate MeanNetOf(std::span<const double> joules, std::span<const double> seconds,
                   const Summary& baseline_watts);

}  // namespace emlio::energy_analysis
