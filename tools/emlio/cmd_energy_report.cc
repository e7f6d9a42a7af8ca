// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "console.h"
#include "emlio/base/file.h"
#include "emlio/energy/run_store.h"
#include "emlio/energy_analysis/document.h"
#include "emlio/energy_analysis/report.h"
#include "emlio/energy_analysis/stored_experiments.h"
#include "energy_analysis_json.h"
#include "energy_commands.h"
#include "energy_document_text.h"
#include "text.h"

namespace emlio::tool {
namespace {

using nlohmann::ordered_json;
namespace analysis = energy_analysis;

constexpr size_t kMaxFactsBytes = 1 << 20;

using Labels = std::map<std::string, std::string>;

Result<Labels> ParseLabels(const std::vector<std::string>& texts) {
  Labels labels;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      return InvalidArgument(fmt::format("'{}' is not LABEL=VALUE", text));
    }
    const std::string label = text.substr(0, equals), value = text.substr(equals + 1);
    const auto [at, is_new] = labels.emplace(label, value);
    if (!is_new && at->second != value) {
      return InvalidArgument(fmt::format(
          "label {} is asked for as '{}' and as '{}': all must hold, and no run has both", label,
          at->second, value));
    }
  }
  return labels;
}

Result<std::vector<energy::Run>> RunsWith(energy::RunReader* reader,
                                          const std::vector<std::string>& texts) {
  EMLIO_ASSIGN_OR_RETURN(const Labels labels, ParseLabels(texts));
  EMLIO_ASSIGN_OR_RETURN(auto runs, reader->Runs());
  std::erase_if(runs, [&](const energy::Run& run) { return !analysis::HasLabels(run, labels); });
  if (runs.empty()) {
    return NotFound(fmt::format("no run has the labels {}", fmt::join(texts, ", ")));
  }
  return runs;
}

Result<std::vector<energy::Run>> ChooseRuns(energy::RunReader* reader,
                                            const EnergyReportCommand& command) {
  if (!command.where.empty()) return RunsWith(reader, command.where);
  std::vector<energy::Run> runs;
  std::vector<std::string> ids = command.runs;
  if (ids.empty()) ids.emplace_back();  // the latest
  std::set<std::string> chosen;
  for (const std::string& id : ids) {
    EMLIO_ASSIGN_OR_RETURN(runs.emplace_back(), reader->FindRun(id));
    if (!chosen.insert(runs.back().id).second) {
      return InvalidArgument(
          fmt::format("run {} is named twice: it counts once, or n and the interval of the mean "
                      "are wrong",
                      runs.back().id));
    }
  }
  return runs;
}

// Facts of the user: {"work": {...}, ..., "nodes": {"name": {"cpu": ...}}}.
Status AddFacts(const std::string& path, analysis::ReportInput* input) {
  if (path.empty()) return OkStatus();
  EMLIO_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path, kMaxFactsBytes));
  const ordered_json json = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return InvalidArgument(fmt::format("{}: one JSON object", path));
  for (const auto& [key, value] : json.items()) {
    if (key != "nodes") continue;
    if (!value.is_object()) return InvalidArgument(fmt::format("{}: nodes: an object", path));
    for (const auto& [node, facts] : value.items()) {
      auto flat = analysis::FactsOf(facts.dump());
      if (!flat.ok()) return flat.status().WithContext(fmt::format("{}: node {}", path, node));
      for (auto& [name, fact] : *flat) {
        const std::string full = name.starts_with("system.") ? name : "system." + name;
        input->node_facts[node][full] = std::move(fact);
      }
    }
  }
  ordered_json rest = json;
  rest.erase("nodes");
  auto flat = analysis::FactsOf(rest.dump());
  if (!flat.ok()) return flat.status().WithContext(path);
  EMLIO_RETURN_IF_ERROR(analysis::CheckSaidFacts(*flat).WithContext(path));
  input->facts = *std::move(flat);
  return OkStatus();
}

Status AddModel(const std::string& path, analysis::ReportInput* input) {
  if (path.empty()) return OkStatus();
  EMLIO_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path, kMaxFactsBytes));
  const ordered_json json = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return InvalidArgument(fmt::format("{}: one JSON object", path));
  const auto text_of = [&](const char* key) {
    const auto it = json.find(key);
    return it != json.end() && it->is_string() ? it->get<std::string>() : std::string();
  };
  const auto number_of = [&](const char* key, double otherwise) {
    const auto it = json.find(key);
    return it != json.end() && it->is_number() ? it->get<double>() : otherwise;
  };
  analysis::PowerModel model{.name = text_of("name"),
                             .source = text_of("source"),
                             .error_percent = number_of("error_percent", -1),
                             .watts = number_of("watts", 0),
                             .joules_per_cpu_second = number_of("joules_per_cpu_second", 0),
                             .joules_per_gb = number_of("joules_per_gb", 0)};
  EMLIO_RETURN_IF_ERROR(analysis::CheckModel(model).WithContext(path));
  input->model = std::move(model);
  return OkStatus();
}

Status AddBaseline(energy::RunReader* reader, const std::string& name,
                   analysis::ReportInput* input) {
  const auto kind = analysis::BaselineKindFromName(name);
  if (!kind) {
    input->no_baseline = "none was asked for";
    return OkStatus();
  }
  auto baseline = analysis::LoadBaseline(reader, *kind);
  if (baseline.ok()) {
    input->baseline = *std::move(baseline);
  } else if (baseline.status().code() == Code::kNotFound ||
             baseline.status().code() == Code::kInvalidArgument) {
    input->no_baseline = baseline.status().message();
  } else {
    return baseline.status();
  }
  return OkStatus();
}

Result<analysis::EnergyReport> Make(const EnergyReportCommand& command) {
  EMLIO_ASSIGN_OR_RETURN(const auto reader, energy::RunReader::Open(command.store));
  analysis::ReportInput input;
  input.title = command.title;
  EMLIO_RETURN_IF_ERROR(AddFacts(command.facts, &input));
  EMLIO_RETURN_IF_ERROR(AddModel(command.model, &input));
  EMLIO_ASSIGN_OR_RETURN(const auto runs, ChooseRuns(reader.get(), command));
  for (const energy::Run& run : runs) {
    // The plot is of the last run that has one.
    analysis::RunTrace trace;
    const bool last = &run == &runs.back();
    EMLIO_ASSIGN_OR_RETURN(auto figures,
                           analysis::LoadRun(reader.get(), run, last ? &trace : nullptr));
    if (last) {
      input.trace = std::move(trace);
      input.traced_run = run.id;
    }
    input.runs.push_back(std::move(figures));
  }
  if (!command.against.empty()) {
    EMLIO_ASSIGN_OR_RETURN(const auto others, RunsWith(reader.get(), command.against));
    input.against_name = fmt::format("{}", fmt::join(command.against, ", "));
    for (const energy::Run& run : others) {
      for (const energy::Run& same : runs) {
        if (same.id != run.id) continue;
        return InvalidArgument(fmt::format(
            "run {} is among those to compare and those to compare with: a ratio needs two arms",
            run.id));
      }
      EMLIO_ASSIGN_OR_RETURN(auto figures, analysis::LoadRun(reader.get(), run));
      input.against.push_back(std::move(figures));
    }
  }
  EMLIO_RETURN_IF_ERROR(AddBaseline(reader.get(), command.baseline, &input));
  EMLIO_ASSIGN_OR_RETURN(input.meters, analysis::LoadMeterNotes(reader.get()));
  return analysis::MakeReport(std::move(input));
}

Status WritePage(const std::string& path, const std::string& page) {
  EMLIO_ASSIGN_OR_RETURN(const auto file, AtomicFile::Create(path));
  EMLIO_RETURN_IF_ERROR(file->Append(page.data(), page.size()));
  return file->Commit();
}

}  // namespace

int RunEnergyReport(const EnergyReportCommand& command) {
  const ::emlio::tool::Report report(command.json);
  if (const Status status = report.Check(); !status.ok()) return Fail(status);
  ordered_json json = {{"version", EMLIO_VERSION}};
  const auto made = Make(command);
  if (!made.ok()) return report.Finish(made.status(), std::move(json));
  json.update(ToJson(*made));
  const analysis::Document document = analysis::DocumentOf(*made);
  if (report.for_people()) fmt::print("{}", DocumentText(document, OutputColumns()));
  Status status;
  if (!command.html.empty()) status = WritePage(command.html, analysis::RenderHtml(document));
  return report.Finish(status, std::move(json));
}

}  // namespace emlio::tool
