// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "emlio/energy_analysis/report_parts.h"

namespace emlio::energy_analysis {
namespace {

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

}  // namespace

bool IsGood(const RunFigures& run) { return run.failure.empty() && run.total.joules.has_value(); }

std::vector<const RunFigures*> GoodRuns(const std::vector<RunFigures>& runs) {
  std::vector<const RunFigures*> good;
  for (const RunFigures& run : runs) {
    if (IsGood(run)) good.push_back(&run);
  }
  return good;
}

std::vector<const RunFigures*> JobRuns(const std::vector<RunFigures>& runs) {
  const std::string stages = JobStages(runs);
  std::vector<const RunFigures*> job;
  for (const RunFigures& run : runs) {
    if (StagesOf(run) == stages) job.push_back(&run);
  }
  return job;
}

std::vector<const RunFigures*> CountedRuns(const std::vector<RunFigures>& runs) {
  std::vector<const RunFigures*> counted = JobRuns(runs);
  std::erase_if(counted, [](const RunFigures* run) { return !IsGood(*run); });
  return counted;
}

std::vector<const RunFigures*> ShownRuns(const Arm& arm) {
  return arm.good > 0 ? CountedRuns(arm.runs) : JobRuns(arm.runs);
}

std::set<std::string> SummedDomains(const RunFigures& run) {
  std::set<std::string> summed;
  for (const NodeFigures& node : run.nodes) {
    for (const DomainFigures& domain : node.domains) {
      if (domain.in_total && domain.figure.joules) summed.insert(node.name + "/" + domain.id);
    }
  }
  return summed;
}

Summary NetSummary(const Quantity& quantity) {
  return {.n = quantity.total->n,
          .mean = quantity.net->value,
          .sd = quantity.net->standard_error * std::sqrt(static_cast<double>(quantity.total->n))};
}

void AddHosts(const RunFigures& run, Hosts* hosts) {
  for (const NodeFigures& node : run.nodes) {
    HostIdentity& host = (*hosts)[node.name];
    if (!node.boot_id.empty()) host.boot_ids.insert(node.boot_id);
    for (const char* fact : {"system.machine", "system.cpu", "system.sockets", "system.cpus"}) {
      if (const auto it = node.facts.find(fact); it != node.facts.end()) host.hardware.insert(*it);
    }
  }
}

Facts CountedWork(const RunFigures& run) {
  std::optional<int64_t> bytes, records;
  std::set<int64_t> epochs;
  for (const EpochFigures& epoch : run.epochs) epochs.insert(epoch.epoch);
  for (const WindowFigures& window : run.windows) {
    bytes = std::max(bytes, window.proxies.bytes_delivered);
    records = std::max(records, window.proxies.records_delivered);
  }
  Facts counted;
  if (bytes) counted["work.bytes"] = std::to_string(*bytes);
  if (records) counted["work.samples"] = std::to_string(*records);
  if (!epochs.empty() && run.epochs_left_out == 0) {
    counted["work.epochs"] = std::to_string(epochs.size());
  }
  return counted;
}

void CompleteFacts(const Facts& said, std::vector<RunFigures>* runs) {
  for (RunFigures& run : *runs) {
    for (const auto& [key, value] : said) run.facts[key] = value;
    run.facts.merge(CountedWork(run));
  }
}

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

}  // namespace emlio::energy_analysis
