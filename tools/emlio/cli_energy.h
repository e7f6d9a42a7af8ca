// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "energy_memory_check.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace emlio::tool {

// The file that runs are kept in: --store, with the user's own file as its default. Without a home
// there is none, and the option is required unless `optional`.
CLI::Option* AddEnergyStore(CLI::App* sub, std::string* store, bool optional = false);
struct EnergySource;
// Options that say where counters are.
void AddEnergySource(CLI::App* sub, EnergySource& source);
// The same, and how often they are read.
void AddEnergySampling(CLI::App* sub, EnergySource& source);
// --memory-check, whose default is what `check` is.
void AddMemoryCheck(CLI::App* sub, MemoryCheck* check);
// Options that say where samples go beside a store.
struct SampleSinkOptions;
void AddSampleSinks(CLI::App* sub, SampleSinkOptions& sinks);
// Options for the other nodes of a run.
struct EnergyRecordCommand;
void AddEnergyNodes(CLI::App* sub, EnergyRecordCommand& command);

// `emlio energy` and its subcommands on the command line.
class EnergyCli {
 public:
  explicit EnergyCli(CLI::App& app);
  ~EnergyCli();
  EnergyCli(const EnergyCli&) = delete;
  EnergyCli& operator=(const EnergyCli&) = delete;

  // Takes the command out of the command line, "energy record ... -- COMMAND", as it is: CLI11
  // would change some of its words. Returns how many words are left for CLI11.
  int TakeCommand(int argc, char** argv);
  // Runs what was asked for and returns its exit code; none when it was something else than energy.
  std::optional<int> Run() const;

 private:
  struct Commands;
  std::unique_ptr<Commands> commands_;
};

}  // namespace emlio::tool
