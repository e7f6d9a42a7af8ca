// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "emlio/base/clock.h"
#include "emlio/energy/domain.h"
#include "energy_json.h"

namespace emlio::tool {
namespace {

using energy::DomainKind;
using ::testing::HasSubstr;

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

}  // namespace
}  // namespace emlio::tool
