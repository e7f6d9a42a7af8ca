// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/plan/shuffle_size.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <utility>

namespace emlio::plan {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kMib = uint64_t{1} << 20;

TEST(ShuffleSizeTest, ANumberIsRecordsAndAUnitMakesItBytes) {
  EXPECT_EQ(*ParseShuffleSize("500"), (ShuffleSize{500, false}));
  EXPECT_EQ(*ParseShuffleSize("1"), (ShuffleSize{1, false}));
  EXPECT_EQ(*ParseShuffleSize("7B"), (ShuffleSize{7, true}));
  EXPECT_EQ(*ParseShuffleSize("100KB"), (ShuffleSize{100'000, true}));
  EXPECT_EQ(*ParseShuffleSize("100KiB"), (ShuffleSize{102'400, true}));
  EXPECT_EQ(*ParseShuffleSize("4MiB"), (ShuffleSize{4 * kMib, true}));
  EXPECT_EQ(*ParseShuffleSize("2GB"), (ShuffleSize{2'000'000'000, true}));
  EXPECT_EQ(*ParseShuffleSize("17179869183GiB"), (ShuffleSize{17179869183u << 30, true}));
}

TEST(ShuffleSizeTest, WhatIsNoSizeIsRefusedWithExamples) {
  for (const char* text : {"", "0", "0MiB", "-1", "+1", " 5", "5 ", "1.5MiB", "4M", "4mib", "MiB",
                           "4 MiB", "0x10", "17179869184GiB", "18446744073709551616"}) {
    const auto size = ParseShuffleSize(text);
    ASSERT_FALSE(size.ok()) << text;
    EXPECT_EQ(size.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(size.status().message(), HasSubstr("'4MiB'"));
  }
}

std::pair<uint32_t, uint32_t> Made(ShuffleSize block, std::optional<ShuffleSize> window,
                                   uint64_t records, uint64_t bytes) {
  const auto sizes = MakeBlockSizes(block, window, records, bytes);
  EXPECT_TRUE(sizes.ok()) << sizes.status().ToString();
  return sizes.ok() ? std::pair(sizes->block_records, sizes->window_blocks) : std::pair(0u, 0u);
}

TEST(ShuffleSizeTest, BytesAreDividedByTheMeanRecord) {
  // 1,000 records of 100 KB: a block of 1 MiB has 10, a window of 64 MiB 671 in 68 blocks.
  EXPECT_EQ(Made(kDefaultShuffleBlock, std::nullopt, 1000, 100'000'000), std::pair(10u, 68u));
  EXPECT_EQ(Made({30, false}, ShuffleSize{90, false}, 1000, 1), std::pair(30u, 3u));
  EXPECT_EQ(Made({30, false}, ShuffleSize{91, false}, 1000, 1), std::pair(30u, 4u));
  EXPECT_EQ(Made({2 * kMib, true}, ShuffleSize{100, false}, 1000, 1000 * kMib), std::pair(2u, 50u));
}

TEST(ShuffleSizeTest, RecordsLargerThanABlockAreBlocksOfTheirOwn) {
  EXPECT_EQ(Made(kDefaultShuffleBlock, std::nullopt, 10, 100 * kMib), std::pair(1u, 6u));
  EXPECT_EQ(Made(kDefaultShuffleBlock, kDefaultShuffleWindow, 10, 1000 * kMib), std::pair(1u, 1u));
}

TEST(ShuffleSizeTest, TheDefaultWindowHoldsAtLeastOneBlock) {
  EXPECT_EQ(Made({200 * kMib, true}, std::nullopt, 1000, 1000 * kMib), std::pair(200u, 1u));
}

TEST(ShuffleSizeTest, AWindowSmallerThanABlockIsRefused) {
  const auto sizes = MakeBlockSizes({100, false}, ShuffleSize{99, false}, 1000, 1000);
  ASSERT_FALSE(sizes.ok());
  EXPECT_EQ(sizes.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(sizes.status().message(), HasSubstr("99 records is smaller"));
}

TEST(ShuffleSizeTest, HugeSizesDoNotOverflow) {
  constexpr uint64_t kHuge = std::numeric_limits<uint64_t>::max();
  EXPECT_EQ(Made({1, false}, ShuffleSize{kHuge, true}, uint64_t{1} << 62, 1),
            std::pair(1u, 0xffffffffu));
  EXPECT_FALSE(MakeBlockSizes({kHuge, false}, std::nullopt, 1, 1).ok());
  EXPECT_FALSE(MakeBlockSizes({kHuge, true}, std::nullopt, uint64_t{1} << 62, 1).ok());
}

}  // namespace
}  // namespace emlio::plan
