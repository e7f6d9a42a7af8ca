// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_analysis/regression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "emlio/energy_analysis/testing/synthetic_pipeline.h"

namespace emlio::energy_analysis {
namespace {

using ::testing::HasSubstr;
using testing::SyntheticPipeline;

const std::vector<std::string> kActivities = {"read", "preprocess", "train"};
constexpr double kNoiseWatts = 3;

std::vector<Observation> Blocks(bool dithered, uint64_t seed) {
  std::mt19937_64 random(seed);
  auto schedule = DitherSchedule(120, 2, seed);
  if (!dithered) {
    for (DitherBlock& block : schedule) block.paused = {};
  }
  return SyntheticPipeline().Blocks(schedule, kNoiseWatts, &random);
}

TEST(RegressionTest, StagesThatMoveTogetherAreRefused) {
  const Status status = Regress(kActivities, Blocks(false, 1)).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("cannot be separated"));
  EXPECT_THAT(status.message(), HasSubstr("--dither"));
}

TEST(RegressionTest, DitheringMakesThemSeparableAndTheTruthIsInTheIntervals) {
  int covered = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const auto blocks = Blocks(true, seed);
    const auto fit = Regress(kActivities, blocks);
    ASSERT_TRUE(fit.ok()) << fit.status().message();
    EXPECT_GT(fit->r_squared, 0.9);
    const std::array truth = {20.0, 30.0, 80.0};
    for (size_t i = 0; i < 3; ++i) {
      const Coefficient& coefficient = fit->coefficients[i];
      EXPECT_LT(coefficient.vif, 2);
      covered += coefficient.watts.confidence()->Contains(truth[i]) ? 1 : 0;
      double joules = 0;
      for (const auto& block : blocks) joules += coefficient.watts.value * block.activities[i] * 2;
      EXPECT_NEAR(coefficient.joules.value, joules, 1e-6);
    }
    covered += fit->constant_watts.confidence()->Contains(100) ? 1 : 0;
  }
  EXPECT_GE(covered, 400 * 0.91);
  EXPECT_LT(covered, 400);
}

TEST(RegressionTest, PowerThatFollowsNoActivityIsRefused) {
  auto blocks = Blocks(true, 1);
  std::mt19937_64 random(2);
  std::normal_distribution<double> normal(200, 20);
  for (Observation& block : blocks) block.watts = normal(random);
  EXPECT_THAT(Regress(kActivities, blocks).status().message(), HasSubstr("R² is 0."));
  for (Observation& block : blocks) block.watts = 200;
  EXPECT_THAT(Regress(kActivities, blocks).status().message(), HasSubstr("R² is 0.000"));
}

TEST(RegressionTest, AnActivityThatNeverChangesIsRefused) {
  auto blocks = Blocks(true, 1);
  for (const double constant : {0.0, 0.7}) {
    for (Observation& block : blocks) block.activities[1] = constant;
    EXPECT_THAT(Regress(kActivities, blocks).status().message(),
                HasSubstr("preprocess has VIF inf"));
  }
}

TEST(RegressionTest, TooFewOrUnusableObservationsAreRefused) {
  auto blocks = Blocks(true, 1);
  EXPECT_THAT(Regress(kActivities, std::span(blocks).first(29)).status().message(),
              HasSubstr("3 activities need at least 30"));
  EXPECT_FALSE(Regress({}, blocks).ok());
  blocks[4].watts = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(Regress(kActivities, blocks).status().message(), HasSubstr("observation 4"));
  blocks[4].watts = 100;
  blocks[5].activities.pop_back();
  EXPECT_THAT(Regress(kActivities, blocks).status().message(), HasSubstr("observation 5"));
}

TEST(DitherScheduleTest, EachStageStandsStillInHalfOfTheBlocks) {
  const auto schedule = DitherSchedule(80, 1.5, 9);
  ASSERT_EQ(schedule.size(), 80u);
  for (const Stage stage : {Stage::kRead, Stage::kPreprocess, Stage::kTrain}) {
    EXPECT_EQ(std::count_if(schedule.begin(), schedule.end(),
                            [&](const DitherBlock& block) { return block.paused.Has(stage); }),
              40);
  }
  EXPECT_DOUBLE_EQ(schedule[10].begin_seconds, 15);
  EXPECT_DOUBLE_EQ(schedule[10].seconds, 1.5);
}

}  // namespace
}  // namespace emlio::energy_analysis
