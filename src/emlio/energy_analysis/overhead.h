// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "emlio/base/status.h"
#include "emlio/energy_analysis/statistics.h"

namespace emlio::energy_analysis {

// The same work twice, one run right after the other: with the monitor and without it.
struct OverheadPair {
  double with_seconds = 0;
  double without_seconds = 0;
  double monitor_cpu_seconds = 0;  // of the monitor's threads, in the run with it
};

struct Overhead {
  size_t pairs = 0;
  Summary with_seconds = {};
  Summary without_seconds = {};
  // (work a second with the monitor) / (without) - 1, in percent: below 0, it slows down.
  double throughput_change_percent = 0;
  std::optional<Interval> interval_percent = {};
  Estimate core_percent = {};  // of one core that the monitor's threads use
};

// kInvalidArgument with fewer than `min_pairs`: E27.
Result<Overhead> AnalyseOverhead(std::span<const OverheadPair> pairs, size_t min_pairs = 10);

}  // namespace emlio::energy_analysis
