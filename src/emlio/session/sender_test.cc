// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
// Chunks, credit, and how far a sender goes.
#include "emlio/session/sender.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "emlio/session/bitmap.h"
#include "emlio/session/sender_testing.h"
#include "emlio/session/session_testing.h"

namespace emlio::session {
namespace {

using ::testing::ElementsAre;
using testing::FakeRecords;
using testing::MakePlan;

TEST(SenderTest, FirstChunkIsSmallAndChunksDoubleUpToTheMaximum) {
  SenderOptions options;
  options.first_chunk_bytes = 200;
  options.max_chunk_bytes = 1000;
  TestSender sender(MakeOpen(), MakePlan({100}, 100), FakeRecords(100), options);
  std::vector<uint64_t> sizes;
  for (const ChunkJob& job : sender.SendAll()) sizes.push_back(job.payload_bytes);
  EXPECT_THAT(sizes,
              ElementsAre(200, 400, 800, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 600));
}

TEST(SenderTest, ARecordLargerThanTheFirstChunkLimitStillGoesWhole) {
  SenderOptions options;
  options.first_chunk_bytes = 64;
  options.max_chunk_bytes = 1000;
  TestSender sender(MakeOpen(), MakePlan({1}, 1), FakeRecords(1000), options);
  const auto job = sender.Send();
  ASSERT_TRUE(job.has_value());
  EXPECT_EQ(job->header.record_total, 0u);
  EXPECT_EQ(job->payload_bytes, 1000u);
}

TEST(SenderTest, AChunkNeverReachesIntoTheNextStep) {
  TestSender sender(MakeOpen(), MakePlan({10}, 4), FakeRecords(1));
  std::vector<size_t> records;
  for (const ChunkJob& job : sender.SendAll()) records.push_back(job.records.size());
  EXPECT_THAT(records, ElementsAre(4, 4, 2));
}

TEST(SenderTest, AChunkHoldsNoMoreRecordsThanArePlannedInOneTurn) {
  TestSender sender(MakeOpen(), MakePlan({70'000}, 70'000), FakeRecords(0));
  std::vector<size_t> records;
  for (const ChunkJob& job : sender.SendAll()) records.push_back(job.records.size());
  constexpr size_t kTurn = Sender::kSlotsATurn;
  EXPECT_THAT(records, ElementsAre(kTurn, kTurn, kTurn, kTurn, 70'000 - 4 * kTurn));
}

TEST(SenderTest, NoCallPlansMoreThanOneTurnOfAHugeStep) {
  constexpr uint32_t kBatch = wire::kMaxBatchSlots;
  const CountingRecords records;
  Sender sender(MakeOpen(), MakePlan({uint64_t{1} << 40}, kBatch, plan::Shuffle::kFull), records,
                {});
  ASSERT_TRUE(sender.OnJoin({77, 0, 0, 0}).ok());
  ChunkJob job;
  for (int chunk = 0; chunk < 10; ++chunk) {
    records.calls = 0;
    ASSERT_EQ(sender.Next(&job), Sender::NextResult::kChunk);
    sender.Assign(0, &job);
    EXPECT_LE(records.calls, 2 * Sender::kSlotsATurn);
  }
  records.calls = 0;
  ASSERT_TRUE(sender.OnFill(MakeFill(0, {5})).ok());
  ASSERT_EQ(sender.Next(&job), Sender::NextResult::kChunk);
  EXPECT_EQ(job.header.slots, std::vector<uint32_t>{5});
  EXPECT_LE(records.calls, 2 * Sender::kSlotsATurn);
}

// One record among 2^40: the search would take days, and nobody else would be served meanwhile.
TEST(SenderTest, TheSearchForRecordsOfASparseShareYields) {
  wire::Open open = MakeOpen();
  open.epochs = 0;
  SetBit(&open.assigned, 1);
  const FakeRecords records(10);
  Sender sender(open, MakePlan({uint64_t{1} << 40, 1}, 1, plan::Shuffle::kFull), records, {});
  ASSERT_TRUE(sender.OnJoin({77, 0, 0, 0}).ok());
  ChunkJob job;
  for (int i = 0; i < 20; ++i) ASSERT_EQ(sender.Next(&job), Sender::NextResult::kBusy);
  EXPECT_FALSE(sender.finished());
}

TEST(SenderTest, TheSearchForRecordsOfASparseShareFindsThemAll) {
  wire::Open open = MakeOpen();
  open.epochs = 3;
  SetBit(&open.assigned, 1);
  TestSender sender(open, MakePlan({100'000, 7}, 2, plan::Shuffle::kFull), FakeRecords(10));
  size_t records = 0;
  for (const ChunkJob& job : sender.SendAll()) records += job.records.size();
  EXPECT_EQ(records, 3 * 7u);
  const auto ends = sender.Outbox<wire::EpochEnd>();
  ASSERT_EQ(ends.size(), 3u);
  EXPECT_EQ(ends[2].flow_position, 3 * 7 * 26u);
  EXPECT_TRUE(sender->finished());
}

TEST(SenderTest, FlowRangesOfFreshChunksFollowEachOther) {
  SenderOptions options;
  options.max_chunk_bytes = 64;
  // Empty records, whole ones and ones in pieces.
  TestSender sender(MakeOpen(), MakePlan({9}, 3),
                    FakeRecords([](uint32_t, uint64_t record) { return record * 20; }), options);
  uint64_t flow = 0;
  uint64_t sequence = 0;
  for (const ChunkJob& job : sender.SendAll()) {
    EXPECT_EQ(job.header.flow_begin, flow);
    flow = job.header.flow_end;
    EXPECT_EQ(job.header.sequence, ++sequence);
    EXPECT_LE(job.payload_bytes, 64u);
  }
  EXPECT_EQ(flow, 36 * 20 + 9 * kOverhead);
}

TEST(SenderTest, ALargeRecordGoesInPieces) {
  SenderOptions options;
  options.max_chunk_bytes = 100;
  TestSender sender(MakeOpen(), MakePlan({1}, 1), FakeRecords(250), options);
  const std::vector<ChunkJob> pieces = sender.SendAll();
  ASSERT_EQ(pieces.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(pieces[i].header.record_offset, 100 * i);
    EXPECT_EQ(pieces[i].header.record_total, 250u);
    EXPECT_THAT(pieces[i].header.slots, ElementsAre(0));
    EXPECT_THAT(pieces[i].header.sizes, ElementsAre(i < 2 ? 100 : 50));
  }
  EXPECT_EQ(pieces[2].header.flow_end, 250 + kOverhead);
}

TEST(SenderTest, StopsAtTheLimitOfItsCredit) {
  SenderOptions options;
  options.first_chunk_bytes = options.max_chunk_bytes = 100;  // one record each
  TestSender sender(MakeOpen(1, 3 * 116), MakePlan({10}, 1), FakeRecords(100), options);
  EXPECT_EQ(sender.SendAll().size(), 3u);
  ASSERT_TRUE(sender->OnGrant(MakeGrant(5 * 116 - 1)).ok());
  EXPECT_EQ(sender.SendAll().size(), 1u);
  ASSERT_TRUE(sender->OnGrant(MakeGrant(5 * 116)).ok());
  EXPECT_EQ(sender.SendAll().size(), 1u);
}

TEST(SenderTest, TheExemptStepMayBeSentWithoutCredit) {
  SenderOptions options;
  options.max_chunk_bytes = 100;
  TestSender sender(MakeOpen(1, 0), MakePlan({10}, 2), FakeRecords(1000), options);
  for (const ChunkJob& job : sender.SendAll()) EXPECT_EQ(job.header.step, 0u);
  ASSERT_TRUE(sender->OnGrant(MakeGrant(0, 2)).ok());
  const std::vector<ChunkJob> sent = sender.SendAll();
  ASSERT_EQ(sent.size(), 40u);
  EXPECT_EQ(sent.front().header.step, 1u);
  EXPECT_EQ(sent.back().header.step, 2u);
}

TEST(SenderTest, GrantsAreIdempotentAndNeverShrink) {
  SenderOptions options;
  options.first_chunk_bytes = options.max_chunk_bytes = 100;
  TestSender sender(MakeOpen(1, 116), MakePlan({100}, 1), FakeRecords(100), options);
  EXPECT_EQ(sender.SendAll().size(), 1u);
  ASSERT_TRUE(sender->OnGrant(MakeGrant(3 * 116, 4)).ok());
  ASSERT_TRUE(sender->OnGrant(MakeGrant(3 * 116, 4)).ok());
  ASSERT_TRUE(sender->OnGrant(MakeGrant(2 * 116, 1)).ok());  // overtaken by the two before
  EXPECT_EQ(sender.SendAll().size(), 4u);                    // up to and including step 4
  ASSERT_TRUE(sender->OnGrant(MakeGrant(3 * 116, 4)).ok());
  EXPECT_FALSE(sender.Send().has_value());
}

// Endless credit does not make the daemon remember without end.
TEST(SenderTest, ChunksThatNobodyAcknowledgesAreHeldBack) {
  TestSender sender(MakeOpen(), MakePlan({10, 1'000'000}, 1), FakeRecords(0));
  uint64_t sent = 0;
  while (sender.Send(0, false)) ++sent;
  EXPECT_EQ(sent, Sender::kMaxUnacknowledged);
  ASSERT_TRUE(sender->OnGrant(MakeGrant(0, 100, {{0, 0, 100}})).ok());
  while (sender.Send(0, false)) ++sent;
  EXPECT_EQ(sent, Sender::kMaxUnacknowledged + 100);
}

TEST(SenderTest, StepsFarAheadOfTheCursorAreHeldBack) {
  TestSender sender(MakeOpen(), MakePlan({1'000'000}, 1), FakeRecords(0));
  uint64_t sent = 0;
  while (sender.Send(0, false)) {
    ++sent;
    ASSERT_TRUE(sender->OnGrant(MakeGrant(0, 0, {{0, 0, sent}})).ok());
  }
  EXPECT_EQ(sent, Sender::kMaxPartsAhead);
  ASSERT_TRUE(sender->OnGrant(MakeGrant(0, 10)).ok());
  while (sender.Send(0, false)) ++sent;
  EXPECT_EQ(sent, Sender::kMaxPartsAhead + 10);
}

}  // namespace
}  // namespace emlio::session
