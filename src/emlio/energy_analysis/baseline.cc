// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_analysis/baseline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace emlio::energy_analysis {
namespace {

constexpr std::array<std::string_view, 3> kKindNames = {"off", "ready", "running-without-io"};

}  // namespace

std::string_view BaselineKindName(BaselineKind kind) {
  return kKindNames[static_cast<size_t>(kind)];
}

std::optional<BaselineKind> BaselineKindFromName(std::string_view name) {
  for (size_t i = 0; i < kKindNames.size(); ++i) {
    if (kKindNames[i] == name) return static_cast<BaselineKind>(i);
  }
  return std::nullopt;
}

Drift DriftOf(std::span<const double> parts) {
  const size_t n = parts.size();
  if (n < 3) return {};
  const double middle = static_cast<double>(n - 1) / 2;
  double mean = 0;
  for (const double part : parts) mean += part / static_cast<double>(n);
  double xx = 0;
  double xy = 0;
  for (size_t i = 0; i < n; ++i) {
    const double x = static_cast<double>(i) - middle;
    xx += x * x;
    xy += x * (parts[i] - mean);
  }
  const double slope = xy / xx;
  double squares = 0;
  for (size_t i = 0; i < n; ++i) {
    const double residual = parts[i] - mean - slope * (static_cast<double>(i) - middle);
    squares += residual * residual;
  }
  return {.watts = slope * static_cast<double>(n - 1),
          .residual_sd = std::sqrt(squares / static_cast<double>(n - 2))};
}

Result<Baseline> MakeBaseline(BaselineKind kind, std::span<const std::string> domains,
                              std::span<const BaselineRun> runs, const BaselineLimits& limits) {
  std::vector<std::string> faults;
  if (domains.empty()) faults.push_back("no domain has joules");
  if (runs.size() < limits.min_runs) {
    faults.push_back(fmt::format("{} runs, at least {} are needed", runs.size(), limits.min_runs));
  }
  Baseline baseline{.kind = kind, .runs = runs.size()};
  std::vector<double> parts;
  std::vector<double> sums;
  for (const BaselineRun& run : runs) {
    if (run.watts.size() != domains.size()) {
      return InvalidArgument(fmt::format("baseline run {}: {} domains where {} are expected",
                                         run.id, run.watts.size(), domains.size()));
    }
    if (run.seconds < limits.min_seconds) {
      faults.push_back(fmt::format("run {} lasted {:.1f} s, at least {:g} s are needed", run.id,
                                   run.seconds, limits.min_seconds));
    }
    const std::string of_node = run.cpu_node.empty() ? "" : fmt::format(" of {}", run.cpu_node);
    if (kind != BaselineKind::kRunning && !run.cpu_use) {
      faults.push_back(fmt::format(
          "run {}: how busy the CPUs{} were is not known, so that nobody can say that it was at "
          "rest",
          run.id, of_node));
    } else if (kind != BaselineKind::kRunning && *run.cpu_use > limits.max_cpu_use) {
      faults.push_back(
          fmt::format("run {}: the CPUs{} were {:.1f} % busy, more than {:g} %: stop what "
                      "else is running",
                      run.id, of_node, *run.cpu_use * 100, limits.max_cpu_use * 100));
    }
    baseline.seconds += run.seconds;
    if (!run.cpu_use || !baseline.cpu_use) {
      baseline.cpu_use.reset();
    } else {
      baseline.cpu_use = std::max(*baseline.cpu_use, *run.cpu_use);
    }
    parts.insert(parts.end(), run.series.begin(), run.series.end());
    double sum = 0;
    for (const double watts : run.watts) sum += watts;
    sums.push_back(sum);
  }
  baseline.watts = Summarise(sums);
  for (size_t d = 0; d < domains.size(); ++d) {
    std::vector<double> watts;
    for (const BaselineRun& run : runs) watts.push_back(run.watts[d]);
    baseline.domains.push_back({.domain = domains[d], .watts = Summarise(watts)});
  }
  const Drift drift = DriftOf(parts);
  baseline.drift_watts = drift.watts;
  if (drift.residual_sd > 0) baseline.drift_sd = std::abs(drift.watts) / drift.residual_sd;
  const bool drifted = std::abs(drift.watts) > limits.max_drift_sd * drift.residual_sd;
  if (drifted && std::abs(drift.watts) > limits.drift_floor * std::abs(baseline.watts.mean)) {
    faults.push_back(
        fmt::format("the power drifted by {:+.2f} W, more than {:g} standard deviations "
                    "({:.2f} W): wait until the host is warm or cool throughout",
                    drift.watts, limits.max_drift_sd, drift.residual_sd));
  }
  if (!faults.empty()) {
    return InvalidArgument(
        fmt::format("baseline {} is refused: {}", BaselineKindName(kind), fmt::join(faults, "; ")));
  }
  return baseline;
}

NetEnergy NetOf(double total_joules, double uncertainty_joules, double seconds,
                const Summary& baseline_watts) {
  NetEnergy net{.total_joules = total_joules,
                .total_uncertainty = uncertainty_joules,
                .net_joules = total_joules - baseline_watts.mean * seconds,
                .net_uncertainty = uncertainty_joules,
                .seconds = seconds,
                .mean_watts = seconds > 0 ? total_joules / seconds : 0};
  if (baseline_watts.n >= 2) {
    const auto n = static_cast<double>(baseline_watts.n);
    const double baseline_joules =
        StudentQuantile95(n - 1) * baseline_watts.sd * std::sqrt(1 + 1 / n) * seconds;
    net.net_uncertainty = std::hypot(uncertainty_joules, baseline_joules);
  }
  return net;
}

Estimate MeanNetOf(std::span<const double> joules, std::span<const double> seconds,
                   const Summary& baseline_watts) {
  std::vector<double> nets(joules.size());
  for (size_t i = 0; i < joules.size(); ++i) nets[i] = joules[i] - baseline_watts.mean * seconds[i];
  Estimate power = baseline_watts.estimate();
  power.value = 0;  // it is in `nets` already; what is left is that it may be wrong for all of them
  return Combine(std::array{WeightedEstimate{1, Summarise(nets).estimate()},
                            WeightedEstimate{-Summarise(seconds).mean, power}});
}

}  // namespace emlio::energy_analysis
