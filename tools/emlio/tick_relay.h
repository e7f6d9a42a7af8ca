// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "emlio/base/clock.h"
#include "emlio/base/mutex.h"
#include "emlio/energy/accumulator.h"
#include "emlio/energy/sampler.h"

namespace emlio::tool {

// Hands a monitor's ticks on to somebody who can only begin once the monitor runs: those until then
// are kept, up to a thousand. Made before the monitor. Thread-safe.
class TickRelay {
 public:
  // Called on the sampler's thread, but for the ticks that were kept. Calls do not overlap.
  using Take = std::function<void(const energy::Moment&, std::span<const energy::Sample>)>;

  // For MonitorOptions::on_tick.
  void OnTick(const energy::TickView& tick) EMLIO_EXCLUDES(mu_);
  // Hands on what was kept, and from then on every tick as it comes.
  void Begin(Take take) EMLIO_EXCLUDES(mu_);
  // No tick is handed on, or kept, from here on.
  void End() EMLIO_EXCLUDES(mu_);

 private:
  struct Kept {
    energy::Moment taken;
    std::vector<energy::Sample> samples;
  };

  Mutex mu_;
  bool ended_ EMLIO_GUARDED_BY(mu_) = false;
  Take take_ EMLIO_GUARDED_BY(mu_);
  std::vector<Kept> kept_ EMLIO_GUARDED_BY(mu_);
};

}  // namespace emlio::tool
