// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
// Records that cannot be sent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "emlio/session/sender.h"
#include "emlio/session/sender_testing.h"
#include "emlio/session/session_testing.h"

namespace emlio::session {
namespace {

using ::testing::ElementsAre;
using testing::FakeRecords;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::MakePlan;

TEST(SenderTest, AfterThreeAttemptsTheSlotIsSkippedOnce) {
  TestSender sender(MakeOpen(), MakePlan({4}, 4), FakeRecords(10));
  sender.SendAll();
  sender->TakeOutbox();
  for (int attempt = 0; attempt < 3; ++attempt) {
    ASSERT_TRUE(sender->OnFill(MakeFill(0, {2})).ok());
    EXPECT_TRUE(sender.Send().has_value());
  }
  EXPECT_THAT(sender.Outbox<wire::Skip>(), IsEmpty());
  ASSERT_TRUE(sender->OnFill(MakeFill(0, {2})).ok());
  ASSERT_TRUE(sender->OnFill(MakeFill(0, {2})).ok());
  EXPECT_FALSE(sender.Send().has_value());
  const auto skips = sender.Outbox<wire::Skip>();
  ASSERT_EQ(skips.size(), 1u);
  EXPECT_EQ(skips[0].slot, 2u);
  EXPECT_EQ(skips[0].code, Code::kCorrupt);
  EXPECT_THAT(skips[0].message, HasSubstr("4 times"));
}

TEST(SenderTest, ABadRecordIsSkippedOnceWithItsPlaceAndReason) {
  SenderOptions options;
  options.max_chunk_bytes = 100;
  TestSender sender(MakeOpen(), MakePlan({3, 3}, 6), FakeRecords(250), options);
  sender.SendAll();
  sender->TakeOutbox();
  ASSERT_TRUE(sender->OnFill(MakeFill(0, {4})).ok());
  // The first piece and the second were given out before the first was read.
  const auto first = sender.Take();
  const auto second = sender.Take();
  ASSERT_TRUE(first.has_value() && second.has_value());
  EXPECT_TRUE(first->verify) << "it reads the whole record";
  EXPECT_FALSE(second->verify);
  sender->OnBadRecord(*first, 0, Corrupt("payload checksum"));
  EXPECT_FALSE(sender.Take().has_value()) << "the third is not wanted any more";
  sender->OnBadRecord(*second, 0, Corrupt("payload checksum"));
  const auto skips = sender.Outbox<wire::Skip>();
  ASSERT_EQ(skips.size(), 1u);
  EXPECT_EQ(skips[0].open_id, 77u);
  EXPECT_EQ(skips[0].slot, 4u);
  EXPECT_EQ(skips[0].shard, "shard-1");
  EXPECT_EQ(skips[0].record, 1u);
  EXPECT_EQ(skips[0].offset, 1000u);
  EXPECT_EQ(skips[0].code, Code::kCorrupt);
  EXPECT_EQ(skips[0].message, "payload checksum");
  EXPECT_EQ(skips[0].flow_begin, 4 * (250 + kOverhead));
  EXPECT_EQ(skips[0].flow_end, 5 * (250 + kOverhead));
  EXPECT_TRUE(sender->finished());
}

TEST(SenderTest, ABadRecordAmongOthersIsSkippedAndTheOthersGoOut) {
  TestSender sender(MakeOpen(), MakePlan({8}, 8), FakeRecords(10));
  const auto job = sender.Take();
  ASSERT_TRUE(job.has_value());
  ASSERT_EQ(job->records.size(), 8u);
  sender->OnBadRecord(*job, 3, IoError("cannot be read"));
  const auto skips = sender.Outbox<wire::Skip>();
  ASSERT_EQ(skips.size(), 1u);
  EXPECT_EQ(skips[0].slot, 3u);
  EXPECT_EQ(skips[0].code, Code::kIo);
  EXPECT_EQ(skips[0].flow_begin, 3 * (10 + kOverhead));
  EXPECT_EQ(skips[0].flow_end, 4 * (10 + kOverhead));
  EXPECT_FALSE(sender->finished());

  const auto before = sender.Send();
  ASSERT_TRUE(before.has_value());
  EXPECT_THAT(before->header.slots, ElementsAre(0, 1, 2));
  EXPECT_EQ(before->header.flow_begin, 0u);
  EXPECT_THAT(sender.Outbox<wire::EpochEnd>(), IsEmpty()) << "half of the chunk is missing";
  const auto behind = sender.Take();
  ASSERT_TRUE(behind.has_value());
  EXPECT_THAT(behind->header.slots, ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(behind->header.flow_begin, 4 * (10 + kOverhead));
  EXPECT_EQ(behind->header.flow_end, 8 * (10 + kOverhead));
  // The last one is bad, too.
  sender->OnBadRecord(*behind, 3, IoError("cannot be read"));
  EXPECT_THAT(sender.Send()->header.slots, ElementsAre(4, 5, 6));
  EXPECT_FALSE(sender.Take().has_value());
  const std::vector<wire::AnyMessage> last = sender->TakeOutbox();
  ASSERT_EQ(last.size(), 2u);
  EXPECT_EQ(std::get<wire::Skip>(last[0]).slot, 7u);
  EXPECT_EQ(std::get<wire::EpochEnd>(last[1]).flow_position, 8 * (10 + kOverhead));
  EXPECT_TRUE(sender->finished());
}

TEST(SenderTest, ALongRowOfBadRecordsIsNotPlannedAgainAndAgain) {
  constexpr uint32_t kBatch = 10'000;
  const CountingRecords records;
  Sender sender(MakeOpen(), MakePlan({kBatch}, kBatch), records, {});
  ASSERT_TRUE(sender.OnJoin({77, 0, 0, 0}).ok());
  ChunkJob job;
  uint64_t flow = 0;
  for (size_t skipped = 0; skipped < kBatch; ++skipped) {
    ASSERT_EQ(sender.Next(&job), Sender::NextResult::kChunk);
    sender.OnBadRecord(job, 0, IoError("cannot be read"));
    for (const wire::AnyMessage& message : sender.TakeOutbox()) {
      if (const auto* skip = std::get_if<wire::Skip>(&message)) {
        flow += skip->flow_end - skip->flow_begin;
      }
    }
  }
  EXPECT_TRUE(sender.finished());
  EXPECT_EQ(flow, kBatch * (10 + kOverhead));
  EXPECT_LE(records.calls, 200 * kBatch);
}

TEST(SenderTest, TheRestOfABadRecordInPiecesIsNotGivenOut) {
  SenderOptions options;
  options.max_chunk_bytes = 100;
  TestSender sender(MakeOpen(), MakePlan({2}, 2), FakeRecords(1000), options);
  EXPECT_TRUE(sender.Send().has_value());  // the first piece is good
  const auto second = sender.Take();
  const auto third = sender.Take();
  ASSERT_TRUE(second.has_value() && third.has_value());
  sender->OnBadRecord(*second, 0, IoError("cannot be read"));
  sender->OnBadRecord(*third, 0, IoError("cannot be read"));
  const auto skips = sender.Outbox<wire::Skip>();
  ASSERT_EQ(skips.size(), 1u);
  EXPECT_EQ(skips[0].flow_begin, 0u);
  EXPECT_EQ(skips[0].flow_end, 1000 + kOverhead);
  const auto next = sender.Take();
  ASSERT_TRUE(next.has_value());
  EXPECT_THAT(next->header.slots, ElementsAre(1));
  EXPECT_EQ(next->header.record_offset, 0u);
  EXPECT_EQ(next->header.flow_begin, 1000 + kOverhead);
}

TEST(SenderTest, AChunkTakenBackIsGivenOutAgainBeforeItsEpochEnds) {
  TestSender sender(MakeOpen(), MakePlan({6}, 6), FakeRecords(10));
  const auto job = sender.Take();
  ASSERT_TRUE(job.has_value());
  sender->TakeBack(*job);
  EXPECT_TRUE(sender->TakeOutbox().empty());
  EXPECT_FALSE(sender->finished());
  const auto again = sender.Send();
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->header.slots, job->header.slots);
  EXPECT_EQ(again->header.flow_begin, job->header.flow_begin);
  EXPECT_EQ(again->header.flow_end, job->header.flow_end);
  EXPECT_EQ(sender.Outbox<wire::EpochEnd>().size(), 1u);
  EXPECT_TRUE(sender->finished());
}

}  // namespace
}  // namespace emlio::session
