// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emlio/base/status.h"
#include "emlio/energy/run_store.h"
#include "emlio/energy_analysis/figure.h"
#include "emlio/energy_analysis/power_trace.h"

// What one run of a store comes to: read once, in memory that does not grow with its ticks.
namespace emlio::energy_analysis {

struct DomainFigures {
  std::string id = {};
  std::string kind = {};
  std::string source = {};
  std::string device = {};
  Figure figure = {};
  double void_seconds = 0;
  bool in_total = false;
  std::string outside_total = {};
  bool unchecked = false;  // memory of which nobody has looked whether it rises under load
};

struct NodeFigures {
  std::string name = {};
  std::string role = {};
  std::string boot_id = {};
  double seconds = 0;
  Figure total = {};
  std::vector<std::string> without = {};  // what nothing on this host counts
  std::vector<DomainFigures> domains = {};
  std::vector<std::pair<std::string, std::string>> absent =
      {};  // sources that are not used, and why
  int64_t interval_ns = 0;
  int64_t update_period_ns = 0;  // the longest of its counters', measured or known
  energy::SamplerStats sampler = {};
  int64_t ticks_dropped = 0;  // by the store
  // How far its clock may be from the others'; none: nothing is known.
  std::optional<int64_t> clock_bound_ns = {};
  std::optional<bool> clock_synchronised = {};    // as its kernel says; none: it was not asked
  std::map<std::string, std::string> facts = {};  // "system.cpu", ...
};

// All windows of one name and stage.
struct WindowFigures {
  std::string name = {};
  std::string stage = {};
  size_t windows = 0;
  size_t nodes = 0;    // that have such windows
  double seconds = 0;  // of the node that measured longest
  Figure energy = {};  // of these nodes together
  energy::Proxies proxies = {};
};

// The windows of one epoch on one node: those of one name, stage and rank, summed. Their energy is
// that of the whole node meanwhile.
struct EpochFigures {
  int64_t epoch = 0;
  std::optional<int64_t> rank = {};
  std::string node = {};
  std::string name = {};
  std::string stage = {};
  size_t windows = 0;
  double seconds = 0;
  Figure energy = {};
  struct Domain {
    std::string id = {};
    std::string kind = {};
    bool in_total = false;
    Figure figure = {};
  };
  std::vector<Domain> domains = {};
};

// A stretch of time to be shaded behind power.
struct Span {
  std::string name = {};
  double begin_seconds = 0;
  double end_seconds = 0;
  std::optional<int64_t> epoch = {};
};

// Power over time, a series for each kind of domain in the total, all nodes together.
struct RunTrace {
  double seconds = 0;
  std::map<std::string, PowerTrace> by_kind = {};
  std::vector<Span> spans = {};
  std::vector<std::string> silent_nodes = {};  // of which the store has no samples
  size_t spans_left_out = 0;
};

inline constexpr size_t kMaxEpochRows = 2000;
inline constexpr char kWholeRun[] = "run";  // the id of the window that is a node's part of the run

struct RunFigures {
  std::string id = {};
  int64_t started_wall_ns = 0;
  std::vector<std::string> command = {};
  std::map<std::string, std::string> labels = {};
  std::string failure = {};  // why it does not count; empty: it does
  double seconds = 0;
  Figure total = {};  // of all nodes; n/a when one is missing
  std::vector<NodeFigures> nodes = {};
  std::vector<WindowFigures> windows = {};
  std::vector<EpochFigures> epochs = {};  // in order; the first kMaxEpochRows of them
  size_t epochs_left_out = 0;
  std::vector<energy::Note> notes = {};
  std::map<std::string, std::string> facts = {};  // "work.dataset", ...: of its configuration

  // A number above 0 among the facts (numbers.h, AmountOf), or none.
  std::optional<double> Number(std::string_view fact) const;
};

// `trace`: filled when it is not null, with parts of a sampling interval or longer; without it,
// ticks are not read.
Result<RunFigures> LoadRun(energy::RunReader* reader, const energy::Run& run,
                           RunTrace* trace = nullptr, size_t max_trace_parts = 600);

// Mean power over equal parts of a run's time, its whole total: what baselines and meters compare.
// `domains`: mean watts of each domain in the total, named "node/domain".
struct RunPower {
  int64_t begin_wall_ns = 0;
  double part_seconds = 0;
  std::vector<double> watts = {};
  std::map<std::string, double> domains = {};
};
Result<RunPower> LoadPower(energy::RunReader* reader, const energy::Run& run, double part_seconds);

// A JSON object as facts: {"work": {"samples": 5}} is "work.samples" = "5". kInvalidArgument.
Result<std::map<std::string, std::string>> FactsOf(std::string_view json);

}  // namespace emlio::energy_analysis
