// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "console.h"
#include "emlio/base/status.h"
#include "energy_commands.h"

namespace emlio::tool {

// A command that is run and measured on this host, and what the store is to know of it.
struct StoredRunRequest {
  std::vector<std::string> argv;
  std::map<std::string, std::string> environment;  // set for this process and the command
  std::map<std::string, std::string> labels;
  std::string configuration = "{}";
  std::string stage;
  bool output_to_stderr = false;
};

struct StoredRunOutcome {
  std::string id;
  int exit_code = 0;
  double seconds = 0;
  double monitor_cpu_seconds = 0;
  std::optional<double> joules;  // of the host's total
  // The command was ended by Ctrl-C or SIGTERM: no further one should be started.
  bool interrupted = false;
};

// Runs the command under a monitor; all samples and the window around the command go into the
// store. A command that fails is a run that failed, and no error. On the main thread, while there
// are no other threads.
Result<StoredRunOutcome> MeasureIntoStore(const EnergySource& source, const std::string& store,
                                          const StoredRunRequest& request);

// Finishes a command whose data are at fault and not its options: INVALID_ARGUMENT of an analysis
// that refuses them is kExitFailed too.
int FinishRefused(const Report& report, const Status& status, nlohmann::ordered_json json);

}  // namespace emlio::tool
