// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy/run_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <limits>
#include <optional>
#include <thread>

#include "emlio/base/log.h"
#include "emlio/base/testing/file_size_limit.h"
#include "emlio/energy/detect.h"
#include "emlio/energy/sqlite.h"
#include "emlio/energy/testing/fake_host.h"
#include "emlio/energy/testing/store_file.h"

namespace emlio::energy {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using testing::SomeNode;
using testing::SomeRun;
using testing::SteadySamples;
using testing::TemporaryFolder;
using testing::TickOf;

constexpr int64_t kLongNs = 60 * kNsPerSecond;
constexpr int64_t kAlwaysNs = std::numeric_limits<int64_t>::max();

// Times of the ticks that a reader finds.
std::vector<int64_t> TickTimes(RunReader& reader, int64_t node, int64_t from_ns = 0,
                               int64_t to_ns = kAlwaysNs) {
  std::vector<int64_t> times;
  const Status status = reader.ForEachTick(node, from_ns, to_ns, [&](const Tick& tick) {
    times.push_back(tick.monotonic_ns);
    return OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status.ToString();
  return times;
}

class RunStoreTest : public ::testing::Test {
 protected:
  std::unique_ptr<RunStore> Open(RunStoreOptions options = {}) {
    auto store = RunStore::Open(path_, options);
    EXPECT_TRUE(store.ok()) << store.status().ToString();
    return store.ok() ? std::move(*store) : nullptr;
  }
  std::unique_ptr<RunReader> Read() {
    auto reader = RunReader::Open(path_);
    EXPECT_TRUE(reader.ok()) << reader.status().ToString();
    return reader.ok() ? std::move(*reader) : nullptr;
  }
  // Ticks `from` to `to` - 1 of a node with four domains.
  static void Append(RunStore& store, int64_t node, int64_t from, int64_t to) {
    for (int64_t tick = from; tick < to; ++tick) {
      store.AppendTick(node, TickOf(tick, SteadySamples(4, tick)));
    }
  }
  static int64_t RowsOf(const std::string& path, const std::string& table) {
    auto database = Sqlite::Open(path, Sqlite::Mode::kRead);
    EXPECT_TRUE(database.ok());
    return *database->QueryInt("SELECT count(*) FROM " + table);
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_.File("energy.db");
};

TEST_F(RunStoreTest, WhatIsKnownOfARunComesBack) {
  NodeInfo node = SomeNode("storage-1");
  node.domains[1].cause = "nobody may read it";
  node.domains[1].fix = "let a group read it";
  node.domains[1].quantity = Quantity::kPower;
  node.domains[0].filtered = node.domains[0].shared = node.domains[0].virtualised = true;
  node.domains[0].device = "GPU-1";
  node.domains[0].doubt = "it does not rise";
  node.domains[0].plausible_from_watts = 0.5;
  node.domains[0].update_period_ns = 20 * kNsPerMs;
  node.domains[0].facts = {{"driver", "595.1"}, {"power_limit_watts", "700"}};
  node.domains[0].pci = "0000:3b:00.0";
  node.domains[0].outside_total = "because";
  node.domains[0].range_units = std::numeric_limits<uint64_t>::max();
  node.absent = {{"perf", "no power PMU", "load rapl"}};
  node.clock = {{{10, 20, 1}, -300, 400, 500, true}};
  node.start_barrier = Moment{1, 2, 3};
  node.sampler.ticks = 4;
  int64_t id = 0;
  {
    const auto store = Open();
    ASSERT_TRUE(store->BeginRun(SomeRun("first")).ok());
    id = *store->AddNode("first", node);
    ASSERT_EQ(Read()->Nodes("first")->at(0).info.sampler.ticks, 4);
    node.sampler = {11, 12, 13, 14, -15, 16, 17, 18, 19, 20};
    node.offsets = {{"compute-1", {4, 5, 6}, -700, 80}};
    node.stop_barrier = Moment{7, 8, 9};
    ASSERT_TRUE(store->UpdateNode(id, node).ok());
    ASSERT_TRUE(store->ReportSink(id, {"influx", "http://db", 1, 2, 3, 4, "none"}).ok());
    ASSERT_TRUE(store->ReportSink(id, {"influx", "http://db", 5, 6, 7, 8, "gone"}).ok());
    ASSERT_TRUE(store->AddNote("first", {99, "storage-1", "node_lost", "it is gone"}).ok());
    ASSERT_TRUE(store->EndRun("first", 12'345, 3).ok());
  }
  const auto reader = Read();
  const auto runs = reader->Runs();
  ASSERT_TRUE(runs.ok());
  ASSERT_EQ(runs->size(), 1U);
  const energy::Run wanted = SomeRun("first");
  EXPECT_EQ(runs->at(0).command, wanted.command);
  EXPECT_EQ(runs->at(0).configuration, wanted.configuration);
  EXPECT_EQ(runs->at(0).labels, wanted.labels);
  EXPECT_EQ(runs->at(0).started_wall_ns, wanted.started_wall_ns);
  EXPECT_EQ(runs->at(0).ended_wall_ns, 12'345);
  EXPECT_EQ(runs->at(0).exit_status, 3);

  const auto nodes = reader->Nodes("first");
  ASSERT_TRUE(nodes.ok());
  ASSERT_EQ(nodes->size(), 1U);
  const NodeInfo& info = nodes->at(0).info;
  EXPECT_EQ(nodes->at(0).id, id);
  EXPECT_EQ(nodes->at(0).ticks, 0);
  EXPECT_EQ(info.name, "storage-1");
  EXPECT_EQ(info.role, "compute");
  EXPECT_EQ(info.boot_id, "c0ffee");
  EXPECT_EQ(info.facts, node.facts);
  EXPECT_EQ(info.absent, node.absent);
  EXPECT_EQ(info.clock, node.clock);
  EXPECT_EQ(info.offsets, node.offsets);
  EXPECT_EQ(info.start_barrier->apart_ns, 3);
  EXPECT_EQ(info.stop_barrier->wall_ns, 8);
  EXPECT_EQ(info.sampler.ticks, 11);
  EXPECT_EQ(info.sampler.clock_step_ns, -15);
  EXPECT_EQ(info.sampler.elapsed_ns, 20);
  ASSERT_EQ(info.domains.size(), 4U);
  const Domain& first = info.domains[0];
  EXPECT_EQ(first.id, "package-0");
  EXPECT_EQ(first.kind, DomainKind::kPackage);
  EXPECT_EQ(first.source, "powercap");
  EXPECT_EQ(first.range_units, std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(first.refresh_ns, kNsPerMs);
  EXPECT_TRUE(first.in_total && first.filtered && first.shared && first.virtualised);
  EXPECT_EQ(first.device, "GPU-1");
  EXPECT_EQ(first.update_period_ns, 20 * kNsPerMs);
  EXPECT_EQ(first.facts, node.domains[0].facts);
  EXPECT_EQ(first.doubt, node.domains[0].doubt);
  EXPECT_EQ(first.plausible_from_watts, 0.5);
  EXPECT_EQ(first.pci, "0000:3b:00.0");
  EXPECT_EQ(first.outside_total, "because");
  EXPECT_EQ(info.domains[1].quantity, Quantity::kPower);
  EXPECT_EQ(info.domains[1].cause, "nobody may read it");
  EXPECT_EQ(info.domains[3].id, "dram-1");

  const auto notes = reader->Notes("first");
  ASSERT_EQ(notes->size(), 1U);
  EXPECT_EQ(notes->at(0), (Note{99, "storage-1", "node_lost", "it is gone"}));
  const auto reports = reader->SinkReports(id);
  ASSERT_EQ(reports->size(), 1U);
  EXPECT_EQ(reports->at(0), (SinkReport{"influx", "http://db", 5, 6, 7, 8, "gone"}));
}

TEST_F(RunStoreTest, AWindowComesBackAndWhatIsNotKnownStaysUnknown) {
  WindowRecord window;
  window.id = "w1";
  window.name = "read";
  window.stage = "R";
  window.epoch = 3;
  window.begin_ns = 10;
  window.end_ns = 20;
  window.begin_wall_ns = 30;
  window.allow_gaps = true;
  window.energies.resize(4);
  window.energies[0].state = State::kMeasured;
  window.energies[0].joules = 41.5;
  window.energies[0].uncertainty_joules = 0.25;
  window.energies[0].wraps = 1;
  window.energies[1].cause = "no counter";
  window.energies[1].fix = "load rapl";
  window.energies[1].uncertainty_joules = std::numeric_limits<double>::quiet_NaN();
  window.energies[2].state = State::kGap;
  window.energies[2].joules = 0;
  window.energies[2].void_ns = 5;
  window.total.state = State::kUnavailable;
  window.total.domains = {"package-0"};
  window.total.missing = {"dram-0", "quote\"d"};
  window.proxies.cpu_seconds = 1.5;
  window.proxies.bytes_read = 0;
  window.labels = {{"arm", "emlio"}};
  int64_t node = 0;
  {
    const auto store = Open();
    ASSERT_TRUE(store->BeginRun(SomeRun("a")).ok());
    node = *store->AddNode("a", SomeNode("n"));
    store->AppendWindow(node, window);
    window.begin_ns = 5;
    window.id = "w0";
    window.energies.clear();
    store->AppendWindow(node, window);
    window.energies.resize(3);  // not as many as the node has domains
    store->AppendWindow(node, window);
    ASSERT_TRUE(store->Flush(kLongNs).ok());
    EXPECT_EQ(store->Stats().windows_written, 2);
    EXPECT_EQ(store->Stats().windows_dropped, 1);
  }
  std::vector<WindowRecord> found;
  const auto reader = Read();
  ASSERT_TRUE(reader
                  ->ForEachWindow("a",
                                  [&](int64_t of, const WindowRecord& record) {
                                    EXPECT_EQ(of, node);
                                    found.push_back(record);
                                    return OkStatus();
                                  })
                  .ok());
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].id, "w0");
  EXPECT_TRUE(found[0].energies.empty());
  const WindowRecord& w = found[1];
  EXPECT_EQ(w.id, "w1");
  EXPECT_EQ(w.name, "read");
  EXPECT_EQ(w.stage, "R");
  EXPECT_EQ(w.epoch, 3);
  EXPECT_EQ(w.rank, std::nullopt);
  EXPECT_EQ(w.begin_ns, 10);
  EXPECT_EQ(w.end_ns, 20);
  EXPECT_EQ(w.begin_wall_ns, 30);
  EXPECT_TRUE(w.allow_gaps);
  ASSERT_EQ(w.energies.size(), 4U);
  EXPECT_EQ(w.energies[0].state, State::kMeasured);
  EXPECT_EQ(w.energies[0].joules, 41.5);
  EXPECT_EQ(w.energies[0].uncertainty_joules, 0.25);
  EXPECT_EQ(w.energies[0].wraps, 1U);
  EXPECT_EQ(w.energies[1].state, State::kUnavailable);
  EXPECT_EQ(w.energies[1].joules, std::nullopt);
  EXPECT_EQ(w.energies[1].cause, "no counter");
  EXPECT_EQ(w.energies[1].fix, "load rapl");
  EXPECT_EQ(w.energies[1].uncertainty_joules, std::numeric_limits<double>::infinity());
  EXPECT_EQ(w.energies[2].state, State::kGap);
  EXPECT_EQ(w.energies[2].joules, 0);
  EXPECT_EQ(w.energies[2].void_ns, 5);
  EXPECT_EQ(w.total.joules, std::nullopt);
  EXPECT_EQ(w.total.domains, (std::vector<std::string>{"package-0"}));
  EXPECT_EQ(w.total.missing, (std::vector<std::string>{"dram-0", "quote\"d"}));
  EXPECT_EQ(w.proxies.cpu_seconds, 1.5);
  EXPECT_EQ(w.proxies.bytes_read, 0);
  EXPECT_EQ(w.proxies.gpu_seconds, std::nullopt);
  EXPECT_EQ(w.labels, window.labels);
}

TEST_F(RunStoreTest, TicksComeBackInOrderPackedOrNot) {
  RunStoreOptions options;
  options.chunk_ticks = 50;
  int64_t node = 0;
  const auto store = Open(options);
  ASSERT_TRUE(store->BeginRun(SomeRun("a")).ok());
  node = *store->AddNode("a", SomeNode("n"));
  Append(*store, node, 0, 120);
  ASSERT_TRUE(store->Flush(kLongNs).ok());
  const auto reader = Read();
  std::vector<int64_t> times = TickTimes(*reader, node);
  ASSERT_EQ(times.size(), 120U);
  Append(*store, node, 120, 333);
  ASSERT_TRUE(store->Flush(kLongNs).ok());
  times = TickTimes(*reader, node);
  ASSERT_EQ(times.size(), 333U);
  for (size_t i = 0; i < times.size(); ++i) {
    EXPECT_EQ(times[i], TickOf(static_cast<int64_t>(i), {}).monotonic_ns);
  }
  EXPECT_EQ(reader->Nodes("a")->at(0).ticks, 333);
  EXPECT_EQ(reader->Nodes("a")->at(0).first_tick_ns, times.front());
  EXPECT_EQ(reader->Nodes("a")->at(0).last_tick_ns, times.back());
  ASSERT_TRUE(store->EndRun("a", 1, std::nullopt).ok());
  EXPECT_EQ(RowsOf(path_, "samples"), 7);
  EXPECT_EQ(TickTimes(*reader, node), times);
  // Any range, its ends included.
  for (const auto& [from, to] : {std::pair{0, 0}, {49, 50}, {50, 50}, {99, 301}, {332, 332}}) {
    const auto part = TickTimes(*reader, node, times[from], times[to]);
    EXPECT_EQ(part, std::vector(times.begin() + from, times.begin() + to + 1));
    EXPECT_EQ(TickTimes(*reader, node, times[from] + 1, times[to] - 1).size(),
              static_cast<size_t>(std::max(0, to - from - 1)));
  }
  EXPECT_TRUE(TickTimes(*reader, node, times.back() + 1, kAlwaysNs).empty());
  EXPECT_TRUE(TickTimes(*reader, node, 0, times.front() - 1).empty());
}

TEST_F(RunStoreTest, ATickThatGoesBackOrHasOtherDomainsIsDroppedAndCounted) {
  const auto store = Open();
  ASSERT_TRUE(store->BeginRun(SomeRun("a")).ok());
  const int64_t node = *store->AddNode("a", SomeNode("n"));
  Append(*store, node, 5, 6);
  Append(*store, node, 5, 6);
  Append(*store, node, 4, 5);
  store->AppendTick(node, TickOf(7, SteadySamples(3, 7)));
  store->AppendTick(node + 1, TickOf(8, SteadySamples(4, 8)));
  Append(*store, node, 9, 10);
  ASSERT_TRUE(store->Flush(kLongNs).ok());
  EXPECT_EQ(store->Stats().ticks_written, 2);
  EXPECT_EQ(store->Stats().ticks_dropped, 4);
  EXPECT_EQ(Read()->Nodes("a")->at(0).ticks_dropped, 3);
}

TEST_F(RunStoreTest, EnergyBetweenTwoTimesIsWhatTheRecorderSays) {
  testing::FakeHost host;
  host.TwoSockets();
  Detection found = Detect(host.host);
  RecorderOptions recording;
  recording.root = host.host.root;
  Recorder recorder(found.node, std::move(found.meters), recording, host.clock);
  RunStoreOptions options;
  options.chunk_ticks = 40;
  const auto store = Open(options);
  ASSERT_TRUE(store->BeginRun(SomeRun("a")).ok());
  NodeInfo info = SomeNode("n");
  info.domains = recorder.domains();
  const int64_t node = *store->AddNode("a", info);
  host.clock.AdvanceNs(kNsPerSecond);
  for (int i = 0; i < 950; ++i) {
    const auto samples = recorder.TakeSample();
    store->AppendTick(node, {host.clock.NowNs(), 0, samples});
    host.Advance(0.1);
  }
  ASSERT_TRUE(store->Flush(kLongNs).ok());
  const auto reader = Read();
  const StoredNode stored = reader->Nodes("a")->at(0);
  for (const auto& [from_s, to_s] : {std::pair{1.0, 90.0},
                                     {3.33, 4.44},
                                     {40.05, 47.12},
                                     {70.0, 95.85},
                                     {0.5, 20.0},
                                     {50.0, 120.0}}) {
    const auto from_ns = static_cast<int64_t>(from_s * 1e9);
    const auto to_ns = static_cast<int64_t>(to_s * 1e9);
    const auto wanted = recorder.Window(from_ns, to_ns);
    const auto got = reader->EnergyBetween(stored, from_ns, to_ns);
    ASSERT_TRUE(got.ok()) << got.status().ToString();
    ASSERT_EQ(got->size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_EQ(got->at(i).state, wanted[i].state) << from_s;
      EXPECT_EQ(got->at(i).joules.has_value(), wanted[i].joules.has_value());
      EXPECT_NEAR(got->at(i).joules.value_or(0), wanted[i].joules.value_or(0), 2e-6);
      EXPECT_NEAR(got->at(i).uncertainty_joules, wanted[i].uncertainty_joules, 1e-4);
      EXPECT_EQ(got->at(i).void_ns, wanted[i].void_ns);
    }
  }
}

TEST_F(RunStoreTest, EnergyOfANodeWithoutTicksIsUnknown) {
  const auto store = Open();
  ASSERT_TRUE(store->BeginRun(SomeRun("a")).ok());
  ASSERT_TRUE(store->AddNode("a", SomeNode("n")).ok());
  const auto reader = Read();
  const auto energies = reader->EnergyBetween(reader->Nodes("a")->at(0), 0, kNsPerSecond);
  ASSERT_EQ(energies->size(), 4U);
  EXPECT_EQ(energies->at(0).state, State::kGap);
  EXPECT_EQ(energies->at(0).joules, std::nullopt);
}

TEST_F(RunStoreTest, RunsAreFoundByWhatTheirIdsBeginWith) {
  const auto store = Open();
  EXPECT_EQ(Read()->FindRun("").status().code(), Code::kNotFound);
  energy::Run run = SomeRun("20260101-ab");
  ASSERT_TRUE(store->BeginRun(run).ok());
  run.id = "20260102-cd";
  ++run.started_wall_ns;
  ASSERT_TRUE(store->BeginRun(run).ok());
  const auto reader = Read();
  EXPECT_EQ(reader->FindRun("")->id, "20260102-cd");
  EXPECT_EQ(reader->FindRun("20260101")->id, "20260101-ab");
  EXPECT_THAT(reader->FindRun("2026010").status().message(), HasSubstr("more than one"));
  EXPECT_THAT(reader->FindRun("x").status().message(), HasSubstr("20260101-ab, 20260102-cd"));
}

TEST_F(RunStoreTest, WhatDoesNotFitTogetherIsRefused) {
  const auto store = Open();
  energy::Run run = SomeRun("a");
  run.configuration = "[]";
  EXPECT_EQ(store->BeginRun(run).code(), Code::kInvalidArgument);
  run.configuration = "{";
  EXPECT_EQ(store->BeginRun(run).code(), Code::kInvalidArgument);
  ASSERT_TRUE(store->BeginRun(SomeRun("a")).ok());
  EXPECT_EQ(store->BeginRun(SomeRun("a")).code(), Code::kInvalidArgument);
  EXPECT_EQ(store->AddNode("b", SomeNode("n")).status().code(), Code::kNotFound);
  EXPECT_EQ(store->EndRun("b", 1, 0).code(), Code::kNotFound);
  EXPECT_EQ(store->AddNote("b", {}).code(), Code::kNotFound);
  const auto node = store->AddNode("a", SomeNode("n"));
  ASSERT_TRUE(node.ok());
  NodeInfo other = SomeNode("n");
  other.domains.pop_back();
  EXPECT_EQ(store->UpdateNode(*node, other).code(), Code::kInvalidArgument);
}

TEST_F(RunStoreTest, FilesOfSomethingElseAreRefusedAndLeftAsTheyAre) {
  const auto expect_refused = [&](Code code, const std::string& message) {
    std::ifstream before_file(path_, std::ios::binary);
    const std::string before((std::istreambuf_iterator<char>(before_file)), {});
    const auto store = RunStore::Open(path_);
    ASSERT_FALSE(store.ok());
    EXPECT_EQ(store.status().code(), code) << store.status().ToString();
    EXPECT_THAT(store.status().message(), HasSubstr(message));
    const auto reader = RunReader::Open(path_);
    ASSERT_FALSE(reader.ok());
    EXPECT_EQ(reader.status().code(), code) << reader.status().ToString();
    std::ifstream after_file(path_, std::ios::binary);
    EXPECT_EQ(std::string((std::istreambuf_iterator<char>(after_file)), {}), before);
  };
  std::ofstream(path_) << std::string(5000, 'x');
  expect_refused(Code::kInvalidArgument, "no store of energy runs");
  std::filesystem::remove(path_);
  {
    auto other = Sqlite::Open(path_, Sqlite::Mode::kCreate);
    ASSERT_TRUE(other->Execute("CREATE TABLE run (id)").ok());
  }
  expect_refused(Code::kInvalidArgument, "database of something else");
  std::filesystem::remove(path_);
  (void)Open();
  {
    auto later = Sqlite::Open(path_, Sqlite::Mode::kWrite);
    ASSERT_TRUE(later->Execute("PRAGMA journal_mode = DELETE; PRAGMA user_version = 2").ok());
  }
  expect_refused(Code::kUnsupported, "later version");
}

TEST_F(RunStoreTest, AnEmptyFileBecomesAStoreWhenItIsWritten) {
  std::ofstream(path_) << "";
  EXPECT_THAT(RunReader::Open(path_).status().message(), HasSubstr("no run was written"));
  EXPECT_EQ(RunReader::Open(folder_.File("none.db")).status().code(), Code::kNotFound);
  EXPECT_EQ(RunReader::Open(folder_.path()).status().code(), Code::kInvalidArgument);
  EXPECT_TRUE(RunStore::Open(folder_.File("a/new/folder.db")).ok());
  EXPECT_FALSE(RunStore::Open(path_ + "/in/a/file.db").ok());
  ASSERT_TRUE(Open()->BeginRun(SomeRun("a")).ok());
  EXPECT_EQ(Read()->Runs()->size(), 1U);
}

TEST_F(RunStoreTest, ADamagedStoreGivesErrorsAndNoNumbersThatNobodyMeasured) {
  {
    const auto store = Open();
    ASSERT_TRUE(store->BeginRun(SomeRun("a")).ok());
    const int64_t node = *store->AddNode("a", SomeNode("n"));
    Append(*store, node, 0, 3000);
  }
  std::ifstream file(path_, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(file)), {});
  ASSERT_GT(whole.size(), 40'000U);
  int failed = 0;
  for (size_t at = 100; at < whole.size(); at += 509) {
    std::string damaged = whole;
    for (size_t i = at; i < std::min(at + 64, damaged.size()); ++i) damaged[i] = 'x';
    std::ofstream(path_, std::ios::binary) << damaged;
    const auto reader = RunReader::Open(path_);
    if (!reader.ok()) {
      ++failed;
      continue;
    }
    const auto nodes = (*reader)->Nodes("a");
    if (!nodes.ok() || nodes->empty()) {
      ++failed;
      continue;
    }
    const Status status = (*reader)->ForEachTick(nodes->at(0).id, 0, kAlwaysNs,
                                                 [](const Tick&) { return OkStatus(); });
    failed += !status.ok();
    if (!status.ok()) {
      EXPECT_THAT(status.code(), AnyOf(Code::kCorrupt, Code::kIo)) << status.ToString();
    }
  }
  EXPECT_GT(failed, 20);
  for (size_t size = 0; size < whole.size(); size += 4'001) {
    std::ofstream(path_, std::ios::binary) << whole.substr(0, size);
    const auto reader = RunReader::Open(path_);
    if (reader.ok()) (void)(*reader)->Nodes("a");
  }
}

TEST_F(RunStoreTest, WhoMayOnlyReadReadsAFinishedStore) {
  {
    const auto store = Open();
    ASSERT_TRUE(store->BeginRun(SomeRun("a")).ok());
  }
  namespace fs = std::filesystem;
  fs::permissions(path_, fs::perms::owner_read);
  fs::permissions(folder_.path(), fs::perms::owner_read | fs::perms::owner_exec);
  {
    const testing::OrdinaryUser user;
    EXPECT_EQ(Read()->Runs()->size(), 1U);
    EXPECT_EQ(RunStore::Open(path_).status().code(), Code::kPermissionDenied);
    EXPECT_EQ(RunStore::Open(folder_.File("new.db")).status().code(), Code::kPermissionDenied);
  }
  fs::permissions(folder_.path(), fs::perms::owner_all);
}

TEST(DefaultStorePathTest, IsAmongTheDataOfTheUser) {
  const std::string home = std::getenv("HOME") != nullptr ? std::getenv("HOME") : "";
  setenv("XDG_DATA_HOME", "/data", 1);
  EXPECT_EQ(*DefaultStorePath(), "/data/emlio/energy.db");
  setenv("XDG_DATA_HOME", "not/absolute", 1);
  setenv("HOME", "/home/me", 1);
  EXPECT_EQ(*DefaultStorePath(), "/home/me/.local/share/emlio/energy.db");
  unsetenv("HOME");
  unsetenv("XDG_DATA_HOME");
  EXPECT_EQ(DefaultStorePath().status().code(), Code::kNotFound);
  setenv("HOME", home.c_str(), 1);
}

TEST_F(RunStoreTest, AProcessThatIsKilledLosesNothingThatWasWritten) {
  {
    ASSERT_TRUE(Open()->BeginRun(SomeRun("a")).ok());
  }
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto store = RunStore::Open(path_);
    if (!store.ok()) _exit(1);
    const auto node = (*store)->AddNode("a", SomeNode("n"));
    if (!node.ok()) _exit(1);
    for (int64_t tick = 0;; ++tick) {
      Append(**store, *node, tick, tick + 1);
      if (!(*store)->Flush(kLongNs).ok()) _exit(1);
      if (write(ends[1], &tick, sizeof(tick)) != sizeof(tick)) _exit(1);
    }
  }
  close(ends[1]);
  int64_t last = 0;
  while (last < 900) ASSERT_EQ(read(ends[0], &last, sizeof(last)), sizeof(last));
  kill(child, SIGKILL);
  while (read(ends[0], &last, sizeof(last)) == sizeof(last)) continue;
  close(ends[0]);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  const auto reader = Read();
  const auto nodes = reader->Nodes("a");
  ASSERT_EQ(nodes->size(), 1U);
  const auto times = TickTimes(*reader, nodes->at(0).id);
  ASSERT_GE(static_cast<int64_t>(times.size()), last + 1);
  EXPECT_LE(static_cast<int64_t>(times.size()), last + 2);
  EXPECT_EQ(reader->FindRun("a")->ended_wall_ns, std::nullopt);
  // The next one goes on with the file.
  ASSERT_TRUE(Open()->EndRun("a", 7, 137).ok());
  EXPECT_EQ(Read()->FindRun("a")->exit_status, 137);
}

TEST_F(RunStoreTest, ProcessesThatMakeOneStoreAtOnceAllGetIt) {
  constexpr int kProcesses = 4;
  constexpr int kStores = 30;
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    children.push_back(fork());
    ASSERT_GE(children.back(), 0);
    if (children.back() != 0) continue;
    for (int store = 0; store < kStores; ++store) {
      const auto opened = RunStore::Open(folder_.File(std::to_string(store) + ".db"));
      if (opened.ok()) continue;
      LogError("{}", opened.status().ToString());  // the parent cannot say why
      _exit(1);
    }
    _exit(0);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
}

TEST_F(RunStoreTest, SeveralProcessesWriteIntoOneFile) {
  constexpr int kProcesses = 4;
  constexpr int64_t kTicks = 700;
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    children.push_back(fork());
    ASSERT_GE(children.back(), 0);
    if (children.back() != 0) continue;
    // All make the file at once; one of them begins the run.
    auto store = RunStore::Open(path_);
    if (!store.ok()) {
      LogError("{}", store.status().ToString());  // the parent cannot say why
      _exit(1);
    }
    (void)(*store)->BeginRun(SomeRun("a"));
    const auto node = (*store)->AddNode("a", SomeNode("node-" + std::to_string(i)));
    if (!node.ok()) _exit(2);
    for (int64_t tick = 0; tick < kTicks; ++tick) {
      Append(**store, *node, tick, tick + 1);
      if (tick % 7 == 0 && !(*store)->Flush(kLongNs).ok()) _exit(3);
    }
    if (!(*store)->Flush(kLongNs).ok() || (*store)->Stats().ticks_dropped != 0) _exit(4);
    store->reset();
    _exit(0);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
  const auto reader = Read();
  const auto nodes = reader->Nodes("a");
  ASSERT_EQ(nodes->size(), static_cast<size_t>(kProcesses));
  for (const StoredNode& node : *nodes) EXPECT_EQ(TickTimes(*reader, node.id).size(), kTicks);
}

TEST_F(RunStoreTest, AFullDiskDelaysNobodyAndWhatFitsNotIsCounted) {
  RunStoreOptions options;
  options.max_waiting_ticks = 100;
  options.chunk_ticks = 100;
  const auto store = Open(options);
  ASSERT_TRUE(store->BeginRun(SomeRun("a")).ok());
  const int64_t node = *store->AddNode("a", SomeNode("n"));
  Append(*store, node, 0, 50);
  ASSERT_TRUE(store->Flush(kLongNs).ok());
  std::optional<FileSizeLimit> limit(std::in_place, 4096);
  const int64_t begin_ns = SystemClock().NowNs();
  Append(*store, node, 50, 1050);
  const int64_t took_ns = SystemClock().NowNs() - begin_ns;
  const Status full = store->Flush(kNsPerSecond / 2);
  const Status note = store->AddNote("a", {});
  const RunStoreStats stats = store->Stats();
  limit.reset();
  EXPECT_EQ(note.code(), Code::kIo);
  EXPECT_LT(took_ns, 10 * kNsPerSecond);  // a deadline against waiting, no rate
  EXPECT_EQ(full.code(), Code::kTimeout);
  EXPECT_THAT(full.message(), HasSubstr("disk I/O error"));
  EXPECT_GT(stats.failures, 0);
  EXPECT_EQ(stats.ticks_dropped, 900);
  EXPECT_FALSE(stats.last_error.empty());

  ASSERT_TRUE(store->Flush(kLongNs).ok());
  Append(*store, node, 1050, 1060);
  ASSERT_TRUE(store->Flush(kLongNs).ok());
  EXPECT_TRUE(store->Stats().last_error.empty());
  const auto reader = Read();
  EXPECT_EQ(TickTimes(*reader, node).size(), 160U);
  EXPECT_EQ(reader->Nodes("a")->at(0).ticks_dropped, 900);
  // Sums go on over what is missing.
  const auto energies = reader->EnergyBetween(
      reader->Nodes("a")->at(0), TickOf(10, {}).monotonic_ns, TickOf(1055, {}).monotonic_ns);
  EXPECT_NEAR(energies->at(0).joules.value_or(0), 1045, 1e-3);
}

TEST_F(RunStoreTest, AStoreThatCannotBeWrittenDoesNotKeepTheProgramFromEnding) {
  RunStoreOptions options;
  auto store = Open(options);
  ASSERT_TRUE(store->BeginRun(SomeRun("a")).ok());
  const int64_t node = *store->AddNode("a", SomeNode("n"));
  {
    const FileSizeLimit limit(4096);
    Append(*store, node, 0, 5000);
    store.reset();
  }
  EXPECT_LT(TickTimes(*Read(), node).size(), 5000U);
}

TEST_F(RunStoreTest, AChildMadeByForkLeavesTheFileAlone) {
  const auto store = Open();
  ASSERT_TRUE(store->BeginRun(SomeRun("a")).ok());
  const int64_t node = *store->AddNode("a", SomeNode("n"));
  Append(*store, node, 0, 10);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // Without gtest: only what this test is about.
    Append(*store, node, 10, 20);
    const bool told = store->Flush(1).code() == Code::kUnavailable &&
                      store->BeginRun(SomeRun("b")).code() == Code::kUnavailable &&
                      store->Stats().ticks_written == 0;
    store->~RunStore();
    _exit(told ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  Append(*store, node, 20, 30);
  ASSERT_TRUE(store->Flush(kLongNs).ok());
  EXPECT_EQ(TickTimes(*Read(), node).size(), 20U);
}

TEST_F(RunStoreTest, TicksAreReadWhileTheyAreWritten) {
  RunStoreOptions options;
  options.chunk_ticks = 20;
  const auto store = Open(options);
  ASSERT_TRUE(store->BeginRun(SomeRun("a")).ok());
  const int64_t node = *store->AddNode("a", SomeNode("n"));
  std::thread writer([&] {
    for (int64_t tick = 0; tick < 2000; ++tick) {
      Append(*store, node, tick, tick + 1);
      if (tick % 5 == 0) (void)store->Flush(kLongNs);
    }
  });
  const auto reader = Read();
  size_t before = 0;
  while (before < 1500) {
    const auto times = TickTimes(*reader, node);
    EXPECT_GE(times.size(), before);
    for (size_t i = 0; i < times.size(); ++i) {
      ASSERT_EQ(times[i], TickOf(static_cast<int64_t>(i), {}).monotonic_ns);
    }
    before = times.size();
  }
  writer.join();
}

TEST(RunTest, IdsDifferAndSayWhen) {
  const std::string id = MakeRunId(1'767'225'600 * kNsPerSecond);
  EXPECT_THAT(id, ::testing::StartsWith("20260101T000000Z-"));
  EXPECT_NE(id, MakeRunId(1'767'225'600 * kNsPerSecond));
}

}  // namespace
}  // namespace emlio::energy
