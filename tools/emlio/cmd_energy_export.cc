// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "console.h"
#include "emlio/base/file.h"
#include "emlio/energy_sinks/export_run.h"
#include "energy_commands.h"
#include "interrupt.h"

namespace emlio::tool {
namespace {

// Where rows go: standard output, or a file that appears whole or not at all.
class Output {
 public:
  static Result<Output> Open(const std::string& path) {
    Output output;
    if (path != "-") {
      EMLIO_ASSIGN_OR_RETURN(output.file_, AtomicFile::Create(path));
    }
    return output;
  }
  Status Write(std::string_view piece) {
    if (InterruptFlag::IsSet()) return Cancelled("stopped");
    if (file_ != nullptr) return file_->Append(piece.data(), piece.size());
    if (std::fwrite(piece.data(), 1, piece.size(), stdout) == piece.size()) return OkStatus();
    return ErrnoStatus(errno, "standard output");
  }
  Status Close() {
    if (file_ != nullptr) return file_->Commit();
    return std::fflush(stdout) == 0 ? OkStatus() : ErrnoStatus(errno, "standard output");
  }

 private:
  std::unique_ptr<AtomicFile> file_;
};

struct Exported {
  std::string run;
  int64_t rows = 0;
};

Result<Exported> Export(const EnergyExportCommand& command) {
  EMLIO_ASSIGN_OR_RETURN(auto reader, energy::RunReader::Open(command.store));
  EMLIO_ASSIGN_OR_RETURN(const energy::Run run, reader->FindRun(command.run));
  EMLIO_ASSIGN_OR_RETURN(Output output, Output::Open(command.output));
  EMLIO_ASSIGN_OR_RETURN(
      const int64_t rows,
      energy_sinks::ExportRun(*reader, run.id, command.table, command.format,
                              [&](std::string_view piece) { return output.Write(piece); }));
  EMLIO_RETURN_IF_ERROR(output.Close());
  return Exported{run.id, rows};
}

}  // namespace

int RunEnergyExport(const EnergyExportCommand& command) {
  const Report report(command.json);
  if (const Status status = report.Check(); !status.ok()) return Fail(status);
  if (command.json == "-" && command.output == "-") {
    return Fail(InvalidArgument("--json - and rows cannot both be on standard output"));
  }
  const auto exported = Export(command);
  nlohmann::ordered_json json = {{"version", EMLIO_VERSION}};
  if (!exported.ok()) return report.Finish(exported.status(), std::move(json));
  json["run"] = exported->run;
  json["rows"] = exported->rows;
  json["output"] = command.output;
  if (report.for_people() && command.output != "-") {
    fmt::print("{} of run {} in {}\n", FormatCount(static_cast<uint64_t>(exported->rows), "row"),
               exported->run, command.output);
  }
  return report.Finish(OkStatus(), std::move(json));
}

}  // namespace emlio::tool
