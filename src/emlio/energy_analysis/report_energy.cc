// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "emlio/energy_analysis/report_parts.h"

namespace emlio::energy_analysis {
namespace {

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

// The cause of the first run that is not good and has one.
Figure WhyNotGood(const std::vector<const RunFigures*>& runs) {
  for (const RunFigures* run : runs) {
    if (IsGood(*run)) continue;
    Figure why = run->failure.empty() ? run->total : Figure{.cause = run->failure};
    if (!why.cause.empty()) return why;
  }
  return {};
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

}  // namespace

Arm MakeArm(std::string name, std::vector<RunFigures> runs,
            const std::optional<NamedBaseline>& baseline) {
  Arm arm;
  arm.name = std::move(name);
  arm.runs = std::move(runs);
  const std::vector<const RunFigures*> counted = CountedRuns(arm.runs);
  Gather energy("energy");
  std::vector<double> seconds, watts;
  for (const RunFigures* run : counted) {
    energy.Add(run->total, run->seconds);
    seconds.push_back(run->seconds);
    watts.push_back(*run->total.joules / run->seconds);
  }
  const std::vector<const RunFigures*> whole = JobRuns(arm.runs);
  arm.whole = whole.size();
  arm.good = counted.size();
  arm.energy = energy.Finish(baseline ? &baseline->baseline.watts : nullptr);
  if (!arm.energy.total) {
    const Figure why = WhyNotGood(whole);
    arm.energy.cause = why.cause;
    arm.energy.fix = why.fix;
  }
  arm.seconds = Summarise(seconds);
  arm.watts = Summarise(watts);
  arm.per_unit = PerUnitOf(counted, baseline);
  return arm;
}

void AddNodesAndDomains(const std::optional<NamedBaseline>& baseline, EnergyReport* report) {
  std::map<std::string, Gather> nodes, domains;
  std::vector<std::string> node_order, domain_order;
  for (const RunFigures* run : ShownRuns(report->arm)) {
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
  for (const RunFigures* run : ShownRuns(report->arm)) {
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
  for (const RunFigures* run : CountedRuns(report->arm.runs)) {
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

}  // namespace emlio::energy_analysis
