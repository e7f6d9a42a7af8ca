// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "plan_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "text.h"

namespace emlio::tool {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

plan::Plan PlanOf(uint64_t global_batch, plan::Shuffle shuffle, plan::Tail tail) {
  plan::PlanSpec spec;
  spec.sources.resize(1);
  spec.sources[0].shard_records = {60, 0, 40};
  spec.sources[0].shuffle = shuffle;
  if (shuffle == plan::Shuffle::kBlock) {
    spec.sources[0].block_records = 1;
    spec.sources[0].window_blocks = 16;
  }
  spec.seed = 5;
  spec.global_batch = global_batch;
  spec.tail = tail;
  auto plan = plan::Plan::Create(std::move(spec));
  EXPECT_TRUE(plan.ok()) << plan.status().ToString();
  return *std::move(plan);
}

TEST(PlanTextTest, SaysWhatAnEpochIsMadeOf) {
  const plan::Plan plan = PlanOf(32, plan::Shuffle::kFull, plan::Tail::kKeep);
  EXPECT_THAT(PlanText(plan, 3),
              StartsWith("shuffle     full, seed 5\n"
                         "an epoch    4 steps of 32 records over 3 ranks\n"
                         "a rank      10 to 11 records a step, 1 to 2 in the last\n"
                         "tail        keep: the last step has 4 records instead of 32\n"
                         "plan hash   "));
}

TEST(PlanTextTest, SaysWhatTheTailDoes) {
  using plan::Shuffle;
  using plan::Tail;
  EXPECT_THAT(PlanText(PlanOf(32, Shuffle::kFull, Tail::kDrop), 1),
              HasSubstr("drop: 4 of 100 records left out, other ones in every epoch\n"));
  EXPECT_THAT(PlanText(PlanOf(32, Shuffle::kNone, Tail::kDrop), 1),
              HasSubstr("drop: 4 of 100 records left out, the last ones of every epoch\n"));
  EXPECT_THAT(PlanText(PlanOf(33, Shuffle::kFull, Tail::kPad), 1),
              HasSubstr("pad: 32 slots of the last step repeat records of the epoch\n"));
  for (const Tail tail : {Tail::kDrop, Tail::kKeep, Tail::kPad}) {
    EXPECT_THAT(PlanText(PlanOf(25, Shuffle::kFull, tail), 1),
                HasSubstr(": the records divide evenly\n"));
  }
}

TEST(PlanTextTest, SaysTheOrder) {
  using plan::Tail;
  EXPECT_THAT(PlanText(PlanOf(32, plan::Shuffle::kNone, Tail::kKeep), 1),
              HasSubstr("shuffle     none: the records come as they are stored\n"));
  EXPECT_THAT(PlanText(PlanOf(32, plan::Shuffle::kBlock, Tail::kKeep), 1),
              HasSubstr("shuffle     block, seed 5, blocks of 1 record in windows of 16 blocks\n"));
}

TEST(RunsTest, ConsecutiveRecordsOfAShardAreOneRun) {
  const plan::Plan plan = PlanOf(50, plan::Shuffle::kNone, plan::Tail::kKeep);
  const auto runs = RunsOf(plan, 0, plan.Share(1, 0, 1));
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].slot, 0u);
  EXPECT_EQ(runs[0].slots, 10u);
  EXPECT_EQ(runs[0].number, 50u);
  EXPECT_EQ(runs[0].first.shard, 0u);
  EXPECT_EQ(runs[0].first.record, 50u);
  EXPECT_EQ(runs[1].slot, 10u);
  EXPECT_EQ(runs[1].slots, 40u);
  EXPECT_EQ(runs[1].number, 60u);
  EXPECT_EQ(runs[1].first.shard, 2u);
  EXPECT_EQ(runs[1].first.record, 0u);
}

TEST(RunsTest, PaddingIsARunOfItsOwn) {
  // Step 3 has the positions 96 to 127: the records 96 to 99, and then 0 to 27 again.
  const plan::Plan plan = PlanOf(32, plan::Shuffle::kNone, plan::Tail::kPad);
  const auto runs = RunsOf(plan, 0, plan.Share(3, 0, 1));
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_FALSE(runs[0].padded);
  EXPECT_EQ(runs[0].slots, 4u);
  EXPECT_TRUE(runs[1].padded);
  EXPECT_EQ(runs[1].number, 0u);
  EXPECT_EQ(runs[1].slots, 28u);
}

TEST(RunsTest, RunsOfAShuffledBatchHoldItsSlotsInOrder) {
  const plan::Plan plan = PlanOf(32, plan::Shuffle::kFull, plan::Tail::kPad);
  for (uint64_t step = 0; step < plan.steps_per_epoch(); ++step) {
    const plan::StepShare share = plan.Share(step, 1, 3);
    std::vector<uint64_t> expected, numbers;
    plan.Numbers(7, share, &expected);
    for (const SlotRun& run : RunsOf(plan, 7, share)) {
      EXPECT_EQ(run.slot, numbers.size());
      for (uint32_t i = 0; i < run.slots; ++i) {
        numbers.push_back(run.number + i);
        const plan::PlannedRecord record = plan.Locate(run.number + i);
        EXPECT_EQ(record.shard, run.first.shard);
        EXPECT_EQ(record.record, run.first.record + i);
      }
    }
    EXPECT_EQ(numbers, expected);
  }
}

TEST(SlotLinesTest, LinesStandBelowTheirTitles) {
  const plan::Plan plan = PlanOf(32, plan::Shuffle::kNone, plan::Tail::kPad);
  const SlotLines lines(plan, 3, true);
  EXPECT_EQ(lines.Header(), "epoch  step   rank   slot  number  record         offset  shard\n");
  const SlotRun run{.slot = 4, .slots = 28, .number = 0, .first = {0, 0}, .padded = true};
  EXPECT_EQ(lines.Line(3, 3, 0, run, 0, "a\x1b"),
            "    3     3      0   4-31    0-27    0-27              0  a\\x1b (padded)\n");
  const SlotRun one{.slot = 0, .slots = 1, .number = 99, .first = {2, 39}, .padded = false};
  EXPECT_EQ(SlotLines(plan, 123456, false).Line(123456, 3, 0, one, 0, "c"),
            "123456     3      0      0      99      39  c\n");
}

}  // namespace
}  // namespace emlio::tool
