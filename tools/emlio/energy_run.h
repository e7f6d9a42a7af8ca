// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "emlio/base/status.h"
#include "energy_commands.h"

namespace emlio::tool {

struct StoredRun {
  std::string id;
  int exit_code = 0;  // of the command
  // The command was ended by Ctrl-C or SIGTERM: no further one should be started.
  bool interrupted = false;
};

// What went wrong with the file that --store names, as an error of a file: no peer is involved in
// one that others keep locked.
Status AsStoreError(const Status& status);
// Whether runs can be kept there, as far as that shows without making it. Before the first of an
// experiment, and before all that takes time.
Status CheckStore(const std::string& path);

// Runs the command as `emlio energy record` does, with `environment` set for it, and makes sure
// that the run is in the store. A command that fails is a run that failed, and no error. On the
// main thread, while there are no other threads.
Result<StoredRun> RecordIntoStore(EnergyRecordCommand command,
                                  const std::map<std::string, std::string>& environment);

}  // namespace emlio::tool
