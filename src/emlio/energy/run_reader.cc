// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <utility>

#include "emlio/energy/history.h"
#include "emlio/energy/run_store.h"
#include "emlio/energy/sqlite.h"
#include "emlio/energy/store_schema.h"
#include "emlio/energy/tick_codec.h"

namespace emlio::energy {
namespace {

// On each side of an edge: as many as a recorder has around it, and more than any counter needs to
// move twice.
constexpr size_t kEdgeTicks = 600;

// The value of an enumeration with that name, `fallback` for a name of a later version.
template <typename Enum, typename Name>
Enum Named(std::string_view name, Enum last, Enum fallback, const Name& name_of) {
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    if (name_of(static_cast<Enum>(i)) == name) return static_cast<Enum>(i);
  }
  return fallback;
}

State StateNamed(std::string_view name) {
  if (name == "shared") return State::kShared;  // as it was called before
  return Named(name, State::kUnavailable, State::kUnavailable, StateName);
}

double Uncertainty(const Statement& row, int column) {
  return row.OptionalDouble(column).value_or(std::numeric_limits<double>::infinity());
}

std::optional<int> OptionalNarrow(const Statement& row, int column) {
  const auto value = row.OptionalInt(column);
  return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

std::optional<Moment> MomentOf(const Statement& row, int column) {
  if (row.IsNull(column)) return std::nullopt;
  return Moment{row.Int(column), row.Int(column + 1), row.Int(column + 2)};
}

// Calls `use` for every row.
template <typename Use>
Status ForEachRow(Statement& rows, const Use& use) {
  while (true) {
    EMLIO_ASSIGN_OR_RETURN(const bool row, rows.Next());
    if (!row) return OkStatus();
    use(static_cast<const Statement&>(rows));
  }
}

}  // namespace

struct RunReader::Database {
  std::string path;
  Sqlite sqlite;
  Statement energies;  // of a window; prepared with the first one
  bool has_energies = false;

  template <typename... Values>
  Result<Statement> Query(std::string_view sql, const Values&... values) {
    EMLIO_ASSIGN_OR_RETURN(Statement statement, sqlite.Prepare(sql));
    EMLIO_RETURN_IF_ERROR(statement.Start(values...));
    return statement;
  }
  Result<std::vector<Domain>> Domains(int64_t node);
  Result<std::vector<Energy>> Energies(int64_t window);
};

RunReader::RunReader(std::unique_ptr<Database> database) : database_(std::move(database)) {}
RunReader::~RunReader() = default;

Result<std::unique_ptr<RunReader>> RunReader::Open(const std::string& path) {
  auto database = std::make_unique<Database>();
  database->path = path;
  auto opened = OpenStoreForReading(path);
  if (opened.status().code() == Code::kNotFound) {
    return NotFound(
        fmt::format("there are no energy runs at {}: emlio energy record keeps some", path));
  }
  EMLIO_RETURN_IF_ERROR(opened.status());
  database->sqlite = *std::move(opened);
  return std::unique_ptr<RunReader>(new RunReader(std::move(database)));
}

Result<std::vector<Run>> RunReader::Runs() {
  EMLIO_ASSIGN_OR_RETURN(
      Statement rows,
      database_->Query("SELECT id, started_wall_ns, ended_wall_ns, exit_status, command, "
                       "configuration, labels FROM run ORDER BY started_wall_ns, id"));
  std::vector<Run> runs;
  EMLIO_RETURN_IF_ERROR(ForEachRow(rows, [&](const Statement& row) {
    Run run;
    run.id = row.Text(0);
    run.started_wall_ns = row.Int(1);
    run.ended_wall_ns = row.OptionalInt(2);
    run.exit_status = OptionalNarrow(row, 3);
    run.command = NamesFromJson(row.Text(4));
    run.configuration = row.Text(5);
    run.labels = LabelsFromJson(row.Text(6));
    runs.push_back(std::move(run));
  }));
  return runs;
}

Result<Run> RunReader::FindRun(const std::string& id) {
  EMLIO_ASSIGN_OR_RETURN(std::vector<Run> runs, Runs());
  if (runs.empty()) return NotFound(database_->path + " has no runs");
  if (id.empty()) return std::move(runs.back());
  std::vector<std::string> ids;
  std::vector<Run*> found;
  for (Run& run : runs) {
    if (run.id == id) return std::move(run);
    if (run.id.starts_with(id)) found.push_back(&run);
    ids.push_back(run.id);
  }
  if (found.size() == 1) return std::move(*found.front());
  constexpr size_t kShown = 20;
  std::string shown = fmt::format(
      "{}",
      fmt::join(ids.end() - static_cast<ptrdiff_t>(std::min(ids.size(), kShown)), ids.end(), ", "));
  if (ids.size() > kShown) shown = fmt::format("…, {}", shown);
  return NotFound(fmt::format("{} has {} run {}; its runs are {}", database_->path,
                              found.empty() ? "no" : "more than one", id, shown));
}

Result<std::vector<Domain>> RunReader::Database::Domains(int64_t node) {
  EMLIO_ASSIGN_OR_RETURN(
      Statement rows,
      Query("SELECT id, kind, source, quantity, socket, die, device, pci, detail, per_unit, "
            "range_units, max_watts, plausible_watts, refresh_ns, step_joules, in_total, "
            "outside_total, shared, virtualised, filtered, cause, fix, update_period_ns, facts "
            "FROM domain "
            "WHERE node_id = ? ORDER BY number",
            node));
  std::vector<Domain> domains;
  EMLIO_RETURN_IF_ERROR(ForEachRow(rows, [&](const Statement& row) {
    Domain d;
    d.id = row.Text(0);
    d.kind = Named(row.Text(1), DomainKind::kGpuPower, DomainKind::kMeter, KindName);
    d.source = row.Text(2);
    d.quantity = row.Text(3) == "power" ? Quantity::kPower : Quantity::kEnergy;
    d.socket = static_cast<int>(row.Int(4));
    d.die = static_cast<int>(row.Int(5));
    d.device = row.Text(6);
    d.pci = row.Text(7);
    d.detail = row.Text(8);
    d.per_unit = row.Double(9);
    d.range_units = static_cast<uint64_t>(row.Int(10));
    d.max_watts = row.Double(11);
    d.plausible_watts = row.Double(12);
    d.refresh_ns = row.Int(13);
    d.step_joules = row.Double(14);
    d.in_total = row.Int(15) != 0;
    d.outside_total = row.Text(16);
    d.shared = row.Int(17) != 0;
    d.virtualised = row.Int(18) != 0;
    d.filtered = row.Int(19) != 0;
    d.cause = row.Text(20);
    d.fix = row.Text(21);
    d.update_period_ns = row.Int(22);
    auto facts = LabelsFromJson(row.Text(23));
    if (auto doubt = facts.extract("doubt"); !doubt.empty()) d.doubt = doubt.mapped();
    if (auto least = facts.extract("plausible_from_watts"); !least.empty()) {
      d.plausible_from_watts = std::strtod(least.mapped().c_str(), nullptr);
    }
    d.facts.assign(facts.begin(), facts.end());
    domains.push_back(std::move(d));
  }));
  return domains;
}

Result<std::vector<StoredNode>> RunReader::Nodes(const std::string& run_id) {
  EMLIO_ASSIGN_OR_RETURN(
      Statement rows,
      database_->Query(
          "SELECT id, name, role, boot_id, facts, interval_ns, sampled, late, missed, clock_steps, "
          "clock_step_ns, late_p50_ns, late_p99_ns, late_max_ns, cpu_ns, elapsed_ns, "
          "start_barrier_ns, start_barrier_wall_ns, start_barrier_apart_ns, stop_barrier_ns, "
          "stop_barrier_wall_ns, stop_barrier_apart_ns, ticks_dropped FROM node WHERE run_id = ? "
          "ORDER BY id",
          run_id));
  std::vector<StoredNode> nodes;
  EMLIO_RETURN_IF_ERROR(ForEachRow(rows, [&](const Statement& row) {
    StoredNode node;
    node.id = row.Int(0);
    node.run_id = run_id;
    node.info.name = row.Text(1);
    node.info.role = row.Text(2);
    node.info.boot_id = row.Text(3);
    node.info.facts = row.Text(4);
    node.info.interval_ns = row.Int(5);
    SamplerStats& s = node.info.sampler;
    int column = 6;
    for (int64_t SamplerStats::* const figure :
         {&SamplerStats::ticks, &SamplerStats::late, &SamplerStats::missed,
          &SamplerStats::clock_steps, &SamplerStats::clock_step_ns, &SamplerStats::late_p50_ns,
          &SamplerStats::late_p99_ns, &SamplerStats::late_max_ns, &SamplerStats::cpu_ns,
          &SamplerStats::elapsed_ns}) {
      s.*figure = row.Int(column++);
    }
    node.info.start_barrier = MomentOf(row, 16);
    node.info.stop_barrier = MomentOf(row, 19);
    node.ticks_dropped = row.Int(22);
    nodes.push_back(std::move(node));
  }));
  for (StoredNode& node : nodes) {
    EMLIO_ASSIGN_OR_RETURN(node.info.domains, database_->Domains(node.id));
    EMLIO_ASSIGN_OR_RETURN(
        Statement absences,
        database_->Query("SELECT source, cause, fix FROM absence WHERE node_id = ? ORDER BY rowid",
                         node.id));
    EMLIO_RETURN_IF_ERROR(ForEachRow(absences, [&](const Statement& row) {
      node.info.absent.push_back(
          {std::string(row.Text(0)), std::string(row.Text(1)), std::string(row.Text(2))});
    }));
    EMLIO_ASSIGN_OR_RETURN(
        Statement clock,
        database_->Query("SELECT at_ns, at_wall_ns, at_apart_ns, offset_ns, esterror_ns, "
                         "maxerror_ns, synchronised FROM clock WHERE node_id = ? ORDER BY rowid",
                         node.id));
    EMLIO_RETURN_IF_ERROR(ForEachRow(clock, [&](const Statement& row) {
      node.info.clock.push_back({{row.Int(0), row.Int(1), row.Int(2)},
                                 row.Int(3),
                                 row.Int(4),
                                 row.Int(5),
                                 row.Int(6) != 0});
    }));
    EMLIO_ASSIGN_OR_RETURN(
        Statement offsets,
        database_->Query("SELECT peer, at_ns, at_wall_ns, at_apart_ns, offset_ns, bound_ns "
                         "FROM clock_offset WHERE node_id = ? ORDER BY rowid",
                         node.id));
    EMLIO_RETURN_IF_ERROR(ForEachRow(offsets, [&](const Statement& row) {
      node.info.offsets.push_back(
          {std::string(row.Text(0)), {row.Int(1), row.Int(2), row.Int(3)}, row.Int(4), row.Int(5)});
    }));
    EMLIO_ASSIGN_OR_RETURN(
        Statement ticks,
        database_->Query("SELECT min(first_ns), max(last_ns), sum(ticks) FROM samples "
                         "WHERE node_id = ?",
                         node.id));
    EMLIO_RETURN_IF_ERROR(ForEachRow(ticks, [&](const Statement& row) {
      node.first_tick_ns = row.Int(0);
      node.last_tick_ns = row.Int(1);
      node.ticks = row.Int(2);
    }));
  }
  return nodes;
}

Result<std::vector<Note>> RunReader::Notes(const std::string& run_id) {
  EMLIO_ASSIGN_OR_RETURN(Statement rows,
                         database_->Query("SELECT wall_ns, node, kind, text FROM note "
                                          "WHERE run_id = ? ORDER BY wall_ns, rowid",
                                          run_id));
  std::vector<Note> notes;
  EMLIO_RETURN_IF_ERROR(ForEachRow(rows, [&](const Statement& row) {
    notes.push_back(
        {row.Int(0), std::string(row.Text(1)), std::string(row.Text(2)), std::string(row.Text(3))});
  }));
  return notes;
}

Result<std::vector<SinkReport>> RunReader::SinkReports(int64_t node) {
  EMLIO_ASSIGN_OR_RETURN(
      Statement rows,
      database_->Query("SELECT sink, target, points_sent, points_refused, points_dropped, retries, "
                       "last_error FROM sink_report WHERE node_id = ? ORDER BY sink, target",
                       node));
  std::vector<SinkReport> reports;
  EMLIO_RETURN_IF_ERROR(ForEachRow(rows, [&](const Statement& row) {
    reports.push_back({std::string(row.Text(0)), std::string(row.Text(1)), row.Int(2), row.Int(3),
                       row.Int(4), row.Int(5), std::string(row.Text(6))});
  }));
  return reports;
}

Result<std::vector<Energy>> RunReader::Database::Energies(int64_t window) {
  if (!has_energies) {
    EMLIO_ASSIGN_OR_RETURN(
        energies,
        sqlite.Prepare("SELECT state, joules, uncertainty_joules, void_ns, wraps, resets, gaps, "
                       "stalls, ambiguous, cause, fix FROM window_energy WHERE window_id = ? "
                       "ORDER BY number"));
    has_energies = true;
  }
  EMLIO_RETURN_IF_ERROR(energies.Start(window));
  std::vector<Energy> result;
  EMLIO_RETURN_IF_ERROR(ForEachRow(energies, [&](const Statement& row) {
    Energy e;
    e.state = StateNamed(row.Text(0));
    e.joules = row.OptionalDouble(1);
    e.uncertainty_joules = Uncertainty(row, 2);
    e.void_ns = row.Int(3);
    e.wraps = static_cast<uint32_t>(row.Int(4));
    e.resets = static_cast<uint32_t>(row.Int(5));
    e.gaps = static_cast<uint32_t>(row.Int(6));
    e.stalls = static_cast<uint32_t>(row.Int(7));
    e.ambiguous = static_cast<uint32_t>(row.Int(8));
    e.cause = row.Text(9);
    e.fix = row.Text(10);
    result.push_back(std::move(e));
  }));
  return result;
}

Status RunReader::ForEachWindow(const std::string& run_id,
                                const std::function<Status(int64_t, const WindowRecord&)>& use) {
  EMLIO_ASSIGN_OR_RETURN(
      Statement rows,
      database_->Query(
          "SELECT w.id, node_id, key, w.name, stage, epoch, rank, begin_ns, end_ns, begin_wall_ns, "
          "allow_gaps, state, joules, uncertainty_joules, domains, missing, without, cpu_seconds, "
          "gpu_seconds, bytes_read, bytes_sent, bytes_delivered, records_delivered, labels "
          "FROM node n JOIN window w ON w.node_id = n.id WHERE n.run_id = ? "
          "ORDER BY n.id, w.begin_ns",
          run_id));
  while (true) {
    EMLIO_ASSIGN_OR_RETURN(const bool row, rows.Next());
    if (!row) return OkStatus();
    WindowRecord w;
    w.id = rows.Text(2);
    w.name = rows.Text(3);
    w.stage = rows.Text(4);
    w.epoch = rows.OptionalInt(5);
    w.rank = rows.OptionalInt(6);
    w.begin_ns = rows.Int(7);
    w.end_ns = rows.Int(8);
    w.begin_wall_ns = rows.Int(9);
    w.allow_gaps = rows.Int(10) != 0;
    w.total.state = StateNamed(rows.Text(11));
    w.total.joules = rows.OptionalDouble(12);
    w.total.uncertainty_joules = Uncertainty(rows, 13);
    w.total.domains = NamesFromJson(rows.Text(14));
    w.total.missing = NamesFromJson(rows.Text(15));
    w.total.without = NamesFromJson(rows.Text(16));
    w.proxies.cpu_seconds = rows.OptionalDouble(17);
    w.proxies.gpu_seconds = rows.OptionalDouble(18);
    w.proxies.bytes_read = rows.OptionalInt(19);
    w.proxies.bytes_sent = rows.OptionalInt(20);
    w.proxies.bytes_delivered = rows.OptionalInt(21);
    w.proxies.records_delivered = rows.OptionalInt(22);
    w.labels = LabelsFromJson(rows.Text(23));
    EMLIO_ASSIGN_OR_RETURN(w.energies, database_->Energies(rows.Int(0)));
    EMLIO_RETURN_IF_ERROR(use(rows.Int(1), w));
  }
}

Status RunReader::ForEachTick(int64_t node, int64_t from_ns, int64_t to_ns,
                              const std::function<Status(const Tick&)>& use) {
  size_t domains = 0;
  {
    EMLIO_ASSIGN_OR_RETURN(Statement count,
                           database_->Query("SELECT count(*) FROM domain WHERE node_id = ?", node));
    EMLIO_RETURN_IF_ERROR(ForEachRow(
        count, [&](const Statement& row) { domains = static_cast<size_t>(row.Int(0)); }));
  }
  // Rows do not overlap: only the last one that begins before `from_ns` may reach into the range.
  EMLIO_ASSIGN_OR_RETURN(
      Statement rows,
      database_->Query("SELECT first_ns, last_ns, ticks, data FROM samples WHERE node_id = ?1 "
                       "AND first_ns <= ?3 AND first_ns >= ifnull((SELECT max(first_ns) FROM "
                       "samples WHERE node_id = ?1 AND first_ns <= ?2), ?2) ORDER BY first_ns",
                       node, from_ns, to_ns));
  TickBlock block(domains);
  int64_t before_ns = std::numeric_limits<int64_t>::min();
  while (true) {
    EMLIO_ASSIGN_OR_RETURN(const bool row, rows.Next());
    if (!row) return OkStatus();
    const auto where = [&] {
      return fmt::format("{}: node {} at {} ns", database_->path, node, rows.Int(0));
    };
    if (const Status decoded = DecodeTicks(rows.Bytes(3), &block); !decoded.ok()) {
      return decoded.WithContext(where());
    }
    if (block.At(0).monotonic_ns != rows.Int(0) ||
        block.At(block.size() - 1).monotonic_ns != rows.Int(1) ||
        static_cast<int64_t>(block.size()) != rows.Int(2) || rows.Int(0) <= before_ns) {
      return Corrupt(where() + ": packed samples are others than their row says");
    }
    before_ns = rows.Int(1);
    for (size_t i = 0; i < block.size(); ++i) {
      const Tick tick = block.At(i);
      if (tick.monotonic_ns < from_ns) continue;
      if (tick.monotonic_ns > to_ns) return OkStatus();
      EMLIO_RETURN_IF_ERROR(use(tick));
    }
  }
}

Result<Edge> RunReader::EdgeAt(const StoredNode& node, int64_t time_ns) {
  // Where kEdgeTicks before and behind the moment are reached; a row holds one tick or many.
  const auto reach = [&](std::string_view sql, int64_t otherwise_ns) -> Result<int64_t> {
    EMLIO_ASSIGN_OR_RETURN(Statement rows, database_->Query(sql, node.id, time_ns));
    int64_t ticks = 0;
    int64_t reached_ns = otherwise_ns;
    while (ticks < static_cast<int64_t>(kEdgeTicks)) {
      EMLIO_ASSIGN_OR_RETURN(const bool row, rows.Next());
      if (!row) break;
      // The first row before the moment may have all its ticks behind it but one.
      ticks += ticks == 0 ? 1 : rows.Int(1);
      reached_ns = rows.Int(0);
    }
    return reached_ns;
  };
  EMLIO_ASSIGN_OR_RETURN(
      const int64_t from_ns,
      reach("SELECT first_ns, ticks FROM samples WHERE node_id = ? AND first_ns <= ? "
            "ORDER BY first_ns DESC",
            std::numeric_limits<int64_t>::min()));
  EMLIO_ASSIGN_OR_RETURN(
      const int64_t to_ns,
      reach("SELECT last_ns, ticks FROM samples WHERE node_id = ? AND first_ns > ? "
            "ORDER BY first_ns",
            std::numeric_limits<int64_t>::max()));
  size_t ticks = 0;
  std::vector<Sample> samples;
  const Status loaded = ForEachTick(node.id, from_ns, to_ns, [&](const Tick& tick) {
    samples.insert(samples.end(), tick.samples.begin(), tick.samples.end());
    ++ticks;
    return OkStatus();
  });
  EMLIO_RETURN_IF_ERROR(loaded);
  History history(node.info.domains, ticks);
  const size_t domains = node.info.domains.size();
  for (size_t i = 0; i < ticks; ++i) {
    history.Append(std::span(samples).subspan(i * domains, domains));
  }
  return history.EdgeAt(time_ns);
}

Result<std::vector<Energy>> RunReader::EnergyBetween(const StoredNode& node, int64_t begin_ns,
                                                     int64_t end_ns, const WindowRules& rules) {
  EMLIO_ASSIGN_OR_RETURN(const Edge begin, EdgeAt(node, begin_ns));
  EMLIO_ASSIGN_OR_RETURN(const Edge end, EdgeAt(node, end_ns));
  return energy::EnergyBetween(node.info.domains, begin, end, rules);
}

}  // namespace emlio::energy
