// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/plan/permutation.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace emlio::plan {
namespace {

constexpr uint64_t kGamma = 0x9E3779B97F4A7C15;
constexpr uint64_t kMultiplier1 = 0xBF58476D1CE4E5B9;
constexpr uint64_t kMultiplier2 = 0x94D049BB133111EB;
// Smaller networks do not mix well enough; walking a larger one costs little when there are at most
// a few dozen records (PLAN.md).
constexpr int kMinBits = 6;

uint64_t Mix(uint64_t z) {
  z = (z ^ (z >> 30)) * kMultiplier1;
  z = (z ^ (z >> 27)) * kMultiplier2;
  return z ^ (z >> 31);
}

inline uint64_t Top(uint64_t z, int bits) {
  z *= kMultiplier1;
  z ^= z >> 32;
  z *= kMultiplier2;
  return z >> (64 - bits);
}

}  // namespace

uint64_t EpochState(uint64_t seed, uint64_t epoch) {
  return DerivedState(Mix(seed + kGamma), epoch);
}

uint64_t DerivedState(uint64_t state, uint64_t number) { return Mix(state + number + kGamma); }

uint64_t StateDraw(uint64_t state, uint64_t index) { return Mix(state + (index + 1) * kGamma); }

Permutation::Permutation(uint64_t state, uint64_t size) : size_(size) {
  const int bits = std::max(kMinBits, static_cast<int>(std::bit_width(size - 1)));
  low_bits_ = (bits + 1) / 2;
  high_bits_ = bits / 2;
  for (int i = 0; i < kRounds; ++i) keys_[i] = StateDraw(state, i);
}

uint64_t Permutation::Network(uint64_t x) const {
  uint64_t high = x >> low_bits_;
  uint64_t low = x & ((uint64_t{1} << low_bits_) - 1);
  for (int i = 0; i < kRounds; i += 2) {
    high ^= Top(low ^ keys_[i], high_bits_);
    low ^= Top(high ^ keys_[i + 1], low_bits_);
  }
  return (high << low_bits_) | low;
}

uint64_t Permutation::InverseNetwork(uint64_t x) const {
  uint64_t high = x >> low_bits_;
  uint64_t low = x & ((uint64_t{1} << low_bits_) - 1);
  for (int i = kRounds - 2; i >= 0; i -= 2) {
    low ^= Top(high ^ keys_[i + 1], low_bits_);
    high ^= Top(low ^ keys_[i], high_bits_);
  }
  return (high << low_bits_) | low;
}

uint64_t Permutation::operator()(uint64_t position) const {
  // The walk ends: it follows the cycle of the network that `position`, itself below size_, is on.
  do {
    position = Network(position);
  } while (position >= size_);
  return position;
}

uint64_t Permutation::Inverse(uint64_t value) const {
  // The same walk backwards.
  do {
    value = InverseNetwork(value);
  } while (value >= size_);
  return value;
}

void Permutation::Fill(uint64_t first, std::span<uint64_t> values) const {
  std::iota(values.begin(), values.end(), first);
  Apply(values);
}

void Permutation::Apply(std::span<uint64_t> positions) const {
  // Enough independent chains to hide the latency of two multiplications, few enough for registers
  // and L1.
  constexpr size_t kLanes = 8;
  const uint64_t low_mask = (uint64_t{1} << low_bits_) - 1;
  size_t done = 0;
  for (; done + kLanes <= positions.size(); done += kLanes) {
    uint64_t high[kLanes];
    uint64_t low[kLanes];
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const uint64_t position = positions[done + lane];
      high[lane] = position >> low_bits_;
      low[lane] = position & low_mask;
    }
    for (int i = 0; i < kRounds; i += 2) {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        high[lane] ^= Top(low[lane] ^ keys_[i], high_bits_);
      }
      for (size_t lane = 0; lane < kLanes; ++lane) {
        low[lane] ^= Top(high[lane] ^ keys_[i + 1], low_bits_);
      }
    }
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const uint64_t value = (high[lane] << low_bits_) | low[lane];
      positions[done + lane] = value < size_ ? value : (*this)(value);
    }
  }
  for (; done < positions.size(); ++done) positions[done] = (*this)(positions[done]);
}

}  // namespace emlio::plan
