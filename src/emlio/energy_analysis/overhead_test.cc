// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_analysis/overhead.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace emlio::energy_analysis {
namespace {

using ::testing::HasSubstr;

// Runs that drift by much more than the monitor costs, which pairs take out.
std::vector<OverheadPair> Pairs(size_t n, double slowdown, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> noise(0, 0.02);
  std::vector<OverheadPair> pairs;
  for (size_t i = 0; i < n; ++i) {
    const double seconds = 10 + 0.3 * static_cast<double>(i);
    pairs.push_back({.with_seconds = seconds * slowdown + noise(random),
                     .without_seconds = seconds + noise(random),
                     .monitor_cpu_seconds = 0.003 * seconds});
  }
  return pairs;
}

TEST(OverheadTest, TheChangeOfThroughputIsWithinItsInterval) {
  int covered = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const auto overhead = AnalyseOverhead(Pairs(10, 1.01, seed));
    ASSERT_TRUE(overhead.ok());
    covered += overhead->interval_percent->Contains((1 / 1.01 - 1) * 100) ? 1 : 0;
    EXPECT_LT(overhead->interval_percent->high - overhead->interval_percent->low, 1);
    EXPECT_NEAR(overhead->core_percent.value, 0.297, 0.002);
  }
  EXPECT_GE(covered, 182);
  EXPECT_LT(covered, 200);
}

TEST(OverheadTest, FewPairsAreRefused) {
  EXPECT_THAT(AnalyseOverhead(Pairs(9, 1, 1)).status().message(), HasSubstr("9 good pairs"));
  auto pairs = Pairs(10, 1, 1);
  pairs[3].with_seconds = 0;
  EXPECT_FALSE(AnalyseOverhead(pairs).ok());
}

}  // namespace
}  // namespace emlio::energy_analysis
