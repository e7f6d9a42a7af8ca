// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "emlio/energy/domain.h"
#include "emlio/energy/meter.h"
#include "emlio/energy/recorder.h"
#include "emlio/energy/sampler.h"
#include "emlio/energy/tick_schedule.h"

// What a store keeps of a measurement (METRICS.md section 9). Plain data; the fields that are not
// explained here are explained where their types are.
namespace emlio::energy {

// One measurement: a job from its start to its end, on one or more nodes.
struct Run {
  std::string id;  // unique wherever runs are brought together; see MakeRunId
  int64_t started_wall_ns = 0;
  std::optional<int64_t> ended_wall_ns;  // none: it is going on, or was killed
  std::optional<int> exit_status;        // of the command
  std::vector<std::string> command;
  std::string configuration = "{}";           // a JSON object
  std::map<std::string, std::string> labels;  // "purpose": "baseline", "stage": "R+P", ...
};

// "20261130T131502Z-4f0c9a3be1d27a60": when it was made, and 64 random bits.
std::string MakeRunId(int64_t wall_ns);

// What adjtimex said at one moment.
struct ClockReading {
  Moment at;
  int64_t offset_ns = 0;
  int64_t esterror_ns = 0;
  int64_t maxerror_ns = 0;
  bool synchronised = false;

  friend bool operator==(const ClockReading&, const ClockReading&) = default;
};

// How two nodes' wall clocks differ: this node's minus the peer's is offset_ns, give or take
// bound_ns (half a round trip).
struct ClockOffset {
  std::string peer;  // the name of a node of the same run
  Moment at;         // of this node
  int64_t offset_ns = 0;
  int64_t bound_ns = 0;

  friend bool operator==(const ClockOffset&, const ClockOffset&) = default;
};

// One node of a run, as one sampler sees it: a host whose sampler began anew has several, for sums
// began anew too. What changes while it runs is written again by RunStore::UpdateNode.
struct NodeInfo {
  std::string name;          // the host's
  std::string role;          // "storage", "compute", or whatever the run calls it
  std::string boot_id;       // tells two boots of one host apart
  std::string facts = "{}";  // of the machine: a JSON object
  int64_t interval_ns = 0;   // between ticks
  std::vector<Domain> domains;
  std::vector<Absence> absent;

  // These change.
  SamplerStats sampler;
  std::vector<ClockReading> clock;
  std::vector<ClockOffset> offsets;
  std::optional<Moment> start_barrier;  // when this node passed it
  std::optional<Moment> stop_barrier;
};

// All domains of one node at one tick.
struct Tick {
  int64_t monotonic_ns = 0;
  int64_t wall_ns = 0;
  std::span<const Sample> samples;  // in the order of NodeInfo::domains
};

// What was counted beside energy. Never joules; none: not counted.
struct Proxies {
  std::optional<double> cpu_seconds;
  std::optional<double> gpu_seconds;
  std::optional<int64_t> bytes_read;       // from storage
  std::optional<int64_t> bytes_sent;       // to other nodes
  std::optional<int64_t> bytes_delivered;  // to user code
  std::optional<int64_t> records_delivered;

  friend bool operator==(const Proxies&, const Proxies&) = default;
};

// One window as one node measured it.
struct WindowRecord {
  std::string id;  // unique in the run; a window of several nodes has the same one on each
  std::string name;
  std::string stage;  // "R", "R+P", ...; may be empty
  std::optional<int64_t> epoch;
  std::optional<int64_t> rank;
  int64_t begin_ns = 0;  // of this node's monotonic clock
  int64_t end_ns = 0;
  int64_t begin_wall_ns = 0;  // a label
  bool allow_gaps = false;
  std::vector<Energy> energies;  // in the order of NodeInfo::domains; may be empty
  Total total;
  Proxies proxies;
  std::map<std::string, std::string> labels;
};

// Something that a reader of the run has to know: a node that was lost, a clock that was set, ...
struct Note {
  int64_t wall_ns = 0;
  std::string node;  // a name; empty: the whole run
  std::string kind;  // one word: "node_lost", "clock_step", "store", ...
  std::string text;

  friend bool operator==(const Note&, const Note&) = default;
};

// What one sink did for one node (METRICS.md section 10).
struct SinkReport {
  std::string sink;    // "influx", "prometheus"
  std::string target;  // an address without secrets
  int64_t points_sent = 0;
  int64_t points_refused = 0;  // by the database, for good
  int64_t points_dropped = 0;  // for want of room in the spool
  int64_t retries = 0;
  std::string last_error;

  friend bool operator==(const SinkReport&, const SinkReport&) = default;
};

}  // namespace emlio::energy
