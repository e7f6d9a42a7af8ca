// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "emlio/energy/meter.h"

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
  std::string name;   // of the window around the command
  std::string stage;  // and its stage
  bool require_measured = false;
  bool allow_gaps = false;
  bool live = false;
  std::string json;
};
int RunEnergyRecord(const EnergyRecordCommand& command);

struct EnergyValidateIntervalCommand {
  EnergySource source;  // but for the interval
  std::vector<int64_t> intervals_ms = {10, 20, 50, 100, 200, 500, 1000};
  int64_t duration_ms = 5000;  // of each
  std::string json;
};
int RunEnergyValidateInterval(const EnergyValidateIntervalCommand& command);

}  // namespace emlio::tool
