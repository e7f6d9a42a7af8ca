// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy/self_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "emlio/energy/sysfs.h"
#include "emlio/energy/testing/live_host.h"
#include "emlio/energy/testing/store_file.h"

namespace emlio::energy {
namespace {

using ::testing::Contains;
using testing::LiveHost;
using ::testing::Pair;

void Sleep(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

TEST(CheckDramTest, MemoryThatFeelsItsLoadRisesAndOtherDoesNot) {
  LiveHost host;
  MonitorOptions options;
  options.host = host.host();
  options.interval_ns = 10 * kNsPerMs;
  auto monitor = Monitor::Start(std::move(options));
  ASSERT_TRUE(monitor.ok());
  // Samples around the edge may lie half a second apart, in which nobody knows when power rose:
  // that is less than a tenth of what either time used.
  const auto checks = CheckDram(**monitor, kNsPerSecond, [&] {
    host.SetWatts("intel-rapl:0:1", 13);  // dram-0, from 10 W; dram-1 stays at 8 W
    Sleep(1000);
    return 1.0;
  });
  ASSERT_TRUE(checks.ok()) << checks.status().ToString();
  ASSERT_EQ(checks->size(), 2U);
  EXPECT_EQ((*checks)[0].id, "dram-0");
  EXPECT_EQ((*checks)[0].rise, Rise::kRises);
  EXPECT_GT((*checks)[0].load_watts, (*checks)[0].idle_watts);
  EXPECT_EQ((*checks)[1].rise, Rise::kFlat);
  // Where the load got few of the CPUs, as under a quota, what does not rise is not known to be
  // flat.
  const auto quota = CheckDram(**monitor, kNsPerSecond, [&] {
    host.SetWatts("intel-rapl:0:1", 17);
    Sleep(1000);
    return 0.1;
  });
  ASSERT_TRUE(quota.ok()) << quota.status().ToString();
  EXPECT_EQ((*quota)[0].rise, Rise::kRises);
  EXPECT_EQ((*quota)[1].rise, Rise::kUnknown);
  // That was no check: it is to be made when there is more of them.
  setenv("XDG_RUNTIME_DIR", host.host().root.c_str(), 1);
  ASSERT_TRUE(KeepDramChecks(host.host().root, *quota).ok());
  EXPECT_EQ(KeptDramCheck(host.host().root, "dram-0")->rise, Rise::kRises);
  EXPECT_FALSE(KeptDramCheck(host.host().root, "dram-1"));
  unsetenv("XDG_RUNTIME_DIR");
}

// dram-0, with a counter.
std::vector<Meter> OneDram() {
  std::vector<Meter> meters(1);
  meters[0].domain = MakeDomain(DomainKind::kDram, "powercap", 0, -1);
  meters[0].counter = SysfsCounter("/dev/null");
  return meters;
}

TEST(CheckDramTest, WhatIsFlatIsNotSummedUntilItRises) {
  LiveHost host;
  setenv("XDG_RUNTIME_DIR", host.host().root.c_str(), 1);
  DramCheck check;
  check.id = "dram-0";
  check.rise = Rise::kFlat;
  check.idle_watts = 10;
  check.load_watts = 10.1;
  const std::string root = host.host().root;
  std::vector<std::pair<std::string, std::string>> facts;  // of dram-0
  size_t dram = 0;
  const auto measure = [&]() -> Result<WindowReport> {
    MonitorOptions options;
    options.host = host.host();
    options.interval_ns = 10 * kNsPerMs;
    EMLIO_ASSIGN_OR_RETURN(const auto monitor, Monitor::Start(std::move(options)));
    for (size_t i = 0; i < monitor->domains().size(); ++i) {
      if (monitor->domains()[i].id != "dram-0") continue;
      dram = i;
      facts = monitor->domains()[i].facts;
    }
    WindowLabel label;
    const WindowId id = monitor->Open(label);
    host.AwaitReadings(20);
    monitor->Close(id);
    return monitor->Report(id);
  };
  EXPECT_TRUE(HasUncheckedDram(root, OneDram()));
  ASSERT_TRUE(measure().ok());
  EXPECT_THAT(facts, Contains(Pair("memory_load", "not checked")));
  ASSERT_TRUE(KeepDramChecks(host.host().root, {check}).ok());
  const auto doubted = measure();
  ASSERT_TRUE(doubted.ok());
  EXPECT_FALSE(doubted->total.joules);
  EXPECT_EQ(doubted->energies[dram].state, State::kImplausible);
  EXPECT_THAT(facts, Contains(Pair("memory_load", "flat")));
  EXPECT_FALSE(HasUncheckedDram(root, OneDram()));
  EXPECT_EQ(doubted->total.missing, std::vector<std::string>{"dram-0"});
  check.rise = Rise::kRises;
  ASSERT_TRUE(KeepDramChecks(host.host().root, {check}).ok());
  const auto believed = measure();
  ASSERT_TRUE(believed.ok());
  EXPECT_TRUE(believed->total.joules);
  EXPECT_THAT(facts, Contains(Pair("memory_load", "rises")));
  unsetenv("XDG_RUNTIME_DIR");
}

TEST(CheckDramTest, AKeptFileThatIsNoneOfOursSaysNothing) {
  LiveHost host;
  const std::string& root = host.host().root;
  setenv("XDG_RUNTIME_DIR", root.c_str(), 1);
  DramCheck check;
  check.id = "dram-0";
  check.rise = Rise::kRises;
  ASSERT_TRUE(KeepDramChecks(root, {check}).ok());
  EXPECT_FALSE(HasUncheckedDram(root, OneDram()));
  for (const auto& entry : std::filesystem::directory_iterator(root + "emlio")) {
    std::ofstream(entry.path()) << "dram-0 perhaps x y\n";
  }
  EXPECT_TRUE(HasUncheckedDram(root, OneDram()));
  unsetenv("XDG_RUNTIME_DIR");
}

TEST(CheckDramTest, WhatStaysUnknownIsNotLookedAtAgain) {
  LiveHost host;
  const std::string& root = host.host().root;
  setenv("XDG_RUNTIME_DIR", root.c_str(), 1);
  DramCheck check;
  check.id = "dram-0";
  ASSERT_TRUE(KeepDramChecks(root, {check}).ok());
  std::vector<Meter> meters = OneDram();
  EXPECT_FALSE(HasUncheckedDram(root, meters));
  TakeDramChecks(root, &meters);
  EXPECT_THAT(meters[0].domain.facts, Contains(Pair("memory_load", "not checked")));
  EXPECT_TRUE(meters[0].domain.doubt.empty());
  unsetenv("XDG_RUNTIME_DIR");
}

// A host that several users measure, with the place where root tells all of them.
class SharedHostTest : public ::testing::Test {
 protected:
  SharedHostTest() {
    namespace fs = std::filesystem;
    fs::permissions(folder_.path(), fs::perms(0755));
    fs::create_directory(folder_.File("run"));
    fs::create_directory(folder_.File("runtime"));
    setenv("XDG_RUNTIME_DIR", folder_.File("runtime").c_str(), 1);
  }
  ~SharedHostTest() override { unsetenv("XDG_RUNTIME_DIR"); }

  bool Unchecked() const { return HasUncheckedDram(root_, OneDram()); }
  Status Keep(Rise rise) const {
    DramCheck check;
    check.id = "dram-0";
    check.rise = rise;
    return KeepDramChecks(root_, {check});
  }
  std::string Known() const {
    std::vector<Meter> meters = OneDram();
    TakeDramChecks(root_, &meters);
    for (const auto& [name, value] : meters[0].domain.facts) {
      if (name == "memory_load") return value;
    }
    return "";
  }
  std::string KeptFile() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path() / "run/emlio")) {
      return entry.path().string();
    }
    return "";
  }

  testing::TemporaryFolder folder_;
  const std::string root_ = folder_.path().string() + "/";
};

// Acts as another user until it is destroyed.
class AsUser {
 public:
  explicit AsUser(uid_t uid) { EXPECT_EQ(seteuid(uid), 0); }
  ~AsUser() { EXPECT_EQ(seteuid(0), 0); }
};
constexpr uid_t kNobody = 65534;

TEST_F(SharedHostTest, WhatRootFindsOutHoldsForAllUsersAndWhatTheyFindForThemselves) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  const mode_t before = umask(077);
  ASSERT_TRUE(Keep(Rise::kFlat).ok());
  umask(before);
  ASSERT_NE(KeptFile(), "");
  EXPECT_EQ(Known(), "flat");
  std::filesystem::create_directory(folder_.File("of-nobody"));
  ASSERT_EQ(chown(folder_.File("of-nobody").c_str(), kNobody, kNobody), 0);
  setenv("XDG_RUNTIME_DIR", folder_.File("of-nobody").c_str(), 1);
  {
    const AsUser nobody(kNobody);
    EXPECT_FALSE(Unchecked());
    EXPECT_EQ(Known(), "flat");
    Sleep(20);  // coarser than the times of files
    ASSERT_TRUE(Keep(Rise::kRises).ok());
    EXPECT_EQ(Known(), "rises");
  }
  setenv("XDG_RUNTIME_DIR", folder_.File("runtime").c_str(), 1);
  EXPECT_EQ(Known(), "flat");
  Sleep(20);
  ASSERT_TRUE(Keep(Rise::kFlat).ok());
  setenv("XDG_RUNTIME_DIR", folder_.File("of-nobody").c_str(), 1);
  const AsUser nobody(kNobody);
  EXPECT_EQ(Known(), "flat") << "what was found out last";
}

TEST_F(SharedHostTest, WhatOthersMayHaveWrittenIsNotBelieved) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  const auto kept = [&] {
    std::filesystem::remove_all(folder_.path() / "run/emlio");
    EXPECT_TRUE(Keep(Rise::kRises).ok());
    EXPECT_FALSE(Unchecked());
    return KeptFile();
  };
  std::string file = kept();
  ASSERT_EQ(chmod(file.c_str(), 0666), 0);
  EXPECT_TRUE(Unchecked());
  file = kept();
  ASSERT_EQ(chown(file.c_str(), kNobody, kNobody), 0);
  EXPECT_TRUE(Unchecked());
  file = kept();
  std::filesystem::rename(file, folder_.File("elsewhere"));
  std::filesystem::create_symlink(folder_.File("elsewhere"), file);
  EXPECT_TRUE(Unchecked());
  kept();
  const std::string directory = folder_.File("run/emlio");
  ASSERT_EQ(chmod(directory.c_str(), 0777), 0);
  EXPECT_TRUE(Unchecked());
  kept();
  ASSERT_EQ(chown(directory.c_str(), kNobody, kNobody), 0);
  EXPECT_TRUE(Unchecked());
  // Without a place for all users there is still that of root alone.
  EXPECT_TRUE(Keep(Rise::kRises).ok());
  EXPECT_FALSE(Unchecked());
}

TEST_F(SharedHostTest, OneChecksAtATime) {
  auto alone = LockDramChecks(root_, 0);
  ASSERT_TRUE(alone.ok()) << alone.status().ToString();
  if (geteuid() == 0) {
    const AsUser nobody(kNobody);
    EXPECT_EQ(LockDramChecks(root_, 0).status().code(), Code::kPermissionDenied);
  }
  EXPECT_EQ(LockDramChecks(root_, 0).status().code(), Code::kPermissionDenied);
  // Who comes second waits for the first to end.
  std::thread first([&] {
    Sleep(100);
    alone->reset();
  });
  EXPECT_TRUE(LockDramChecks(root_, 30 * kNsPerSecond).ok());
  first.join();
}

TEST_F(SharedHostTest, ACheckThatFindsNothingTakesNothingBack) {
  ASSERT_TRUE(Keep(Rise::kUnknown).ok());
  EXPECT_EQ(Known(), "not checked");
  EXPECT_FALSE(Unchecked()) << "it was looked at";
  ASSERT_TRUE(Keep(Rise::kFlat).ok());
  ASSERT_TRUE(Keep(Rise::kUnknown).ok());
  EXPECT_EQ(Known(), "flat");
  if (geteuid() == 0) {
    std::filesystem::create_directory(folder_.File("of-nobody"));
    ASSERT_EQ(chown(folder_.File("of-nobody").c_str(), kNobody, kNobody), 0);
    setenv("XDG_RUNTIME_DIR", folder_.File("of-nobody").c_str(), 1);
    Sleep(20);  // coarser than the times of files
    const AsUser nobody(kNobody);
    ASSERT_TRUE(Keep(Rise::kUnknown).ok());
    EXPECT_EQ(Known(), "flat");
  }
  Sleep(20);
  ASSERT_TRUE(Keep(Rise::kRises).ok());
  EXPECT_EQ(Known(), "rises");
}

TEST(LoadMemoryTest, AProcessThatMayNotUseAllCpusCannotLoadAllMemory) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  if (CPU_COUNT(&before) < 2) GTEST_SKIP() << "there is one CPU";
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_FALSE(CanLoadAllMemory());
  // Of at most 32 CPUs it had one, for as long as it took to begin and to end as well.
  const auto cpus = static_cast<double>(std::min(32L, sysconf(_SC_NPROCESSORS_ONLN)));
  EXPECT_LT(LoadMemory(500 * kNsPerMs), cpus > 2 ? 0.9 * 2 / cpus : 0.9);
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

TEST(LoadMemoryTest, TakesAsLongAsItIsAskedTo) {
  const int64_t begin_ns = SystemClock().NowNs();
  const double share = LoadMemory(50 * kNsPerMs);
  EXPECT_GE(SystemClock().NowNs() - begin_ns, 50 * kNsPerMs);
  EXPECT_GT(share, 0);
}

// A counter that moves every `period_ns`.
class SteppingCounter : public Counter {
 public:
  explicit SteppingCounter(int64_t period_ns) : period_ns_(period_ns) {}
  Result<uint64_t> Read() override {
    return static_cast<uint64_t>(SystemClock().NowNs() / period_ns_);
  }

 private:
  const int64_t period_ns_;
};

Meter SteppingMeter(DomainKind kind, int64_t period_ns) {
  Meter meter;
  meter.domain = MakeDomain(kind, "nvml", 0, -1);
  meter.counter = std::make_unique<SteppingCounter>(period_ns);
  return meter;
}
Meter StandingMeter(DomainKind kind) { return SteppingMeter(kind, INT64_MAX); }

TEST(MeasureUpdatePeriodsTest, FindsHowOftenACounterMoves) {
  const auto near = [](const Meter& meter, double period_ns, double most_off_ns) {
    return std::abs(static_cast<double>(meter.domain.update_period_ns) - period_ns) <= most_off_ns;
  };
  // Whoever looks is late now and then, so it may take some attempts; a deadline against hangs.
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  bool found = false;
  while (!found && std::chrono::steady_clock::now() < until) {
    std::vector<Meter> meters;
    meters.push_back(SteppingMeter(DomainKind::kGpu, 20 * kNsPerMs));
    meters.push_back(StandingMeter(DomainKind::kGpu));
    meters.push_back(SteppingMeter(DomainKind::kPackage, 5 * kNsPerMs));
    MeasureUpdatePeriods(&meters, false, 400 * kNsPerMs);
    found = near(meters[0], 20e6, 5e6);
    EXPECT_EQ(meters[1].domain.update_period_ns, 0);
    EXPECT_EQ(meters[2].domain.update_period_ns, 0) << "only GPUs were asked for";
    MeasureUpdatePeriods(&meters, true, 400 * kNsPerMs);
    found = found && near(meters[2], 5e6, 2e6);
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace emlio::energy
