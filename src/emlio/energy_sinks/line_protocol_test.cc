// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_sinks/line_protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "emlio/base/clock.h"

namespace emlio::energy_sinks {
namespace {

using energy::Domain;
using energy::DomainKind;
using energy::Sample;
using energy::SampleState;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

Domain Package() {
  Domain domain = energy::MakeDomain(DomainKind::kPackage, "perf", 0, -1);
  domain.in_total = true;
  return domain;
}

Sample At(double joules, SampleState state) {
  Sample sample;
  sample.joules = joules;
  sample.state = state;
  return sample;
}

TEST(LineProtocolTest, TagsAreSortedAndTimesAreMicroseconds) {
  Domain gpu = energy::MakeDomain(DomainKind::kGpu, "nvml", -1, -1);
  gpu.id = "gpu-GPU-1";
  gpu.device = "GPU-1";
  gpu.in_total = true;
  LineWriter writer("run 1", "node,a=b", {gpu});
  std::string text;
  Sample sample = At(0, SampleState::kFirst);
  sample.wraps = 2;
  sample.void_ns = 7;
  writer.Write(1'800'000'000'123'456'789, std::vector{sample}, &text);
  EXPECT_EQ(text,
            "emlio_energy,device=GPU-1,domain=gpu-GPU-1,in_total=yes,kind=gpu,node=node\\,a\\=b,"
            "run=run\\ 1,source=nvml "
            "energy_uj=0i,ambiguous=0i,gaps=0i,resets=0i,stalls=0i,void_ns=7i,wraps=2i,"
            "state=\"first\" 1800000000123456\n");
}

TEST(LineProtocolTest, WhatCannotBeWrittenInATagIsReplaced) {
  LineWriter writer("a\\", "b\nc", {Package()});
  std::string text;
  writer.Write(0, std::vector{Sample{}}, &text);
  EXPECT_THAT(text, HasSubstr("node=b_c,run=a_,source=perf "));
}

TEST(LineProtocolTest, AnUnavailableDomainHasAStateAndNoNumber) {
  Domain dram = energy::MakeDomain(DomainKind::kDram, "", -1, -1);
  dram.cause = "no counter";
  LineWriter writer("r", "n", {dram});
  std::string text;
  writer.Write(1'000, std::vector{Sample{}}, &text);
  EXPECT_EQ(
      text,
      "emlio_energy,domain=dram,in_total=no,kind=dram,node=n,run=r state=\"unavailable\" 1\n");
}

TEST(LineProtocolTest, OnlyWhatIsKnownHasAFieldAndDifferencesAddUp) {
  LineWriter writer("r", "n", {Package()});
  std::string text;
  const std::vector<Sample> samples = {
      At(0, SampleState::kFirst),         At(1.25, SampleState::kMoved),
      At(1.25, SampleState::kNoUpdate),   At(1.25, SampleState::kMissing),
      At(4.5000004, SampleState::kMoved), At(4.5, SampleState::kReset),
      At(4.5, SampleState::kAmbiguous),   At(4.5, SampleState::kStalled),
      At(4.5, SampleState::kIdle),        At(5.0, SampleState::kMoved)};
  for (size_t i = 0; i < samples.size(); ++i) {
    writer.Write(static_cast<int64_t>(i) * kNsPerMs, std::vector{samples[i]}, &text);
  }
  const auto lines = Lines(text);
  ASSERT_EQ(lines.size(), samples.size());
  const auto expect = [&](size_t line, const std::string& delta, const std::string& energy,
                          const std::string& state) {
    if (delta.empty()) {
      EXPECT_THAT(lines[line], Not(HasSubstr("delta_j")));
    } else {
      EXPECT_THAT(lines[line], HasSubstr("delta_j=" + delta + ","));
    }
    if (energy.empty()) {
      EXPECT_THAT(lines[line], Not(HasSubstr("energy_uj")));
    } else {
      EXPECT_THAT(lines[line], HasSubstr("energy_uj=" + energy + "i,"));
    }
    EXPECT_THAT(lines[line], HasSubstr("state=\"" + state + "\""));
  };
  expect(0, "", "0", "first");
  expect(1, "1.250000", "1250000", "moved");
  expect(2, "", "1250000", "no_update");
  expect(3, "", "", "missing");
  expect(4, "3.250000", "4500000", "moved");
  expect(5, "", "4500000", "reset");
  expect(6, "", "4500000", "ambiguous");
  expect(7, "", "", "stalled");
  expect(8, "0.000000", "4500000", "idle");
  expect(9, "0.500000", "5000000", "moved");
}

TEST(LineProtocolTest, ASeriesThatBeginsAmidTheSumsHasNoDifferenceAtFirst) {
  // An agent has counted 7362 J before the run began.
  for (const SampleState first :
       {SampleState::kMoved, SampleState::kIdle, SampleState::kNoUpdate, SampleState::kReset}) {
    LineWriter writer("r", "n", {Package()});
    std::string text;
    writer.Write(0, std::vector{At(7362, SampleState::kMissing)}, &text);
    writer.Write(kNsPerMs, std::vector{At(7362, first)}, &text);
    writer.Write(2 * kNsPerMs, std::vector{At(7367, SampleState::kMoved)}, &text);
    const auto lines = Lines(text);
    ASSERT_EQ(lines.size(), 3U);
    EXPECT_THAT(lines[0], Not(HasSubstr("delta_j")));
    EXPECT_THAT(lines[1], HasSubstr("energy_uj=7362000000i,"));
    EXPECT_THAT(lines[1], Not(HasSubstr("delta_j")));
    EXPECT_THAT(lines[2], HasSubstr("delta_j=5.000000,"));
  }
}

TEST(LineProtocolTest, TheSameTicksGiveTheSameLines) {
  std::string once;
  std::string again;
  LineWriter first("r", "n", {Package()});
  LineWriter second("r", "n", {Package()});
  for (int i = 0; i < 10; ++i) {
    const std::vector samples = {At(0.1 * i, i == 0 ? SampleState::kFirst : SampleState::kMoved)};
    first.Write(i * 100 * kNsPerMs, samples, &once);
    second.Write(i * 100 * kNsPerMs, samples, &again);
  }
  EXPECT_EQ(once, again);
}

}  // namespace
}  // namespace emlio::energy_sinks
