// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "energy_commands.h"

namespace CLI {
class App;
}

namespace emlio::tool {

// The subcommands of `emlio energy` that make figures of several runs.
class EnergyAnalysisCli {
 public:
  void AddTo(CLI::App* energy);
  // Where the words behind "--" of such a subcommand go; null for others.
  std::vector<std::string>* CommandOf(std::string_view subcommand);
  // Runs what was asked for and returns its exit code; none when it was none of these.
  std::optional<int> Run() const;

 private:
  EnergyBaselineCommand baseline_;
  EnergyStagesCommand stages_;
  EnergyReportCommand report_;
  EnergyMeterCommand meter_;
  EnergyOverheadCommand overhead_;
  const CLI::App* baseline_sub_ = nullptr;
  const CLI::App* stages_sub_ = nullptr;
  const CLI::App* report_sub_ = nullptr;
  const CLI::App* meter_sub_ = nullptr;
  const CLI::App* overhead_sub_ = nullptr;
};

}  // namespace emlio::tool
