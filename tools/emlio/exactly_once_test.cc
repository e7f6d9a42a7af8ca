// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "exactly_once.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace emlio::tool {
namespace {

plan::Plan MakePlan(uint64_t records, uint64_t global_batch, plan::Tail tail = plan::Tail::kKeep) {
  plan::PlanSpec spec;
  spec.sources.push_back(
      {.shard_records = {records / 2, records - records / 2}, .shuffle = plan::Shuffle::kFull});
  spec.global_batch = global_batch;
  spec.tail = tail;
  auto plan = plan::Plan::Create(spec);
  EXPECT_TRUE(plan.ok()) << plan.status().ToString();
  return *std::move(plan);
}

std::vector<uint64_t> BatchOf(const plan::Plan& plan, uint64_t epoch, uint64_t step, uint32_t rank,
                              uint32_t world_size) {
  const plan::StepShare share = plan.Share(step, rank, world_size);
  std::vector<uint64_t> indices;
  for (uint32_t slot = 0; slot < share.slots; ++slot) {
    indices.push_back(plan.RecordAt(epoch, share.first_position + slot));
  }
  return indices;
}

TEST(ExactlyOnceTest, AcceptsEveryPassOfEveryRank) {
  const plan::Plan plan = MakePlan(103, 10);
  for (uint32_t rank = 0; rank < 3; ++rank) {
    ExactlyOnce check(plan, rank, 3);
    for (uint64_t epoch = 0; epoch < 2; ++epoch) {
      const uint64_t first_step = epoch == 0 ? 4 : 0;
      check.BeginPass(epoch, first_step);
      for (uint64_t step = first_step; step < plan.steps_per_epoch(); ++step) {
        check.Add(step, BatchOf(plan, epoch, step, rank, 3));
      }
      check.EndPass(/*ended=*/true);
    }
    EXPECT_TRUE(check.ok());
    EXPECT_EQ(check.passes(), 2u);
  }
}

TEST(ExactlyOnceTest, TellsMissingRepeatedAndUnexpectedApart) {
  const plan::Plan plan = MakePlan(100, 10);
  ExactlyOnce check(plan, 0, 2);
  check.BeginPass(0, 0);
  for (uint64_t step = 0; step < plan.steps_per_epoch(); ++step) {
    std::vector<uint64_t> batch = BatchOf(plan, 0, step, 0, 2);
    if (step == 1) batch.pop_back();                                       // one lost
    if (step == 2) batch.push_back(batch.front());                         // one twice
    if (step == 3) batch.push_back(BatchOf(plan, 0, step, 1, 2).front());  // the other rank's
    if (step == 4) batch.push_back(100);                                   // outside the data set
    check.Add(step, batch);
  }
  check.EndPass(/*ended=*/true);
  EXPECT_FALSE(check.ok());
  EXPECT_EQ(check.missing(), 1u);
  EXPECT_EQ(check.repeated(), 1u);
  EXPECT_EQ(check.unexpected(), 2u);
}

TEST(ExactlyOnceTest, PaddingIsNeitherDueNorARepetition) {
  const plan::Plan plan = MakePlan(10, 12, plan::Tail::kPad);
  for (uint32_t rank = 0; rank < 4; ++rank) {
    std::vector<uint64_t> batch = BatchOf(plan, 0, 0, rank, 4);
    batch.resize(batch.size() - plan.Share(0, rank, 4).padded);
    ExactlyOnce check(plan, rank, 4);
    check.BeginPass(0, 0);
    check.Add(0, batch);
    check.EndPass(/*ended=*/true);
    EXPECT_TRUE(check.ok()) << "rank " << rank;
  }
}

TEST(ExactlyOnceTest, PassThatStopsEarlyOwesOnlyItsSteps) {
  const plan::Plan plan = MakePlan(100, 10);
  ExactlyOnce check(plan, 0, 1);
  check.BeginPass(0, 2);
  check.Add(2, BatchOf(plan, 0, 2, 0, 1));
  check.EndPass(/*ended=*/false);
  EXPECT_TRUE(check.ok());
  // In another order of steps.
  check.BeginPass(0, 2);
  check.Add(5, BatchOf(plan, 0, 5, 0, 1));
  check.Add(3, BatchOf(plan, 0, 3, 0, 1));
  check.EndPass(/*ended=*/false);
  EXPECT_TRUE(check.ok());
}

TEST(ExactlyOnceTest, AnEpochThatEndsWithoutSomeOfItsStepsOwesThem) {
  const plan::Plan plan = MakePlan(100, 10);
  ExactlyOnce check(plan, 0, 1);
  check.BeginPass(0, 0);
  for (const uint64_t step : {0, 2, 1, 3, 5, 6, 7, 8})
    check.Add(step, BatchOf(plan, 0, step, 0, 1));
  check.EndPass(/*ended=*/true);
  EXPECT_EQ(check.missing(), 20u);
}

}  // namespace
}  // namespace emlio::tool
