// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
// What loaders hand out: the right records, whatever they come from.
#include "emlio/loader/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "emlio/loader/loader_testing.h"

namespace emlio::loader {
namespace {

using ::testing::HasSubstr;

TEST_F(LoaderTest, EveryRecordOnceInManifestOrderWithoutShuffle) {
  WriteShards("d", 0, 4, 25, 0);
  auto daemon = Serve("d");
  auto loader = Open(Options({Url(*daemon)}, 8));
  ASSERT_NE(loader, nullptr);
  EXPECT_EQ(loader->records(), 100u);
  EXPECT_EQ(loader->steps_per_epoch(), 13u);
  const Epoch epoch = Read(loader.get(), {0, 0});
  EXPECT_EQ(epoch.batch_sizes.size(), 13u);
  EXPECT_EQ(epoch.batch_sizes.back(), 4u);
  EXPECT_TRUE(std::is_sorted(epoch.ids.begin(), epoch.ids.end()));
  ExpectEachOnce(epoch.ids, 100);
}

TEST_F(LoaderTest, LocalAndRemoteGiveTheSameBatches) {
  WriteShards("d", 0, 5, 40, 0);
  auto daemon = Serve("d");
  LoaderOptions options = Options({Url(*daemon)}, 16);
  options.shuffle = plan::Shuffle::kFull;
  options.seed = 42;
  auto remote = Open(options);
  options.sources = {Path("d") + "/s-*"};
  auto local = Open(options);
  for (uint64_t epoch = 0; epoch < 3; ++epoch) {
    const Epoch r = Read(remote.get(), {epoch, 0});
    const Epoch l = Read(local.get(), {epoch, 0});
    EXPECT_EQ(r.ids, l.ids);
    EXPECT_FALSE(std::is_sorted(r.ids.begin(), r.ids.end()));
    ExpectEachOnce(r.ids, 200);
  }
}

TEST_F(LoaderTest, SeveralDaemonsAndLocalPathsMakeOneDataSet) {
  WriteShards("a", 0, 2, 30, 0);
  WriteShards("b", 2, 3, 30, 60);
  WriteShards("c", 5, 1, 30, 150);
  auto a = Serve("a");
  auto b = Serve("b");
  LoaderOptions options = Options({Url(*b), Path("c") + "/s-*", Url(*a)}, 7);
  options.shuffle = plan::Shuffle::kFull;
  auto loader = Open(options);
  ASSERT_NE(loader, nullptr);
  EXPECT_EQ(loader->records(), 180u);
  ExpectEachOnce(Read(loader.get(), {0, 0}).ids, 180);
  ExpectEachOnce(Read(loader.get(), {1, 0}).ids, 180);
}

TEST_F(LoaderTest, SameShardNameWithOtherContentsIsAPlanMismatch) {
  WriteShards("a", 0, 1, 30, 0);
  WriteShards("b", 0, 1, 30, 500);
  auto a = Serve("a");
  auto b = Serve("b");
  auto loader = Loader::Open(Options({Url(*a), Url(*b)}, 7));
  ASSERT_FALSE(loader.ok());
  EXPECT_EQ(loader.status().code(), Code::kPlanMismatch);
  EXPECT_THAT(loader.status().message(), HasSubstr("s-000"));
}

TEST_F(LoaderTest, BlocksComeFromAllSourcesTogether) {
  WriteShards("a", 0, 2, 30, 0, [](uint64_t) { return 1000; });
  WriteShards("b", 2, 3, 30, 60, [](uint64_t) { return 100; });
  const auto size_of = [](uint64_t id) -> size_t { return id < 60 ? 1000 : 100; };
  auto a = Serve("a");
  auto b = Serve("b");
  LoaderOptions options = Options({Url(*b), Url(*a)}, 7);
  options.shuffle = plan::Shuffle::kBlock;
  options.shuffle_block = {{.amount = 5000, .is_bytes = true}};
  options.shuffle_window = {{.amount = 20'000, .is_bytes = true}};
  auto loader = Open(options);
  ASSERT_NE(loader, nullptr);
  // The mean of 60 records of 1,000 + 16 bytes and 90 of 100 + 16 is 476.
  EXPECT_EQ(loader->plan().spec().sources[0].block_records, 10u);
  EXPECT_EQ(loader->plan().spec().sources[0].window_blocks, 5u);
  const Epoch first = Read(loader.get(), {0, 0}, size_of);
  const Epoch second = Read(loader.get(), {1, 0}, size_of);
  ExpectEachOnce(first.ids, 150);
  ExpectEachOnce(second.ids, 150);
  EXPECT_NE(first.ids, second.ids);

  // Other ends of the same data make the same plan.
  options.sources = {Path("a") + "/s-*", Url(*b)};
  auto other = Open(options);
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(other->plan().hash(), loader->plan().hash());
  EXPECT_EQ(Read(other.get(), {0, 0}, size_of).ids, first.ids);
}

TEST_F(LoaderTest, AnAbandonedPassLeavesNothingBehind) {
  WriteShards("d", 0, 2, 100, 0);
  auto daemon = Serve("d");
  auto loader = Open(Options({Url(*daemon)}, 4));
  for (uint64_t epoch = 0; epoch < 20; ++epoch) {
    ASSERT_TRUE(loader->StartPass({epoch, 0}).ok());
    auto batch = loader->Next();
    ASSERT_TRUE(batch.ok());
    EXPECT_EQ((*batch)->indices()[0], 0u);
  }
  ExpectEachOnce(Read(loader.get(), {20, 0}).ids, 200);
}

TEST_F(LoaderTest, KnownEpochsAreReadAheadInOneSession) {
  WriteShards("d", 0, 2, 50, 0);
  auto daemon = Serve("d");
  LoaderOptions options = Options({Url(*daemon)}, 8);
  options.epochs = 5;
  options.shuffle = plan::Shuffle::kFull;
  auto loader = Open(options);
  std::set<std::vector<uint64_t>> orders;
  for (uint64_t epoch = 0; epoch < 5; ++epoch) {
    const Epoch read = Read(loader.get(), {epoch, 0});
    ExpectEachOnce(read.ids, 100);
    orders.insert(read.ids);
  }
  EXPECT_EQ(orders.size(), 5u);
  EXPECT_EQ(daemon->stats().sessions_opened, 1u);
}

TEST_F(LoaderTest, IndependentLoadersShareADaemon) {
  WriteShards("d", 0, 2, 50, 0);
  auto daemon = Serve("d");
  auto first = Open(Options({Url(*daemon)}, 3));
  auto second = Open(Options({Url(*daemon)}, 5));
  ASSERT_TRUE(first->StartPass({0, 0}).ok());
  ASSERT_TRUE(second->StartPass({0, 0}).ok());
  std::vector<uint64_t> ids;
  for (int i = 0; i < 10; ++i) {
    auto a = first->Next();
    auto b = second->Next();
    ASSERT_TRUE(a.ok() && b.ok());
    EXPECT_EQ((*a)->records().size(), 3u);
    ids.insert(ids.end(), (*b)->indices().begin(), (*b)->indices().end());
  }
  first.reset();
  while (true) {
    auto b = second->Next();
    ASSERT_TRUE(b.ok());
    if (*b == nullptr) break;
    ids.insert(ids.end(), (*b)->indices().begin(), (*b)->indices().end());
  }
  ExpectEachOnce(ids, 100);
}

TEST_F(LoaderTest, BatchesOutliveTheLoader) {
  WriteShards("d", 0, 1, 40, 0);
  auto daemon = Serve("d");
  std::vector<std::shared_ptr<const Batch>> kept;
  for (const std::string& source : {Url(*daemon), Path("d") + "/s-*"}) {
    auto loader = Open(Options({source}, 10));
    ASSERT_TRUE(loader->StartPass({0, 0}).ok());
    for (int i = 0; i < 4; ++i) kept.push_back(*loader->Next());
  }
  daemon.reset();
  for (const auto& batch : kept) {
    for (size_t i = 0; i < batch->records().size(); ++i) {
      const uint64_t id = batch->indices()[i];
      const auto expected = Payload(id, 16 + id % 50);
      const auto record = batch->records()[i];
      EXPECT_TRUE(std::equal(record.begin(), record.end(), expected.begin(), expected.end()));
    }
  }
}

TEST_F(LoaderTest, LargeRecordsComeInPiecesAndEmptyOnesCount) {
  const auto size_of = [](uint64_t id) -> size_t {
    if (id % 4 == 0) return 0;
    return id % 4 == 1 ? 10'000'000 + id : 100;
  };
  WriteShards("d", 0, 2, 6, 0, size_of);
  auto daemon = Serve("d");
  LoaderOptions options = Options({Url(*daemon)}, 4);
  options.prefetch_bytes = 1 << 20;  // less than a record
  auto loader = Open(options);
  ExpectEachOnce(Read(loader.get(), {0, 0}, size_of).ids, 12);
  options.sources = {Path("d") + "/s-*"};
  auto local = Open(options);
  ExpectEachOnce(Read(local.get(), {0, 0}, size_of).ids, 12);
}

TEST_F(LoaderTest, WhatWaitsStaysBelowTheBudgetPlusABatch) {
  const auto size_of = [](uint64_t) -> size_t { return 100'000; };
  WriteShards("d", 0, 2, 200, 0, size_of);
  auto daemon = Serve("d");
  LoaderOptions options = Options({Url(*daemon)}, 8);
  options.prefetch_bytes = 4 << 20;
  auto loader = Open(options);
  ASSERT_TRUE(loader->StartPass({0, 0}).ok());
  ASSERT_TRUE(loader->Next().ok());
  // Whatever the daemon may send arrives while nobody takes batches.
  uint64_t chunks = 0;
  for (int quiet = 0; quiet < 10;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const uint64_t now = loader->stats().chunks;
    quiet = now == chunks ? quiet + 1 : 0;
    chunks = now;
  }
  EXPECT_LE(loader->stats().max_ready_bytes, options.prefetch_bytes + 800'000);
  EXPECT_LT(daemon->stats().records_sent, 400u);
  size_t batches = 1;
  while (*loader->Next() != nullptr) ++batches;
  EXPECT_EQ(batches, 50u);
  EXPECT_LE(loader->stats().max_ready_bytes, options.prefetch_bytes + 800'000);
}

}  // namespace
}  // namespace emlio::loader
