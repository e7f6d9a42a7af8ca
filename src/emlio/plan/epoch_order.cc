// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/plan/epoch_order.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace emlio::plan {
namespace {

// The draws of an epoch's state behind those that its permutation uses.
constexpr uint64_t kRotationDraw = Permutation::kRounds;
constexpr uint64_t kBlocksDraw = Permutation::kRounds + 1;
constexpr uint64_t kWindowsDraw = Permutation::kRounds + 2;

uint64_t OuterState(Shuffle shuffle, uint64_t state) {
  return shuffle == Shuffle::kBlock ? StateDraw(state, kBlocksDraw) : state;
}

}  // namespace

EpochOrder::EpochOrder(const PlanSpec::Source& source, uint64_t records, uint64_t state)
    : shuffle_(source.shuffle),
      records_(records),
      block_records_(std::max<uint64_t>(source.block_records, 1)),
      window_records_(std::min(block_records_ * source.window_blocks, records)),
      full_blocks_(records / block_records_),
      rotation_(StateDraw(state, kRotationDraw) % records),
      windows_state_(StateDraw(state, kWindowsDraw)),
      outer_(OuterState(shuffle_, state), std::max<uint64_t>(full_blocks_, 1)),
      window_(windows_state_, 1) {}

void EpochOrder::Fill(uint64_t first, std::span<uint64_t> numbers) {
  while (!numbers.empty()) {
    first %= records_;
    const uint64_t count = std::min<uint64_t>(numbers.size(), records_ - first);
    const std::span<uint64_t> run = numbers.first(count);
    switch (shuffle_) {
      case Shuffle::kNone:
        std::iota(run.begin(), run.end(), first);
        break;
      case Shuffle::kFull:
        outer_.Fill(first, run);
        break;
      case Shuffle::kBlock:
        FillBlocks(first, run);
        break;
    }
    first += count;
    numbers = numbers.subspan(count);
  }
}

void EpochOrder::FillBlocks(uint64_t first, std::span<uint64_t> numbers) {
  constexpr size_t kRun = 64;
  std::array<uint64_t, kRun> starts;
  while (!numbers.empty()) {
    if (first < window_begin_ || first >= window_end_) EnterWindow(first / window_records_);
    const size_t count = std::min<uint64_t>({numbers.size(), window_end_ - first, kRun});
    const std::span<uint64_t> run = numbers.first(count);
    window_.Fill(first - window_begin_, run);
    const uint64_t first_block = window_begin_ / block_records_;  // windows are whole blocks
    for (size_t i = 0; i < count; ++i) {
      const uint64_t block = run[i] / block_records_;
      run[i] -= block * block_records_;
      starts[i] = has_starts_ ? starts_[block] : first_block + block;
    }
    if (!has_starts_) BlockStarts(std::span(starts).first(count));
    for (size_t i = 0; i < count; ++i) {
      run[i] += starts[i];
      if (run[i] >= records_) run[i] -= records_;
    }
    first += count;
    numbers = numbers.subspan(count);
  }
}

uint64_t EpochOrder::PositionOf(uint64_t number) const {
  switch (shuffle_) {
    case Shuffle::kNone:
      return number;
    case Shuffle::kFull:
      return outer_.Inverse(number);
    case Shuffle::kBlock:
      break;
  }
  // FillBlocks, backwards.
  const uint64_t rotated = (number + (records_ - rotation_)) % records_;
  uint64_t block = rotated / block_records_;
  if (block < full_blocks_) block = outer_.Inverse(block);
  const uint64_t ordered = block * block_records_ + rotated % block_records_;
  const uint64_t window = ordered / window_records_;
  const uint64_t window_begin = window * window_records_;
  return window_begin + WindowOrder(window).Inverse(ordered - window_begin);
}

Permutation EpochOrder::WindowOrder(uint64_t window) const {
  const uint64_t begin = window * window_records_;
  return {DerivedState(windows_state_, window), std::min(window_records_, records_ - begin)};
}

void EpochOrder::EnterWindow(uint64_t window) {
  window_begin_ = window * window_records_;
  window_end_ = window_begin_ + std::min(window_records_, records_ - window_begin_);
  window_ = WindowOrder(window);
  const uint64_t first_block = window_begin_ / block_records_;
  const uint64_t blocks = (window_end_ - 1) / block_records_ + 1 - first_block;
  has_starts_ = blocks <= starts_.size();
  if (!has_starts_) return;
  const std::span<uint64_t> starts = std::span(starts_).first(blocks);
  std::iota(starts.begin(), starts.end(), first_block);
  BlockStarts(starts);
}

// In: numbers of blocks of this window, by position. Out: the first record number of each.
void EpochOrder::BlockStarts(std::span<uint64_t> blocks) const {
  if (window_end_ <= full_blocks_ * block_records_) {
    outer_.Apply(blocks);
  } else {  // the remainder, which stays the last, is among them
    for (uint64_t& block : blocks) block = block < full_blocks_ ? outer_(block) : block;
  }
  for (uint64_t& block : blocks) block = (block * block_records_ + rotation_) % records_;
}

}  // namespace emlio::plan
