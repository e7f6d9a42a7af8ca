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
  std::optional<int64_t> energy_uj;  // used since the first sample
  std::optional<double> delta_j;     // since the last sample that had one, or the first
};

// Turns the samples of one domain, in their order, into what is published. One thread at a time.
class DomainSeries {
 public:
  Published Next(const energy::Domain& domain, const energy::Sample& sample);

 private:
  int64_t told_uj_ = 0;
};

}  // namespace emlio::energy_sinks
