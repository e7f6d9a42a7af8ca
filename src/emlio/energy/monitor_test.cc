// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy/monitor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "emlio/base/mutex.h"
#include "emlio/energy/epoch_observer.h"
#include "emlio/energy/testing/live_host.h"

namespace emlio::energy {
namespace {

using testing::kTwoSocketsWatts;
using testing::LiveHost;

// The counters are exact, and each reading belongs to some moment of the time that it took.
constexpr double kClose = 0.05;

WindowLabel Label(std::string name) {
  WindowLabel label;
  label.name = std::move(name);
  return label;
}

MonitorOptions Options(const LiveHost& host) {
  MonitorOptions options;
  options.host = host.host();
  options.interval_ns = 10 * kNsPerMs;
  return options;
}

double Seconds(const WindowReport& report) {
  return static_cast<double>(report.end_ns - report.begin_ns) * 1e-9;
}

#define EXPECT_MEASURED(report)                                                              \
  do {                                                                                       \
    ASSERT_TRUE((report).ok()) << (report).status().ToString();                              \
    ASSERT_TRUE((report)->total.joules.has_value()) << (report)->energies[0].cause;          \
    EXPECT_NEAR(*(report)->total.joules / Seconds(*(report)) / kTwoSocketsWatts, 1, kClose); \
  } while (false)

TEST(MonitorTest, NestedAndOverlappingWindowsHaveTheEnergyOfTheirTime) {
  LiveHost host;
  auto monitor = Monitor::Start(Options(host));
  ASSERT_TRUE(monitor.ok()) << monitor.status().ToString();
  const WindowId outer = (*monitor)->Open(Label("outer"));
  host.AwaitReadings(5);
  WindowId inner = 0;
  WindowId overlapping = 0;
  {
    const ScopedWindow window(monitor->get(), Label("inner"));
    inner = window.id();
    overlapping = (*monitor)->Open(Label("overlapping"));
    host.AwaitReadings(30);
  }
  (*monitor)->Close(outer, {.records = 7, .bytes = 700});
  host.AwaitReadings(20);
  (*monitor)->Close(overlapping);
  for (const WindowId id : {outer, inner, overlapping}) {
    const auto report = (*monitor)->Report(id);
    EXPECT_MEASURED(report);
    EXPECT_FALSE(report->cut);
  }
  EXPECT_EQ((*monitor)->Report(outer)->work.bytes, 700U);
  const auto all = (*monitor)->Reports();
  ASSERT_TRUE(all.ok());
  std::vector<std::string> names;
  for (const WindowReport& report : *all) names.push_back(report.label.name);
  EXPECT_THAT(names, ::testing::ElementsAre("outer", "inner", "overlapping"));
}

TEST(MonitorTest, AWindowMayBeLongerThanTheSamplesThatAreKept) {
  LiveHost host;
  MonitorOptions options = Options(host);
  options.kept_ticks = 40;
  std::vector<WindowReport> final;
  Mutex mu;
  options.on_window = [&](const WindowReport& report) {
    const MutexLock lock(mu);
    final.push_back(report);
  };
  auto monitor = Monitor::Start(std::move(options));
  ASSERT_TRUE(monitor.ok());
  const WindowId id = (*monitor)->Open(Label("long"));
  host.AwaitReadings(100);
  (*monitor)->Close(id);
  host.AwaitReadings(50);  // both edges have left the samples
  EXPECT_MEASURED((*monitor)->Report(id));
  (*monitor)->Stop();
  EXPECT_MEASURED((*monitor)->Report(id));
  const MutexLock lock(mu);
  ASSERT_EQ(final.size(), 1U);
  EXPECT_EQ(final[0].id, id);
}

TEST(MonitorTest, WhatIsOpenIsCutOffWhenItStops) {
  LiveHost host;
  auto monitor = Monitor::Start(Options(host));
  ASSERT_TRUE(monitor.ok());
  const WindowId id = (*monitor)->Open(Label("open"));
  host.AwaitReadings(20);
  const auto so_far = (*monitor)->Report(id);
  EXPECT_MEASURED(so_far);
  EXPECT_TRUE(so_far->cut);
  (*monitor)->Stop();
  const auto report = (*monitor)->Report(id);
  EXPECT_MEASURED(report);
  EXPECT_TRUE(report->cut);
  EXPECT_EQ((*monitor)->Open(Label("late")), 0U);
  (*monitor)->Close(0);  // nothing
}

TEST(MonitorTest, OnlySoManyFinalWindowsAreKept) {
  LiveHost host;
  MonitorOptions options = Options(host);
  options.kept_windows = 10;
  auto monitor = Monitor::Start(std::move(options));
  ASSERT_TRUE(monitor.ok());
  WindowId first = 0;
  for (int i = 0; i < 30; ++i) {
    const WindowId id = (*monitor)->Open(Label("short"));
    if (first == 0) first = id;
    (*monitor)->Close(id);
  }
  (*monitor)->Stop();
  EXPECT_EQ((*monitor)->forgotten_windows(), 20U);
  EXPECT_EQ((*monitor)->Reports()->size(), 10U);
  EXPECT_EQ((*monitor)->Report(first).status().code(), Code::kNotFound);
}

TEST(MonitorTest, AWindowShorterThanAnIntervalHasNoJoules) {
  LiveHost host;
  auto monitor = Monitor::Start(Options(host));
  ASSERT_TRUE(monitor.ok());
  host.AwaitReadings(5);
  // So short, however late whoever closes it is.
  const int64_t begin_ns = SystemClock().NowNs();
  const WindowId id = (*monitor)->OpenAt(Label("short"), begin_ns);
  (*monitor)->CloseAt(id, begin_ns + 1000);
  const auto report = (*monitor)->Report(id);
  ASSERT_TRUE(report.ok());
  for (size_t i = 0; i < report->energies.size(); ++i) {
    EXPECT_FALSE(report->energies[i].joules) << (*monitor)->domains()[i].id;
  }
}

TEST(MonitorTest, AChildOfForkRecordsNothingAndHangsNowhere) {
  LiveHost host;
  auto monitor = Monitor::Start(Options(host));
  ASSERT_TRUE(monitor.ok());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const WindowId id = (*monitor)->Open(Label("child"));
    (*monitor)->Close(id);
    const bool refused = (*monitor)->Report(1).status().code() == Code::kUnavailable;
    (*monitor)->Stop();
    monitor->reset();
    _exit(id == 0 && refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_NE((*monitor)->Open(Label("parent")), 0U);
}

TEST(EpochObserverTest, EpochsBecomeWindows) {
  LiveHost host;
  auto started = Monitor::Start(Options(host));
  ASSERT_TRUE(started.ok());
  const std::shared_ptr<Monitor> monitor = *std::move(started);
  std::string agent;
  EpochObserver observer(monitor, [&](std::string_view endpoint) { agent = endpoint; });
  EpochInfo info;
  info.epoch = 3;
  info.rank = 1;
  const uint64_t number = observer.OnEpochBegin(info);
  info.side = EpochInfo::Side::kDaemon;
  const uint64_t other = observer.OnEpochBegin(info);
  host.AwaitReadings(20);
  observer.OnEpochEnd(number, {.records = 10, .bytes = 1000, .complete = true});
  observer.OnEpochEnd(other, {});
  observer.OnEnergyAgent("tcp://storage:7");
  EXPECT_EQ(agent, "tcp://storage:7");
  const auto reports = monitor->Reports();
  ASSERT_TRUE(reports.ok());
  ASSERT_EQ(reports->size(), 2U);
  EXPECT_EQ((*reports)[0].label.name, kLoaderWindow);
  EXPECT_EQ((*reports)[0].label.epoch, 3);
  EXPECT_EQ((*reports)[0].label.rank, 1);
  EXPECT_EQ((*reports)[0].work.bytes, 1000U);
  EXPECT_EQ((*reports)[1].label.name, kDaemonWindow);
  EXPECT_MEASURED(monitor->Report(number));
}

}  // namespace
}  // namespace emlio::energy
