// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

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
#include "emlio/energy/detect.h"
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
  int64_t interval_ns = 100 * kNsPerMs;
  UpdateCheck update_check = UpdateCheck::kGpus;
  WindowRules rules;
  // Readings that come later may change what is known of a moment: a window is final only when so
  // much has been sampled behind its end. At most a quarter of the samples that are kept.
  int64_t settle_ns = 10 * kNsPerSecond;
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

  // Windows may lie inside one another, overlap, and be closed by another thread. 0 when the
  // monitor was stopped, or in a child.
  WindowId Open(WindowLabel label) EMLIO_EXCLUDES(mu_);
  // Of one that is not open: nothing.
  void Close(WindowId id, WindowWork work = {}) EMLIO_EXCLUDES(mu_);

  // What a window used: of one that is open, until now. Waits until its end was sampled, about one
  // interval. kNotFound for one that is forgotten or never was.
  Result<WindowReport> Report(WindowId id) EMLIO_EXCLUDES(mu_);
  // What was used between two moments that are among the samples still kept (ten minutes).
  Result<WindowReport> Between(int64_t begin_ns, int64_t end_ns);
  // All closed windows that are not forgotten, in the order of their begin. Waits as Report does.
  Result<std::vector<WindowReport>> Reports() EMLIO_EXCLUDES(mu_);
  // How many final windows were forgotten.
  uint64_t forgotten_windows() const EMLIO_EXCLUDES(mu_);

  Result<SamplerStats> Stats() const { return sampler_->Stats(); }
  Result<const Recorder*> recorder() const { return sampler_->recorder(); }

  // Takes the last sample, closes what is open, and makes every window final. Again: nothing.
  void Stop() EMLIO_EXCLUDES(mu_);

 private:
  struct Entry {
    WindowReport report;
    std::optional<Edge> begin;
    std::optional<Edge> end;
  };
  using Entries = std::map<WindowId, Entry>;

  Monitor(MonitorOptions options, Detection detection);
  bool InChild() const;
  // Takes the edges of what was sampled long enough ago, or of everything.
  void Settle(const Recorder& recorder, bool all) EMLIO_EXCLUDES(mu_);
  // The energies of an entry, whose missing edges are taken from the samples.
  WindowReport Complete(const Recorder& recorder, Entry entry) const;

  const MonitorOptions options_;
  const std::string node_;
  const std::vector<Absence> absent_;
  const CpuFacts cpu_;
  const pid_t pid_;
  std::vector<Domain> domains_;
  std::unique_ptr<Sampler> sampler_;

  mutable Mutex mu_;
  bool stopped_ EMLIO_GUARDED_BY(mu_) = false;
  WindowId next_id_ EMLIO_GUARDED_BY(mu_) = 1;
  Entries open_ EMLIO_GUARDED_BY(mu_);
  Entries closed_ EMLIO_GUARDED_BY(mu_);  // not final yet
  std::deque<WindowReport> final_ EMLIO_GUARDED_BY(mu_);
  uint64_t forgotten_ EMLIO_GUARDED_BY(mu_) = 0;
  // Edges to take, in the order of time: whose, and when.
  std::deque<std::pair<int64_t, WindowId>> begins_ EMLIO_GUARDED_BY(mu_);
  std::deque<std::pair<int64_t, WindowId>> ends_ EMLIO_GUARDED_BY(mu_);
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
