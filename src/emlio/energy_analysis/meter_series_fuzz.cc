// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
// Any text as a meter's output: taken or refused, and what is taken is sorted and can be.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "emlio/energy_analysis/meter_series.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace emlio::energy_analysis;
  if (size == 0) return 0;
  // The first byte chooses the format.
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  MeterSeriesOptions options;
  options.format = static_cast<MeterFormat>(data[0] % 3);
  (void)ParseWallTime(text);
  const auto series = ParseMeterSeries(text, options);
  if (!series.ok()) return 0;
  for (size_t i = 0; i < series->size(); ++i) {
    const MeterReading& reading = (*series)[i];
    const bool sorted = i == 0 || (*series)[i - 1].wall_ns <= reading.wall_ns;
    if (!sorted || !std::isfinite(reading.watts) || reading.watts < 0) std::abort();
  }
  return 0;
}
