// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_sinks/domain_series.h"

#include <cmath>

namespace emlio::energy_sinks {

using energy::SampleState;

Published DomainSeries::Next(const energy::Domain& domain, const energy::Sample& sample) {
  if (!domain.cause.empty()) return {.state = "unavailable", .energy_uj = {}, .delta_j = {}};
  const int64_t energy_uj = std::llround(sample.joules * 1e6);
  const auto sum_only = [&](std::string_view state) {
    if (!told_uj_) told_uj_ = energy_uj;
    return Published{.state = state, .energy_uj = energy_uj, .delta_j = {}};
  };
  const auto used = [&](std::string_view state) {
    // Of the rounded sums: the differences add up to them.
    std::optional<double> delta_j;
    if (told_uj_) delta_j = static_cast<double>(energy_uj - *told_uj_) * 1e-6;
    told_uj_ = energy_uj;
    return Published{.state = state, .energy_uj = energy_uj, .delta_j = delta_j};
  };
  switch (sample.state) {
    case SampleState::kFirst:
      told_uj_ = energy_uj;
      return sum_only("first");
    case SampleState::kMoved:
      return used("moved");
    case SampleState::kIdle:
      return used("idle");
    case SampleState::kNoUpdate:
      return sum_only("no_update");
    case SampleState::kReset:
      return sum_only("reset");
    case SampleState::kAmbiguous:
      return sum_only("ambiguous");
    case SampleState::kStalled:
      return {.state = "stalled", .energy_uj = {}, .delta_j = {}};
    case SampleState::kMissing:
      break;
  }
  return {.state = "missing", .energy_uj = {}, .delta_j = {}};
}

}  // namespace emlio::energy_sinks
