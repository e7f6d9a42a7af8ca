// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
// Batches in the order in which they become complete.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "emlio/loader/loader.h"
#include "emlio/loader/loader_testing.h"

namespace emlio::loader {
namespace {

TEST_F(LoaderTest, InOrderReadyBatchesGoOnBesideASourceThatIsBlocked) {
  WriteAlternating(6, 10);
  GatedListener* gate = nullptr;
  auto a = ServeGated("a", &gate);
  auto b = Serve("b");
  LoaderOptions options = Options({Url(*a), Url(*b)}, 5);  // steps 0, 1, 4, 5, 8, 9 are of a
  options.order = Order::kReady;
  options.ready_window = 8;
  auto loader = Open(options);
  ASSERT_NE(loader, nullptr);
  EXPECT_EQ(loader->steps_per_epoch(), 12u);
  gate->Shut();
  ASSERT_TRUE(loader->StartPass({0, 0}).ok());
  AwaitReady(*loader, 6);
  for (const uint64_t step : {2, 3, 6, 7}) {
    auto batch = loader->Next();
    ASSERT_TRUE(batch.ok()) << batch.status().ToString();
    EXPECT_EQ((*batch)->step(), step);
  }
  // Steps 10 and 11 are complete, too, but too far from step 0.
  EXPECT_EQ(loader->stats().ready_batches_now, 2u);
  EXPECT_EQ(loader->Next([] { return true; }).status().code(), Code::kCancelled);
  EXPECT_EQ(loader->cursor(), (Cursor{0, 0, {2, 3, 6, 7}}));
  gate->Reopen();
  std::vector<uint64_t> steps;
  for (auto batch = loader->Next();; batch = loader->Next()) {
    ASSERT_TRUE(batch.ok()) << batch.status().ToString();
    if (*batch == nullptr) break;
    steps.push_back((*batch)->step());
  }
  EXPECT_THAT(steps, ::testing::UnorderedElementsAre(0, 1, 4, 5, 8, 9, 10, 11));
  EXPECT_EQ(loader->cursor(), (Cursor{1, 0}));
}

TEST_F(LoaderTest, InOrderReadyWithNothingSlowTheOrderIsThatOfSteps) {
  WriteShards("d", 0, 4, 25, 0);
  LoaderOptions options = Options({Path("d") + "/s-*"}, 8);
  options.order = Order::kReady;
  auto loader = Open(options);
  ASSERT_TRUE(loader->StartPass({0, 0}).ok());
  AwaitReady(*loader, 13);
  for (uint64_t step = 0; step < 13; ++step) {
    auto batch = loader->Next();
    ASSERT_TRUE(batch.ok() && *batch != nullptr);
    EXPECT_EQ((*batch)->step(), step);
  }
}

TEST_F(LoaderTest, EveryPositionOfAnEpochInOrderReadyIsExactForEveryOrderAndWindow) {
  WriteAlternating(6, 10);
  GatedListener* gate = nullptr;
  auto a = ServeGated("a", &gate);
  auto b = Serve("b");
  LoaderOptions options = Options({Url(*a), Url(*b)}, 5);
  options.order = Order::kReady;
  options.ready_window = 8;
  auto loader = Open(options);
  options.ready_window = 3;
  auto narrow = Open(options);
  options.order = Order::kStep;
  auto in_order = Open(options);
  options.sources = {Path("a") + "/s-*", Path("b") + "/s-*"};
  auto local = Open(options);

  gate->Shut();
  ASSERT_TRUE(loader->StartPass({3, 0}).ok());
  AwaitReady(*loader, 6);
  std::set<uint64_t> left;
  for (uint64_t step = 0; step < 12; ++step) left.insert(step);
  std::vector<Cursor> positions;
  while (true) {
    // What a position must be follows from what is left.
    const Cursor position = loader->cursor();
    if (left.empty()) {
      EXPECT_EQ(position, (Cursor{4, 0}));
      break;
    }
    Cursor expected{3, *left.begin()};
    for (uint64_t step = *left.begin(); step < 12; ++step) {
      if (!left.contains(step)) expected.handed_out.push_back(step);
    }
    EXPECT_EQ(position, expected);
    positions.push_back(position);
    if (positions.size() == 5) gate->Reopen();
    auto batch = loader->Next();
    ASSERT_TRUE(batch.ok() && *batch != nullptr);
    ASSERT_EQ(left.erase((*batch)->step()), 1u);
  }
  EXPECT_THAT(positions[4].handed_out, ::testing::ElementsAre(2, 3, 6, 7));

  for (const Cursor& position : positions) {
    std::vector<uint64_t> rest;
    for (uint64_t step = position.step; step < 12; ++step) {
      if (std::find(position.handed_out.begin(), position.handed_out.end(), step) ==
          position.handed_out.end()) {
        rest.push_back(step);
      }
    }
    const uint64_t sent = a->stats().records_sent + b->stats().records_sent;
    EXPECT_EQ(RestOfEpoch(in_order.get(), position), rest);
    // What was handed out is not sent again.
    EXPECT_EQ(a->stats().records_sent + b->stats().records_sent - sent, rest.size() * 5);
    EXPECT_EQ(RestOfEpoch(local.get(), position), rest);
    EXPECT_THAT(RestOfEpoch(narrow.get(), position), ::testing::UnorderedElementsAreArray(rest));
    EXPECT_EQ(narrow->cursor(), (Cursor{4, 0}));
  }
}

TEST_F(LoaderTest, InOrderReadyEpochsThatAreReadAheadAreNotMixed) {
  WriteAlternating(4, 10);
  GatedListener* gate = nullptr;
  auto a = ServeGated("a", &gate);
  auto b = Serve("b");
  LoaderOptions options = Options({Url(*a), Url(*b)}, 10);  // steps 0 and 2 are of a
  options.order = Order::kReady;
  options.epochs = 3;
  auto loader = Open(options);
  gate->Shut();
  ASSERT_TRUE(loader->StartPass({0, 0}).ok());
  AwaitReady(*loader, 6);  // two steps of each epoch
  EXPECT_EQ((*loader->Next())->step(), 1u);
  EXPECT_EQ((*loader->Next())->step(), 3u);
  EXPECT_EQ(loader->Next([] { return true; }).status().code(), Code::kCancelled);
  gate->Reopen();
  std::vector<uint64_t> steps;
  for (auto batch = *loader->Next(); batch != nullptr; batch = *loader->Next()) {
    EXPECT_EQ(batch->epoch(), 0u);
    steps.push_back(batch->step());
  }
  EXPECT_THAT(steps, ::testing::UnorderedElementsAre(0, 2));
  for (uint64_t epoch = 1; epoch < 3; ++epoch) {
    EXPECT_THAT(RestOfEpoch(loader.get(), {epoch, 0}), ::testing::UnorderedElementsAre(0, 1, 2, 3));
  }
  EXPECT_EQ(b->stats().sessions_opened, 1u);
}

TEST_F(LoaderTest, InOrderReadyWhatWaitsStaysBelowTheBudgetPlusABatch) {
  const auto size_of = [](uint64_t) -> size_t { return 100'000; };
  WriteAlternating(20, 10, size_of);
  GatedListener* gate = nullptr;
  auto a = ServeGated("a", &gate);
  auto b = Serve("b");
  LoaderOptions options = Options({Url(*a), Url(*b)}, 10);  // every other step is of a
  options.prefetch_bytes = 4 << 20;
  options.order = Order::kReady;
  options.ready_window = 20;
  auto loader = Open(options);
  gate->Shut();
  ASSERT_TRUE(loader->StartPass({0, 0}).ok());
  // All 10 MB of b come through a budget of 2 MiB, although step 0 does not.
  std::set<uint64_t> steps;
  for (size_t batches = 0; batches < 20; ++batches) {
    if (batches == 10) gate->Reopen();
    auto batch = loader->Next();
    ASSERT_TRUE(batch.ok()) << batch.status().ToString();
    EXPECT_EQ((*batch)->step() % 2, batches < 10 ? 1u : 0u);
    EXPECT_TRUE(steps.insert((*batch)->step()).second);
  }
  EXPECT_EQ(*loader->Next(), nullptr);
  EXPECT_LE(loader->stats().max_ready_bytes, options.prefetch_bytes + 1'000'000);
}

TEST_F(LoaderTest, InOrderReadyTheWindowOfAStrideIsThatOfTheRank) {
  WriteAlternating(6, 10);
  GatedListener* gate = nullptr;
  auto a = ServeGated("a", &gate);
  auto b = Serve("b");
  LoaderOptions options = Options({Url(*a), Url(*b)}, 5);  // steps 0, 1, 4, 5, 8, 9 are of a
  options.order = Order::kReady;
  options.ready_window = 6;
  options.step_stride = 2;
  auto loader = Open(options);
  gate->Shut();
  ASSERT_TRUE(loader->StartPass({0, 1}).ok());
  AwaitReady(*loader, 3);  // 3, 7, 11
  EXPECT_EQ((*loader->Next())->step(), 3u);
  EXPECT_EQ(loader->Next([] { return true; }).status().code(), Code::kCancelled);
  const Cursor position = loader->cursor();
  EXPECT_EQ(position, (Cursor{0, 1, {3}}));
  gate->Reopen();
  auto resumed = Open(options);
  EXPECT_THAT(RestOfEpoch(resumed.get(), position),
              ::testing::UnorderedElementsAre(1, 5, 7, 9, 11));
}

}  // namespace
}  // namespace emlio::loader
