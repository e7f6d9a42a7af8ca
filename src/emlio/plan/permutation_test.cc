// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/plan/permutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <span>
#include <vector>

#include "emlio/plan/test_vectors.h"

namespace emlio::plan {
namespace {

using Order = std::vector<uint64_t>;

Order OrderOf(uint64_t seed, uint64_t epoch, uint64_t size) {
  Order order(size);
  Permutation(seed, epoch, size).Fill(0, order);
  return order;
}

void ExpectEveryNumberOnce(Order order) {
  std::sort(order.begin(), order.end());
  for (size_t i = 0; i < order.size(); ++i) {
    ASSERT_EQ(order[i], i) << "size " << order.size();
  }
}

TEST(PermutationTest, RoundKeysEqualTheVectors) {
  for (const auto& vector : TestVectors("round_keys")) {
    const Permutation permutation(vector["seed"], vector["epoch"], 1);
    EXPECT_EQ(permutation.round_keys(), (vector["keys"].get<std::array<uint64_t, 8>>())) << vector;
  }
}

TEST(PermutationTest, ValuesEqualTheVectors) {
  for (const auto& vector : TestVectors("permutations")) {
    const Permutation permutation(vector["seed"], vector["epoch"], vector["size"]);
    Order values;
    for (uint64_t position : vector["positions"]) values.push_back(permutation(position));
    EXPECT_EQ(values, vector["values"].get<Order>()) << vector["size"];
  }
}

TEST(PermutationTest, IsABijectionForEverySmallSize) {
  for (uint64_t size = 1; size <= 300; ++size) ExpectEveryNumberOnce(OrderOf(size * 7, 3, size));
}

TEST(PermutationTest, IsABijectionAroundPowersOfTwo) {
  for (int bits = 9; bits <= 17; ++bits) {
    const uint64_t power = uint64_t{1} << bits;
    for (uint64_t size : {power - 1, power, power + 1}) ExpectEveryNumberOnce(OrderOf(1, 0, size));
  }
}

TEST(PermutationTest, HugeSizesGiveDistinctNumbersInRange) {
  for (uint64_t size : {uint64_t{1'000'000'000'000}, (uint64_t{1} << 40) + 1,
                        (uint64_t{1} << 53) - 1, Permutation::kMaxSize}) {
    const Permutation permutation(5, 9, size);
    Order values(200'000);
    permutation.Fill(0, std::span(values).first(100'000));
    permutation.Fill(size - 100'000, std::span(values).last(100'000));
    std::sort(values.begin(), values.end());
    EXPECT_LT(values.back(), size);
    EXPECT_EQ(std::adjacent_find(values.begin(), values.end()), values.end()) << size;
    // Spread over the whole range: the largest of 200,000 uniform numbers lies in its top tenth.
    EXPECT_GT(values.back(), size / 10 * 9);
    EXPECT_LT(values.front(), size / 10);
  }
}

TEST(PermutationTest, FillEqualsOneByOneAtAnyOffsetAndLength) {
  for (uint64_t size : {1, 2, 3, 7, 8, 9, 40, 1000}) {
    const Permutation permutation(2, 4, size);
    for (uint64_t first = 0; first < size; first += 1 + size / 10) {
      for (uint64_t count = 0; count <= std::min<uint64_t>(size - first, 40); ++count) {
        Order values(count);
        permutation.Fill(first, values);
        for (uint64_t i = 0; i < count; ++i) ASSERT_EQ(values[i], permutation(first + i));
      }
    }
  }
}

// The statistics. Each takes an order of `size` numbers for every epoch and returns by how many
// standard deviations a chi-square sum lies above what chance gives. All seeds are fixed, so the
// outcome never changes; the limit is far outside chance and far below what a weak network gives.
constexpr double kLimitSigmas = 6;
using EpochOrder = std::function<Order(uint64_t epoch, uint64_t size)>;

// `degrees` may differ from the number of cells, which are equally likely.
double Sigmas(const std::vector<uint32_t>& counts, double expected, double cells, double degrees) {
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
double PositionSigmas(const EpochOrder& order_of, uint64_t size, uint64_t epochs) {
  std::vector<uint32_t> counts(size * size);
  for (uint64_t epoch = 0; epoch < epochs; ++epoch) {
    const Order order = order_of(epoch, size);
    for (uint64_t i = 0; i < size; ++i) ++counts[i * size + order[i]];
  }
  const double n = static_cast<double>(size);
  return Sigmas(counts, static_cast<double>(epochs) / n, n * n, (n - 1) * (n - 1));
}

// Is every pair of different values equally frequent at neighbouring positions?
double NeighbourSigmas(const EpochOrder& order_of, uint64_t size, uint64_t epochs) {
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
double EpochSigmas(const EpochOrder& order_of, uint64_t size, uint64_t epochs) {
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
double SerialSigmas(const Order& order) {
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
double DistanceSigmas(const Order& order) {
  constexpr uint64_t kClasses = 64;
  std::vector<uint32_t> counts(kClasses);
  for (size_t i = 0; i + 1 < order.size(); ++i) {
    const uint64_t distance = (order[i + 1] + order.size() - order[i]) % order.size();
    ++counts[distance * kClasses / order.size()];
  }
  return Sigmas(counts, static_cast<double>(order.size() - 1) / kClasses, kClasses, kClasses - 1);
}

Order FullStrength(uint64_t epoch, uint64_t size) { return OrderOf(1, epoch, size); }

// PLAN.md's network cut to two rounds.
Order TwoRounds(uint64_t epoch, uint64_t size) {
  const auto keys = Permutation(1, epoch, size).round_keys();
  const int bits = std::max(6, static_cast<int>(std::bit_width(size - 1)));
  const int high_bits = bits / 2;
  const int low_bits = bits - high_bits;
  const auto top = [](uint64_t z, int count) {
    z *= 0xBF58476D1CE4E5B9;
    z ^= z >> 32;
    z *= 0x94D049BB133111EB;
    return z >> (64 - count);
  };
  Order order(size);
  for (uint64_t i = 0; i < size; ++i) {
    uint64_t x = i;
    do {
      uint64_t high = x >> low_bits;
      uint64_t low = x % (uint64_t{1} << low_bits);
      high ^= top(low ^ keys[0], high_bits);
      low ^= top(high ^ keys[1], low_bits);
      x = (high << low_bits) | low;
    } while (x >= size);
    order[i] = x;
  }
  return order;
}

TEST(PermutationStatisticsTest, EveryValueIsEquallyFrequentAtEveryPosition) {
  for (uint64_t size : {2, 3, 5, 8, 16, 33, 64, 100}) {
    EXPECT_LT(PositionSigmas(FullStrength, size, 20'000), kLimitSigmas) << size;
  }
}

TEST(PermutationStatisticsTest, NeighbouringPositionsAreUnrelated) {
  for (uint64_t size : {3, 5, 8, 16, 33}) {
    EXPECT_LT(NeighbourSigmas(FullStrength, size, 40'000), kLimitSigmas) << size;
  }
}

TEST(PermutationStatisticsTest, OneEpochTellsNothingAboutTheNext) {
  for (uint64_t size : {2, 3, 8, 33, 64}) {
    EXPECT_LT(EpochSigmas(FullStrength, size, 20'000), kLimitSigmas) << size;
  }
}

TEST(PermutationStatisticsTest, SeedsAreAsUnrelatedAsEpochs) {
  const auto by_seed = [](uint64_t seed, uint64_t size) { return OrderOf(seed, 0, size); };
  for (uint64_t size : {3, 8, 33}) {
    EXPECT_LT(PositionSigmas(by_seed, size, 20'000), kLimitSigmas) << size;
    EXPECT_LT(NeighbourSigmas(by_seed, size, 20'000), kLimitSigmas) << size;
    EXPECT_LT(EpochSigmas(by_seed, size, 20'000), kLimitSigmas) << size;
  }
}

TEST(PermutationStatisticsTest, LargeOrdersHaveNoSerialPattern) {
  for (uint64_t size : {1'000, 65'536, 65'537, 500'000}) {
    for (uint64_t epoch = 0; epoch < 4; ++epoch) {
      const Order order = FullStrength(epoch, size);
      EXPECT_LT(SerialSigmas(order), kLimitSigmas) << size;
      EXPECT_LT(DistanceSigmas(order), kLimitSigmas) << size;
    }
  }
}

TEST(PermutationStatisticsTest, TheStatisticsCatchTwoRounds) {
  for (uint64_t size : {3, 16, 33}) {
    EXPECT_GT(PositionSigmas(TwoRounds, size, 20'000), 5 * kLimitSigmas) << size;
  }
  for (uint64_t size : {3, 8, 16, 33, 64}) {
    EXPECT_GT(NeighbourSigmas(TwoRounds, size, 20'000), 5 * kLimitSigmas) << size;
  }
  EXPECT_GT(EpochSigmas(TwoRounds, 3, 20'000), 5 * kLimitSigmas);
  EXPECT_GT(DistanceSigmas(TwoRounds(0, 65'536)), 5 * kLimitSigmas);
  EXPECT_GT(DistanceSigmas(TwoRounds(0, 500'000)), 5 * kLimitSigmas);
}

TEST(PermutationStatisticsTest, TheStatisticsCatchAnOrderThatOnlyRotates) {
  const auto rotation = [](uint64_t epoch, uint64_t size) {
    Order order(size);
    for (uint64_t i = 0; i < size; ++i) order[i] = (i + epoch) % size;
    return order;
  };
  EXPECT_GT(NeighbourSigmas(rotation, 33, 20'000), 5 * kLimitSigmas);
  EXPECT_GT(EpochSigmas(rotation, 33, 20'000), 5 * kLimitSigmas);
  EXPECT_GT(SerialSigmas(rotation(0, 65'536)), 5 * kLimitSigmas);
  EXPECT_GT(DistanceSigmas(rotation(0, 65'536)), 5 * kLimitSigmas);
}

}  // namespace
}  // namespace emlio::plan
