// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "emlio/base/status.h"
#include "emlio/energy/run_store.h"

namespace emlio::energy_sinks {

// What of a run is written (METRICS.md section 11).
enum class ExportTable {
  kSamples,   // a row a tick and domain
  kWindows,   // a row a window and node: totals and proxies
  kEnergies,  // a row a window and domain
};
enum class ExportFormat {
  kCsv,     // RFC 4180, with titles; what is not known is an empty cell
  kInflux,  // samples as line protocol: what a sink would have sent
};

// The name on the command line, "samples" or "csv"; kInvalidArgument names those that there are.
Result<ExportTable> ParseExportTable(std::string_view name);
Result<ExportFormat> ParseExportFormat(std::string_view name);

// Writes a table of a run in pieces of about 1 MiB to `output`, whose error ends it. Returns how
// many rows there were. kInvalidArgument: the format has no such table.
Result<int64_t> ExportRun(energy::RunReader& reader, const std::string& run_id, ExportTable table,
                          ExportFormat format,
                          const std::function<Status(std::string_view)>& output);

}  // namespace emlio::energy_sinks
