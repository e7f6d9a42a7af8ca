// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_analysis/regression.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <Eigen/Dense>
#include <cmath>
#include <limits>
#include <random>
#include <utility>

namespace emlio::energy_analysis {
namespace {

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

// The share of `values` that a fit of the other columns leaves unexplained; 0 when it is constant.
double UnexplainedShare(const Matrix& design, Eigen::Index column) {
  const Vector values = design.col(column);
  Matrix others(design.rows(), design.cols() - 1);
  Eigen::Index to = 0;
  for (Eigen::Index from = 0; from < design.cols(); ++from) {
    if (from != column) others.col(to++) = design.col(from);
  }
  const double all = (values.array() - values.mean()).matrix().squaredNorm();
  const double scale = values.squaredNorm();
  if (!(all > scale * 1e-18)) return 0;
  const Vector fit = others * others.colPivHouseholderQr().solve(values);
  return (values - fit).squaredNorm() / all;
}

Status CheckObservations(std::span<const std::string> activities,
                         std::span<const Observation> observations,
                         const RegressionLimits& limits) {
  if (activities.empty()) return InvalidArgument("a regression needs an activity at least");
  const size_t needed = limits.min_observations_each * activities.size();
  if (observations.size() < needed) {
    return InvalidArgument(fmt::format("{} observations; {} activities need at least {}",
                                       observations.size(), activities.size(), needed));
  }
  for (size_t i = 0; i < observations.size(); ++i) {
    const Observation& observation = observations[i];
    bool good = observation.activities.size() == activities.size() &&
                std::isfinite(observation.watts) && std::isfinite(observation.seconds) &&
                observation.seconds > 0;
    for (const double activity : observation.activities) good = good && std::isfinite(activity);
    if (!good) {
      return InvalidArgument(fmt::format(
          "observation {}: each has a time above 0, watts and {} activities, all finite", i,
          activities.size()));
    }
  }
  return OkStatus();
}

}  // namespace

Result<Regression> Regress(std::span<const std::string> activities,
                           std::span<const Observation> observations,
                           const RegressionLimits& limits) {
  EMLIO_RETURN_IF_ERROR(CheckObservations(activities, observations, limits));
  const auto rows = static_cast<Eigen::Index>(observations.size());
  const auto columns = static_cast<Eigen::Index>(activities.size()) + 1;
  Matrix design(rows, columns);
  Vector watts(rows);
  Vector activity_seconds = Vector::Zero(columns);
  Regression result{.observations = observations.size()};
  for (Eigen::Index row = 0; row < rows; ++row) {
    const Observation& observation = observations[static_cast<size_t>(row)];
    design(row, 0) = 1;
    for (Eigen::Index column = 1; column < columns; ++column) {
      design(row, column) = observation.activities[static_cast<size_t>(column - 1)];
    }
    activity_seconds += design.row(row).transpose() * observation.seconds;
    watts(row) = observation.watts;
    result.seconds += observation.seconds;
  }

  std::vector<double> vifs;
  std::vector<std::string> inseparable;
  for (Eigen::Index column = 1; column < columns; ++column) {
    const double unexplained = UnexplainedShare(design, column);
    const double vif = unexplained > 0 ? 1 / unexplained : std::numeric_limits<double>::infinity();
    vifs.push_back(vif);
    if (!(vif <= limits.max_vif)) {
      inseparable.push_back(
          fmt::format("{} has VIF {:.4g}", activities[static_cast<size_t>(column - 1)], vif));
    }
  }
  if (!inseparable.empty()) {
    return InvalidArgument(
        fmt::format("the activities cannot be separated (a VIF above {:g}): {}; pause stages at "
                    "random (--dither), or use the ladder",
                    limits.max_vif, fmt::join(inseparable, ", ")));
  }

  const Eigen::ColPivHouseholderQR<Matrix> qr(design);
  const Vector fitted = qr.solve(watts);
  const double residual = (watts - design * fitted).squaredNorm();
  const double all = (watts.array() - watts.mean()).matrix().squaredNorm();
  result.r_squared = all > 0 ? 1 - residual / all : 0;
  if (!(result.r_squared >= limits.min_r_squared)) {
    return InvalidArgument(fmt::format(
        "the activities explain too little of the power: R² is {:.3f}, at least {:g} is "
        "needed",
        result.r_squared, limits.min_r_squared));
  }
  const auto degrees = static_cast<double>(rows - columns);
  const Matrix inverse =
      (design.transpose() * design).ldlt().solve(Matrix::Identity(columns, columns));
  const auto estimate = [&](Eigen::Index column) {
    return Estimate{.value = fitted(column),
                    .standard_error = std::sqrt(residual / degrees * inverse(column, column)),
                    .degrees = degrees};
  };
  result.constant_watts = estimate(0);
  for (Eigen::Index column = 1; column < columns; ++column) {
    const auto index = static_cast<size_t>(column - 1);
    Coefficient coefficient{.name = activities[index],
                            .watts = estimate(column),
                            .vif = vifs[index],
                            .joules = estimate(column)};
    coefficient.joules.value *= activity_seconds(column);
    coefficient.joules.standard_error *= std::abs(activity_seconds(column));
    result.coefficients.push_back(std::move(coefficient));
  }
  return result;
}

std::vector<DitherBlock> DitherSchedule(size_t blocks, double block_seconds, uint64_t seed) {
  constexpr unsigned kCombinations = 1u << kStages;
  std::mt19937_64 random(seed);
  std::vector<DitherBlock> schedule(blocks);
  // All combinations equally often, then shuffled.
  for (size_t i = 0; i < blocks; ++i) {
    schedule[i].paused = StageSet(static_cast<unsigned>(i % kCombinations));
  }
  for (size_t i = blocks; i > 1; --i) {
    std::swap(schedule[i - 1].paused, schedule[random() % i].paused);
  }
  for (size_t i = 0; i < blocks; ++i) {
    schedule[i].begin_seconds = block_seconds * static_cast<double>(i);
    schedule[i].seconds = block_seconds;
  }
  return schedule;
}

}  // namespace emlio::energy_analysis
