// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
// CPUs, memory and boards: what each source finds in a tree, and what it says when it cannot.
#include "emlio/energy/sources.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "emlio/energy/detect.h"
#include "emlio/energy/sysfs.h"
#include "emlio/energy/testing/fake_host.h"

namespace emlio::energy {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::FakeHost;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::OrdinaryUser;
using ::testing::StartsWith;

std::vector<std::string> Ids(const std::vector<Meter>& meters) {
  std::vector<std::string> ids;
  for (const Meter& meter : meters) {
    ids.push_back(meter.domain.id + (meter.counter ? "" : " (unreadable)"));
  }
  return ids;
}

std::vector<std::string> InTotal(const Detection& detection) {
  std::vector<std::string> ids;
  for (const Meter& meter : detection.meters) {
    if (meter.domain.in_total) ids.push_back(meter.domain.source + ":" + meter.domain.id);
  }
  return ids;
}

const Domain* Find(const Detection& detection, std::string_view id) {
  for (const Meter& meter : detection.meters) {
    if (meter.domain.id == id) return &meter.domain;
  }
  return nullptr;
}

std::string Absent(const Detection& detection, std::string_view source) {
  std::string all;
  for (const Absence& absence : detection.absent) {
    if (absence.source == source) all += absence.cause + " -> " + absence.fix + "\n";
  }
  return all;
}

// A CPU of Intel, on the metal.
void Intel(const FakeHost& host) {
  host.Write("proc/cpuinfo", "vendor_id\t: GenuineIntel\nflags\t\t: fpu vme\n");
}

// The power PMU; its events count in nanoseconds of a CPU, of which `watts` are made. This needs no
// right beyond that of counting events on a CPU.
void PowerPmu(const FakeHost& host, const std::string& cpumask, double watts = 50) {
  const std::string pmu = "sys/bus/event_source/devices/power/";
  host.Write(pmu + "type", "1\n");
  host.Write(pmu + "cpumask", cpumask + "\n");
  host.Write(pmu + "format/event", "config:0-7\n");
  for (const char* event : {"energy-pkg", "energy-ram", "energy-psys"}) {
    host.Write(pmu + "events/" + event, "event=0x00\n");
    host.Write(pmu + "events/" + event + ".scale", std::to_string(watts) + "e-9\n");
    host.Write(pmu + "events/" + event + ".unit", "Joules\n");
  }
}

// Opens something for each event, so that what is found does not depend on rights.
int OpenNull(uint32_t, uint64_t, int) { return open("/dev/zero", O_RDONLY | O_CLOEXEC); }

TEST(PowercapTest, ZonesAreFoundByNameAndInOrder) {
  FakeHost host;
  host.TwoSockets();
  const Finding finding = FindPowercap(host.host, {});
  EXPECT_THAT(Ids(finding.meters),
              ElementsAre("package-0", "package-1", "core-0", "dram-0", "core-1", "dram-1"));
  EXPECT_EQ(finding.meters[3].domain.range_units, 65'712'999'613u);
  EXPECT_EQ(*finding.meters[0].counter->Read(), 11'000'000'000u);
  EXPECT_THAT(finding.absent, IsEmpty());
}

TEST(PowercapTest, APlatformAtAnyPlaceIsNoPackage) {
  for (const auto& [psys, package] :
       {std::pair("intel-rapl:0", "intel-rapl:1"), std::pair("intel-rapl:1", "intel-rapl:0")}) {
    FakeHost host;
    Intel(host);
    host.Zone(psys, "psys", 140);
    host.Zone(package, "package-0", 50);
    host.Zone(std::string(package) + ":0", "core", 35);
    const Detection detection = Detect(host.host);
    EXPECT_THAT(InTotal(detection), ElementsAre("powercap:package-0", ":dram"));
    EXPECT_THAT(Find(detection, "psys-0")->outside_total, HasSubstr("contains the packages"));
    EXPECT_EQ(Find(detection, "core-0")->outside_total, "inside the package");
  }
}

TEST(PowercapTest, TwelvePackagesHaveHexadecimalZones) {
  FakeHost host;
  Intel(host);
  for (int i = 0; i < 12; ++i) {
    const std::string zone = std::string("intel-rapl:") + "0123456789ab"[i];
    host.Zone(zone, "package-" + std::to_string(i), 50);
    host.Zone(zone + ":0", "dram", 10);
  }
  const Detection detection = Detect(host.host);
  EXPECT_EQ(InTotal(detection).size(), 24u);
  ASSERT_NE(Find(detection, "dram-11"), nullptr);
  EXPECT_THAT(Find(detection, "dram-11")->detail, HasSubstr("intel-rapl:b:0"));
}

TEST(PowercapTest, DiesOfOnePackageAreAllCounted) {
  FakeHost host;
  Intel(host);
  host.Zone("intel-rapl:0", "package-0-die-0", 50);
  host.Zone("intel-rapl:0:0", "dram", 10);
  host.Zone("intel-rapl:1", "package-0-die-1", 30);
  host.Zone("intel-rapl:1:0", "dram", 8);
  EXPECT_THAT(InTotal(Detect(host.host)),
              ElementsAre("powercap:package-0-die-0", "powercap:package-0-die-1",
                          "powercap:dram-0-die-0", "powercap:dram-0-die-1"));
}

TEST(PowercapTest, TheMmioTwinOfAPackageIsTheSameJoules) {
  FakeHost host;
  Intel(host);
  host.TwoSockets();
  host.Zone("intel-rapl-mmio:0", "package-0", 50);
  const Detection detection = Detect(host.host);
  EXPECT_EQ(InTotal(detection).size(), 4u);
  EXPECT_THAT(Absent(detection, "powercap-mmio"),
              HasSubstr("the same joules as those of powercap"));
}

TEST(PowercapTest, WithoutTheMsrZonesThoseOfMmioAreUsed) {
  FakeHost host;
  Intel(host);
  host.Zone("intel-rapl-mmio:0", "package-0", 50);
  EXPECT_THAT(InTotal(Detect(host.host)), Contains("powercap-mmio:package-0"));
}

TEST(PowercapTest, AmdHasPackagesAndCoresOnly) {
  FakeHost host;
  host.Write("proc/cpuinfo", "vendor_id\t: AuthenticAMD\nflags\t\t: fpu\n");
  host.Zone("intel-rapl:0", "package-0", 50);
  host.Zone("intel-rapl:0:0", "core", 35);
  host.Zone("intel-rapl:0:1", "dram", 10);
  const Detection detection = Detect(host.host);
  EXPECT_THAT(InTotal(detection), ElementsAre("powercap:package-0", ":dram"));
  EXPECT_THAT(Find(detection, "dram")->cause, HasSubstr("AMD CPUs have no dram counter"));
}

TEST(DetectTest, LimitsOfMemoryAreThoseThatWereGiven) {
  FakeHost host;
  Intel(host);
  host.TwoSockets();
  EXPECT_EQ(Find(Detect(host.host), "dram-0")->plausible_watts, 180);
  host.host.dram_watts = "0.5:120";
  const Detection detection = Detect(host.host);
  for (const char* id : {"dram-0", "dram-1"}) {
    EXPECT_EQ(Find(detection, id)->plausible_watts, 120);
    EXPECT_EQ(Find(detection, id)->plausible_from_watts, 0.5);
  }
  EXPECT_EQ(Find(detection, "package-0")->plausible_watts, 1000);
  host.host.dram_watts.clear();
  setenv("EMLIO_DRAM_WATTS", "1:90", 1);
  EXPECT_EQ(Find(Detect(host.host), "dram-0")->plausible_watts, 90);
  setenv("EMLIO_DRAM_WATTS", "90:1", 1);
  EXPECT_EQ(Find(Detect(host.host), "dram-0")->plausible_watts, 180);
  unsetenv("EMLIO_DRAM_WATTS");
  for (const char* text :
       {"", ":", "5", "5:", ":5", "5:5", "6:5", "-1:5", "nan:5", "0:inf", "0:1001", "1:2:3"}) {
    EXPECT_FALSE(ParseWattLimits(text).ok()) << text;
  }
}

TEST(PowercapTest, ZonesThatNobodyKnowsAreNotCounted) {
  FakeHost host;
  host.Zone("intel-rapl:0", "package-0", 50);
  host.Zone("intel-rapl:0:0", "gpu-tile", 35);
  host.Zone("intel-rapl:1", "dram", 35);
  const Finding finding = FindPowercap(host.host, {});
  EXPECT_THAT(Ids(finding.meters), ElementsAre("package-0"));
  EXPECT_EQ(finding.absent.size(), 2u);
}

TEST(PowercapTest, TheSameZoneTwiceIsCountedOnce) {
  FakeHost host;
  Intel(host);
  host.Zone("intel-rapl:0", "package-0", 50);
  host.Zone("intel-rapl:1", "package-0", 50);
  const Detection detection = Detect(host.host);
  EXPECT_THAT(InTotal(detection), ElementsAre("powercap:package-0", ":dram"));
  EXPECT_THAT(Absent(detection, "powercap"), HasSubstr("package-0 is there twice"));
}

TEST(PowercapTest, WhatCannotBeReadIsNamedWithTheRule) {
  FakeHost host;
  Intel(host);
  host.TwoSockets();
  for (const char* zone : {"intel-rapl:0", "intel-rapl:1"}) {
    chmod(host.Path(std::string("sys/class/powercap/") + zone + "/energy_uj").c_str(), 0);
  }
  const OrdinaryUser user;
  const Detection detection = Detect(host.host);
  const Domain* package = Find(detection, "package-0");
  ASSERT_NE(package, nullptr);
  EXPECT_THAT(package->cause, AllOf(HasSubstr("energy_uj"), HasSubstr("Permission denied")));
  EXPECT_THAT(package->fix,
              AllOf(HasSubstr("udev"), HasSubstr("CAP_PERFMON"), Not(HasSubstr("root"))));
  EXPECT_EQ(Find(detection, "dram-0")->cause, "");
}

TEST(PowercapTest, FilesThatHoldNoNumberAreNotReadable) {
  for (const char* text : {"", "text\n", "1 2\n"}) {
    FakeHost host;
    host.Zone("intel-rapl:0", "package-0", 50);
    host.Write("sys/class/powercap/intel-rapl:0/energy_uj", text);
    EXPECT_THAT(Ids(FindPowercap(host.host, {}).meters), ElementsAre("package-0 (unreadable)"));
  }
  FakeHost host;
  host.Zone("intel-rapl:0", "package-0", 50);
  unlink(host.Path("sys/class/powercap/intel-rapl:0/energy_uj").c_str());
  host.Write("sys/class/powercap/intel-rapl:0/energy_uj/x", "");
  EXPECT_THAT(Ids(FindPowercap(host.host, {}).meters), ElementsAre("package-0 (unreadable)"));
}

TEST(PowercapTest, FourCausesGiveFourMessages) {
  FakeHost bare;
  Intel(bare);
  const std::string none = Find(Detect(bare.host), "package")->cause;
  const std::string none_fix = Find(Detect(bare.host), "package")->fix;
  EXPECT_THAT(none, HasSubstr("no intel-rapl zone"));
  EXPECT_THAT(none_fix, HasSubstr("modprobe intel_rapl_msr"));

  FakeHost guest;
  guest.Write("proc/cpuinfo", "vendor_id\t: GenuineIntel\nflags\t\t: fpu hypervisor\n");
  const Detection in_guest = Detect(guest.host);
  EXPECT_THAT(Find(in_guest, "package")->cause, HasSubstr("virtual machine"));
  EXPECT_THAT(Find(in_guest, "package")->fix, HasSubstr("physical host"));

  FakeHost container;
  Intel(container);
  container.Write("sys/class/powercap/intel-rapl:0/nothing", "");
  const Detection masked = Detect(container.host);
  EXPECT_THAT(Find(masked, "package")->cause, HasSubstr("container masks"));
  EXPECT_THAT(Find(masked, "package")->fix, HasSubstr("mount the host's"));

  FakeHost locked;
  Intel(locked);
  locked.Zone("intel-rapl:0", "package-0", 50);
  chmod(locked.Path("sys/class/powercap/intel-rapl:0/energy_uj").c_str(), 0);
  const OrdinaryUser user;
  const Detection refused = Detect(locked.host);
  const std::vector<const Domain*> all = {Find(in_guest, "package"), Find(masked, "package"),
                                          Find(refused, "package-0")};
  EXPECT_THAT(all[2]->cause, HasSubstr("Permission denied"));
  std::set<std::string> causes = {none};
  std::set<std::string> fixes = {none_fix};
  for (const Domain* domain : all) {
    causes.insert(domain->cause);
    fixes.insert(domain->fix);
    EXPECT_THAT(domain->fix, Not(HasSubstr("root")));
  }
  EXPECT_EQ(causes.size(), 4u);
  EXPECT_EQ(fixes.size(), 4u);
}

TEST(PowercapTest, UnderAHypervisorFiguresAreVirtualised) {
  FakeHost host;
  host.Write("proc/cpuinfo", "vendor_id\t: GenuineIntel\nflags\t\t: fpu hypervisor\n");
  host.TwoSockets();
  const Detection detection = Detect(host.host);
  EXPECT_TRUE(Find(detection, "package-0")->virtualised);
  EXPECT_FALSE(Find(detection, "package-0")->filtered);
}

TEST(HwmonTest, UnderAHypervisorAmdSocketsAreVirtualisedAndOtherMetersAreNot) {
  FakeHost host;
  host.Write("proc/cpuinfo", "vendor_id\t: AuthenticAMD\nflags\t\t: fpu hypervisor\n");
  host.Write("sys/class/hwmon/hwmon3/name", "amd_energy\n");
  host.Write("sys/class/hwmon/hwmon3/energy17_label", "Esocket0\n");
  host.Write("sys/class/hwmon/hwmon3/energy17_input", "123456789\n");
  host.Write("sys/class/hwmon/hwmon0/name", "power_meter\n");
  host.Write("sys/class/hwmon/hwmon0/power1_average", "400000000\n");
  const Detection detection = Detect(host.host);
  EXPECT_TRUE(Find(detection, "package-0")->virtualised);
  EXPECT_FALSE(Find(detection, "meter-0")->virtualised);
}

TEST(PowercapTest, EnergyFilteringMarksEveryDomain) {
  FakeHost host;
  host.Write("proc/cpuinfo", "vendor_id\t: GenuineIntel\nflags\t\t: fpu sgx\n");
  host.TwoSockets();
  const Detection detection = Detect(host.host);
  using Fact = std::pair<std::string, std::string>;
  for (const Meter& meter : detection.meters) {
    EXPECT_TRUE(meter.domain.filtered);
    EXPECT_THAT(meter.domain.facts, Contains(Fact("energy_filtering", "on")));
  }
  // Where nobody can tell, that is recorded.
  FakeHost other;
  Intel(other);
  other.TwoSockets();
  EXPECT_THAT(Find(Detect(other.host), "package-0")->facts,
              Contains(Fact("energy_filtering", "unknown")));
}

TEST(PerfTest, OneEventAPackageIsOpenedOnItsCpu) {
  FakeHost host;
  PowerPmu(host, "0,36");
  host.Write("sys/devices/system/cpu/cpu0/topology/physical_package_id", "0\n");
  host.Write("sys/devices/system/cpu/cpu36/topology/physical_package_id", "1\n");
  std::vector<int> cpus;
  host.host.perf_open = [&](uint32_t type, uint64_t config, int cpu) {
    EXPECT_EQ(type, 1u);
    EXPECT_EQ(config, 0u);
    cpus.push_back(cpu);
    return OpenNull(type, config, cpu);
  };
  const Finding finding = FindPerf(host.host, {});
  EXPECT_THAT(Ids(finding.meters),
              ElementsAre("package-0", "package-1", "dram-0", "dram-1", "psys-0", "psys-1"));
  EXPECT_THAT(cpus, ElementsAre(0, 36, 0, 36, 0, 36));
}

TEST(PerfTest, SeveralCpusOfOnePackageAreItsDies) {
  FakeHost host;
  PowerPmu(host, "0,8");
  for (const auto& [cpu, die] : {std::pair("cpu0", "0\n"), std::pair("cpu8", "1\n")}) {
    const std::string topology = std::string("sys/devices/system/cpu/") + cpu + "/topology/";
    host.Write(topology + "physical_package_id", "0\n");
    host.Write(topology + "die_id", die);
  }
  host.host.perf_open = OpenNull;
  EXPECT_THAT(Ids(FindPerf(host.host, {}).meters),
              ElementsAre("package-0-die-0", "package-0-die-1", "dram-0-die-0", "dram-0-die-1",
                          "psys-0", "psys-1"));
}

TEST(PerfTest, PerfComesBeforePowercap) {
  FakeHost host;
  Intel(host);
  PowerPmu(host, "0,1");
  host.TwoSockets();
  host.host.perf_open = OpenNull;
  const Detection detection = Detect(host.host);
  EXPECT_EQ(Find(detection, "package-0")->source, "perf");
  EXPECT_EQ(Find(detection, "core-0")->source, "powercap");  // perf has none here
  EXPECT_THAT(Absent(detection, "powercap"), HasSubstr("the same joules as those of perf"));
}

TEST(PerfTest, ASourceThatReadsAllIsPreferredToOneThatReadsSome) {
  FakeHost host;
  Intel(host);
  PowerPmu(host, "0,1");
  host.TwoSockets();
  host.host.perf_open = [](uint32_t type, uint64_t config, int cpu) {
    return cpu == 1 ? -ENODEV : OpenNull(type, config, cpu);
  };
  const Detection detection = Detect(host.host);
  EXPECT_THAT(InTotal(detection), ElementsAre("powercap:package-0", "powercap:package-1",
                                              "powercap:dram-0", "powercap:dram-1"));
}

TEST(PerfTest, ASourceThatDoesNotListASocketIsNotTakenForAllOfThem) {
  FakeHost host;
  Intel(host);
  PowerPmu(host, "0");
  host.TwoSockets();
  host.host.perf_open = OpenNull;
  EXPECT_THAT(InTotal(Detect(host.host)), ElementsAre("powercap:package-0", "powercap:package-1",
                                                      "powercap:dram-0", "powercap:dram-1"));
  for (const char* zone : {"intel-rapl:0", "intel-rapl:1"}) {
    chmod(host.Path(std::string("sys/class/powercap/") + zone + "/energy_uj").c_str(), 0);
  }
  const OrdinaryUser user;
  const Detection detection = Detect(host.host);
  EXPECT_THAT(InTotal(detection),
              ElementsAre("perf:package-0", ":package-1", "powercap:dram-0", "powercap:dram-1"));
  EXPECT_THAT(Find(detection, "package-1")->cause, HasSubstr("does not list it"));
}

// All four know of the packages; one after the other is taken away.
TEST(DetectTest, SourcesAreTriedInTheirOrderAndTheOthersSayWhyNot) {
  const std::vector<std::string> order = {"perf", "powercap", "powercap-mmio", "hwmon"};
  for (size_t first = 0; first < order.size(); ++first) {
    FakeHost host;
    Intel(host);
    if (first <= 0) PowerPmu(host, "0");
    if (first <= 1) host.Zone("intel-rapl:0", "package-0", 50);
    if (first <= 2) host.Zone("intel-rapl-mmio:0", "package-0", 50);
    host.Write("sys/class/hwmon/hwmon3/name", "amd_energy\n");
    host.Write("sys/class/hwmon/hwmon3/energy17_label", "Esocket0\n");
    host.Write("sys/class/hwmon/hwmon3/energy17_input", "123456789\n");
    host.host.perf_open = OpenNull;
    const Detection detection = Detect(host.host);
    EXPECT_EQ(Find(detection, "package-0")->source, order[first]);
    for (size_t other = 0; other < order.size(); ++other) {
      if (other == first) continue;
      EXPECT_NE(Absent(detection, order[other]), "") << order[other] << " beside " << order[first];
    }
    EXPECT_THAT(InTotal(detection), Contains(order[first] + ":package-0"));
  }
}

TEST(PerfTest, EachRefusalHasItsOwnFix) {
  FakeHost host;
  PowerPmu(host, "0");
  host.Write("proc/sys/kernel/perf_event_paranoid", "2\n");
  const auto fix = [&](int error_number) {
    host.host.perf_open = [error_number](uint32_t, uint64_t, int) { return -error_number; };
    return FindPerf(host.host, {}).meters.at(0).domain.fix;
  };
  EXPECT_THAT(fix(EACCES), AllOf(HasSubstr("CAP_PERFMON"), HasSubstr("perf_event_paranoid"),
                                 HasSubstr("it is 2"), Not(HasSubstr("root"))));
  EXPECT_THAT(fix(EPERM), HasSubstr("seccomp"));
  EXPECT_THAT(fix(ENOENT), HasSubstr("does not have"));
}

TEST(PerfTest, AnotherUnitThanJoulesIsRefused) {
  FakeHost host;
  PowerPmu(host, "0");
  host.Write("sys/bus/event_source/devices/power/events/energy-pkg.unit", "Furlongs\n");
  host.host.perf_open = OpenNull;
  const Finding finding = FindPerf(host.host, {});
  EXPECT_THAT(Ids(finding.meters), ElementsAre("dram-0", "psys-0"));
  EXPECT_DOUBLE_EQ(finding.meters[0].domain.per_unit, 50e-9);
  EXPECT_THAT(finding.absent,
              ElementsAre(Field(&Absence::cause, HasSubstr("'Furlongs', not in Joules"))));
}

TEST(PerfTest, AmdMemoryEventsAreNotBelieved) {
  FakeHost host;
  PowerPmu(host, "0");
  host.host.perf_open = OpenNull;
  CpuFacts amd;
  amd.amd = true;
  EXPECT_THAT(Ids(FindPerf(host.host, amd).meters), ElementsAre("package-0"));
}

TEST(PerfTest, WithoutAPmuTheModuleIsNamed) {
  FakeHost host;
  const Finding finding = FindPerf(host.host, {});
  EXPECT_THAT(finding.meters, IsEmpty());
  EXPECT_THAT(finding.absent, ElementsAre(Field(&Absence::fix, HasSubstr("modprobe rapl"))));
}

TEST(PerfTest, TheSystemCountsWhatItIsAskedTo) {
  FakeHost host;
  PowerPmu(host, "0", 50);
  const Finding finding = FindPerf(host.host, {});
  ASSERT_EQ(finding.meters.size(), 3u);
  const Meter& meter = finding.meters[0];
  if (!meter.counter)
    GTEST_SKIP() << "NOT TESTED, perf_event_open is refused: " << meter.domain.cause;
  const auto now_ns = [] {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * kNsPerSecond + now.tv_nsec;
  };
  // The clock is read on both sides of the counter: the truth lies between.
  const int64_t a_ns = now_ns();
  const uint64_t first = *meter.counter->Read();
  const int64_t b_ns = now_ns();
  usleep(50'000);
  const int64_t c_ns = now_ns();
  const uint64_t last = *meter.counter->Read();
  const int64_t d_ns = now_ns();
  const double joules = static_cast<double>(last - first) * meter.domain.per_unit;
  EXPECT_GE(joules, 50e-9 * static_cast<double>(c_ns - b_ns) * 0.99);
  EXPECT_LE(joules, 50e-9 * static_cast<double>(d_ns - a_ns) * 1.01);
}

void Grace(const FakeHost& host, int number, const std::string& part, const std::string& microwatts,
           const std::string& place = "device/") {
  const std::string folder = "sys/class/hwmon/hwmon" + std::to_string(number) + "/";
  host.Write(folder + "name", "power_meter\n");
  host.Write(folder + "device/power1_oem_info", part + " Power Socket 0\n");
  host.Write(folder + place + "power1_average", microwatts + "\n");
  host.Write(folder + place + "power1_average_interval", "50\n");
}

TEST(HwmonTest, OfGraceOnlyTheSocketIsInTheTotal) {
  FakeHost host;
  Grace(host, 0, "Module", "300000000");
  Grace(host, 1, "Grace", "120000000", "");
  Grace(host, 2, "CPU", "80000000");
  Grace(host, 10, "SysIO", "20000000");
  const Detection detection = Detect(host.host);
  EXPECT_THAT(InTotal(detection), ElementsAre("hwmon:grace-0"));
  EXPECT_EQ(Find(detection, "dram"), nullptr);  // it is part of the socket
  const Domain* grace = Find(detection, "grace-0");
  EXPECT_EQ(grace->quantity, Quantity::kPower);
  EXPECT_EQ(grace->refresh_ns, 50 * kNsPerMs);
  EXPECT_THAT(Find(detection, "module-0")->outside_total, StartsWith("contains CPU and GPU"));
  EXPECT_EQ(Find(detection, "cpu-0")->outside_total, "inside the Grace socket");
}

TEST(HwmonTest, AMeterOfTheBoardIsShownAndNotAdded) {
  FakeHost host;
  Intel(host);
  host.Zone("intel-rapl:0", "package-0", 50);
  host.Write("sys/class/hwmon/hwmon0/name", "power_meter\n");
  host.Write("sys/class/hwmon/hwmon0/power1_average", "400000000\n");
  const Detection detection = Detect(host.host);
  ASSERT_NE(Find(detection, "meter-0"), nullptr);
  EXPECT_FALSE(Find(detection, "meter-0")->in_total);
}

TEST(HwmonTest, AmdSocketsAreCounters) {
  FakeHost host;
  host.Write("proc/cpuinfo", "vendor_id\t: AuthenticAMD\nflags\t\t: fpu\n");
  const std::string folder = "sys/class/hwmon/hwmon3/";
  host.Write(folder + "name", "amd_energy\n");
  host.Write(folder + "energy1_label", "Ecore000\n");
  host.Write(folder + "energy1_input", "5\n");
  host.Write(folder + "energy17_label", "Esocket0\n");
  host.Write(folder + "energy17_input", "123456789\n");
  const Detection detection = Detect(host.host);
  EXPECT_THAT(InTotal(detection), ElementsAre("hwmon:package-0", ":dram"));
  EXPECT_EQ(*detection.meters[0].counter->Read(), 123456789u);
}

TEST(HwmonTest, APartWhosePowerIsMissingSaysSo) {
  FakeHost host;
  host.Write("sys/class/hwmon/hwmon0/device/power1_oem_info", "Grace Power Socket 0\n");
  const Finding finding = FindHwmon(host.host, {});
  EXPECT_THAT(Ids(finding.meters), ElementsAre("grace-0 (unreadable)"));
  EXPECT_THAT(finding.meters[0].domain.cause, HasSubstr("power1_average"));
}

TEST(DetectTest, AHostWithoutCountersSaysWhyForEachDomain) {
  FakeHost host;
  const Detection detection = Detect(host.host);
  EXPECT_THAT(Ids(detection.meters), ElementsAre("package (unreadable)", "dram (unreadable)"));
  for (const Meter& meter : detection.meters) {
    EXPECT_NE(meter.domain.cause, "");
    EXPECT_NE(meter.domain.fix, "");
    EXPECT_THAT(meter.domain.fix, Not(HasSubstr("root")));
    EXPECT_THAT(meter.domain.cause, Not(HasSubstr("this CPU shows no energy of its memory")));
  }
  for (const char* source : {"perf", "powercap", "powercap-mmio", "hwmon", "nvml", "rocm"}) {
    EXPECT_NE(Absent(detection, source), "") << source;
  }
}

TEST(DetectTest, ASocketThatNoZoneShowsIsMissingAndNotAbsent) {
  const auto two_sockets = [](FakeHost* host) {
    host->TwoSockets();
    host->Write("proc/cpuinfo",
                "vendor_id\t: GenuineIntel\nphysical id\t: 0\n\nphysical id\t: 1\n");
  };
  const auto missing = [](const FakeHost& host) {
    std::vector<std::string> ids;
    for (const Meter& meter : Detect(host.host).meters) {
      if (meter.counter == nullptr && meter.domain.in_total) ids.push_back(meter.domain.id);
    }
    return ids;
  };
  {
    FakeHost host;
    two_sockets(&host);
    EXPECT_THAT(missing(host), IsEmpty());
  }
  for (const char* name : {"pkg-1", "package-0"}) {
    FakeHost host;
    two_sockets(&host);
    host.Write("sys/class/powercap/intel-rapl:1/name", std::string(name) + "\n");
    EXPECT_THAT(missing(host), Contains("package-1")) << name;
  }
  FakeHost host;
  two_sockets(&host);
  std::filesystem::remove_all(host.Path("sys/class/powercap/intel-rapl:1:1"));
  EXPECT_THAT(missing(host), ElementsAre("dram-1"));
  // On real hosts the second socket comes behind many CPUs of the first.
  std::string cpuinfo;
  for (int cpu = 0; cpu < 512; ++cpu) {
    cpuinfo += "physical id\t: " + std::to_string(cpu / 256) +
               "\nflags\t\t: " + std::string(1000, 'x') + "\n\n";
  }
  host.Write("proc/cpuinfo", cpuinfo);
  EXPECT_EQ(ReadCpuFacts(host.host.root).sockets, 2U);
}

TEST(DetectTest, AGpuThatIsAskedForAndNotThereIsMissing) {
  FakeHost host;
  host.TwoSockets();
  for (const char* id : {"0", "GPU-typo", "0000:99:00.0", "MIG-7"}) {
    host.host.gpus = {id};
    std::vector<std::string> missing;
    for (const Meter& meter : Detect(host.host).meters) {
      if (meter.domain.kind == DomainKind::kGpu) missing.push_back(meter.domain.id);
    }
    EXPECT_THAT(missing, ElementsAre("gpu-" + std::string(id)));
  }
}

TEST(DetectTest, AGpuOnTheBusWithoutItsLibraryIsMissingAndNotAbsent) {
  FakeHost host;
  host.Write("sys/bus/pci/devices/0000:3b:00.0/vendor", "0x10de\n");
  host.Write("sys/bus/pci/devices/0000:3b:00.0/class", "0x030200\n");
  host.Write("sys/bus/pci/devices/0000:c1:00.0/vendor", "0x1002\n");
  host.Write("sys/bus/pci/devices/0000:c1:00.0/class", "0x120000\n");
  host.Write("sys/bus/pci/devices/0000:00:02.0/vendor", "0x8086\n");
  host.Write("sys/bus/pci/devices/0000:00:02.0/class", "0x030000\n");
  const Detection detection = Detect(host.host);
  const Domain* nvidia = Find(detection, "gpu-0000:3b:00.0");
  const Domain* amd = Find(detection, "gpu-0000:c1:00.0");
  ASSERT_TRUE(nvidia != nullptr && amd != nullptr);
  EXPECT_TRUE(nvidia->in_total);
  EXPECT_THAT(nvidia->cause, HasSubstr("NVML cannot be loaded"));
  EXPECT_THAT(nvidia->fix, HasSubstr("EMLIO_NVML_LIBRARY"));
  EXPECT_THAT(amd->cause, HasSubstr("ROCm SMI cannot be loaded"));
  EXPECT_EQ(Find(detection, "gpu-0000:00:02.0"), nullptr);
}

// Whatever kinds are there together, those in the total do not overlap.
TEST(DetectTest, KindsThatOverlapAreNeverBothInTheTotal) {
  constexpr std::pair<DomainKind, DomainKind> kOverlapping[] = {
      {DomainKind::kPackage, DomainKind::kCore},   {DomainKind::kPackage, DomainKind::kUncore},
      {DomainKind::kPackage, DomainKind::kPsys},   {DomainKind::kPackage, DomainKind::kModule},
      {DomainKind::kPackage, DomainKind::kGrace},  {DomainKind::kPackage, DomainKind::kMeter},
      {DomainKind::kDram, DomainKind::kPsys},      {DomainKind::kDram, DomainKind::kModule},
      {DomainKind::kGrace, DomainKind::kModule},   {DomainKind::kGrace, DomainKind::kCpu},
      {DomainKind::kGrace, DomainKind::kSysIo},    {DomainKind::kGrace, DomainKind::kMeter},
      {DomainKind::kModule, DomainKind::kCpu},     {DomainKind::kModule, DomainKind::kPsys},
      {DomainKind::kGpu, DomainKind::kMeter},      {DomainKind::kGpu, DomainKind::kGpuPower},
      {DomainKind::kModule, DomainKind::kGpuPower}};
  for (unsigned kinds = 0; kinds < 1U << kDomainKinds; ++kinds) {
    for (const char* source : {"nvml", "hwmon"}) {
      std::vector<Meter> meters;
      for (int kind = 0; kind < kDomainKinds; ++kind) {
        if (kinds >> kind & 1) {
          meters.push_back({MakeDomain(static_cast<DomainKind>(kind), source, 0, -1), nullptr});
        }
      }
      ResolveTotal(&meters);
      std::vector<bool> in(kDomainKinds);
      for (const Meter& meter : meters) {
        in[static_cast<size_t>(meter.domain.kind)] = meter.domain.in_total;
        EXPECT_NE(meter.domain.in_total, !meter.domain.outside_total.empty());
      }
      for (const auto& [a, b] : kOverlapping) {
        ASSERT_FALSE(in[static_cast<size_t>(a)] && in[static_cast<size_t>(b)])
            << KindName(a) << " and " << KindName(b);
      }
    }
  }
}

}  // namespace
}  // namespace emlio::energy
