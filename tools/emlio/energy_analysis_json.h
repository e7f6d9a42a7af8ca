// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "emlio/energy_analysis/baseline.h"
#include "emlio/energy_analysis/meter_comparison.h"
#include "emlio/energy_analysis/overhead.h"
#include "emlio/energy_analysis/regression.h"
#include "emlio/energy_analysis/report.h"

// What analysis finds, as JSON (docs/cli.md, "emlio energy"). What is not known is null.
namespace emlio::tool {

nlohmann::ordered_json ToJson(const energy_analysis::Estimate& estimate);
nlohmann::ordered_json ToJson(const energy_analysis::Summary& summary);
nlohmann::ordered_json ToJson(const energy_analysis::Ratio& ratio);
nlohmann::ordered_json ToJson(const energy_analysis::NamedBaseline& baseline);
nlohmann::ordered_json ToJson(const energy_analysis::Ladder& ladder);
nlohmann::ordered_json ToJson(const energy_analysis::Shapley& shapley);
nlohmann::ordered_json ToJson(const energy_analysis::Regression& regression);
nlohmann::ordered_json ToJson(const energy_analysis::Overhead& overhead);
nlohmann::ordered_json ToJson(const energy_analysis::MeterComparison& comparison);
nlohmann::ordered_json ToJson(const energy_analysis::EnergyReport& report);

}  // namespace emlio::tool
