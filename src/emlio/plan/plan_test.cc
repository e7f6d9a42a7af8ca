// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "emlio/plan/permutation.h"
#include "emlio/plan/test_vectors.h"

namespace emlio::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::array kShuffles = {Shuffle::kNone, Shuffle::kFull, Shuffle::kBlock};

PlanSpec SpecOf(std::vector<uint64_t> shard_records, uint64_t global_batch,
                Shuffle shuffle = Shuffle::kFull, Tail tail = Tail::kKeep) {
  PlanSpec spec;
  spec.sources.resize(1);
  spec.sources[0].shard_records = std::move(shard_records);
  spec.sources[0].shuffle = shuffle;
  if (shuffle == Shuffle::kBlock) {
    spec.sources[0].block_records = 4;
    spec.sources[0].window_blocks = 3;
  }
  spec.global_batch = global_batch;
  spec.tail = tail;
  return spec;
}

Plan PlanOf(PlanSpec spec) {
  Result<Plan> plan = Plan::Create(std::move(spec));
  EXPECT_TRUE(plan.ok()) << plan.status().ToString();
  return *std::move(plan);
}

Plan PlanOf(uint64_t records, uint64_t global_batch, Shuffle shuffle = Shuffle::kFull,
            Tail tail = Tail::kKeep) {
  // Three shards, the middle one empty.
  return PlanOf(SpecOf({records / 3, 0, records - records / 3}, global_batch, shuffle, tail));
}

// Record numbers of one rank's batch, taken through shard and record and back.
std::vector<uint64_t> Batch(const Plan& plan, uint64_t epoch, uint64_t step, uint32_t rank,
                            uint32_t world_size) {
  std::vector<PlannedRecord> records;
  plan.Records(epoch, plan.Share(step, rank, world_size), &records);
  const std::vector<uint64_t>& shard_records = plan.spec().sources[0].shard_records;
  std::vector<uint64_t> numbers;
  for (const PlannedRecord& record : records) {
    EXPECT_LT(record.record, shard_records.at(record.shard));
    numbers.push_back(
        std::accumulate(shard_records.begin(), shard_records.begin() + record.shard, uint64_t{0}) +
        record.record);
  }
  return numbers;
}

// All ranks' batches of the steps in [from, to), in step and rank order.
std::vector<uint64_t> Steps(const Plan& plan, uint64_t epoch, uint64_t from, uint64_t to,
                            uint32_t world_size) {
  std::vector<uint64_t> numbers;
  for (uint64_t step = from; step < to; ++step) {
    for (uint32_t rank = 0; rank < world_size; ++rank) {
      const std::vector<uint64_t> batch = Batch(plan, epoch, step, rank, world_size);
      numbers.insert(numbers.end(), batch.begin(), batch.end());
    }
  }
  return numbers;
}

std::vector<uint64_t> Epoch(const Plan& plan, uint64_t epoch, uint32_t world_size) {
  return Steps(plan, epoch, 0, plan.steps_per_epoch(), world_size);
}

std::set<uint64_t> AsSet(const std::vector<uint64_t>& numbers) {
  return {numbers.begin(), numbers.end()};
}

TEST(PlanTest, BatchesAndHashesEqualTheVectors) {
  for (const auto& vector : TestVectors("plans")) {
    const auto& json = vector["spec"];
    PlanSpec spec = SpecOf(json["shard_records"], json["global_batch"],
                           static_cast<Shuffle>(json["shuffle"].get<int>()),
                           static_cast<Tail>(json["tail"].get<int>()));
    spec.seed = json["seed"];
    spec.sources[0].weight = json["weight"];
    spec.sources[0].block_records = json["block_records"];
    spec.sources[0].window_blocks = json["window_blocks"];
    std::iota(spec.sources[0].manifest_digest.begin(), spec.sources[0].manifest_digest.end(), 0);
    ASSERT_EQ(ToHex(spec.sources[0].manifest_digest), json["manifest_digest"].get<std::string>());
    const Plan plan = PlanOf(spec);
    EXPECT_EQ(ToHex(plan.hash()), vector["hash"].get<std::string>());
    for (const auto& batch : vector["batches"]) {
      const uint32_t world_size = batch["world_size"];
      std::vector<PlannedRecord> records;
      const StepShare share = plan.Share(batch["step"], batch["rank"], world_size);
      EXPECT_EQ(share.padded, batch["padded"].get<uint32_t>());
      plan.Records(batch["epoch"], share, &records);
      std::vector<std::pair<uint64_t, uint64_t>> pairs;
      for (const PlannedRecord& record : records) pairs.push_back({record.shard, record.record});
      EXPECT_EQ(pairs, (batch["records"].get<std::vector<std::pair<uint64_t, uint64_t>>>()));
    }
  }
}

TEST(PlanTest, EveryRecordComesExactlyOnceForAnySizeWorldAndBatch) {
  for (uint64_t records : {1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 100, 127, 128, 129, 1000}) {
    for (uint32_t world_size : {1, 2, 3, 7, 8}) {
      for (uint64_t global_batch : {1, 2, 3, 7, 8, 10, 21, 64, 1000, 5000}) {
        for (Shuffle shuffle : kShuffles) {
          const Plan plan = PlanOf(records, global_batch, shuffle);
          ASSERT_EQ(plan.steps_per_epoch(), (records + global_batch - 1) / global_batch);
          if (!plan.CheckWorld(world_size).ok()) continue;
          const std::vector<uint64_t> numbers = Epoch(plan, 1, world_size);
          ASSERT_EQ(numbers.size(), records) << world_size << " ranks, batch " << global_batch;
          ASSERT_EQ(AsSet(numbers).size(), records);
          ASSERT_EQ(*AsSet(numbers).rbegin(), records - 1);
        }
      }
    }
  }
}

TEST(PlanTest, DropLeavesOutOnlyTheLastIncompleteStep) {
  for (uint64_t records : {5, 16, 17, 100, 129}) {
    for (uint32_t world_size : {1, 2, 5}) {
      const Plan plan = PlanOf(records, 5, Shuffle::kFull, Tail::kDrop);
      ASSERT_EQ(plan.steps_per_epoch(), records / 5);
      ASSERT_TRUE(plan.CheckWorld(world_size).ok());
      const std::vector<uint64_t> numbers = Epoch(plan, 0, world_size);
      EXPECT_EQ(numbers.size(), records / 5 * 5);
      EXPECT_EQ(AsSet(numbers).size(), numbers.size());
    }
  }
}

TEST(PlanTest, WithoutShuffleRecordsComeInManifestOrder) {
  const Plan plan = PlanOf(SpecOf({2, 0, 3, 1}, 4, Shuffle::kNone));
  EXPECT_THAT(Epoch(plan, 0, 2), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(Epoch(plan, 7, 1), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(PlanTest, GlobalOrderIsTheSameForAnyWorldSize) {
  for (Shuffle shuffle : kShuffles) {
    for (Tail tail : {Tail::kDrop, Tail::kKeep, Tail::kPad}) {
      const Plan plan = PlanOf(1003, 24, shuffle, tail);
      const std::vector<uint64_t> one_rank = Epoch(plan, 2, 1);
      for (uint32_t world_size : {2, 3, 4, 6, 8, 12, 17}) {
        ASSERT_TRUE(plan.CheckWorld(world_size).ok()) << world_size;
        EXPECT_EQ(Epoch(plan, 2, world_size), one_rank) << world_size;
      }
    }
  }
}

TEST(PlanTest, SplitIntoShardsDoesNotChangeTheOrder) {
  for (Shuffle shuffle : kShuffles) {
    EXPECT_EQ(Epoch(PlanOf(SpecOf({100}, 8, shuffle)), 3, 2),
              Epoch(PlanOf(SpecOf({0, 1, 50, 0, 49}, 8, shuffle)), 3, 2));
  }
}

TEST(PlanTest, EveryEpochHasAnotherOrderAndRankZeroOtherRecords) {
  const Plan plan = PlanOf(400, 40);
  std::set<std::vector<uint64_t>> orders;
  std::set<std::set<uint64_t>> rank_zero_sets;
  for (uint64_t epoch = 0; epoch < 8; ++epoch) {
    orders.insert(Epoch(plan, epoch, 4));
    std::set<uint64_t> rank_zero;
    for (uint64_t step = 0; step < plan.steps_per_epoch(); ++step) {
      rank_zero.merge(AsSet(Batch(plan, epoch, step, 0, 4)));
    }
    rank_zero_sets.insert(rank_zero);
  }
  EXPECT_EQ(orders.size(), 8);
  EXPECT_EQ(rank_zero_sets.size(), 8);
}

TEST(PlanTest, SameSeedRepeatsTheOrderAndAnotherSeedDoesNot) {
  PlanSpec spec = SpecOf({100}, 10);
  spec.seed = 5;
  const std::vector<uint64_t> order = Epoch(PlanOf(spec), 0, 1);
  EXPECT_EQ(Epoch(PlanOf(spec), 0, 1), order);
  spec.seed = 6;
  EXPECT_NE(Epoch(PlanOf(spec), 0, 1), order);
}

TEST(PlanTest, AllRanksGetTheSameNumberOfBatchesAndShareSizesDifferByOneAtMost) {
  for (uint32_t world_size : {1, 2, 3, 7, 13}) {
    const Plan plan = PlanOf(100, 21);
    ASSERT_EQ(plan.steps_per_epoch(), 5);
    ASSERT_TRUE(plan.CheckWorld(world_size).ok());
    for (uint64_t step = 0; step < 5; ++step) {
      uint64_t position = step * 21;
      const uint32_t largest = plan.Share(step, 0, world_size).slots;
      for (uint32_t rank = 0; rank < world_size; ++rank) {
        const StepShare share = plan.Share(step, rank, world_size);
        EXPECT_EQ(share.first_position, position);
        EXPECT_GE(share.slots, 1);
        EXPECT_GE(share.slots + 1, largest);
        EXPECT_LE(share.slots, largest);
        position += share.slots;
      }
      EXPECT_EQ(position, std::min<uint64_t>(100, (step + 1) * 21));
    }
  }
}

TEST(PlanTest, OneTinyShardDoesNotStarveARank) {
  const Plan plan = PlanOf(SpecOf({1, 10}, 4, Shuffle::kFull, Tail::kDrop));
  ASSERT_TRUE(plan.CheckWorld(4).ok());
  EXPECT_EQ(plan.steps_per_epoch(), 2);
  for (uint64_t step = 0; step < 2; ++step) {
    for (uint32_t rank = 0; rank < 4; ++rank) EXPECT_EQ(Batch(plan, 0, step, rank, 4).size(), 1);
  }
}

TEST(PlanTest, LastBatchHasItsTrueSize) {
  const Plan keep = PlanOf(34, 8);
  EXPECT_EQ(keep.steps_per_epoch(), 5);
  EXPECT_EQ(keep.Share(3, 0, 1).slots, 8);
  EXPECT_EQ(keep.Share(4, 0, 1).slots, 2);
  EXPECT_EQ(PlanOf(34, 8, Shuffle::kFull, Tail::kDrop).steps_per_epoch(), 4);
  EXPECT_EQ(PlanOf(100, 8).steps_per_epoch(), 13);
}

TEST(PlanTest, TheRestOfAnEpochIsDealtOutAnewToAnotherWorldWithoutLossOrRepeat) {
  for (Shuffle shuffle : kShuffles) {
    const Plan plan = PlanOf(1000, 16, shuffle);
    const std::vector<uint64_t> before = Steps(plan, 0, 0, 25, 4);
    EXPECT_EQ(before.size(), 400);
    for (uint32_t world_size : {2, 8}) {
      std::vector<uint64_t> numbers = before;
      const std::vector<uint64_t> after = Steps(plan, 0, 25, plan.steps_per_epoch(), world_size);
      numbers.insert(numbers.end(), after.begin(), after.end());
      EXPECT_EQ(numbers, Epoch(plan, 0, 4));
      EXPECT_EQ(AsSet(numbers).size(), 1000);
    }
  }
}

TEST(PlanTest, PaddedSlotsAreTheLastOnesAndTheOthersHoldEveryRecordOnce) {
  for (Shuffle shuffle : kShuffles) {
    for (uint64_t records : {1, 2, 5, 10, 34, 100}) {
      for (uint32_t world_size : {1, 2, 4, 7}) {
        for (uint64_t global_batch : {1, 3, 8, 12, 21, 100, 250}) {
          const Plan plan = PlanOf(records, global_batch, shuffle, Tail::kPad);
          ASSERT_EQ(plan.steps_per_epoch(), (records + global_batch - 1) / global_batch);
          ASSERT_EQ(plan.CheckWorld(world_size).ok(), global_batch >= world_size);
          if (global_batch < world_size) continue;
          const std::vector<uint64_t> order =
              Epoch(PlanOf(records, global_batch, shuffle, Tail::kKeep), 3, 1);
          std::vector<uint64_t> valid;
          uint64_t position = 0;
          for (uint64_t step = 0; step < plan.steps_per_epoch(); ++step) {
            for (uint32_t rank = 0; rank < world_size; ++rank) {
              const StepShare share = plan.Share(step, rank, world_size);
              const std::vector<uint64_t> batch = Batch(plan, 3, step, rank, world_size);
              ASSERT_EQ(batch.size(), share.slots);
              ASSERT_LE(share.padded, share.slots);
              ASSERT_GE(batch.size(), 1);
              // The same order as without padding, which begins anew behind its end.
              for (uint64_t number : batch) ASSERT_EQ(number, order[position++ % records]);
              valid.insert(valid.end(), batch.begin(), batch.end() - share.padded);
            }
          }
          ASSERT_EQ(position, plan.steps_per_epoch() * global_batch);
          ASSERT_EQ(valid, order) << records << " records, " << world_size << " ranks, batch "
                                  << global_batch;
        }
      }
    }
  }
}

TEST(PlanTest, SlotsOfARecordAreThoseThatHoldIt) {
  for (const Shuffle shuffle : kShuffles) {
    for (const Tail tail : {Tail::kDrop, Tail::kKeep, Tail::kPad}) {
      for (const auto& [records, global_batch, world_size] :
           {std::tuple(100, 7, 1u), {100, 12, 4u}, {101, 7, 3u}, {10, 10, 7u}, {31, 8, 3u}}) {
        const Plan plan = PlanOf(records, global_batch, shuffle, tail);
        ASSERT_TRUE(plan.CheckWorld(world_size).ok());
        std::vector<std::vector<PlannedSlot>> expected(records);
        for (uint64_t step = 0; step < plan.steps_per_epoch(); ++step) {
          for (uint32_t rank = 0; rank < world_size; ++rank) {
            const StepShare share = plan.Share(step, rank, world_size);
            const std::vector<uint64_t> batch = Batch(plan, 5, step, rank, world_size);
            for (uint32_t slot = 0; slot < share.slots; ++slot) {
              expected[batch[slot]].push_back({.step = step,
                                               .rank = rank,
                                               .slot = slot,
                                               .padded = slot >= share.slots - share.padded});
            }
          }
        }
        for (uint64_t number = 0; number < plan.records(); ++number) {
          ASSERT_EQ(plan.SlotsOf(5, number, world_size), expected[number])
              << records << " records, batches of " << global_batch << ", record " << number;
        }
      }
    }
  }
}

TEST(PlanTest, PaddingThatGoesRoundSeveralTimesGivesARecordSeveralSlots) {
  const Plan plan = PlanOf(3, 10, Shuffle::kFull, Tail::kPad);
  std::vector<PlannedSlot> slots = plan.SlotsOf(0, plan.RecordAt(0, 0), 2);
  EXPECT_THAT(slots, ElementsAre(PlannedSlot{0, 0, 0, false}, PlannedSlot{0, 0, 3, true},
                                 PlannedSlot{0, 1, 1, true}, PlannedSlot{0, 1, 4, true}));
}

TEST(PlanTest, TellsWhetherAShareTouchesARangeOfPositions) {
  for (Tail tail : {Tail::kKeep, Tail::kPad}) {
    for (uint64_t records : {1, 7, 20}) {
      for (uint64_t global_batch : {3, 8, 50}) {
        const Plan plan = PlanOf(records, global_batch, Shuffle::kNone, tail);
        for (uint64_t step = 0; step < plan.steps_per_epoch(); ++step) {
          for (uint32_t rank = 0; rank < 3; ++rank) {
            const StepShare share = plan.Share(step, rank, 3);
            if (share.slots == 0) continue;  // CheckWorld refuses
            const std::set<uint64_t> held = AsSet(Batch(plan, 0, step, rank, 3));
            for (uint64_t begin = 0; begin < records; ++begin) {
              for (uint64_t end = begin + 1; end <= records; ++end) {
                const auto first = held.lower_bound(begin);
                ASSERT_EQ(plan.Touches(share, begin, end), first != held.end() && *first < end)
                    << records << " records, step " << step << ", " << begin << " to " << end;
              }
            }
          }
        }
      }
    }
  }
}

TEST(PlanTest, RecordsEqualsRecordAtAndLocateForEverySlot) {
  for (Shuffle shuffle : kShuffles) {
    const Plan plan = PlanOf(SpecOf({5, 0, 1000, 1, 700, 0}, 700, shuffle));
    std::vector<PlannedRecord> records(3000);  // what is there before does not matter
    for (uint64_t step = 0; step < plan.steps_per_epoch(); ++step) {
      const StepShare share = plan.Share(step, 1, 3);
      plan.Records(4, share, &records);
      ASSERT_EQ(records.size(), share.slots);
      for (uint32_t slot = 0; slot < share.slots; ++slot) {
        const PlannedRecord expected = plan.Locate(plan.RecordAt(4, share.first_position + slot));
        ASSERT_EQ(records[slot].shard, expected.shard);
        ASSERT_EQ(records[slot].record, expected.record);
      }
    }
  }
}

TEST(PlanTest, LocateSkipsEmptyShards) {
  const Plan plan = PlanOf(SpecOf({0, 0, 2, 0, 1, 0}, 1));
  EXPECT_EQ(plan.Locate(0).shard, 2);
  EXPECT_EQ(plan.Locate(1).shard, 2);
  EXPECT_EQ(plan.Locate(1).record, 1);
  EXPECT_EQ(plan.Locate(2).shard, 4);
  EXPECT_EQ(plan.Locate(2).record, 0);
}

TEST(PlanTest, LargestPlanReachesItsLastRecord) {
  constexpr uint64_t kRecords = Permutation::kMaxSize;
  constexpr uint64_t kBatch = uint64_t{1} << 31;
  const Plan plan = PlanOf(SpecOf({kRecords - 5, 5}, kBatch, Shuffle::kNone));
  ASSERT_EQ(plan.steps_per_epoch(), uint64_t{1} << 31);
  EXPECT_EQ(plan.Share(0, 0, 1).slots, kBatch);
  const uint32_t last_rank = 0x7fffffff;
  const StepShare share = plan.Share(plan.steps_per_epoch() - 1, last_rank, last_rank + 1);
  EXPECT_EQ(share.first_position, kRecords - 1);
  std::vector<PlannedRecord> records;
  plan.Records(0, share, &records);
  ASSERT_EQ(records.size(), 1);
  EXPECT_EQ(records[0].shard, 1);
  EXPECT_EQ(records[0].record, 4);
}

TEST(PlanTest, HashCoversEveryFieldButRecordCounts) {
  const PlanSpec base = SpecOf({50, 50}, 10);
  std::set<Hash128> hashes{PlanOf(base).hash()};
  const auto add = [&](auto change) {
    PlanSpec spec = base;
    change(spec);
    hashes.insert(PlanOf(spec).hash());
  };
  add([](PlanSpec& spec) { spec.sources[0].manifest_digest[15] = 1; });
  add([](PlanSpec& spec) { spec.sources[0].weight = 2; });
  add([](PlanSpec& spec) { spec.sources[0].shuffle = Shuffle::kNone; });
  const auto blocks = [&](uint32_t block_records, uint32_t window_blocks) {
    add([=](PlanSpec& spec) {
      spec.sources[0].shuffle = Shuffle::kBlock;
      spec.sources[0].block_records = block_records;
      spec.sources[0].window_blocks = window_blocks;
    });
  };
  blocks(4, 3);
  blocks(5, 3);
  blocks(4, 2);
  add([](PlanSpec& spec) { spec.seed = 1; });
  add([](PlanSpec& spec) { spec.global_batch = 11; });
  add([](PlanSpec& spec) { spec.tail = Tail::kDrop; });
  add([](PlanSpec& spec) { spec.tail = Tail::kPad; });
  EXPECT_EQ(hashes.size(), 11);
  EXPECT_EQ(PlanOf(SpecOf({100}, 10)).hash(), PlanOf(base).hash());
}

TEST(PlanTest, AWorldInWhichARankWouldGetNothingIsRefusedWithTheChoices) {
  const Plan plan = PlanOf(100, 16);  // the last step has 4 records
  EXPECT_TRUE(plan.CheckWorld(4).ok());
  const Status few_left = plan.CheckWorld(5);
  EXPECT_EQ(few_left.code(), Code::kInvalidArgument);
  EXPECT_THAT(few_left.message(), HasSubstr("4 of 100 records"));
  EXPECT_THAT(few_left.message(), HasSubstr("tail='drop'"));
  EXPECT_THAT(few_left.message(), HasSubstr("tail='pad'"));
  EXPECT_THAT(few_left.message(), HasSubstr("another batch size"));
  for (Tail tail : {Tail::kDrop, Tail::kPad}) {
    EXPECT_TRUE(PlanOf(100, 16, Shuffle::kFull, tail).CheckWorld(16).ok());
    EXPECT_FALSE(PlanOf(100, 16, Shuffle::kFull, tail).CheckWorld(17).ok());
  }

  const Status batch_too_small = plan.CheckWorld(17);
  EXPECT_EQ(batch_too_small.code(), Code::kInvalidArgument);
  EXPECT_THAT(batch_too_small.message(), HasSubstr("at least 17"));
  EXPECT_EQ(plan.CheckWorld(0).code(), Code::kInvalidArgument);
}

TEST(PlanTest, SpecsThatCanNeverWorkAreRefused) {
  const auto code_of = [](PlanSpec spec) { return Plan::Create(std::move(spec)).status().code(); };
  EXPECT_EQ(code_of(PlanSpec{}), Code::kInvalidArgument);
  PlanSpec two_sources = SpecOf({1}, 1);
  two_sources.sources.push_back(two_sources.sources[0]);
  EXPECT_EQ(code_of(two_sources), Code::kInvalidArgument);
  EXPECT_EQ(code_of(SpecOf({}, 1)), Code::kInvalidArgument);
  EXPECT_EQ(code_of(SpecOf({0, 0}, 1)), Code::kInvalidArgument);
  EXPECT_EQ(code_of(SpecOf({1}, 0)), Code::kInvalidArgument);
  EXPECT_EQ(code_of(SpecOf({1}, (uint64_t{1} << 31) + 1)), Code::kInvalidArgument);
  EXPECT_EQ(code_of(SpecOf({uint64_t{1} << 62, 1}, 1)), Code::kInvalidArgument);
  EXPECT_EQ(code_of(SpecOf({~uint64_t{0}, ~uint64_t{0}}, 1)), Code::kInvalidArgument);
  EXPECT_EQ(code_of(SpecOf({9}, 10, Shuffle::kFull, Tail::kDrop)), Code::kInvalidArgument);
  PlanSpec no_weight = SpecOf({1}, 1);
  no_weight.sources[0].weight = 0;
  EXPECT_EQ(code_of(no_weight), Code::kInvalidArgument);
  for (Shuffle shuffle : kShuffles) {
    PlanSpec one_size = SpecOf({1}, 1, shuffle);
    one_size.sources[0].block_records = 4;
    one_size.sources[0].window_blocks = 0;
    EXPECT_EQ(code_of(one_size), Code::kInvalidArgument);
    std::swap(one_size.sources[0].block_records, one_size.sources[0].window_blocks);
    EXPECT_EQ(code_of(one_size), Code::kInvalidArgument);
  }
  PlanSpec full_with_blocks = SpecOf({1}, 1, Shuffle::kBlock);
  full_with_blocks.sources[0].shuffle = Shuffle::kFull;
  EXPECT_EQ(code_of(full_with_blocks), Code::kInvalidArgument);
}

TEST(PlanTest, UnknownValuesAreUnsupported) {
  const auto code_of = [](PlanSpec spec) { return Plan::Create(std::move(spec)).status().code(); };
  EXPECT_EQ(code_of(SpecOf({1}, 1, static_cast<Shuffle>(77))), Code::kUnsupported);
  EXPECT_EQ(code_of(SpecOf({1}, 1, Shuffle::kFull, static_cast<Tail>(77))), Code::kUnsupported);
}

TEST(PlanTest, NamesAreReadBack) {
  for (Shuffle shuffle : kShuffles) {
    EXPECT_EQ(*ParseShuffle(ShuffleName(shuffle)), shuffle);
  }
  for (Tail tail : {Tail::kDrop, Tail::kKeep, Tail::kPad}) {
    EXPECT_EQ(*ParseTail(TailName(tail)), tail);
  }
  EXPECT_EQ(ParseShuffle("Full").status().code(), Code::kInvalidArgument);
  EXPECT_THAT(ParseShuffle("some").status().message(), HasSubstr("'some'"));
  EXPECT_THAT(ParseTail("").status().message(), HasSubstr("'drop', 'keep' or 'pad'"));
}

}  // namespace
}  // namespace emlio::plan
