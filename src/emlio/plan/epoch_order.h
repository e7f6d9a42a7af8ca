// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "emlio/plan/permutation.h"
#include "emlio/plan/plan.h"

namespace emlio::plan {

// The order of one epoch (PLAN.md, "Order of an epoch"): which record number is at a position. A
// few words of state, any position in O(1). It remembers the window that it is in, so runs of
// positions cost little more than their records; made anew for every batch. Not thread-safe.
class EpochOrder {
 public:
  // `state` is the epoch's EpochState. REQUIRES: a source that Plan::Create accepts, of `records`
  // records in all.
  EpochOrder(const PlanSpec::Source& source, uint64_t records, uint64_t state);

  // The record numbers at the positions from `first` on. Behind the last one the order begins anew.
  void Fill(uint64_t first, std::span<uint64_t> numbers);
  // The first position that has this record number. REQUIRES: number < records.
  uint64_t PositionOf(uint64_t number) const;

 private:
  void FillBlocks(uint64_t first, std::span<uint64_t> numbers);
  Permutation WindowOrder(uint64_t window) const;
  void EnterWindow(uint64_t window);
  void BlockStarts(std::span<uint64_t> blocks) const;

  const Shuffle shuffle_;
  const uint64_t records_;
  const uint64_t block_records_;
  const uint64_t window_records_;
  const uint64_t full_blocks_;
  const uint64_t rotation_;
  const uint64_t windows_state_;
  const Permutation outer_;  // of the records (full) or of the full blocks (block)
  Permutation window_;       // of the positions inside the present window
  uint64_t window_begin_ = 0;
  uint64_t window_end_ = 0;  // window_begin_: in none yet
  // First record numbers of the window's blocks, by place, where they are few: a batch asks for
  // each of them several times.
  bool has_starts_ = false;
  std::array<uint64_t, 256> starts_;
};

}  // namespace emlio::plan
