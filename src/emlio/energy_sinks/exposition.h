// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emlio/base/status.h"
#include "emlio/energy/accumulator.h"
#include "emlio/energy/domain.h"
#include "emlio/energy/run.h"

namespace emlio::energy_sinks {

// Whose names metrics have.
enum class MetricNames {
  kEmlio,          // METRICS.md section 8
  kOpenTelemetry,  // hw.energy and hw.host.energy, as Prometheus spells them
};
// "emlio" or "opentelemetry".
Result<MetricNames> ParseMetricNames(std::string_view name);

// The text of /metrics (Prometheus' format 0.0.4) for the sums of one node's domains. `samples` is
// empty before the first tick; else one a domain.
std::string ExpositionText(MetricNames names, const std::string& node,
                           std::span<const energy::Domain> domains,
                           std::span<const energy::Sample> samples,
                           std::span<const energy::SinkReport> sinks);

}  // namespace emlio::energy_sinks
