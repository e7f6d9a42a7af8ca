// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "emlio/base/nanoseconds.h"
#include "emlio/energy_analysis/numbers.h"
#include "emlio/energy_analysis/report_parts.h"

namespace emlio::energy_analysis {
namespace {

constexpr double kMaxCoreShare = 0.005;  // of the monitor
constexpr double kMaxWorkGap = 0.01;     // between work that is said and work that was counted
constexpr double kMaxProductGap = 0.05;  // sizes are rounded
constexpr size_t kMaxNamed = 4;          // of things in one sentence
constexpr size_t kMaxCommandBytes = 100;

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

}  // namespace

void JudgeClocks(EnergyReport* report) {
  for (const RunFigures& run : report->arm.runs) {
    if (run.nodes.size() < 2) continue;
    for (const NodeFigures& node : run.nodes) {
      const auto bound_ns = node.clock_bound_ns;
      if (bound_ns && 2 * *bound_ns <= node.interval_ns) continue;
      // What is not known is not 0.
      const std::string text =
          bound_ns
              ? fmt::format("run {}: the clock of {} may be {} from the others', {} interval",
                            run.id, node.name, NanosecondsText(*bound_ns),
                            *bound_ns > node.interval_ns ? "more than one" : "more than half an")
              : fmt::format("run {}: how far the clock of {} is from the others' is not known",
                            run.id, node.name);
      report->warnings.push_back(text);
      if (bound_ns && *bound_ns <= node.interval_ns) continue;
      for (WindowFigures& window : report->windows) window.energy = {.cause = text};
    }
  }
}

void AddMixtureWarnings(const Arm& arm, std::vector<std::string>* warnings) {
  const std::vector<const RunFigures*> counted = CountedRuns(arm.runs);
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

void AddWorkWarnings(const Arm& arm, std::vector<std::string>* warnings) {
  const std::vector<const RunFigures*> shown = ShownRuns(arm);
  RunWarnings all;
  for (const RunFigures* run : shown) {
    for (const auto& [key, value] : CountedWork(*run)) {
      const auto said = run->Number(key);
      const auto counted = AmountOf(value);
      if (!said || !counted || std::abs(*said / counted->value - 1) <= kMaxWorkGap) continue;
      all.Add(run->id, "",
              fmt::format("{} is said to be {}, but its windows counted {}: joules a unit of work "
                          "are of what is said",
                          key, run->facts.at(key), value));
    }
    const auto samples = run->Number("work.samples"), each = run->Number("work.sample_bytes"),
               bytes = run->Number("work.bytes");
    if (samples && each && bytes && std::abs(*samples * *each / *bytes - 1) > kMaxProductGap) {
      all.Add(run->id, "",
              fmt::format("work.samples x work.sample_bytes is {}, but work.bytes is {}",
                          WithUnit(*samples * *each, "B"), WithUnit(*bytes, "B")));
    }
  }
  std::vector<std::string> found;
  all.Finish(shown.size(), &found);
  for (const std::string& text : found) warnings->push_back(fmt::format("{}: {}", arm.name, text));
}

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

void AddQualityWarnings(EnergyReport* report) {
  RunWarnings warnings;
  for (const RunFigures& run : report->arm.runs) {
    for (const energy::Note& note : run.notes) warnings.Add(run.id, note.node, note.text);
    for (const NodeFigures& node : run.nodes) {
      const auto say = [&](const std::string& text) { warnings.Add(run.id, node.name, text); };
      std::vector<std::string> unchecked;
      for (const DomainFigures& domain : node.domains) {
        if (domain.unchecked && domain.in_total && domain.figure.joules) {
          unchecked.push_back(domain.id);
        }
      }
      if (!unchecked.empty()) {
        say(
            fmt::format("whether {} rises under a memory load was not checked: emlio energy doctor "
                        "does, on an idle host",
                        fmt::join(unchecked, ", ")));
      }
      if (node.ticks_dropped > 0) {
        say(fmt::format("{} samples did not reach the store", node.ticks_dropped));
      }
      const energy::SamplerStats& sampler = node.sampler;
      if (sampler.clock_steps > 0) {
        say(fmt::format("the clock was set {} times, by {:.3f} s in sum", sampler.clock_steps,
                        Seconds(sampler.clock_step_ns)));
      }
      if (sampler.ticks > 0 && sampler.missed * 100 > sampler.ticks) {
        say(fmt::format("{} of {} ticks were missed", sampler.missed, sampler.ticks));
      }
      if (sampler.cpu_share() > kMaxCoreShare) {
        say(fmt::format("the monitor used {:.2f} % of a core", 100 * sampler.cpu_share()));
      }
      if (run.nodes.size() > 1 && node.clock_synchronised == false) {
        say("its kernel says that its clock is not synchronised");
      }
    }
  }
  warnings.Finish(report->arm.runs.size(), &report->warnings);
}

}  // namespace emlio::energy_analysis
