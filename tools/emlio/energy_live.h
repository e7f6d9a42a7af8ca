// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "emlio/energy/monitor.h"
#include "emlio/energy_agent/node_set.h"

namespace emlio::tool {

// The mean power of one node in the last second.
struct NodeWatts {
  std::string node;
  std::vector<std::pair<std::string, std::optional<double>>> domains;  // of those in the total
  std::optional<double> total;
  std::string cause;  // why nothing is known
};
NodeWatts WattsOf(const std::string& node, const std::vector<energy::Domain>& domains,
                  const std::vector<std::optional<double>>& watts);
// One line, at most `width` columns (0: any): "n1: total 61.2 W  package-0 51.2 W  dram-0 10.0 W".
std::string RenderWatts(const NodeWatts& watts, int width);
// The nodes of a run, each host once. `own_boot_id`: of the host whose watts come first.
std::vector<NodeWatts> WattsOfNodes(NodeWatts own, const std::string& own_boot_id,
                                    const std::vector<energy_agent::NodeReport>& others);

// The watts of the last second on standard error, a line a node: at a terminal lines that are
// redrawn, as many as fit, else some every ten seconds. Does nothing unless `shown`.
class LiveView {
 public:
  // `nodes`: the others of the run; null: there are none.
  LiveView(energy::Monitor& monitor, std::string boot_id, const energy_agent::NodeSet* nodes,
           bool shown);
  ~LiveView();
  LiveView(const LiveView&) = delete;
  LiveView& operator=(const LiveView&) = delete;

  void Update();

 private:
  energy::Monitor& monitor_;
  const std::string boot_id_;
  const energy_agent::NodeSet* const nodes_;
  const bool shown_;
  const bool at_terminal_;
  size_t drawn_lines_ = 0;
  int64_t next_ns_ = 0;
};

}  // namespace emlio::tool
