// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
// Ends of epochs, and reading ahead.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
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

TEST(SenderTest, EpochsEndOnceInOrderWithTheirFlowAndSequences) {
  wire::Open open = MakeOpen(2);
  open.epoch = 5;
  open.step = 1;
  open.epochs = 3;
  TestSender sender(open, MakePlan({4}, 2), FakeRecords(10));
  std::vector<wire::EpochEnd> ends;
  uint32_t stream = 0;
  while (sender.Send(stream++ % 2)) {
    for (wire::EpochEnd& end : sender.Outbox<wire::EpochEnd>()) ends.push_back(std::move(end));
  }
  ASSERT_EQ(ends.size(), 3u);
  for (uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(ends[i].open_id, 77u);
    EXPECT_EQ(ends[i].epoch, 5 + i);
    EXPECT_EQ(ends[i].flow_position, (2 + 4 * i) * 26);
  }
  using StreamEnd = wire::EpochEnd::StreamEnd;
  EXPECT_THAT(ends[0].streams, ElementsAre(StreamEnd{0, 0, 1}, StreamEnd{1, 0, 0}));
  EXPECT_THAT(ends[2].streams, ElementsAre(StreamEnd{0, 0, 3}, StreamEnd{1, 0, 2}));
  EXPECT_TRUE(sender->finished());
  EXPECT_EQ(sender->epochs_ended(), 3u);
}

TEST(SenderTest, AnEpochEndsWithoutCreditForTheNext) {
  wire::Open open = MakeOpen(1, 2 * 26);
  open.epochs = 2;
  TestSender sender(open, MakePlan({2}, 1), FakeRecords(10));
  EXPECT_EQ(sender.SendAll().size(), 2u);
  EXPECT_EQ(sender.Outbox<wire::EpochEnd>().size(), 1u);
  EXPECT_FALSE(sender->finished());
}

TEST(SenderTest, AnEpochDoesNotEndWhileAChunkIsBeingRead) {
  TestSender sender(MakeOpen(), MakePlan({2}, 1), FakeRecords(10));
  auto slow = sender.Take();
  ASSERT_TRUE(slow.has_value());
  EXPECT_TRUE(sender.Send().has_value());
  EXPECT_FALSE(sender.Send().has_value());
  EXPECT_THAT(sender.Outbox<wire::EpochEnd>(), IsEmpty());
  EXPECT_FALSE(sender->finished());
  sender->Assign(0, &*slow);
  EXPECT_EQ(sender.Outbox<wire::EpochEnd>().size(), 1u);
  EXPECT_TRUE(sender->finished());
}

// An EpochEnd that named the new generation before the lost chunks went out would tell the receiver
// that they are missing.
TEST(SenderTest, AnEpochDoesNotEndBetweenAJoinAndTheResending) {
  TestSender sender(MakeOpen(2), MakePlan({3}, 1), FakeRecords(10));
  sender.Send(0);
  auto slow = sender.Take();
  sender.Send(1);
  ASSERT_TRUE(sender->OnJoin({77, 0, 1, 0}).ok());
  sender->Assign(1, &*slow);
  EXPECT_THAT(sender.Outbox<wire::EpochEnd>(), IsEmpty());
  EXPECT_FALSE(sender->finished());
  EXPECT_TRUE(sender.Send(0).has_value());
  const auto ends = sender.Outbox<wire::EpochEnd>();
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].streams[0].generation, 1u);
  EXPECT_EQ(ends[0].streams[0].sequence, 1u);
}

// The counts of an EpochEnd include all earlier epochs.
TEST(SenderTest, AnEpochDoesNotEndWhileAnEarlierOneIsSentAgain) {
  wire::Open open = MakeOpen(2);
  open.epochs = 2;
  TestSender sender(open, MakePlan({2}, 2), FakeRecords(10));
  sender.Send(0);
  EXPECT_EQ(sender.Outbox<wire::EpochEnd>().size(), 1u);
  auto slow = sender.Take();
  ASSERT_TRUE(sender->OnJoin({77, 0, 1, 0}).ok());
  sender->Assign(1, &*slow);
  EXPECT_THAT(sender.Outbox<wire::EpochEnd>(), IsEmpty());
  EXPECT_TRUE(sender.Send(0).has_value());
  EXPECT_EQ(sender.Outbox<wire::EpochEnd>().size(), 1u);
}

// The receiver may complete an epoch with what a lost stream delivered, and be far into the next
// one, before the needless resending has gone out.
TEST(SenderTest, AnEpochEndNamesItsOwnFlowHoweverFarTheReceiverIs) {
  wire::Open open = MakeOpen();
  open.epochs = 2;
  TestSender sender(open, MakePlan({4}, 1), FakeRecords(10));
  for (int i = 0; i < 3; ++i) sender.Send();
  auto slow = sender.Take();
  for (int i = 0; i < 3; ++i) sender.Send();
  wire::Grant grant = MakeGrant(0, 2);
  grant.epoch = 1;
  ASSERT_TRUE(sender->OnGrant(grant).ok());
  sender->Assign(0, &*slow);
  const auto ends = sender.Outbox<wire::EpochEnd>();
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].epoch, 0u);
  EXPECT_EQ(ends[0].flow_position, 4 * 26u);
}

TEST(SenderTest, ReadAheadNamesEveryRecordOnceInTheOrderInWhichItIsSent) {
  wire::Open open = MakeOpen();
  open.epochs = 2;
  SenderOptions options;
  options.first_chunk_bytes = options.max_chunk_bytes = 100;
  options.read_ahead_bytes = 1000;
  TestSender sender(open, MakePlan({300}, 7, plan::Shuffle::kFull), FakeRecords(10), options);
  std::vector<plan::PlannedRecord> ahead;
  std::vector<plan::PlannedRecord> sent;
  size_t furthest = 0;
  while (auto job = sender.Send()) {
    sent.insert(sent.end(), job->records.begin(), job->records.end());
    sender->TakeReadAhead(&ahead);
    ASSERT_LE(sent.size(), ahead.size() + 7);  // the first chunk was never ahead
    furthest = std::max(furthest, ahead.size() - std::min(ahead.size(), sent.size()));
  }
  // About 1000 bytes: 39 records of 26, and what a step has beyond.
  EXPECT_GE(furthest, 30u);
  EXPECT_LE(furthest, 46u);
  ASSERT_EQ(sent.size(), 600u);
  ASSERT_LE(ahead.size(), sent.size());
  const size_t skipped = sent.size() - ahead.size();
  EXPECT_LE(skipped, 7u);
  for (size_t i = 0; i < ahead.size(); ++i) {
    EXPECT_EQ(ahead[i].record, sent[skipped + i].record) << i;
  }
  EXPECT_EQ(sender.Outbox<wire::EpochEnd>().size(), 2u);
}

TEST(SenderTest, HowFarToReadAheadMayChange) {
  SenderOptions options;
  options.first_chunk_bytes = options.max_chunk_bytes = 100;
  TestSender sender(MakeOpen(), MakePlan({300}, 7), FakeRecords(10), options);
  std::vector<plan::PlannedRecord> ahead;
  uint64_t sent = 0;
  for (const uint64_t bytes : {1000, 100, 3000}) {
    sender->SetReadAhead(bytes);
    // Enough chunks to use up what was ahead before.
    for (int i = 0; i < 10; ++i) sent += sender.Send()->records.size();
    sender->TakeReadAhead(&ahead);
    EXPECT_GE(26 * (sent + ahead.size()), bytes);
    EXPECT_LE(26 * (ahead.size() - std::min<uint64_t>(ahead.size(), sent)), bytes + 14 * 26);
  }
}

TEST(SenderTest, PlanningAheadChangesNothingThatIsSent) {
  for (const uint64_t read_ahead_bytes : {uint64_t{1}, uint64_t{500}, uint64_t{1} << 40}) {
    wire::Open open = MakeOpen();
    open.epochs = 3;
    for (const size_t shard : {0, 3}) SetBit(&open.assigned, shard);
    SenderOptions options;
    options.first_chunk_bytes = options.max_chunk_bytes = 100;
    const auto size_of = [](uint32_t, uint64_t record) { return record % 7 == 0 ? 250 : record; };
    const auto plan = MakePlan({20, 30, 40, 50}, 9, plan::Shuffle::kFull);
    TestSender without(open, plan, FakeRecords(size_of), options);
    options.read_ahead_bytes = read_ahead_bytes;
    TestSender with(open, plan, FakeRecords(size_of), options);
    while (auto expected = without.Send()) {
      const auto job = with.Send();
      ASSERT_TRUE(job.has_value());
      EXPECT_EQ(job->header.slots, expected->header.slots);
      EXPECT_EQ(job->header.sizes, expected->header.sizes);
      EXPECT_EQ(job->header.step, expected->header.step);
      EXPECT_EQ(job->header.flow_begin, expected->header.flow_begin);
      EXPECT_EQ(job->header.flow_end, expected->header.flow_end);
      EXPECT_EQ(with.Outbox<wire::EpochEnd>().size(), without.Outbox<wire::EpochEnd>().size());
    }
    EXPECT_FALSE(with.Send().has_value());
    EXPECT_TRUE(with->finished());
  }
}

TEST(SenderTest, EndlessEpochsGoOnAsFarAsCreditReaches) {
  wire::Open open = MakeOpen(1, 100 * 26);
  open.epochs = 0;
  TestSender sender(open, MakePlan({4}, 2), FakeRecords(10));
  const std::vector<ChunkJob> sent = sender.SendAll();
  ASSERT_EQ(sent.size(), 50u);
  EXPECT_EQ(sent.back().header.epoch, 24u);
  EXPECT_EQ(sender.Outbox<wire::EpochEnd>().size(), 25u);
  EXPECT_FALSE(sender->finished());
}

}  // namespace
}  // namespace emlio::session
