// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
// Which records and steps are a sender's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "emlio/session/bitmap.h"
#include "emlio/session/sender.h"
#include "emlio/session/sender_testing.h"
#include "emlio/session/session_testing.h"

namespace emlio::session {
namespace {

using ::testing::ElementsAre;
using testing::FakeRecords;
using ::testing::IsEmpty;
using testing::MakePlan;

TEST(SenderTest, SendsOnlyRecordsOfAssignedShards) {
  wire::Open open = MakeOpen();
  SetBit(&open.assigned, 2);
  TestSender sender(open, MakePlan({3, 3, 3}, 9, plan::Shuffle::kFull), FakeRecords(10));
  size_t records = 0;
  for (const ChunkJob& job : sender.SendAll()) {
    for (const plan::PlannedRecord& record : job.records) {
      EXPECT_EQ(record.shard, 2u);
      ++records;
    }
  }
  EXPECT_EQ(records, 3u);
  const auto ends = sender.Outbox<wire::EpochEnd>();
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].flow_position, 3 * 26u);
}

TEST(SenderTest, FilledSlotsAreCountedFromTheCursorAndNotSent) {
  wire::Open open = MakeOpen();
  open.step = 1;
  open.epochs = 2;
  for (uint64_t slot : {0, 2, 3}) SetBit(&open.filled, slot);
  TestSender sender(open, MakePlan({6}, 2), FakeRecords(10));
  std::vector<std::string> sent;
  for (const ChunkJob& job : sender.SendAll()) {
    for (uint32_t slot : job.header.slots) {
      sent.push_back(std::to_string(job.header.epoch) + std::to_string(job.header.step) +
                     std::to_string(slot));
    }
  }
  EXPECT_THAT(sent, ElementsAre("011", "100", "101", "110", "111", "120", "121"));
  const auto ends = sender.Outbox<wire::EpochEnd>();
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_EQ(ends[0].flow_position, 26u);
}

TEST(SenderTest, ADaemonWithoutAnAssignedRecordNeitherLoopsNorEnds) {
  for (const uint64_t epochs : {0, 3}) {
    wire::Open open = MakeOpen();
    open.epochs = epochs;
    SetBit(&open.assigned, 1);
    TestSender sender(open, MakePlan({4, 0}, 2), FakeRecords(10));
    EXPECT_FALSE(sender.Send().has_value());
    EXPECT_THAT(sender->TakeOutbox(), IsEmpty());
    EXPECT_TRUE(sender->finished());
  }
}

TEST(SenderTest, ADaemonWhoseRecordsTheRankNeverGetsNeitherLoopsNorEnds) {
  wire::Open open = MakeOpen();
  open.epochs = 0;
  SetBit(&open.assigned, 1);
  // The tail is dropped in every epoch.
  TestSender dropped(open, MakePlan({4, 1}, 4, plan::Shuffle::kNone, plan::Tail::kDrop),
                     FakeRecords(10));
  EXPECT_FALSE(dropped.Send().has_value());
  EXPECT_TRUE(dropped->finished());
  // Records 2 and 3 are always rank 1's.
  open.world_size = 2;
  TestSender other_rank(open, MakePlan({2, 2}, 4), FakeRecords(10));
  EXPECT_FALSE(other_rank.Send().has_value());
  EXPECT_TRUE(other_rank->finished());
  open.rank = 1;
  open.epochs = 1;
  TestSender this_rank(open, MakePlan({2, 2}, 4), FakeRecords(10));
  EXPECT_EQ(this_rank.SendAll().size(), 1u);
}

// In manifest order the last step's padding begins anew with the first records.
TEST(SenderTest, ADaemonWhoseRecordsOnlyPadTheRanksShareSendsThem) {
  wire::Open open = MakeOpen();
  open.epochs = 2;
  open.world_size = 2;
  open.rank = 1;
  SetBit(&open.assigned, 0);
  // Steps of 4: records 0 and 1 are rank 0's; as padding they are rank 1's.
  TestSender sender(open,
                    MakePlan({2, 1'000'000'000'000}, 4, plan::Shuffle::kNone, plan::Tail::kPad),
                    FakeRecords(10));
  std::vector<uint64_t> steps;
  for (const ChunkJob& job : sender.SendAll()) {
    steps.push_back(job.header.step);
    EXPECT_THAT(job.header.slots, ElementsAre(0, 1));
    EXPECT_EQ(job.records[0].shard, 0u);
    EXPECT_EQ(job.records[1].record, 1u);
  }
  EXPECT_THAT(steps, ElementsAre(250'000'000'000, 250'000'000'000));
  EXPECT_EQ(sender.Outbox<wire::EpochEnd>().size(), 2u);
  EXPECT_TRUE(sender->finished());

  // Without padding it never has anything to send to that rank.
  TestSender kept(open, MakePlan({2, 4}, 4, plan::Shuffle::kNone, plan::Tail::kKeep),
                  FakeRecords(10));
  EXPECT_FALSE(kept.Send().has_value());
  EXPECT_TRUE(kept->finished());
}

TEST(SenderTest, OfEveryStrideStepsOneIsSentInEachEpoch) {
  wire::Open open = MakeOpen();
  open.step = 4;
  open.stride = 3;
  open.epochs = 2;
  TestSender sender(open, MakePlan({20}, 2), FakeRecords(10));
  std::vector<std::pair<uint64_t, uint64_t>> steps;
  for (const ChunkJob& job : sender.SendAll()) {
    steps.emplace_back(job.header.epoch, job.header.step);
  }
  using Step = std::pair<uint64_t, uint64_t>;
  EXPECT_THAT(steps, ElementsAre(Step(0, 4), Step(0, 7), Step(1, 1), Step(1, 4), Step(1, 7)));
  EXPECT_EQ(sender.Outbox<wire::EpochEnd>().size(), 2u);
  EXPECT_TRUE(sender->finished());
}

// Step 2 of 3 is the only one with records of the second shard, and never wanted.
TEST(SenderTest, ADaemonWhoseRecordsAreOnlyInOtherStepsNeitherLoopsNorEnds) {
  wire::Open open = MakeOpen();
  open.epochs = 0;
  open.stride = 2;
  open.step = 1;
  SetBit(&open.assigned, 1);
  TestSender none(open, MakePlan({4, 2}, 2), FakeRecords(10));
  EXPECT_FALSE(none.Send().has_value());
  EXPECT_TRUE(none->finished());
  open.step = 0;
  open.epochs = 1;
  TestSender some(open, MakePlan({4, 2}, 2), FakeRecords(10));
  EXPECT_EQ(some.SendAll().size(), 1u);
}

TEST(SenderTest, AStrideGoesOnBehindShardsOfOtherDaemons) {
  constexpr uint64_t kMany = 1'000'000'000'000;
  for (const uint64_t step : {0, 1, 2}) {
    wire::Open open = MakeOpen();
    open.epochs = 2;
    open.stride = 3;
    open.step = step;
    SetBit(&open.assigned, 1);
    TestSender sender(open, MakePlan({kMany, 60, kMany}, 10), FakeRecords(10));
    std::vector<uint64_t> steps;
    for (const ChunkJob& job : sender.SendAll()) steps.push_back(job.header.step);
    ASSERT_EQ(steps.size(), 4u);
    for (uint64_t sent : steps) {
      EXPECT_EQ(sent % 3, step);
      EXPECT_GE(sent, kMany / 10);
      EXPECT_LT(sent, kMany / 10 + 6);
    }
  }
}

// Planning through everything in between would take days.
TEST(SenderTest, ADaemonWhoseShardsComeLateInManifestOrderStartsAtOnce) {
  constexpr uint64_t kMany = 1'000'000'000'000;
  wire::Open open = MakeOpen();
  open.epochs = 2;
  open.step = 3;
  for (const size_t shard : {1, 3}) SetBit(&open.assigned, shard);
  TestSender sender(open, MakePlan({kMany, 15, kMany, 5, kMany}, 10), FakeRecords(10));
  std::vector<uint64_t> steps;
  for (const ChunkJob& job : sender.SendAll()) steps.push_back(job.header.step);
  const uint64_t first = kMany / 10;
  const uint64_t second = first + 1 + kMany / 10;
  EXPECT_THAT(steps, ElementsAre(first, first + 1, second, first, first + 1, second));
  EXPECT_EQ(sender.Outbox<wire::EpochEnd>().size(), 2u);
  EXPECT_TRUE(sender->finished());
}

}  // namespace
}  // namespace emlio::session
