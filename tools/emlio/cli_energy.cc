// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "cli_energy.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli_energy_analysis.h"
#include "cli_options.h"
#include "console.h"
#include "energy_commands.h"
#include "interrupt.h"

namespace emlio::tool {
namespace {

constexpr Bounds<int64_t> kIntervalMs{.lowest = 10, .highest = 60'000};

CLI::App* AddDoctor(CLI::App* energy, EnergyDoctorCommand& command) {
  CLI::App* sub = energy->add_subcommand(
      "doctor", "Show what can be measured here, and what to do about what cannot");
  AddEnergySource(sub, command.source);
  sub->add_flag_callback(
      "--no-memory-load", [&command] { command.load_memory = false; },
      "Do not put memory under load to see whether its counters rise");
  AddJson(sub, &command.json);
  return sub;
}

CLI::App* AddRecord(CLI::App* energy, EnergyRecordCommand& command) {
  CLI::App* sub = energy->add_subcommand(
      "record",
      "Run a command, and show the energy used meanwhile: record [OPTIONS] -- COMMAND ...");
  sub->final_callback([&command] {
    if (command.argv.empty()) {
      throw CLI::ValidationError("record",
                                 "write the command behind --, for example: emlio energy "
                                 "record -- emlio pull tcp://storage:7777/train --batch-size 64");
    }
  });
  AddEnergySource(sub, command.source);
  AddEnergyInterval(sub, command.source);
  sub->add_option("--name", command.name, "Of the window around the command [the command]")
      ->type_name("TEXT");
  sub->add_option("--stage", command.stage, "What the command does of R, R+P, R+P+T or T")
      ->type_name("TEXT");
  sub->add_flag("--require-measured", command.require_measured,
                "Exit with 3, before the command starts, unless every part of the host that is in "
                "the total has a hardware counter");
  sub->add_flag("--allow-gaps", command.allow_gaps,
                "Show the joules of the rest where more than 1 % of the time is not known");
  sub->add_flag("--live", command.live, "Show the watts of every domain while the command runs");
  AddJson(sub, &command.json);
  return sub;
}

CLI::App* AddValidateInterval(CLI::App* energy, EnergyValidateIntervalCommand& command) {
  CLI::App* sub = energy->add_subcommand(
      "validate-interval",
      "Compare the energy that different sampling intervals give on this host");
  AddEnergySource(sub, command.source);
  AddSeconds(sub, "--seconds", &command.duration_ms, "How long to measure");
  AddJson(sub, &command.json);
  return sub;
}

}  // namespace

void AddEnergySource(CLI::App* sub, EnergySource& source) {
  sub->add_option_function<std::string>(
         "--root",
         [&source](std::string root) {
           if (!root.ends_with('/')) root += '/';
           source.host.root = std::move(root);
         },
         "Look for counters in the folders sys, proc and dev of this folder; for containers and "
         "tests")
      ->type_name("DIR")
      ->default_str("/");
  sub->add_option("--nvml-library", source.host.nvml_library,
                  "NVIDIA's library [$EMLIO_NVML_LIBRARY, else libnvidia-ml.so.1]")
      ->type_name("FILE");
  sub->add_option("--rocm-library", source.host.rocm_library,
                  "AMD's library [$EMLIO_ROCM_SMI_LIBRARY, else librocm_smi64.so]")
      ->type_name("FILE");
  sub->add_option("--gpu", source.host.gpus,
                  "Measure this GPU only, by UUID or PCI address; may come several times [all]")
      ->type_name("ID")
      ->allow_extra_args(false);
}

void AddEnergyInterval(CLI::App* sub, EnergySource& source) {
  AddCount(sub, "--interval-ms", &source.interval_ms, "How often counters are read", kIntervalMs)
      ->capture_default_str();
}

struct EnergyCli::Commands {
  CLI::App* energy = nullptr;
  EnergyAnalysisCli analysis;
  EnergyDoctorCommand doctor;
  EnergyRecordCommand record;
  EnergyValidateIntervalCommand validate_interval;
  // What runs each of them. `own_signals`: it minds Ctrl-C itself.
  struct Choice {
    const CLI::App* sub;
    std::function<int()> run;
    bool own_signals = false;
  };
  std::vector<Choice> choices;
};

EnergyCli::EnergyCli(CLI::App& app) : commands_(std::make_unique<Commands>()) {
  Commands& c = *commands_;
  c.energy = app.add_subcommand("energy", "Measure energy: of this host, of a command, of a run");
  c.energy->require_subcommand(0, 1);
  c.choices = {
      {AddDoctor(c.energy, c.doctor), [&c] { return RunEnergyDoctor(c.doctor); }},
      {AddRecord(c.energy, c.record), [&c] { return RunEnergyRecord(c.record); }, true},
      {AddValidateInterval(c.energy, c.validate_interval),
       [&c] { return RunEnergyValidateInterval(c.validate_interval); }},
  };
  c.analysis.AddTo(c.energy);
  for (CLI::App* sub : c.energy->get_subcommands({})) AddLog(sub);
}

EnergyCli::~EnergyCli() = default;

int EnergyCli::TakeCommand(int argc, char** argv) {
  if (argc < 3 || std::string_view(argv[1]) != "energy") return argc;
  const std::string_view sub = argv[2];
  std::vector<std::string>* const command =
      sub == "record" ? &commands_->record.argv : commands_->analysis.CommandOf(sub);
  if (command == nullptr) return argc;
  for (int i = 3; i < argc; ++i) {
    if (std::string_view(argv[i]) != "--") continue;
    command->assign(argv + i + 1, argv + argc);
    return i;
  }
  return argc;
}

std::optional<int> EnergyCli::Run() const {
  if (!commands_->energy->parsed()) return std::nullopt;
  for (const Commands::Choice& choice : commands_->choices) {
    if (!choice.sub->parsed()) continue;
    if (choice.own_signals) return choice.run();
    const InterruptFlag interrupt;
    return InterruptFlag::ExitCode(choice.run());
  }
  if (const auto code = commands_->analysis.Run()) return *code;
  fmt::print(stderr, "{}", commands_->energy->help());
  return kExitUsage;
}

}  // namespace emlio::tool
