// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace emlio::plan {

// The keyed bijection on 0..size-1 that is one epoch's order (PLAN.md, "permute"). A few words of
// state, no table. Immutable and thread-safe.
class Permutation {
 public:
  static constexpr int kRounds = 8;
  static constexpr uint64_t kMaxSize = uint64_t{1} << 62;

  // REQUIRES: 1 <= size <= kMaxSize.
  Permutation(uint64_t seed, uint64_t epoch, uint64_t size);

  // REQUIRES: position < size.
  uint64_t operator()(uint64_t position) const;
  // values[i] = (*this)(first + i), several times faster than one by one because the rounds of
  // neighbouring positions overlap in the CPU. REQUIRES: first + values.size() <= size.
  void Fill(uint64_t first, std::span<uint64_t> values) const;

  const std::array<uint64_t, kRounds>& round_keys() const { return keys_; }

 private:
  uint64_t Network(uint64_t x) const;

  uint64_t size_;
  int low_bits_;
  int high_bits_;
  std::array<uint64_t, kRounds> keys_;
};

}  // namespace emlio::plan
