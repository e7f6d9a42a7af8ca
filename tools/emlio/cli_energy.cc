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
#include "emlio/energy/detect.h"
#include "emlio/energy/run_store.h"
#include "emlio/energy_sinks/exposition.h"
#include "emlio/energy_sinks/influx_sink.h"
#include "energy_commands.h"
#include "interrupt.h"
#include "sample_sinks.h"

namespace emlio::tool {

constexpr Bounds<int64_t> kIntervalMs{.lowest = 10, .highest = 60'000};
constexpr Bounds<size_t> kSpoolPoints{.lowest = 1'000, .highest = 100'000'000};

CLI::Option* AddEnergyStore(CLI::App* sub, std::string* store, bool optional) {
  auto* option = AddFile(sub, "--store", store, "The file that runs are kept in");
  if (auto path = energy::DefaultStorePath(); path.ok()) {
    *store = *std::move(path);
    option->capture_default_str();
  } else if (!optional) {
    option->required();
  }
  return option;
}

void AddEnergySource(CLI::App* sub, EnergySource& source) {
  AddRoot(sub, "--root", &source.host.root);
  AddFile(sub, "--nvml-library", &source.host.nvml_library,
          "NVIDIA's library [$EMLIO_NVML_LIBRARY, else libnvidia-ml.so.1]");
  AddFile(sub, "--rocm-library", &source.host.rocm_library,
          "AMD's library [$EMLIO_ROCM_SMI_LIBRARY, else librocm_smi64.so]");
  AddNamed(
      sub, "--dram-watts",
      [](std::string_view text) -> Result<std::string> {
        EMLIO_RETURN_IF_ERROR(energy::ParseWattLimits(text).status());
        return std::string(text);
      },
      [&source](const std::string& text) { source.host.dram_watts = text; },
      "What the memory of a socket can draw on average, LEAST:MOST; more or less is implausible "
      "[$EMLIO_DRAM_WATTS, else 0:180]")
      ->type_name("W:W");
  sub->add_option("--gpu", source.host.gpus,
                  "Measure this GPU only, by UUID or PCI address; may come several times [all]")
      ->type_name("ID")
      ->allow_extra_args(false);
}

void AddEnergySampling(CLI::App* sub, EnergySource& source) {
  AddEnergySource(sub, source);
  AddCount(sub, "--interval-ms", &source.interval_ms, "How often counters are read", kIntervalMs)
      ->capture_default_str();
}

void AddMemoryCheck(CLI::App* sub, MemoryCheck* check) {
  AddNamed(
      sub, "--memory-check", &ParseMemoryCheck, [check](MemoryCheck given) { *check = given; },
      fmt::format("Whether memory is put under load before, to see if its counters rise: auto "
                  "(once after each start of an idle host), always, never [{}]",
                  MemoryCheckName(*check)));
}

void AddSampleSinks(CLI::App* sub, SampleSinkOptions& sinks) {
  energy_sinks::InfluxOptions& influx = sinks.influx;
  auto* url = sub->add_option("--influx-url", influx.url,
                              "Send every sample to the InfluxDB there, or to what speaks its line "
                              "protocol: http://HOST:8086 [none]")
                  ->type_name("URL");
  const auto of_influx = [&](const std::string& flag, std::string& value, const std::string& type,
                             const std::string& help) {
    sub->add_option(flag, value, help)->type_name(type)->needs(url);
  };
  AddNamed(
      sub, "--influx-version", &energy_sinks::ParseInfluxVersion,
      [&influx](energy_sinks::InfluxVersion version) { influx.version = version; },
      "Its version: 1, 2 or 3 [2]")
      ->needs(url);
  of_influx("--influx-database", influx.database, "NAME", "Of versions 1 and 3");
  of_influx("--influx-retention-policy", influx.retention_policy, "NAME",
            "Of version 1 [the database's own]");
  of_influx("--influx-user", influx.user, "NAME", "Of version 1");
  of_influx("--influx-password-file", sinks.influx_password_file, "FILE",
            "Of version 1: holds the password [$EMLIO_INFLUX_PASSWORD]");
  of_influx("--influx-bucket", influx.bucket, "NAME", "Of version 2");
  of_influx("--influx-org", influx.organisation, "NAME", "Of version 2");
  of_influx("--influx-token-file", sinks.influx_token_file, "FILE",
            "Of versions 2 and 3: holds the token [$EMLIO_INFLUX_TOKEN]");
  AddCount(sub, "--influx-spool-points", &influx.max_waiting_points,
           "Points that may wait in memory for InfluxDB; beyond that the oldest are dropped",
           kSpoolPoints)
      ->needs(url);
  auto* bind = sub->add_option("--prometheus-bind", sinks.prometheus_bind,
                               "Serve the sums of all samples at http://HOST:PORT/metrics; port 0 "
                               "takes a free one [none]")
                   ->type_name("HOST:PORT");
  sub->add_flag("--prometheus-insecure", sinks.prometheus_insecure,
                "Serve them beyond loopback: whoever can connect can read them")
      ->needs(bind);
  AddNamed(
      sub, "--prometheus-names", &energy_sinks::ParseMetricNames,
      [&sinks](energy_sinks::MetricNames names) { sinks.prometheus_names = names; },
      "What metrics are called: emlio, or opentelemetry (its semantic conventions) [emlio]")
      ->needs(bind);
}

void AddEnergyNodes(CLI::App* sub, EnergyRecordCommand& command) {
  sub->add_option("--node", command.nodes,
                  "Another node of the run, by the address of its agent (emlio energy agent); may "
                  "come several times")
      ->type_name("HOST:PORT")
      ->allow_extra_args(false);
  AddSeconds(sub, "--connect-timeout-s", &command.connect_ms,
             "How long to wait for nodes before the command starts");
  sub->add_flag_callback(
      "--no-find", [&command] { command.find_nodes = false; },
      "Do not add the storage nodes that the command's loaders read from");
}

namespace {

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
  AddEnergySampling(sub, command.source);
  AddEnergyNodes(sub, command);
  sub->add_option("--name", command.name, "Of the window around the command [the command]")
      ->type_name("TEXT");
  sub->add_option("--stage", command.stage, "What the command does of R, R+P, R+P+T or T")
      ->type_name("TEXT");
  sub->add_flag(
      "--require-measured", command.require_measured,
      "Exit with 3, before the command starts, unless every part of the host and of every "
      "--node that is in the total has a hardware counter");
  sub->add_flag("--allow-gaps", command.allow_gaps,
                "Show the joules of the rest where more than 1 % of the time is not known");
  AddMemoryCheck(sub, &command.memory_check);
  sub->add_flag("--live", command.live, "Show the watts of every domain while the command runs");
  auto* store = AddEnergyStore(sub, &command.store, /*optional=*/true);
  store->each([&command](const std::string&) { command.must_store = true; });
  sub->add_flag_callback(
         "--no-store",
         [&command] {
           command.store.clear();
           command.wants_store = false;
         },
         "Do not keep the run")
      ->excludes(store);
  AddSampleSinks(sub, command.sinks);
  AddJson(sub, &command.json);
  return sub;
}

CLI::App* AddAgent(CLI::App* energy, EnergyAgentCommand& command) {
  CLI::App* sub = energy->add_subcommand(
      "agent", "Measure this host and answer those who run jobs on several (emlio serve has one)");
  sub->add_option("--bind", command.agent.bind,
                  "Address to listen on; port 0 takes a free one. Anything but loopback needs "
                  "--insecure")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  sub->add_flag("--insecure", command.agent.insecure,
                "Listen beyond loopback although there are no keys: whoever can connect can ask");
  command.agent.role = "compute";
  sub->add_option("--role", command.agent.role, "What this host is in runs: compute, storage, ...")
      ->type_name("TEXT")
      ->capture_default_str();
  sub->add_option("--node", command.node, "This host's name in runs [its host name]")
      ->type_name("NAME");
  AddReadyFile(sub, &command.ready_file);
  AddEnergySampling(sub, command.source);
  AddMemoryCheck(sub, &command.memory_check);
  AddSampleSinks(sub, command.sinks);
  AddJson(sub, &command.json);
  return sub;
}

CLI::App* AddValidateInterval(CLI::App* energy, EnergyValidateIntervalCommand& command) {
  CLI::App* sub = energy->add_subcommand(
      "validate-interval",
      "Compare the energy that different sampling intervals give on this host");
  AddEnergySource(sub, command.source);
  AddSeconds(sub, "--seconds", &command.duration_ms, "How long to measure, 1 or more",
             /*lowest_s=*/1);  // the longest of the intervals
  AddJson(sub, &command.json);
  return sub;
}

CLI::App* AddExport(CLI::App* energy, EnergyExportCommand& command) {
  CLI::App* sub = energy->add_subcommand(
      "export", "Write samples, windows or energies of a run as CSV or line protocol");
  sub->add_option("run", command.run, "What the run's id begins with [the latest run]")
      ->type_name("RUN");
  AddEnergyStore(sub, &command.store);
  AddNamed(
      sub, "--table", &energy_sinks::ParseExportTable,
      [&command](energy_sinks::ExportTable table) { command.table = table; },
      "samples: a row a tick and domain; windows: a row a window and node; energies: a row a "
      "window "
      "and domain [samples]");
  AddNamed(
      sub, "--format", &energy_sinks::ParseExportFormat,
      [&command](energy_sinks::ExportFormat format) { command.format = format; },
      "csv, or influx: line protocol, for a database that was away. Parquet: python -m "
      "emlio.energy_parquet [csv]");
  AddFile(sub, "--output,-o", &command.output, "Where to; - is standard output [-]");
  AddJson(sub, &command.json);
  return sub;
}

}  // namespace

struct EnergyCli::Commands {
  CLI::App* energy = nullptr;
  EnergyAnalysisCli analysis;
  EnergyDoctorCommand doctor;
  EnergyRecordCommand record;
  EnergyAgentCommand agent;
  EnergyValidateIntervalCommand validate_interval;
  EnergyExportCommand export_run;
  std::vector<EnergyChoice> choices;
};

EnergyCli::EnergyCli(CLI::App& app) : commands_(std::make_unique<Commands>()) {
  Commands& c = *commands_;
  c.energy = app.add_subcommand("energy", "Measure energy: of this host, of a command, of a run");
  c.energy->require_subcommand(0, 1);
  c.choices = {
      {AddDoctor(c.energy, c.doctor), [&c] { return RunEnergyDoctor(c.doctor); }},
      {AddRecord(c.energy, c.record), [&c] { return RunEnergyRecord(c.record); }, &c.record.argv,
       true},
      {AddAgent(c.energy, c.agent), [&c] { return RunEnergyAgent(c.agent); }, nullptr, true},
      {AddValidateInterval(c.energy, c.validate_interval),
       [&c] { return RunEnergyValidateInterval(c.validate_interval); }},
      {AddExport(c.energy, c.export_run), [&c] { return RunEnergyExport(c.export_run); }},
  };
  c.analysis.AddTo(c.energy, &c.choices);
  for (CLI::App* sub : c.energy->get_subcommands({})) AddLog(sub);
}

EnergyCli::~EnergyCli() = default;

int EnergyCli::TakeCommand(int argc, char** argv) {
  if (argc < 3 || std::string_view(argv[1]) != "energy") return argc;
  for (const EnergyChoice& choice : commands_->choices) {
    if (choice.command == nullptr || choice.sub->get_name() != argv[2]) continue;
    for (int i = 3; i < argc; ++i) {
      if (std::string_view(argv[i]) != "--") continue;
      choice.command->assign(argv + i + 1, argv + argc);
      return i;
    }
  }
  return argc;
}

std::optional<int> EnergyCli::Run() const {
  if (!commands_->energy->parsed()) return std::nullopt;
  for (const EnergyChoice& choice : commands_->choices) {
    if (!choice.sub->parsed()) continue;
    if (choice.own_signals) return choice.run();
    const InterruptFlag interrupt;
    return InterruptFlag::ExitCode(choice.run());
  }
  SayText(commands_->energy->help());
  return kExitUsage;
}

}  // namespace emlio::tool
