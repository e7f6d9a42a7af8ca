// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_analysis/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "emlio/energy_analysis/numbers.h"

namespace emlio::energy_analysis {
namespace {

constexpr double kMaxGapPercent = 5;
constexpr double kOverheadTarget = 0.005;
constexpr size_t kMaxNamed = 4;  // of things in one sentence
constexpr size_t kMaxCommandBytes = 100;

bool IsGood(const RunFigures& run) { return run.failure.empty() && run.total.joules.has_value(); }

std::vector<const RunFigures*> GoodRuns(const std::vector<RunFigures>& runs) {
  std::vector<const RunFigures*> good;
  for (const RunFigures& run : runs) {
    if (IsGood(run)) good.push_back(&run);
  }
  return good;
}

std::string StagesOf(const RunFigures& run) {
  const auto stages = run.labels.find("stages");
  return stages == run.labels.end() ? kAllStages.List() : stages->second;
}

// Which stages the job has: all, or, where no run has all, those of the first.
std::string JobStages(const std::vector<RunFigures>& runs) {
  for (const RunFigures& run : runs) {
    if (StagesOf(run) == kAllStages.List()) return kAllStages.List();
  }
  return runs.empty() ? "" : StagesOf(runs.front());
}

// The runs of a stage experiment that stand for the whole job, or all runs.
std::vector<const RunFigures*> JobRuns(const std::vector<RunFigures>& runs) {
  const std::string stages = JobStages(runs);
  std::vector<const RunFigures*> job;
  for (const RunFigures& run : runs) {
    if (StagesOf(run) == stages) job.push_back(&run);
  }
  return job;
}

// One row: the same thing in every good run.
class Gather {
 public:
  explicit Gather(std::string name, std::string detail = {}) {
    quantity_.name = std::move(name);
    quantity_.detail = std::move(detail);
    quantity_.label = Label::kMeasured;
  }
  void Add(const Figure& figure, double seconds) {
    if (!figure.joules) {
      SayOnce(figure);
      missing_ = true;
      return;
    }
    joules_.push_back(*figure.joules);
    seconds_.push_back(seconds);
    quantity_.label = std::max(quantity_.label, figure.label);
    SayOnce(figure);
  }
  const std::string& name() const { return quantity_.name; }
  void SetOutside(const std::string& why) {
    quantity_.in_total = false;
    if (quantity_.cause.empty()) quantity_.cause = why;
  }
  Quantity Finish(const Summary* baseline_watts) {
    // What is missing in one of the runs has no mean: it would be one of other runs.
    if (missing_ || joules_.empty()) {
      quantity_.label = Label::kNone;
      return std::move(quantity_);
    }
    quantity_.total = Summarise(joules_);
    if (baseline_watts != nullptr && quantity_.in_total) {
      quantity_.net = MeanNetOf(joules_, seconds_, *baseline_watts);
    }
    return std::move(quantity_);
  }

 private:
  void SayOnce(const Figure& figure) {
    if (!quantity_.cause.empty()) return;
    quantity_.cause = figure.cause;
    quantity_.fix = figure.fix;
  }

  Quantity quantity_;
  std::vector<double> joules_;
  std::vector<double> seconds_;
  bool missing_ = false;
};

const Summary* BaselineOf(const std::optional<NamedBaseline>& baseline, const std::string& domain) {
  if (!baseline) return nullptr;
  for (const DomainBaseline& one : baseline->baseline.domains) {
    if (one.domain == domain) return &one.watts;
  }
  return nullptr;
}

// A node's baseline is the sum of its domains'; their scatter is taken as independent.
std::optional<Summary> NodeBaseline(const std::optional<NamedBaseline>& baseline,
                                    const std::string& node) {
  if (!baseline) return std::nullopt;
  Summary sum;
  double variance = 0;
  for (const DomainBaseline& one : baseline->baseline.domains) {
    if (!one.domain.starts_with(node + "/")) continue;
    sum.n = one.watts.n;
    sum.mean += one.watts.mean;
    variance += one.watts.sd * one.watts.sd;
  }
  if (sum.n == 0) return std::nullopt;
  sum.sd = std::sqrt(variance);
  return sum;
}

std::vector<PerUnit> PerUnitOf(const std::vector<const RunFigures*>& runs,
                               const std::optional<NamedBaseline>& baseline) {
  struct Unit {
    const char* name;
    const char* fact;
    double scale;
  };
  constexpr Unit kUnits[] = {
      {"GB", "work.bytes", 1e-9}, {"sample", "work.samples", 1}, {"epoch", "work.epochs", 1}};
  std::vector<PerUnit> all;
  for (const Unit& unit : kUnits) {
    std::vector<double> joules, seconds;
    for (const RunFigures* run : runs) {
      const auto work = run->Number(unit.fact);
      if (!work) break;
      joules.push_back(*run->total.joules / (*work * unit.scale));
      seconds.push_back(run->seconds / (*work * unit.scale));
    }
    if (joules.empty() || joules.size() != runs.size()) continue;
    PerUnit per{.unit = unit.name, .total = Summarise(joules).estimate(), .net = {}};
    if (baseline) per.net = MeanNetOf(joules, seconds, baseline->baseline.watts);
    all.push_back(per);
  }
  return all;
}

// The domains that its total is the sum of.
std::set<std::string> SummedDomains(const RunFigures& run) {
  std::set<std::string> summed;
  for (const NodeFigures& node : run.nodes) {
    for (const DomainFigures& domain : node.domains) {
      if (domain.in_total && domain.figure.joules) summed.insert(node.name + "/" + domain.id);
    }
  }
  return summed;
}

// The baseline fits runs of exactly the domains that it has, on the hosts that it was taken on.
std::string BaselineMismatch(const NamedBaseline& baseline,
                             const std::vector<const RunFigures*>& runs) {
  std::set<std::string> has;
  for (const DomainBaseline& domain : baseline.baseline.domains) has.insert(domain.domain);
  for (const RunFigures* run : runs) {
    const std::set<std::string> summed = SummedDomains(*run);
    if (summed == has) continue;
    std::vector<std::string> differ;
    std::set_symmetric_difference(summed.begin(), summed.end(), has.begin(), has.end(),
                                  std::back_inserter(differ));
    return fmt::format("baseline {} is of other domains than run {}: {} are in one of them only",
                       baseline.id, run->id, fmt::join(differ, ", "));
  }
  for (const RunFigures* run : runs) {
    Hosts hosts;
    AddHosts(*run, &hosts);
    for (const auto& [name, host] : hosts) {
      const auto of = baseline.hosts.find(name);
      if (of == baseline.hosts.end()) continue;
      for (const auto& [fact, value] : host.hardware) {
        const auto was = of->second.hardware.find(fact);
        if (was == of->second.hardware.end() || was->second == value) continue;
        return fmt::format(
            "baseline {} was taken on another host than run {}: {} of node {} was {} and is {}",
            baseline.id, run->id, fact, name, was->second, value);
      }
    }
  }
  return "";
}

Arm MakeArm(std::string name, std::vector<RunFigures> runs,
            const std::optional<NamedBaseline>& baseline) {
  Arm arm;
  arm.name = std::move(name);
  arm.runs = std::move(runs);
  Gather energy("energy");
  std::vector<const RunFigures*> counted;
  std::vector<double> seconds, watts;
  Figure missing;
  for (const RunFigures* run : JobRuns(arm.runs)) {
    if (!IsGood(*run)) {
      if (missing.cause.empty()) {
        missing = run->failure.empty() ? run->total : Figure{.cause = run->failure};
      }
      continue;
    }
    counted.push_back(run);
    energy.Add(run->total, run->seconds);
    seconds.push_back(run->seconds);
    watts.push_back(*run->total.joules / run->seconds);
  }
  arm.whole = JobRuns(arm.runs).size();
  arm.good = counted.size();
  arm.energy = energy.Finish(baseline ? &baseline->baseline.watts : nullptr);
  if (!arm.energy.total) {
    arm.energy.cause = missing.cause;
    arm.energy.fix = missing.fix;
  }
  arm.seconds = Summarise(seconds);
  arm.watts = Summarise(watts);
  arm.per_unit = PerUnitOf(counted, baseline);
  return arm;
}

void AddNodesAndDomains(const std::optional<NamedBaseline>& baseline, EnergyReport* report) {
  std::map<std::string, Gather> nodes, domains;
  std::vector<std::string> node_order, domain_order;
  // Where no run is good, what there is of the others says why.
  std::vector<const RunFigures*> runs;
  for (const RunFigures* run : JobRuns(report->arm.runs)) {
    if (IsGood(*run) || report->arm.good == 0) runs.push_back(run);
  }
  for (const RunFigures* run : runs) {
    for (const NodeFigures& node : run->nodes) {
      auto [row, is_new] = nodes.try_emplace(node.name, node.name, node.role);
      if (is_new) node_order.push_back(node.name);
      row->second.Add(node.total, node.seconds);
      for (const DomainFigures& domain : node.domains) {
        const std::string name = node.name + "/" + domain.id;
        const std::string detail =
            domain.source.empty() ? domain.kind : fmt::format("{}, {}", domain.kind, domain.source);
        auto [at, first] = domains.try_emplace(name, name, detail);
        if (first) domain_order.push_back(name);
        at->second.Add(domain.figure, node.seconds);
        if (!domain.in_total) at->second.SetOutside(domain.outside_total);
      }
    }
  }
  for (const std::string& name : node_order) {
    const auto of_node = NodeBaseline(baseline, name);
    report->nodes.push_back(nodes.at(name).Finish(of_node ? &*of_node : nullptr));
  }
  for (const std::string& name : domain_order) {
    report->domains.push_back(domains.at(name).Finish(BaselineOf(baseline, name)));
  }
}

void AddEpochs(const std::optional<NamedBaseline>& baseline, EnergyReport* report) {
  struct Row {
    explicit Row(const EpochFigures& first) : energy(first.node) {
      for (const EpochFigures::Domain& domain : first.domains) {
        domains.emplace_back(first.node + "/" + domain.id, domain.kind);
        if (!domain.in_total) domains.back().SetOutside("");
      }
    }
    EpochEnergy epoch;
    Gather energy;
    std::vector<Gather> domains;
    std::vector<double> seconds;
  };
  using Key = std::tuple<int64_t, std::string, std::string, std::optional<int64_t>, std::string>;
  std::map<Key, Row> rows;
  for (const RunFigures* run : JobRuns(report->arm.runs)) {
    // Where no run is good, what there is of the others says why.
    if (!IsGood(*run) && report->arm.good > 0) continue;
    report->epochs_left_out += run->epochs_left_out;
    for (const EpochFigures& one : run->epochs) {
      const Key key{one.epoch, one.name, one.stage, one.rank, one.node};
      Row& row = rows.try_emplace(key, one).first->second;
      row.epoch.epoch = one.epoch;
      row.epoch.rank = one.rank;
      row.epoch.node = one.node;
      row.epoch.window = one.name;
      row.epoch.stage = one.stage;
      row.epoch.windows += one.windows;
      row.seconds.push_back(one.seconds);
      row.energy.Add(one.energy, one.seconds);
      for (size_t i = 0; i < row.domains.size() && i < one.domains.size(); ++i) {
        row.domains[i].Add(one.domains[i].figure, one.seconds);
      }
    }
  }
  for (auto& [key, row] : rows) {
    EpochEnergy& epoch = row.epoch;
    epoch.seconds = Summarise(row.seconds);
    const auto of_node = NodeBaseline(baseline, epoch.node);
    epoch.energy = row.energy.Finish(of_node ? &*of_node : nullptr);
    for (Gather& domain : row.domains) {
      epoch.domains.push_back(domain.Finish(BaselineOf(baseline, domain.name())));
    }
    report->epochs.push_back(std::move(epoch));
  }
}

void AddWindows(EnergyReport* report) {
  std::map<std::pair<std::string, std::string>, WindowFigures> sums;
  for (const RunFigures* run : JobRuns(report->arm.runs)) {
    if (!IsGood(*run)) continue;
    for (const WindowFigures& window : run->windows) {
      auto [row, is_new] = sums.try_emplace({window.stage, window.name}, window);
      if (is_new) continue;
      WindowFigures& sum = row->second;
      sum.windows += window.windows;
      sum.nodes = std::max(sum.nodes, window.nodes);
      sum.seconds += window.seconds;
      const Figure both[] = {sum.energy, window.energy};
      sum.energy = SumOf(both);
      energy::Proxies& proxies = sum.proxies;
      const auto add = [](auto& to, const auto& value) {
        if (to && value) {
          *to += *value;
        } else {
          to.reset();  // a sum over some of the runs would be none of all
        }
      };
      add(proxies.cpu_seconds, window.proxies.cpu_seconds);
      add(proxies.gpu_seconds, window.proxies.gpu_seconds);
      add(proxies.bytes_read, window.proxies.bytes_read);
      add(proxies.bytes_sent, window.proxies.bytes_sent);
      add(proxies.bytes_delivered, window.proxies.bytes_delivered);
      add(proxies.records_delivered, window.proxies.records_delivered);
    }
  }
  // Without a good run: what the first one has, which is proxies and causes.
  if (sums.empty() && !report->arm.runs.empty()) report->windows = report->arm.runs.front().windows;
  for (auto& [key, window] : sums) report->windows.push_back(std::move(window));
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
  report->ratios.push_back(
      {"total energy", RatioOfMeans(a.energy.total->estimate(), b.energy.total->estimate())});
  if (a.energy.net && b.energy.net) {
    report->ratios.push_back({"net energy", RatioOfMeans(*a.energy.net, *b.energy.net)});
  }
  report->ratios.push_back({"time", RatioOfMeans(a.seconds.estimate(), b.seconds.estimate())});
  report->ratios.push_back({"mean power", RatioOfMeans(a.watts.estimate(), b.watts.estimate())});
}

void AddModelled(const ReportInput& input, EnergyReport* report) {
  if (!input.model) return;
  for (const RunFigures& run : report->arm.runs) {
    double cpu_seconds = 0;
    for (const WindowFigures& window : run.windows) {
      cpu_seconds = std::max(cpu_seconds, window.proxies.cpu_seconds.value_or(0));
    }
    const double bytes = run.Number("work.bytes").value_or(0);
    report->modelled.emplace_back(run.id,
                                  ModelledJoules(*input.model, run.seconds, cpu_seconds, bytes));
  }
}

// A window's share of its host's CPU joules by CPU time, where both are known.
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

// Windows of several nodes are one only as far as the nodes' clocks are.
void JudgeClocks(EnergyReport* report) {
  for (const RunFigures& run : report->arm.runs) {
    if (run.nodes.size() < 2) continue;
    for (const NodeFigures& node : run.nodes) {
      const int64_t bound_ns = node.clock_bound_ns.value_or(0);
      if (2 * bound_ns <= node.interval_ns) continue;
      const std::string text =
          fmt::format("run {}: the clock of {} may be {} from the others', {} interval", run.id,
                      node.name, WithUnit(static_cast<double>(bound_ns) * 1e-9, "s"),
                      bound_ns > node.interval_ns ? "more than one" : "more than half an");
      report->warnings.push_back(text);
      if (bound_ns <= node.interval_ns) continue;
      for (WindowFigures& window : report->windows) window.energy = {.cause = text};
    }
  }
}

// What is to be said of nodes in runs. What is the same in several runs is said once.
class RunWarnings {
 public:
  void Add(const std::string& run, const std::string& node, const std::string& text) {
    const std::string full = node.empty() ? text : fmt::format("node {}: {}", node, text);
    auto [at, is_new] = runs_.try_emplace(full);
    if (is_new) order_.push_back(full);
    at->second.insert(run);
  }
  void Finish(size_t runs, std::vector<std::string>* warnings) const {
    for (const std::string& text : order_) {
      const std::set<std::string>& in = runs_.at(text);
      warnings->push_back(runs == 1 ? text
                          : in.size() == 1
                              ? fmt::format("run {}, {}", *in.begin(), text)
                              : fmt::format("{} ({} of {} runs)", text, in.size(), runs));
    }
  }

 private:
  std::map<std::string, std::set<std::string>> runs_;
  std::vector<std::string> order_;
};

void AddQualityWarnings(EnergyReport* report) {
  RunWarnings warnings;
  for (const RunFigures& run : report->arm.runs) {
    for (const energy::Note& note : run.notes) warnings.Add(run.id, note.node, note.text);
    for (const NodeFigures& node : run.nodes) {
      const auto say = [&](const std::string& text) { warnings.Add(run.id, node.name, text); };
      if (node.ticks_dropped > 0) {
        say(fmt::format("{} samples did not reach the store", node.ticks_dropped));
      }
      const energy::SamplerStats& sampler = node.sampler;
      if (sampler.clock_steps > 0) {
        say(fmt::format("the clock was set {} times, by {:.3f} s in sum", sampler.clock_steps,
                        static_cast<double>(sampler.clock_step_ns) * 1e-9));
      }
      if (sampler.ticks > 0 && sampler.missed * 100 > sampler.ticks) {
        say(fmt::format("{} of {} ticks were missed", sampler.missed, sampler.ticks));
      }
      if (sampler.elapsed_ns > 0 && static_cast<double>(sampler.cpu_ns) >
                                        kOverheadTarget * static_cast<double>(sampler.elapsed_ns)) {
        say(fmt::format(
            "the monitor used {:.2f} % of a core",
            100 * static_cast<double>(sampler.cpu_ns) / static_cast<double>(sampler.elapsed_ns)));
      }
      if (run.nodes.size() > 1 && !node.clock_bound_ns) {
        say("how far its clock is from the others' is not known");
      }
      if (run.nodes.size() > 1 && node.clock_synchronised == false) {
        say("its kernel says that its clock is not synchronised");
      }
    }
  }
  warnings.Finish(report->arm.runs.size(), &report->warnings);
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

std::string KindsText(const Arm& arm) {
  std::set<std::string> kinds;
  std::map<std::string, size_t> roles;
  for (const RunFigures* run : JobRuns(arm.runs)) {
    if (!IsGood(*run)) continue;
    for (const NodeFigures& node : run->nodes) {
      ++roles[node.role.empty() ? "" : node.role + " "];
      for (const DomainFigures& domain : node.domains) {
        if (domain.in_total && domain.figure.joules) kinds.insert(domain.kind);
      }
    }
    break;
  }
  const std::map<std::string, std::string> kNames = {
      {"package", "CPU"}, {"grace", "CPU"}, {"dram", "DRAM"}, {"gpu", "GPU"}, {"module", "module"}};
  std::vector<std::string> names;
  for (const char* kind : {"package", "grace", "module", "dram", "gpu"}) {
    if (kinds.count(kind) > 0) names.push_back(kNames.at(kind));
  }
  std::vector<std::string> parts;
  size_t nodes = 0;
  for (const auto& [role, count] : roles) {
    parts.push_back(
        fmt::format("{} {}", count, role.empty() ? "" : role.substr(0, role.size() - 1)));
    if (parts.back().ends_with(' ')) parts.back().pop_back();
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

// What the report knows by itself, and what the runs' configurations say of all else.
Facts KnownFacts(const EnergyReport& report) {
  Facts facts;
  std::vector<std::string> ids, failed;
  std::set<std::string> nodes, domains, absent, sources, intervals;
  double void_seconds = 0;
  double edge_joules = 0;
  double core_percent = 0;
  int64_t bound_ns = 0;
  int64_t period_ns = 0;
  bool bounds_known = true;
  std::optional<bool> synchronised;  // all of those that say
  for (const RunFigures& run : report.arm.runs) {
    ids.push_back(run.id);
    if (!IsGood(run)) failed.push_back(run.id);
    edge_joules = std::max(edge_joules, run.total.uncertainty_joules);
    for (const NodeFigures& node : run.nodes) {
      nodes.insert(node.name);
      intervals.insert(WithUnit(static_cast<double>(node.interval_ns) * 1e-9, "s"));
      period_ns = std::max(period_ns, node.update_period_ns);
      bounds_known &= node.clock_bound_ns.has_value();
      if (node.clock_synchronised) {
        synchronised = synchronised.value_or(true) && *node.clock_synchronised;
      }
      bound_ns = std::max(bound_ns, node.clock_bound_ns.value_or(0));
      if (node.sampler.elapsed_ns > 0) {
        core_percent = std::max(core_percent, 100 * static_cast<double>(node.sampler.cpu_ns) /
                                                  static_cast<double>(node.sampler.elapsed_ns));
      }
      for (const std::string& id : node.without) absent.insert(id + " (nothing counts it)");
      for (const auto& [source, cause] : node.absent) absent.insert(source + " (" + cause + ")");
      for (const DomainFigures& domain : node.domains) {
        if (!domain.in_total) continue;
        if (domain.figure.joules) domains.insert(node.name + "/" + domain.id);
        if (!domain.source.empty()) sources.insert(domain.kind + ": " + domain.source);
        void_seconds += domain.void_seconds;
      }
    }
    for (const auto& [key, value] : run.facts) {
      if (!IsFound(key)) facts.emplace(key, value);
    }
  }
  facts["statistics.run_ids"] = fmt::format("{}", fmt::join(ids, ", "));
  facts["statistics.failed"] =
      failed.empty() ? "none" : fmt::format("{}: {}", failed.size(), fmt::join(failed, ", "));
  facts.emplace("statistics.order", "as the run ids are listed");
  facts["included.nodes"] = fmt::format("{}", fmt::join(nodes, ", "));
  facts["included.domains"] = fmt::format("{}", fmt::join(domains, ", "));
  facts["included.absent"] = absent.empty() ? "none" : fmt::format("{}", fmt::join(absent, ", "));
  facts["quality.sources"] = fmt::format("{}", fmt::join(sources, ", "));
  facts["quality.interval"] = fmt::format("{}", fmt::join(intervals, ", "));
  facts.emplace("quality.update_period",
                period_ns > 0 ? fmt::format("at most {}",
                                            WithUnit(static_cast<double>(period_ns) * 1e-9, "s"))
                              : "");
  facts["quality.missing_time"] = SecondsText(void_seconds);
  if (report.arm.good > 0) {
    facts["quality.edge_uncertainty"] = fmt::format("at most {} a run", JoulesText(edge_joules));
  }
  if (nodes.size() <= 1) {
    facts.emplace("quality.clock_bound", synchronised == false
                                             ? "none: one node, whose clock is not synchronised"
                                             : "none: one node");
  } else if (bounds_known) {
    facts.emplace("quality.clock_bound", WithUnit(static_cast<double>(bound_ns) * 1e-9, "s") +
                                             (synchronised == false ? ", not synchronised" : ""));
  }
  double gap = 0;
  for (const CounterCheck& check : report.counter_checks) {
    gap = std::max(gap, std::abs(check.gap_percent));
  }
  facts["quality.counter_vs_power"] = report.counter_checks.empty()
                                          ? "none: no GPU has both"
                                          : fmt::format("at most {:.1f} %", gap);
  if (core_percent > 0) {
    facts.emplace("quality.monitor_overhead", fmt::format("{:.2f} % of a core", core_percent));
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
  if (energy.total) headline.joules = *energy.total;
  if (energy.net) {
    headline.joules.mean = energy.net->value;
    // The scatter of single runs, the baseline's error with it.
    headline.joules.sd =
        energy.net->standard_error * std::sqrt(static_cast<double>(headline.joules.n));
  }
  headline.seconds = report->arm.seconds;
  headline.watts = report->arm.watts;
  headline.domains = KindsText(report->arm);
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

// What users say comes first; what windows counted stands in for what nobody said.
void CompleteFacts(const Facts& said, std::vector<RunFigures>* runs) {
  for (RunFigures& run : *runs) {
    for (const auto& [key, value] : said) run.facts[key] = value;
    std::optional<int64_t> bytes, records;
    std::set<int64_t> epochs;
    for (const EpochFigures& epoch : run.epochs) epochs.insert(epoch.epoch);
    for (const WindowFigures& window : run.windows) {
      bytes = std::max(bytes, window.proxies.bytes_delivered);
      records = std::max(records, window.proxies.records_delivered);
    }
    if (bytes) run.facts.emplace("work.bytes", std::to_string(*bytes));
    if (records) run.facts.emplace("work.samples", std::to_string(*records));
    if (!epochs.empty() && run.epochs_left_out == 0) {
      run.facts.emplace("work.epochs", std::to_string(epochs.size()));
    }
  }
}

// Runs whose mean is taken are repetitions of one thing; where they may not be, that is said.
void AddMixtureWarnings(const Arm& arm, std::vector<std::string>* warnings) {
  std::vector<const RunFigures*> counted;
  for (const RunFigures* run : JobRuns(arm.runs)) {
    if (IsGood(*run)) counted.push_back(run);
  }
  // Of each thing that runs are of, which ones.
  const auto say = [&](const auto& runs_of, const std::string& what) {
    if (runs_of.size() < 2) return;
    std::vector<std::string> parts;
    for (const auto& [thing, runs] : runs_of) {
      if (parts.size() == kMaxNamed) {
        parts.push_back(fmt::format("and {} more", runs_of.size() - kMaxNamed));
        break;
      }
      parts.push_back(fmt::format("{} ({} of {} runs, first {})", thing, runs.size(),
                                  counted.size(), runs.front()));
    }
    warnings->push_back(
        fmt::format("{}: the runs counted together are no repetitions of one job, for {}: {}",
                    arm.name, what, fmt::join(parts, "; ")));
  };
  std::map<std::string, std::vector<std::string>> commands, domains;
  Hosts hosts;
  for (const RunFigures* run : counted) {
    std::string command = fmt::format("{}", fmt::join(run->command, " "));
    if (command.size() > kMaxCommandBytes) command = command.substr(0, kMaxCommandBytes) + "...";
    commands[command].push_back(run->id);
    domains[fmt::format("{}", fmt::join(SummedDomains(*run), ", "))].push_back(run->id);
    AddHosts(*run, &hosts);
  }
  say(commands, "their commands differ");
  say(domains, "their totals are of different domains");
  for (const auto& [name, host] : hosts) {
    if (host.boot_ids.size() < 2) continue;
    warnings->push_back(fmt::format(
        "{}: node {} was booted anew between the runs counted together, or is several hosts of one "
        "name ({} boots)",
        arm.name, name, host.boot_ids.size()));
  }
}

// A baseline is of the same host; after another boot its idle power may be another one.
void AddBaselineWarnings(EnergyReport* report) {
  if (!report->baseline) return;
  Hosts hosts;
  for (const RunFigures* run : GoodRuns(report->arm.runs)) AddHosts(*run, &hosts);
  if (report->against) {
    for (const RunFigures* run : GoodRuns(report->against->runs)) AddHosts(*run, &hosts);
  }
  for (const auto& [name, host] : hosts) {
    const auto of = report->baseline->hosts.find(name);
    if (of == report->baseline->hosts.end()) continue;
    if (std::includes(of->second.boot_ids.begin(), of->second.boot_ids.end(), host.boot_ids.begin(),
                      host.boot_ids.end())) {
      continue;
    }
    report->warnings.push_back(fmt::format(
        "baseline {} was taken in another boot of node {} than runs from which it is subtracted: "
        "idle power may have changed; take it again with emlio energy baseline",
        report->baseline->id, name));
  }
}

}  // namespace

void AddHosts(const RunFigures& run, Hosts* hosts) {
  for (const NodeFigures& node : run.nodes) {
    HostIdentity& host = (*hosts)[node.name];
    if (!node.boot_id.empty()) host.boot_ids.insert(node.boot_id);
    for (const char* fact : {"system.cpu", "system.sockets", "system.cpus"}) {
      if (const auto it = node.facts.find(fact); it != node.facts.end()) host.hardware.insert(*it);
    }
  }
}

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

EnergyReport MakeReport(ReportInput input) {
  CompleteFacts(input.facts, &input.runs);
  CompleteFacts(input.facts, &input.against);
  EnergyReport report;
  report.title = input.title;
  report.baseline = input.baseline;
  report.no_baseline = input.no_baseline;
  if (report.baseline) {
    auto good = GoodRuns(input.runs);
    for (const RunFigures* run : GoodRuns(input.against)) good.push_back(run);
    if (auto mismatch = BaselineMismatch(*report.baseline, good); !mismatch.empty()) {
      report.baseline.reset();
      report.no_baseline = std::move(mismatch);
    }
  }
  report.arm = MakeArm("these runs", std::move(input.runs), report.baseline);
  if (!input.against.empty()) {
    report.against = MakeArm(input.against_name, std::move(input.against), report.baseline);
  }
  AddNodesAndDomains(report.baseline, &report);
  AddWindows(&report);
  AddEpochs(report.baseline, &report);
  AddStages(input, &report);
  AddCounterChecks(&report);
  AddRatios(&report);
  AddModelled(input, &report);
  AddAllocated(&report);
  JudgeClocks(&report);
  AddMixtureWarnings(report.arm, &report.warnings);
  if (report.against) AddMixtureWarnings(*report.against, &report.warnings);
  AddBaselineWarnings(&report);
  AddQualityWarnings(&report);
  report.meter = MeterText(input, report.arm);
  report.trace = std::move(input.trace);
  report.traced_run = std::move(input.traced_run);
  AddHeadline(input, &report);
  return report;
}

}  // namespace emlio::energy_analysis
