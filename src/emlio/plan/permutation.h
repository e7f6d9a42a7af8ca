// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace emlio::plan {

// What an epoch's order is drawn from: a stream of unrelated numbers for each state (PLAN.md,
// "State of an epoch").
uint64_t EpochState(uint64_t seed, uint64_t epoch);
// A state for one of the things, told apart by `number`, that need streams of their own.
uint64_t DerivedState(uint64_t state, uint64_t number);
// Element `index` of the state's stream. A permutation uses 0 to 7.
uint64_t StateDraw(uint64_t state, uint64_t index);

// The keyed bijection on 0..size-1 (PLAN.md, "permute"). A few words of state, no table. Immutable
// and thread-safe.
class Permutation {
 public:
  static constexpr int kRounds = 8;
  static constexpr uint64_t kMaxSize = uint64_t{1} << 62;

  // REQUIRES: 1 <= size <= kMaxSize.
  Permutation(uint64_t state, uint64_t size);

  // REQUIRES: position < size.
  uint64_t operator()(uint64_t position) const;
  // The position that has this value. REQUIRES: value < size.
  uint64_t Inverse(uint64_t value) const;
  // Puts the value of each position in its place, several times faster than one by one because the
  // rounds of different positions overlap in the CPU. REQUIRES: every position < size.
  void Apply(std::span<uint64_t> positions) const;
  // values[i] = (*this)(first + i), as fast. REQUIRES: first + values.size() <= size.
  void Fill(uint64_t first, std::span<uint64_t> values) const;

  const std::array<uint64_t, kRounds>& round_keys() const { return keys_; }

 private:
  uint64_t Network(uint64_t x) const;
  uint64_t InverseNetwork(uint64_t x) const;

  uint64_t size_;
  int low_bits_;
  int high_bits_;
  std::array<uint64_t, kRounds> keys_;
};

}  // namespace emlio::plan
