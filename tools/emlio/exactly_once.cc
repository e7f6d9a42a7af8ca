// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "exactly_once.h"

#include <numeric>

namespace emlio::tool {

void ExactlyOnce::BeginPass(uint64_t epoch, uint64_t first_step) {
  epoch_ = epoch;
  first_step_ = first_step;
  distinct_ = 0;
  steps_.clear();
  seen_.assign((plan_.records() + 63) / 64, 0);
}

void ExactlyOnce::Add(uint64_t step, std::span<const uint64_t> indices) {
  if (steps_.empty() || steps_.back() != step) steps_.push_back(step);
  for (const uint64_t index : indices) {
    if (index >= plan_.records()) {
      ++unexpected_;
      continue;
    }
    uint64_t& word = seen_[index / 64];
    const uint64_t bit = uint64_t{1} << (index % 64);
    if ((word & bit) != 0) {
      ++repeated_;
    } else {
      word |= bit;
      ++distinct_;
    }
  }
}

void ExactlyOnce::EndPass(bool ended) {
  if (ended) {
    steps_.resize(plan_.steps_per_epoch() - first_step_);
    std::iota(steps_.begin(), steps_.end(), first_step_);
  }
  uint64_t due = 0, due_and_seen = 0;
  for (const uint64_t step : steps_) {
    plan::StepShare share = plan_.Share(step, rank_, world_size_);
    share.slots -= share.padded;
    plan_.Numbers(epoch_, share, &due_);
    for (const uint64_t index : due_) due_and_seen += (seen_[index / 64] >> (index % 64)) & 1;
    due += share.slots;
  }
  missing_ += due - due_and_seen;
  unexpected_ += distinct_ - due_and_seen;
  ++passes_;
}

}  // namespace emlio::tool
