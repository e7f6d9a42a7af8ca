// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "emlio/energy_analysis/report_parts.h"

namespace emlio::energy_analysis {
namespace {

constexpr double kMaxGapPercent = 5;

// What the total of a run is the sum of, whatever its nodes are called: "2 nodes with
// dram+package".
std::string SummedKinds(const RunFigures& run) {
  std::map<std::string, size_t> nodes;  // by the kinds of their summed domains
  for (const NodeFigures& node : run.nodes) {
    std::set<std::string> kinds;
    for (const DomainFigures& domain : node.domains) {
      if (domain.in_total && domain.figure.joules) kinds.insert(domain.kind);
    }
    ++nodes[kinds.empty() ? "nothing" : fmt::format("{}", fmt::join(kinds, "+"))];
  }
  std::vector<std::string> parts;
  for (const auto& [kinds, count] : nodes) {
    parts.push_back(fmt::format("{} node{} with {}", count, count == 1 ? "" : "s", kinds));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

// Sets of stages are compared on the same samples. Of runs that know how many they processed; one
// without reading may not.
std::string SamplesThatDiffer(const std::vector<RunFigures>& runs) {
  const RunFigures* first = nullptr;
  for (const RunFigures& run : runs) {
    if (!IsGood(run) || !run.labels.contains("stages") || !run.Number("work.samples")) continue;
    if (first == nullptr) first = &run;
    if (*run.Number("work.samples") == *first->Number("work.samples")) continue;
    return fmt::format(
        "sets of stages are compared on the same samples: run {} ({}) processed {}, run {} ({}) {}",
        first->id, first->labels.at("stages"), first->facts.at("work.samples"), run.id,
        run.labels.at("stages"), run.facts.at("work.samples"));
  }
  return "";
}

void AddStages(const ReportInput& input, EnergyReport* report) {
  std::vector<StageRun> runs;
  std::set<unsigned> sets;
  for (const RunFigures& run : report->arm.runs) {
    const auto stages = run.labels.find("stages");
    if (stages == run.labels.end()) continue;
    const auto set = StageSet::FromList(stages->second);
    if (!set) continue;
    sets.insert(set->bits());
    if (IsGood(run)) {
      runs.push_back({.set = *set, .joules = *run.total.joules, .seconds = run.seconds});
    }
  }
  if (sets.size() < 2) return;
  if (std::string differ = SamplesThatDiffer(report->arm.runs); !differ.empty()) {
    report->no_stages = std::move(differ);
    return;
  }
  const LadderOptions options{
      .min_runs = input.min_stage_runs,
      .baseline_watts = report->baseline ? &report->baseline->baseline.watts : nullptr};
  auto ladder = AnalyseLadder(runs, options);
  if (!ladder.ok()) {
    report->no_stages = ladder.status().message();
    return;
  }
  report->ladder = *std::move(ladder);
  if (report->ladder->unpaced) {
    report->warnings.push_back(
        "runs with fewer stages took less time, so that idle power moves between stages: compare "
        "net figures only");
  }
  // P alone is not on the ladder.
  if (sets.count(StageSet().With(Stage::kPreprocess).bits()) == 0) return;
  auto shapley = AnalyseShapley(runs, options);
  if (shapley.ok()) {
    report->shapley = *std::move(shapley);
  } else {
    report->no_stages = shapley.status().message();
  }
}

void AddCounterChecks(EnergyReport* report) {
  double largest = 0;
  for (const RunFigures& run : report->arm.runs) {
    for (const NodeFigures& node : run.nodes) {
      for (const DomainFigures& domain : node.domains) {
        if (domain.kind != "gpu-power" || !domain.figure.joules) continue;
        for (const DomainFigures& counter : node.domains) {
          if (counter.device != domain.device || !counter.in_total || !counter.figure.joules ||
              !(*counter.figure.joules > 0)) {
            continue;
          }
          CounterCheck check{.run = run.id,
                             .node = node.name,
                             .device = domain.device,
                             .counter_joules = *counter.figure.joules,
                             .integrated_joules = *domain.figure.joules};
          check.gap_percent = (check.integrated_joules / check.counter_joules - 1) * 100;
          check.warns = std::abs(check.gap_percent) > kMaxGapPercent;
          largest = std::max(largest, std::abs(check.gap_percent));
          report->counter_checks.push_back(check);
        }
      }
    }
  }
  if (largest > kMaxGapPercent) {
    report->warnings.push_back(fmt::format(
        "a GPU's counter and its integrated power differ by {:.1f} %, more than {:g} %: one of "
        "them is wrong",
        largest, kMaxGapPercent));
  }
}

void AddRatios(EnergyReport* report) {
  if (!report->against) return;
  const Arm& a = report->arm;
  const Arm& b = *report->against;
  if (!a.energy.total || !b.energy.total) {
    report->warnings.push_back("no ratio: one of the arms has no run with joules");
    return;
  }
  const auto kinds_of = [](const Arm& arm) {
    std::set<std::string> kinds;
    for (const RunFigures* run : CountedRuns(arm.runs)) kinds.insert(SummedKinds(*run));
    return kinds;
  };
  if (const auto ours = kinds_of(a), theirs = kinds_of(b); ours != theirs) {
    report->warnings.push_back(
        fmt::format("no ratio: the totals are sums of different kinds of domains or of different "
                    "numbers of nodes: {}: {}; {}: {}",
                    a.name, fmt::join(ours, " or "), b.name, fmt::join(theirs, " or ")));
    return;
  }
  report->ratios.push_back(
      {"total energy", RatioOfMeans(a.energy.total->estimate(), b.energy.total->estimate())});
  if (a.energy.net && b.energy.net) {
    report->ratios.push_back({"net energy", RatioOfMeans(*a.energy.net, *b.energy.net)});
  }
  report->ratios.push_back({"time", RatioOfMeans(a.seconds.estimate(), b.seconds.estimate())});
  report->ratios.push_back({"mean power", RatioOfMeans(a.watts.estimate(), b.watts.estimate())});
  const auto samples_of = [](const Arm& arm) {
    std::set<double> samples;
    for (const RunFigures* run : CountedRuns(arm.runs)) {
      if (const auto one = run->Number("work.samples")) samples.insert(*one);
    }
    return samples;
  };
  if (const auto ours = samples_of(a), theirs = samples_of(b);
      !ours.empty() && !theirs.empty() && ours != theirs) {
    report->warnings.push_back(
        fmt::format("{} and {} did not process the same number of samples: their ratios are of "
                    "different work",
                    a.name, b.name));
  }
  // A ratio without its interval says nothing.
  for (NamedRatio& ratio : report->ratios) {
    if (ratio.ratio.interval) continue;
    ratio.ratio.value = std::nan("");
    report->warnings.push_back(fmt::format(
        "no ratio of {}: both sides need two runs or more, and what it is divided by has to be "
        "told apart from 0",
        ratio.name));
  }
}

void AddModelled(const ReportInput& input, EnergyReport* report) {
  if (!input.model) return;
  for (const RunFigures& run : report->arm.runs) {
    std::optional<double> cpu_seconds;
    for (const WindowFigures& window : run.windows) {
      cpu_seconds = std::max(cpu_seconds, window.proxies.cpu_seconds);
    }
    report->modelled.emplace_back(
        run.id, ModelledJoules(*input.model, run.seconds, cpu_seconds, run.Number("work.bytes")));
  }
}

void AddAllocated(EnergyReport* report) {
  for (const RunFigures& run : report->arm.runs) {
    if (run.nodes.size() != 1) continue;
    double host_cpu_seconds = 0;
    for (const WindowFigures& window : run.windows) {
      host_cpu_seconds = std::max(host_cpu_seconds, window.proxies.cpu_seconds.value_or(0));
    }
    std::vector<Figure> packages;
    for (const DomainFigures& domain : run.nodes.front().domains) {
      if (domain.kind == "package" || domain.kind == "grace") packages.push_back(domain.figure);
    }
    const Figure cpu = SumOf(packages);
    if (!cpu.joules) continue;
    for (const WindowFigures& window : run.windows) {
      const auto seconds = window.proxies.cpu_seconds;
      if (!seconds || *seconds >= host_cpu_seconds) continue;
      report->allocated.emplace_back(fmt::format("{}: {} {}", run.id, window.stage, window.name),
                                     AllocatedByCpuTime(cpu, *seconds, host_cpu_seconds));
    }
  }
}

}  // namespace emlio::energy_analysis
