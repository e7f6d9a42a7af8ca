// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_analysis/run_figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "emlio/energy_analysis/testing/recorded_runs.h"

namespace emlio::energy_analysis {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Record;
using testing::RecordedNode;
using testing::RecordedStore;

RunFigures Load(RecordedStore* store, const std::string& id, RunTrace* trace = nullptr) {
  const auto run = store->reader()->FindRun(id);
  EXPECT_TRUE(run.ok()) << run.status().message();
  auto figures = LoadRun(store->reader(), *run, trace);
  EXPECT_TRUE(figures.ok()) << figures.status().message();
  return figures.ok() ? *std::move(figures) : RunFigures{};
}

energy::WindowRecord Window(const std::string& id, const std::string& stage, double begin,
                            double end, std::optional<double> joules) {
  energy::WindowRecord window;
  window.id = id;
  window.name = "epoch";
  window.stage = stage;
  window.begin_ns = std::llround(begin * 1e9);
  window.end_ns = std::llround(end * 1e9);
  window.total.joules = joules;
  if (joules) window.total.state = energy::State::kMeasured;
  window.proxies.bytes_delivered = 1000;
  return window;
}

TEST(RunFiguresTest, ARunIsTheSumOfItsNodes) {
  RecordedStore store;
  RecordedNode storage;
  storage.name = "store1";
  storage.role = "storage";
  storage.watts = [](size_t, double) { return 5.0; };
  Record(store.store(), {.id = "a", .nodes = {RecordedNode{}, storage}});
  const RunFigures run = Load(&store, "a");
  EXPECT_EQ(run.failure, "");
  EXPECT_NEAR(run.seconds, 10, 1e-6);
  ASSERT_EQ(run.nodes.size(), 2u);
  EXPECT_NEAR(*run.nodes[0].total.joules, 1000, 0.01);
  EXPECT_NEAR(*run.nodes[1].total.joules, 200, 0.01);
  EXPECT_NEAR(*run.total.joules, 1200, 0.01);
  EXPECT_EQ(run.total.label, Label::kMeasured);
  EXPECT_EQ(run.nodes[1].role, "storage");
  EXPECT_EQ(run.nodes[0].domains[1].id, "dram-0");
  EXPECT_NEAR(*run.nodes[0].domains[1].figure.joules, 200, 0.01);
}

TEST(RunFiguresTest, NodesOfOneNameAreToldApart) {
  RecordedStore store;
  RecordedNode storage, compute;
  storage.role = "storage";
  Record(store.store(), {.id = "a", .nodes = {compute, storage, storage, compute}});
  const RunFigures run = Load(&store, "a");
  std::vector<std::string> names;
  for (const NodeFigures& node : run.nodes) names.push_back(node.name);
  EXPECT_THAT(names,
              ElementsAre("node1", "node1 (storage)", "node1 (storage 2)", "node1 (compute)"));
}

TEST(RunFiguresTest, ANodeThatWasLostMakesTheTotalIncomplete) {
  RecordedStore store;
  Record(store.store(), {.id = "a"});
  ASSERT_TRUE(store.store()->AddNote("a", {0, "store1", "node_lost", "no answer"}).ok());
  const RunFigures run = Load(&store, "a");
  EXPECT_TRUE(run.nodes[0].total.joules);
  EXPECT_FALSE(run.total.joules);
  EXPECT_THAT(run.total.cause, HasSubstr("node store1 is lost: no answer"));
}

TEST(RunFiguresTest, ANodeWithoutCountersMakesTheTotalNotAvailable) {
  RecordedStore store;
  RecordedNode bare;
  bare.name = "vm";
  for (energy::Domain& domain : bare.domains) {
    domain.source.clear();
    domain.cause = "no counter";
    domain.fix = "measure the host";
  }
  Record(store.store(), {.id = "a", .nodes = {RecordedNode{}, bare}});
  const RunFigures run = Load(&store, "a");
  EXPECT_FALSE(run.total.joules);
  EXPECT_THAT(run.total.cause, HasSubstr("vm: package-0, package-1 n/a: no counter"));
  EXPECT_EQ(run.total.fix, "measure the host");
  EXPECT_THAT(run.nodes[1].without, ElementsAre("dram-0", "dram-1"));
}

TEST(RunFiguresTest, FailedAndUnfinishedRunsSaySo) {
  RecordedStore store;
  Record(store.store(), {.id = "a", .exit_status = 3});
  energy::Run open;
  open.id = "b";
  ASSERT_TRUE(store.store()->BeginRun(open).ok());
  EXPECT_EQ(Load(&store, "a").failure, "exit status 3");
  EXPECT_THAT(Load(&store, "b").failure, HasSubstr("did not end"));
}

TEST(RunFiguresTest, TracesConserveEnergyAndAlignNodesByTheWallClock) {
  RecordedStore store;
  const auto square = [](size_t, double seconds) { return seconds < 5 ? 10.0 : 50.0; };
  RecordedNode a, b;
  a.watts = b.watts = square;
  b.name = "node2";
  Record(store.store(), {.id = "a", .nodes = {a, b}});
  RunTrace trace;
  const RunFigures run = Load(&store, "a", &trace);
  EXPECT_NEAR(trace.seconds, 10, 1e-6);
  ASSERT_EQ(trace.by_kind.size(), 2u);
  const PowerTrace& packages = trace.by_kind.at("package");
  ASSERT_EQ(packages.parts(), 100u) << "no part is shorter than the sampling interval";
  EXPECT_NEAR(packages.Watts(20).value(), 40, 0.01);
  EXPECT_NEAR(packages.Watts(80).value(), 200, 0.01);
  EXPECT_NEAR(packages.joules() + trace.by_kind.at("dram").joules(), *run.total.joules, 0.01);
}

TEST(RunFiguresTest, WindowsOfOneStageAreSummedAndShaded) {
  RecordedStore store;
  Record(store.store(), {.id = "a",
                         .windows = {Window("1", "R", 0, 2, 30), Window("2", "R", 4, 5, 20),
                                     Window("3", "T", 2, 4, {})}});
  RunTrace trace;
  const RunFigures run = Load(&store, "a", &trace);
  ASSERT_EQ(run.windows.size(), 2u);
  EXPECT_EQ(run.windows[0].stage, "R");
  EXPECT_EQ(run.windows[0].windows, 2u);
  EXPECT_EQ(run.windows[0].nodes, 1u);
  EXPECT_NEAR(run.windows[0].seconds, 3, 1e-6);
  EXPECT_NEAR(*run.windows[0].energy.joules, 50, 1e-6);
  EXPECT_EQ(*run.windows[0].proxies.bytes_delivered, 2000);
  EXPECT_FALSE(run.windows[1].energy.joules);
  ASSERT_EQ(trace.spans.size(), 3u);
  EXPECT_EQ(trace.spans[0].name, "R");
  for (const Span& span : trace.spans) {
    EXPECT_NEAR(span.end_seconds - span.begin_seconds, span.begin_seconds < 3.5 ? 2 : 1, 1e-6);
  }
}

energy::Energy Measured(double joules) {
  energy::Energy energy;
  energy.state = energy::State::kMeasured;
  energy.joules = joules;
  return energy;
}

TEST(RunFiguresTest, EpochsHaveTheEnergyOfEachNodeAndDomain) {
  RecordedStore store;
  const auto epoch = [](const std::string& id, int64_t number, std::optional<int64_t> rank,
                        double begin, std::optional<double> joules) {
    energy::WindowRecord window = Window(id, "", begin, begin + 2, joules);
    window.epoch = number;
    window.rank = rank;
    if (joules) window.energies = {Measured(*joules - 2), Measured(2)};
    return window;
  };
  RecordedNode node;
  node.domains.resize(2);
  Record(store.store(),
         {.id = "a",
          .nodes = {node},
          .windows = {epoch("1", 0, {}, 0, 10), epoch("2", 1, 0, 2, 20), epoch("3", 1, 1, 2, 21),
                      epoch("4", 2, {}, 4, {}), epoch("5", 2, {}, 6, 40), epoch("6", 0, {}, 8, 50),
                      Window("7", "R", 0, 2, 3)}});
  const RunFigures run = Load(&store, "a");
  ASSERT_EQ(run.epochs.size(), 4u);
  EXPECT_EQ(run.epochs[0].node, "node1");
  EXPECT_EQ(run.epochs[0].epoch, 0);
  EXPECT_EQ(run.epochs[0].windows, 2u);
  EXPECT_NEAR(run.epochs[0].seconds, 4, 1e-6);
  EXPECT_EQ(run.epochs[0].energy.joules, 60);
  ASSERT_EQ(run.epochs[0].domains.size(), 2u);
  EXPECT_EQ(run.epochs[0].domains[0].id, node.domains[0].id);
  EXPECT_EQ(run.epochs[0].domains[0].figure.joules, 56);
  EXPECT_EQ(run.epochs[0].domains[1].figure.joules, 4);
  // Ranks of one node have a row each: a sum would count its joules twice.
  EXPECT_EQ(run.epochs[1].rank, 0);
  EXPECT_EQ(run.epochs[1].energy.joules, 20);
  EXPECT_EQ(run.epochs[2].rank, 1);
  // What is missing in a part is missing in the sum.
  EXPECT_EQ(run.epochs[3].epoch, 2);
  EXPECT_FALSE(run.epochs[3].energy.joules);
  EXPECT_NE(run.epochs[3].energy.cause, "");
  EXPECT_FALSE(run.epochs[3].domains[0].figure.joules);
}

TEST(RunFiguresTest, MoreEpochsThanAnybodyReadsAreCounted) {
  RecordedStore store;
  testing::RecordedRun run{.id = "a"};
  for (size_t i = 0; i < kMaxEpochRows + 5; ++i) {
    run.windows.push_back(Window(std::to_string(i), "", 0, 1, 1));
    run.windows.back().epoch = static_cast<int64_t>(i);
  }
  Record(store.store(), run);
  const RunFigures figures = Load(&store, "a");
  EXPECT_EQ(figures.epochs.size(), kMaxEpochRows);
  EXPECT_EQ(figures.epochs_left_out, 5u);
}

TEST(RunFiguresTest, ConfigurationAndFactsAreFlat) {
  RecordedStore store;
  RecordedNode node;
  node.facts = R"({"cpu": "a CPU", "sockets": 2})";
  Record(store.store(),
         {.id = "a",
          .configuration = R"({"work": {"samples": 1000, "dataset": "x"}, "path": {"rtt": null}})",
          .nodes = {node}});
  const RunFigures run = Load(&store, "a");
  EXPECT_EQ(run.facts.at("work.dataset"), "x");
  EXPECT_EQ(run.Number("work.samples"), 1000);
  EXPECT_FALSE(run.Number("work.dataset"));
  EXPECT_EQ(run.facts.count("path.rtt"), 0u);
  EXPECT_EQ(run.nodes[0].facts.at("system.sockets"), "2");
  EXPECT_FALSE(FactsOf("[1]").ok());
  EXPECT_FALSE(FactsOf("{").ok());
}

TEST(RunPowerTest, PowerThatIsNotKnownIsRefusedAndNotTakenForZero) {
  RecordedStore store;
  Record(store.store(), {.id = "a"});
  RecordedNode silent;
  silent.silent_from_seconds = 4;
  // Its total is known nevertheless: of one whose gaps were allowed.
  energy::WindowRecord whole = Window("run", "", 0, 10, 400);
  whole.energies.assign(silent.domains.size(), Measured(100));
  Record(store.store(), {.id = "b", .nodes = {silent}, .windows = {whole}});
  EXPECT_TRUE(LoadPower(store.reader(), *store.reader()->FindRun("a"), 2).ok());
  const auto power = LoadPower(store.reader(), *store.reader()->FindRun("b"), 2);
  ASSERT_FALSE(power.ok());
  EXPECT_THAT(std::string(power.status().message()), HasSubstr("not known from 4.0 s to 6.0 s"));
}

TEST(RunPowerTest, PowerOverEqualPartsAndOfEachDomain) {
  RecordedStore store;
  RecordedNode node;
  node.watts = [](size_t, double seconds) { return seconds < 5 ? 10.0 : 50.0; };
  Record(store.store(), {.id = "a", .nodes = {node}});
  const auto power = LoadPower(store.reader(), *store.reader()->FindRun("a"), 2.5);
  ASSERT_TRUE(power.ok()) << power.status().message();
  ASSERT_EQ(power->watts.size(), 4u);
  EXPECT_NEAR(power->watts[0], 40, 0.01);
  EXPECT_NEAR(power->watts[3], 200, 0.01);
  EXPECT_NEAR(power->domains.at("node1/package-0"), 30, 0.01);
  EXPECT_FALSE(LoadPower(store.reader(), *store.reader()->FindRun("a"), 60).ok());
}

}  // namespace
}  // namespace emlio::energy_analysis
