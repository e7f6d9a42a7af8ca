// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emlio/energy/activity.h"
#include "emlio/energy/detect.h"
#include "emlio/energy/monitor.h"
#include "emlio/energy/recorder.h"
#include "emlio/energy/sampler.h"

// Energies as JSON (docs/cli.md, "emlio energy") and as text, the same in every subcommand. What is
// not known is null beside a state, and "n/a".
namespace emlio::tool {

// `seconds`: of the window, for the mean power.
nlohmann::ordered_json DomainJson(const energy::Domain& domain);
nlohmann::ordered_json EnergyJson(const energy::Domain& domain, const energy::Energy& energy,
                                  double seconds);
nlohmann::ordered_json TotalJson(const energy::Total& total, double seconds);
// GPUs whose counter was compared with their integrated power; more than 5 % apart: `apart`.
nlohmann::ordered_json GpuChecksJson(const std::vector<energy::Domain>& domains,
                                     std::span<const energy::Energy> energies);
nlohmann::ordered_json WindowJson(const std::vector<energy::Domain>& domains,
                                  const energy::WindowReport& window);
nlohmann::ordered_json AbsentJson(const std::vector<energy::Absence>& absent);
nlohmann::ordered_json CpuJson(const energy::CpuFacts& cpu);
nlohmann::ordered_json SamplerJson(const energy::SamplerStats& stats);
// Without what is not known, which is null.
nlohmann::ordered_json ActivityJson(const energy::Activity& activity);

// "1.234 kJ", "n/a".
std::string FormatJoules(const std::optional<double>& joules);
std::string FormatWatts(const std::optional<double>& watts);
// What this host used in each window but `whole`: the first twenty of them. Empty: there are none.
std::string WindowsTable(const std::vector<energy::WindowReport>& windows, energy::WindowId whole);
// A table of domains with their energies, and what is to be said of those that have none.
std::string EnergyTable(const std::vector<energy::Domain>& domains,
                        std::span<const energy::Energy> energies, const energy::Total& total,
                        double seconds);
// Headed "proxy, not energy".
std::string ActivityTable(const energy::Activity& activity,
                          const std::optional<double>& command_cpu_seconds);

}  // namespace emlio::tool
