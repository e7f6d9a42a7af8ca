// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
// GPUs, through libraries that stand in for those of drivers.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "emlio/energy/detect.h"
#include "emlio/energy/gpu_busy.h"
#include "emlio/energy/monitor.h"
#include "emlio/energy/recorder.h"
#include "emlio/energy/sources.h"
#include "emlio/energy/testing/fake_host.h"

namespace emlio::energy {
namespace {

using ::testing::AllOf;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using testing::FakeHost;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kTwoGpus[] =
    "uuid=GPU-a pci=00000000:3B:00.0 watts=100 offset_j=123456\n"
    "uuid=GPU-b pci=00000000:AF:00.0 watts=250 offset_j=123456\n";

class NvmlTest : public ::testing::Test {
 protected:
  NvmlTest() { UseLibrary(EMLIO_STUB_NVML_LIBRARY); }
  ~NvmlTest() override { unsetenv("EMLIO_STUB_NVML"); }

  void UseLibrary(const std::string& path) {
    host_.host.nvml_library = path;
    void* library = dlopen(path.c_str(), RTLD_NOW);
    ASSERT_NE(library, nullptr) << dlerror();
    set_time_ = reinterpret_cast<void (*)(int64_t)>(dlsym(library, "StubNvmlSetTimeNs"));
    set_time_(host_.clock.NowNs());
  }
  void Gpus(const std::string& lines) {
    host_.Write("gpus", lines);
    setenv("EMLIO_STUB_NVML", host_.Path("gpus").c_str(), 1);
  }
  Finding Find() const { return FindNvml(host_.host); }
  void Advance(double seconds) {
    host_.Advance(seconds);
    set_time_(host_.clock.NowNs());
  }
  // What each GPU used in `seconds`, sampled every 100 ms.
  std::vector<Energy> Measure(double seconds) {
    Finding finding = Find();
    Recorder recorder("node", std::move(finding.meters), {}, host_.clock);
    Advance(1);
    const int64_t begin_ns = host_.clock.NowNs();
    recorder.TakeSample();
    for (int tick = 0; tick < std::lround(seconds * 10); ++tick) {
      Advance(0.1);
      recorder.TakeSample();
    }
    return recorder.Window(begin_ns, host_.clock.NowNs());
  }

  FakeHost host_;
  void (*set_time_)(int64_t) = nullptr;
};

TEST_F(NvmlTest, BesideTheCounterPowerIsIntegratedWhereBothAreCompared) {
  host_.host.gpu_power_too = true;
  Gpus("uuid=GPU-a watts=100 counter_factor=1.5\nuuid=GPU-b watts=100 power=no\n");
  Finding finding = Find();
  ASSERT_EQ(finding.meters.size(), 3u);
  EXPECT_EQ(finding.meters[1].domain.id, "gpu-power-GPU-a");
  EXPECT_EQ(finding.meters[1].domain.device, "GPU-a");
  ResolveTotal(&finding.meters);
  EXPECT_TRUE(finding.meters[0].domain.in_total);
  EXPECT_FALSE(finding.meters[1].domain.in_total);
  const auto energies = Measure(10);
  EXPECT_NEAR(*energies[0].joules, 1500, 15);
  EXPECT_EQ(energies[0].state, State::kMeasured);
  EXPECT_NEAR(*energies[1].joules, 1000, 10);
  EXPECT_EQ(energies[1].state, State::kIntegrated);
}

TEST_F(NvmlTest, WhatAFigureDependsOnIsKeptWithIt) {
  Gpus("uuid=GPU-a watts=100 driver=550.54 limit_w=700 persistence=1 mig=0\n");
  const Finding finding = Find();
  ASSERT_EQ(finding.meters.size(), 1U);
  using Fact = std::pair<std::string, std::string>;
  EXPECT_THAT(
      finding.meters[0].domain.facts,
      ElementsAre(Fact("driver", "550.54"), Fact("scope", "gpu"), Fact("power_limit_watts", "700"),
                  Fact("persistence", "on"), Fact("mig", "off"), Fact("instant_watts", "100"),
                  Fact("average_watts", "100"), Fact("processes_at_start", "0")));
}

TEST_F(NvmlTest, HowOftenACounterMovesIsMeasuredAtTheStart) {
  // The library goes by the system's clock, as a driver does.
  set_time_(-1);
  Gpus("uuid=GPU-a watts=100 refresh_ms=20\nuuid=GPU-b watts=100 refresh_ms=50\n");
  const auto as_they_are = ElementsAre(DoubleNear(20, 8), DoubleNear(50, 20));
  std::vector<double> periods_ms;
  // Whoever looks is late now and then, so it may take some attempts; a deadline against hangs.
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  do {
    MonitorOptions options;
    options.host = host_.host;
    const auto monitor = Monitor::Start(std::move(options));
    ASSERT_TRUE(monitor.ok()) << monitor.status().ToString();
    periods_ms.clear();
    for (const Domain& domain : (*monitor)->domains()) {
      if (domain.kind == DomainKind::kGpu) {
        periods_ms.push_back(static_cast<double>(domain.update_period_ns) * 1e-6);
      }
    }
  } while (!::testing::Value(periods_ms, as_they_are) && std::chrono::steady_clock::now() < until);
  EXPECT_THAT(periods_ms, as_they_are);
}

TEST_F(NvmlTest, TheTimeThatGpusAreBusyIsSummed) {
  Gpus("uuid=GPU-a busy=40\nuuid=GPU-b busy=100\nuuid=GPU-c\n");
  const auto busy = GpuBusy::Open(host_.host);
  ASSERT_NE(busy, nullptr);
  busy->Take(5 * kNsPerSecond);
  EXPECT_EQ(busy->seconds(), 0);
  busy->Take(7 * kNsPerSecond);
  EXPECT_NEAR(busy->seconds(), 2 * 1.4, 1e-9);
}

TEST_F(NvmlTest, WhereNoGpuTellsHowBusyItIsThatIsNotZero) {
  Gpus("uuid=GPU-a\n");
  EXPECT_EQ(GpuBusy::Open(host_.host), nullptr);
}

TEST_F(NvmlTest, GpusAreKnownByUuidAndAddress) {
  Gpus(kTwoGpus);
  const Finding finding = Find();
  ASSERT_EQ(finding.meters.size(), 2u);
  const Domain& domain = finding.meters[1].domain;
  EXPECT_EQ(domain.id, "gpu-GPU-b");
  EXPECT_EQ(domain.device, "GPU-b");
  EXPECT_EQ(domain.pci, "0000:af:00.0");
  EXPECT_EQ(domain.quantity, Quantity::kEnergy);
}

TEST_F(NvmlTest, OnlyGpusThatWereAskedForAreMeasured) {
  Gpus(kTwoGpus);
  host_.host.gpus = {"GPU-b"};
  EXPECT_EQ(Find().meters.at(0).domain.device, "GPU-b");
  host_.host.gpus = {"0000:3B:00.0"};
  EXPECT_EQ(Find().meters.at(0).domain.device, "GPU-a");
  host_.host.gpus = {"GPU-c"};
  EXPECT_THAT(Find().meters, IsEmpty());
  EXPECT_THAT(Find().absent, ElementsAre(Field(&Absence::cause, HasSubstr("none of which"))));
}

TEST_F(NvmlTest, TheCounterGivesTheExactEnergy) {
  Gpus(kTwoGpus);
  const auto energies = Measure(4);
  EXPECT_NEAR(*energies[0].joules, 400, 0.01);
  EXPECT_NEAR(*energies[1].joules, 1000, 0.01);
  EXPECT_EQ(energies[0].state, State::kMeasured);
}

TEST_F(NvmlTest, TheCounterSeesASquareWave) {
  Gpus("uuid=GPU-a watts=100 period_s=1.3 high_share=0.2 high=3 low=0.5 offset_j=5\n");
  const auto energies = Measure(26);
  ASSERT_TRUE(energies[0].joules) << energies[0].cause;
  EXPECT_NEAR(*energies[0].joules, 2600, 26);
}

TEST_F(NvmlTest, InstancesOfOneGpuAreTheirParentOnce) {
  Gpus("uuid=GPU-a watts=100 mig=1\nuuid=GPU-b watts=100 mig=0\n");
  host_.host.gpus = {"MIG-0-1", "MIG-0-2"};
  const Finding finding = Find();
  ASSERT_EQ(finding.meters.size(), 1u);
  EXPECT_EQ(finding.meters[0].domain.device, "GPU-a");
  EXPECT_TRUE(finding.meters[0].domain.shared);
  EXPECT_EQ(Measure(4)[0].state, State::kShared);
  EXPECT_EQ(StateName(State::kShared), "whole_device");
  host_.host.gpus.clear();
  EXPECT_FALSE(Find().meters.at(1).domain.shared);
}

TEST_F(NvmlTest, AGpuThatSomebodyUsesBeforeTheJobBeginsIsShared) {
  Gpus("uuid=GPU-a watts=100 processes=2\nuuid=GPU-b watts=100\n");
  // Whose they are nobody knows who is asked while the job runs.
  EXPECT_FALSE(Find().meters.at(0).domain.shared);
  EXPECT_EQ(Find().meters.at(0).domain.facts.back().second, "2");
  host_.host.before_the_job = true;
  const auto energies = Measure(4);
  EXPECT_EQ(energies[0].state, State::kShared);
  EXPECT_NEAR(*energies[0].joules, 400, 4);
  EXPECT_EQ(energies[1].state, State::kMeasured);
}

TEST_F(NvmlTest, OfAVirtualGpuOnlyTheWholeDeviceHasAFigure) {
  // A guest's share; a host whose guests have shares, in both ways; and one that is passed through.
  Gpus(
      "uuid=GPU-a watts=100 virtualization=2\nuuid=GPU-b watts=100 virtualization=3\n"
      "uuid=GPU-c watts=100 virtualization=4\nuuid=GPU-d watts=100 virtualization=1\n");
  const auto energies = Measure(4);
  for (const int gpu : {0, 1, 2}) {
    EXPECT_EQ(StateName(energies[gpu].state), "whole_device");
    EXPECT_THAT(energies[gpu].cause, HasSubstr("the whole GPU"));
  }
  EXPECT_THAT(energies[0].cause, HasSubstr("virtual"));
  EXPECT_EQ(energies[3].state, State::kMeasured);
}

TEST_F(NvmlTest, WithoutACounterSteadyPowerIsIntegrated) {
  Gpus("uuid=GPU-a watts=100 energy=no\nuuid=GPU-b watts=250\n");
  const auto energies = Measure(4);
  EXPECT_EQ(energies[0].state, State::kIntegrated);
  EXPECT_NEAR(*energies[0].joules, 400, 4);
  EXPECT_EQ(energies[1].state, State::kMeasured);  // each device by itself
}

TEST_F(NvmlTest, WithoutACounterASquareWaveIsNotANumber) {
  Gpus("uuid=GPU-a watts=100 period_s=1.3 high_share=0.2 high=3 low=0.5 energy=no\n");
  const auto energies = Measure(20);
  EXPECT_FALSE(energies[0].joules);
  EXPECT_THAT(energies[0].cause, HasSubstr("there is no energy counter"));
}

TEST_F(NvmlTest, ALibraryThatLacksFunctionsIsUsedWithoutThem) {
  UseLibrary(EMLIO_STUB_NVML_LIBRARY_WITHOUT_ENERGY);
  Gpus("uuid=GPU-a watts=100\n");
  EXPECT_EQ(Measure(4)[0].state, State::kIntegrated);
}

TEST_F(NvmlTest, AGpuWithNeitherFigureIsUnavailable) {
  Gpus("uuid=GPU-a energy=no power=no\n");
  const Finding finding = Find();
  EXPECT_EQ(finding.meters.at(0).counter, nullptr);
  EXPECT_THAT(finding.meters.at(0).domain.cause, HasSubstr("Not Supported"));
  EXPECT_EQ(Measure(1)[0].state, State::kUnavailable);
}

TEST_F(NvmlTest, ALostGpuIsNamed) {
  Gpus("uuid=GPU-a lost=1\nuuid=GPU-b watts=100\n");
  const Finding finding = Find();
  EXPECT_THAT(finding.meters.at(0).domain.cause, HasSubstr("GPU is lost"));
  EXPECT_EQ(finding.meters.at(0).domain.id, "gpu-0");
  EXPECT_NE(finding.meters.at(1).counter, nullptr);
}

TEST_F(NvmlTest, BesideAModuleNoCpuIsCounted) {
  Gpus("uuid=GPU-a watts=500 module=1\n");
  host_.TwoSockets();
  const Detection detection = Detect(host_.host);
  std::vector<std::string> in_total;
  for (const Meter& meter : detection.meters) {
    if (meter.domain.in_total) in_total.push_back(meter.domain.id);
  }
  EXPECT_THAT(in_total, ElementsAre("module-GPU-a"));
}

TEST_F(NvmlTest, ADriverThatIsNotLoadedIsNamed) {
  const Finding finding = Find();
  EXPECT_THAT(finding.meters, IsEmpty());
  EXPECT_THAT(finding.absent, ElementsAre(Field(&Absence::cause, HasSubstr("Driver Not Loaded"))));
}

TEST_F(NvmlTest, AnotherLibraryIsNotTakenForNvml) {
  host_.host.nvml_library = EMLIO_STUB_ROCM_LIBRARY;
  EXPECT_THAT(Find().absent, ElementsAre(Field(&Absence::cause, HasSubstr("is not NVML"))));
}

TEST_F(NvmlTest, TheEnvironmentNamesTheLibrary) {
  Gpus(kTwoGpus);
  host_.host.nvml_library.clear();
  setenv("EMLIO_NVML_LIBRARY", EMLIO_STUB_NVML_LIBRARY, 1);
  EXPECT_EQ(Find().meters.size(), 2u);
  unsetenv("EMLIO_NVML_LIBRARY");
}

TEST_F(NvmlTest, AGpuOfTheBusThatIsMeasuredIsThereOnce) {
  Gpus(kTwoGpus);
  host_.Write("sys/bus/pci/devices/0000:3b:00.0/vendor", "0x10de\n");
  host_.Write("sys/bus/pci/devices/0000:3b:00.0/class", "0x030200\n");
  int gpus = 0;
  for (const Meter& meter : Detect(host_.host).meters)
    gpus += meter.domain.kind == DomainKind::kGpu;
  EXPECT_EQ(gpus, 2);
}

TEST(RocmTest, TheFirstDieHasTheEnergyOfBoth) {
  FakeHost host;
  host.host.rocm_library = EMLIO_STUB_ROCM_LIBRARY;
  void* library = dlopen(EMLIO_STUB_ROCM_LIBRARY, RTLD_NOW);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto set_time = reinterpret_cast<void (*)(int64_t)>(dlsym(library, "StubRocmSetTimeNs"));
  set_time(0);
  Detection detection = Detect(host.host);
  std::erase_if(detection.meters,
                [](const Meter& meter) { return meter.domain.kind != DomainKind::kGpu; });
  ASSERT_EQ(detection.meters.size(), 3u);
  EXPECT_EQ(detection.meters[0].domain.pci, "0000:c1:00.0");
  EXPECT_FALSE(detection.meters[1].domain.in_total);
  EXPECT_THAT(detection.meters[1].domain.cause, HasSubstr("another die"));
  EXPECT_TRUE(detection.meters[2].domain.in_total);
  EXPECT_THAT(detection.meters[2].domain.cause, HasSubstr("gives no energy"));

  Recorder recorder("node", std::move(detection.meters), {}, host.clock);
  recorder.TakeSample();
  for (int tick = 0; tick < 50; ++tick) {
    host.Advance(0.1);
    set_time(host.clock.NowNs());
    recorder.TakeSample();
  }
  EXPECT_NEAR(*recorder.Window(0, host.clock.NowNs())[0].joules, 1000, 0.1);
}

}  // namespace
}  // namespace emlio::energy
