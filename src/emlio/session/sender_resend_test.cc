// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
// What is asked for again, and streams that are joined again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <numeric>
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
using testing::MakePlan;

TEST(SenderTest, FillIsAnsweredByAVerifyJobWithTheOldFlowRange) {
  TestSender sender(MakeOpen(), MakePlan({8}, 4), FakeRecords(10));
  ASSERT_EQ(sender.SendAll().size(), 2u);
  ASSERT_TRUE(sender->OnFill(MakeFill(1, {3, 1})).ok());
  const auto first = sender.Send();
  const auto second = sender.Send();
  ASSERT_TRUE(first.has_value() && second.has_value());
  EXPECT_TRUE(first->verify);
  EXPECT_THAT(first->header.slots, ElementsAre(1));
  EXPECT_EQ(first->header.step, 1u);
  EXPECT_EQ(first->header.flow_begin, 5 * 26u);
  EXPECT_EQ(first->header.flow_end, 6 * 26u);
  EXPECT_EQ(first->records[0].record, 5u);
  EXPECT_EQ(first->header.sequence, 3u);
  EXPECT_THAT(second->header.slots, ElementsAre(3));
  EXPECT_EQ(second->header.flow_begin, 7 * 26u);
  EXPECT_FALSE(sender.Send().has_value());
  EXPECT_EQ(sender->records_resent(), 2u);
}

TEST(SenderTest, ALostRecordIsSentAgainWithoutVerification) {
  TestSender sender(MakeOpen(), MakePlan({4}, 4), FakeRecords(10));
  sender.SendAll();
  ASSERT_TRUE(sender->OnFill(MakeFill(0, {2}, wire::FillReason::kLost)).ok());
  const auto job = sender.Send();
  ASSERT_TRUE(job.has_value());
  EXPECT_FALSE(job->verify);
}

TEST(SenderTest, ResendingNeedsNoCredit) {
  TestSender sender(MakeOpen(1, 26), MakePlan({8}, 1), FakeRecords(10));
  ASSERT_EQ(sender.SendAll().size(), 1u);
  ASSERT_TRUE(sender->OnFill(MakeFill(0, {0})).ok());
  EXPECT_TRUE(sender.Send().has_value());
  EXPECT_FALSE(sender.Send().has_value());
}

TEST(SenderTest, FillOfALargeRecordSendsTheSamePiecesAgain) {
  SenderOptions options;
  options.max_chunk_bytes = 100;
  TestSender sender(MakeOpen(), MakePlan({2}, 2), FakeRecords(250), options);
  const std::vector<ChunkJob> before = sender.SendAll();
  ASSERT_EQ(before.size(), 6u);
  ASSERT_TRUE(sender->OnFill(MakeFill(0, {1})).ok());
  const std::vector<ChunkJob> again = sender.SendAll();
  ASSERT_EQ(again.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(again[i].header.slots, before[3 + i].header.slots);
    EXPECT_EQ(again[i].header.sizes, before[3 + i].header.sizes);
    EXPECT_EQ(again[i].header.record_offset, before[3 + i].header.record_offset);
    EXPECT_EQ(again[i].header.flow_begin, before[3 + i].header.flow_begin);
    EXPECT_EQ(again[i].header.flow_end, before[3 + i].header.flow_end);
  }
}

TEST(SenderTest, FillFindsTheFlowRangeOfAnySlotOfAHugeStep) {
  // Sizes differ, and every third record is another daemon's.
  wire::Open open = MakeOpen();
  std::vector<uint64_t> shards(300, 300);
  for (size_t i = 0; i < shards.size(); ++i) {
    if (i % 3 != 0) SetBit(&open.assigned, i);
  }
  const auto size_of = [](uint32_t, uint64_t record) { return record % 50; };
  TestSender sender(open, MakePlan(shards, 90'000, plan::Shuffle::kFull), FakeRecords(size_of));
  std::vector<std::pair<uint32_t, uint64_t>> sent;  // slot, flow position
  while (auto job = sender.Send(0, false)) {
    uint64_t flow = job->header.flow_begin;
    for (size_t i = 0; i < job->header.slots.size(); ++i) {
      sent.emplace_back(job->header.slots[i], flow);
      flow += job->header.sizes[i] + kOverhead;
    }
  }
  ASSERT_EQ(sent.size(), 60'000u);
  std::vector<uint32_t> wanted;
  for (size_t i = 0; i < sent.size(); i += 777) wanted.push_back(sent[i].first);
  std::vector<uint32_t> backwards(wanted.rbegin(), wanted.rend());
  ASSERT_TRUE(sender->OnFill(MakeFill(0, backwards)).ok());
  for (size_t i = 0; i < sent.size(); i += 777) {
    const auto job = sender.Send(0, false);
    ASSERT_TRUE(job.has_value());
    EXPECT_THAT(job->header.slots, ElementsAre(sent[i].first));
    EXPECT_EQ(job->header.flow_begin, sent[i].second);
  }
  EXPECT_FALSE(sender.Send().has_value());
}

TEST(SenderTest, FillThatNamesASlotTwiceIsAProtocolError) {
  TestSender sender(MakeOpen(), MakePlan({8}, 8), FakeRecords(10));
  sender.SendAll();
  ExpectProtocolError(sender->OnFill(MakeFill(0, {3, 1, 3})), "slot 3 of epoch 0 step 0 twice");
}

TEST(SenderTest, AskingForTooManySlotsAgainEndsTheSession) {
  const uint32_t batch = Sender::kMaxFilled + 1;
  TestSender sender(MakeOpen(), MakePlan({batch}, batch), FakeRecords(0));
  while (sender.Send(0, false)) {
  }
  std::vector<uint32_t> slots(batch - 1);
  std::iota(slots.begin(), slots.end(), 0);
  ASSERT_TRUE(sender->OnFill(MakeFill(0, slots)).ok());
  EXPECT_EQ(sender->OnFill(MakeFill(0, {batch - 1})).code(), Code::kLimitExceeded);
}

TEST(SenderTest, FillForAStepNotSentYetIsAProtocolError) {
  TestSender sender(MakeOpen(1, 26), MakePlan({8}, 1), FakeRecords(10));
  sender.SendAll();
  ExpectProtocolError(sender->OnFill(MakeFill(5, {0})),
                      "step 5, which is not this daemon's or was not sent yet");
  // The next one is planned already.
  ExpectProtocolError(sender->OnFill(MakeFill(1, {0})),
                      "step 1, which is not this daemon's or was not sent yet");
}

TEST(SenderTest, FillForACompletedStepIsIgnored) {
  TestSender sender(MakeOpen(), MakePlan({8}, 1), FakeRecords(10));
  sender.SendAll();
  ASSERT_TRUE(sender->OnGrant(MakeGrant(0, 3)).ok());
  EXPECT_TRUE(sender->OnFill(MakeFill(2, {0})).ok());
  EXPECT_FALSE(sender.Send().has_value());
  EXPECT_TRUE(sender->OnFill(MakeFill(3, {0})).ok());
  EXPECT_TRUE(sender.Send().has_value());
}

TEST(SenderTest, FillForASlotOutsideTheShareIsAProtocolError) {
  wire::Open open = MakeOpen();
  SetBit(&open.assigned, 1);
  TestSender sender(open, MakePlan({2, 2}, 4), FakeRecords(10));
  sender.SendAll();
  ExpectProtocolError(sender->OnFill(MakeFill(0, {1})), "not this daemon's");
  ExpectProtocolError(sender->OnFill(MakeFill(0, {4})), "not this daemon's");
  EXPECT_TRUE(sender->OnFill(MakeFill(0, {2})).ok());
}

TEST(SenderTest, ARejoinedStreamSendsWhatDidNotArriveAgain) {
  TestSender sender(MakeOpen(2), MakePlan({6}, 1), FakeRecords(10));
  for (int i = 0; i < 3; ++i) {
    sender.Send(0);
    sender.Send(1);
  }
  ASSERT_TRUE(sender->OnJoin({77, 0, 1, 1}).ok());
  EXPECT_EQ(sender->generation(0), 1u);
  EXPECT_EQ(sender->generation(1), 0u);
  // Steps 0, 2, 4 went over stream 0; the first of them arrived. They may go over any stream.
  const auto first = sender.Send(0);
  const auto second = sender.Send(1);
  ASSERT_TRUE(first.has_value() && second.has_value());
  EXPECT_EQ(first->header.step, 2u);
  EXPECT_EQ(first->header.generation, 1u);
  EXPECT_EQ(first->header.sequence, 1u);
  EXPECT_EQ(first->header.flow_begin, 2 * 26u);
  EXPECT_EQ(second->header.step, 4u);
  EXPECT_EQ(second->header.generation, 0u);
  EXPECT_EQ(second->header.sequence, 4u);
  EXPECT_FALSE(sender.Send().has_value());
}

TEST(SenderTest, AcknowledgedChunksAreForgotten) {
  TestSender sender(MakeOpen(), MakePlan({6}, 1), FakeRecords(10));
  sender.SendAll();
  ASSERT_TRUE(sender->OnGrant(MakeGrant(0, 0, {{0, 0, 4}})).ok());
  // Had it not been acknowledged, everything would be sent again.
  ASSERT_TRUE(sender->OnJoin({77, 0, 1, 0}).ok());
  std::vector<uint64_t> steps;
  for (const ChunkJob& job : sender.SendAll()) steps.push_back(job.header.step);
  EXPECT_THAT(steps, ElementsAre(4, 5));
}

TEST(SenderTest, AnAcknowledgementOfAnotherGenerationIsIgnored) {
  TestSender sender(MakeOpen(), MakePlan({3}, 1), FakeRecords(10));
  sender.SendAll();
  ASSERT_TRUE(sender->OnJoin({77, 0, 1, 0}).ok());
  sender.SendAll();
  ASSERT_TRUE(sender->OnGrant(MakeGrant(0, 0, {{0, 0, 3}})).ok());  // crossed with the Join
  ASSERT_TRUE(sender->OnGrant(MakeGrant(0, 0, {{0, 2, 9}})).ok());  // overtook a Join
  ASSERT_TRUE(sender->OnJoin({77, 0, 2, 0}).ok());
  EXPECT_EQ(sender.SendAll().size(), 3u);
}

TEST(SenderTest, AJoinMayFollowOneThatGotLost) {
  TestSender sender(MakeOpen(), MakePlan({3}, 1), FakeRecords(10));
  sender.SendAll();
  ASSERT_TRUE(sender->OnJoin({77, 0, 4, 0}).ok());
  EXPECT_EQ(sender.SendAll().size(), 3u);
  EXPECT_EQ(sender->generation(0), 4u);
}

TEST(SenderTest, AnImpossibleJoinIsAProtocolError) {
  TestSender sender(MakeOpen(2), MakePlan({3}, 1), FakeRecords(10));
  sender.SendAll(0);
  ExpectProtocolError(sender->OnJoin({77, 2, 0, 0}), "Join of stream 2");
  ExpectProtocolError(sender->OnJoin({77, 0, 0, 0}), "generation 0 after generation 0");
  ExpectProtocolError(sender->OnJoin({77, 0, 1, 4}), "chunk 4 was received, but only 3");
  ExpectProtocolError(sender->OnJoin({77, 0, 2, 1}), "chunk 1 was received, but only 0");
  ASSERT_TRUE(sender->OnJoin({77, 0, 1, 3}).ok());
  ExpectProtocolError(sender->OnJoin({77, 0, 0, 0}), "generation 0 after generation 1");
  ExpectProtocolError(sender->OnJoin({77, 0, 2, 1}), "chunk 1 was received, but only 0");
}

TEST(SenderTest, AnAcknowledgementOfAChunkNeverSentIsAProtocolError) {
  TestSender sender(MakeOpen(2), MakePlan({3}, 1), FakeRecords(10));
  sender.SendAll(0);
  EXPECT_TRUE(sender->OnGrant(MakeGrant(0, 0, {{0, 0, 3}, {1, 0, 0}})).ok());
  ExpectProtocolError(sender->OnGrant(MakeGrant(0, 0, {{0, 0, 4}})), "chunk 4 of stream 0");
  ExpectProtocolError(sender->OnGrant(MakeGrant(0, 0, {{1, 0, 1}})), "chunk 1 of stream 1");
  ExpectProtocolError(sender->OnGrant(MakeGrant(0, 0, {{2, 0, 0}})), "stream 2 of 2");
}

}  // namespace
}  // namespace emlio::session
