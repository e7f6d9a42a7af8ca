// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_analysis/headline.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

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
                    .interval = Interval{39800, 42600},
                    .total_joules = Summary{.n = 10, .mean = 118400, .sd = 2200},
                    .seconds = {.n = 10, .mean = 312, .sd = 4},
                    .watts = {.n = 10, .mean = 379, .sd = 3},
                    .domains = "CPU+DRAM+GPU, 1 storage + 2 compute nodes",
                    .facts = {},
                    .nodes = {{.name = "gpu1", .facts = {}}, {.name = "store1", .facts = {}}},
                    .comparison = {}};
  for (const HeadlineField& field : HeadlineFields()) {
    if (!field.per_node()) headline.facts[field.key()] = "said";
    for (HeadlineNode& node : headline.nodes) {
      if (field.per_node()) node.facts[field.key()] = "said";
    }
  }
  headline.facts["work.dataset"] = "ImageNet-1k";
  headline.facts["work.samples"] = "1.28 M";
  headline.facts["work.sample_bytes"] = "110 kB";
  headline.facts["work.bytes"] = "140.8 GB";
  headline.facts["work.epochs"] = "1";
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

Headline Compared() {
  Headline headline = Complete();
  headline.comparison = HeadlineComparison{.name = "files over NFS", .n = 5, .ratios = {}};
  for (const char* what : {"net energy", "time", "mean power"}) {
    headline.comparison->ratios.push_back({what, {.value = 0.5, .interval = Interval{0.4, 0.6}}});
  }
  return headline;
}

TEST(HeadlineTest, EveryFieldStandsBelowTheLine) {
  // What section 13 of the requirements asks for, however it is called in the code.
  Headline headline = Compared();
  std::vector<std::string> values;
  for (const HeadlineField& field : HeadlineFields()) {
    const std::string value = "value of " + field.key();
    values.push_back(fmt::format("{}: {}", field.name, value));
    for (HeadlineNode& node : headline.nodes) {
      if (field.per_node()) node.facts[field.key()] = value;
    }
    if (!field.per_node()) headline.facts[field.key()] = value;
  }
  std::string text;
  for (const HeadlineGroup& group : HeadlineDetail(headline)) {
    text += group.name + " | " + group.text + "\n";
  }
  for (const std::string& value : values) EXPECT_THAT(text, HasSubstr(value));
  EXPECT_EQ(values.size(), 47u);
  EXPECT_THAT(text, HasSubstr("claim | quantity: net energy; unit: J; label: derived; net; "
                              "baseline: ready\n"));
  EXPECT_THAT(text, HasSubstr("statistics | n: 10; mean: 41.2 kJ; sd: 1.90 kJ; 95 %: 39.8 kJ to "
                              "42.6 kJ; run_ids: "));
  EXPECT_THAT(text, HasSubstr("ratios to files over NFS (n=5): net energy 0.500 (95 %: 0.400 to "
                              "0.600), time 0.500"));
  // Nodes that say the same share a line, others have their own.
  EXPECT_THAT(text, HasSubstr("system | gpu1, store1: cpu: "));
  headline.nodes[1].facts["system.cpu"] = "another";
  const auto apart = HeadlineDetail(headline);
  ASSERT_GE(apart.size(), 2u);
  EXPECT_THAT(apart.end()[-2].text, HasSubstr("gpu1: cpu: value of system.cpu; sockets: "));
  EXPECT_THAT(apart.end()[-1].text, HasSubstr("store1: cpu: another; sockets: "));
}

TEST(HeadlineTest, AnAmountIsANumberAboveNothing) {
  for (const char* key : {"work.samples", "work.sample_bytes", "work.bytes", "work.epochs"}) {
    for (const char* none : {"-100", "0", "NaN", "nan B", "inf", "0 GB", "some", "1e999"}) {
      Headline headline = Complete();
      headline.facts[key] = none;
      EXPECT_THAT(MissingFields(headline),
                  ElementsAre(AllOf(HasSubstr(key), HasSubstr(fmt::format("'{}'", none)))));
    }
    for (const char* one : {"1", "0.5 KB", "1.28 M", "2e6"}) {
      Headline headline = Complete();
      headline.facts[key] = one;
      EXPECT_TRUE(MissingFields(headline).empty()) << one;
    }
  }
}

TEST(HeadlineTest, AComparisonSaysWithWhatAndHowThatWasTuned) {
  const auto line = HeadlineText(Compared());
  ASSERT_TRUE(line.ok()) << line.status().message();
  EXPECT_THAT(*line,
              HasSubstr(" · ratios to files over NFS (n=5): net energy 0.500 (95 %: 0.400 to "
                        "0.600), time 0.500"));
  for (const char* key : {"comparison.loader", "comparison.tuning"}) {
    Headline headline = Compared();
    headline.facts.erase(key);
    EXPECT_THAT(MissingFields(headline), ElementsAre(HasSubstr(key)));
    headline.comparison.reset();  // where nothing is compared they are of no matter
    EXPECT_TRUE(MissingFields(headline).empty());
  }
  Headline headline = Compared();
  headline.comparison->ratios[1].ratio.interval.reset();
  EXPECT_THAT(MissingFields(headline), ElementsAre(HasSubstr("the ratio of time")));
  headline.comparison->ratios.clear();
  EXPECT_THAT(MissingFields(headline), ElementsAre(HasSubstr("comparison.ratios")));
}

TEST(HeadlineTest, EveryMissingFieldIsRefusedAndNamed) {
  for (const HeadlineField& field : HeadlineFields()) {
    for (const char* nothing :
         {"", " ", "unknown", "Unknown", "n/a", "N/A ", "?", "-", "...", "TBD", "not known", "N.A.",
          "(unknown)", "unknown?", "not-known", "<todo>"}) {
      Headline headline = Compared();
      (field.per_node() ? headline.nodes[1].facts : headline.facts)[field.key()] = nothing;
      const Status status = HeadlineText(headline).status();
      EXPECT_EQ(status.code(), Code::kInvalidArgument) << field.key();
      EXPECT_THAT(status.message(), HasSubstr(field.key()));
      if (field.per_node()) {
        EXPECT_THAT(status.message(), HasSubstr("node store1: "));
      }
    }
    Headline headline = Compared();
    (field.per_node() ? headline.nodes[0].facts : headline.facts).erase(field.key());
    EXPECT_EQ(MissingFields(headline).size(), 1u) << field.key();
  }
}

TEST(HeadlineTest, WhatIsMissingIsNamedWithItsReason) {
  Headline headline = Complete();
  headline.facts.erase("path.cache");
  headline.reasons["path.cache"] = "runs a and b differ";
  headline.reasons["path.rtt"] = "of no matter: it is said";
  headline.nodes[1].facts.erase("system.turbo");
  headline.nodes[1].reasons["system.turbo"] = "run b does not say it";
  EXPECT_THAT(MissingFields(headline),
              ElementsAre("path.cache (cold or warm; runs a and b differ)",
                          "node store1: system.turbo (on or off; run b does not say it)"));
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
  headline.interval.reset();
  EXPECT_THAT(MissingFields(headline), ElementsAre(HasSubstr("statistics.interval")));
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
