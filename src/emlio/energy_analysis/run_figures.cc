// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_analysis/run_figures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "emlio/base/clock.h"
#include "emlio/base/nanoseconds.h"
#include "emlio/energy/history.h"
#include "emlio/energy_analysis/numbers.h"

namespace emlio::energy_analysis {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxSpans = 200;
constexpr int kMaxJsonDepth = 8;

bool IsUnchecked(const energy::Domain& domain) {
  const std::pair<std::string, std::string> unchecked = {"memory_load", "not checked"};
  return std::find(domain.facts.begin(), domain.facts.end(), unchecked) != domain.facts.end();
}

// What of a node belongs to the run, on its monotonic clock.
struct Stretch {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
};
// The windows that are a run as a whole, of each node that has one.
using WholeRuns = std::map<int64_t, energy::WindowRecord>;

Stretch StretchOf(const energy::StoredNode& node, const WholeRuns& whole) {
  if (const auto it = whole.find(node.id); it != whole.end()) {
    return {it->second.begin_ns, it->second.end_ns};
  }
  Stretch stretch{node.first_tick_ns, node.last_tick_ns};
  if (node.info.start_barrier) stretch.begin_ns = node.info.start_barrier->monotonic_ns;
  if (node.info.stop_barrier) stretch.end_ns = node.info.stop_barrier->monotonic_ns;
  return stretch;
}

Figure FigureOf(const energy::Energy& energy) {
  return {.joules = energy.joules,
          .label = LabelOf(energy.state),
          .uncertainty_joules = energy.uncertainty_joules,
          .cause = energy.cause,
          .fix = energy.fix};
}

Figure FigureOf(const energy::Total& total, const std::vector<DomainFigures>& domains) {
  Figure figure{.joules = total.joules,
                .label = total.joules ? LabelOf(total.state) : Label::kNone,
                .uncertainty_joules = total.uncertainty_joules};
  if (figure.joules) return figure;
  if (total.missing.empty()) {
    figure.cause = "no counter of the CPU";
    return figure;
  }
  figure.cause = fmt::format("{} n/a", fmt::join(total.missing, ", "));
  for (const DomainFigures& domain : domains) {
    if (domain.id != total.missing.front()) continue;
    figure.cause += fmt::format(": {}", domain.figure.cause);
    figure.fix = domain.figure.fix;
  }
  return figure;
}

std::optional<int64_t> ClockBound(const energy::NodeInfo& info) {
  std::optional<int64_t> bound;
  for (const energy::ClockOffset& offset : info.offsets) {
    const int64_t apart_ns = std::abs(offset.offset_ns) + offset.bound_ns;
    bound = std::max(bound.value_or(0), apart_ns);
  }
  return bound;
}

void Flatten(const Json& value, const std::string& prefix,
             std::map<std::string, std::string>* facts) {
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items()) {
      Flatten(inner, prefix.empty() ? key : prefix + "." + key, facts);
    }
  } else if (value.is_string()) {
    (*facts)[prefix] = value.get<std::string>();
  } else if (!value.is_null()) {
    (*facts)[prefix] = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
}

Result<NodeFigures> LoadNode(energy::RunReader* reader, const energy::StoredNode& node,
                             const WholeRuns& whole) {
  const energy::NodeInfo& info = node.info;
  NodeFigures figures;
  figures.name = info.name;
  figures.role = info.role;
  figures.boot_id = info.boot_id;
  figures.interval_ns = info.interval_ns;
  figures.sampler = info.sampler;
  figures.ticks_dropped = node.ticks_dropped;
  figures.clock_bound_ns = ClockBound(info);
  if (!info.clock.empty()) {
    figures.clock_synchronised =
        std::all_of(info.clock.begin(), info.clock.end(),
                    [](const energy::ClockReading& reading) { return reading.synchronised; });
  }
  for (const energy::Absence& absence : info.absent) {
    figures.absent.emplace_back(absence.source, absence.cause);
  }
  if (auto facts = FactsOf(info.facts); facts.ok()) {
    for (auto& [key, value] : *facts) {
      figures.facts[key.starts_with("system.") ? key : "system." + key] = std::move(value);
    }
  }
  const Stretch stretch = StretchOf(node, whole);
  figures.seconds = std::max(0.0, Seconds(stretch.end_ns - stretch.begin_ns));
  std::vector<energy::Energy> energies;
  // Other hosts were asked for the energies of the run: they know of their counters what was later.
  if (const auto it = whole.find(node.id); it != whole.end() && !it->second.energies.empty()) {
    energies = it->second.energies;
  } else if (node.ticks == 0) {
    energies.resize(info.domains.size());
    for (energy::Energy& energy : energies) energy.cause = "the store has no samples of it";
  } else {
    EMLIO_ASSIGN_OR_RETURN(energies, reader->EnergyBetween(node, stretch.begin_ns, stretch.end_ns));
  }
  energies.resize(info.domains.size());
  for (size_t i = 0; i < info.domains.size() && i < energies.size(); ++i) {
    const energy::Domain& domain = info.domains[i];
    if (domain.in_total && !domain.source.empty()) {
      const int64_t period_ns =
          domain.update_period_ns > 0 ? domain.update_period_ns : domain.refresh_ns;
      figures.update_period_ns = std::max(figures.update_period_ns, period_ns);
    }
    figures.domains.push_back({.id = domain.id,
                               .kind = std::string(KindName(domain.kind)),
                               .source = domain.source,
                               .device = domain.device,
                               .figure = FigureOf(energies[i]),
                               .void_seconds = Seconds(energies[i].void_ns),
                               .in_total = domain.in_total,
                               .outside_total = domain.outside_total,
                               .unchecked = IsUnchecked(domain)});
  }
  const energy::Total total = energy::TotalOf(info.domains, energies);
  figures.total = FigureOf(total, figures.domains);
  figures.without = total.without;
  return figures;
}

void AddTo(std::optional<double>* sum, const std::optional<double>& value) {
  if (value) *sum = sum->value_or(0) + *value;
}
void AddTo(std::optional<int64_t>* sum, const std::optional<int64_t>& value) {
  if (value) *sum = sum->value_or(0) + *value;
}
void AddTo(energy::Proxies* sum, const energy::Proxies& proxies) {
  AddTo(&sum->gpu_seconds, proxies.gpu_seconds);
  AddTo(&sum->bytes_read, proxies.bytes_read);
  AddTo(&sum->bytes_sent, proxies.bytes_sent);
  AddTo(&sum->bytes_delivered, proxies.bytes_delivered);
  AddTo(&sum->records_delivered, proxies.records_delivered);
}

// Wall-clock time minus monotonic time where the node's part of the run begins; the wall clock is
// that of the run's coordinator, as far as the difference to it is known.
Result<int64_t> WallOffset(energy::RunReader* reader, const energy::StoredNode& node) {
  const int64_t ahead_ns = node.info.offsets.empty() ? 0 : node.info.offsets.front().offset_ns;
  if (node.info.start_barrier) {
    return node.info.start_barrier->wall_ns - node.info.start_barrier->monotonic_ns - ahead_ns;
  }
  int64_t offset_ns = 0;
  EMLIO_RETURN_IF_ERROR(reader->ForEachTick(node.id, node.first_tick_ns, node.first_tick_ns,
                                            [&](const energy::Tick& tick) {
                                              offset_ns = tick.wall_ns - tick.monotonic_ns;
                                              return OkStatus();
                                            }));
  return offset_ns - ahead_ns;
}

// Where all nodes' parts of a run lie on the wall clock.
struct Timeline {
  int64_t begin_wall_ns = 0;
  int64_t end_wall_ns = 0;
  std::map<int64_t, int64_t> offsets;  // by node
};
Result<Timeline> TimelineOf(energy::RunReader* reader, const std::vector<energy::StoredNode>& nodes,
                            const WholeRuns& whole) {
  Timeline timeline;
  bool first = true;
  for (const energy::StoredNode& node : nodes) {
    if (node.ticks == 0) continue;
    EMLIO_ASSIGN_OR_RETURN(const int64_t offset_ns, WallOffset(reader, node));
    timeline.offsets[node.id] = offset_ns;
    const Stretch stretch = StretchOf(node, whole);
    const int64_t begin_ns = stretch.begin_ns + offset_ns;
    const int64_t end_ns = stretch.end_ns + offset_ns;
    timeline.begin_wall_ns = first ? begin_ns : std::min(timeline.begin_wall_ns, begin_ns);
    timeline.end_wall_ns = first ? end_ns : std::max(timeline.end_wall_ns, end_ns);
    first = false;
  }
  return timeline;
}

Status AddTraces(energy::RunReader* reader, const energy::StoredNode& node, int64_t offset_ns,
                 const Timeline& timeline, size_t parts,
                 std::map<std::string, PowerTrace>* traces) {
  const auto& domains = node.info.domains;
  std::vector<PowerTrace::Cursor> cursors(domains.size());
  std::vector<PowerTrace*> to(domains.size(), nullptr);
  for (size_t i = 0; i < domains.size(); ++i) {
    if (!domains[i].in_total || domains[i].source.empty()) continue;
    const std::string kind(KindName(domains[i].kind));
    to[i] = &traces
                 ->try_emplace(kind, timeline.begin_wall_ns,
                               std::max(timeline.end_wall_ns, timeline.begin_wall_ns + 1), parts)
                 .first->second;
    to[i]->AddSource();
  }
  return reader->ForEachTick(node.id, node.first_tick_ns, node.last_tick_ns,
                             [&](const energy::Tick& tick) {
                               for (size_t i = 0; i < to.size(); ++i) {
                                 if (to[i] != nullptr) {
                                   to[i]->Add(&cursors[i], tick.samples[i], offset_ns);
                                 }
                               }
                               return OkStatus();
                             });
}

// Why a window has no total.
Figure WhyOf(const energy::WindowRecord& window) {
  for (const energy::Energy& energy : window.energies) {
    if (!energy.joules && !energy.cause.empty()) {
      return {.cause = energy.cause, .fix = energy.fix};
    }
  }
  return {.cause = fmt::format("{} n/a", fmt::join(window.total.missing, ", "))};
}

// Windows by name and stage, with the joules of all nodes.
class WindowSums {
 public:
  Status Add(int64_t node, const energy::WindowRecord& window, const Timeline& timeline,
             RunTrace* trace) {
    // Each node may call the whole run something else.
    const bool whole = window.id == kWholeRun;
    const std::string name = whole ? kWholeRun : window.name;
    const std::string stage = whole ? "" : window.stage;
    Sum& sum = sums_[{stage, name}];
    const bool is_new = sum.ids.insert(std::hash<std::string>{}(window.id)).second;
    sum.figures.name = name;
    sum.figures.stage = stage;
    if (is_new) ++sum.figures.windows;
    const double seconds = Seconds(window.end_ns - window.begin_ns);
    sum.seconds[node] += seconds;
    AddTo(&sum.figures.proxies, window.proxies);
    // Hosts have no GPU, or deliver nothing; CPUs they have: of one it may only be not known.
    AddTo(&sum.figures.proxies.cpu_seconds, window.proxies.cpu_seconds);
    sum.cpu_unknown |= !window.proxies.cpu_seconds;
    if (!window.total.joules) {
      sum.missing = true;
      if (sum.why.cause.empty()) sum.why = WhyOf(window);
    } else {
      sum.joules += *window.total.joules;
      sum.uncertainty_joules += window.total.uncertainty_joules;
      sum.label = std::max(sum.label, LabelOf(window.total.state));
    }
    // The run itself is all of the plot.
    if (trace != nullptr && is_new && !whole) AddSpan(node, window, timeline, trace);
    return OkStatus();
  }

  std::vector<WindowFigures> Finish() {
    std::vector<WindowFigures> all;
    for (auto& [key, sum] : sums_) {
      sum.figures.nodes = sum.seconds.size();
      for (const auto& [node, seconds] : sum.seconds) {
        sum.figures.seconds = std::max(sum.figures.seconds, seconds);
      }
      if (sum.cpu_unknown) sum.figures.proxies.cpu_seconds.reset();
      if (sum.missing) {
        sum.figures.energy = sum.why;
      } else {
        sum.figures.energy = {
            .joules = sum.joules, .label = sum.label, .uncertainty_joules = sum.uncertainty_joules};
      }
      all.push_back(std::move(sum.figures));
    }
    return all;
  }

 private:
  struct Sum {
    WindowFigures figures;
    std::map<int64_t, double> seconds;
    std::set<size_t> ids;  // hashes: a window of several nodes counts once
    double joules = 0;
    double uncertainty_joules = 0;
    Label label = Label::kMeasured;
    bool missing = false;
    bool cpu_unknown = false;  // of one of them
    Figure why;                // there are none
  };

  static void AddSpan(int64_t node, const energy::WindowRecord& window, const Timeline& timeline,
                      RunTrace* trace) {
    const auto offset = timeline.offsets.find(node);
    if (offset == timeline.offsets.end()) return;
    if (trace->spans.size() >= kMaxSpans) {
      ++trace->spans_left_out;
      return;
    }
    const auto seconds = [&](int64_t ns) {
      return Seconds(ns + offset->second - timeline.begin_wall_ns);
    };
    trace->spans.push_back({.name = window.stage.empty() ? window.name : window.stage,
                            .begin_seconds = seconds(window.begin_ns),
                            .end_seconds = seconds(window.end_ns),
                            .epoch = window.epoch});
  }

  std::map<std::pair<std::string, std::string>, Sum> sums_;
};

// Hosts that call themselves the same, as containers and clones of virtual machines do, are told
// apart by their roles, and where that is not enough by numbers.
void NameApart(std::vector<energy::StoredNode>* nodes) {
  std::set<std::string> taken;
  for (energy::StoredNode& node : *nodes) {
    const std::string plain = node.info.name;
    if (taken.insert(plain).second) continue;
    const std::string& role = node.info.role;
    std::string name = role.empty() ? plain : fmt::format("{} ({})", plain, role);
    for (int i = 2; !taken.insert(name).second; ++i) {
      name = role.empty() ? fmt::format("{} ({})", plain, i)
                          : fmt::format("{} ({} {})", plain, role, i);
    }
    node.info.name = std::move(name);
  }
}

// Adds a window's joules to those of the windows before it; what is missing in one is in no sum.
void AddEnergy(const Figure& more, bool is_first, Figure* sum) {
  if (is_first) {
    *sum = more;
    return;
  }
  const Figure both[] = {*sum, more};
  const double uncertainty_joules = sum->uncertainty_joules + more.uncertainty_joules;
  *sum = SumOf(both);
  if (sum->joules) sum->uncertainty_joules = uncertainty_joules;
}

// The windows that have an epoch, each node's for itself.
class EpochSums {
 public:
  explicit EpochSums(const std::vector<energy::StoredNode>& nodes) {
    for (const energy::StoredNode& node : nodes) nodes_[node.id] = &node.info;
  }

  void Add(int64_t node, const energy::WindowRecord& window) {
    const auto info = nodes_.find(node);
    if (!window.epoch || info == nodes_.end()) return;
    const Key key{*window.epoch, window.name, window.stage, window.rank, node};
    if (rows_.size() >= kMaxEpochRows && rows_.count(key) == 0) {
      ++left_out_;
      return;
    }
    EpochFigures& row = rows_[key];
    const bool is_first = row.windows++ == 0;
    const auto& domains = info->second->domains;
    if (is_first) {
      row.epoch = *window.epoch;
      row.rank = window.rank;
      row.node = info->second->name;
      row.name = window.name;
      row.stage = window.stage;
      for (const energy::Domain& domain : domains) {
        row.domains.push_back({.id = domain.id,
                               .kind = std::string(KindName(domain.kind)),
                               .in_total = domain.in_total,
                               .figure = {}});
      }
    }
    row.seconds += Seconds(window.end_ns - window.begin_ns);
    const Figure total = window.total.joules
                             ? Figure{.joules = window.total.joules,
                                      .label = LabelOf(window.total.state),
                                      .uncertainty_joules = window.total.uncertainty_joules}
                             : WhyOf(window);
    AddEnergy(total, is_first, &row.energy);
    for (size_t i = 0; i < row.domains.size(); ++i) {
      const Figure figure = i < window.energies.size()
                                ? FigureOf(window.energies[i])
                                : Figure{.cause = "the store has only the total of this window"};
      AddEnergy(figure, is_first, &row.domains[i].figure);
    }
  }

  // Moves what was added.
  void Finish(RunFigures* run) {
    for (auto& [key, row] : rows_) run->epochs.push_back(std::move(row));
    run->epochs_left_out = left_out_;
  }

 private:
  using Key = std::tuple<int64_t, std::string, std::string, std::optional<int64_t>, int64_t>;

  std::map<int64_t, const energy::NodeInfo*> nodes_;
  std::map<Key, EpochFigures> rows_;
  size_t left_out_ = 0;
};

Result<WholeRuns> WholeRunsOf(energy::RunReader* reader, const std::string& run_id) {
  WholeRuns whole;
  EMLIO_RETURN_IF_ERROR(
      reader->ForEachWindow(run_id, [&](int64_t node, const energy::WindowRecord& window) {
        if (window.id == kWholeRun) whole[node] = window;
        return OkStatus();
      }));
  return whole;
}

std::string FailureOf(const energy::Run& run, const RunFigures& figures) {
  if (!run.ended_wall_ns) return "it did not end: it is going on, or was killed";
  if (run.exit_status.value_or(0) != 0) {
    return fmt::format("exit status {}", *run.exit_status);
  }
  if (figures.nodes.empty()) return "no node";
  return "";
}

}  // namespace

std::optional<double> RunFigures::Number(std::string_view fact) const {
  const auto it = facts.find(std::string(fact));
  if (it == facts.end()) return std::nullopt;
  const auto amount = AmountOf(it->second);
  if (!amount || !amount->rest.empty()) return std::nullopt;
  return amount->value;
}

Result<std::map<std::string, std::string>> FactsOf(std::string_view json) {
  const Json::parser_callback_t shallow = [](int depth, Json::parse_event_t, Json&) {
    return depth <= kMaxJsonDepth;
  };
  const Json value = Json::parse(json, shallow, /*allow_exceptions=*/false);
  if (!value.is_object()) return InvalidArgument("facts are one JSON object");
  std::map<std::string, std::string> facts;
  Flatten(value, "", &facts);
  return facts;
}

Result<RunFigures> LoadRun(energy::RunReader* reader, const energy::Run& run, RunTrace* trace,
                           size_t max_trace_parts) {
  RunFigures figures;
  figures.id = run.id;
  figures.started_wall_ns = run.started_wall_ns;
  figures.command = run.command;
  figures.labels = run.labels;
  if (auto facts = FactsOf(run.configuration); facts.ok()) figures.facts = *std::move(facts);
  EMLIO_ASSIGN_OR_RETURN(figures.notes, reader->Notes(run.id));
  EMLIO_ASSIGN_OR_RETURN(auto nodes, reader->Nodes(run.id));
  NameApart(&nodes);
  EMLIO_ASSIGN_OR_RETURN(const WholeRuns whole, WholeRunsOf(reader, run.id));
  std::vector<Figure> totals;
  std::set<std::string> references;  // whose clocks the others' were compared with
  for (const energy::StoredNode& node : nodes) {
    for (const energy::ClockOffset& offset : node.info.offsets) references.insert(offset.peer);
    EMLIO_ASSIGN_OR_RETURN(NodeFigures one, LoadNode(reader, node, whole));
    figures.seconds = std::max(figures.seconds, one.seconds);
    totals.push_back(one.total);
    if (!one.total.joules) totals.back().cause = fmt::format("{}: {}", one.name, one.total.cause);
    figures.nodes.push_back(std::move(one));
  }
  for (NodeFigures& node : figures.nodes) {
    if (!node.clock_bound_ns && references.count(node.name) > 0) node.clock_bound_ns = 0;
  }
  // A node that was lost makes the total incomplete, never smaller.
  for (const energy::Note& note : figures.notes) {
    if (note.kind != "node_lost" && note.kind != "node_unreachable" &&
        note.kind != "node_refused") {
      continue;
    }
    std::string state = note.kind.substr(std::string_view("node_").size());
    totals.push_back({.cause = fmt::format("node {} is {}: {}", note.node, state, note.text)});
  }
  figures.total = SumOf(totals);
  figures.failure = FailureOf(run, figures);

  EMLIO_ASSIGN_OR_RETURN(const Timeline timeline, TimelineOf(reader, nodes, whole));
  if (trace != nullptr && max_trace_parts > 0) {
    const int64_t span_ns = timeline.end_wall_ns - timeline.begin_wall_ns;
    trace->seconds = Seconds(span_ns);
    // Between two samples nothing is known of the power: parts that are shorter would show as its
    // changes how a counter's steps fall between them.
    int64_t interval_ns = 1;
    for (const energy::StoredNode& node : nodes) {
      interval_ns = std::max(interval_ns, node.info.interval_ns);
    }
    const size_t parts =
        std::min(max_trace_parts, static_cast<size_t>(std::max<int64_t>(span_ns / interval_ns, 1)));
    for (const energy::StoredNode& node : nodes) {
      const auto offset = timeline.offsets.find(node.id);
      if (offset == timeline.offsets.end()) {
        trace->silent_nodes.push_back(node.info.name);
        continue;
      }
      EMLIO_RETURN_IF_ERROR(
          AddTraces(reader, node, offset->second, timeline, parts, &trace->by_kind));
    }
  }
  WindowSums sums;
  EpochSums epochs(nodes);
  EMLIO_RETURN_IF_ERROR(
      reader->ForEachWindow(run.id, [&](int64_t node, const energy::WindowRecord& window) {
        epochs.Add(node, window);
        return sums.Add(node, window, timeline, trace);
      }));
  figures.windows = sums.Finish();
  epochs.Finish(&figures);
  return figures;
}

Result<RunPower> LoadPower(energy::RunReader* reader, const energy::Run& run, double part_seconds) {
  EMLIO_ASSIGN_OR_RETURN(const RunFigures figures, LoadRun(reader, run));
  if (!figures.failure.empty()) {
    return InvalidArgument(fmt::format("run {}: {}", run.id, figures.failure));
  }
  if (!figures.total.joules) {
    return InvalidArgument(
        fmt::format("run {}: its total is n/a: {}", run.id, figures.total.cause));
  }
  EMLIO_ASSIGN_OR_RETURN(const auto nodes, reader->Nodes(run.id));
  EMLIO_ASSIGN_OR_RETURN(const WholeRuns whole, WholeRunsOf(reader, run.id));
  EMLIO_ASSIGN_OR_RETURN(Timeline timeline, TimelineOf(reader, nodes, whole));
  const double seconds = Seconds(timeline.end_wall_ns - timeline.begin_wall_ns);
  const auto parts = part_seconds > 0 ? static_cast<size_t>(seconds / part_seconds) : 0;
  if (parts == 0) {
    return InvalidArgument(
        fmt::format("run {}: {:.1f} s are shorter than {:g} s", run.id, seconds, part_seconds));
  }
  RunPower power{.begin_wall_ns = timeline.begin_wall_ns,
                 .part_seconds = part_seconds,
                 .watts = std::vector<double>(parts),
                 .domains = {}};
  // Whole parts only.
  timeline.end_wall_ns = timeline.begin_wall_ns +
                         static_cast<int64_t>(part_seconds * 1e9 * static_cast<double>(parts));
  std::map<std::string, PowerTrace> traces;
  for (const energy::StoredNode& node : nodes) {
    if (node.ticks == 0) {
      return InvalidArgument(
          fmt::format("run {}: the store has no samples of node {}, only its energies", run.id,
                      node.info.name));
    }
    EMLIO_RETURN_IF_ERROR(
        AddTraces(reader, node, timeline.offsets[node.id], timeline, parts, &traces));
  }
  for (const auto& [kind, trace] : traces) {
    for (size_t i = 0; i < parts; ++i) {
      const auto watts = trace.Watts(i);
      if (!watts) {
        return InvalidArgument(fmt::format(
            "run {}: the power of {} is not known from {:.1f} s to {:.1f} s of it", run.id, kind,
            part_seconds * static_cast<double>(i), part_seconds * static_cast<double>(i + 1)));
      }
      power.watts[i] += *watts;
    }
  }
  for (const NodeFigures& node : figures.nodes) {
    for (const DomainFigures& domain : node.domains) {
      if (!domain.in_total || !domain.figure.joules) continue;
      power.domains[node.name + "/" + domain.id] = *domain.figure.joules / node.seconds;
    }
  }
  return power;
}

}  // namespace emlio::energy_analysis
