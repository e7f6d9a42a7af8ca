// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy/host_share.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "emlio/energy/monitor.h"
#include "emlio/energy/sysfs.h"
#include "emlio/energy/testing/live_host.h"

namespace emlio::energy {
namespace {

using testing::FakeHost;
using testing::kTwoSocketsWatts;
using testing::LiveHost;

constexpr auto kDeadline = std::chrono::seconds(30);  // against hangs only

void Sleep(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// Locks are those of processes, so that whoever else shares has to be one.
class OtherProcess {
 public:
  // To be made before this process has other threads. Runs `body` at Go, then waits to be killed.
  explicit OtherProcess(const std::function<void()>& body) {
    int go[2];
    int ready[2];
    EXPECT_TRUE(pipe(go) == 0 && pipe(ready) == 0);
    pid_ = fork();
    if (pid_ == 0) {
      char byte = 0;
      if (read(go[0], &byte, 1) != 1) _exit(1);
      body();
      [[maybe_unused]] const ssize_t written = write(ready[1], "x", 1);
      while (true) pause();
    }
    close(go[0]);
    close(ready[1]);
    go_ = go[1];
    ready_ = ready[0];
  }
  // Returns when `body` has.
  void Go() const {
    char byte = 0;
    EXPECT_EQ(write(go_, "x", 1), 1);
    EXPECT_EQ(read(ready_, &byte, 1), 1);
  }
  ~OtherProcess() {
    Kill();
    close(go_);
    close(ready_);
  }
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_;
  int go_ = -1;
  int ready_ = -1;
};

TEST(HostShareTest, ReadingsAreThoseOfTheElectedProcess) {
  const FakeHost host;
  const std::string path = host.Path("share");
  OtherProcess other([&] {
    static std::shared_ptr<HostShare> share = *HostShare::JoinFile(path);
    if (share->role() != HostShare::Role::kElected) _exit(1);
    share->Write(share->Slot("package-0"), {.value = 77, .taken_ns = 5, .ok = true});
    share->Write(share->Slot("dram-0"), {.value = 0, .taken_ns = 6, .ok = false});
  });
  other.Go();
  const auto share = *HostShare::JoinFile(path);
  EXPECT_EQ(share->role(), HostShare::Role::kFollower);
  const auto reading = share->Read(share->Slot("package-0"));
  EXPECT_TRUE(reading.ok);
  EXPECT_EQ(reading.value, 77U);
  EXPECT_EQ(reading.taken_ns, 5);
  EXPECT_FALSE(share->Read(share->Slot("dram-0")).ok);
  EXPECT_FALSE(share->Read(share->Slot("never")).ok);
  EXPECT_EQ(share->Elect(), HostShare::Role::kFollower);
  other.Kill();
  EXPECT_EQ(share->Elect(), HostShare::Role::kElected);
}

TEST(HostShareTest, NamesThatDoNotFitHaveNoSlot) {
  const FakeHost host;
  const auto share = *HostShare::JoinFile(host.Path("share"));
  EXPECT_EQ(share->Slot(""), -1);
  EXPECT_EQ(share->Slot(std::string(88, 'x')), -1);
  EXPECT_EQ(share->Slot(std::string(87, 'x')), 0);
  EXPECT_EQ(share->Slot("other"), 1);
  EXPECT_EQ(share->Slot(std::string(87, 'x')), 0);
}

TEST(HostShareTest, AFileThatIsNoneOfOursGivesNoReading) {
  const FakeHost host;
  host.Write("share", std::string(5000, 'x'));
  const auto share = *HostShare::JoinFile(host.Path("share"));
  EXPECT_FALSE(share->Read(share->Slot("package-0")).ok);
  EXPECT_FALSE(HostShare::JoinFile(host.Path("no/such/folder")).ok());
}

TEST(HostShareTest, AFolderOfSomebodyElseIsNotUsed) {
  const FakeHost host;
  const std::string folder = host.Path("runtime");
  mkdir(folder.c_str(), 0700);
  setenv("XDG_RUNTIME_DIR", folder.c_str(), 1);
  EXPECT_TRUE(HostShare::Join("boot", "what").ok());
  chmod((folder + "/emlio").c_str(), 0777);
  EXPECT_EQ(HostShare::Join("boot", "what").status().code(), Code::kPermissionDenied);
  unsetenv("XDG_RUNTIME_DIR");
}

TEST(HostShareTest, WhoFollowsKnowsTheUpdatePeriodsOfWhoReads) {
  const FakeHost host;
  host.Write("gpus", "uuid=GPU-a watts=100 refresh_ms=20\n");
  setenv("EMLIO_STUB_NVML", host.Path("gpus").c_str(), 1);
  void* const library = dlopen(EMLIO_STUB_NVML_LIBRARY, RTLD_NOW);
  ASSERT_NE(library, nullptr) << dlerror();
  // It goes by the system's clock, as a driver does.
  reinterpret_cast<void (*)(int64_t)>(dlsym(library, "StubNvmlSetTimeNs"))(-1);
  MonitorOptions options;
  options.host = host.host;
  options.host.nvml_library = EMLIO_STUB_NVML_LIBRARY;
  options.share_file = host.Path("share");
  const auto period_ns = [](const Monitor& monitor) {
    for (const Domain& domain : monitor.domains()) {
      if (domain.id == "gpu-GPU-a") return domain.update_period_ns;
    }
    return int64_t{-1};
  };
  OtherProcess other([&] {
    static std::unique_ptr<Monitor> monitor;
    // On a busy machine there may be no time to see it move.
    for (int64_t found_ns = 0; found_ns == 0; found_ns = period_ns(*monitor)) {
      monitor.reset();
      monitor = *Monitor::Start(options);
      if (!monitor->elected()) _exit(1);
    }
    host.Write("found", std::to_string(period_ns(*monitor)));
  });
  other.Go();
  // Its own driver has a counter that does not move while somebody looks.
  host.Write("gpus", "uuid=GPU-a watts=100 refresh_ms=3600000\n");
  const auto monitor = Monitor::Start(options);
  unsetenv("EMLIO_STUB_NVML");
  ASSERT_TRUE(monitor.ok()) << monitor.status().ToString();
  EXPECT_FALSE((*monitor)->elected());
  EXPECT_EQ(std::to_string(period_ns(**monitor)), *ReadText(host.Path("found")));
}

TEST(HostShareTest, AWindowOutlivesTheProcessThatReadsTheCounters) {
  LiveHost host;
  MonitorOptions options;
  options.host = host.host();
  options.interval_ns = 20 * kNsPerMs;
  options.share_file = host.host().root + "share";
  OtherProcess other([&] {
    static auto monitor = *Monitor::Start(options);
    if (!monitor->elected()) _exit(1);
  });
  other.Go();
  auto monitor = Monitor::Start(options);
  ASSERT_TRUE(monitor.ok()) << monitor.status().ToString();
  EXPECT_FALSE((*monitor)->elected());
  WindowLabel label;
  label.name = "across";
  const WindowId id = (*monitor)->Open(label);
  // Until the other one, which may be late, has read for long enough.
  auto until = std::chrono::steady_clock::now() + kDeadline;
  auto before = (*monitor)->Report(id);
  while (before.ok() && !before->total.joules && std::chrono::steady_clock::now() < until) {
    Sleep(50);
    before = (*monitor)->Report(id);
  }
  ASSERT_TRUE(before.ok());
  ASSERT_TRUE(before->total.joules) << "a follower has the joules as well";
  EXPECT_FALSE((*monitor)->elected()) << "only one reads";
  other.Kill();
  until = std::chrono::steady_clock::now() + kDeadline;
  while (!(*monitor)->elected() && std::chrono::steady_clock::now() < until) Sleep(5);
  EXPECT_TRUE((*monitor)->elected());
  host.AwaitReadings(20);
  (*monitor)->Close(id);
  const auto report = (*monitor)->Report(id);
  ASSERT_TRUE(report.ok());
  ASSERT_TRUE(report->total.joules) << report->energies[0].cause;
  for (const Energy& energy : report->energies) EXPECT_EQ(energy.resets, 0U);
  const double seconds = static_cast<double>(report->end_ns - report->begin_ns) * 1e-9;
  EXPECT_NEAR(*report->total.joules / seconds, kTwoSocketsWatts, 0.05 * kTwoSocketsWatts);
}

}  // namespace
}  // namespace emlio::energy
