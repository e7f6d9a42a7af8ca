// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "energy_run.h"

#include <fmt/format.h>
#include <signal.h>
#include <stdlib.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "emlio/energy/run_store.h"

namespace emlio::tool {

Status AsStoreError(const Status& status) {
  const Status named = status.WithContext("--store");
  return named.code() == Code::kTimeout ? IoError(named.message()) : named;
}

Status CheckStore(const std::string& path) {
  if (path.empty()) return InvalidArgument("--store: the file has no name");
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return OkStatus();  // it is made with the first run
  return AsStoreError(energy::RunStore::Open(path).status());
}

Result<StoredRun> RecordIntoStore(EnergyRecordCommand command,
                                  const std::map<std::string, std::string>& environment) {
  for (const auto& [name, value] : environment) {
    setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
  }
  StoredRun run{.id = energy::MakeRunId(energy::ReadMoment().wall_ns)};
  command.run_id = run.id;
  command.quiet = true;
  command.memory_check = MemoryCheck::kNever;  // before the first of all runs
  run.exit_code = RunEnergyRecord(command);
  run.interrupted = run.exit_code == 128 + SIGINT || run.exit_code == 128 + SIGTERM;
  EMLIO_ASSIGN_OR_RETURN(const auto reader, energy::RunReader::Open(command.store));
  EMLIO_ASSIGN_OR_RETURN(const energy::Run stored, reader->FindRun(run.id));
  if (!stored.ended_wall_ns) {
    return IoError(
        fmt::format("run {} of '{}' was not recorded as a whole", run.id, command.argv.front()));
  }
  return run;
}

}  // namespace emlio::tool
