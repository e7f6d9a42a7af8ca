// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "console.h"
#include "emlio/base/clock.h"
#include "emlio/base/file.h"
#include "emlio/energy/run_store.h"
#include "emlio/energy_analysis/document.h"
#include "emlio/energy_analysis/numbers.h"
#include "emlio/energy_analysis/stored_experiments.h"
#include "energy_analysis_json.h"
#include "energy_commands.h"
#include "energy_document_text.h"
#include "energy_run.h"
#include "text.h"

namespace emlio::tool {
namespace {

using nlohmann::ordered_json;
namespace analysis = energy_analysis;

constexpr char kStagesVariable[] = "EMLIO_STAGES";
constexpr char kDitherVariable[] = "EMLIO_DITHER";
constexpr size_t kMaxConfigurationBytes = 1 << 20;

Result<std::string> Configuration(const EnergyStagesCommand& command) {
  if (command.configuration.empty()) return std::string("{}");
  EMLIO_ASSIGN_OR_RETURN(std::string text,
                         ReadWholeFile(command.configuration, kMaxConfigurationBytes));
  EMLIO_RETURN_IF_ERROR(analysis::FactsOf(text).status().WithContext(command.configuration));
  return text;
}

Status RunSets(const EnergyStagesCommand& command, const std::string& experiment) {
  EMLIO_ASSIGN_OR_RETURN(const std::string configuration, Configuration(command));
  EMLIO_RETURN_IF_ERROR(CheckStore(command.run.store));
  CheckMemory(command.run.source.host, command.run.memory_check);
  const auto sets = command.shapley ? analysis::ShapleySets() : analysis::LadderSets();
  const auto schedule =
      analysis::StageSchedule(sets, static_cast<size_t>(command.rounds), command.seed);
  for (size_t i = 0; i < schedule.size(); ++i) {
    if (i > 0) std::this_thread::sleep_for(std::chrono::seconds(command.pause_seconds));
    Say("emlio: run {} of {}: {}\n", i + 1, schedule.size(), schedule[i].Name());
    EnergyRecordCommand record = command.run;
    record.stage = schedule[i].Name();
    record.labels = {{analysis::kPurposeLabel, "stages"},
                     {analysis::kExperimentLabel, experiment},
                     {analysis::kStagesLabel, schedule[i].List()},
                     {"order", std::to_string(i)}};
    record.configuration = configuration;
    EMLIO_ASSIGN_OR_RETURN(
        const StoredRun run,
        RecordIntoStore(std::move(record), {{kStagesVariable, schedule[i].List()}}));
    if (run.interrupted) return Cancelled("interrupted by a signal; the runs so far are stored");
    if (run.exit_code != 0) {
      Say("emlio: warning: run {} ended with {} and does not count\n", run.id, run.exit_code);
    }
  }
  return OkStatus();
}

Result<analysis::EnergyReport> Analyse(const EnergyStagesCommand& command,
                                       const std::string& experiment) {
  EMLIO_ASSIGN_OR_RETURN(const auto reader, energy::RunReader::Open(command.run.store));
  analysis::ReportInput input;
  input.title = fmt::format("Stages, experiment {}", experiment);
  EMLIO_ASSIGN_OR_RETURN(const auto runs, reader->Runs());
  for (const energy::Run& run : runs) {
    if (!analysis::HasLabels(run, {{analysis::kExperimentLabel, experiment}})) continue;
    EMLIO_ASSIGN_OR_RETURN(auto figures, analysis::LoadRun(reader.get(), run));
    input.runs.push_back(std::move(figures));
  }
  if (const auto kind = analysis::BaselineKindFromName(command.baseline)) {
    auto baseline = analysis::LoadBaseline(reader.get(), *kind);
    if (baseline.ok()) {
      input.baseline = *std::move(baseline);
    } else {
      input.no_baseline = baseline.status().message();
    }
  } else {
    input.no_baseline = "none was asked for";
  }
  EMLIO_ASSIGN_OR_RETURN(input.meters, analysis::LoadMeterNotes(reader.get()));
  return analysis::MakeReport(std::move(input));
}

int RunLadder(const EnergyStagesCommand& command) {
  const ::emlio::tool::Report report(command.json);
  if (const Status status = report.Check(); !status.ok()) return Fail(status);
  const std::string experiment = energy::MakeRunId(energy::ReadMoment().wall_ns);
  ordered_json json = {{"version", EMLIO_VERSION}, {"experiment", experiment}};
  if (const Status status = RunSets(command, experiment); !status.ok()) {
    return report.Finish(status, std::move(json));
  }
  const auto analysed = Analyse(command, experiment);
  if (!analysed.ok()) return report.Finish(analysed.status(), std::move(json));
  json.update(ToJson(*analysed));
  if (report.for_people()) {
    fmt::print("{}", DocumentText(analysis::DocumentOf(*analysed), OutputColumns()));
  }
  if (!analysed->no_stages.empty() || !analysed->ladder) {
    const std::string why =
        analysed->no_stages.empty() ? analysed->arm.energy.cause : analysed->no_stages;
    return report.FinishRefused(InvalidArgument(why), std::move(json));
  }
  return report.Finish(OkStatus(), std::move(json));
}

// The schedule as the command reads it: a line for each block.
Result<std::string> WriteSchedule(const EnergyStagesCommand& command) {
  const auto schedule =
      analysis::DitherSchedule(static_cast<size_t>(command.blocks),
                               static_cast<double>(command.block_ms) / 1000, command.seed);
  std::string text = "begin_s,end_s,paused\n";
  for (const analysis::DitherBlock& block : schedule) {
    text += fmt::format("{:.3f},{:.3f},\"{}\"\n", block.begin_seconds,
                        block.begin_seconds + block.seconds, block.paused.List());
  }
  const std::string path = fmt::format("{}.dither.csv", command.run.store);
  if (const size_t slash = path.rfind('/'); slash != std::string::npos && slash > 0) {
    EMLIO_RETURN_IF_ERROR(MakeDirectories(path.substr(0, slash)));
  }
  EMLIO_ASSIGN_OR_RETURN(const auto file, AtomicFile::Create(path));
  EMLIO_RETURN_IF_ERROR(file->Append(text.data(), text.size()));
  EMLIO_RETURN_IF_ERROR(file->Commit());
  return path;
}

Result<std::string> RunDithered(const EnergyStagesCommand& command) {
  EnergyRecordCommand record = command.run;
  EMLIO_RETURN_IF_ERROR(CheckStore(command.run.store));
  EMLIO_ASSIGN_OR_RETURN(const std::string schedule, WriteSchedule(command));
  EMLIO_ASSIGN_OR_RETURN(record.configuration, Configuration(command));
  CheckMemory(command.run.source.host, command.run.memory_check);
  record.labels = {{analysis::kPurposeLabel, "dither"}};
  EMLIO_ASSIGN_OR_RETURN(
      const StoredRun run,
      RecordIntoStore(std::move(record), {{kStagesVariable, analysis::kAllStages.List()},
                                          {kDitherVariable, schedule}}));
  if (run.interrupted) return Cancelled("interrupted by a signal");
  if (run.exit_code != 0) {
    return IoError(fmt::format("'{}' ended with {}", command.run.argv.front(), run.exit_code));
  }
  return run.id;
}

Result<analysis::Regression> RegressRun(const EnergyStagesCommand& command, const std::string& id) {
  EMLIO_ASSIGN_OR_RETURN(const auto reader, energy::RunReader::Open(command.run.store));
  EMLIO_ASSIGN_OR_RETURN(const energy::Run run, reader->FindRun(id));
  EMLIO_ASSIGN_OR_RETURN(
      const auto data,
      analysis::LoadObservations(reader.get(), run, static_cast<double>(command.block_ms) / 1000));
  return analysis::Regress(data.stages, data.observations);
}

int RunRegression(const EnergyStagesCommand& command) {
  const ::emlio::tool::Report report(command.json);
  if (const Status status = report.Check(); !status.ok()) return Fail(status);
  ordered_json json = {{"version", EMLIO_VERSION}, {"run", command.regress}};
  std::string id = command.regress;
  if (command.dither) {
    auto run = RunDithered(command);
    if (!run.ok()) return report.Finish(run.status(), std::move(json));
    id = *std::move(run);
    json["run"] = id;
  }
  const auto fit = RegressRun(command, id);
  if (!fit.ok()) return report.FinishRefused(fit.status(), std::move(json));
  json["regression"] = ToJson(*fit);
  if (report.for_people()) {
    Table table({{"stage"}, {"power while open", true}, {"VIF", true}, {"energy", true}});
    for (const analysis::Coefficient& one : fit->coefficients) {
      table.AddRow({Printable(one.name), analysis::EstimateText(one.watts, "W"),
                    fmt::format("{:.2f}", one.vif), analysis::EstimateText(one.joules, "J")});
    }
    fmt::print("run {}, {} blocks, {}; R² {:.3f}; constant {}\n{}", id, fit->observations,
               analysis::SecondsText(fit->seconds), fit->r_squared,
               analysis::EstimateText(fit->constant_watts, "W"), table.Render(OutputColumns()));
  }
  return report.Finish(OkStatus(), std::move(json));
}

}  // namespace

int RunEnergyStages(const EnergyStagesCommand& command) {
  return command.dither || !command.regress.empty() ? RunRegression(command) : RunLadder(command);
}

}  // namespace emlio::tool
