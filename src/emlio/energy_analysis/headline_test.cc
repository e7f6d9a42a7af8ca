// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_analysis/headline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace emlio::energy_analysis {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Headline Complete() {
  Headline headline{.quantity = "net energy",
                    .label = Label::kDerived,
                    .baseline = "ready",
                    .net = true,
                    .joules = {.n = 10, .mean = 41200, .sd = 1900},
                    .total_joules = Summary{.n = 10, .mean = 118400, .sd = 2200},
                    .seconds = {.n = 10, .mean = 312, .sd = 4},
                    .watts = {.n = 10, .mean = 379, .sd = 3},
                    .domains = "CPU+DRAM+GPU, 1 storage + 2 compute nodes",
                    .facts = {},
                    .nodes = {{.name = "gpu1", .facts = {}}, {.name = "store1", .facts = {}}}};
  for (const HeadlineField& field : HeadlineFields()) {
    if (!field.per_node) headline.facts[field.key()] = "said";
    for (HeadlineNode& node : headline.nodes) {
      if (field.per_node) node.facts[field.key()] = "said";
    }
  }
  headline.facts["work.dataset"] = "ImageNet-1k";
  headline.facts["work.samples"] = "1.28 M";
  headline.facts["work.sample_bytes"] = "110 kB";
  headline.facts["work.model"] = "ResNet-50";
  headline.facts["work.batch"] = "256";
  headline.facts["path.rtt"] = "10 ms (netem)";
  headline.facts["path.bandwidth"] = "10 GbE";
  headline.facts["quality.meter"] = "not validated against a meter";
  return headline;
}

TEST(HeadlineTest, TheLineSaysWhatItMust) {
  const auto line = HeadlineText(Complete());
  ASSERT_TRUE(line.ok()) << line.status().message();
  EXPECT_EQ(*line,
            "net energy 41.2 ± 1.9 kJ (sd, n=10; derived; CPU+DRAM+GPU, 1 storage + 2 compute "
            "nodes; minus ready baseline) · total 118.4 ± 2.2 kJ · 312.0 ± 4.0 s · mean 379 W · "
            "ImageNet-1k, 1.28 M × 110 kB, ResNet-50, batch 256 · RTT 10 ms (netem) · 10 GbE · "
            "not validated against a meter");
}

TEST(HeadlineTest, EveryMissingFieldIsRefusedAndNamed) {
  for (const HeadlineField& field : HeadlineFields()) {
    for (const char* nothing : {"", "unknown", "n/a", "?", "-"}) {
      Headline headline = Complete();
      (field.per_node ? headline.nodes[1].facts : headline.facts)[field.key()] = nothing;
      const Status status = HeadlineText(headline).status();
      EXPECT_EQ(status.code(), Code::kInvalidArgument) << field.key();
      EXPECT_THAT(status.message(), HasSubstr(field.key()));
      if (field.per_node) {
        EXPECT_THAT(status.message(), HasSubstr("node store1: "));
      }
    }
    Headline headline = Complete();
    (field.per_node ? headline.nodes[0].facts : headline.facts).erase(field.key());
    EXPECT_EQ(MissingFields(headline).size(), 1u) << field.key();
  }
}

TEST(HeadlineTest, AReasonIsAFact) {
  Headline headline = Complete();
  headline.nodes[1].facts["system.gpu"] = "none";
  headline.facts["quality.counter_vs_power"] = "none: no GPU has both";
  EXPECT_TRUE(MissingFields(headline).empty());
}

TEST(HeadlineTest, TheClaimItselfMustBeWhole) {
  Headline headline = Complete();
  headline.total_joules.reset();
  EXPECT_THAT(MissingFields(headline), ElementsAre(HasSubstr("claim.total")));
  headline = Complete();
  headline.baseline.clear();
  EXPECT_THAT(MissingFields(headline), ElementsAre(HasSubstr("claim.baseline")));
  headline = Complete();
  headline.joules.n = 1;
  EXPECT_THAT(MissingFields(headline), ElementsAre(HasSubstr("statistics.n")));
  headline = Complete();
  headline.nodes.clear();
  EXPECT_THAT(MissingFields(headline), ElementsAre(HasSubstr("no node")));
  headline = Complete();
  headline.label = Label::kNone;
  EXPECT_THAT(MissingFields(headline), ElementsAre(HasSubstr("claim.label")));
  EXPECT_GT(MissingFields({}).size(), 30u);
}

TEST(HeadlineTest, AllocatedAndModelledJoulesAreNoHeadline) {
  for (const Label label : {Label::kAllocated, Label::kModelled, Label::kProxy}) {
    Headline headline = Complete();
    headline.label = label;
    EXPECT_THAT(HeadlineText(headline).status().message(), HasSubstr(LabelName(label)));
  }
}

TEST(HeadlineTest, IoEnergyIsTheNetEnergyOfAStage) {
  Headline headline = Complete();
  headline.quantity = "net I/O energy";
  EXPECT_THAT(HeadlineText(headline).status().message(), HasSubstr("\"I/O energy\""));
  headline.stage = true;
  EXPECT_TRUE(HeadlineText(headline).ok());
  headline.net = false;
  EXPECT_FALSE(HeadlineText(headline).ok());
}

}  // namespace
}  // namespace emlio::energy_analysis
