// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "emlio/base/mutex.h"
#include "emlio/base/status.h"
#include "emlio/energy/activity.h"
#include "emlio/energy/detect.h"
#include "emlio/energy/gpu_busy.h"
#include "emlio/energy/host_share.h"
#include "emlio/energy/sampler.h"

namespace emlio::energy {

// What a window is of. Anything may be left out.
struct WindowLabel {
  std::string name;
  std::string stage;  // "R", "R+P", "T", ...: what windows of one stage have in common
  int64_t epoch = -1;
  int64_t rank = -1;
};

// What was done in a window, as far as whoever closes it knows.
struct WindowWork {
  uint64_t records = 0;
  uint64_t bytes = 0;
};

using WindowId = uint64_t;  // from 1 on; 0: none

// A window with what its host used in it.
struct WindowReport {
  WindowId id = 0;
  WindowLabel label;
  WindowWork work;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  bool cut = false;              // still open when the report was made, or when the monitor stopped
  std::vector<Energy> energies;  // in the order of Recorder::domains()
  Total total;
};

// Whose update period is measured at the start: that takes half a second when there is any.
enum class UpdateCheck { kNone, kGpus, kAll };

struct MonitorOptions {
  Host host;
  std::string node;  // this host's name in runs; empty: what it is called
  int64_t interval_ns = 100 * kNsPerMs;
  UpdateCheck update_check = UpdateCheck::kGpus;
  bool believe_checks = true;  // see TakeDramChecks
  // One of all the processes that measure this host in the same way reads its counters, the others
  // take its readings (host_share.h). Not for another root, where `share_file` says where.
  bool share = true;
  std::string share_file;
  WindowRules rules;
  // Readings that come later may change what is known of a moment: a window is final only when so
  // much has been sampled behind its end. At most a quarter of the samples that are kept.
  int64_t settle_ns = 10 * kNsPerSecond;
  size_t kept_ticks = RecorderOptions{}.kept_ticks;
  size_t kept_windows = 10'000;  // final ones; older ones are forgotten
  // Both on the sampler's thread: whoever is slow here makes ticks late.
  std::function<void(const TickView&)> on_tick;
  std::function<void(const WindowReport&)> on_window;  // each final window once
};

// Measures this host from Start until Stop, and what windows of that time used. All functions are
// thread-safe. Opening and closing a window reads the clock and takes one short lock: no I/O, no
// waiting for readings. In a child made by fork windows are not recorded, and what asks for
// energies says so.
class Monitor {
 public:
  static Result<std::unique_ptr<Monitor>> Start(MonitorOptions options);
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  const std::string& node() const { return node_; }
  const std::vector<Domain>& domains() const { return domains_; }
  const std::vector<Absence>& absent() const { return absent_; }
  const CpuFacts& cpu() const { return cpu_; }
  int64_t interval_ns() const { return options_.interval_ns; }
  // Whether this process reads the counters; false: another one does, for all.
  bool elected() const { return share_ == nullptr || share_->role() == HostShare::Role::kElected; }

  // Windows may lie inside one another, overlap, and be closed by another thread. 0 when the
  // monitor was stopped, or in a child.
  WindowId Open(WindowLabel label) { return OpenAt(std::move(label), kNow); }
  // Of one that is not open: nothing.
  void Close(WindowId id, WindowWork work = {}) { CloseAt(id, kNow, work); }
  // The same at a moment that has passed. What lies before the samples that are kept is not
  // sampled.
  WindowId OpenAt(WindowLabel label, int64_t begin_ns);
  void CloseAt(WindowId id, int64_t end_ns, WindowWork work = {});

  // What a window used: of one that is open, until now. Waits until its end was sampled, about one
  // interval. kNotFound for one that is forgotten or never was.
  Result<WindowReport> Report(WindowId id);
  // What was used between two moments that are among the samples still kept (ten minutes).
  Result<WindowReport> Between(int64_t begin_ns, int64_t end_ns);
  // The same without waiting: of one that is open or was closed just now, until the last sample.
  Result<WindowReport> ReportSoFar(WindowId id);
  // All closed windows that are not forgotten, in the order of their begin. Waits as Report does.
  Result<std::vector<WindowReport>> Reports();
  // Closed windows behind that id whose end has been sampled, in the order of ids, at most so many.
  Result<std::vector<WindowReport>> ReportsAfter(WindowId id, size_t most);
  // How many final windows were forgotten.
  uint64_t forgotten_windows() const;

  // What the host has done, its GPUs since the monitor started.
  Activity ReadActivity() const;

  Result<SamplerStats> Stats() const { return sampler_->Stats(); }
  Result<const Recorder*> recorder() const { return sampler_->recorder(); }

  // Takes the last sample, closes what is open, and makes every window final. Again: nothing.
  void Stop();

 private:
  static constexpr int64_t kNow = INT64_MAX;
  struct Entry {
    WindowReport report;
    std::optional<Edge> begin;
    std::optional<Edge> end;
    bool final = false;  // the report is complete
  };
  using Entries = std::map<WindowId, Entry>;

  Monitor(MonitorOptions options, Detection detection);
  bool InChild() const;
  void TakeGpuBusy(int64_t now_ns);
  // The entry of a window that is not final, or what its report says; `until_ns`: where one that is
  // open ends.
  Result<Entry> Find(WindowId id, int64_t until_ns);
  // Takes the edges of what was sampled long enough ago, or of everything.
  void Settle(const Recorder& recorder, bool all);
  // The energies of an entry, whose missing edges are taken from the samples.
  WindowReport Complete(const Recorder& recorder, Entry entry) const;

  const MonitorOptions options_;
  const std::string node_;
  const std::vector<Absence> absent_;
  const CpuFacts cpu_;
  const pid_t pid_;
  std::vector<Domain> domains_;
  std::shared_ptr<HostShare> share_;  // null: this process measures for itself
  // Used by the sampler's thread.
  std::unique_ptr<GpuBusy> gpu_busy_;
  int64_t gpu_busy_ns_ = 0;
  std::atomic<double> gpu_seconds_{0};
  std::unique_ptr<Sampler> sampler_;

  // Not destroyed in a child of fork, where a lock may be held by a thread that is not there.
  struct Windows {
    Mutex mu;
    bool stopped EMLIO_GUARDED_BY(mu) = false;
    WindowId next_id EMLIO_GUARDED_BY(mu) = 1;
    Entries open EMLIO_GUARDED_BY(mu);
    Entries closed EMLIO_GUARDED_BY(mu);  // not final yet
    std::deque<WindowReport> final EMLIO_GUARDED_BY(mu);
    uint64_t forgotten EMLIO_GUARDED_BY(mu) = 0;
    // Edges to take, in the order of time: when, and whose.
    std::multimap<int64_t, WindowId> begins EMLIO_GUARDED_BY(mu);
    std::multimap<int64_t, WindowId> ends EMLIO_GUARDED_BY(mu);
  };
  std::unique_ptr<Windows> windows_ = std::make_unique<Windows>();
};

// A window for as long as a C++ scope lasts.
class ScopedWindow {
 public:
  // REQUIRES: `monitor` outlives it, or is null: then it does nothing.
  ScopedWindow(Monitor* monitor, WindowLabel label)
      : monitor_(monitor), id_(monitor != nullptr ? monitor->Open(std::move(label)) : 0) {}
  ~ScopedWindow() { Close(); }
  ScopedWindow(const ScopedWindow&) = delete;
  ScopedWindow& operator=(const ScopedWindow&) = delete;

  void Close(WindowWork work = {}) {
    if (monitor_ != nullptr) monitor_->Close(id_, work);
    monitor_ = nullptr;
  }
  WindowId id() const { return id_; }

 private:
  Monitor* monitor_;
  const WindowId id_;
};

}  // namespace emlio::energy
