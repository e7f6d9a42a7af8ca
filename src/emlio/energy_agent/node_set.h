// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "emlio/base/status.h"
#include "emlio/energy/activity.h"
#include "emlio/energy/clock_state.h"
#include "emlio/energy/monitor.h"
#include "emlio/energy/run.h"
#include "emlio/energy/tick_codec.h"
#include "emlio/energy_agent/agent.h"

namespace emlio::energy_agent {

// How a node's part of a run came out. Only kWhole and kSameHost leave the run's total whole.
enum class NodeState {
  kWhole,
  // The host of another one, or the coordinator's: its joules are counted there. Without `stopped`
  // its agent ended before the run, and there are no figures of its own.
  kSameHost,
  kLost,         // its agent did not answer any more when the run ended
  kUnreachable,  // its agent never answered, or it has none
  kRefused,      // it did, but would not measure
};
// "whole", "same_host", "lost", "unreachable", "refused".
std::string_view NodeStateName(NodeState state);

// One node of a run, other than the coordinator's own. What was not learnt is empty.
struct NodeReport {
  std::string endpoint;
  NodeState state = NodeState::kUnreachable;
  std::string cause;  // of what is not whole
  std::string node;
  std::string boot_id;
  std::string role;
  int64_t interval_ns = 0;
  bool joined_late = false;  // found while the run went on
  std::vector<energy::Domain> domains;
  std::vector<energy::Absence> absent;
  energy::WindowReport run;  // its part; without energies when there are none
  std::vector<energy::WindowReport> windows;
  energy::SamplerStats stats;
  energy::Activity proxies;
  std::vector<energy::SinkReport> sinks;     // what its sinks delivered and lost
  std::vector<std::optional<double>> watts;  // of the last second, of each domain; may be empty
  std::string facts;                         // of the machine: a JSON object, or empty
  // At start and at stop: when, in both of its clocks and on the coordinator's wall clock.
  std::optional<energy::Moment> started;
  std::optional<energy::Moment> stopped;
  std::optional<energy::ClockReading> start_clock;
  std::optional<energy::ClockReading> stop_clock;
  // Its wall clock minus the coordinator's; none: no probe was answered.
  std::optional<energy::ClockOffset> offset;
  energy::ClockState clock = energy::ClockState::kRefused;
};

struct NodeSetOptions {
  std::string run_id;
  std::string name;  // of the run's window, with its stage
  std::string stage;
  std::string boot_id;  // of the coordinator, if it measures its own host; else empty
  int64_t connect_timeout_ms = 10'000;
  int64_t silence_ms = 5'000;        // no answer for so long: the connection is lost
  int64_t stop_timeout_ms = 10'000;  // for all nodes to tell their figures
  bool ticks = false;                // the samples of nodes are wanted: TakeTicks is called
  HostClocks clocks;                 // of the coordinator
};

// Some ticks of one node.
struct NodeTicks {
  std::string endpoint;  // NodeReport::endpoint
  energy::TickBlock ticks;
  uint64_t lost = 0;  // ticks in front of them that the agent did not have any more
};

// The coordinator's view of the other nodes of a run (AGENT.md), on a thread of its own. All
// functions are thread-safe.
class NodeSet {
 public:
  static Result<std::unique_ptr<NodeSet>> Start(NodeSetOptions options);
  ~NodeSet();
  NodeSet(const NodeSet&) = delete;
  NodeSet& operator=(const NodeSet&) = delete;

  // "tcp://host:port" or "host:port"; one that is there already changes nothing. Returns at once.
  void Add(std::string_view endpoint);
  // A host of the run that nobody measures, by the endpoint of the daemon that sends data from it:
  // the total is not whole without it. `boot_id`: which host, if known; it is no node of its own
  // when somebody measures that one.
  void AddUnmeasured(std::string_view endpoint, std::string_view boot_id);
  // The barrier: the run begins now, on all nodes added by then. Waits until each has started or
  // cannot: connect_timeout_ms at most. The reports tell which could not.
  std::vector<NodeReport> Begin();
  // Ends the run on all nodes and collects their figures.
  std::vector<NodeReport> End();
  // As it is now: for a live view. The figures are those of the last second or so.
  std::vector<NodeReport> Snapshot() const;
  // The ticks that came in since the last call, of nodes that are hosts of their own. As many as
  // may wait come in; the rest stays with the agents, which keep ten minutes. After End: the rest
  // up to the end of the run, if the nodes could tell it in time.
  std::vector<NodeTicks> TakeTicks();

 private:
  class Impl;
  explicit NodeSet(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The sum over the nodes of a run: no joules unless all nodes have theirs.
struct RunTotal {
  bool complete = false;
  std::optional<double> joules;
  double uncertainty_joules = 0;
  energy::State state = energy::State::kUnavailable;
  std::vector<std::string> nodes;                            // summed
  std::vector<std::pair<std::string, std::string>> missing;  // which node, and why
};
// `own`: what the coordinator's host used; null: it is no node of the run.
RunTotal TotalOf(const std::string& own_name, const energy::Total* own,
                 const std::vector<NodeReport>& nodes);

// How far apart the nodes passed a barrier, on the coordinator's clock; none: fewer than two nodes
// did. `own`: when the coordinator itself did.
std::optional<int64_t> SpreadNs(const std::optional<energy::Moment>& own,
                                const std::vector<NodeReport>& nodes, bool stop);

}  // namespace emlio::energy_agent
