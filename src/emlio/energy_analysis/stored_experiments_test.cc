// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_analysis/stored_experiments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "emlio/energy_analysis/host_facts.h"
#include "emlio/energy_analysis/report.h"
#include "emlio/energy_analysis/testing/recorded_runs.h"

namespace emlio::energy_analysis {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Record;
using testing::RecordedNode;
using testing::RecordedRun;
using testing::RecordedStore;

// A node that wavers by a watt around 10, 20, 30 and 40.
RecordedNode QuietNode() {
  RecordedNode node;
  node.watts = [](size_t domain, double seconds) {
    return 10.0 * static_cast<double>(domain + 1) + std::sin(seconds * 1.7);
  };
  node.facts = R"({"cpus": 4})";
  return node;
}

RecordedRun BaselineRunOf(const std::string& id, const std::string& experiment, double seconds,
                          double cpu_seconds) {
  energy::WindowRecord whole;
  whole.id = "run";
  whole.name = "sleep";
  whole.end_ns = std::llround(seconds * 1e9);
  whole.proxies.cpu_seconds = cpu_seconds;
  return {.id = id,
          .seconds = seconds,
          .labels = {{"purpose", "baseline"}, {"baseline", "ready"}, {"experiment", experiment}},
          .nodes = {QuietNode()},
          .windows = {whole}};
}

TEST(StoredBaselineTest, TheLatestOneOfItsKindIsTaken) {
  RecordedStore store;
  Record(store.store(), BaselineRunOf("0", "old", 10, 0));
  for (const char* id : {"1", "2", "3"}) Record(store.store(), BaselineRunOf(id, "new", 60, 2));
  const auto baseline = LoadBaseline(store.reader(), BaselineKind::kReady);
  ASSERT_TRUE(baseline.ok()) << baseline.status().message();
  EXPECT_EQ(baseline->id, "new");
  EXPECT_EQ(baseline->baseline.runs, 3u);
  EXPECT_NEAR(baseline->baseline.watts.mean, 100, 0.5);
  EXPECT_NEAR(baseline->baseline.cpu_use.value_or(-1), 2 / 60.0 / 4, 1e-6);
  ASSERT_EQ(baseline->baseline.domains.size(), 4u);
  EXPECT_EQ(baseline->baseline.domains[0].domain, "node1/dram-0");
}

TEST(StoredBaselineTest, WhatIsMissingOrRefusedIsSaid) {
  RecordedStore store;
  for (const char* id : {"1", "2", "3"}) Record(store.store(), BaselineRunOf(id, "b", 30, 20));
  EXPECT_EQ(LoadBaseline(store.reader(), BaselineKind::kOff).status().code(), Code::kNotFound);
  const Status status = LoadBaseline(store.reader(), BaselineKind::kReady).status();
  EXPECT_THAT(status.message(), HasSubstr("run 1 lasted 30.0 s"));
  EXPECT_THAT(status.message(), HasSubstr("the CPUs of node1 were 16.7 % busy"));
}

// Runs scatter by some 0.1 W around 60 W and 30 W.
RecordedRun BaselineOfTwoNodes(const std::string& id, double more_watts = 0) {
  RecordedRun run = testing::RunOfTwoNodes(id, 60, 60 + more_watts, 30 - more_watts / 2, 0.5);
  run.labels = {{"purpose", "baseline"}, {"baseline", "ready"}, {"experiment", "b"}};
  return run;
}

TEST(StoredBaselineTest, TwoNodesAreNetOfTheirBaselinesWithinOnePercent) {
  ASSERT_EQ(KindName(RecordedNode().domains[1].kind), "dram");
  RecordedStore store;
  for (const int i : {-1, 0, 1}) {
    Record(store.store(), BaselineOfTwoNodes(std::to_string(i), 0.1 * i));
  }
  for (const int i : {-2, -1, 0, 1, 2}) {
    Record(store.store(),
           testing::RunOfTwoNodes("run" + std::to_string(i), 30, 160 + 0.3 * i, 50 + 0.2 * i, 1));
  }
  auto baseline = LoadBaseline(store.reader(), BaselineKind::kReady);
  ASSERT_TRUE(baseline.ok()) << baseline.status().message();
  EXPECT_NEAR(baseline->baseline.watts.mean, 60 + 10 + 30 + 10, 0.5);
  EXPECT_NEAR(baseline->baseline.cpu_use.value_or(-1), 0.01 / 4, 1e-6);
  ReportInput input;
  input.baseline = *std::move(baseline);
  for (const int i : {-2, -1, 0, 1, 2}) {
    const auto run = store.reader()->FindRun("run" + std::to_string(i));
    ASSERT_TRUE(run.ok()) << run.status().message();
    auto figures = LoadRun(store.reader(), *run);
    ASSERT_TRUE(figures.ok());
    input.runs.push_back(*std::move(figures));
  }
  const EnergyReport report = MakeReport(input);
  EXPECT_EQ(report.no_baseline, "");
  ASSERT_TRUE(report.arm.energy.net) << report.no_baseline;
  // 100 W more of the compute node and 20 W of the storage node, for 30 s.
  const double net_joules = 30 * (100 + 20);
  EXPECT_NEAR(report.arm.energy.net->value, net_joules, 0.01 * net_joules);
  EXPECT_NEAR(report.arm.energy.total->mean, 30 * (160 + 50 + 20), 0.01 * 6900);
  ASSERT_EQ(report.nodes.size(), 2u);
  EXPECT_NEAR(report.nodes[0].net->value, 3000, 30);
  EXPECT_NEAR(report.nodes[1].net->value, 600, 6);
  EXPECT_NEAR(report.nodes[0].net->value + report.nodes[1].net->value, report.arm.energy.net->value,
              0.01);
  ASSERT_EQ(report.domains.size(), 8u);
  double sum = 0;
  for (const Quantity& domain : report.domains) {
    const double watts = domain.detail.starts_with("dram") ? 0
                         : domain.name.starts_with("gpu1") ? 50
                                                           : 10;
    EXPECT_NEAR(domain.net->value, 30 * watts, watts > 0 ? 0.01 * 30 * watts : 0.1) << domain.name;
    sum += domain.net->value;
  }
  EXPECT_NEAR(sum, report.arm.energy.net->value, 0.01);
  // The interval covers the truth, and is not all there is.
  const auto interval = report.arm.energy.net->confidence();
  ASSERT_TRUE(interval);
  EXPECT_TRUE(interval->Contains(net_joules));
  EXPECT_LT(interval->high - interval->low, 0.05 * net_joules);

  // With one of the two nodes there would be another idle power: nothing is subtracted.
  for (RunFigures& run : input.runs) {
    run.nodes.pop_back();
    run.total = run.nodes[0].total;
  }
  const EnergyReport one = MakeReport(input);
  EXPECT_FALSE(one.arm.energy.net);
  EXPECT_THAT(one.no_baseline, HasSubstr("store1/"));
}

TEST(StoredBaselineTest, EachNodeHasToBeAtRest) {
  // The storage node works; both together are 4 % busy.
  RecordedStore store;
  for (const char* id : {"1", "2", "3"}) {
    RecordedRun run = BaselineOfTwoNodes(id);
    run.nodes[1].windows[0].proxies.cpu_seconds = 60 * 0.08 * 4;
    Record(store.store(), run);
  }
  EXPECT_THAT(LoadBaseline(store.reader(), BaselineKind::kReady).status().message(),
              HasSubstr("run 1: the CPUs of store1 were 8.0 % busy, more than 5 %"));
  RecordedStore other;
  for (const char* id : {"1", "2", "3"}) {
    RecordedRun run = BaselineOfTwoNodes(id);
    run.nodes[1].windows[0].proxies.cpu_seconds.reset();
    Record(other.store(), run);
  }
  EXPECT_THAT(LoadBaseline(other.reader(), BaselineKind::kReady).status().message(),
              HasSubstr("run 1: how busy the CPUs of store1 were is not known"));
}

// Stages that run and stand still in blocks of two seconds, 20 W for reading and 50 W for training.
RecordedRun DitheredRun(bool together) {
  const auto schedule = DitherSchedule(64, 2, 5);
  RecordedRun run{.id = "d", .seconds = 128};
  const auto is_on = [=](Stage stage, double seconds) {
    const auto block = std::min<size_t>(static_cast<size_t>(seconds / 2), schedule.size() - 1);
    return !schedule[block].paused.Has(together ? Stage::kRead : stage);
  };
  run.nodes[0].watts = [=](size_t domain, double seconds) {
    double watts = 10;
    if (domain == 0 && is_on(Stage::kRead, seconds)) watts += 20;
    if (domain == 0 && is_on(Stage::kTrain, seconds)) watts += 50;
    return watts + 0.2 * std::sin(seconds * 41);
  };
  for (size_t block = 0; block < schedule.size(); ++block) {
    for (const Stage stage : {Stage::kRead, Stage::kTrain}) {
      if (!is_on(stage, schedule[block].begin_seconds)) continue;
      energy::WindowRecord window;
      window.id = std::to_string(run.windows.size());
      window.stage = std::string(StageName(stage));
      window.begin_ns = std::llround(schedule[block].begin_seconds * 1e9);
      window.end_ns = window.begin_ns + 2 * kNsPerSecond;
      run.windows.push_back(window);
    }
  }
  return run;
}

TEST(StoredObservationsTest, WindowsOfStagesExplainPower) {
  RecordedStore store;
  Record(store.store(), DitheredRun(false));
  const auto data = LoadObservations(store.reader(), *store.reader()->FindRun("d"), 2);
  ASSERT_TRUE(data.ok()) << data.status().message();
  EXPECT_THAT(data->stages, ElementsAre("read", "train"));
  EXPECT_EQ(data->observations.size(), 64u);
  const auto fit = Regress(data->stages, data->observations);
  ASSERT_TRUE(fit.ok()) << fit.status().message();
  EXPECT_NEAR(fit->coefficients[0].watts.value, 20, 0.5);
  EXPECT_NEAR(fit->coefficients[1].watts.value, 50, 0.5);
  EXPECT_NEAR(fit->constant_watts.value, 40, 0.5);
}

TEST(StoredObservationsTest, StagesThatAreOpenTogetherAreRefused) {
  RecordedStore store;
  Record(store.store(), DitheredRun(true));
  const auto data = LoadObservations(store.reader(), *store.reader()->FindRun("d"), 2);
  ASSERT_TRUE(data.ok()) << data.status().message();
  EXPECT_THAT(Regress(data->stages, data->observations).status().message(), HasSubstr("VIF"));
}

TEST(StoredObservationsTest, ARunWithoutStagesIsRefused) {
  RecordedStore store;
  Record(store.store(), {.id = "a"});
  EXPECT_THAT(LoadObservations(store.reader(), *store.reader()->FindRun("a"), 2).status().message(),
              HasSubstr("no windows with a stage"));
}

TEST(StoredLevelTest, RunsAndAMeterAreCompared) {
  RecordedStore store;
  std::vector<MeterLevel> levels;
  std::vector<MeterReading> meter;
  int64_t wall_ns = 1'800'000'000 * kNsPerSecond;
  for (const double load : {0.0, 30.0, 90.0}) {
    RecordedRun run{.id = std::to_string(levels.size()), .seconds = 302, .nodes = {QuietNode()}};
    run.start_wall_ns = wall_ns;
    run.nodes[0].watts = [=](size_t domain, double seconds) {
      return 10 + (domain == 0 ? load : 0) + std::sin(seconds / 9);
    };
    Record(store.store(), run);
    for (int second = 0; second < 310; ++second) {
      const double own = 40 + load + 4 * std::sin(second / 9.0);
      meter.push_back({wall_ns + second * kNsPerSecond, 20 + 1.1 * own});
    }
    wall_ns += 310 * kNsPerSecond;
    auto level = LoadLevel(store.reader(), *store.reader()->FindRun(run.id), "load " + run.id);
    ASSERT_TRUE(level.ok()) << level.status().message();
    EXPECT_EQ(level->series.size(), 302u);
    levels.push_back(*std::move(level));
  }
  const auto comparison = CompareWithMeter(levels, meter);
  ASSERT_TRUE(comparison.ok()) << comparison.status().message();
  EXPECT_NEAR(comparison->slope.value, 1.1, 0.01);
  EXPECT_NEAR(comparison->offset_watts.value, 20, 1);

  ASSERT_TRUE(store.store()->AddNote("0", {1, "node1", kMeterNoteKind, "an old one"}).ok());
  ASSERT_TRUE(store.store()->AddNote("2", {2, "node1", kMeterNoteKind, "slope 1.1"}).ok());
  const auto notes = LoadMeterNotes(store.reader());
  ASSERT_TRUE(notes.ok());
  ASSERT_EQ(notes->size(), 1u);
  EXPECT_EQ(notes->front().node, "node1");
  EXPECT_EQ(notes->front().text, "slope 1.1");
}

TEST(HostFactsTest, ContainersAreKnownByWhatTheirMakersLeaveInThem) {
  for (const char* sign :
       {".dockerenv", "run/.containerenv", "run/systemd/container", "run/secrets/kubernetes.io/x",
        "var/run/secrets/kubernetes.io/x", ".singularity.d/x"}) {
    const energy::testing::TemporaryFolder folder;
    const auto file = folder.path() / sign;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream{file} << "x";
    const auto facts = FactsOf(HostFacts(folder.path().string() + "/", {}));
    ASSERT_TRUE(facts.ok());
    EXPECT_EQ(facts->at("environment"), "container") << sign;
  }
}

TEST(HostFactsTest, WhatTheSystemTellsIsThereAndNothingElse) {
  const energy::testing::TemporaryFolder folder;
  const auto write = [&](const std::string& path, const std::string& text) {
    const auto full = folder.path() / path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  };
  write("proc/cpuinfo",
        "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: A CPU \"X\"\nphysical id\t: 0\n"
        "flags\t: fpu hypervisor\n\nprocessor\t: 1\nmodel name\t: A CPU \"X\"\nphysical id\t: 1\n");
  write("proc/meminfo", "MemTotal:       16384 kB\n");
  write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n");
  write("sys/devices/system/cpu/intel_pstate/no_turbo", "1\n");
  write("sys/class/net/eth0/speed", "10000\n");
  write("sys/class/net/eth0/device/vendor", "x\n");
  write("sys/class/net/lo/speed", "1\n");
  write(".dockerenv", "");
  write("etc/machine-id", "0123456789abcdef0123456789abcdef\n");
  const auto facts = FactsOf(HostFacts(folder.path().string() + "/", {}));
  ASSERT_TRUE(facts.ok()) << facts.status().message();
  EXPECT_EQ(facts->at("cpu"), "A CPU \"X\"");
  EXPECT_EQ(facts->at("sockets"), "2");
  EXPECT_EQ(facts->at("cpus"), "2");
  EXPECT_EQ(facts->at("memory"), "16384 kB");
  EXPECT_EQ(facts->at("governor"), "performance");
  EXPECT_EQ(facts->at("turbo"), "off");
  EXPECT_EQ(facts->at("nic"), "eth0 10000 Mbit/s");
  EXPECT_EQ(facts->at("gpu"), "none");
  EXPECT_EQ(facts->at("environment"), "container in a virtual machine");
  EXPECT_EQ(facts->count("machine"), 0u) << "a container's is no host's";
  const auto nothing = FactsOf(HostFacts(folder.File("nothing/"), {}));
  ASSERT_TRUE(nothing.ok());
  EXPECT_EQ(nothing->count("cpu"), 0u);
  EXPECT_EQ(nothing->count("turbo"), 0u);
  EXPECT_EQ(nothing->count("machine"), 0u);
}

TEST(HostFactsTest, SystemsAreToldApartByTheirMachineIdsWhichStayTheirs) {
  const energy::testing::TemporaryFolder folder;
  std::filesystem::create_directory(folder.File("etc"));
  const auto machine = [&](const std::string& id) {
    std::ofstream(folder.File("etc/machine-id")) << id;
    const auto facts = FactsOf(HostFacts(folder.path().string() + "/", {}));
    EXPECT_TRUE(facts.ok()) << facts.status().message();
    const auto found = facts->find("machine");
    return found == facts->end() ? "none" : found->second;
  };
  const std::string one = machine("0123456789abcdef0123456789abcdef\n");
  EXPECT_EQ(one.size(), 16u);
  EXPECT_THAT("0123456789abcdef0123456789abcdef", Not(HasSubstr(one)));
  EXPECT_EQ(machine("0123456789abcdef0123456789abcdef\n"), one);
  EXPECT_NE(machine("0123456789abcdef0123456789abcdee\n"), one);
  EXPECT_EQ(machine("uninitialized\n"), "none");
  EXPECT_EQ(machine(""), "none");
  EXPECT_EQ(machine("0123456789ABCDEF 123456789abcdef\n"), "none");
}

}  // namespace
}  // namespace emlio::energy_analysis
