// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_analysis/baseline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace emlio::energy_analysis {
namespace {

using ::testing::HasSubstr;

const std::vector<std::string> kDomains = {"package-0", "dram-0"};

// Three minutes of 40 + 10 W with noise of 0.5 W.
std::vector<BaselineRun> GoodRuns() {
  std::mt19937_64 random(1);
  std::normal_distribution<double> noise(0, 0.5);
  std::vector<BaselineRun> runs;
  for (int i = 0; i < 3; ++i) {
    BaselineRun run{.id = std::to_string(i), .seconds = 60, .watts = {40 + noise(random), 10}};
    for (int part = 0; part < 12; ++part) run.series.push_back(50 + noise(random));
    run.cpu_use = 0.01 * i;
    runs.push_back(run);
  }
  return runs;
}

std::string Refusal(std::vector<BaselineRun> runs, BaselineKind kind = BaselineKind::kReady) {
  return MakeBaseline(kind, kDomains, runs).status().message();
}

TEST(BaselineTest, MeanAndDeviationOfEachDomain) {
  const auto baseline = MakeBaseline(BaselineKind::kReady, kDomains, GoodRuns());
  ASSERT_TRUE(baseline.ok()) << baseline.status().message();
  EXPECT_EQ(baseline->runs, 3u);
  EXPECT_DOUBLE_EQ(baseline->seconds, 180);
  EXPECT_DOUBLE_EQ(baseline->cpu_use.value_or(-1), 0.02);
  EXPECT_EQ(baseline->domains[1].domain, "dram-0");
  EXPECT_DOUBLE_EQ(baseline->domains[1].watts.mean, 10);
  EXPECT_NEAR(baseline->domains[0].watts.mean, 40, 1);
  EXPECT_GT(baseline->domains[0].watts.sd, 0);
  EXPECT_NEAR(baseline->watts.mean, baseline->domains[0].watts.mean + 10, 1e-9);
}

TEST(BaselineTest, ShortOrFewRunsAreRefused) {
  auto runs = GoodRuns();
  runs[1].seconds = 59;
  EXPECT_THAT(Refusal(runs), HasSubstr("run 1 lasted 59.0 s, at least 60 s"));
  runs = GoodRuns();
  runs.pop_back();
  EXPECT_THAT(Refusal(runs), HasSubstr("2 runs, at least 3"));
  EXPECT_THAT(Refusal({}), HasSubstr("0 runs"));
}

TEST(BaselineTest, BusyCpusAreRefusedUnlessWorkIsTheBaseline) {
  auto runs = GoodRuns();
  runs[2].cpu_use = 0.051;
  EXPECT_THAT(Refusal(runs), HasSubstr("run 2: the CPUs were 5.1 % busy"));
  EXPECT_THAT(Refusal(runs, BaselineKind::kOff), HasSubstr("busy"));
  EXPECT_EQ(Refusal(runs, BaselineKind::kRunning), "");
  // What is not known is not 0.
  runs[2].cpu_use.reset();
  runs[2].cpu_node = "store1";
  EXPECT_THAT(Refusal(runs), HasSubstr("run 2: how busy the CPUs of store1 were is not known"));
  EXPECT_EQ(Refusal(runs, BaselineKind::kRunning), "");
}

TEST(BaselineTest, PowerThatDriftsIsRefused) {
  auto runs = GoodRuns();
  double rise = 0;
  for (auto& run : runs) {
    for (double& watts : run.series) watts += rise += 0.1;  // 3.6 W
  }
  EXPECT_THAT(Refusal(runs), HasSubstr("drifted by +3."));
}

TEST(BaselineTest, WhatIsTooSmallToMatterIsNoDrift) {
  auto runs = GoodRuns();
  double rise = 0;
  for (auto& run : runs) {
    for (double& watts : run.series)
      watts = 50 + (rise += 0.001);  // a straight line, without noise
  }
  EXPECT_EQ(Refusal(runs), "");
}

TEST(BaselineTest, AllFaultsAreNamedAtOnce) {
  auto runs = GoodRuns();
  runs[0].seconds = 10;
  runs[1].cpu_use = 0.5;
  EXPECT_THAT(Refusal(runs), HasSubstr("run 0 lasted"));
  EXPECT_THAT(Refusal(runs), HasSubstr("50.0 % busy"));
}

TEST(BaselineTest, NamesAreThereAndBack) {
  for (const auto kind : {BaselineKind::kOff, BaselineKind::kReady, BaselineKind::kRunning}) {
    EXPECT_EQ(BaselineKindFromName(BaselineKindName(kind)), kind);
  }
  EXPECT_FALSE(BaselineKindFromName("idle"));
}

TEST(NetEnergyTest, PowerTimesTimeIsSubtractedAndBothUncertaintiesAreCombined) {
  const Summary baseline{.n = 4, .mean = 50, .sd = 1};
  const NetEnergy net = NetOf(10000, 30, 100, baseline);
  EXPECT_DOUBLE_EQ(net.total_joules, 10000);
  EXPECT_DOUBLE_EQ(net.net_joules, 5000);
  EXPECT_DOUBLE_EQ(net.mean_watts, 100);
  EXPECT_DOUBLE_EQ(net.total_uncertainty, 30);
  EXPECT_NEAR(net.net_uncertainty, std::hypot(30, 3.1824 * std::sqrt(1.25) * 100), 0.1);
}

TEST(NetEnergyTest, RunsShareTheErrorOfTheirBaseline) {
  const std::vector<double> joules = {10010, 9990, 10005, 9995, 10000};
  const std::vector<double> seconds(5, 100);
  const Summary exact{.n = 1000000, .mean = 50, .sd = 0};
  const Summary rough{.n = 3, .mean = 50, .sd = 1};
  const Estimate a = MeanNetOf(joules, seconds, exact);
  const Estimate b = MeanNetOf(joules, seconds, rough);
  EXPECT_DOUBLE_EQ(a.value, 5000);
  EXPECT_DOUBLE_EQ(b.value, 5000);
  EXPECT_NEAR(*a.half_width(), *Summarise(joules).estimate().half_width(), 1e-6);
  EXPECT_NEAR(b.standard_error, std::hypot(a.standard_error, 100 / std::sqrt(3)), 1e-6);
}

}  // namespace
}  // namespace emlio::energy_analysis
