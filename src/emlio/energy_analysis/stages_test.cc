// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_analysis/stages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "emlio/energy_analysis/testing/synthetic_pipeline.h"

namespace emlio::energy_analysis {
namespace {

using ::testing::HasSubstr;
using testing::SyntheticPipeline;

constexpr Summary kBaseline{.n = 5, .mean = 100, .sd = 0.3};
constexpr LadderOptions kNet{.baseline_watts = &kBaseline};

std::vector<StageRun> Runs(const SyntheticPipeline& pipeline, std::span<const StageSet> sets,
                           size_t rounds, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<StageRun> runs;
  for (const StageSet set : StageSchedule(sets, rounds, seed)) {
    runs.push_back(pipeline.Run(set, &random));
  }
  return runs;
}

TEST(StageSetTest, NamesAreThoseOfTheEnvironment) {
  EXPECT_EQ(kReadPreprocess.Name(), "R+P");
  EXPECT_EQ(kAllStages.List(), "read,preprocess,train");
  for (const StageSet set : ShapleySets()) EXPECT_EQ(StageSet::FromList(set.List()), set);
  EXPECT_FALSE(StageSet::FromList(""));
  EXPECT_FALSE(StageSet::FromList("train,read"));
}

TEST(StageScheduleTest, EveryRoundHasEverySetOnceInItsOwnOrder) {
  const auto sets = LadderSets();
  const auto schedule = StageSchedule(sets, 20, 3);
  ASSERT_EQ(schedule.size(), 80u);
  std::set<std::vector<unsigned>> orders;
  for (size_t round = 0; round < 20; ++round) {
    std::vector<unsigned> order;
    for (size_t i = 0; i < 4; ++i) order.push_back(schedule[4 * round + i].bits());
    orders.insert(order);
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, (std::vector<unsigned>{1, 3, 4, 7}));
  }
  EXPECT_GT(orders.size(), 5u);
  EXPECT_EQ(StageSchedule(sets, 20, 3), schedule);
  EXPECT_NE(StageSchedule(sets, 20, 4), schedule);
}

// In nearly all experiments each interval covers the truth.
TEST(LadderTest, MarginalEnergiesAndInteractionAreRecoveredWithinTheirIntervals) {
  const SyntheticPipeline pipeline;
  constexpr int kExperiments = 400;
  std::map<std::string, int> covered;
  for (int seed = 0; seed < kExperiments; ++seed) {
    const auto sets = LadderSets();
    // The baseline is measured too, and is off by as much as its runs scatter.
    std::mt19937_64 random(static_cast<uint64_t>(seed) + 1000);
    std::normal_distribution<double> idle(100, 0.3);
    std::vector<double> idles(5);
    for (double& watts : idles) watts = idle(random);
    const Summary baseline = Summarise(idles);
    const LadderOptions options{.baseline_watts = &baseline};
    const auto ladder =
        AnalyseLadder(Runs(pipeline, sets, 5, static_cast<uint64_t>(seed)), options);
    ASSERT_TRUE(ladder.ok());
    const auto count = [&](const StageEnergy& energy, double truth) {
      covered[energy.name] += energy.net->confidence()->Contains(truth) ? 1 : 0;
    };
    count(ladder->marginal[0], 2000);
    count(ladder->marginal[1], 3400);
    count(ladder->marginal[2], 7450);
    count(ladder->train_alone, 8000);
    count(ladder->interaction, -550);
    count(ladder->whole, 12850);
  }
  ASSERT_EQ(covered.size(), 6u);
  for (const auto& [name, times] : covered) {
    EXPECT_GE(times, kExperiments * 0.91) << name;
    EXPECT_LT(times, kExperiments) << name << ": intervals that always cover are too wide";
  }
}

TEST(LadderTest, MarginalEnergiesAddUpToTheWhole) {
  const auto ladder = AnalyseLadder(Runs({}, LadderSets(), 5, 1), kNet);
  ASSERT_TRUE(ladder.ok());
  double total = 0;
  double net = 0;
  for (const StageEnergy& stage : ladder->marginal) {
    total += stage.total.value;
    net += stage.net->value;
  }
  EXPECT_NEAR(total, ladder->whole.total.value, 1e-6);
  EXPECT_NEAR(net, ladder->whole.net->value, 1e-6);
  EXPECT_NEAR(ladder->marginal[2].net->value,
              ladder->train_alone.net->value + ladder->interaction.net->value, 1e-6);
}

TEST(LadderTest, DifferentPacesAreSaid) {
  EXPECT_TRUE(AnalyseLadder(Runs({}, LadderSets(), 5, 1), kNet)->unpaced);
  SyntheticPipeline paced;
  paced.stage_seconds = {100, 100, 100};
  EXPECT_FALSE(AnalyseLadder(Runs(paced, LadderSets(), 5, 1), kNet)->unpaced);
}

TEST(LadderTest, WithoutABaselineThereAreTotalsOnly) {
  const auto ladder = AnalyseLadder(Runs({}, LadderSets(), 5, 1));
  ASSERT_TRUE(ladder.ok());
  EXPECT_FALSE(ladder->whole.net);
  EXPECT_FALSE(ladder->sets[0].net);
  EXPECT_GT(ladder->whole.total.value, 12850);
}

TEST(LadderTest, SetsThatLackRunsAreNamed) {
  auto runs = Runs({}, LadderSets(), 5, 1);
  std::erase_if(runs, [](const StageRun& run) { return run.set == kTrainOnly; });
  for (auto& run : runs) {
    if (run.set == kReadOnly) {
      run.set = kReadPreprocess;
      break;
    }
  }
  const Status status = AnalyseLadder(runs).status();
  EXPECT_THAT(status.message(), HasSubstr("needs 5 good runs: R has 4, T has 0"));
}

TEST(ShapleyTest, SharesAddUpToTheWholeAndSplitWhatPairsCost) {
  SyntheticPipeline pipeline;
  pipeline.noise_joules = pipeline.noise_seconds = 0;
  constexpr Summary kExact{.n = 5, .mean = 100, .sd = 0};
  const auto shapley =
      AnalyseShapley(Runs(pipeline, ShapleySets(), 5, 1), {.baseline_watts = &kExact});
  ASSERT_TRUE(shapley.ok()) << shapley.status().message();
  // Each pair's joules are divided in halves.
  EXPECT_NEAR(shapley->shares[0].net->value, 2000 + 200 + 75, 1e-6);
  EXPECT_NEAR(shapley->shares[1].net->value, 3000 + 200 - 350, 1e-6);
  EXPECT_NEAR(shapley->shares[2].net->value, 8000 + 75 - 350, 1e-6);
  double total = 0;
  double net = 0;
  for (const StageEnergy& share : shapley->shares) {
    total += share.total.value;
    net += share.net->value;
  }
  EXPECT_NEAR(net, shapley->whole.net->value, 1e-6);
  EXPECT_NEAR(total, shapley->whole.total.value, 1e-6);
}

TEST(ShapleyTest, SharesAreRecoveredWithinTheirIntervals) {
  int covered = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const auto shapley = AnalyseShapley(Runs({}, ShapleySets(), 5, seed), kNet);
    ASSERT_TRUE(shapley.ok());
    covered += shapley->shares[0].net->confidence()->Contains(2275) ? 1 : 0;
  }
  EXPECT_GE(covered, 182);
}

TEST(ShapleyTest, TheLadderIsNotEnough) {
  const Status status = AnalyseShapley(Runs({}, LadderSets(), 5, 1)).status();
  EXPECT_THAT(status.message(), HasSubstr("P has 0, R+T has 0, P+T has 0"));
}

}  // namespace
}  // namespace emlio::energy_analysis
