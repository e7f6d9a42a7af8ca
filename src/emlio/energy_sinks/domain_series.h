// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "emlio/energy/accumulator.h"
#include "emlio/energy/domain.h"

namespace emlio::energy_sinks {

// What one sample says, in the form in which it is published (METRICS.md section 10). What is not
// known has no number.
struct Published {
  std::string_view state;            // "moved", "no_update", "missing", ..., "unavailable"
  std::optional<int64_t> energy_uj;  // used since the sampler's first sample
  std::optional<double> delta_j;     // since the last sample that had one, or the series' first
};

// Turns the samples of one domain, in their order, into what is published. One thread at a time.
class DomainSeries {
 public:
  Published Next(const energy::Domain& domain, const energy::Sample& sample);

 private:
  // What delta_j is the difference to: the newest sum that was used up to, or the first one of all,
  // for a series may begin long after the sums did. None: no sum was published yet.
  std::optional<int64_t> told_uj_;
};

}  // namespace emlio::energy_sinks
