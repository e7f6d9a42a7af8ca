// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "emlio/energy/domain.h"

namespace emlio::energy_analysis {

// What a headline must say of a host (HeadlineFields, "system"), as far as the system tells, and
// "cpus": a JSON object for NodeInfo::facts. What it does not tell is left out. `root` as in
// energy::Host. Never fails.
std::string HostFacts(const std::string& root, std::span<const energy::Domain> domains);

}  // namespace emlio::energy_analysis
