// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "cli_energy_analysis.h"

#include <CLI/CLI.hpp>

#include "cli_energy.h"
#include "cli_options.h"
#include "console.h"
#include "interrupt.h"

namespace emlio::tool {
namespace {

constexpr Bounds<int64_t> kSeconds{.lowest = 60, .highest = 86'400};
constexpr Bounds<int64_t> kRuns{.lowest = 3, .highest = 1000};
constexpr Bounds<int64_t> kRounds{.lowest = 5, .highest = 1000};
constexpr Bounds<int64_t> kPairs{.lowest = 10, .highest = 1000};
constexpr Bounds<int64_t> kPause{.lowest = 0, .highest = 86'400};
constexpr Bounds<int64_t> kBlockMs{.lowest = 200, .highest = 600'000};
constexpr Bounds<int64_t> kBlocks{.lowest = 30, .highest = 100'000};

void NeedCommand(CLI::App* sub, const std::vector<std::string>& argv) {
  sub->final_callback([sub, &argv] {
    if (argv.empty()) {
      throw CLI::ValidationError(sub->get_name(), "write the command behind --");
    }
  });
}

CLI::App* AddBaseline(CLI::App* energy, EnergyBaselineCommand& command) {
  CLI::App* sub = energy->add_subcommand(
      "baseline",
      "Measure what the host uses without the work: baseline [OPTIONS] [-- COMMAND ...]");
  AddEnergySource(sub, command.run.source);
  AddEnergyInterval(sub, command.run.source);
  AddEnergyNodes(sub, command.run);
  AddEnergyStore(sub, &command.run.store);
  sub->add_option("--kind", command.kind,
                  "off: nothing of EMLIO runs; ready: daemons are up and contexts loaded, no data; "
                  "running-without-io: the command trains from memory")
      ->check(CLI::IsMember({"off", "ready", "running-without-io"}))
      ->capture_default_str();
  AddCount(sub, "--seconds", &command.seconds, "Of each run, at least", kSeconds);
  AddCount(sub, "--runs", &command.runs, "How many", kRuns);
  sub->final_callback([&command] {
    if (command.kind == "running-without-io" && command.run.argv.empty()) {
      throw CLI::ValidationError("baseline",
                                 "running-without-io needs the command that trains, behind --");
    }
  });
  AddJson(sub, &command.json);
  return sub;
}

CLI::App* AddStages(CLI::App* energy, EnergyStagesCommand& command) {
  CLI::App* sub = energy->add_subcommand(
      "stages",
      "Find what each stage costs, by running the command with some of its stages only: stages "
      "[OPTIONS] -- COMMAND ...; the command finds them in $EMLIO_STAGES");
  AddEnergySource(sub, command.run.source);
  AddEnergyInterval(sub, command.run.source);
  AddEnergyNodes(sub, command.run);
  AddEnergyStore(sub, &command.run.store);
  AddCount(sub, "--rounds", &command.rounds, "Runs of each set of stages", kRounds);
  sub->add_option("--seed", command.seed, "Of the random order")->capture_default_str();
  AddCount(sub, "--pause-seconds", &command.pause_seconds, "Between runs", kPause);
  sub->add_flag("--shapley", command.shapley, "All seven sets instead of the ladder's four");
  sub->add_option("--configuration", command.configuration,
                  "What the runs' reports are to say of the work: a file with a JSON object")
      ->type_name("FILE");
  sub->add_option("--baseline", command.baseline, "Which one of the store is subtracted")
      ->check(CLI::IsMember({"off", "ready", "running-without-io", "none"}))
      ->capture_default_str();
  sub->add_option("--regress", command.regress,
                  "Run nothing: fit the power of this run of the store on its stages' windows")
      ->type_name("RUN");
  sub->add_flag("--dither", command.dither,
                "Run the command once with a schedule of pauses ($EMLIO_DITHER), and fit that");
  AddCount(sub, "--block-ms", &command.block_ms, "Length of a block of a fit", kBlockMs);
  AddCount(sub, "--blocks", &command.blocks, "Blocks of the schedule", kBlocks);
  sub->final_callback([&command] {
    if (command.run.argv.empty() && command.regress.empty()) {
      throw CLI::ValidationError("stages", "write the command behind --, or name a run: --regress");
    }
    if (command.dither && !command.regress.empty()) {
      throw CLI::ValidationError("stages", "--dither runs a command, --regress does not");
    }
  });
  AddJson(sub, &command.json);
  return sub;
}

CLI::App* AddReport(CLI::App* energy, EnergyReportCommand& command) {
  CLI::App* sub = energy->add_subcommand("report", "Report on runs of a store");
  AddEnergyStore(sub, &command.store);
  sub->add_option("runs", command.runs, "Their ids, which may be shortened [the latest run]")
      ->type_name("RUN");
  sub->add_option("--where", command.where, "All runs with this label; may come several times")
      ->type_name("LABEL=VALUE")
      ->allow_extra_args(false);
  sub->add_option("--against", command.against, "Compare with the runs with this label")
      ->type_name("LABEL=VALUE")
      ->allow_extra_args(false);
  sub->add_option("--baseline", command.baseline, "Which one of the store is subtracted")
      ->check(CLI::IsMember({"off", "ready", "running-without-io", "none"}))
      ->capture_default_str();
  sub->add_option("--facts", command.facts,
                  "What a headline needs and the runs do not know: a file with a JSON object")
      ->type_name("FILE");
  sub->add_option("--model", command.model,
                  "Show joules of this model of power too, apart from all others: a JSON file")
      ->type_name("FILE");
  sub->add_option("--title", command.title, "Of the report")->capture_default_str();
  sub->add_option("--html", command.html, "Write a page that needs nothing else")
      ->type_name("FILE");
  AddJson(sub, &command.json);
  return sub;
}

CLI::App* AddMeter(CLI::App* energy, EnergyMeterCommand& command) {
  CLI::App* sub = energy->add_subcommand(
      "meter", "Compare a host's figures with a power meter: at idle and at two loads");
  AddEnergyStore(sub, &command.store);
  sub->add_option("--series", command.series, "What the meter wrote")
      ->type_name("FILE")
      ->required();
  sub->add_option(
         "--format", command.format,
         "csv: a time and watts a line; ipmi: of ipmitool dcmi power reading; redfish: JSON")
      ->check(CLI::IsMember({"csv", "ipmi", "redfish"}))
      ->capture_default_str();
  sub->add_option("--time-column", command.time_column, "Its title [time, timestamp, date]")
      ->type_name("TEXT");
  sub->add_option("--watts-column", command.watts_column, "Its title [the first of power]")
      ->type_name("TEXT");
  sub->add_option("--scale", command.scale, "Watts = figure times this")->capture_default_str();
  sub->add_option("--instrument", command.instrument, "What the meter is, for reports")
      ->type_name("TEXT");
  sub->add_option("runs", command.level_runs,
                  "Runs of the store of five minutes or more: at idle, then at loads")
      ->type_name("RUN")
      ->required()
      ->expected(3, 20);
  AddJson(sub, &command.json);
  return sub;
}

CLI::App* AddOverhead(CLI::App* energy, EnergyOverheadCommand& command) {
  CLI::App* sub = energy->add_subcommand(
      "overhead",
      "Measure what the monitor costs a command, with it and without it: overhead [OPTIONS] -- "
      "COMMAND ...");
  AddEnergySource(sub, command.source);
  AddEnergyInterval(sub, command.source);
  AddCount(sub, "--pairs", &command.pairs, "How often both", kPairs);
  sub->add_option("--seed", command.seed, "Of the random order")->capture_default_str();
  NeedCommand(sub, command.argv);
  AddJson(sub, &command.json);
  return sub;
}

}  // namespace

void EnergyAnalysisCli::AddTo(CLI::App* energy) {
  baseline_sub_ = AddBaseline(energy, baseline_);
  stages_sub_ = AddStages(energy, stages_);
  report_sub_ = AddReport(energy, report_);
  meter_sub_ = AddMeter(energy, meter_);
  overhead_sub_ = AddOverhead(energy, overhead_);
}

std::vector<std::string>* EnergyAnalysisCli::CommandOf(std::string_view subcommand) {
  if (subcommand == "baseline") return &baseline_.run.argv;
  if (subcommand == "stages") return &stages_.run.argv;
  if (subcommand == "overhead") return &overhead_.argv;
  return nullptr;
}

std::optional<int> EnergyAnalysisCli::Run() const {
  // These pass signals on to the command that they run.
  if (baseline_sub_->parsed()) return RunEnergyBaseline(baseline_);
  if (stages_sub_->parsed()) return RunEnergyStages(stages_);
  if (overhead_sub_->parsed()) return RunEnergyOverhead(overhead_);
  const InterruptFlag interrupt;
  if (report_sub_->parsed()) return InterruptFlag::ExitCode(RunEnergyReport(report_));
  if (meter_sub_->parsed()) return InterruptFlag::ExitCode(RunEnergyMeter(meter_));
  return std::nullopt;
}

}  // namespace emlio::tool
