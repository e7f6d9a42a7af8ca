// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/session/sender.h"

#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "emlio/session/bitmap.h"
#include "emlio/session/session_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace emlio::session {
namespace {

using ::testing::ElementsAre;
using testing::FakeRecords;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::MakePlan;

constexpr uint64_t kEnoughCredit = uint64_t{1} << 40;
constexpr uint64_t kOverhead = wire::kRecordOverheadBytes;

wire::Open MakeOpen(uint32_t streams = 1, uint64_t credit_bytes = kEnoughCredit) {
  wire::Open open;
  open.open_id = 77;
  open.streams = streams;
  open.credit_bytes = credit_bytes;
  return open;
}

// A sender with the streams of generation 0 joined.
class TestSender {
 public:
  TestSender(const wire::Open& open, std::shared_ptr<const plan::Plan> plan,
             const FakeRecords& records, SenderOptions options = {})
      : records_(records), sender_(open, std::move(plan), records_, options) {
    for (uint32_t stream = 0; stream < open.streams; ++stream) {
      EXPECT_TRUE(sender_.OnJoin({77, stream, 0, 0}).ok());
    }
  }
  Sender* operator->() { return &sender_; }

  // Next without reading and binding.
  std::optional<ChunkJob> Take() {
    ChunkJob job;
    Sender::NextResult next;
    do {
      next = sender_.Next(&job);
    } while (next == Sender::NextResult::kBusy);
    if (next == Sender::NextResult::kBlocked) return std::nullopt;
    EXPECT_EQ(job.records.size(), job.header.slots.size());
    return job;
  }
  // One chunk, sent on `stream`. The records are read unless they are too many or too large.
  std::optional<ChunkJob> Send(uint32_t stream = 0, bool read = true) {
    std::optional<ChunkJob> job = Take();
    if (!job.has_value()) return std::nullopt;
    if (read) {
      testing::Read(records_, &*job);
    } else {
      job->header.crcs.resize(job->header.slots.size());
    }
    sender_.Assign(stream, &*job);
    EXPECT_EQ(job->header.open_id, 77u);
    EXPECT_TRUE(wire::CheckChunk(job->header, job->payload_bytes).ok());
    return job;
  }
  std::vector<ChunkJob> SendAll(uint32_t stream = 0) {
    std::vector<ChunkJob> sent;
    while (auto job = Send(stream)) sent.push_back(*std::move(job));
    return sent;
  }
  template <typename Message>
  std::vector<Message> Outbox() {
    std::vector<Message> found;
    for (wire::AnyMessage& message : sender_.TakeOutbox()) {
      if (auto* wanted = std::get_if<Message>(&message)) {
        found.push_back(std::move(*wanted));
      } else {
        ADD_FAILURE() << "unexpected message of kind " << message.index();
      }
    }
    return found;
  }

 private:
  const FakeRecords records_;
  Sender sender_;
};

wire::Grant MakeGrant(uint64_t limit, uint64_t step = 0, std::vector<wire::StreamAck> acks = {}) {
  wire::Grant grant;
  grant.open_id = 77;
  grant.limit = limit;
  grant.step = step;
  grant.acks = std::move(acks);
  return grant;
}

wire::Fill MakeFill(uint64_t step, std::vector<uint32_t> slots,
                    wire::FillReason reason = wire::FillReason::kCrc) {
  wire::Fill fill;
  fill.open_id = 77;
  fill.step = step;
  fill.slots = std::move(slots);
  fill.reason = reason;
  return fill;
}

void ExpectProtocolError(const Status& status, const std::string& text) {
  EXPECT_EQ(status.code(), Code::kProtocol) << status.ToString();
  EXPECT_THAT(status.message(), HasSubstr(text));
}

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

// Counts how much of the plan a call looks at.
class CountingRecords : public RecordSource {
 public:
  uint64_t PayloadBytes(uint32_t, uint64_t) const override {
    ++calls;
    return 10;
  }
  void Place(uint32_t, uint64_t, wire::Skip*) const override {}
  mutable uint64_t calls = 0;
};

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
