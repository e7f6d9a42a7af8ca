// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
// How ranks, strides and positions share an epoch.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "emlio/loader/loader.h"
#include "emlio/loader/loader_testing.h"
#include "fmt/format.h"

namespace emlio::loader {
namespace {

TEST_F(LoaderTest, RanksShareAnEpochWhateverTheWorldSize) {
  WriteShards("d", 0, 3, 111, 0);
  auto daemon = Serve("d");
  std::vector<uint64_t> reference;
  for (uint32_t world : {1u, 2u, 5u}) {
    std::vector<Epoch> ranks;
    for (uint32_t rank = 0; rank < world; ++rank) {
      LoaderOptions options = Options({Url(*daemon)}, 0);
      options.global_batch_size = 10;
      options.tail = plan::Tail::kDrop;
      options.shuffle = plan::Shuffle::kFull;
      options.rank = rank;
      options.world_size = world;
      options.job = fmt::format("job-{}", world);
      auto loader = Open(options);
      ASSERT_NE(loader, nullptr);
      ranks.push_back(Read(loader.get(), {0, 0}));
      EXPECT_EQ(ranks.back().batch_sizes.size(), 33u);
    }
    // Deal the global batches together again.
    std::vector<uint64_t> global;
    std::vector<size_t> next(world, 0);
    for (size_t step = 0; step < 33; ++step) {
      for (uint32_t rank = 0; rank < world; ++rank) {
        for (size_t i = 0; i < ranks[rank].batch_sizes[step]; ++i) {
          global.push_back(ranks[rank].ids[next[rank]++]);
        }
      }
    }
    if (reference.empty()) reference = global;
    EXPECT_EQ(global, reference) << "world size " << world;
  }
  EXPECT_EQ(std::set<uint64_t>(reference.begin(), reference.end()).size(), 330u);
}

TEST_F(LoaderTest, ResumesAtAnyStep) {
  WriteShards("d", 0, 2, 64, 0);
  auto daemon = Serve("d");
  LoaderOptions options = Options({Url(*daemon)}, 2);
  options.shuffle = plan::Shuffle::kFull;
  auto loader = Open(options);
  const Epoch whole = Read(loader.get(), {3, 0});
  for (uint64_t step : {0u, 1u, 61u, 63u}) {
    auto resumed = Open(options);
    const Epoch rest = Read(resumed.get(), {3, step});
    EXPECT_EQ(rest.ids, std::vector<uint64_t>(whole.ids.begin() + 2 * step, whole.ids.end()));
    EXPECT_EQ(resumed->cursor(), (Cursor{4, 0}));
  }
  // The very end of an epoch is the beginning of the next one.
  ASSERT_TRUE(loader->StartPass({3, 64}).ok());
  auto batch = loader->Next();
  ASSERT_TRUE(batch.ok() && *batch != nullptr);
  EXPECT_EQ((*batch)->epoch(), 4u);
}

TEST_F(LoaderTest, LoadersWithAStrideShareTheStepsOfARank) {
  WriteShards("d", 0, 2, 50, 0);
  auto daemon = Serve("d");
  LoaderOptions options = Options({Url(*daemon)}, 8);
  options.shuffle = plan::Shuffle::kFull;
  options.epochs = 2;
  auto whole_loader = Open(options);
  options.step_stride = 3;
  for (const uint64_t start : {0u, 4u}) {
    std::vector<std::vector<uint64_t>> batches(13);
    for (uint64_t first = start; first < start + 3; ++first) {
      auto loader = Open(options);
      ASSERT_NE(loader, nullptr);
      EXPECT_EQ(loader->steps_per_epoch(), 13u);
      ASSERT_TRUE(loader->StartPass({0, first}).ok());
      for (uint64_t step = first; step < 13; step += 3) {
        auto batch = loader->Next();
        ASSERT_TRUE(batch.ok() && *batch != nullptr);
        EXPECT_EQ((*batch)->step(), step);
        batches[step].assign((*batch)->indices().begin(), (*batch)->indices().end());
      }
      EXPECT_EQ(*loader->Next(), nullptr);
      EXPECT_EQ(loader->cursor(), (Cursor{1, first % 3}));
      // The next epoch, of which another step may come first.
      ASSERT_TRUE(loader->StartPass({1, (first + 1) % 3}).ok());
      auto batch = loader->Next();
      ASSERT_TRUE(batch.ok() && *batch != nullptr);
      EXPECT_EQ((*batch)->step(), (first + 1) % 3);
    }
    std::vector<uint64_t> ids;
    for (const auto& batch : batches) ids.insert(ids.end(), batch.begin(), batch.end());
    EXPECT_EQ(ids, Read(whole_loader.get(), {0, start}).ids);
  }
}

constexpr std::array kShuffles = {plan::Shuffle::kNone, plan::Shuffle::kFull,
                                  plan::Shuffle::kBlock};

constexpr std::array kTails = {plan::Tail::kDrop, plan::Tail::kKeep, plan::Tail::kPad};

TEST_F(LoaderTest, EveryShuffleAndTailYieldsAsManyBatchesAsItSaysFromAnyStep) {
  WriteShards("d", 0, 2, 17, 0);
  auto daemon = Serve("d");
  for (const plan::Shuffle shuffle : kShuffles) {
    for (const plan::Tail tail : kTails) {
      SCOPED_TRACE(fmt::format("{} {}", plan::ShuffleName(shuffle), plan::TailName(tail)));
      LoaderOptions options = Options({Url(*daemon)}, 8);
      options.shuffle = shuffle;
      options.tail = tail;
      if (shuffle == plan::Shuffle::kBlock) {
        options.shuffle_block = {{.amount = 3}};
        options.shuffle_window = {{.amount = 12}};
      }
      auto loader = Open(options);
      ASSERT_NE(loader, nullptr);
      EXPECT_EQ(loader->steps_per_epoch(), tail == plan::Tail::kDrop ? 4u : 5u);
      const Epoch whole = Read(loader.get(), {1, 0});
      EXPECT_EQ(whole.batch_sizes.size(), loader->steps_per_epoch());
      EXPECT_EQ(whole.batch_sizes.back(), tail == plan::Tail::kKeep ? 2u : 8u);
      EXPECT_EQ(std::set<uint64_t>(whole.valid_ids.begin(), whole.valid_ids.end()).size(),
                whole.valid_ids.size());
      EXPECT_EQ(whole.valid_ids.size(), tail == plan::Tail::kDrop ? 32u : 34u);
      EXPECT_EQ(loader->stats().padded_records, tail == plan::Tail::kPad ? 6u : 0u);
      for (uint64_t step = 0; step < loader->steps_per_epoch(); ++step) {
        const Epoch rest = Read(loader.get(), {1, step});
        EXPECT_EQ(rest.ids, std::vector<uint64_t>(whole.ids.begin() + 8 * step, whole.ids.end()));
        EXPECT_EQ(rest.batch_sizes.size(), loader->steps_per_epoch() - step);
      }
    }
  }
}

TEST_F(LoaderTest, RanksGetEquallyManyBatchesAndTheirValidRecordsAreAllRecordsOnce) {
  WriteShards("d", 0, 2, 5, 0);
  WriteShards("e", 0, 4, 25, 0);
  struct Case {
    const char* folder;
    uint64_t records;
    uint32_t world_size;
    size_t batches;  // with padding
  };
  // The last of 4 ranks has one record of its own and two that pad.
  for (const Case& c : {Case{"d", 10, 4, 1}, Case{"e", 100, 7, 5}}) {
    auto daemon = Serve(c.folder);
    for (const plan::Shuffle shuffle : kShuffles) {
      std::vector<uint64_t> valid;
      for (uint32_t rank = 0; rank < c.world_size; ++rank) {
        LoaderOptions options = Options({Url(*daemon)}, 3);
        options.shuffle = shuffle;
        options.tail = plan::Tail::kPad;
        options.rank = rank;
        options.world_size = c.world_size;
        auto loader = Open(options);
        ASSERT_NE(loader, nullptr);
        const Epoch epoch = Read(loader.get(), {0, 0});
        EXPECT_EQ(epoch.batch_sizes, std::vector<size_t>(c.batches, 3));
        valid.insert(valid.end(), epoch.valid_ids.begin(), epoch.valid_ids.end());
      }
      ExpectEachOnce(valid, c.records);
    }
  }
}

}  // namespace
}  // namespace emlio::loader
