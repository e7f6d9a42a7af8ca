// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "cli_energy_analysis.h"

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli_energy.h"
#include "cli_options.h"

namespace emlio::tool {
namespace {

constexpr Bounds<int64_t> kSeconds{.lowest = 60, .highest = 86'400};
constexpr Bounds<int64_t> kRuns{.lowest = 3, .highest = 1000};
constexpr Bounds<int64_t> kRounds{.lowest = 5, .highest = 1000};
constexpr Bounds<int64_t> kPairs{.lowest = 10, .highest = 1000};
constexpr Bounds<int64_t> kPause{.lowest = 0, .highest = 86'400};
constexpr Bounds<int64_t> kBlockMs{.lowest = 200, .highest = 600'000};
constexpr Bounds<int64_t> kBlocks{.lowest = 30, .highest = 100'000};

// Where and how runs of an experiment are measured and kept.
void AddMeasuredRuns(CLI::App* sub, EnergyRecordCommand& run) {
  AddEnergySampling(sub, run.source);
  AddEnergyNodes(sub, run);
  AddMemoryCheck(sub, &run.memory_check);
  AddEnergyStore(sub, &run.store);
  run.must_store = true;  // what is concluded comes from there
}

void AddBaselineKind(CLI::App* sub, const std::string& flag, std::string* kind, bool or_none,
                     const std::string& help) {
  std::vector<std::string> kinds = {"off", "ready", "running-without-io"};
  if (or_none) kinds.emplace_back("none");
  sub->add_option(flag, *kind, help)->check(CLI::IsMember(kinds))->capture_default_str();
}

void AddSubtractedBaseline(CLI::App* sub, std::string* baseline) {
  AddBaselineKind(sub, "--baseline", baseline, /*or_none=*/true,
                  "Which one of the store is subtracted");
}

void AddSeed(CLI::App* sub, uint64_t* seed) {
  sub->add_option("--seed", *seed, "Of the random order")->capture_default_str();
}

CLI::Option* AddLabels(CLI::App* sub, const std::string& flag, std::vector<std::string>* labels,
                       const std::string& help) {
  return sub->add_option(flag, *labels, help)->type_name("LABEL=VALUE")->allow_extra_args(false);
}

CLI::App* AddBaseline(CLI::App* energy, EnergyBaselineCommand& command) {
  CLI::App* sub = energy->add_subcommand(
      "baseline",
      "Measure what the host uses without the work: baseline [OPTIONS] [-- COMMAND ...]");
  AddMeasuredRuns(sub, command.run);
  AddBaselineKind(sub, "--kind", &command.kind, /*or_none=*/false,
                  "off: nothing of EMLIO runs; ready: daemons are up and contexts loaded, no data; "
                  "running-without-io: the command trains from memory");
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
  AddMeasuredRuns(sub, command.run);
  AddCount(sub, "--rounds", &command.rounds, "Runs of each set of stages", kRounds);
  AddSeed(sub, &command.seed);
  AddCount(sub, "--pause-seconds", &command.pause_seconds, "Between runs", kPause);
  sub->add_flag("--shapley", command.shapley, "All seven sets instead of the ladder's four");
  AddFile(sub, "--configuration", &command.configuration,
          "What the runs' reports are to say of the work: a file with a JSON object");
  AddSubtractedBaseline(sub, &command.baseline);
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
  auto* runs =
      sub->add_option("runs", command.runs, "Their ids, which may be shortened [the latest run]")
          ->type_name("RUN");
  AddLabels(sub, "--where", &command.where,
            "All runs with this label; may come several times: all must hold")
      ->excludes(runs);
  AddLabels(sub, "--against", &command.against, "Compare with the runs with this label");
  AddSubtractedBaseline(sub, &command.baseline);
  AddFile(sub, "--facts", &command.facts,
          "What a headline needs and the runs do not know: a file with a JSON object");
  AddFile(sub, "--model", &command.model,
          "Show joules of this model of power too, apart from all others: a JSON file");
  sub->add_option("--title", command.title, "Of the report")->capture_default_str();
  AddFile(sub, "--html", &command.html, "Write a page that needs nothing else");
  AddJson(sub, &command.json);
  return sub;
}

CLI::App* AddMeter(CLI::App* energy, EnergyMeterCommand& command) {
  CLI::App* sub = energy->add_subcommand(
      "meter", "Compare a host's figures with a power meter: at idle and at two loads");
  AddEnergyStore(sub, &command.store);
  AddFile(sub, "--series", &command.series, "What the meter wrote")->required();
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
  AddEnergySampling(sub, command.source);
  AddCount(sub, "--pairs", &command.pairs, "How often both", kPairs);
  AddSeed(sub, &command.seed);
  sub->final_callback([&command] {
    if (command.argv.empty()) {
      throw CLI::ValidationError("overhead", "write the command behind --");
    }
  });
  AddJson(sub, &command.json);
  return sub;
}

}  // namespace

void EnergyAnalysisCli::AddTo(CLI::App* energy, std::vector<EnergyChoice>* choices) {
  // Those that run a command pass signals on to it.
  choices->push_back({AddBaseline(energy, baseline_),
                      [this] { return RunEnergyBaseline(baseline_); }, &baseline_.run.argv, true});
  choices->push_back({AddStages(energy, stages_), [this] { return RunEnergyStages(stages_); },
                      &stages_.run.argv, true});
  choices->push_back({AddReport(energy, report_), [this] { return RunEnergyReport(report_); }});
  choices->push_back({AddMeter(energy, meter_), [this] { return RunEnergyMeter(meter_); }});
  choices->push_back({AddOverhead(energy, overhead_),
                      [this] { return RunEnergyOverhead(overhead_); }, &overhead_.argv, true});
}

}  // namespace emlio::tool
