// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "energy_commands.h"

namespace CLI {
class App;
}

namespace emlio::tool {

// A subcommand of `emlio energy`.
struct EnergyChoice {
  const CLI::App* sub;
  std::function<int()> run;                     // returns the exit code
  std::vector<std::string>* command = nullptr;  // where the words behind "--" go; null: it has none
  bool own_signals = false;                     // it minds Ctrl-C itself
};

// The subcommands of `emlio energy` that make figures of several runs.
class EnergyAnalysisCli {
 public:
  // What it appends refers to this object.
  void AddTo(CLI::App* energy, std::vector<EnergyChoice>* choices);

 private:
  EnergyBaselineCommand baseline_;
  EnergyStagesCommand stages_;
  EnergyReportCommand report_;
  EnergyMeterCommand meter_;
  EnergyOverheadCommand overhead_;
};

}  // namespace emlio::tool
