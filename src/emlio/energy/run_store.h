// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "emlio/base/clock.h"
#include "emlio/base/status.h"
#include "emlio/base/thread_owner.h"
#include "emlio/energy/run.h"

namespace emlio::energy {

struct RunStoreOptions {
  // What may wait for the disk: more is dropped and counted. A tick of 20 domains takes 2 KB.
  size_t max_waiting_ticks = 6000;
  size_t max_waiting_windows = 100'000;
  // After a loss of power at most so much is missing. What a process wrote survives its end at
  // once.
  int64_t sync_interval_ns = kNsPerSecond;
  // Ticks that are packed together.
  size_t chunk_ticks = 600;
  // How long another process may hold the file; only the store's own thread waits for it.
  int64_t busy_timeout_ns = 10 * kNsPerSecond;
};

struct RunStoreStats {
  int64_t ticks_written = 0;
  int64_t ticks_dropped = 0;  // the disk was slow, full or away for too long
  int64_t windows_written = 0;
  int64_t windows_dropped = 0;
  int64_t failures = 0;    // of the disk; what waits is tried again every second
  std::string last_error;  // empty: the last attempt succeeded
  int64_t cpu_ns = 0;      // of the store's thread
};

// Where runs are kept unless somebody says otherwise: $XDG_DATA_HOME/emlio/energy.db, else
// ~/.local/share/emlio/energy.db. kNotFound: the environment names neither.
Result<std::string> DefaultStorePath();

// Writes runs into one SQLite file (METRICS.md section 9) on a thread of its own. One file holds
// many runs of many nodes; several processes may write into it. All functions are thread-safe.
// Append… never waits for the disk; the others wait until what they are about is in the file.
class RunStore {
 public:
  // Makes the file, and its folder, when it is missing. kUnsupported: made by a later version of
  // EMLIO. kInvalidArgument: a file, or a database, of something else; it is left as it is.
  static Result<std::unique_ptr<RunStore>> Open(const std::string& path,
                                                RunStoreOptions options = {});
  // Waits until what was appended is written; at most for a failed attempt and one more.
  ~RunStore();
  RunStore(const RunStore&) = delete;
  RunStore& operator=(const RunStore&) = delete;

  const std::string& path() const;

  // kInvalidArgument when the file has a run of that id, or when JSON texts are no JSON objects.
  Status BeginRun(const Run& run);
  // A node of a run that this or another process began. The number names it below.
  Result<int64_t> AddNode(const std::string& run_id, const NodeInfo& info);
  // Replaces what changes. kInvalidArgument: the domains are others than those of AddNode.
  Status UpdateNode(int64_t node, const NodeInfo& info);
  // Replaces the report of the same sink and target.
  Status ReportSink(int64_t node, const SinkReport& report);
  Status AddNote(const std::string& run_id, const Note& note);
  // When and how the run ended.
  Status EndRun(const std::string& run_id, int64_t ended_wall_ns, std::optional<int> exit_status);

  // One tick of a node, later than those before. What does not fit is dropped and counted.
  void AppendTick(int64_t node, const Tick& tick);
  void AppendWindow(int64_t node, WindowRecord window);
  // Waits until all that was appended before is in the file. kTimeout, or why it cannot be written.
  Status Flush(int64_t timeout_ns);

  RunStoreStats Stats() const;

 private:
  struct Shared;
  Status CheckProcess() const;
  explicit RunStore(std::unique_ptr<Shared> shared);
  ThreadOwner<Shared> shared_;
};

struct StoredNode {
  int64_t id = 0;
  std::string run_id;
  NodeInfo info;
  int64_t first_tick_ns = 0;  // of its monotonic clock; both 0: no ticks
  int64_t last_tick_ns = 0;
  int64_t ticks = 0;
  int64_t ticks_dropped = 0;  // by the store
};

// Reads what a RunStore wrote, also while it writes. One thread at a time. Memory does not grow
// with the number of ticks and windows.
class RunReader {
 public:
  // kNotFound; kCorrupt or kInvalidArgument: no store of EMLIO's; kUnsupported: of a later version.
  static Result<std::unique_ptr<RunReader>> Open(const std::string& path);
  ~RunReader();
  RunReader(const RunReader&) = delete;
  RunReader& operator=(const RunReader&) = delete;

  // In the order in which they began.
  Result<std::vector<Run>> Runs();
  // kNotFound names the runs that there are. The id may be shortened as far as it stays unique;
  // empty: the latest run.
  Result<Run> FindRun(const std::string& id);
  Result<std::vector<StoredNode>> Nodes(const std::string& run_id);
  Result<std::vector<Note>> Notes(const std::string& run_id);
  Result<std::vector<SinkReport>> SinkReports(int64_t node);

  // Every window of a run, in the order of node and begin. An error that the function returns ends
  // the walk and is returned.
  Status ForEachWindow(const std::string& run_id,
                       const std::function<Status(int64_t node, const WindowRecord&)>& use);
  // Every tick of a node from `from_ns` up to and including `to_ns`, in the order of time. The
  // samples live until the function returns.
  Status ForEachTick(int64_t node, int64_t from_ns, int64_t to_ns,
                     const std::function<Status(const Tick&)>& use);

  // What Recorder::EdgeAt and Window said, or would have said, of this node: the same rules.
  Result<Edge> EdgeAt(const StoredNode& node, int64_t time_ns);
  Result<std::vector<Energy>> EnergyBetween(const StoredNode& node, int64_t begin_ns,
                                            int64_t end_ns, const WindowRules& rules = {});

 private:
  struct Database;
  explicit RunReader(std::unique_ptr<Database> database);
  std::unique_ptr<Database> database_;
};

}  // namespace emlio::energy
