// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "emlio/base/clock.h"
#include "emlio/base/status.h"
#include "emlio/energy_analysis/meter_series.h"
#include "emlio/energy_analysis/statistics.h"

// EMLIO's own figures of one host against an outside meter: E40 (ANALYSIS.md, "Against a meter").
namespace emlio::energy_analysis {

// Mean power of the host's total over one stretch of wall-clock time, by its own counters.
struct OwnPower {
  int64_t begin_wall_ns = 0;
  int64_t end_wall_ns = 0;
  double watts = 0;
};

// A level of load that was held for some time.
struct MeterLevel {
  std::string name = {};              // "idle", "load 1", ...
  std::vector<OwnPower> series = {};  // in the order of time, without gaps
};

struct MeterComparisonOptions {
  size_t min_levels = 3;  // idle and two loads
  size_t min_spans = 5;
  int64_t span_ns = 60 * kNsPerSecond;
  int64_t max_lag_ns = 30 * kNsPerSecond;
  int64_t max_gap_ns = 10 * kNsPerSecond;  // between readings of the meter
};

struct LevelError {
  std::string name = {};
  size_t spans = 0;
  Summary own_watts = {};
  Summary meter_watts = {};
  Estimate error_percent = {};  // (own - meter) / meter of each span
};

struct MeterComparison {
  int64_t lag_ns = 0;      // the meter's time minus the host's; behind when above 0
  double correlation = 0;  // at that lag
  Estimate slope = {};     // meter = offset + slope × own
  Estimate offset_watts = {};
  double r_squared = 0;
  std::vector<LevelError> levels = {};
};

// kInvalidArgument says what is missing: levels, spans of a level, readings of the meter in a span,
// levels that differ.
Result<MeterComparison> CompareWithMeter(std::span<const MeterLevel> levels,
                                         std::span<const MeterReading> meter,
                                         const MeterComparisonOptions& options = {});

// "slope 1.12 ± 0.01, offset 35.1 ± 2.0 W; idle -38.2 ± 0.4 %, ...".
std::string MeterComparisonText(const MeterComparison& comparison);

}  // namespace emlio::energy_analysis
