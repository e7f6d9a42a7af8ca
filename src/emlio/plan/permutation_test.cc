// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/plan/permutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <vector>

#include "emlio/plan/order_statistics.h"
#include "emlio/plan/test_vectors.h"

namespace emlio::plan {
namespace {

Order OrderOf(uint64_t seed, uint64_t epoch, uint64_t size) {
  Order order(size);
  Permutation(EpochState(seed, epoch), size).Fill(0, order);
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
    const Permutation permutation(EpochState(vector["seed"], vector["epoch"]), 1);
    EXPECT_EQ(permutation.round_keys(), (vector["keys"].get<std::array<uint64_t, 8>>())) << vector;
  }
}

TEST(PermutationTest, ValuesEqualTheVectors) {
  for (const auto& vector : TestVectors("permutations")) {
    const Permutation permutation(EpochState(vector["seed"], vector["epoch"]), vector["size"]);
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
    const Permutation permutation(EpochState(5, 9), size);
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

TEST(PermutationTest, InverseFindsThePositionOfEveryValue) {
  for (uint64_t size = 1; size <= 300; ++size) {
    const Permutation permutation(EpochState(size, 1), size);
    for (uint64_t position = 0; position < size; ++position) {
      ASSERT_EQ(permutation.Inverse(permutation(position)), position) << size;
    }
  }
  for (uint64_t size : {(uint64_t{1} << 40) + 1, Permutation::kMaxSize}) {
    const Permutation permutation(EpochState(3, 4), size);
    for (uint64_t i = 0; i < 10'000; ++i) {
      const uint64_t position = size / 10'000 * i;
      ASSERT_EQ(permutation.Inverse(permutation(position)), position) << size;
    }
  }
}

TEST(PermutationTest, FillEqualsOneByOneAtAnyOffsetAndLength) {
  for (uint64_t size : {1, 2, 3, 7, 8, 9, 40, 1000}) {
    const Permutation permutation(EpochState(2, 4), size);
    for (uint64_t first = 0; first < size; first += 1 + size / 10) {
      for (uint64_t count = 0; count <= std::min<uint64_t>(size - first, 40); ++count) {
        Order values(count);
        permutation.Fill(first, values);
        for (uint64_t i = 0; i < count; ++i) ASSERT_EQ(values[i], permutation(first + i));
      }
    }
  }
}

Order FullStrength(uint64_t epoch, uint64_t size) { return OrderOf(1, epoch, size); }

// PLAN.md's network cut to two rounds.
Order TwoRounds(uint64_t epoch, uint64_t size) {
  const auto keys = Permutation(EpochState(1, epoch), size).round_keys();
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
