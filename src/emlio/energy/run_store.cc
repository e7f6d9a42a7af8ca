// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy/run_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <map>
#include <utility>
#include <variant>

#include "emlio/base/log.h"
#include "emlio/base/mutex.h"
#include "emlio/base/nanoseconds.h"
#include "emlio/energy/sqlite.h"
#include "emlio/energy/store_schema.h"
#include "emlio/energy/tick_codec.h"

namespace emlio::energy {
namespace {

constexpr size_t kMaxBatch = 4096;  // what one transaction writes
constexpr int64_t kRetryNs = kNsPerSecond;

// What waits for the disk.
struct WaitingTick {
  int64_t node;
  int64_t monotonic_ns;
  int64_t wall_ns;
  std::vector<Sample> samples;
};
struct WaitingWindow {
  int64_t node;
  WindowRecord window;
};
using Waiting = std::variant<WaitingTick, WaitingWindow>;

std::string_view QuantityName(Quantity quantity) {
  return quantity == Quantity::kEnergy ? "energy" : "power";
}

// What the table has no columns for.
std::map<std::string, std::string> FactsOf(const Domain& domain) {
  std::map<std::string, std::string> facts(domain.facts.begin(), domain.facts.end());
  if (!domain.doubt.empty()) facts["doubt"] = domain.doubt;
  if (domain.plausible_from_watts > 0) {
    facts["plausible_from_watts"] = fmt::format("{}", domain.plausible_from_watts);
  }
  return facts;
}

// Everything that is written, by one thread.
class Writer {
 public:
  static Result<std::unique_ptr<Writer>> Open(const std::string& path,
                                              const RunStoreOptions& options) {
    auto writer = std::unique_ptr<Writer>(new Writer(options));
    EMLIO_ASSIGN_OR_RETURN(writer->database_, OpenStoreForWriting(path, options.busy_timeout_ns));
    Sqlite& database = writer->database_;
    EMLIO_ASSIGN_OR_RETURN(writer->insert_samples_,
                           database.Prepare("INSERT INTO samples VALUES (?, ?, ?, ?, ?)"));
    EMLIO_ASSIGN_OR_RETURN(
        writer->delete_samples_,
        database.Prepare("DELETE FROM samples WHERE node_id = ? AND first_ns BETWEEN ? AND ?"));
    EMLIO_ASSIGN_OR_RETURN(
        writer->insert_window_,
        database.Prepare(
            "INSERT INTO window VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
            "?, ?, ?, ?, ?, ?, ?, ?, ?)"));
    EMLIO_ASSIGN_OR_RETURN(
        writer->insert_energy_,
        database.Prepare(
            "INSERT INTO window_energy VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
    EMLIO_ASSIGN_OR_RETURN(writer->update_dropped_,
                           database.Prepare("UPDATE node SET ticks_dropped = ? WHERE id = ?"));
    return writer;
  }

  // `work` between BEGIN and COMMIT; nothing of it when it or the commit fails.
  template <typename Work>
  Status Transact(const Work& work) {
    EMLIO_RETURN_IF_ERROR(database_.Execute("BEGIN IMMEDIATE"));
    Status status = work();
    if (status.ok()) status = database_.Execute("COMMIT");
    if (!status.ok()) (void)database_.Execute("ROLLBACK");
    return status;
  }

  // All of a batch or nothing; but what the file takes at no time (`refused`) is left out.
  Status Write(const std::deque<Waiting>& batch, const std::map<int64_t, int64_t>& dropped,
               int64_t* refused) {
    // Commits are in the system's hands: enough against the end of the process. Once in a while one
    // is put on disk, and all earlier ones with it, for they are in the same file.
    const int64_t now_ns = SystemClock().NowNs();
    const bool sync = now_ns - synced_ns_ >= options_.sync_interval_ns;
    if (sync) EMLIO_RETURN_IF_ERROR(database_.Execute("PRAGMA synchronous = FULL"));
    const Status written = Transact([&]() -> Status {
      *refused = 0;
      for (const Waiting& item : batch) {
        const Status inserted = std::visit([this](const auto& it) { return Insert(it); }, item);
        if (inserted.code() == Code::kInvalidArgument || inserted.code() == Code::kLimitExceeded) {
          LogWarning("energy: what cannot be stored is left out: {}", inserted.ToString());
          ++*refused;
          continue;
        }
        EMLIO_RETURN_IF_ERROR(inserted);
      }
      for (const auto& [node, count] : dropped) {
        EMLIO_RETURN_IF_ERROR(update_dropped_.Run(count, node));
      }
      return OkStatus();
    });
    if (sync) {
      if (written.ok()) synced_ns_ = now_ns;
      EMLIO_RETURN_IF_ERROR(database_.Execute("PRAGMA synchronous = NORMAL"));
    }
    for (auto& [node, tail] : tails_) {
      if (written.ok()) {
        tail.written = tail.block.size();
      } else {
        tail.block.Shrink(tail.written);
      }
    }
    return written;
  }

  // Packs ticks that are rows of their own, of nodes that have enough of them; or all. A failure
  // leaves the rows as they are, for the next time.
  Status Pack(bool all) {
    for (auto& entry : tails_) {
      const int64_t node = entry.first;
      Tail& tail = entry.second;
      const size_t most = std::min(options_.chunk_ticks,
                                   kMaxPackedSamples / std::max<size_t>(tail.block.domains(), 1));
      while (tail.written >= (all ? 2 : most)) {
        const size_t ticks = std::min(tail.written, most);
        const TickBlock& block = tail.block;
        const Status packed = Transact([&]() -> Status {
          const int64_t first_ns = block.At(0).monotonic_ns;
          const int64_t last_ns = block.At(ticks - 1).monotonic_ns;
          EMLIO_RETURN_IF_ERROR(delete_samples_.Run(node, first_ns, last_ns));
          return insert_samples_.Run(node, first_ns, last_ns, ticks,
                                     Blob{EncodeTicks(block, ticks)});
        });
        EMLIO_RETURN_IF_ERROR(packed);
        tail.block.DropFront(ticks);
        tail.written -= ticks;
      }
    }
    return OkStatus();
  }

  Status BeginRun(const Run& run) {
    EMLIO_RETURN_IF_ERROR(CheckJsonObject("the configuration of a run", run.configuration));
    return Transact([&]() -> Status {
      EMLIO_ASSIGN_OR_RETURN(Statement insert,
                             database_.Prepare("INSERT INTO run VALUES (?, ?, ?, ?, ?, ?, ?)"));
      return insert
          .Run(run.id, run.started_wall_ns, run.ended_wall_ns, run.exit_status,
               NamesToJson(run.command), run.configuration, LabelsToJson(run.labels))
          .WithContext("run " + run.id);
    });
  }

  Result<int64_t> AddNode(const std::string& run_id, const NodeInfo& info) {
    EMLIO_RETURN_IF_ERROR(CheckJsonObject("the facts of a node", info.facts));
    if (info.domains.size() > kMaxPackedDomains) {
      return LimitExceeded(fmt::format("{} domains on one node: {} are possible",
                                       info.domains.size(), kMaxPackedDomains));
    }
    int64_t node = 0;
    const Status added = Transact([&]() -> Status {
      EMLIO_RETURN_IF_ERROR(CheckRun(run_id));
      EMLIO_ASSIGN_OR_RETURN(
          Statement insert,
          database_.Prepare("INSERT INTO node (run_id, name, role, boot_id, facts, interval_ns) "
                            "VALUES (?, ?, ?, ?, ?, ?)"));
      EMLIO_RETURN_IF_ERROR(
          insert.Run(run_id, info.name, info.role, info.boot_id, info.facts, info.interval_ns));
      node = database_.LastInsertId();
      EMLIO_ASSIGN_OR_RETURN(
          Statement domain,
          database_.Prepare(
              "INSERT INTO domain VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
              "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
      for (size_t i = 0; i < info.domains.size(); ++i) {
        const Domain& d = info.domains[i];
        EMLIO_RETURN_IF_ERROR(domain.Run(
            node, i, d.id, KindName(d.kind), d.source, QuantityName(d.quantity), d.socket, d.die,
            d.device, d.pci, d.detail, d.per_unit, d.range_units, d.max_watts, d.plausible_watts,
            d.refresh_ns, d.step_joules, d.update_period_ns, d.in_total, d.outside_total, d.shared,
            d.virtualised, d.filtered, LabelsToJson(FactsOf(d)), d.cause, d.fix));
      }
      return WriteChanging(node, info);
    });
    EMLIO_RETURN_IF_ERROR(added);
    tails_.emplace(node, Tail(info.domains.size()));
    return node;
  }

  Status UpdateNode(int64_t node, const NodeInfo& info) {
    return Transact([&]() -> Status {
      EMLIO_ASSIGN_OR_RETURN(
          Statement domains,
          database_.Prepare("SELECT id FROM domain WHERE node_id = ? ORDER BY number"));
      EMLIO_RETURN_IF_ERROR(domains.Start(node));
      for (size_t i = 0;; ++i) {
        EMLIO_ASSIGN_OR_RETURN(const bool row, domains.Next());
        if (row != (i < info.domains.size()) || (row && domains.Text(0) != info.domains[i].id)) {
          return InvalidArgument(fmt::format(
              "node {} ({}) has other domains than when it was added", node, info.name));
        }
        if (!row) break;
      }
      return WriteChanging(node, info);
    });
  }

  Status ReportSink(int64_t node, const SinkReport& report) {
    return Transact([&]() -> Status {
      EMLIO_ASSIGN_OR_RETURN(
          Statement insert,
          database_.Prepare("INSERT OR REPLACE INTO sink_report VALUES (?, ?, ?, ?, ?, ?, ?, ?)"));
      return insert.Run(node, report.sink, report.target, report.points_sent, report.points_refused,
                        report.points_dropped, report.retries, report.last_error);
    });
  }

  Status AddNote(const std::string& run_id, const Note& note) {
    return Transact([&]() -> Status {
      EMLIO_RETURN_IF_ERROR(CheckRun(run_id));
      EMLIO_ASSIGN_OR_RETURN(Statement insert,
                             database_.Prepare("INSERT INTO note VALUES (?, ?, ?, ?, ?)"));
      return insert.Run(run_id, note.wall_ns, note.node, note.kind, note.text);
    });
  }

  Status EndRun(const std::string& run_id, int64_t ended_wall_ns, std::optional<int> exit_status) {
    const Status ended = Transact([&]() -> Status {
      EMLIO_RETURN_IF_ERROR(CheckRun(run_id));
      EMLIO_ASSIGN_OR_RETURN(
          Statement update,
          database_.Prepare("UPDATE run SET ended_wall_ns = ?, exit_status = ? WHERE id = ?"));
      return update.Run(ended_wall_ns, exit_status, run_id);
    });
    EMLIO_RETURN_IF_ERROR(ended);
    return Pack(true);
  }

 private:
  // The ticks of a node that are rows of their own.
  struct Tail {
    explicit Tail(size_t domains) : block(domains) {}
    TickBlock block;
    size_t written = 0;  // the others belong to a transaction that goes on
  };

  explicit Writer(const RunStoreOptions& options) : options_(options) {}

  Status CheckRun(const std::string& run_id) {
    EMLIO_ASSIGN_OR_RETURN(Statement find, database_.Prepare("SELECT 1 FROM run WHERE id = ?"));
    EMLIO_RETURN_IF_ERROR(find.Start(run_id));
    EMLIO_ASSIGN_OR_RETURN(const bool row, find.Next());
    return row ? OkStatus() : NotFound(fmt::format("the store has no run {}", run_id));
  }

  Status WriteChanging(int64_t node, const NodeInfo& info) {
    const SamplerStats& s = info.sampler;
    const auto field = [](const std::optional<Moment>& moment, int64_t Moment::* which) {
      return moment ? std::optional((*moment).*which) : std::nullopt;
    };
    EMLIO_ASSIGN_OR_RETURN(
        Statement update,
        database_.Prepare(
            "UPDATE node SET sampled = ?, late = ?, missed = ?, clock_steps = ?, clock_step_ns = "
            "?, "
            "late_p50_ns = ?, late_p99_ns = ?, late_max_ns = ?, cpu_ns = ?, elapsed_ns = ?, "
            "start_barrier_ns = ?, start_barrier_wall_ns = ?, start_barrier_apart_ns = ?, "
            "stop_barrier_ns = ?, stop_barrier_wall_ns = ?, stop_barrier_apart_ns = ? "
            "WHERE id = ?"));
    EMLIO_RETURN_IF_ERROR(update.Run(
        s.ticks, s.late, s.missed, s.clock_steps, s.clock_step_ns, s.late_p50_ns, s.late_p99_ns,
        s.late_max_ns, s.cpu_ns, s.elapsed_ns, field(info.start_barrier, &Moment::monotonic_ns),
        field(info.start_barrier, &Moment::wall_ns), field(info.start_barrier, &Moment::apart_ns),
        field(info.stop_barrier, &Moment::monotonic_ns), field(info.stop_barrier, &Moment::wall_ns),
        field(info.stop_barrier, &Moment::apart_ns), node));
    for (const char* const table : {"clock", "clock_offset", "absence"}) {
      EMLIO_ASSIGN_OR_RETURN(Statement clear, database_.Prepare(fmt::format(
                                                  "DELETE FROM {} WHERE node_id = ?", table)));
      EMLIO_RETURN_IF_ERROR(clear.Run(node));
    }
    EMLIO_ASSIGN_OR_RETURN(Statement clock,
                           database_.Prepare("INSERT INTO clock VALUES (?, ?, ?, ?, ?, ?, ?, ?)"));
    for (const ClockReading& c : info.clock) {
      EMLIO_RETURN_IF_ERROR(clock.Run(node, c.at.monotonic_ns, c.at.wall_ns, c.at.apart_ns,
                                      c.offset_ns, c.esterror_ns, c.maxerror_ns, c.synchronised));
    }
    EMLIO_ASSIGN_OR_RETURN(
        Statement offset,
        database_.Prepare("INSERT INTO clock_offset VALUES (?, ?, ?, ?, ?, ?, ?)"));
    for (const ClockOffset& o : info.offsets) {
      EMLIO_RETURN_IF_ERROR(offset.Run(node, o.peer, o.at.monotonic_ns, o.at.wall_ns, o.at.apart_ns,
                                       o.offset_ns, o.bound_ns));
    }
    EMLIO_ASSIGN_OR_RETURN(Statement absence,
                           database_.Prepare("INSERT INTO absence VALUES (?, ?, ?, ?)"));
    for (const Absence& a : info.absent) {
      EMLIO_RETURN_IF_ERROR(absence.Run(node, a.source, a.cause, a.fix));
    }
    return OkStatus();
  }

  Status Insert(const WaitingTick& tick) {
    TickBlock& block = tails_.at(tick.node).block;
    const Tick view = {tick.monotonic_ns, tick.wall_ns, tick.samples};
    TickBlock one(block.domains());
    one.Append(view);
    EMLIO_RETURN_IF_ERROR(insert_samples_.Run(tick.node, tick.monotonic_ns, tick.monotonic_ns, 1,
                                              Blob{EncodeTicks(one, 1)}));
    block.Append(view);
    return OkStatus();
  }

  Status Insert(const WaitingWindow& item) {
    const WindowRecord& w = item.window;
    const Proxies& p = w.proxies;
    EMLIO_RETURN_IF_ERROR(insert_window_.Run(
        item.node, w.id, w.name, w.stage, w.epoch, w.rank, w.begin_ns, w.end_ns, w.begin_wall_ns,
        w.allow_gaps, StateName(w.total.state), w.total.joules, w.total.uncertainty_joules,
        NamesToJson(w.total.domains), NamesToJson(w.total.missing), NamesToJson(w.total.without),
        p.cpu_seconds, p.gpu_seconds, p.bytes_read, p.bytes_sent, p.bytes_delivered,
        p.records_delivered, LabelsToJson(w.labels)));
    const int64_t id = database_.LastInsertId();
    for (size_t i = 0; i < w.energies.size(); ++i) {
      const Energy& e = w.energies[i];
      EMLIO_RETURN_IF_ERROR(insert_energy_.Run(id, i, StateName(e.state), e.joules,
                                               e.uncertainty_joules, e.void_ns, e.wraps, e.resets,
                                               e.gaps, e.stalls, e.ambiguous, e.cause, e.fix));
    }
    return OkStatus();
  }

  const RunStoreOptions options_;
  Sqlite database_;
  Statement insert_samples_;
  Statement delete_samples_;
  Statement insert_window_;
  Statement insert_energy_;
  Statement update_dropped_;
  std::map<int64_t, Tail> tails_;
  int64_t synced_ns_ = 0;
};

// Something that its caller waits for.
struct Call {
  std::function<Status(Writer&)> work;
  std::optional<Status> outcome;
};

}  // namespace

Result<std::string> DefaultStorePath() {
  const char* data = std::getenv("XDG_DATA_HOME");
  if (data != nullptr && data[0] == '/') return std::string(data) + "/emlio/energy.db";
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') {
    return std::string(home) + "/.local/share/emlio/energy.db";
  }
  return NotFound("neither XDG_DATA_HOME nor HOME is set: name the file of energy runs");
}

struct RunStore::Shared {
  Shared(std::string file, const RunStoreOptions& store_options, std::unique_ptr<Writer> opened)
      : path(std::move(file)), options(store_options), writer(std::move(opened)) {}

  struct Node {
    size_t domains = 0;
    int64_t last_ns = INT64_MIN;
    int64_t dropped = 0;
  };

  void Run() EMLIO_EXCLUDES(mu);
  // Everything that waits is written first.
  void RequestEnd() EMLIO_EXCLUDES(mu) {
    const MutexLock lock(mu);
    stop = true;
    work.NotifyOne();
  }
  Status Perform(std::function<Status(Writer&)> work) EMLIO_EXCLUDES(mu);
  void Count(const Status& written, const std::deque<Waiting>& batch, int64_t refused)
      EMLIO_REQUIRES(mu);

  const std::string path;
  const RunStoreOptions options;
  std::unique_ptr<Writer> writer;  // the thread's

  mutable Mutex mu;
  CondVar work;     // there is something to do
  CondVar changed;  // something was done
  bool stop EMLIO_GUARDED_BY(mu) = false;
  std::deque<Waiting> queue EMLIO_GUARDED_BY(mu);
  std::deque<Call*> calls EMLIO_GUARDED_BY(mu);
  size_t waiting_ticks EMLIO_GUARDED_BY(mu) = 0;  // what the thread is writing included
  size_t waiting_windows EMLIO_GUARDED_BY(mu) = 0;
  int64_t appended EMLIO_GUARDED_BY(mu) = 0;
  int64_t finished EMLIO_GUARDED_BY(mu) = 0;                  // written, or given up
  std::map<int64_t, Node> nodes EMLIO_GUARDED_BY(mu);         // of this store
  std::map<int64_t, int64_t> to_report EMLIO_GUARDED_BY(mu);  // dropped ticks, unknown to the file
  RunStoreStats stats EMLIO_GUARDED_BY(mu);
};

void RunStore::Shared::Count(const Status& written, const std::deque<Waiting>& batch,
                             int64_t refused) {
  if (!written.ok()) {
    ++stats.failures;
    if (stats.last_error.empty()) {
      LogWarning("energy: {} cannot be written, and {} ticks wait: {}", path, waiting_ticks,
                 written.ToString());
    }
    stats.last_error = written.ToString();
    return;
  }
  if (!stats.last_error.empty()) LogWarning("energy: {} is written again", path);
  stats.last_error.clear();
  for (const Waiting& item : batch) {
    const bool tick = std::holds_alternative<WaitingTick>(item);
    --(tick ? waiting_ticks : waiting_windows);
    ++(tick ? stats.ticks_written : stats.windows_written);
  }
  stats.windows_written -= refused;
  stats.windows_dropped += refused;
  finished += static_cast<int64_t>(batch.size());
}

void RunStore::Shared::Run() {
  std::deque<Waiting> batch;
  int64_t try_again_ns = 0;
  while (true) {
    Call* call = nullptr;
    bool last = false;
    std::map<int64_t, int64_t> report;
    {
      const MutexLock lock(mu);
      stats.cpu_ns = ThreadCpuNs();
      changed.NotifyAll();
      while (calls.empty() && !stop) {
        const bool work_waits = !batch.empty() || !queue.empty();
        if (work_waits && SystemClock().NowNs() >= try_again_ns) break;
        if (work_waits) {
          work.WaitUntil(mu, SteadyTime(try_again_ns));
        } else {
          work.Wait(mu);
        }
      }
      if (!calls.empty()) {
        call = calls.front();
        calls.pop_front();
      } else {
        while (!queue.empty() && batch.size() < kMaxBatch) {
          batch.push_back(std::move(queue.front()));
          queue.pop_front();
        }
        report.swap(to_report);
        last = stop && queue.empty();
      }
    }
    if (call != nullptr) {
      const Status outcome = call->work(*writer);
      const MutexLock lock(mu);
      call->outcome = outcome;
      continue;
    }
    Status written;
    int64_t refused = 0;
    if (!batch.empty() || !report.empty()) written = writer->Write(batch, report, &refused);
    const Status packed = written.ok() ? writer->Pack(false) : OkStatus();
    {
      const MutexLock lock(mu);
      Count(written, batch, refused);
      if (!packed.ok()) Count(packed, {}, 0);
      if (!written.ok()) to_report.merge(report);
      if (!written.ok() && stop) {
        // Nobody waits for the disk any longer.
        while (!queue.empty()) {
          batch.push_back(std::move(queue.front()));
          queue.pop_front();
        }
        for (const Waiting& item : batch) {
          ++(std::holds_alternative<WaitingTick>(item) ? stats.ticks_dropped
                                                       : stats.windows_dropped);
        }
        finished += static_cast<int64_t>(batch.size());
        last = true;
      }
    }
    if (written.ok() || last) batch.clear();
    try_again_ns = written.ok() ? 0 : SystemClock().NowNs() + kRetryNs;
    if (!last) continue;
    // A failure costs room only. Closing writes too, and only this thread is safe from the signal
    // that a limit on the size of files sends.
    (void)writer->Pack(true);
    writer.reset();
    const MutexLock lock(mu);
    stats.cpu_ns = ThreadCpuNs();
    if (stats.ticks_dropped + stats.windows_dropped > 0) {
      LogWarning("energy: {} lacks {} ticks and {} windows that were dropped{}{}", path,
                 stats.ticks_dropped, stats.windows_dropped, stats.last_error.empty() ? "" : ": ",
                 stats.last_error);
    }
    changed.NotifyAll();
    return;
  }
}

Status RunStore::Shared::Perform(std::function<Status(Writer&)> what) {
  Call call;
  call.work = std::move(what);
  const MutexLock lock(mu);
  calls.push_back(&call);
  work.NotifyOne();
  while (!call.outcome) changed.Wait(mu);
  return *call.outcome;
}

RunStore::RunStore(std::unique_ptr<Shared> shared) : shared_(std::move(shared)) {}

Result<std::unique_ptr<RunStore>> RunStore::Open(const std::string& path, RunStoreOptions options) {
  options.chunk_ticks = std::clamp<size_t>(options.chunk_ticks, 2, kMaxPackedTicks);
  EMLIO_ASSIGN_OR_RETURN(auto writer, Writer::Open(path, options));
  auto store = std::unique_ptr<RunStore>(
      new RunStore(std::make_unique<Shared>(path, options, std::move(writer))));
  EMLIO_RETURN_IF_ERROR(store->shared_.Start("emlio-estore"));
  return store;
}

// In a child the file's locks are the other process's: closing it would take them from there.
RunStore::~RunStore() = default;

Status RunStore::CheckProcess() const {
  if (!shared_.in_child()) return OkStatus();
  return Unavailable(fmt::format(
      "the energy store {} belongs to process {}, of which this one is a fork: open it here too",
      shared_->path, shared_.pid()));
}

const std::string& RunStore::path() const { return shared_->path; }

Status RunStore::BeginRun(const Run& run) {
  EMLIO_RETURN_IF_ERROR(CheckProcess());
  return shared_->Perform([&](Writer& writer) { return writer.BeginRun(run); });
}

Result<int64_t> RunStore::AddNode(const std::string& run_id, const NodeInfo& info) {
  EMLIO_RETURN_IF_ERROR(CheckProcess());
  int64_t node = 0;
  const Status added = shared_->Perform([&](Writer& writer) -> Status {
    EMLIO_ASSIGN_OR_RETURN(node, writer.AddNode(run_id, info));
    return OkStatus();
  });
  EMLIO_RETURN_IF_ERROR(added);
  const MutexLock lock(shared_->mu);
  shared_->nodes[node].domains = info.domains.size();
  return node;
}

Status RunStore::UpdateNode(int64_t node, const NodeInfo& info) {
  EMLIO_RETURN_IF_ERROR(CheckProcess());
  return shared_->Perform([&](Writer& writer) { return writer.UpdateNode(node, info); });
}

Status RunStore::ReportSink(int64_t node, const SinkReport& report) {
  EMLIO_RETURN_IF_ERROR(CheckProcess());
  return shared_->Perform([&](Writer& writer) { return writer.ReportSink(node, report); });
}

Status RunStore::AddNote(const std::string& run_id, const Note& note) {
  EMLIO_RETURN_IF_ERROR(CheckProcess());
  return shared_->Perform([&](Writer& writer) { return writer.AddNote(run_id, note); });
}

Status RunStore::EndRun(const std::string& run_id, int64_t ended_wall_ns,
                        std::optional<int> exit_status) {
  EMLIO_RETURN_IF_ERROR(CheckProcess());
  return shared_->Perform(
      [&](Writer& writer) { return writer.EndRun(run_id, ended_wall_ns, exit_status); });
}

void RunStore::AppendTick(int64_t node, const Tick& tick) {
  Shared& shared = *shared_;
  if (shared_.in_child()) return;
  WaitingTick item = {
      node, tick.monotonic_ns, tick.wall_ns, {tick.samples.begin(), tick.samples.end()}};
  const MutexLock lock(shared.mu);
  const auto found = shared.nodes.find(node);
  const bool fits = found != shared.nodes.end() && found->second.domains == tick.samples.size() &&
                    tick.monotonic_ns > found->second.last_ns;
  if (!fits || shared.waiting_ticks >= shared.options.max_waiting_ticks) {
    if (shared.stats.ticks_dropped++ == 0) {
      LogWarning("energy: {}: a tick is dropped: {}", shared.path,
                 fits ? "too many wait for the disk"
                      : "it is of no node of this store, or not later than the one before");
    }
    if (found != shared.nodes.end()) shared.to_report[node] = ++found->second.dropped;
    return;
  }
  found->second.last_ns = tick.monotonic_ns;
  shared.queue.emplace_back(std::move(item));
  ++shared.waiting_ticks;
  ++shared.appended;
  shared.work.NotifyOne();
}

void RunStore::AppendWindow(int64_t node, WindowRecord window) {
  Shared& shared = *shared_;
  if (shared_.in_child()) return;
  const MutexLock lock(shared.mu);
  const auto found = shared.nodes.find(node);
  const bool fits = found != shared.nodes.end() &&
                    (window.energies.empty() || window.energies.size() == found->second.domains);
  if (!fits || shared.waiting_windows >= shared.options.max_waiting_windows) {
    if (shared.stats.windows_dropped++ == 0) {
      LogWarning("energy: {}: window {} is dropped: {}", shared.path, window.name,
                 fits ? "too many wait for the disk" : "it is of no node of this store");
    }
    return;
  }
  shared.queue.emplace_back(WaitingWindow{node, std::move(window)});
  ++shared.waiting_windows;
  ++shared.appended;
  shared.work.NotifyOne();
}

Status RunStore::Flush(int64_t timeout_ns) {
  Shared& shared = *shared_;
  EMLIO_RETURN_IF_ERROR(CheckProcess());
  const auto deadline = SteadyTime(SystemClock().NowNs() + timeout_ns);
  const MutexLock lock(shared.mu);
  const int64_t wanted = shared.appended;
  while (shared.finished < wanted) {
    if (shared.changed.WaitUntil(shared.mu, deadline) || shared.finished >= wanted) continue;
    return TimeoutError(fmt::format(
        "{} waits to be written: {}", shared.path,
        shared.stats.last_error.empty() ? "the disk is slow" : shared.stats.last_error));
  }
  return OkStatus();
}

RunStoreStats RunStore::Stats() const {
  if (shared_.in_child()) return {};
  const MutexLock lock(shared_->mu);
  return shared_->stats;
}

}  // namespace emlio::energy
