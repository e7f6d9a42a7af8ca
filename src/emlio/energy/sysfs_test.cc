// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy/sysfs.h"

#include <gtest/gtest.h>

#include "emlio/energy/testing/fake_host.h"

namespace emlio::energy {
namespace {

using testing::FakeHost;

TEST(SysfsTest, ANumberIsDigitsAndOneLinesEnd) {
  EXPECT_EQ(ParseNumber("262143328850\n"), 262143328850u);
  EXPECT_EQ(ParseNumber("007"), 7u);
  for (const char* text :
       {"", "\n", " 5", "5 ", "5\n\n", "-5", "0x5", "5.0", "18446744073709551616"}) {
    EXPECT_EQ(ParseNumber(text), std::nullopt) << text;
  }
}

TEST(SysfsTest, AScaleIsAPositiveNumber) {
  EXPECT_DOUBLE_EQ(*ParseScale("2.3283064365386962890625e-10\n"), 0x1p-32);
  for (const char* text : {"", "0", "-1", "nan", "inf", "1e-10 J"}) {
    EXPECT_EQ(ParseScale(text), std::nullopt) << text;
  }
}

TEST(SysfsTest, CpuListsAreRanges) {
  EXPECT_EQ(ParseCpuList("0\n"), (std::vector<int>{0}));
  EXPECT_EQ(ParseCpuList("0-2,36"), (std::vector<int>{0, 1, 2, 36}));
  for (const char* text : {"", "a", "1-0", "3,1", "0-", "0-99999999999", "4096", "0--1", "1,1"}) {
    EXPECT_EQ(ParseCpuList(text), std::nullopt) << text;
  }
}

TEST(SysfsTest, EventsArePlacedWhereTheFormatSays) {
  EXPECT_EQ(ParseEvent("event=0x02\n", "config:0-7\n"), 2u);
  EXPECT_EQ(ParseEvent("event=0x03", "config:8-15"), 0x300u);
  EXPECT_EQ(ParseEvent("event=0x1", "config:0"), 1u);
  EXPECT_EQ(ParseEvent("event=0xffffffffffffffff", "config:0-63"), ~uint64_t{0});
  for (const auto& [event, format] :
       std::vector<std::pair<const char*, const char*>>{{"event=0x100", "config:0-7"},
                                                        {"event=2", "config:0-7"},
                                                        {"event=0x", "config:0-7"},
                                                        {"event=0x2,umask=0x1", "config:0-7"},
                                                        {"event=0x2", "config1:0-7"},
                                                        {"event=0x2", "config:7-0"},
                                                        {"event=0x2", "config:0-64"},
                                                        {"event=0x2", ""}}) {
    EXPECT_EQ(ParseEvent(event, format), std::nullopt) << event << " " << format;
  }
}

TEST(SysfsTest, ZonesAreKnownByName) {
  EXPECT_EQ(ParseZoneName("package-0\n")->socket, 0);
  EXPECT_EQ(ParseZoneName("package-11")->socket, 11);
  EXPECT_EQ(ParseZoneName("package-1-die-3")->socket, 1);
  EXPECT_EQ(ParseZoneName("package-1-die-3")->die, 3);
  EXPECT_EQ(ParseZoneName("package-0")->die, -1);
  EXPECT_EQ(ParseZoneName("psys")->kind, DomainKind::kPsys);
  for (const char* text : {"", "package", "package-", "package-x", "package-0-die-", "package-0-1",
                           "package-99999999999", "Core", "core-0"}) {
    EXPECT_FALSE(ParseZoneName(text)) << text;
  }
}

TEST(SysfsTest, GraceSaysWhichPartAMeterIsOf) {
  EXPECT_EQ(ParseGraceInfo("Grace Power Socket 1\n")->kind, DomainKind::kGrace);
  EXPECT_EQ(ParseGraceInfo("Grace Power Socket 1\n")->socket, 1);
  EXPECT_EQ(ParseGraceInfo("CPU Power Socket 0")->kind, DomainKind::kCpu);
  EXPECT_EQ(ParseGraceInfo("SysIO Power Socket 0")->kind, DomainKind::kSysIo);
  EXPECT_EQ(ParseGraceInfo("Module Power Socket 0")->kind, DomainKind::kModule);
  EXPECT_FALSE(ParseGraceInfo("Fan Power Socket 0"));
  EXPECT_FALSE(ParseGraceInfo("CPU Power Socket "));
}

TEST(SysfsTest, BusyTimeIsAllButIdleAndWaiting) {
  EXPECT_EQ(ParseBusyTicks("cpu  10 20 30 1000 2000 5 6 7 0 0\ncpu0 1 1 1 1\n"), 71u);
  EXPECT_EQ(ParseBusyTicks("cpu0 10 20 30 1000 2000 5 6\n"), std::nullopt);
  EXPECT_EQ(ParseBusyTicks("cpu  10 20 30"), std::nullopt);
  EXPECT_EQ(ParseBusyTicks(""), std::nullopt);
}

TEST(SysfsTest, NamesAreInTheOrderOfTheirNumbers) {
  FakeHost host;
  for (const char* name : {"hwmon10", "hwmon2", "hwmon0"}) host.Write(std::string(name) + "/x", "");
  EXPECT_EQ(SortedNames(host.host.root), (std::vector<std::string>{"hwmon0", "hwmon2", "hwmon10"}));
  EXPECT_TRUE(SortedNames(host.Path("nowhere")).empty());
}

TEST(SysfsTest, ACounterThatCannotBeReadComesBack) {
  FakeHost host;
  auto counter = SysfsCounter(host.Path("c"));
  EXPECT_EQ(counter->Read().status().code(), Code::kNotFound);
  host.Write("c", "5\n");
  EXPECT_EQ(*counter->Read(), 5u);
  host.Write("c", "");
  EXPECT_EQ(counter->Read().status().code(), Code::kCorrupt);
  host.Write("c", "no number\n");
  EXPECT_EQ(counter->Read().status().code(), Code::kCorrupt);
  host.Write("c", "6\n");
  EXPECT_EQ(*counter->Read(), 6u);
  host.Write("folder/x", "");
  EXPECT_FALSE(SysfsCounter(host.Path("folder"))->Read().ok());
}

TEST(SysfsTest, WhatTheCpuIsSaysHowFarItIsBelieved) {
  FakeHost host;
  EXPECT_EQ(ReadCpuFacts(host.host.root).filtering, CpuFacts::Filtering::kUnknown);
  host.Write("proc/cpuinfo",
             "processor\t: 0\nvendor_id\t: AuthenticAMD\nflags\t\t: fpu sgx hypervisor\n");
  EXPECT_TRUE(ReadCpuFacts(host.host.root).amd);
  EXPECT_TRUE(ReadCpuFacts(host.host.root).hypervisor);
  EXPECT_EQ(ReadCpuFacts(host.host.root).filtering, CpuFacts::Filtering::kOff);
  host.Write("proc/cpuinfo", "vendor_id\t: GenuineIntel\nflags\t\t: fpu sgx vme\n");
  EXPECT_FALSE(ReadCpuFacts(host.host.root).hypervisor);
  EXPECT_EQ(ReadCpuFacts(host.host.root).filtering, CpuFacts::Filtering::kOn);
  host.Write("proc/cpuinfo", "vendor_id\t: GenuineIntel\nflags\t\t: fpu vme\n");
  host.Write("dev/cpu/0/msr", std::string(0xBC, '\0') + std::string("\1\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(ReadCpuFacts(host.host.root).filtering, CpuFacts::Filtering::kOn);
  host.Write("dev/cpu/0/msr", std::string(0xBC + 8, '\0'));
  EXPECT_EQ(ReadCpuFacts(host.host.root).filtering, CpuFacts::Filtering::kOff);
}

}  // namespace
}  // namespace emlio::energy
