// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "tick_relay.h"

#include <cstddef>
#include <utility>

namespace emlio::tool {
namespace {

constexpr size_t kMaxKept = 1000;

}  // namespace

void TickRelay::OnTick(const energy::TickView& tick) {
  const MutexLock lock(mu_);
  if (ended_) return;
  if (take_) return take_(tick.taken, tick.samples);
  if (kept_.size() < kMaxKept) {
    kept_.push_back({tick.taken, {tick.samples.begin(), tick.samples.end()}});
  }
}

void TickRelay::Begin(Take take) {
  const MutexLock lock(mu_);
  take_ = std::move(take);
  for (const Kept& tick : kept_) take_(tick.taken, tick.samples);
  kept_.clear();
}

void TickRelay::End() {
  const MutexLock lock(mu_);
  ended_ = true;
  kept_.clear();
}

}  // namespace emlio::tool
