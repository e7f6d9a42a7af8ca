// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "energy_json.h"
#include "energy_nodes.h"
#include "text.h"

namespace emlio::tool {
namespace {

using energy_agent::NodeReport;
using energy_agent::NodeState;

double Ms(int64_t ns) { return static_cast<double>(ns) * 1e-6; }

// Why a node's domains have no joules, and what helps; what several have in common once.
std::string CausesOf(const NodeReport& node) {
  std::vector<std::pair<std::string, std::vector<std::string>>> causes;
  const auto& missing = node.run.total.missing;
  for (size_t i = 0; i < node.domains.size() && i < node.run.energies.size(); ++i) {
    const std::string& id = node.domains[i].id;
    if (std::find(missing.begin(), missing.end(), id) == missing.end()) continue;
    const energy::Energy& energy = node.run.energies[i];
    std::string text = energy.cause.empty() ? "no cause was told" : energy.cause;
    if (!energy.fix.empty()) text += "\nfix: " + energy.fix;
    const auto same = std::find_if(causes.begin(), causes.end(),
                                   [&](const auto& one) { return one.first == text; });
    if (same != causes.end()) {
      same->second.push_back(id);
    } else {
      causes.push_back({std::move(text), {id}});
    }
  }
  std::string text;
  for (const auto& [cause, ids] : causes) {
    text += WrapWords(fmt::format("{}: {}: {}", NameOf(node), fmt::join(ids, ", "), cause), 2,
                      OutputColumns());
  }
  return text;
}

}  // namespace

std::string NodesTable(const std::string& own_name, const energy::Total& own,
                       const std::vector<NodeReport>& nodes, const energy_agent::RunTotal& total) {
  Table table({{"node"}, {"role"}, {"energy", true}, {"+-", true}, {"clock"}, {"state"}});
  const auto row = [&](const std::string& name, const std::string& role,
                       const energy::Total* energy, const std::string& clock, std::string state) {
    const bool known = energy != nullptr && energy->joules.has_value();
    table.AddRow({Printable(name), Printable(role), known ? FormatJoules(energy->joules) : "n/a",
                  known ? FormatJoules(energy->uncertainty_joules) : "", clock, std::move(state)});
  };
  row(own_name, "this host", &own, "", std::string(energy::StateName(own.state)));
  for (const NodeReport& node : nodes) {
    std::string clock;
    if (node.offset) {
      clock = fmt::format("{:+.2f} +- {:.2f} ms, {}", Ms(node.offset->offset_ns),
                          Ms(node.offset->bound_ns), energy::ClockStateName(node.clock));
      if (node.stop_clock && !node.stop_clock->synchronised) clock += ", unsynchronised";
    }
    std::string state(energy_agent::NodeStateName(node.state));
    // What became of it is of no interest where there are no joules; why there are none is.
    if (node.state == NodeState::kWhole && !node.run.total.joules) {
      state = energy::StateName(node.run.total.state);
    }
    if (node.joined_late) state += ", found late";
    if (node.state == NodeState::kSameHost) {
      table.AddRow({Printable(NameOf(node)), Printable(node.role), "as above", "", clock,
                    "the same host, counted once"});
      continue;
    }
    row(NameOf(node), node.role, node.state == NodeState::kWhole ? &node.run.total : nullptr, clock,
        state);
  }
  energy::Total sum;
  sum.joules = total.joules;
  sum.uncertainty_joules = total.uncertainty_joules;
  row("all nodes", "", &sum, "",
      total.complete ? std::string(energy::StateName(total.state)) : "incomplete");
  std::string text = table.Render(OutputColumns());
  for (const auto& [node, cause] : total.missing) {
    text += WrapWords(fmt::format("{}: {}", node, cause), 2, OutputColumns());
  }
  // This host's are in its own table.
  for (const NodeReport& node : nodes) {
    if (node.state == NodeState::kWhole && !node.run.total.joules) text += CausesOf(node);
  }
  return text;
}

}  // namespace emlio::tool
