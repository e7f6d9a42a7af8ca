// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace emlio::convert {

// SplitMix64, seeded with two numbers that count equally: the same values on every machine, unlike
// the standard library's distributions. https://prng.di.unimi.it/splitmix64.c
class Random {
 public:
  Random(uint64_t seed, uint64_t stream) : state_(Mix(Mix(seed + kGamma) + stream + kGamma)) {}

  uint64_t Next() { return Mix(state_ += kGamma); }

 private:
  static constexpr uint64_t kGamma = 0x9E3779B97F4A7C15;
  static uint64_t Mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }

  uint64_t state_;
};

}  // namespace emlio::convert
