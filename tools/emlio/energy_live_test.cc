// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "energy_live.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emlio/energy/domain.h"

namespace emlio::tool {
namespace {

using energy::DomainKind;
using ::testing::ElementsAre;
using ::testing::Field;

std::vector<energy::Domain> Domains() {
  std::vector<energy::Domain> domains = {
      energy::MakeDomain(DomainKind::kPackage, "powercap", 0, -1),
      energy::MakeDomain(DomainKind::kCore, "powercap", 0, -1),
      energy::MakeDomain(DomainKind::kDram, "powercap", 0, -1)};
  domains[0].in_total = domains[2].in_total = true;
  domains[1].in_total = false;
  return domains;
}

TEST(LiveViewTest, DomainsOfTheTotalAreShownWithTheirSum) {
  EXPECT_EQ(RenderWatts(WattsOf("n1", Domains(), {50.0, 35.0, 10.0}), 0),
            "n1: total 60.00 W  package-0 50.00 W  dram-0 10.00 W");
  EXPECT_EQ(RenderWatts(WattsOf("n1", Domains(), {50.0, 35.0, std::nullopt}), 0),
            "n1: total n/a  package-0 50.00 W  dram-0 n/a");
  EXPECT_EQ(RenderWatts(WattsOf("n1", Domains(), {}), 0),
            "n1: total n/a  package-0 n/a  dram-0 n/a");
  EXPECT_EQ(RenderWatts(WattsOf("n1", Domains(), {50.0, 35.0, 10.0}), 12).size(), 12U);
}

TEST(LiveViewTest, EveryHostHasOneLineHoweverManyOfItsProcessesAnswer) {
  energy_agent::NodeReport other;
  other.endpoint = "tcp://n2:1";
  other.node = "n2";
  other.boot_id = "b2";
  other.domains = Domains();
  other.watts = {20.0, 5.0, 2.0};
  energy_agent::NodeReport again = other;
  again.endpoint = "tcp://n2:2";
  energy_agent::NodeReport here = other;
  here.boot_id = "b1";
  energy_agent::NodeReport lost = other;
  lost.node = "n3";
  lost.boot_id = "b3";
  lost.cause = "its agent was silent for 5 s";
  energy_agent::NodeReport absent;
  absent.endpoint = "tcp://n4:1";
  const NodeWatts own = WattsOf("n1", Domains(), {50.0, 35.0, 10.0});
  const auto nodes = WattsOfNodes(own, "b1", {other, again, here, lost, absent});
  EXPECT_THAT(nodes,
              ElementsAre(Field(&NodeWatts::node, "n1"), Field(&NodeWatts::node, "n2"),
                          Field(&NodeWatts::node, "n3"), Field(&NodeWatts::node, "tcp://n4:1")));
  EXPECT_EQ(RenderWatts(nodes[1], 0), "n2: total 22.00 W  package-0 20.00 W  dram-0 2.000 W");
  EXPECT_EQ(RenderWatts(nodes[2], 0), "n3: n/a: its agent was silent for 5 s");
  EXPECT_EQ(RenderWatts(nodes[3], 0), "tcp://n4:1: n/a: not reached yet");
  // Alone it needs no name.
  EXPECT_EQ(RenderWatts(WattsOfNodes(own, "b1", {})[0], 0),
            "total 60.00 W  package-0 50.00 W  dram-0 10.00 W");
}

}  // namespace
}  // namespace emlio::tool
