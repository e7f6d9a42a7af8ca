// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_analysis/meter_comparison.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "emlio/base/nanoseconds.h"
#include "emlio/energy_analysis/numbers.h"
#include "emlio/energy_analysis/regression.h"

namespace emlio::energy_analysis {
namespace {

constexpr double kLevelsApart = 0.05;

// The meter's energy up to any moment: power is taken as linear between readings.
class MeterEnergy {
 public:
  MeterEnergy(std::span<const MeterReading> readings, int64_t max_gap_ns)
      : readings_(readings), max_gap_ns_(max_gap_ns) {
    joules_.reserve(readings.size());
    double sum = 0;
    for (size_t i = 0; i < readings.size(); ++i) {
      if (i > 0) {
        sum += (readings[i].watts + readings[i - 1].watts) / 2 *
               Seconds(readings[i].wall_ns - readings[i - 1].wall_ns);
      }
      joules_.push_back(sum);
    }
  }

  // None: the meter has no readings there, or a gap.
  std::optional<double> MeanWatts(int64_t begin_ns, int64_t end_ns) const {
    const size_t first = Before(begin_ns);
    const size_t last = Before(end_ns);
    if (first >= readings_.size() || last + 1 >= readings_.size() || end_ns <= begin_ns) {
      return std::nullopt;
    }
    for (size_t i = first; i <= last; ++i) {
      if (readings_[i + 1].wall_ns - readings_[i].wall_ns > max_gap_ns_) return std::nullopt;
    }
    return (JoulesAt(last, end_ns) - JoulesAt(first, begin_ns)) / Seconds(end_ns - begin_ns);
  }

 private:
  // The last reading not after the moment; as many as there are when there is none.
  size_t Before(int64_t time_ns) const {
    const auto after = std::upper_bound(
        readings_.begin(), readings_.end(), time_ns,
        [](int64_t t, const MeterReading& reading) { return t < reading.wall_ns; });
    if (after == readings_.begin()) return readings_.size();
    return static_cast<size_t>(after - readings_.begin()) - 1;
  }
  double JoulesAt(size_t before, int64_t time_ns) const {
    const MeterReading& a = readings_[before];
    const MeterReading& b = readings_[before + 1];
    const double elapsed = Seconds(time_ns - a.wall_ns);
    const double length = Seconds(b.wall_ns - a.wall_ns);
    const double slope = length > 0 ? (b.watts - a.watts) / length : 0;
    return joules_[before] + elapsed * (a.watts + slope * elapsed / 2);
  }

  const std::span<const MeterReading> readings_;
  const int64_t max_gap_ns_;
  std::vector<double> joules_;
};

// Of own power and the meter's, the latter read `lag_ns` later. None: too little in common.
std::optional<double> Correlation(std::span<const MeterLevel> levels, const MeterEnergy& meter,
                                  int64_t lag_ns) {
  double n = 0, x = 0, y = 0, xx = 0, yy = 0, xy = 0;
  for (const MeterLevel& level : levels) {
    for (const OwnPower& own : level.series) {
      const auto watts = meter.MeanWatts(own.begin_wall_ns + lag_ns, own.end_wall_ns + lag_ns);
      if (!watts) continue;
      n += 1;
      x += own.watts;
      y += *watts;
      xx += own.watts * own.watts;
      yy += *watts * *watts;
      xy += own.watts * *watts;
    }
  }
  const double spread = (n * xx - x * x) * (n * yy - y * y);
  if (n < 3 || !(spread > 0)) return std::nullopt;
  return (n * xy - x * y) / std::sqrt(spread);
}

// Own mean power over whole spans.
std::vector<OwnPower> SpansOf(const MeterLevel& level, int64_t span_ns) {
  std::vector<OwnPower> spans;
  double joules = 0;
  int64_t covered_ns = 0;
  int64_t begin_ns = 0;
  for (const OwnPower& own : level.series) {
    if (covered_ns == 0) begin_ns = own.begin_wall_ns;
    const int64_t length_ns = own.end_wall_ns - own.begin_wall_ns;
    joules += own.watts * static_cast<double>(length_ns);
    covered_ns += length_ns;
    if (covered_ns >= span_ns) {
      spans.push_back({.begin_wall_ns = begin_ns,
                       .end_wall_ns = own.end_wall_ns,
                       .watts = joules / static_cast<double>(covered_ns)});
      joules = 0;
      covered_ns = 0;
    }
  }
  return spans;
}

// Levels are what they are called: the first one at rest, the others at loads of their own.
Status CheckLevels(std::span<const LevelError> levels) {
  for (size_t i = 0; i < levels.size(); ++i) {
    const double watts = levels[i].own_watts.mean;
    if (watts < levels.front().own_watts.mean) {
      return InvalidArgument(fmt::format(
          "level {} drew less than {} ({} and {}): the first run has to be of the host at rest",
          levels[i].name, levels.front().name, WithUnit(watts, "W"),
          WithUnit(levels.front().own_watts.mean, "W")));
    }
    for (size_t j = 0; j < i; ++j) {
      const double other = levels[j].own_watts.mean;
      if (std::abs(watts - other) >= kLevelsApart * std::max(watts, other)) continue;
      return InvalidArgument(
          fmt::format("levels {} and {} drew {} and {}, less than {:g} % apart: that is one level",
                      levels[j].name, levels[i].name, WithUnit(other, "W"), WithUnit(watts, "W"),
                      kLevelsApart * 100));
    }
  }
  return OkStatus();
}

}  // namespace

Result<MeterComparison> CompareWithMeter(std::span<const MeterLevel> levels,
                                         std::span<const MeterReading> readings,
                                         const MeterComparisonOptions& options) {
  if (levels.size() < options.min_levels) {
    return InvalidArgument(fmt::format("{} levels of load, at least {} are needed: idle and loads",
                                       levels.size(), options.min_levels));
  }
  const MeterEnergy meter(readings, options.max_gap_ns);
  MeterComparison comparison;
  // In steps of a second, then finer around the best one.
  std::optional<double> best;
  const auto search = [&](int64_t middle_ns, int64_t reach_ns, int64_t step_ns) {
    int64_t found_ns = middle_ns;
    for (int64_t lag_ns = middle_ns - reach_ns; lag_ns <= middle_ns + reach_ns; lag_ns += step_ns) {
      const auto correlation = Correlation(levels, meter, lag_ns);
      if (correlation && (!best || *correlation > *best)) {
        best = correlation;
        found_ns = lag_ns;
      }
    }
    return found_ns;
  };
  comparison.lag_ns = search(0, options.max_lag_ns, kNsPerSecond);
  comparison.lag_ns = search(comparison.lag_ns, kNsPerSecond, kNsPerSecond / 10);
  if (!best) {
    return InvalidArgument(
        "the meter's series and the runs have no time in common, or power never changed: compare "
        "their clocks, and give the series of the same time");
  }
  comparison.correlation = *best;

  std::vector<Observation> points;
  for (const MeterLevel& level : levels) {
    std::vector<double> own, measured, errors;
    for (const OwnPower& span : SpansOf(level, options.span_ns)) {
      const auto watts = meter.MeanWatts(span.begin_wall_ns + comparison.lag_ns,
                                         span.end_wall_ns + comparison.lag_ns);
      if (!watts || !(*watts > 0)) continue;
      own.push_back(span.watts);
      measured.push_back(*watts);
      errors.push_back((span.watts / *watts - 1) * 100);
      points.push_back({.seconds = 1, .watts = *watts, .activities = {span.watts}});
    }
    if (own.size() < options.min_spans) {
      return InvalidArgument(
          fmt::format("level {}: {} spans of {} s that the meter covers, at least {} are needed",
                      level.name, own.size(), options.span_ns / kNsPerSecond, options.min_spans));
    }
    comparison.levels.push_back({.name = level.name,
                                 .spans = own.size(),
                                 .own_watts = Summarise(own),
                                 .meter_watts = Summarise(measured),
                                 .error_percent = Summarise(errors).estimate()});
  }
  EMLIO_RETURN_IF_ERROR(CheckLevels(comparison.levels));
  const std::string name = "own power";
  EMLIO_ASSIGN_OR_RETURN(const Regression fit, Regress({&name, 1}, points, {.min_r_squared = 0}));
  comparison.slope = fit.coefficients[0].watts;
  comparison.offset_watts = fit.constant_watts;
  comparison.r_squared = fit.r_squared;
  return comparison;
}

std::string MeterComparisonText(const MeterComparison& comparison) {
  std::vector<std::string> errors;
  for (const LevelError& level : comparison.levels) {
    errors.push_back(fmt::format("{} {}", level.name, EstimateText(level.error_percent, "%")));
  }
  return fmt::format("slope {:.3f} ± {:.3f}, offset {}; error at {}", comparison.slope.value,
                     comparison.slope.half_width().value_or(0),
                     EstimateText(comparison.offset_watts, "W"), fmt::join(errors, ", "));
}

}  // namespace emlio::energy_analysis
