// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emlio/base/mutex.h"
#include "emlio/base/status.h"
#include "emlio/base/thread.h"
#include "emlio/energy/monitor.h"
#include "emlio/energy/run.h"
#include "emlio/energy/run_store.h"
#include "emlio/energy_agent/node_set.h"

namespace emlio::tool {

// The window that is the run as a whole, on each of its nodes.
inline constexpr char kRunWindow[] = "run";

energy::Proxies ProxiesOf(const energy::Activity& activity);
// `key`: unique in the run. `wall_offset_ns`: from the node's monotonic clock to its wall clock.
energy::WindowRecord RecordOf(const energy::WindowReport& window, std::string key,
                              int64_t wall_offset_ns);

// Writes the other nodes of a run into its store: their ticks as they come, on a thread of its own,
// since the store may wait for the disk; their windows and figures at the end.
class NodeWriter {
 public:
  // The node that the coordinator is.
  struct OwnNode {
    int64_t id = 0;
    energy::NodeInfo info;
    int64_t wall_offset_ns = 0;
  };
  // REQUIRES: `store` outlives it, and has the run and the coordinator's node.
  static Result<std::unique_ptr<NodeWriter>> Start(energy::RunStore* store, std::string run_id,
                                                   OwnNode own,
                                                   std::shared_ptr<energy_agent::NodeSet> nodes);
  ~NodeWriter();
  NodeWriter(const NodeWriter&) = delete;
  NodeWriter& operator=(const NodeWriter&) = delete;

  // Once: what NodeSet::End returned.
  Status End(const std::vector<energy_agent::NodeReport>& others, int64_t ended_wall_ns);

 private:
  // A node that is in the store already.
  struct Stored {
    int64_t id = 0;
    energy::NodeInfo info;
    int64_t last_tick_ns = 0;
    uint64_t ticks_lost = 0;
  };

  NodeWriter(energy::RunStore* store, std::string run_id, OwnNode own,
             std::shared_ptr<energy_agent::NodeSet> nodes);
  void Run() EMLIO_EXCLUDES(mu_);
  void Stop() EMLIO_EXCLUDES(mu_);
  Status TakeTicks();
  energy::NodeInfo InfoOf(const energy_agent::NodeReport& report) const;
  Status EndNode(const energy_agent::NodeReport& report, int64_t ended_wall_ns);
  Status AddNote(const energy_agent::NodeReport& report, int64_t wall_ns, std::string_view kind,
                 std::string text);

  energy::RunStore* const store_;
  const std::string run_id_;
  const OwnNode own_;
  const std::shared_ptr<energy_agent::NodeSet> nodes_;

  std::map<std::string, Stored> stored_;  // by host; the thread's until it has ended
  std::string last_error_;                // of the thread

  Mutex mu_;
  CondVar work_;
  bool stop_ EMLIO_GUARDED_BY(mu_) = false;
  Thread thread_;
};

}  // namespace emlio::tool
