// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_analysis/stored_experiments.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "emlio/energy_analysis/run_figures.h"

namespace emlio::energy_analysis {
namespace {

constexpr double kBaselinePartSeconds = 5;

std::string LabelOf(const energy::Run& run, const char* label) {
  const auto it = run.labels.find(label);
  return it == run.labels.end() ? "" : it->second;
}

// How busy the CPUs of the busiest node were: one that works is not outweighed by others at rest.
Status AddCpuUse(energy::RunReader* reader, const energy::Run& run, const RunFigures& figures,
                 BaselineRun* part) {
  std::map<int64_t, double> busy;  // by node: CPU-seconds a second
  EMLIO_RETURN_IF_ERROR(
      reader->ForEachWindow(run.id, [&](int64_t node, const energy::WindowRecord& window) {
        const int64_t length_ns = window.end_ns - window.begin_ns;
        if (window.id == kWholeRun && window.proxies.cpu_seconds && length_ns > 0) {
          busy[node] = *window.proxies.cpu_seconds / (static_cast<double>(length_ns) * 1e-9);
        }
        return OkStatus();
      }));
  EMLIO_ASSIGN_OR_RETURN(const auto nodes, reader->Nodes(run.id));
  part->cpu_use = 0;
  for (size_t i = 0; i < nodes.size() && i < figures.nodes.size(); ++i) {
    const auto of = busy.find(nodes[i].id);
    if (of == busy.end()) {
      part->cpu_use.reset();
      part->cpu_node = figures.nodes[i].name;
      return OkStatus();
    }
    RunFigures facts;
    facts.facts = figures.nodes[i].facts;
    const double use = of->second / facts.Number("system.cpus").value_or(1);
    if (part->cpu_node.empty() || use > *part->cpu_use) {
      part->cpu_use = use;
      part->cpu_node = figures.nodes[i].name;
    }
  }
  return OkStatus();
}

}  // namespace

bool HasLabels(const energy::Run& run, const std::map<std::string, std::string>& labels) {
  return std::all_of(labels.begin(), labels.end(), [&](const auto& label) {
    const auto it = run.labels.find(label.first);
    return it != run.labels.end() && it->second == label.second;
  });
}

Result<NamedBaseline> LoadBaseline(energy::RunReader* reader, BaselineKind kind,
                                   const BaselineLimits& limits, const std::string& experiment) {
  const std::string name(BaselineKindName(kind));
  EMLIO_ASSIGN_OR_RETURN(const auto all, reader->Runs());
  std::vector<energy::Run> runs;
  std::string wanted = experiment;
  if (wanted.empty()) {
    for (const energy::Run& run : all) {
      if (HasLabels(run, {{kPurposeLabel, "baseline"}, {kBaselineLabel, name}})) {
        wanted = LabelOf(run, kExperimentLabel);
      }
    }
  }
  for (const energy::Run& run : all) {
    if (HasLabels(
            run,
            {{kPurposeLabel, "baseline"}, {kBaselineLabel, name}, {kExperimentLabel, wanted}})) {
      runs.push_back(run);
    }
  }
  if (runs.empty()) {
    return NotFound(fmt::format(
        "the store has no baseline {0}: emlio energy baseline --kind {0} takes one", name));
  }
  std::vector<std::string> domains;
  std::vector<BaselineRun> parts;
  Hosts hosts;
  for (const energy::Run& run : runs) {
    EMLIO_ASSIGN_OR_RETURN(const RunFigures figures, LoadRun(reader, run));
    AddHosts(figures, &hosts);
    // Runs that are too short are refused below, with all other reasons.
    const double part_seconds = std::min(kBaselinePartSeconds, figures.seconds / 2);
    EMLIO_ASSIGN_OR_RETURN(const RunPower power, LoadPower(reader, run, part_seconds));
    BaselineRun part{.id = run.id, .seconds = figures.seconds, .series = power.watts};
    EMLIO_RETURN_IF_ERROR(AddCpuUse(reader, run, figures, &part));
    if (domains.empty()) {
      for (const auto& [domain, watts] : power.domains) domains.push_back(domain);
    }
    for (const std::string& domain : domains) {
      const auto it = power.domains.find(domain);
      if (it != power.domains.end()) part.watts.push_back(it->second);
    }
    parts.push_back(std::move(part));
  }
  EMLIO_ASSIGN_OR_RETURN(Baseline baseline, MakeBaseline(kind, domains, parts, limits));
  return NamedBaseline{.baseline = std::move(baseline), .id = wanted, .hosts = std::move(hosts)};
}

Result<StageObservations> LoadObservations(energy::RunReader* reader, const energy::Run& run,
                                           double part_seconds) {
  EMLIO_ASSIGN_OR_RETURN(const RunPower power, LoadPower(reader, run, part_seconds));
  const auto part_ns = static_cast<int64_t>(part_seconds * 1e9);
  const auto parts = static_cast<int64_t>(power.watts.size());
  std::map<std::string, std::vector<double>> open_ns;
  EMLIO_RETURN_IF_ERROR(
      reader->ForEachWindow(run.id, [&](int64_t, const energy::WindowRecord& window) {
        if (window.stage.empty()) return OkStatus();
        auto& stage = open_ns.try_emplace(window.stage, power.watts.size()).first->second;
        // Windows have wall-clock times at their begin.
        const int64_t begin_ns = window.begin_wall_ns - power.begin_wall_ns;
        const int64_t end_ns = begin_ns + (window.end_ns - window.begin_ns);
        for (int64_t part = std::max<int64_t>(begin_ns / part_ns, 0);
             part < parts && part * part_ns < end_ns; ++part) {
          const int64_t from_ns = std::max(begin_ns, part * part_ns);
          const int64_t to_ns = std::min(end_ns, (part + 1) * part_ns);
          if (to_ns > from_ns) {
            stage[static_cast<size_t>(part)] += static_cast<double>(to_ns - from_ns);
          }
        }
        return OkStatus();
      }));
  if (open_ns.empty()) {
    return InvalidArgument(fmt::format(
        "run {} has no windows with a stage: mark them with emlio.energy.window", run.id));
  }
  StageObservations result;
  for (const auto& [stage, times] : open_ns) result.stages.push_back(stage);
  for (size_t part = 0; part < power.watts.size(); ++part) {
    Observation observation{.seconds = part_seconds, .watts = power.watts[part], .activities = {}};
    for (const auto& [stage, times] : open_ns) {
      observation.activities.push_back(times[part] / static_cast<double>(part_ns));
    }
    result.observations.push_back(std::move(observation));
  }
  return result;
}

Result<MeterLevel> LoadLevel(energy::RunReader* reader, const energy::Run& run, std::string name) {
  EMLIO_ASSIGN_OR_RETURN(const RunPower power, LoadPower(reader, run, 1));
  MeterLevel level{.name = std::move(name), .series = {}};
  for (size_t i = 0; i < power.watts.size(); ++i) {
    const int64_t begin_ns = power.begin_wall_ns + static_cast<int64_t>(i) * kNsPerSecond;
    level.series.push_back({begin_ns, begin_ns + kNsPerSecond, power.watts[i]});
  }
  return level;
}

Result<std::vector<MeterNote>> LoadMeterNotes(energy::RunReader* reader) {
  std::map<std::string, std::string> latest;  // of each node
  EMLIO_ASSIGN_OR_RETURN(const auto runs, reader->Runs());
  for (const energy::Run& run : runs) {
    EMLIO_ASSIGN_OR_RETURN(const auto notes, reader->Notes(run.id));
    for (const energy::Note& note : notes) {
      if (note.kind == kMeterNoteKind) latest[note.node] = note.text;
    }
  }
  std::vector<MeterNote> found;
  for (auto& [node, text] : latest) found.push_back({.node = node, .text = std::move(text)});
  return found;
}

}  // namespace emlio::energy_analysis
