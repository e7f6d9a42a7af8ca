// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
// Hosts whose true energy is known, from the files that a source reads to the total that a user
// sees: within 1 % of the truth, or no number and the cause.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "emlio/energy/detect.h"
#include "emlio/energy/recorder.h"
#include "emlio/energy/testing/fake_host.h"

namespace emlio::energy {
namespace {

using ::testing::Contains;
using testing::FakeHost;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::OrdinaryUser;

class ScenariosTest : public ::testing::Test {
 protected:
  ScenariosTest() {
    host_.Write("proc/cpuinfo", "vendor_id\t: GenuineIntel\nflags\t\t: fpu vme\n");
    host_.Write("proc/stat", "cpu  100 0 100 1000 0 0 0 0 0 0\n");
  }
  void Gpus(const std::string& lines) {
    host_.host.nvml_library = EMLIO_STUB_NVML_LIBRARY;
    host_.Write("gpus", lines);
    setenv("EMLIO_STUB_NVML", host_.Path("gpus").c_str(), 1);
    void* library = dlopen(EMLIO_STUB_NVML_LIBRARY, RTLD_NOW);
    ASSERT_NE(library, nullptr) << dlerror();
    set_time_ = reinterpret_cast<void (*)(int64_t)>(dlsym(library, "StubNvmlSetTimeNs"));
    set_time_(host_.clock.NowNs());
  }
  void Advance(double seconds) {
    host_.Advance(seconds);
    if (set_time_) set_time_(host_.clock.NowNs());
  }
  // Detects, and measures that long.
  void Measure(double seconds) {
    Detection detection = Detect(host_.host);
    RecorderOptions options;
    options.root = host_.host.root;
    recorder_ = std::make_unique<Recorder>(detection.node, std::move(detection.meters), options,
                                           host_.clock);
    recorder_->TakeSample();
    const int64_t begin_ns = host_.clock.NowNs();
    for (int tick = 0; tick < std::lround(seconds * 10); ++tick) {
      Advance(0.1);
      recorder_->TakeSample();
    }
    energies_ = recorder_->Window(begin_ns, host_.clock.NowNs());
    total_ = recorder_->TotalOf(energies_);
  }
  // Of another host, of which that many watts are in the total.
  static void ExpectTotalOf(FakeHost& host, double watts) {
    Detection detection = Detect(host.host);
    Recorder recorder("node", std::move(detection.meters), {}, host.clock);
    const int64_t begin_ns = host.clock.NowNs();
    recorder.TakeSample();
    for (int tick = 0; tick < 50; ++tick) {
      host.Advance(0.1);
      recorder.TakeSample();
    }
    const Total total = recorder.TotalOf(recorder.Window(begin_ns, host.clock.NowNs()));
    ASSERT_TRUE(total.joules) << ::testing::PrintToString(total.missing);
    EXPECT_NEAR(*total.joules, 5 * watts, 0.01);
  }
  void ExpectTotal(double joules) const {
    ASSERT_TRUE(total_.joules) << ::testing::PrintToString(total_.missing);
    EXPECT_NEAR(*total_.joules, joules, joules * 0.01);
    EXPECT_EQ(total_.state, State::kMeasured);
  }
  const Energy& Of(const std::string& id) const {
    for (size_t i = 0; i < energies_.size(); ++i) {
      if (recorder_->domains()[i].id == id) return energies_[i];
    }
    ADD_FAILURE() << "no domain " << id;
    return energies_[0];
  }

  FakeHost host_;
  void (*set_time_)(int64_t) = nullptr;
  std::unique_ptr<Recorder> recorder_;
  std::vector<Energy> energies_;
  Total total_;
};

TEST_F(ScenariosTest, TwoSockets) {
  host_.TwoSockets();
  Measure(15);
  ExpectTotal(1470);
  EXPECT_NEAR(*Of("package-0").joules, 750, 0.01);
  EXPECT_NEAR(*Of("core-0").joules, 525, 0.01);
}

TEST_F(ScenariosTest, APlatformZoneAddsNothing) {
  host_.TwoSockets();
  host_.Zone("intel-rapl:2", "psys", 140, 91'000'000'000);
  Measure(15);
  ExpectTotal(1470);
  EXPECT_NEAR(*Of("psys-0").joules, 2100, 21);
}

TEST_F(ScenariosTest, APlatformZoneInFrontOfThePackageAddsNothing) {
  for (const auto& [psys, package] :
       {std::pair("intel-rapl:0", "intel-rapl:1"), std::pair("intel-rapl:1", "intel-rapl:0")}) {
    FakeHost host;
    host.Zone(psys, "psys", 140);
    host.Zone(package, "package-0", 50);
    host.Zone(std::string(package) + ":0", "core", 35);
    ExpectTotalOf(host, 50);
  }
}

TEST_F(ScenariosTest, TwelveSockets) {
  FakeHost host;
  for (int i = 0; i < 12; ++i) {
    const std::string zone = std::string("intel-rapl:") + "0123456789ab"[i];
    host.Zone(zone, "package-" + std::to_string(i), 10 + i);
    host.Zone(zone + ":0", "dram", 2);
  }
  ExpectTotalOf(host, 12 * 10 + 66 + 24);
}

TEST_F(ScenariosTest, OneWrap) {
  host_.Zone("intel-rapl:0", "package-0", 50, 262'143'328'850 - 150'000'000);
  Measure(15);
  ExpectTotal(750);
  EXPECT_EQ(Of("package-0").wraps, 1u);
}

TEST_F(ScenariosTest, ACounterThatWrapsEveryFewSeconds) {
  host_.Zone("intel-rapl:0", "package-0", 50, 100'000'000, 325'000'000);
  host_.Zone("intel-rapl:1", "package-1", 30, 200'000'000, 325'000'000);
  Measure(20);
  ExpectTotal(1600);
  EXPECT_EQ(Of("package-0").wraps, 3u);
}

TEST_F(ScenariosTest, TheMmioTwinAddsNothing) {
  host_.TwoSockets();
  host_.Zone("intel-rapl-mmio:0", "package-0", 50, 11'000'000'000);
  Measure(15);
  ExpectTotal(1470);
}

TEST_F(ScenariosTest, DiesOfOnePackage) {
  host_.Zone("intel-rapl:0", "package-0-die-0", 50);
  host_.Zone("intel-rapl:0:0", "dram", 10);
  host_.Zone("intel-rapl:1", "package-0-die-1", 30);
  host_.Zone("intel-rapl:1:0", "dram", 8);
  Measure(15);
  ExpectTotal(1470);
}

TEST_F(ScenariosTest, CoresInsideThePackageAddNothing) {
  host_.Zone("intel-rapl:0", "package-0", 50);
  host_.Zone("intel-rapl:0:0", "core", 35);
  host_.Zone("intel-rapl:0:1", "uncore", 5);
  Measure(15);
  ExpectTotal(750);
}

TEST_F(ScenariosTest, CountersThatMayNotBeReadGiveNoNumber) {
  host_.TwoSockets();
  for (const char* zone : {"intel-rapl:0", "intel-rapl:1"}) {
    chmod(host_.Path(std::string("sys/class/powercap/") + zone + "/energy_uj").c_str(), 0);
  }
  {
    const OrdinaryUser user;
    Detection detection = Detect(host_.host);
    recorder_ = std::make_unique<Recorder>("node", std::move(detection.meters), RecorderOptions{},
                                           host_.clock);
  }
  recorder_->TakeSample();
  for (int tick = 0; tick < 50; ++tick) {
    Advance(0.1);
    recorder_->TakeSample();
  }
  energies_ = recorder_->Window(0, host_.clock.NowNs());
  total_ = recorder_->TotalOf(energies_);
  EXPECT_FALSE(total_.joules);
  EXPECT_EQ(total_.state, State::kUnavailable);
  EXPECT_THAT(total_.missing, Contains("package-0"));
  EXPECT_THAT(Of("package-0").cause, HasSubstr("Permission denied"));
  EXPECT_NE(Of("package-0").fix, "");
}

TEST_F(ScenariosTest, NoCountersGiveNoNumber) {
  Measure(5);
  EXPECT_FALSE(total_.joules);
  EXPECT_EQ(total_.state, State::kUnavailable);
  for (const Energy& energy : energies_) {
    EXPECT_FALSE(energy.joules);
    EXPECT_EQ(energy.state, State::kUnavailable);
    EXPECT_NE(energy.cause, "");
    EXPECT_NE(energy.fix, "");
  }
}

TEST_F(ScenariosTest, AGpuWithoutACounterIsIntegrated) {
  host_.TwoSockets();
  Gpus("uuid=GPU-a watts=100 energy=no\nuuid=GPU-b watts=250 energy=no\n");
  Measure(15);
  ASSERT_TRUE(total_.joules);
  EXPECT_NEAR(*total_.joules, 1470 + 15 * 350, 60);
  EXPECT_EQ(total_.state, State::kIntegrated);
  EXPECT_EQ(Of("gpu-GPU-a").state, State::kIntegrated);
  EXPECT_EQ(Of("package-0").state, State::kMeasured);
}

TEST_F(ScenariosTest, ASquareWaveOfGpuPower) {
  host_.TwoSockets();
  Gpus("uuid=GPU-a watts=350 period_s=1.3 high_share=0.2 high=3 low=0.5 offset_j=123456\n");
  Measure(26);
  ExpectTotal(26 * (98 + 350));
}

TEST_F(ScenariosTest, ASquareWaveWithoutACounterGivesNoNumber) {
  host_.TwoSockets();
  Gpus("uuid=GPU-a watts=350 period_s=0.37 high_share=0.2 high=3 low=0.5 energy=no\n");
  Measure(20);
  EXPECT_FALSE(total_.joules);
  EXPECT_THAT(Of("gpu-GPU-a").cause, HasSubstr("faster than it is sampled"));
  EXPECT_THAT(total_.without, IsEmpty());
}

}  // namespace
}  // namespace emlio::energy
