// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "emlio/energy_agent/node_set.h"

// Runs over several nodes as JSON and as text (docs/cli.md, "emlio energy record").
namespace emlio::tool {

// What it is called: its agent's address until it said its name.
inline const std::string& NameOf(const energy_agent::NodeReport& node) {
  return node.node.empty() ? node.endpoint : node.node;
}

nlohmann::ordered_json ClockJson(const energy::ClockReading& reading);
nlohmann::ordered_json NodeJson(const energy_agent::NodeReport& node);
nlohmann::ordered_json RunTotalJson(const energy_agent::RunTotal& total);
// One line a node, and what is to be said of those that are not whole.
// Also why nodes have no joules, and what helps.
std::string NodesTable(const std::string& own_name, const energy::Total& own,
                       const std::vector<energy_agent::NodeReport>& nodes,
                       const energy_agent::RunTotal& total);

}  // namespace emlio::tool
