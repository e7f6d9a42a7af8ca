// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "console.h"
#include "emlio/base/clock.h"
#include "emlio/energy/run_store.h"
#include "emlio/energy_analysis/numbers.h"
#include "emlio/energy_analysis/stored_experiments.h"
#include "energy_analysis_json.h"
#include "energy_commands.h"
#include "energy_run.h"
#include "text.h"

namespace emlio::tool {
namespace {

using nlohmann::ordered_json;
namespace analysis = energy_analysis;

void Print(const analysis::NamedBaseline& named) {
  const analysis::Baseline& baseline = named.baseline;
  Table table({{"domain"}, {"mean", true}, {"sd", true}});
  const auto add = [&](const std::string& name, const analysis::Summary& watts) {
    table.AddRow(
        {name, analysis::EstimateText(watts.estimate(), "W"), analysis::WithUnit(watts.sd, "W")});
  };
  for (const analysis::DomainBaseline& domain : baseline.domains) add(domain.domain, domain.watts);
  add("total", baseline.watts);
  fmt::print("baseline {} ({}), {} runs, {}; CPUs at most {} busy, drift {:+.2f} W\n{}",
             analysis::BaselineKindName(baseline.kind), named.id, baseline.runs,
             analysis::SecondsText(baseline.seconds),
             baseline.cpu_use ? fmt::format("{:.1f} %", *baseline.cpu_use * 100) : "n/a",
             baseline.drift_watts, table.Render(OutputColumns()));
}

Status TakeRuns(const EnergyBaselineCommand& command, const std::string& experiment,
                ordered_json* runs) {
  EnergyRecordCommand record = command.run;
  if (record.argv.empty()) record.argv = {"sleep", std::to_string(command.seconds)};
  record.labels = {{analysis::kPurposeLabel, "baseline"},
                   {analysis::kBaselineLabel, command.kind},
                   {analysis::kExperimentLabel, experiment}};
  for (int64_t i = 0; i < command.runs; ++i) {
    Say("emlio: baseline {}, run {} of {}\n", command.kind, i + 1, command.runs);
    EMLIO_ASSIGN_OR_RETURN(const StoredRun run, RecordIntoStore(record, {}));
    runs->push_back(run.id);
    if (run.interrupted) return Cancelled("interrupted by a signal; the runs so far are stored");
    if (run.exit_code != 0) {
      return IoError(fmt::format("'{}' ended with {}", record.argv.front(), run.exit_code));
    }
  }
  return OkStatus();
}

}  // namespace

int RunEnergyBaseline(const EnergyBaselineCommand& command) {
  const ::emlio::tool::Report report(command.json);
  if (const Status status = report.Check(); !status.ok()) return Fail(status);
  if (const Status status = CheckStore(command.run.store); !status.ok()) {
    return report.Finish(status, {{"version", EMLIO_VERSION}});
  }
  CheckMemory(command.run.source.host, command.run.memory_check);
  const std::string experiment = energy::MakeRunId(energy::ReadMoment().wall_ns);
  ordered_json runs = ordered_json::array();
  const Status taken = TakeRuns(command, experiment, &runs);
  ordered_json json = {{"version", EMLIO_VERSION},
                       {"experiment", experiment},
                       {"runs", std::move(runs)},
                       {"baseline", nullptr}};
  if (!taken.ok()) return report.Finish(taken, std::move(json));
  auto reader = energy::RunReader::Open(command.run.store);
  if (!reader.ok()) return report.Finish(reader.status(), std::move(json));
  const auto kind = analysis::BaselineKindFromName(command.kind);
  const auto baseline =
      analysis::LoadBaseline(reader->get(), kind.value_or(analysis::BaselineKind::kReady),
                             {.min_seconds = static_cast<double>(command.seconds)}, experiment);
  if (!baseline.ok()) return report.FinishRefused(baseline.status(), std::move(json));
  json["baseline"] = ToJson(*baseline);
  if (report.for_people()) Print(*baseline);
  return report.Finish(OkStatus(), std::move(json));
}

}  // namespace emlio::tool
