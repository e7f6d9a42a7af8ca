// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "emlio/base/mutex.h"
#include "emlio/base/status.h"
#include "emlio/energy/monitor.h"
#include "emlio/energy/run.h"
#include "emlio/energy/run_store.h"
#include "emlio/energy_agent/node_set.h"
#include "node_writer.h"
#include "tick_relay.h"

namespace emlio::tool {

// Writes a run into a store while it is measured: ticks of all nodes and windows of this host as
// they come, what other nodes told at the end. What cannot be written is told in a warning and
// stops nothing. Made before the monitor, which calls on_tick and on_window.
class RunWriter {
 public:
  // For MonitorOptions. Both may be called by the sampler's thread until the monitor has stopped.
  void OnTick(const energy::TickView& tick) { relay_.OnTick(tick); }
  void OnWindow(const energy::WindowReport& window) EMLIO_EXCLUDES(mu_);

  // From here on there is a store; the ticks before are written, too.
  Status Begin(const std::string& path, const energy::Run& run, const energy::Moment& began,
               const energy::Monitor& monitor, const std::string& boot_id, std::string facts,
               std::shared_ptr<energy_agent::NodeSet> nodes) EMLIO_EXCLUDES(mu_);

  // What a reader of the run has to know. REQUIRES: Begin succeeded.
  Status AddNote(const energy::Note& note) EMLIO_EXCLUDES(mu_);

  // The store's file; empty: there is none.
  std::string path() const EMLIO_EXCLUDES(mu_);

  // The run's own window on this host begins.
  void SetRunWindow(energy::WindowId window) EMLIO_EXCLUDES(mu_);
  // The run's command could not be started.
  Status EndUnstarted(int64_t ended_wall_ns, int exit_status) EMLIO_EXCLUDES(mu_);

  struct Outcome {
    energy::Moment ended;
    energy::ClockReading clock_began;
    energy::ClockReading clock_ended;
    energy::Activity activity;
    std::optional<int> exit_status;
  };
  // REQUIRES: the monitor has stopped.
  Status End(const energy::Monitor& monitor, const Outcome& outcome,
             const std::vector<energy_agent::NodeReport>& others,
             const std::vector<energy::SinkReport>& sinks) EMLIO_EXCLUDES(mu_);

 private:
  TickRelay relay_;

  mutable Mutex mu_;
  std::unique_ptr<energy::RunStore> store_ EMLIO_GUARDED_BY(mu_);
  std::unique_ptr<NodeWriter>
      nodes_;  // after the store, which it uses; of Begin's and End's caller
  std::string run_id_ EMLIO_GUARDED_BY(mu_);
  energy::NodeInfo info_ EMLIO_GUARDED_BY(mu_);
  int64_t node_ EMLIO_GUARDED_BY(mu_) = 0;
  bool ended_ EMLIO_GUARDED_BY(mu_) = false;
  energy::WindowId run_window_ EMLIO_GUARDED_BY(mu_) = 0;
  energy::Moment began_ EMLIO_GUARDED_BY(mu_);
  energy::WindowReport run_report_ EMLIO_GUARDED_BY(mu_);
};

}  // namespace emlio::tool
