// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_analysis/statistics.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace emlio::energy_analysis {
namespace {

std::vector<double> Draw(std::mt19937_64* random, size_t n, double mean, double sd) {
  std::normal_distribution<double> normal(mean, sd);
  std::vector<double> values(n);
  for (double& value : values) value = normal(*random);
  return values;
}

// The share of `trials` in which an interval covers the truth, as it should in 95 of 100.
template <typename Covers>
double Coverage(Covers covers) {
  constexpr int kTrials = 4000;  // standard deviation of the share: 0.0034
  std::mt19937_64 random(7);
  int covered = 0;
  for (int i = 0; i < kTrials; ++i) covered += covers(&random) ? 1 : 0;
  return covered / static_cast<double>(kTrials);
}

TEST(StatisticsTest, QuantilesAreThoseOfTheTables) {
  EXPECT_NEAR(StudentQuantile95(1), 12.706, 1e-3);
  EXPECT_NEAR(StudentQuantile95(4), 2.776, 1e-3);
  EXPECT_NEAR(StudentQuantile95(9), 2.262, 1e-3);
  EXPECT_NEAR(StudentQuantile95(std::numeric_limits<double>::infinity()), 1.96, 1e-3);
}

TEST(StatisticsTest, MeanDeviationAndIntervalOfKnownRuns) {
  const Summary summary = Summarise(std::array{10.0, 12.0, 14.0, 16.0, 18.0});
  EXPECT_EQ(summary.n, 5u);
  EXPECT_DOUBLE_EQ(summary.mean, 14);
  EXPECT_NEAR(summary.sd, std::sqrt(10), 1e-12);
  EXPECT_NEAR(*summary.estimate().half_width(), 2.7764 * std::sqrt(2), 1e-3);
}

TEST(StatisticsTest, OneRunHasNoInterval) {
  EXPECT_FALSE(Summarise(std::array{10.0}).estimate().confidence());
  EXPECT_FALSE(Summarise({}).estimate().confidence());
  EXPECT_FALSE(RatioOfMeans({.value = 2}, {.value = 1}).interval);
  EXPECT_FALSE(PairedRatioOfMeans(std::array{2.0}, std::array{1.0}).interval);
}

TEST(StatisticsTest, ASumWithAPartThatIsNotKnownHasNoInterval) {
  const Estimate known{.value = 3, .standard_error = 1, .degrees = 4};
  const Estimate alone{.value = 2};
  EXPECT_TRUE(
      Combine(std::array{WeightedEstimate{1, known}, WeightedEstimate{0, alone}}).confidence());
  const Estimate sum = Combine(std::array{WeightedEstimate{1, known}, WeightedEstimate{1, alone}});
  EXPECT_EQ(sum.value, 5);
  EXPECT_FALSE(sum.confidence());
}

TEST(StatisticsTest, DegreesOfASumLieBetweenThoseOfItsParts) {
  const Estimate few{.value = 1, .standard_error = 1, .degrees = 4};
  const Estimate many{.value = 1, .standard_error = 1, .degrees = 40};
  const Estimate sum = Combine(std::array{WeightedEstimate{1, few}, WeightedEstimate{-1, many}});
  EXPECT_DOUBLE_EQ(sum.value, 0);
  EXPECT_NEAR(sum.standard_error, std::sqrt(2), 1e-12);
  EXPECT_NEAR(sum.degrees, 4 / (0.25 + 0.025), 1e-9);
}

TEST(StatisticsTest, IntervalsOfDifferencesCoverTheTruth) {
  const double share = Coverage([](std::mt19937_64* random) {
    const auto a = Summarise(Draw(random, 5, 100, 10)).estimate();
    const auto b = Summarise(Draw(random, 8, 70, 2)).estimate();
    return Combine(std::array{WeightedEstimate{1, a}, WeightedEstimate{-1, b}})
        .confidence()
        ->Contains(30);
  });
  EXPECT_NEAR(share, 0.95, 0.015);
}

TEST(StatisticsTest, IntervalsOfRatiosCoverTheTruth) {
  const double share = Coverage([](std::mt19937_64* random) {
    const auto a = Summarise(Draw(random, 6, 100, 12)).estimate();
    const auto b = Summarise(Draw(random, 6, 40, 8)).estimate();
    return RatioOfMeans(a, b).interval.value_or(Interval{}).Contains(2.5);
  });
  EXPECT_NEAR(share, 0.95, 0.015);
}

TEST(StatisticsTest, PairingTakesOutWhatBothHaveInCommon) {
  std::mt19937_64 random(3);
  const auto common = Draw(&random, 10, 0, 20);
  auto a = Draw(&random, 10, 110, 1);
  auto b = Draw(&random, 10, 100, 1);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] += common[i];
    b[i] += common[i];
  }
  const Interval paired = *PairedDifference(a, b).estimate().confidence();
  EXPECT_TRUE(paired.Contains(10)) << paired.low << " " << paired.high;
  EXPECT_LT(paired.high - paired.low, 4);
  const Ratio ratio = PairedRatioOfMeans(a, b);
  const Ratio unpaired = RatioOfMeans(Summarise(a).estimate(), Summarise(b).estimate());
  EXPECT_TRUE(ratio.interval->Contains(1.1));
  EXPECT_LT(ratio.interval->high - ratio.interval->low,
            (unpaired.interval->high - unpaired.interval->low) / 4);
}

TEST(StatisticsTest, ADenominatorThatMayBeNothingExcludesNoRatio) {
  const Estimate net{.value = 10, .standard_error = 1, .degrees = 4};
  EXPECT_FALSE(RatioOfMeans(net, {.value = 1, .standard_error = 1, .degrees = 4}).interval);
  EXPECT_FALSE(RatioOfMeans(net, {.value = 0, .standard_error = 0, .degrees = 4}).interval);
  EXPECT_TRUE(RatioOfMeans(net, {.value = 5, .standard_error = 1, .degrees = 4}).interval);
}

TEST(StatisticsTest, RatiosOfNegativeMeansHaveAnInterval) {
  const Estimate a{.value = -10, .standard_error = 1, .degrees = 9};
  const Estimate b{.value = 5, .standard_error = 0.2, .degrees = 9};
  const Ratio ratio = RatioOfMeans(a, b);
  EXPECT_TRUE(ratio.interval->Contains(-2));
  EXPECT_LT(ratio.interval->high, 0);
}

}  // namespace
}  // namespace emlio::energy_analysis
