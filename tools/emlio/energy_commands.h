// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "emlio/energy/meter.h"
#include "emlio/energy_agent/agent.h"
#include "emlio/energy_sinks/export_run.h"
#include "energy_memory_check.h"
#include "sample_sinks.h"

// The subcommands of `emlio energy`, as commands.h has the others: options and one function each.
namespace emlio::tool {

// Where counters are looked for, and how often they are read.
struct EnergySource {
  energy::Host host;
  int64_t interval_ms = 100;
};

struct EnergyDoctorCommand {
  EnergySource source;
  bool load_memory = true;  // to see whether DRAM counters rise
  std::string json;
};
int RunEnergyDoctor(const EnergyDoctorCommand& command);

struct EnergyRecordCommand {
  EnergySource source;
  std::vector<std::string> argv;
  std::vector<std::string> nodes;  // agents' "host:port"
  int64_t connect_ms = 10'000;     // how long to wait for them
  bool find_nodes = true;          // those that the command's loaders are told of
  std::string name;                // of the window around the command
  std::string stage;               // and its stage
  bool require_measured = false;
  bool allow_gaps = false;
  MemoryCheck memory_check = MemoryCheck::kAuto;
  bool live = false;
  std::string store;        // the file of runs; empty: none
  bool wants_store = true;  // none is not what was asked for: it is warned of
  bool must_store = false;  // the command is not started where the run cannot be kept
  SampleSinkOptions sinks;
  // For runs that belong to an experiment.
  std::string run_id;  // empty: a new one
  std::map<std::string, std::string> labels;
  std::string configuration = "{}";  // a JSON object
  bool quiet = false;                // no table; the command's output goes to standard error
  std::string json;
};
int RunEnergyRecord(const EnergyRecordCommand& command);

struct EnergyAgentCommand {
  EnergySource source;
  energy_agent::AgentOptions agent;  // bind, insecure, role
  std::string node;                  // this host's name in runs
  std::string ready_file;
  // It may be a storage host at work: it is put under load only when that is asked for.
  MemoryCheck memory_check = MemoryCheck::kNever;
  SampleSinkOptions sinks;
  std::string json;
};
int RunEnergyAgent(const EnergyAgentCommand& command);

struct EnergyValidateIntervalCommand {
  EnergySource source;  // but for the interval
  std::vector<int64_t> intervals_ms = {10, 20, 50, 100, 200, 500, 1000};
  int64_t duration_ms = 5000;  // of each
  std::string json;
};
int RunEnergyValidateInterval(const EnergyValidateIntervalCommand& command);

struct EnergyExportCommand {
  std::string store;  // a file
  std::string run;    // what its id begins with; empty: the latest
  energy_sinks::ExportTable table = energy_sinks::ExportTable::kSamples;
  energy_sinks::ExportFormat format = energy_sinks::ExportFormat::kCsv;
  std::string output = "-";
  std::string json;
};
int RunEnergyExport(const EnergyExportCommand& command);

struct EnergyBaselineCommand {
  EnergyRecordCommand run;     // source, nodes, store and command of each run
  std::string kind = "ready";  // energy_analysis::BaselineKindName
  int64_t seconds = 60;        // of each run; without a command
  int64_t runs = 3;
  std::string json;
};
int RunEnergyBaseline(const EnergyBaselineCommand& command);

struct EnergyStagesCommand {
  EnergyRecordCommand
      run;  // source, nodes, store and command, which finds its stages in EMLIO_STAGES
  int64_t rounds = 5;
  uint64_t seed = 1;
  int64_t pause_seconds = 0;  // between runs
  bool shapley = false;
  std::string configuration;  // a JSON file
  std::string baseline = "ready";
  std::string regress;  // a run that is in the store already; empty: none
  bool dither = false;  // run the command once, with a schedule, and regress that
  int64_t block_ms = 2000;
  int64_t blocks = 120;
  std::string json;
};
int RunEnergyStages(const EnergyStagesCommand& command);

struct EnergyReportCommand {
  std::string store;
  std::vector<std::string> runs;     // ids, may be shortened; empty: by labels, else the latest
  std::vector<std::string> where;    // "LABEL=VALUE"
  std::vector<std::string> against;  // the same, of the runs to compare with
  std::string baseline = "ready";    // or "none"
  std::string facts;                 // a JSON file
  std::string model;                 // a JSON file
  std::string title = "Energy report";
  std::string html;
  std::string json;
};
int RunEnergyReport(const EnergyReportCommand& command);

struct EnergyMeterCommand {
  std::string store;
  std::string series;  // a file
  std::string format = "csv";
  std::string time_column;
  std::string watts_column;
  double scale = 1;
  std::string instrument;               // what the meter is
  std::vector<std::string> level_runs;  // at idle first, then at loads
  std::string json;
};
int RunEnergyMeter(const EnergyMeterCommand& command);

struct EnergyOverheadCommand {
  EnergySource source;
  std::vector<std::string> argv;
  int64_t pairs = 10;
  uint64_t seed = 1;
  std::string json;
};
int RunEnergyOverhead(const EnergyOverheadCommand& command);

}  // namespace emlio::tool
