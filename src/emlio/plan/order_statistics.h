// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

namespace emlio::plan {

using Order = std::vector<uint64_t>;

// The statistics. Each takes an order of `size` numbers for every epoch and returns by how many
// standard deviations a chi-square sum lies above what chance gives. All seeds are fixed, so the
// outcome never changes; the limit is far outside chance and far below what a weak network gives.
inline constexpr double kLimitSigmas = 6;
using OrderOfEpoch = std::function<Order(uint64_t epoch, uint64_t size)>;

// `degrees` may differ from the number of cells, which are equally likely.
inline double Sigmas(const std::vector<uint32_t>& counts, double expected, double cells,
                     double degrees) {
  double sum = 0;
  double empty_cells = cells;
  for (uint32_t count : counts) {
    if (count == 0) continue;
    sum += (count - expected) * (count - expected) / expected;
    --empty_cells;
  }
  sum += empty_cells * expected;
  return (sum - degrees) / std::sqrt(2 * degrees);
}

// Is every value equally frequent at every position?
inline double PositionSigmas(const OrderOfEpoch& order_of, uint64_t size, uint64_t epochs) {
  std::vector<uint32_t> counts(size * size);
  for (uint64_t epoch = 0; epoch < epochs; ++epoch) {
    const Order order = order_of(epoch, size);
    for (uint64_t i = 0; i < size; ++i) ++counts[i * size + order[i]];
  }
  const double n = static_cast<double>(size);
  return Sigmas(counts, static_cast<double>(epochs) / n, n * n, (n - 1) * (n - 1));
}

// Is every pair of different values equally frequent at neighbouring positions?
inline double NeighbourSigmas(const OrderOfEpoch& order_of, uint64_t size, uint64_t epochs) {
  std::vector<uint32_t> counts((size - 1) * size * size);
  for (uint64_t epoch = 0; epoch < epochs; ++epoch) {
    const Order order = order_of(epoch, size);
    for (uint64_t i = 0; i + 1 < size; ++i) ++counts[(i * size + order[i]) * size + order[i + 1]];
  }
  const double n = static_cast<double>(size);
  const double pairs = n * (n - 1);
  return Sigmas(counts, static_cast<double>(epochs) / pairs, (n - 1) * pairs,
                (n - 1) * (pairs - 1));
}

// Is every pair of values equally frequent at the same position of two epochs in a row?
inline double EpochSigmas(const OrderOfEpoch& order_of, uint64_t size, uint64_t epochs) {
  std::vector<uint32_t> counts(size * size);
  Order last = order_of(0, size);
  for (uint64_t epoch = 1; epoch <= epochs; ++epoch) {
    const Order order = order_of(epoch, size);
    for (uint64_t i = 0; i < size; ++i) ++counts[last[i] * size + order[i]];
    last = order;
  }
  const double n = static_cast<double>(size);
  return Sigmas(counts, static_cast<double>(epochs) / n, n * n, (n - 1) * (n - 1));
}

// Correlation of the values at neighbouring positions, in standard deviations.
inline double SerialSigmas(const Order& order) {
  const double n = static_cast<double>(order.size());
  const double mean = (n - 1) / 2;
  double covariance = 0;
  for (size_t i = 0; i + 1 < order.size(); ++i) {
    covariance +=
        (static_cast<double>(order[i]) - mean) * (static_cast<double>(order[i + 1]) - mean);
  }
  return std::abs(covariance / ((n * n - 1) / 12) / std::sqrt(n));
}

// How uneven the distances between neighbouring values are, over 64 classes of distances modulo
// the size: catches networks that move blocks of positions together.
inline double DistanceSigmas(const Order& order) {
  constexpr uint64_t kClasses = 64;
  std::vector<uint32_t> counts(kClasses);
  for (size_t i = 0; i + 1 < order.size(); ++i) {
    const uint64_t distance = (order[i + 1] + order.size() - order[i]) % order.size();
    ++counts[distance * kClasses / order.size()];
  }
  return Sigmas(counts, static_cast<double>(order.size() - 1) / kClasses, kClasses, kClasses - 1);
}

}  // namespace emlio::plan
