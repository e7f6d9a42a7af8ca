// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "emlio/energy_analysis/numbers.h"
#include "emlio/energy_analysis/report_parts.h"

namespace emlio::energy_analysis {
namespace {

// "CPU+DRAM, 1 compute + 2 storage nodes".
std::string KindsText(const Arm& arm) {
  std::set<std::string> kinds;
  std::map<std::string, size_t> roles;
  if (const auto counted = CountedRuns(arm.runs); !counted.empty()) {
    for (const NodeFigures& node : counted.front()->nodes) {
      ++roles[node.role];
      for (const DomainFigures& domain : node.domains) {
        if (domain.in_total && domain.figure.joules) kinds.insert(domain.kind);
      }
    }
  }
  constexpr std::pair<const char*, const char*> kNames[] = {
      {"package", "CPU"}, {"grace", "CPU"}, {"module", "module"}, {"dram", "DRAM"}, {"gpu", "GPU"}};
  std::vector<std::string> names;
  for (const auto& [kind, name] : kNames) {
    if (kinds.count(kind) > 0) names.emplace_back(name);
  }
  std::vector<std::string> parts;
  size_t nodes = 0;
  for (const auto& [role, count] : roles) {
    parts.push_back(role.empty() ? fmt::format("{}", count) : fmt::format("{} {}", count, role));
    nodes += count;
  }
  return fmt::format("{}, {} node{}", fmt::join(names, "+"), fmt::join(parts, " + "),
                     nodes == 1 ? "" : "s");
}

// What a report finds by itself.
bool IsFound(const std::string& fact) {
  if (fact.starts_with("quality.") || fact.starts_with("statistics.")) return true;
  return fact == "included.nodes" || fact == "included.domains" || fact == "included.absent";
}

// What all runs of a report have in common, or the worst of it.
struct OfAllRuns {
  std::vector<std::string> ids, failed;
  std::set<std::string> nodes, domains, absent, sources, intervals;
  double void_seconds = 0;
  double edge_joules = 0;
  double core_share = 0;
  int64_t bound_ns = 0;
  int64_t period_ns = 0;
  bool bounds_known = true;
  bool unsought = false;             // hosts that data came from were not looked for
  std::optional<bool> synchronised;  // all of those that say

  void Add(const RunFigures& run) {
    ids.push_back(run.id);
    if (!IsGood(run)) failed.push_back(run.id);
    for (const energy::Note& note : run.notes) unsought |= note.kind == "not_looked_for";
    edge_joules = std::max(edge_joules, run.total.uncertainty_joules);
    for (const NodeFigures& node : run.nodes) Add(node);
  }

 private:
  void Add(const NodeFigures& node) {
    nodes.insert(node.name);
    intervals.insert(NanosecondsText(node.interval_ns));
    period_ns = std::max(period_ns, node.update_period_ns);
    bounds_known &= node.clock_bound_ns.has_value();
    if (node.clock_synchronised) {
      synchronised = synchronised.value_or(true) && *node.clock_synchronised;
    }
    bound_ns = std::max(bound_ns, node.clock_bound_ns.value_or(0));
    core_share = std::max(core_share, node.sampler.cpu_share());
    for (const std::string& id : node.without) absent.insert(id + " (nothing counts it)");
    for (const auto& [source, cause] : node.absent) absent.insert(source + " (" + cause + ")");
    for (const DomainFigures& domain : node.domains) {
      if (!domain.in_total) continue;
      if (domain.figure.joules) domains.insert(node.name + "/" + domain.id);
      if (!domain.source.empty()) sources.insert(domain.kind + ": " + domain.source);
      void_seconds += domain.void_seconds;
    }
  }
};

// Facts of several runs, by the runs' ids.
using RunFacts = std::vector<std::pair<std::string, const Facts*>>;

// What all of them say alike; of all else, the reason.
Facts CommonFacts(const RunFacts& runs, Facts* reasons) {
  Facts common;
  for (const auto& [run, facts] : runs) common.insert(facts->begin(), facts->end());
  std::erase_if(common, [&](const auto& fact) {
    for (const auto& [run, facts] : runs) {
      const auto it = facts->find(fact.first);
      if (it != facts->end() && it->second == fact.second) continue;
      (*reasons)[fact.first] = it == facts->end()
                                   ? fmt::format("run {} does not say it", run)
                                   : fmt::format("runs {} and {} differ", runs.front().first, run);
      return true;
    }
    return false;
  });
  return common;
}

// How far the two ways to the same joules of a GPU differ. Nothing, and the reason: there are two,
// but not both have joules.
std::string CounterGap(const EnergyReport& report, std::string* reason) {
  size_t twofold = 0;
  for (const RunFigures& run : report.arm.runs) {
    for (const NodeFigures& node : run.nodes) {
      twofold += static_cast<size_t>(
          std::count_if(node.domains.begin(), node.domains.end(),
                        [](const DomainFigures& domain) { return domain.kind == "gpu-power"; }));
    }
  }
  if (twofold == 0) return "none: no GPU has both";
  if (report.counter_checks.empty()) {
    *reason = "a GPU has both, but joules of one of them are n/a";
    return "";
  }
  double gap = 0;
  for (const CounterCheck& check : report.counter_checks) {
    gap = std::max(gap, std::abs(check.gap_percent));
  }
  return fmt::format("at most {:.1f} %{}", gap,
                     report.counter_checks.size() < twofold ? ", where both have joules" : "");
}

// What the report knows by itself, and what the runs' configurations say of all else.
Facts KnownFacts(const EnergyReport& report, Facts* reasons) {
  RunFacts of_runs;
  for (const RunFigures* run : ShownRuns(report.arm)) of_runs.emplace_back(run->id, &run->facts);
  Facts facts = CommonFacts(of_runs, reasons);
  for (Facts* said : {&facts, reasons}) {
    std::erase_if(*said, [](const auto& fact) { return IsFound(fact.first); });
  }
  OfAllRuns all;
  // In the order in which they were made, in whatever order they were asked for.
  std::vector<const RunFigures*> by_time;
  for (const RunFigures& run : report.arm.runs) by_time.push_back(&run);
  std::sort(by_time.begin(), by_time.end(), [](const RunFigures* a, const RunFigures* b) {
    return std::pair(a->started_wall_ns, a) < std::pair(b->started_wall_ns, b);
  });
  for (const RunFigures* run : by_time) all.Add(*run);
  facts["statistics.run_ids"] = fmt::format("{}", fmt::join(all.ids, ", "));
  facts["statistics.failed"] =
      all.failed.empty() ? "none"
                         : fmt::format("{}: {}", all.failed.size(), fmt::join(all.failed, ", "));
  facts.emplace("statistics.order", "as the run ids are listed");
  facts["included.nodes"] = fmt::format(
      "{}{}", fmt::join(all.nodes, ", "),
      all.unsought ? "; others that data came from were not looked for (--no-find)" : "");
  facts["included.domains"] = fmt::format("{}", fmt::join(all.domains, ", "));
  facts["included.absent"] =
      all.absent.empty() ? "none" : fmt::format("{}", fmt::join(all.absent, ", "));
  facts["quality.sources"] = fmt::format("{}", fmt::join(all.sources, ", "));
  facts["quality.interval"] = fmt::format("{}", fmt::join(all.intervals, ", "));
  facts.emplace("quality.update_period",
                all.period_ns > 0 ? fmt::format("at most {}", NanosecondsText(all.period_ns)) : "");
  facts["quality.missing_time"] = SecondsText(all.void_seconds);
  if (report.arm.good > 0) {
    facts["quality.edge_uncertainty"] =
        fmt::format("at most {} a run", JoulesText(all.edge_joules));
  }
  if (all.nodes.size() <= 1) {
    facts.emplace("quality.clock_bound", all.synchronised == false
                                             ? "none: one node, whose clock is not synchronised"
                                             : "none: one node");
  } else if (all.bounds_known) {
    facts.emplace(
        "quality.clock_bound",
        NanosecondsText(all.bound_ns) + (all.synchronised == false ? ", not synchronised" : ""));
  }
  std::string no_gap;
  facts["quality.counter_vs_power"] = CounterGap(report, &no_gap);
  if (!no_gap.empty()) (*reasons)["quality.counter_vs_power"] = no_gap;
  if (all.core_share > 0) {
    facts.emplace("quality.monitor_overhead",
                  fmt::format("{:.2f} % of a core", 100 * all.core_share));
  }
  facts["quality.meter"] = report.meter;
  // Numbers that a person reads.
  const auto pretty = [&](const char* key, const char* unit) {
    RunFigures run;
    run.facts = facts;
    if (const auto number = run.Number(key)) facts[key] = WithUnit(*number, unit);
  };
  pretty("work.bytes", "B");
  pretty("work.sample_bytes", "B");
  return facts;
}

// The nodes of an arm, by name: what its runs say alike, and before it what users say.
std::map<std::string, HeadlineNode> NodesOf(const Arm& arm, const ReportInput& input) {
  std::map<std::string, RunFacts> of_nodes;
  for (const RunFigures* run : ShownRuns(arm)) {
    for (const NodeFigures& node : run->nodes) {
      of_nodes[node.name].emplace_back(run->id, &node.facts);
    }
  }
  std::map<std::string, HeadlineNode> nodes;
  for (const auto& [name, of_runs] : of_nodes) {
    HeadlineNode node{.name = name};
    node.facts = CommonFacts(of_runs, &node.reasons);
    if (const auto said = input.node_facts.find(name); said != input.node_facts.end()) {
      for (const auto& [key, value] : said->second) node.facts[key] = value;
    }
    nodes.emplace(name, std::move(node));
  }
  return nodes;
}

}  // namespace

Status CheckSaidFacts(const Facts& facts) {
  std::vector<std::string> refused;
  for (const auto& [key, value] : facts) {
    if (IsFound(key)) refused.push_back(key);
  }
  if (refused.empty()) return OkStatus();
  return InvalidArgument(
      fmt::format("facts {}: a report finds these itself and nobody can say them; leave them out "
                  "(quality.*, statistics.*, included.nodes, included.domains, included.absent)",
                  fmt::join(refused, ", ")));
}

std::string MeterText(const ReportInput& input, const Arm& arm) {
  std::set<std::string> nodes;
  for (const RunFigures& run : arm.runs) {
    for (const NodeFigures& node : run.nodes) nodes.insert(node.name);
  }
  std::vector<std::string> texts;
  for (const MeterNote& meter : input.meters) {
    if (nodes.erase(meter.node) > 0) {
      texts.push_back(fmt::format("{}: {}", meter.node, meter.text));
    }
  }
  if (texts.empty()) return kNotValidated;
  if (!nodes.empty()) {
    texts.push_back(fmt::format("{}: {}", fmt::join(nodes, ", "), kNotValidated));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

void AddHeadline(const ReportInput& input, EnergyReport* report) {
  Headline& headline = report->headline_parts;
  const Quantity& energy = report->arm.energy;
  headline.net = energy.net.has_value();
  headline.quantity = headline.net ? "net energy" : "total energy";
  headline.label = headline.net && energy.label != Label::kNone
                       ? std::max(energy.label, Label::kDerived)
                       : energy.label;
  headline.baseline =
      report->baseline ? std::string(BaselineKindName(report->baseline->baseline.kind)) : "none";
  headline.total_joules = energy.total;
  if (energy.total) {
    headline.joules = energy.net ? NetSummary(energy) : *energy.total;
    headline.interval =
        energy.net ? energy.net->confidence() : energy.total->estimate().confidence();
  }
  headline.seconds = report->arm.seconds;
  headline.watts = report->arm.watts;
  headline.domains = KindsText(report->arm);
  if (report->against) {
    headline.comparison =
        HeadlineComparison{report->against->name, report->against->good, report->ratios};
  }
  headline.facts = KnownFacts(*report, &headline.reasons);
  for (const auto& [key, value] : input.facts) {
    if (!IsFound(key)) headline.facts[key] = value;
  }
  auto nodes = NodesOf(report->arm, input);
  if (report->against) {
    for (auto& [name, node] : NodesOf(*report->against, input)) {
      const auto [at, is_new] = nodes.try_emplace(name, node);
      if (is_new || at->second.facts == node.facts) continue;
      // One node that was not the same for both.
      node.name = fmt::format("{} of {}", name, report->against->name);
      nodes.emplace(node.name, node);
    }
  }
  for (auto& [name, node] : nodes) headline.nodes.push_back(std::move(node));
  auto line = HeadlineText(headline);
  if (const Status said = CheckSaidFacts(input.facts); !said.ok()) {
    report->no_headline = said.message();
  } else if (line.ok()) {
    report->headline = *std::move(line);
  } else {
    report->no_headline = line.status().message();
  }
}

}  // namespace emlio::energy_analysis
