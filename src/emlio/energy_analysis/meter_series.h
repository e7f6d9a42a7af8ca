// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emlio/base/status.h"

// What outside power meters write, as a series of watts over time (ANALYSIS.md, "Against a meter").
namespace emlio::energy_analysis {

struct MeterReading {
  int64_t wall_ns = 0;
  double watts = 0;
};

enum class MeterFormat {
  kCsv,      // a time and watts a line; PDUs export this
  kIpmi,     // what `ipmitool dcmi power reading` prints, again and again
  kRedfish,  // JSON: metric reports, sensors, power resources with a time
};
std::optional<MeterFormat> MeterFormatFromName(std::string_view name);  // "csv", "ipmi", "redfish"

struct MeterSeriesOptions {
  MeterFormat format = MeterFormat::kCsv;
  // Of a CSV file with a header; empty: "time" or "timestamp", and the first whose name speaks of
  // watts or power.
  std::string time_column = {};
  std::string watts_column = {};
  double scale = 1;  // watts = figure × scale; "kW" in a column's name is understood
};

inline constexpr size_t kMaxMeterBytes = size_t{256} << 20;
inline constexpr size_t kMaxMeterReadings = 10'000'000;

// The readings in the order of time. kCorrupt names the line; kLimitExceeded: too many or too long.
// Watts are finite and not negative.
Result<std::vector<MeterReading>> ParseMeterSeries(std::string_view text,
                                                   const MeterSeriesOptions& options);

// A time as meters write it: seconds, milli-, micro- or nanoseconds since 1970 (told apart by their
// magnitude), or "2026-11-30T13:15:02.5Z", with a blank in place of T, with "+02:00", or without a
// zone (UTC). None: something else.
std::optional<int64_t> ParseWallTime(std::string_view text);

}  // namespace emlio::energy_analysis
