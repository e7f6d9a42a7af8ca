// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "emlio/base/status.h"
#include "emlio/energy/meter.h"
#include "emlio/energy/sysfs.h"

namespace emlio::energy {

// Between which watts a mean is believed.
struct WattLimits {
  double least = 0;
  double most = 0;
};
// "0.5:120": both from 0 to 1000, the first one smaller.
Result<WattLimits> ParseWattLimits(std::string_view text);

// All that can be measured on this host, each joule once, and why the rest cannot.
struct Detection {
  std::string node;           // the host's name
  std::vector<Meter> meters;  // sorted by kind, then socket, die and device
  std::vector<Absence> absent;
  CpuFacts cpu;
};

// Asks every source and chooses (METRICS.md section 3). A kind that a host is expected to have and
// nobody measures (package; dram; a GPU on the PCI bus) is there as a meter without a counter, with
// cause and fix. Never fails.
Detection Detect(const Host& host);

// Sets in_total and outside_total of every domain (METRICS.md section 2).
void ResolveTotal(std::vector<Meter>* meters);

}  // namespace emlio::energy
