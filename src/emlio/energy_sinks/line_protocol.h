// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "emlio/energy/accumulator.h"
#include "emlio/energy/domain.h"
#include "emlio/energy_sinks/domain_series.h"

namespace emlio::energy_sinks {

// InfluxDB's line protocol of one node's samples (METRICS.md section 10): one line a domain and
// tick, times in microseconds. The same ticks always give the same lines. One thread at a time.
class LineWriter {
 public:
  LineWriter(const std::string& run, const std::string& node, std::vector<energy::Domain> domains);

  // Appends a tick's lines, as many as there are domains. REQUIRES: a sample for each domain.
  void Write(int64_t wall_ns, std::span<const energy::Sample> samples, std::string* lines);

 private:
  const std::vector<energy::Domain> domains_;
  std::vector<std::string> series_;  // measurement and tags of each
  std::vector<DomainSeries> published_;
};

}  // namespace emlio::energy_sinks
