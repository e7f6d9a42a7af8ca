// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_analysis/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <utility>

#include "emlio/energy_analysis/document.h"
#include "emlio/energy_analysis/numbers.h"
#include "emlio/energy_analysis/testing/synthetic_pipeline.h"

namespace emlio::energy_analysis {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// A run of one node whose package and memory draw power all the time.
RunFigures SomeRun(const std::string& id, double package_watts, double seconds) {
  RunFigures run;
  run.id = id;
  run.started_wall_ns = 1'800'000'000 * kNsPerSecond;
  run.seconds = seconds;
  NodeFigures node;
  node.name = "node1";
  node.role = "compute";
  node.seconds = seconds;
  node.interval_ns = 100 * kNsPerMs;
  node.update_period_ns = kNsPerMs;
  node.sampler.cpu_ns = 1;
  node.sampler.elapsed_ns = 1000;
  const auto add = [&](const std::string& domain, const std::string& kind, double watts) {
    node.domains.push_back({.id = domain,
                            .kind = kind,
                            .source = "powercap",
                            .figure = {.joules = watts * seconds, .label = Label::kMeasured},
                            .in_total = true});
  };
  add("package-0", "package", package_watts);
  add("dram-0", "dram", 10);
  node.total = {
      .joules = (package_watts + 10) * seconds, .label = Label::kMeasured, .uncertainty_joules = 1};
  run.total = node.total;
  run.nodes.push_back(node);
  run.facts = {{"work.bytes", "2000000000"}, {"work.samples", "1000"}, {"work.epochs", "2"}};
  return run;
}

std::vector<RunFigures> SomeRuns(const std::string& prefix, double package_watts, double seconds) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> noise;
  std::vector<RunFigures> runs;
  for (int i = 0; i < 6; ++i) {
    // One after the other: compilers choose the order of arguments.
    const double run_seconds = seconds + 0.1 * noise(random);
    const double run_watts = package_watts + 0.2 * noise(random);
    runs.push_back(SomeRun(prefix + std::to_string(i), run_watts, run_seconds));
  }
  return runs;
}

// Whatever a headline without a comparison needs and a report does not find itself.
void SayEverything(ReportInput* input) {
  for (const HeadlineField& field : HeadlineFields()) {
    const std::string key = field.key();
    if (field.by == SaidBy::kComparison || !CheckSaidFacts({{key, "x"}}).ok()) continue;
    (field.per_node() ? input->node_facts["node1"] : input->facts)[key] = "told";
  }
  input->facts["work.samples"] = "1000";
  input->facts["work.sample_bytes"] = "2 MB";
  input->facts["work.bytes"] = "2 GB";
  input->facts["work.epochs"] = "2";
}

NamedBaseline SomeBaseline() {
  NamedBaseline named{.baseline = {.kind = BaselineKind::kReady, .runs = 3, .seconds = 180},
                      .id = "b1"};
  named.baseline.domains = {{"node1/package-0", {.n = 3, .mean = 40, .sd = 0.1}},
                            {"node1/dram-0", {.n = 3, .mean = 8, .sd = 0.1}}};
  named.baseline.watts = {.n = 3, .mean = 48, .sd = 0.1};
  return named;
}

ReportInput SomeInput() {
  ReportInput input;
  input.title = "a job";
  input.runs = SomeRuns("r", 90, 100);
  input.baseline = SomeBaseline();
  return input;
}

std::string TextOf(const Document& document) {
  std::string text;
  for (const Section& section : document.sections) {
    text += section.title + "\n";
    for (const Block& block : section.blocks) {
      if (const auto* paragraph = std::get_if<Paragraph>(&block)) text += paragraph->text + "\n";
      const auto* table = std::get_if<DocumentTable>(&block);
      if (table == nullptr) continue;
      for (const auto& row : table->rows) {
        for (const auto& cell : row) text += cell + " | ";
        text += "\n";
      }
    }
  }
  return text;
}

TEST(ReportTest, TotalAndNetTimeAndPowerNameTheirBaseline) {
  const EnergyReport report = MakeReport(SomeInput());
  EXPECT_EQ(report.arm.good, 6u);
  EXPECT_NEAR(report.arm.energy.total->mean, 10000, 60);
  EXPECT_NEAR(report.arm.energy.net->value, 5200, 60);
  EXPECT_NEAR(report.arm.watts.mean, 100, 0.5);
  const std::string text = TextOf(DocumentOf(report));
  EXPECT_THAT(text, HasSubstr("minus the baseline ready (b1): 48.00 ± 0.25 W × time"));
  EXPECT_THAT(text, HasSubstr("kJ | 5.2"));
  EXPECT_THAT(text, HasSubstr(kNotValidated));
}

TEST(ReportTest, WithoutABaselineThereIsNoNetAndTheReasonIsGiven) {
  ReportInput input = SomeInput();
  input.baseline.reset();
  input.no_baseline = "the store has none";
  const EnergyReport report = MakeReport(input);
  EXPECT_FALSE(report.arm.energy.net);
  EXPECT_EQ(report.headline_parts.quantity, "total energy");
  EXPECT_THAT(TextOf(DocumentOf(report)),
              HasSubstr("No baseline was subtracted: the store has none"));
}

TEST(ReportTest, ABaselineOfOtherDomainsIsNotSubtracted) {
  ReportInput input = SomeInput();
  input.baseline->baseline.domains.pop_back();
  const EnergyReport report = MakeReport(input);
  EXPECT_FALSE(report.arm.energy.net);
  EXPECT_THAT(report.no_baseline, HasSubstr("node1/dram-0"));
}

TEST(ReportTest, JoulesForEachUnitOfWorkNodeAndDomain) {
  const EnergyReport report = MakeReport(SomeInput());
  ASSERT_EQ(report.arm.per_unit.size(), 3u);
  EXPECT_EQ(report.arm.per_unit[0].unit, "GB");
  EXPECT_NEAR(report.arm.per_unit[0].total.value, 5000, 30);
  EXPECT_NEAR(report.arm.per_unit[0].net->value, 2600, 30);
  EXPECT_NEAR(report.arm.per_unit[1].total.value, 10, 0.1);
  EXPECT_NEAR(report.arm.per_unit[2].total.value, 5000, 30);
  EXPECT_TRUE(report.arm.per_unit[0].total.confidence());
  ASSERT_EQ(report.nodes.size(), 1u);
  EXPECT_NEAR(report.nodes[0].net->value, 5200, 60);
  ASSERT_EQ(report.domains.size(), 2u);
  EXPECT_NEAR(report.domains[0].net->value, 5000, 60);
  EXPECT_NEAR(report.domains[1].net->value, 200, 5);
}

TEST(ReportTest, EpochsHaveMeansOverRunsOfEachNodeAndDomain) {
  ReportInput input = SomeInput();
  for (RunFigures& run : input.runs) {
    for (const int64_t number : {0, 1}) {
      EpochFigures epoch{.epoch = number, .node = "node1", .name = "epoch", .windows = 1};
      epoch.seconds = run.seconds / 2;
      epoch.energy = run.total;
      *epoch.energy.joules /= 2;
      for (const DomainFigures& domain : run.nodes[0].domains) {
        epoch.domains.push_back({domain.id, domain.kind, true, domain.figure});
        *epoch.domains.back().figure.joules /= 2;
      }
      run.epochs.push_back(epoch);
    }
    run.facts.erase("work.epochs");
  }
  input.runs[1].failure = "exit status 1";
  EnergyReport report = MakeReport(input);
  ASSERT_EQ(report.epochs.size(), 2u);
  EXPECT_EQ(report.epochs[1].epoch, 1);
  EXPECT_EQ(report.epochs[1].energy.total->n, 5u);
  EXPECT_NEAR(report.epochs[1].energy.total->mean, 5000, 30);
  EXPECT_NEAR(report.epochs[1].energy.net->value, 2600, 30);
  ASSERT_EQ(report.epochs[1].domains.size(), 2u);
  EXPECT_EQ(report.epochs[1].domains[1].name, "node1/dram-0");
  EXPECT_NEAR(report.epochs[1].domains[1].total->mean, 500, 5);
  EXPECT_NEAR(report.epochs[1].domains[1].net->value, 100, 5);
  // How many there were is known then.
  EXPECT_EQ(report.arm.per_unit.back().unit, "epoch");
  EXPECT_NEAR(report.arm.per_unit.back().total.value, 5000, 30);
  EXPECT_THAT(TextOf(DocumentOf(report)), HasSubstr("1 | node1 | epoch | "));

  input.runs[2].epochs[1].energy = {.cause = "a gap"};
  report = MakeReport(input);
  EXPECT_TRUE(report.epochs[0].energy.total);
  EXPECT_FALSE(report.epochs[1].energy.total);
  EXPECT_THAT(TextOf(DocumentOf(report)), HasSubstr("a gap"));
}

TEST(ReportTest, FailedRunsAreListedAndNotCounted) {
  ReportInput input = SomeInput();
  input.runs[2].failure = "exit status 1";
  input.runs[4].total = {.cause = "node2 was lost"};
  const EnergyReport report = MakeReport(input);
  EXPECT_EQ(report.arm.good, 4u);
  EXPECT_EQ(report.arm.energy.total->n, 4u);
  const std::string text = TextOf(DocumentOf(report));
  EXPECT_THAT(text, HasSubstr("4 of 6"));
  EXPECT_THAT(text, HasSubstr("failed: exit status 1"));
  EXPECT_THAT(text, HasSubstr("n/a: node2 was lost"));
  for (const RunFigures& run : input.runs) EXPECT_THAT(text, HasSubstr(run.id));
  EXPECT_EQ(report.headline_parts.facts.at("statistics.failed"), "2: r2, r4");
}

TEST(ReportTest, RatiosOfEnergyTimeAndPowerComeFromTheSameRuns) {
  ReportInput input = SomeInput();
  input.against = SomeRuns("s", 90, 200);
  input.against_name = "slow";
  const EnergyReport report = MakeReport(input);
  ASSERT_EQ(report.ratios.size(), 4u);
  EXPECT_EQ(report.ratios[0].name, "total energy");
  EXPECT_NEAR(report.ratios[0].ratio.value, 0.5, 0.01);
  EXPECT_TRUE(report.ratios[0].ratio.interval->Contains(0.5));
  EXPECT_EQ(report.ratios[1].name, "net energy");
  EXPECT_EQ(report.ratios[2].name, "time");
  EXPECT_NEAR(report.ratios[2].ratio.value, 0.5, 0.01);
  EXPECT_EQ(report.ratios[3].name, "mean power");
  EXPECT_NEAR(report.ratios[3].ratio.value, 1, 0.01);
  const std::string text = TextOf(DocumentOf(report));
  EXPECT_THAT(text, ContainsRegex("these runs \\| 6 \\| total energy \\| 10.0 kJ \\| [0-9.]+ J"));
  EXPECT_THAT(text, ContainsRegex("slow \\| 6 \\| time \\| 200 s \\| [0-9.]+ ms"));
  EXPECT_THAT(text, ContainsRegex("slow \\| 6 \\| mean power \\| [0-9.]+ W \\| [0-9.]+ mW"));
  EXPECT_THAT(text, ContainsRegex("total energy \\| 0.5[0-9]+ \\(95 %: 0"));
}

TEST(ReportTest, ARatioWithoutAnIntervalIsNotGiven) {
  ReportInput input = SomeInput();
  input.against = {SomeRun("s", 90, 200)};
  input.against_name = "once";
  const EnergyReport report = MakeReport(input);
  ASSERT_EQ(report.ratios.size(), 4u);
  for (const NamedRatio& ratio : report.ratios) {
    EXPECT_FALSE(ratio.ratio.interval);
    EXPECT_EQ(RatioText(ratio.ratio), "n/a") << ratio.name;
    EXPECT_THAT(report.warnings, Contains(HasSubstr("no ratio of " + ratio.name)));
  }
}

TEST(ReportTest, RatiosOfDifferentWorkAreDoubted) {
  ReportInput input = SomeInput();
  input.against = SomeRuns("s", 90, 200);
  input.against_name = "slow";
  EXPECT_THAT(MakeReport(input).warnings, IsEmpty());
  for (RunFigures& run : input.against) run.facts["work.samples"] = "900";
  EXPECT_THAT(MakeReport(input).warnings, ElementsAre(HasSubstr("the same number of samples")));
}

TEST(ReportTest, ThereIsNoRatioOfTotalsThatAreSumsOfDifferentThings) {
  ReportInput input = SomeInput();
  input.baseline.reset();
  input.against = SomeRuns("s", 90, 200);
  input.against_name = "slow";
  ASSERT_EQ(MakeReport(input).ratios.size(), 3u);
  ReportInput kinds = input;
  for (RunFigures& run : kinds.against) run.nodes[0].domains.pop_back();
  EnergyReport report = MakeReport(kinds);
  EXPECT_THAT(report.ratios, IsEmpty());
  EXPECT_THAT(report.warnings,
              ElementsAre(AllOf(HasSubstr("no ratio: "),
                                HasSubstr("these runs: 1 node with dram+package; slow: 1 node with "
                                          "package"))));
  EXPECT_THAT(report.no_headline, HasSubstr("comparison.ratios"));
  ReportInput nodes = input;
  for (RunFigures& run : nodes.against) {
    run.nodes.push_back(run.nodes[0]);
    run.nodes[1].name = "node2";
  }
  report = MakeReport(nodes);
  EXPECT_THAT(report.ratios, IsEmpty());
  EXPECT_THAT(report.warnings, ElementsAre(HasSubstr("slow: 2 nodes with dram+package")));
  // Names are of no matter: two hosts may be compared.
  for (RunFigures& run : input.against) run.nodes[0].name = "node2";
  EXPECT_EQ(MakeReport(input).ratios.size(), 3u);
}

TEST(ReportTest, AFactThatRunsDoNotSayAlikeIsMissingFromTheHeadline) {
  ReportInput input = SomeInput();
  for (RunFigures& run : input.runs) {
    run.facts["path.cache"] = "cold";
    run.facts["work.model"] = "none";
    run.nodes[0].facts = {{"system.governor", "performance"}, {"system.turbo", "off"}};
  }
  EXPECT_EQ(MakeReport(input).headline_parts.facts.at("path.cache"), "cold");
  input.runs[1].facts["path.cache"] = "warm";
  input.runs[0].facts.erase("work.model");
  input.runs[1].nodes[0].facts = {{"system.governor", "powersave"}};
  const EnergyReport report = MakeReport(input);
  EXPECT_FALSE(report.headline_parts.facts.contains("path.cache"));
  EXPECT_FALSE(report.headline_parts.facts.contains("work.model"));
  EXPECT_THAT(report.headline_parts.nodes[0].facts, IsEmpty());
  EXPECT_THAT(
      report.no_headline,
      AllOf(HasSubstr("path.cache (cold or warm; runs r0 and r1 differ)"),
            HasSubstr("work.model (that was trained, or none; run r0 does not say it)"),
            HasSubstr("node node1: system.governor (of CPU frequencies; runs r0 and r1 differ)"),
            HasSubstr("node node1: system.turbo (on or off; run r1 does not say it)")));
  EXPECT_THAT(TextOf(DocumentOf(report)),
              HasSubstr("governor (of CPU frequencies; runs r0 and r1 differ)"));
  // What users say comes first, and runs that do not count are of no matter.
  ReportInput said = input;
  said.facts["path.cache"] = "cold";
  said.node_facts["node1"]["system.turbo"] = "on";
  const EnergyReport of_said = MakeReport(said);
  EXPECT_EQ(of_said.headline_parts.facts.at("path.cache"), "cold");
  EXPECT_EQ(of_said.headline_parts.nodes[0].facts.at("system.turbo"), "on");
  EXPECT_THAT(of_said.no_headline, Not(HasSubstr("path.cache")));
  EXPECT_THAT(of_said.no_headline, Not(HasSubstr("system.turbo")));
  input.runs[0].failure = input.runs[1].failure = "exit status 1";
  const EnergyReport failed = MakeReport(input);
  EXPECT_EQ(failed.headline_parts.facts.at("path.cache"), "cold");
  EXPECT_EQ(failed.headline_parts.nodes[0].facts.at("system.governor"), "performance");
}

TEST(ReportTest, NodesThatRunsAreComparedWithAreDescribedToo) {
  ReportInput input = SomeInput();
  input.against = SomeRuns("s", 90, 200);
  input.against_name = "slow";
  const auto names = [&] {
    std::vector<std::string> nodes;
    for (const HeadlineNode& node : MakeReport(input).headline_parts.nodes) {
      nodes.push_back(node.name);
    }
    return nodes;
  };
  EXPECT_THAT(names(), ElementsAre("node1"));  // the same in both
  for (RunFigures& run : input.against) run.nodes[0].facts["system.governor"] = "powersave";
  EXPECT_THAT(names(), ElementsAre("node1", "node1 of slow"));
  for (RunFigures& run : input.against) run.nodes[0].name = "node2";
  EXPECT_THAT(names(), ElementsAre("node1", "node2"));
  EXPECT_THAT(MakeReport(input).no_headline, HasSubstr("node node2: system.turbo"));
}

TEST(ReportTest, RunsAreListedInTheOrderInWhichTheyWereMade) {
  ReportInput input = SomeInput();
  for (size_t i = 0; i < input.runs.size(); ++i) {
    input.runs[i].started_wall_ns -= static_cast<int64_t>(i) * kNsPerSecond;
  }
  EXPECT_EQ(MakeReport(input).headline_parts.facts.at("statistics.run_ids"),
            "r5, r4, r3, r2, r1, r0");
}

TEST(ReportTest, HostsThatNobodyLookedForAreSaidToBeLeftOut) {
  ReportInput input = SomeInput();
  EXPECT_EQ(MakeReport(input).headline_parts.facts.at("included.nodes"), "node1");
  input.runs[2].notes.push_back({.node = "", .kind = "not_looked_for", .text = "--no-find"});
  EXPECT_THAT(MakeReport(input).headline_parts.facts.at("included.nodes"),
              HasSubstr("node1; others that data came from were not looked for"));
}

TEST(ReportTest, ATitleIsNoWayToCallATotalIoEnergy) {
  ReportInput input = SomeInput();
  input.title = "I/O energy of two loaders";
  const EnergyReport report = MakeReport(input);
  EXPECT_THAT(TextOf(DocumentOf(report)), Not(HasSubstr("two loaders")));
  EXPECT_EQ(report.title, "Energy report");
  EXPECT_THAT(report.warnings, ElementsAre(HasSubstr("net energy of a stage and nothing else")));
}

TEST(ReportTest, AHeadlineOfAComparisonSaysWithWhatAndHow) {
  ReportInput input = SomeInput();
  input.against = SomeRuns("s", 90, 200);
  input.against_name = "slow";
  SayEverything(&input);
  EXPECT_THAT(MakeReport(input).no_headline,
              AllOf(HasSubstr("comparison.loader"), HasSubstr("comparison.tuning")));
  input.facts["comparison.loader"] = "files over NFS";
  input.facts["comparison.tuning"] = "16 workers, the best of 1 to 32";
  const EnergyReport report = MakeReport(input);
  EXPECT_THAT(report.headline, HasSubstr("ratios to slow (n=6): total energy 0.50"));
  EXPECT_THAT(report.headline, HasSubstr(", net energy 0.50"));
  EXPECT_THAT(report.headline, HasSubstr(", time 0.50"));
  EXPECT_THAT(report.headline, HasSubstr(", mean power 1.00"));
  const std::string text = TextOf(DocumentOf(report));
  EXPECT_THAT(text, HasSubstr("comparison: loader: files over NFS; tuning: 16 workers, the best of "
                              "1 to 32; ratios to slow"));
  EXPECT_THAT(text, HasSubstr("system: node1: cpu: told; sockets: told; memory: told"));
  EXPECT_THAT(text, HasSubstr("statistics: n: 6; mean: 5.2"));
  // What stands there is not told twice.
  EXPECT_THAT(text, Not(HasSubstr("Configuration")));
  // Means and deviations of the net energies stand beside their ratio.
  EXPECT_THAT(text, ContainsRegex("slow \\| 6 \\| net energy \\| 10.4 kJ \\| [0-9.]+ J"));
}

TEST(ReportTest, AHeadlineNeedsItsConfigurationAndIsGivenWithIt) {
  ReportInput input = SomeInput();
  EnergyReport report = MakeReport(input);
  EXPECT_EQ(report.headline, "");
  EXPECT_THAT(report.no_headline, HasSubstr("work.dataset"));
  EXPECT_THAT(report.no_headline, HasSubstr("node node1: system.cpu"));
  report.headline_parts.nodes[0].name = "node1 (compute)";
  const std::string text = TextOf(DocumentOf(report));
  EXPECT_THAT(text, HasSubstr("There is no headline"));
  EXPECT_THAT(text, HasSubstr("work: dataset (its name and version), sample_bytes ("));
  EXPECT_THAT(text, HasSubstr("node node1 (compute): system: cpu (model), sockets ("));
  // Of many nodes that lack the same some are named.
  for (int i = 2; i < 1000; ++i) {
    report.headline_parts.nodes.push_back({.name = "node" + std::to_string(i), .facts = {}});
  }
  const Document large = DocumentOf(report);
  EXPECT_THAT(TextOf(large), HasSubstr("node node2: system, node node3: system and 996 more: cpu"));
  EXPECT_LT(large.sections[0].blocks.size(), 10u);
  EXPECT_LT(HeadlineText(report.headline_parts).status().message().size(), 50'000u);
  SayEverything(&input);
  report = MakeReport(input);
  EXPECT_EQ(report.no_headline, "");
  EXPECT_THAT(report.headline, HasSubstr("net energy 5.2"));
  EXPECT_THAT(report.headline, HasSubstr("(sd, n=6; derived; CPU+DRAM, 1 compute node; minus ready "
                                         "baseline) · total 10.0"));
  EXPECT_THAT(report.headline, HasSubstr(kNotValidated));
}

TEST(ReportTest, NobodySaysWhatAReportFindsItself) {
  ReportInput input = SomeInput();
  SayEverything(&input);
  ASSERT_EQ(MakeReport(input).no_headline, "");
  const Facts forged = {{"quality.meter", "validated by NIST"},
                        {"included.nodes", "5 nodes"},
                        {"included.domains", "all"},
                        {"included.absent", "nothing is"},
                        {"statistics.run_ids", "r9"},
                        {"quality.clock_bound", "0 s"}};
  for (const auto& [key, value] : forged) {
    // Whether the report's reader says it or whoever recorded the runs.
    ReportInput said = input;
    said.facts[key] = value;
    const EnergyReport report = MakeReport(said);
    EXPECT_EQ(report.headline, "");
    EXPECT_THAT(report.no_headline, HasSubstr("facts " + key + ": a report finds these itself"));
    EXPECT_NE(report.headline_parts.facts.at(key), value);
    EXPECT_EQ(std::string(CheckSaidFacts(said.facts).message()), report.no_headline);
    ReportInput recorded = input;
    for (RunFigures& run : recorded.runs) run.facts[key] = value;
    const EnergyReport of_runs = MakeReport(recorded);
    EXPECT_NE(of_runs.headline, "");
    EXPECT_NE(of_runs.headline_parts.facts.at(key), value);
  }
  EXPECT_TRUE(CheckSaidFacts({{"included.switches", "1"}, {"included.psu_losses", "no"}}).ok());
}

TEST(ReportTest, WorkThatIsSaidOtherwiseThanItWasCountedIsToldOf) {
  ReportInput input = SomeInput();
  for (RunFigures& run : input.runs) {
    run.facts.clear();
    WindowFigures window{.name = "read"};
    window.proxies.records_delivered = 1000;
    window.proxies.bytes_delivered = 2'000'000'000;
    run.windows.push_back(window);
  }
  const auto warnings_of = [](const ReportInput& of) { return MakeReport(of).warnings; };
  input.facts = {{"work.samples", "1005"}, {"work.bytes", "2.0e9"}, {"work.sample_bytes", "2e6"}};
  EXPECT_THAT(warnings_of(input), Not(Contains(HasSubstr("work."))));
  input.facts["work.samples"] = "about a thousand";  // cannot be compared
  EXPECT_THAT(warnings_of(input), Not(Contains(HasSubstr("work."))));
  for (RunFigures& run : input.runs) run.facts.clear();
  input.facts["work.samples"] = "2 k";
  EXPECT_THAT(warnings_of(input), Contains(HasSubstr("work.samples is said to be 2 k, but")));
  input.facts["work.samples"] = "2000";
  EXPECT_THAT(warnings_of(input),
              AllOf(Contains(HasSubstr("these runs: work.samples is said to be 2000, but its "
                                       "windows counted 1000")),
                    Contains(HasSubstr("work.samples x work.sample_bytes is 4.00 GB, but "
                                       "work.bytes is 2.00 GB"))));
  // Recorded with the runs it is no other matter.
  input.against = std::exchange(input.runs, SomeRuns("a", 90, 100));
  input.against_name = "slow";
  for (RunFigures& run : input.against) run.facts = input.facts;
  input.facts.clear();
  EXPECT_THAT(warnings_of(input),
              Contains(HasSubstr("slow: work.samples is said to be 2000, but its windows")));
}

TEST(ReportTest, RunsThatAreNoRepetitionsOfOneJobAreToldApart) {
  ReportInput input = SomeInput();
  for (RunFigures& run : input.runs) {
    run.command = {"train", "--epochs", "1"};
    run.nodes[0].boot_id = "boot-a";
  }
  EXPECT_THAT(MakeReport(input).warnings, IsEmpty());
  ReportInput mixed = input;
  mixed.runs[1].command = {"sleep", "10"};
  mixed.runs[2].nodes[0].boot_id = "boot-b";
  mixed.runs[3].nodes[0].domains.pop_back();
  mixed.baseline.reset();
  const auto warnings = MakeReport(mixed).warnings;
  EXPECT_THAT(warnings, Contains(AllOf(HasSubstr("their commands differ"),
                                       HasSubstr("sleep 10 (1 of 6 runs, first r1)"))));
  EXPECT_THAT(warnings, Contains(AllOf(HasSubstr("their totals are of different domains"),
                                       HasSubstr("node1/package-0 (1 of 6 runs, first r3)"))));
  EXPECT_THAT(warnings, Contains(HasSubstr("node node1 was booted anew between the runs")));
  EXPECT_EQ(warnings.size(), 3u);
  // Runs that do not count are of no matter, and runs of the other arm are judged among themselves.
  ReportInput failed = input;
  failed.runs[1].command = {"sleep", "10"};
  failed.runs[1].failure = "exit status 1";
  failed.against = SomeRuns("s", 90, 200);
  failed.against_name = "slow";
  EXPECT_THAT(MakeReport(failed).warnings, IsEmpty());
  failed.against[0].command = {"another"};
  EXPECT_THAT(MakeReport(failed).warnings,
              ElementsAre(AllOf(HasSubstr("slow: "), HasSubstr("their commands differ"))));
}

TEST(ReportTest, MemoryThatNobodyHasPutUnderLoadIsNamed) {
  ReportInput input = SomeInput();
  for (RunFigures& run : input.runs) run.nodes[0].domains.back().unchecked = true;
  const std::string id = input.runs[0].nodes[0].domains.back().id;
  EXPECT_THAT(MakeReport(input).warnings,
              ElementsAre(HasSubstr("whether " + id + " rises under a memory load was not")));
  for (RunFigures& run : input.runs) run.nodes[0].domains.back().figure.joules.reset();
  EXPECT_THAT(MakeReport(input).warnings, Not(Contains(HasSubstr("memory load"))))
      << "it is n/a all the same";
}

TEST(ReportTest, ABaselineOfAnotherBootIsDoubtedAndOneOfAnotherHostRefused) {
  ReportInput input = SomeInput();
  for (RunFigures& run : input.runs) {
    run.nodes[0].boot_id = "boot-a";
    run.nodes[0].facts["system.cpu"] = "a CPU";
  }
  input.baseline->hosts["node1"] = {{"boot-a"}, {{"system.cpu", "a CPU"}}};
  EXPECT_THAT(MakeReport(input).warnings, IsEmpty());
  input.baseline->hosts["node1"].boot_ids = {"boot-0"};
  EnergyReport report = MakeReport(input);
  EXPECT_TRUE(report.arm.energy.net);
  EXPECT_THAT(report.warnings,
              ElementsAre(HasSubstr("baseline b1 was taken in another boot of node node1")));
  input.baseline->hosts["node1"].hardware["system.cpu"] = "another CPU";
  report = MakeReport(input);
  EXPECT_FALSE(report.arm.energy.net);
  EXPECT_THAT(report.no_baseline, HasSubstr("taken on another host than run r0: system.cpu of node "
                                            "node1 was another CPU and is a CPU"));
  // Of two hosts with the same CPUs their systems are not the same.
  input.baseline->hosts["node1"].hardware = {{"system.cpu", "a CPU"}, {"system.machine", "0a"}};
  EXPECT_TRUE(MakeReport(input).arm.energy.net) << "of the runs it is not known";
  input.runs[0].nodes[0].facts["system.machine"] = "0b";
  report = MakeReport(input);
  EXPECT_FALSE(report.arm.energy.net);
  EXPECT_THAT(report.no_baseline, HasSubstr("taken on another host than run r0: system.machine"));
}

TEST(ReportTest, CountersAreComparedWithIntegratedPower) {
  ReportInput input = SomeInput();
  for (RunFigures& run : input.runs) {
    auto& domains = run.nodes[0].domains;
    domains.push_back({.id = "gpu-GPU-1",
                       .kind = "gpu",
                       .source = "nvml",
                       .device = "GPU-1",
                       .figure = {.joules = 187, .label = Label::kMeasured},
                       .in_total = true});
    domains.push_back({.id = "gpu-power-GPU-1",
                       .kind = "gpu-power",
                       .source = "nvml",
                       .device = "GPU-1",
                       .figure = {.joules = 327, .label = Label::kIntegrated},
                       .outside_total = "the same GPU"});
  }
  const EnergyReport report = MakeReport(input);
  ASSERT_EQ(report.counter_checks.size(), 6u);
  EXPECT_TRUE(report.counter_checks[0].warns);
  EXPECT_NEAR(report.counter_checks[0].gap_percent, 74.9, 0.1);
  EXPECT_THAT(report.warnings, Contains(HasSubstr("differ by 74.9 %")));
  const std::string text = TextOf(DocumentOf(report));
  EXPECT_THAT(text, HasSubstr("187 J | 327 J | +74.9 % (warning)"));
  EXPECT_THAT(text, HasSubstr("outside the total: the same GPU"));
  for (RunFigures& run : input.runs) run.nodes[0].domains.back().figure.joules = 190;
  EXPECT_FALSE(MakeReport(input).counter_checks[0].warns);
  const char* const kGap = "quality.counter_vs_power";
  EXPECT_EQ(MakeReport(input).headline_parts.facts.at(kGap), "at most 1.6 %");
  EXPECT_EQ(MakeReport(SomeInput()).headline_parts.facts.at(kGap), "none: no GPU has both");
  // That one of both is n/a does not mean that there are not both.
  input.runs[0].nodes[0].domains.back().figure = {.cause = "a gap"};
  EXPECT_EQ(MakeReport(input).headline_parts.facts.at(kGap),
            "at most 1.6 %, where both have joules");
  for (RunFigures& run : input.runs) run.nodes[0].domains.back().figure = {.cause = "a gap"};
  EXPECT_THAT(
      MakeReport(input).no_headline,
      AllOf(HasSubstr(kGap), HasSubstr("a GPU has both, but joules of one of them are n/a")));
}

TEST(ReportTest, ModelledAndAllocatedJoulesAreInTablesOfTheirOwn) {
  ReportInput input = SomeInput();
  input.model =
      PowerModel{.name = "tdp", .source = "data sheet", .error_percent = 40, .watts = 1000};
  for (RunFigures& run : input.runs) {
    WindowFigures all{.name = "job", .windows = 1, .seconds = 100};
    all.proxies.cpu_seconds = 200;
    WindowFigures read{.name = "read", .stage = "R", .windows = 1, .seconds = 50};
    read.proxies.cpu_seconds = 50;
    run.windows = {all, read};
  }
  const EnergyReport report = MakeReport(input);
  const EnergyReport plain = MakeReport(SomeInput());
  EXPECT_EQ(report.arm.energy.total->mean, plain.arm.energy.total->mean);
  EXPECT_EQ(report.no_headline, plain.no_headline);
  ASSERT_EQ(report.modelled.size(), 6u);
  EXPECT_EQ(report.modelled[0].second.label, Label::kModelled);
  ASSERT_EQ(report.allocated.size(), 6u);
  EXPECT_NEAR(*report.allocated[0].second.joules, 9000 / 4.0, 60);
  const std::string text = TextOf(DocumentOf(report));
  EXPECT_THAT(text, HasSubstr("Modelled, not measured: in no total, no ratio"));
  EXPECT_THAT(text, HasSubstr("modelled | model tdp (data sheet), stated error 40 %"));
  EXPECT_THAT(text, HasSubstr("Allocated by CPU time: in no total, no ratio"));
  EXPECT_THAT(text, HasSubstr("Proxy, not energy"));
}

TEST(ReportTest, RunsWithTheirStagesGiveTheLadderAndShapley) {
  const testing::SyntheticPipeline pipeline;
  std::mt19937_64 random(1);
  ReportInput input;
  for (const StageSet set : StageSchedule(ShapleySets(), 5, 1)) {
    const StageRun run = pipeline.Run(set, &random);
    RunFigures figures;
    figures.id = std::to_string(input.runs.size());
    figures.seconds = run.seconds;
    figures.total = {.joules = run.joules, .label = Label::kMeasured};
    figures.labels = {{"stages", set.List()}};
    NodeFigures node{.name = "n", .seconds = run.seconds, .total = figures.total};
    node.domains = {
        {.id = "package-0", .kind = "package", .figure = figures.total, .in_total = true}};
    figures.nodes = {node};
    input.runs.push_back(figures);
  }
  NamedBaseline named{.baseline = {.kind = BaselineKind::kReady, .runs = 5}, .id = "b"};
  named.baseline.watts = {.n = 5, .mean = 100, .sd = 0.3};
  named.baseline.domains = {{"n/package-0", named.baseline.watts}};
  input.baseline = named;
  const EnergyReport report = MakeReport(input);
  ASSERT_TRUE(report.ladder) << report.no_stages;
  ASSERT_TRUE(report.shapley);
  EXPECT_TRUE(report.ladder->interaction.net->confidence()->Contains(-550));
  // The job is what ran with all stages.
  EXPECT_EQ(report.arm.good, 5u);
  EXPECT_NEAR(report.arm.energy.net->value, 12850, 100);
  const std::string text = TextOf(DocumentOf(report));
  EXPECT_THAT(text, HasSubstr("Net I/O energy (read): 2.0"));
  EXPECT_THAT(text, HasSubstr("compare net figures only"));

  // They are compared on the same samples. One without reading may not know.
  ReportInput other = input;
  for (RunFigures& run : other.runs) {
    if (run.labels.at("stages") != "train") run.facts["work.samples"] = "1000";
  }
  EXPECT_TRUE(MakeReport(other).ladder);
  other.runs.back().labels["stages"] = "read";
  other.runs.back().facts["work.samples"] = "999";
  const EnergyReport differ = MakeReport(other);
  EXPECT_FALSE(differ.ladder);
  EXPECT_THAT(differ.no_stages, AllOf(HasSubstr("on the same samples"),
                                      HasSubstr("processed 1000, run 34 (read) 999")));

  std::erase_if(input.runs,
                [](const RunFigures& run) { return run.labels.at("stages") == "read"; });
  const EnergyReport without = MakeReport(input);
  EXPECT_FALSE(without.ladder);
  EXPECT_THAT(without.no_stages, HasSubstr("R has 0"));
  EXPECT_THAT(TextOf(DocumentOf(without)), Not(HasSubstr("I/O energy")));
}

TEST(ReportTest, ClocksThatDifferTooMuchAreFlaggedAndThenRefused) {
  const auto report_with = [](std::optional<int64_t> bound_ms) {
    ReportInput input = SomeInput();
    for (RunFigures& run : input.runs) {
      run.nodes.push_back(run.nodes[0]);
      run.nodes[0].clock_bound_ns = 0;
      run.nodes[1].name = "node2";
      if (bound_ms) run.nodes[1].clock_bound_ns = *bound_ms * kNsPerMs;
      run.windows = {{.name = "epoch", .windows = 1, .seconds = 9, .energy = run.total}};
    }
    return MakeReport(input);
  };
  EXPECT_THAT(report_with(40).warnings, IsEmpty());
  EXPECT_THAT(report_with(60).warnings, Contains(HasSubstr("more than half an interval")));
  EXPECT_TRUE(report_with(60).windows[0].energy.joules);
  EXPECT_THAT(report_with(101).warnings, Contains(HasSubstr("more than one interval")));
  EXPECT_FALSE(report_with(101).windows[0].energy.joules);
  // A difference that is not known is not 0.
  const EnergyReport unknown = report_with(std::nullopt);
  EXPECT_THAT(unknown.warnings, Contains(HasSubstr("how far the clock of node2 is from the "
                                                   "others' is not known")));
  EXPECT_FALSE(unknown.windows[0].energy.joules);
}

TEST(ReportTest, AClockThatIsNotSynchronisedIsSaidToBe) {
  ReportInput input = SomeInput();
  for (RunFigures& run : input.runs) run.nodes[0].clock_synchronised = false;
  EnergyReport report = MakeReport(input);
  EXPECT_EQ(report.headline_parts.facts.at("quality.clock_bound"),
            "none: one node, whose clock is not synchronised");
  for (RunFigures& run : input.runs) {
    run.nodes.push_back(run.nodes[0]);
    run.nodes[1].name = "node2";
    run.nodes[0].clock_bound_ns = run.nodes[1].clock_bound_ns = kNsPerMs;
    run.nodes[1].clock_synchronised = true;
  }
  report = MakeReport(input);
  // Once, though it is so in every run.
  EXPECT_THAT(report.warnings, ElementsAre("node node1: its kernel says that its clock is not "
                                           "synchronised (6 of 6 runs)"));
  for (size_t i = 1; i < input.runs.size(); ++i) input.runs[i].nodes[0].clock_synchronised = true;
  EXPECT_THAT(
      MakeReport(input).warnings,
      ElementsAre("run r0, node node1: its kernel says that its clock is not synchronised"));
  EXPECT_THAT(report.headline_parts.facts.at("quality.clock_bound"), HasSubstr("not synchronised"));
  for (RunFigures& run : input.runs) run.nodes[0].clock_synchronised.reset();
  EXPECT_THAT(MakeReport(input).warnings, Not(Contains(HasSubstr("not synchronised"))));
}

TEST(ReportTest, WhatWentWrongWhileSamplesWereTakenIsSaid) {
  ReportInput input = SomeInput();
  NodeFigures& node = input.runs[3].nodes[0];
  node.ticks_dropped = 3;
  node.sampler.clock_steps = 2;
  node.sampler.clock_step_ns = 50 * kNsPerMs;
  node.sampler.ticks = 100;
  node.sampler.missed = 2;
  node.sampler.cpu_ns = kNsPerSecond;
  node.sampler.elapsed_ns = 100 * kNsPerSecond;
  const auto warnings = MakeReport(input).warnings;
  EXPECT_THAT(warnings, ElementsAre("run r3, node node1: 3 samples did not reach the store",
                                    "run r3, node node1: the clock was set 2 times, by 0.050 s in "
                                    "sum",
                                    "run r3, node node1: 2 of 100 ticks were missed",
                                    "run r3, node node1: the monitor used 1.00 % of a core"));
}

TEST(ReportTest, OnlyWhatWasComparedWithAMeterIsSaidToBe) {
  ReportInput input = SomeInput();
  EXPECT_EQ(MakeReport(input).meter, kNotValidated);
  input.meters = {{"node1", "slope 1.12"}};
  EXPECT_EQ(MakeReport(input).meter, "node1: slope 1.12");
  input.meters = {{"elsewhere", "slope 1.12"}};
  EXPECT_EQ(MakeReport(input).meter, kNotValidated);
}

TEST(ReportTest, AHostWithoutCountersGivesAReportWithoutNumbers) {
  ReportInput input = SomeInput();
  input.baseline.reset();
  for (RunFigures& run : input.runs) {
    run.total = {.cause = "no counter", .fix = "measure the host"};
    run.nodes[0].total = run.total;
    for (auto& domain : run.nodes[0].domains) domain.figure = run.total;
  }
  const EnergyReport report = MakeReport(input);
  EXPECT_FALSE(report.arm.energy.total);
  EXPECT_THAT(report.arm.per_unit, IsEmpty());
  EXPECT_THAT(report.no_headline, HasSubstr("there are no joules"));
  const std::string text = TextOf(DocumentOf(report));
  EXPECT_THAT(text, HasSubstr("There are no joules: no counter"));
  EXPECT_THAT(text,
              HasSubstr("node1/package-0 | package, powercap | n/a | n/a | n/a | no counter; fix: "
                        "measure the host"));
  EXPECT_THAT(text, Not(HasSubstr(" 0 J")));
}

TEST(ReportTest, LongReasonsAreSaidOnceWithTheirFix) {
  ReportInput input = SomeInput();
  input.baseline.reset();
  const std::string cause = "perf: there is none; powercap: there is none; hwmon: there is none";
  for (RunFigures& run : input.runs) {
    run.total = {.cause = "node1: package-0 n/a: " + cause, .fix = "measure the host"};
    run.nodes[0].total = {.cause = "package-0 n/a: " + cause, .fix = "measure the host"};
    for (auto& domain : run.nodes[0].domains) {
      domain.figure = {.cause = cause, .fix = "measure the host"};
    }
  }
  const std::string text = TextOf(DocumentOf(MakeReport(input)));
  EXPECT_THAT(text, HasSubstr("Note 1: " + cause + ". Fix: measure the host."));
  EXPECT_EQ(text.find(cause), text.rfind(cause));
  EXPECT_THAT(text, HasSubstr("There are no joules: node1: package-0 n/a: note 1"));
  EXPECT_THAT(text, HasSubstr("n/a | package-0 n/a: note 1"));
  EXPECT_THAT(text, Not(HasSubstr("Note 2")));
}

TEST(HtmlTest, ThePageIsWholeAndNeedsNothingFromElsewhere) {
  ReportInput input = SomeInput();
  input.title = "<script>alert(1)</script> & more";
  input.trace.seconds = 100;
  PowerTrace trace(0, 100 * kNsPerSecond, 50);
  trace.AddEnergy(0, 100 * kNsPerSecond, 9000);
  input.trace.by_kind.emplace("package", trace);
  input.trace.spans = {{"R", 0, 40}, {"T", 40, 100}};
  const std::string page = RenderHtml(DocumentOf(MakeReport(input)));
  EXPECT_THAT(page, HasSubstr("<!doctype html>"));
  EXPECT_THAT(page, HasSubstr("</html>"));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert(1)&lt;/script&gt; &amp; more"));
  EXPECT_THAT(page, HasSubstr("class=\"shade\""));
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme:dark"));
  for (const char* outside : {"<script", "src=", "href=", "http:", "https:", "url(", "@import"}) {
    EXPECT_THAT(page, Not(HasSubstr(outside)));
  }
}

TEST(HtmlTest, PowerThatIsNotKnownIsHatchedAndNotZero) {
  Document document{.title = "gap", .sections = {{.title = "s", .blocks = {}}}};
  PowerPlot plot{.seconds = 4, .series = {}, .spans = {{"epoch", 0, 2, 0}, {"serve", 1, 4, 0}}};
  plot.series.push_back({"package", {10.0, 10.0, std::nullopt, 10.0}});
  plot.series.push_back({"dram", {5.0, 5.0, 5.0, 5.0}});
  document.sections[0].blocks.emplace_back(plot);
  const std::string page = RenderHtml(document);
  EXPECT_THAT(page, HasSubstr("fill=\"url(#unknown)\""));
  EXPECT_THAT(page, HasSubstr("<title>not known</title>"));
  // Each series has two pieces, before and behind.
  const size_t package = page.find("<title>package</title>");
  const std::string path = page.substr(page.rfind("<path", package), package);
  EXPECT_EQ(std::count(path.begin(), path.begin() + path.find('>'), 'Z'), 2);
  EXPECT_THAT(page, HasSubstr(">epoch 0<"));
  EXPECT_THAT(page, HasSubstr(">serve 0<"));
  // Nothing but the page's own pattern is referred to.
  for (size_t at = page.find("url("); at != std::string::npos; at = page.find("url(", at + 1)) {
    EXPECT_EQ(page.substr(at, 5), "url(#");
  }
}

TEST(HtmlTest, BarsHaveTheirIntervals) {
  Document document{.title = "bars", .sections = {{.title = "s", .blocks = {}}}};
  document.sections[0].blocks.emplace_back(BarPlot{
      .unit = "J", .bars = {{"read", 2000, Interval{1900, 2100}}, {"interaction", -500, {}}}});
  const std::string page = RenderHtml(document);
  EXPECT_THAT(page, HasSubstr("2.00 ± 0.10 kJ"));
  EXPECT_THAT(page, HasSubstr("-500 J"));
  EXPECT_THAT(page, HasSubstr("class=\"err\""));
  EXPECT_THAT(page, Not(HasSubstr("nan")));
}

TEST(HtmlTest, EmptyPlotsAreNoFault) {
  Document document{.title = "none", .sections = {{.title = "s", .blocks = {}}}};
  document.sections[0].blocks.emplace_back(PowerPlot{});
  document.sections[0].blocks.emplace_back(BarPlot{.unit = "J", .bars = {}});
  const std::string page = RenderHtml(document);
  EXPECT_THAT(page, Not(HasSubstr("nan")));
  EXPECT_THAT(page, Not(HasSubstr("inf")));
}

}  // namespace
}  // namespace emlio::energy_analysis
