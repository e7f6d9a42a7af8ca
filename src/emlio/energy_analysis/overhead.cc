// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_analysis/overhead.h"

#include <fmt/format.h>

#include <vector>

namespace emlio::energy_analysis {

Result<Overhead> AnalyseOverhead(std::span<const OverheadPair> pairs, size_t min_pairs) {
  if (pairs.size() < min_pairs) {
    return InvalidArgument(
        fmt::format("{} good pairs of runs, at least {} are needed", pairs.size(), min_pairs));
  }
  std::vector<double> with, without, core;
  for (const OverheadPair& pair : pairs) {
    if (!(pair.with_seconds > 0) || !(pair.without_seconds > 0)) {
      return InvalidArgument("a run without duration cannot be compared");
    }
    with.push_back(pair.with_seconds);
    without.push_back(pair.without_seconds);
    core.push_back(pair.monitor_cpu_seconds / pair.with_seconds * 100);
  }
  // The work is the same, so throughputs are as the times the other way round.
  const Ratio ratio = PairedRatioOfMeans(without, with);
  Overhead overhead{.pairs = pairs.size(),
                    .with_seconds = Summarise(with),
                    .without_seconds = Summarise(without),
                    .throughput_change_percent = (ratio.value - 1) * 100,
                    .interval_percent = {},
                    .core_percent = Summarise(core).estimate()};
  if (ratio.interval) {
    overhead.interval_percent =
        Interval{(ratio.interval->low - 1) * 100, (ratio.interval->high - 1) * 100};
  }
  return overhead;
}

}  // namespace emlio::energy_analysis
