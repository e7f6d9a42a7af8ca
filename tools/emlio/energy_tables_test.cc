// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "emlio/base/clock.h"
#include "emlio/energy/domain.h"
#include "energy_json.h"
#include "energy_nodes.h"

namespace emlio::tool {
namespace {

using energy::DomainKind;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<energy::Domain> Domains() {
  std::vector<energy::Domain> domains = {
      energy::MakeDomain(DomainKind::kPackage, "powercap", 0, -1),
      energy::MakeDomain(DomainKind::kDram, "powercap", 0, -1)};
  for (energy::Domain& domain : domains) domain.in_total = true;
  return domains;
}

TEST(EnergyTablesTest, MeanPowerIsOfTheTimeForWhichJoulesAreKnown) {
  energy::Energy energy;
  energy.state = energy::State::kGap;
  energy.joules = 46;
  energy.void_ns = 2080 * kNsPerMs;
  EXPECT_DOUBLE_EQ(EnergyJson(Domains()[0], energy, 3).at("mean_watts").get<double>(), 50);
  const std::vector<energy::Energy> energies = {energy, energy::Energy{}};
  EXPECT_THAT(EnergyTable(Domains(), energies, {}, 3), HasSubstr("50.00 W"));
  // All of it is void: there is no power, and none is made up.
  energy.void_ns = 3 * kNsPerSecond;
  EXPECT_TRUE(EnergyJson(Domains()[0], energy, 3).at("mean_watts").is_null());
}

TEST(EnergyTablesTest, WhatIsNotZeroDoesNotReadZero) {
  EXPECT_EQ(FormatJoules(0.00012), "< 1 mJ");
  EXPECT_EQ(FormatJoules(0.0012), "1.200 mJ");
  EXPECT_EQ(FormatJoules(0.0), "0.000 J");
  EXPECT_EQ(FormatWatts(1e-9), "< 1 mW");
}

TEST(EnergyTablesTest, AGpuWhoseCounterAndPowerAreApartHasBothAndAWarning) {
  std::vector<energy::Domain> domains = {energy::MakeDomain(DomainKind::kGpu, "nvml", -1, -1),
                                         energy::MakeDomain(DomainKind::kGpuPower, "nvml", -1, -1)};
  domains[0].id = "gpu-a";
  domains[0].device = domains[1].device = "a";
  std::vector<energy::Energy> energies(2);
  energies[0].joules = 187;
  energies[0].state = energy::State::kMeasured;
  energies[1].joules = 327;
  energies[1].state = energy::State::kIntegrated;
  const std::string text = EnergyTable(domains, energies, {}, 5);
  EXPECT_THAT(text,
              HasSubstr("gpu-a: its counter says 187.0 J and its power, integrated, 327.0 J"));
  energy::WindowReport window;
  window.energies = energies;
  const auto check = WindowJson(domains, window).at("gpu_checks").at(0);
  EXPECT_EQ(check.at("domain"), "gpu-a");
  EXPECT_EQ(check.at("integrated_joules"), 327);
  EXPECT_TRUE(check.at("apart").get<bool>());
  energies[1].joules = 190;
  EXPECT_THAT(EnergyTable(domains, energies, {}, 5), Not(HasSubstr("its counter says")));
  EXPECT_FALSE(GpuChecksJson(domains, energies).at(0).at("apart").get<bool>());
  energies[1].joules.reset();
  EXPECT_TRUE(GpuChecksJson(domains, energies).empty()) << "what is not known is not compared";
}

TEST(EnergyTablesTest, ANodeWithoutJoulesSaysWhyAndWhatHelps) {
  energy_agent::NodeReport node;
  node.node = "n2";
  node.state = energy_agent::NodeState::kWhole;
  node.domains = Domains();
  node.run.energies.resize(2);
  node.run.energies[0].state = energy::State::kGap;
  node.run.energies[0].cause = "2.000 of 3.000 s are unknown";
  node.run.energies[0].fix = "keep the agent running";
  node.run.energies[1].joules = 30;
  node.run.energies[1].state = energy::State::kMeasured;
  node.run.total = energy::TotalOf(node.domains, node.run.energies);
  energy::Total own;
  own.state = energy::State::kMeasured;
  own.joules = 100;
  const auto total = energy_agent::TotalOf("n1", &own, {node});
  const std::string text = NodesTable("n1", own, {node}, total);
  EXPECT_THAT(text, Not(HasSubstr("whole")));
  EXPECT_THAT(text, HasSubstr("gap"));
  EXPECT_THAT(text, HasSubstr("n2: package-0: 2.000 of 3.000 s are unknown"));
  EXPECT_THAT(text, HasSubstr("fix: keep the agent running"));
  EXPECT_THAT(text, Not(HasSubstr("dram-0:")));
}

}  // namespace
}  // namespace emlio::tool
