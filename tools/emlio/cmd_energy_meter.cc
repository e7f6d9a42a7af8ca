// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "console.h"
#include "emlio/base/file.h"
#include "emlio/base/nanoseconds.h"
#include "emlio/energy/run_store.h"
#include "emlio/energy_analysis/meter_comparison.h"
#include "emlio/energy_analysis/meter_series.h"
#include "emlio/energy_analysis/numbers.h"
#include "emlio/energy_analysis/stored_experiments.h"
#include "energy_analysis_json.h"
#include "energy_commands.h"
#include "text.h"

namespace emlio::tool {
namespace {

using nlohmann::ordered_json;
namespace analysis = energy_analysis;

struct Compared {
  std::string node;
  std::string note_run;
  analysis::MeterComparison comparison;
};

Result<Compared> Compare(const EnergyMeterCommand& command) {
  analysis::MeterSeriesOptions options;
  options.format =
      analysis::MeterFormatFromName(command.format).value_or(analysis::MeterFormat::kCsv);
  options.time_column = command.time_column;
  options.watts_column = command.watts_column;
  options.scale = command.scale;
  EMLIO_ASSIGN_OR_RETURN(const std::string text,
                         ReadWholeFile(command.series, analysis::kMaxMeterBytes));
  auto series = analysis::ParseMeterSeries(text, options);
  if (!series.ok()) return series.status().WithContext(command.series);
  EMLIO_ASSIGN_OR_RETURN(const auto reader, energy::RunReader::Open(command.store));
  Compared compared;
  std::vector<analysis::MeterLevel> levels;
  for (const std::string& id : command.level_runs) {
    EMLIO_ASSIGN_OR_RETURN(const energy::Run run, reader->FindRun(id));
    EMLIO_ASSIGN_OR_RETURN(const auto nodes, reader->Nodes(run.id));
    if (nodes.size() != 1) {
      return InvalidArgument(
          fmt::format("run {} has {} nodes: a meter is of one", run.id, nodes.size()));
    }
    const std::string& node = nodes.front().info.name;
    if (!compared.node.empty() && node != compared.node) {
      return InvalidArgument(
          fmt::format("run {} is of {}, the others of {}", run.id, node, compared.node));
    }
    compared.node = node;
    compared.note_run = run.id;
    EMLIO_ASSIGN_OR_RETURN(
        auto level,
        analysis::LoadLevel(reader.get(), run,
                            levels.empty() ? "idle" : fmt::format("load {}", levels.size())));
    levels.push_back(std::move(level));
  }
  EMLIO_ASSIGN_OR_RETURN(compared.comparison, analysis::CompareWithMeter(levels, *series));
  return compared;
}

Status Keep(const EnergyMeterCommand& command, const Compared& compared) {
  EMLIO_ASSIGN_OR_RETURN(const auto store, energy::RunStore::Open(command.store));
  const std::string text =
      fmt::format("{}{}", command.instrument.empty() ? "" : command.instrument + ": ",
                  analysis::MeterComparisonText(compared.comparison));
  return store->AddNote(compared.note_run, {.wall_ns = energy::ReadMoment().wall_ns,
                                            .node = compared.node,
                                            .kind = analysis::kMeterNoteKind,
                                            .text = text});
}

void Print(const Compared& compared) {
  const analysis::MeterComparison& comparison = compared.comparison;
  Table table({{"level"}, {"spans", true}, {"own", true}, {"meter", true}, {"error", true}});
  for (const analysis::LevelError& level : comparison.levels) {
    table.AddRow({level.name, std::to_string(level.spans),
                  analysis::EstimateText(level.own_watts.estimate(), "W"),
                  analysis::EstimateText(level.meter_watts.estimate(), "W"),
                  analysis::EstimateText(level.error_percent, "%")});
  }
  fmt::print("{}: {}\nthe meter is {:.1f} s late (correlation {:.4f})\n{}", compared.node,
             analysis::MeterComparisonText(comparison), Seconds(comparison.lag_ns),
             comparison.correlation, table.Render(OutputColumns()));
}

}  // namespace

int RunEnergyMeter(const EnergyMeterCommand& command) {
  const ::emlio::tool::Report report(command.json);
  if (const Status status = report.Check(); !status.ok()) return Fail(status);
  ordered_json json = {{"version", EMLIO_VERSION}};
  const auto compared = Compare(command);
  if (!compared.ok()) return report.FinishRefused(compared.status(), std::move(json));
  json["node"] = compared->node;
  json["comparison"] = ToJson(compared->comparison);
  if (report.for_people()) Print(*compared);
  return report.Finish(Keep(command, *compared), std::move(json));
}

}  // namespace emlio::tool
