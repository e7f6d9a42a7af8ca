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

// What the report knows by itself, and what the runs' configurations say of all else.
Facts KnownFacts(const EnergyReport& report) {
  Facts facts;
  OfAllRuns all;
  // In the order in which they were made, in whatever order they were asked for.
  std::vector<const RunFigures*> by_time;
  for (const RunFigures& run : report.arm.runs) by_time.push_back(&run);
  std::stable_sort(by_time.begin(), by_time.end(), [](const RunFigures* a, const RunFigures* b) {
    return a->started_wall_ns < b->started_wall_ns;
  });
  for (const RunFigures* at : by_time) {
    const RunFigures& run = *at;
    all.Add(run);
    for (const auto& [key, value] : run.facts) {
      if (!IsFound(key)) facts.emplace(key, value);
    }
  }
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
  double gap = 0;
  for (const CounterCheck& check : report.counter_checks) {
    gap = std::max(gap, std::abs(check.gap_percent));
  }
  facts["quality.counter_vs_power"] = report.counter_checks.empty()
                                          ? "none: no GPU has both"
                                          : fmt::format("at most {:.1f} %", gap);
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
  headline.facts = KnownFacts(*report);
  for (const auto& [key, value] : input.facts) {
    if (!IsFound(key)) headline.facts[key] = value;
  }
  std::map<std::string, Facts> nodes;
  for (const RunFigures& run : report->arm.runs) {
    for (const NodeFigures& node : run.nodes) {
      Facts& facts = nodes[node.name];
      facts.insert(node.facts.begin(), node.facts.end());
      if (const auto said = input.node_facts.find(node.name); said != input.node_facts.end()) {
        for (const auto& [key, value] : said->second) facts[key] = value;
      }
    }
  }
  for (auto& [name, facts] : nodes) headline.nodes.push_back({.name = name, .facts = facts});
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
