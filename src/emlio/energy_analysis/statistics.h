// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

// What can be said of a figure that was measured several times (ANALYSIS.md, "Statistics"). Pure
// functions of plain numbers; thread-safe. All intervals are two-sided ones of 95 %.
namespace emlio::energy_analysis {

struct Interval {
  double low = 0;
  double high = 0;

  bool Contains(double value) const { return low <= value && value <= high; }
};

// A value, how far it is uncertain, and how well that is known itself.
struct Estimate {
  double value = 0;
  double standard_error = 0;
  // Degrees of freedom of standard_error; 0: there is none (a single run), infinity: it is exact.
  double degrees = 0;

  // None when degrees is 0.
  std::optional<Interval> confidence() const;
  // Half of its width.
  std::optional<double> half_width() const;
};

// The runs of one arm.
struct Summary {
  size_t n = 0;
  double mean = 0;
  double sd = 0;  // 0 when n < 2

  Estimate estimate() const;
};
Summary Summarise(std::span<const double> values);

// The quantile t with which value ± t × standard_error covers 95 %. REQUIRES: degrees > 0.
double StudentQuantile95(double degrees);

// Σ factor × value of independent estimates, with the degrees of freedom of Welch and
// Satterthwaite. An estimate without degrees and with a factor other than 0 leaves the sum without
// any.
struct WeightedEstimate {
  double factor = 1;
  Estimate estimate = {};
};
Estimate Combine(std::span<const WeightedEstimate> parts);

// The mean of a[i] - b[i]. REQUIRES: as many of both.
Summary PairedDifference(std::span<const double> a, std::span<const double> b);

// The ratio of two means by Fieller's theorem. `interval` is none when the runs are too few, or
// when the denominator cannot be told apart from 0: no ratio is then excluded.
struct Ratio {
  double value = 0;
  std::optional<Interval> interval = {};
};
Ratio RatioOfMeans(const Estimate& numerator, const Estimate& denominator);
// The same of runs that belong together one by one. REQUIRES: as many of both.
Ratio PairedRatioOfMeans(std::span<const double> numerator, std::span<const double> denominator);

}  // namespace emlio::energy_analysis
