// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_analysis/statistics.h"

#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>

namespace emlio::energy_analysis {
namespace {

// The library's default is to throw.
namespace policies = boost::math::policies;
using Quiet = policies::policy<policies::domain_error<policies::ignore_error>,
                               policies::pole_error<policies::ignore_error>,
                               policies::overflow_error<policies::ignore_error>,
                               policies::evaluation_error<policies::ignore_error>>;

double Mean(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

// The covariance of two means.
double MeanCovariance(std::span<const double> a, std::span<const double> b) {
  const double mean_a = Mean(a);
  const double mean_b = Mean(b);
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - mean_a) * (b[i] - mean_b);
  const auto n = static_cast<double>(a.size());
  return sum / (n - 1) / n;
}

// All ratios r for which numerator - r × denominator is not told apart from 0.
std::optional<Interval> Fieller(double numerator, double denominator, double numerator_variance,
                                double denominator_variance, double covariance, double t) {
  const double a = denominator * denominator - t * t * denominator_variance;
  const double b = numerator * denominator - t * t * covariance;
  const double c = numerator * numerator - t * t * numerator_variance;
  if (a <= 0) return std::nullopt;
  const double root = std::sqrt(std::max(0.0, b * b - a * c));
  return Interval{(b - root) / a, (b + root) / a};
}

// Welch and Satterthwaite: of a sum of variances. 0 when one of them is not known.
class Degrees {
 public:
  void Add(double variance, double degrees) {
    if (degrees <= 0) {
      known_ = false;
      return;
    }
    sum_ += variance;
    squares_ += variance * variance / degrees;  // 0 when degrees is infinite
  }
  double value() const {
    if (!known_) return 0;
    if (squares_ <= 0) return std::numeric_limits<double>::infinity();
    return sum_ * sum_ / squares_;
  }

 private:
  bool known_ = true;
  double sum_ = 0;
  double squares_ = 0;
};

double Square(double value) { return value * value; }

}  // namespace

std::optional<double> Estimate::half_width() const {
  if (!(degrees > 0)) return std::nullopt;
  return StudentQuantile95(degrees) * standard_error;
}

std::optional<Interval> Estimate::confidence() const {
  const auto half = half_width();
  if (!half) return std::nullopt;
  return Interval{value - *half, value + *half};
}

Estimate Summary::estimate() const {
  if (n < 2) return {.value = mean};
  const auto count = static_cast<double>(n);
  return {.value = mean, .standard_error = sd / std::sqrt(count), .degrees = count - 1};
}

Summary Summarise(std::span<const double> values) {
  Summary summary{.n = values.size(), .mean = Mean(values)};
  if (values.size() < 2) return summary;
  const double variance_of_mean = MeanCovariance(values, values);
  summary.sd = std::sqrt(variance_of_mean * static_cast<double>(values.size()));
  return summary;
}

double StudentQuantile95(double degrees) {
  constexpr double kUpper = 0.975;
  // From here on Student's is the normal distribution to all digits that matter.
  constexpr double kMany = 1e7;
  const boost::math::students_t_distribution<double, Quiet> student(std::min(degrees, kMany));
  return boost::math::quantile(student, kUpper);
}

Estimate Combine(std::span<const WeightedEstimate> parts) {
  Estimate sum;
  double variance = 0;
  Degrees degrees;
  for (const auto& [factor, part] : parts) {
    if (factor == 0) continue;
    sum.value += factor * part.value;
    const double share = Square(factor * part.standard_error);
    variance += share;
    degrees.Add(share, part.degrees);
  }
  sum.degrees = degrees.value();
  if (sum.degrees > 0) sum.standard_error = std::sqrt(variance);
  return sum;
}

Summary PairedDifference(std::span<const double> a, std::span<const double> b) {
  std::vector<double> differences(a.size());
  for (size_t i = 0; i < a.size(); ++i) differences[i] = a[i] - b[i];
  return Summarise(differences);
}

Ratio RatioOfMeans(const Estimate& numerator, const Estimate& denominator) {
  Ratio ratio{.value = numerator.value / denominator.value};
  const double numerator_variance = Square(numerator.standard_error);
  const double denominator_variance = Square(denominator.standard_error);
  Degrees degrees;  // of numerator - ratio × denominator
  degrees.Add(numerator_variance, numerator.degrees);
  degrees.Add(Square(ratio.value) * denominator_variance, denominator.degrees);
  if (!(degrees.value() > 0) || !std::isfinite(ratio.value)) return ratio;
  ratio.interval = Fieller(numerator.value, denominator.value, numerator_variance,
                           denominator_variance, 0, StudentQuantile95(degrees.value()));
  return ratio;
}

Ratio PairedRatioOfMeans(std::span<const double> numerator, std::span<const double> denominator) {
  const double top = Mean(numerator);
  const double bottom = Mean(denominator);
  Ratio ratio{.value = top / bottom};
  if (numerator.size() < 2 || !std::isfinite(ratio.value)) return ratio;
  ratio.interval =
      Fieller(top, bottom, MeanCovariance(numerator, numerator),
              MeanCovariance(denominator, denominator), MeanCovariance(numerator, denominator),
              StudentQuantile95(static_cast<double>(numerator.size() - 1)));
  return ratio;
}

}  // namespace emlio::energy_analysis
