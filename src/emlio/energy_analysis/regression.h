// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "emlio/base/status.h"
#include "emlio/energy_analysis/stages.h"
#include "emlio/energy_analysis/statistics.h"

// What activities cost, from how power follows them (ANALYSIS.md, "Regression").
namespace emlio::energy_analysis {

// One stretch of time: its mean power and how active each activity was, in units of the caller.
struct Observation {
  double seconds = 0;
  double watts = 0;
  std::vector<double> activities = {};
};

struct Coefficient {
  std::string name = {};
  Estimate watts = {};   // for one unit of activity
  double vif = 1;        // how much its variance grows because activities move together
  Estimate joules = {};  // watts × activity × time over all observations
};

struct Regression {
  size_t observations = 0;
  double seconds = 0;
  Estimate constant_watts = {};
  std::vector<Coefficient> coefficients = {};
  double r_squared = 0;
};

struct RegressionLimits {
  double max_vif = 10;
  double min_r_squared = 0.8;
  size_t min_observations_each = 10;  // for one activity
};

// Ordinary least squares with a constant. Refused (kInvalidArgument, with the figures) when the
// activities cannot be separated or do not explain the power; an activity that never changes can
// not be separated from the constant. REQUIRES: a name for every activity.
Result<Regression> Regress(std::span<const std::string> activities,
                           std::span<const Observation> observations,
                           const RegressionLimits& limits = {});

// A stretch of time in which some stages are to stand still.
struct DitherBlock {
  double begin_seconds = 0;
  double seconds = 0;
  StageSet paused = {};
};
// Blocks in random order in which each stage stands still in half of them, independently of the
// others: whatever moves the pipeline as a whole then no longer moves its stages together.
// REQUIRES: block_seconds > 0.
std::vector<DitherBlock> DitherSchedule(size_t blocks, double block_seconds, uint64_t seed);

}  // namespace emlio::energy_analysis
