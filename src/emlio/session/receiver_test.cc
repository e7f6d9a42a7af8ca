// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/session/receiver.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "emlio/session/session_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace emlio::session {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::MakePlan;
using ::testing::SizeIs;

constexpr uint64_t kOverhead = wire::kRecordOverheadBytes;
constexpr wire::OpenId kId = 7;

// A receiver of one daemon over two streams, of which it begins one epoch.
class ReceiverTest : public ::testing::Test {
 protected:
  void Begin(std::vector<uint64_t> shard_records, uint64_t batch, uint64_t prefetch_bytes = 1 << 20,
             uint64_t epochs = 1, uint64_t window_steps = 1,
             const std::vector<uint64_t>& handed_out = {}) {
    ReceiverSource source;
    source.prefetch_bytes = prefetch_bytes;
    source.streams = 2;
    ReceiverOptions options;
    options.max_record_bytes = 1000;
    options.window_steps = window_steps;
    receiver_ = std::make_unique<Receiver>(MakePlan(std::move(shard_records), batch),
                                           std::vector<ReceiverSource>{source}, options);
    receiver_->Begin(0, 0, epochs, {kId}, handed_out);
  }

  // The next chunk of a stream, of whole records.
  wire::Chunk MakeChunk(uint64_t step, std::vector<uint32_t> slots, uint32_t size = 10,
                        uint32_t stream = 0) {
    wire::Chunk chunk;
    chunk.open_id = kId;
    chunk.stream = stream;
    chunk.sequence = ++sequence_[stream];
    chunk.step = step;
    chunk.flow_begin = flow_;
    flow_ += slots.size() * (size + kOverhead);
    chunk.flow_end = flow_;
    chunk.slots = std::move(slots);
    chunk.sizes.assign(chunk.slots.size(), size);
    chunk.crcs.assign(chunk.slots.size(), 0);
    return chunk;
  }
  // A piece of a record of `total` bytes, all of which are `fill`.
  wire::Chunk MakePiece(uint32_t slot, uint64_t offset, uint32_t size, uint64_t total,
                        uint8_t fill) {
    wire::Chunk chunk = MakeChunk(0, {slot}, size);
    if (offset > 0) chunk.flow_end = flow_ -= kOverhead;
    chunk.record_offset = offset;
    chunk.record_total = total;
    const std::vector<uint8_t> record(total, fill);
    chunk.crcs = {Crc32c(record.data(), record.size())};
    return chunk;
  }
  Status Give(const wire::Chunk& chunk, uint8_t fill = 0, std::vector<uint8_t> good = {}) {
    uint64_t bytes = 0;
    for (const uint32_t size : chunk.sizes) bytes += size;
    EXPECT_TRUE(wire::CheckChunk(chunk, bytes).ok());
    if (good.empty()) good.assign(chunk.slots.size(), 1);
    const std::vector<uint8_t> payload(bytes, fill);
    return receiver_->OnChunk(
        0, chunk, std::make_shared<const Buffer>(Buffer::CopyOf(payload.data(), bytes)), good);
  }
  Status Give(uint64_t step, std::vector<uint32_t> slots) {
    return Give(MakeChunk(step, std::move(slots)));
  }
  std::vector<AssembledBatch> TakeComplete() {
    std::vector<AssembledBatch> complete;
    AssembledBatch batch;
    while (receiver_->TakeComplete(&batch)) complete.push_back(std::move(batch));
    return complete;
  }
  template <typename Message>
  std::vector<Message> Outbox() {
    std::vector<Message> found;
    for (auto& [source, message] : receiver_->TakeOutbox()) {
      EXPECT_EQ(source, 0u);
      if (auto* wanted = std::get_if<Message>(&message)) found.push_back(std::move(*wanted));
    }
    return found;
  }
  // As a daemon that has sent all chunks made so far.
  wire::EpochEnd MakeEnd(uint64_t epoch = 0) const {
    wire::EpochEnd end;
    end.open_id = kId;
    end.epoch = epoch;
    end.flow_position = flow_;
    end.streams = {{0, 0, sequence_[0]}, {1, 0, sequence_[1]}};
    return end;
  }
  static wire::Skip MakeSkip(uint32_t slot) {
    wire::Skip skip;
    skip.open_id = kId;
    skip.slot = slot;
    skip.shard = "train-3";
    skip.record = 12;
    skip.offset = 3456;
    skip.code = Code::kCorrupt;
    skip.message = "payload checksum";
    return skip;
  }

  std::unique_ptr<Receiver> receiver_;
  uint64_t flow_ = 0;
  uint64_t sequence_[2] = {};
};

void ExpectProtocolError(const Status& status, const std::string& text) {
  EXPECT_EQ(status.code(), Code::kProtocol) << status.ToString();
  EXPECT_THAT(status.message(), HasSubstr(text));
}

TEST_F(ReceiverTest, ABatchIsCompleteWhenItsLastSlotIsFilled) {
  Begin({4}, 4);
  ASSERT_TRUE(Give(0, {1, 3}).ok());
  ASSERT_TRUE(Give(0, {0}).ok());
  EXPECT_THAT(TakeComplete(), IsEmpty());
  ASSERT_TRUE(Give(MakeChunk(0, {2}), 'x').ok());
  const auto complete = TakeComplete();
  ASSERT_THAT(complete, SizeIs(1));
  EXPECT_THAT(complete[0].records, SizeIs(4));
  EXPECT_EQ(complete[0].records[2][9], 'x');
  EXPECT_THAT(complete[0].owners, SizeIs(3));
  EXPECT_EQ(complete[0].payload_bytes, 40u);
  EXPECT_THAT(TakeComplete(), IsEmpty());
}

TEST_F(ReceiverTest, AGreaterPrefetchIsGrantedAtOnceAndASmallerOneTakesNothingBack) {
  Begin({4}, 1, /*prefetch_bytes=*/1 << 20);
  receiver_->SetPrefetch(0, 4 << 20);
  auto grants = Outbox<wire::Grant>();
  ASSERT_THAT(grants, SizeIs(1));
  EXPECT_EQ(grants[0].limit, 4u << 20);
  receiver_->SetPrefetch(0, 1 << 20);
  for (uint64_t step = 0; step < 3; ++step) {
    ASSERT_TRUE(Give(step, {0}).ok());
    TakeComplete();
    receiver_->OnHandedOut(0, step);
  }
  for (const wire::Grant& grant : Outbox<wire::Grant>()) EXPECT_GE(grant.limit, 4u << 20);
}

TEST_F(ReceiverTest, ASlotFilledTwiceKeepsTheFirstRecord) {
  Begin({2}, 2);
  ASSERT_TRUE(Give(MakeChunk(0, {0}), 'a').ok());
  ASSERT_TRUE(Give(MakeChunk(0, {0, 1}), 'b').ok());
  const auto complete = TakeComplete();
  ASSERT_THAT(complete, SizeIs(1));
  EXPECT_EQ(complete[0].records[0][0], 'a');
  EXPECT_EQ(complete[0].records[1][0], 'b');
  EXPECT_EQ(receiver_->stats().duplicate_records, 1u);
}

TEST_F(ReceiverTest, ARepeatedChunkIsDropped) {
  Begin({2}, 1);
  const wire::Chunk chunk = MakeChunk(0, {0});
  ASSERT_TRUE(Give(chunk).ok());
  ASSERT_TRUE(Give(chunk).ok());
  EXPECT_THAT(TakeComplete(), SizeIs(1));
  ASSERT_TRUE(Give(chunk).ok());
  receiver_->OnHandedOut(0, 0);
  ASSERT_TRUE(Give(chunk).ok());
  EXPECT_THAT(TakeComplete(), IsEmpty());
  EXPECT_EQ(receiver_->stats().duplicate_records, 3u);
  EXPECT_EQ(receiver_->stats().waiting_bytes, 0u);
}

TEST_F(ReceiverTest, ChunksOfAStreamMayBeSwapped) {
  Begin({3}, 1);
  const wire::Chunk first = MakeChunk(0, {0});
  const wire::Chunk second = MakeChunk(1, {0});
  ASSERT_TRUE(Give(MakeChunk(2, {0})).ok());
  ASSERT_TRUE(Give(second).ok());
  // Only what came without a gap counts as received.
  EXPECT_EQ(receiver_->MakeJoin(0, 0, /*rejoin=*/false).last_sequence, 0u);
  ASSERT_TRUE(Give(first).ok());
  EXPECT_THAT(TakeComplete(), SizeIs(3));
  EXPECT_EQ(receiver_->MakeJoin(0, 0, /*rejoin=*/true).last_sequence, 3u);
}

TEST_F(ReceiverTest, ASequenceFarAheadIsAProtocolError) {
  Begin({3}, 1);
  wire::Chunk chunk = MakeChunk(0, {0});
  chunk.sequence = 1'000'000;
  ExpectProtocolError(Give(chunk), "those after 0 are missing");
}

TEST_F(ReceiverTest, ARejoinedStreamCountsAnew) {
  Begin({4}, 1);
  ASSERT_TRUE(Give(0, {0}).ok());
  const wire::Chunk lost = MakeChunk(1, {0});
  wire::Chunk straggler = MakeChunk(2, {0});
  const wire::Join join = receiver_->MakeJoin(0, 0, /*rejoin=*/true);
  EXPECT_EQ(join.open_id, kId);
  EXPECT_EQ(join.generation, 1u);
  EXPECT_EQ(join.last_sequence, 1u);
  // Of the old connection, still in the hands of a thread.
  ASSERT_TRUE(Give(straggler).ok());
  wire::Chunk again = lost;
  again.generation = 1;
  again.sequence = 1;
  ASSERT_TRUE(Give(again).ok());
  EXPECT_THAT(TakeComplete(), SizeIs(3));
  EXPECT_EQ(receiver_->MakeJoin(0, 0, /*rejoin=*/true).last_sequence, 1u);
}

TEST_F(ReceiverTest, AGenerationNotJoinedYetIsAProtocolError) {
  Begin({4}, 1);
  wire::Chunk chunk = MakeChunk(0, {0});
  chunk.generation = 1;
  ExpectProtocolError(Give(chunk), "generation 1, which was not joined yet");
}

TEST_F(ReceiverTest, AChunkBeyondTheCreditIsAProtocolError) {
  Begin({4}, 1, /*prefetch_bytes=*/26);
  // The batch of the cursor is exempt.
  ASSERT_TRUE(Give(MakeChunk(0, {0}, 500)).ok());
  ExpectProtocolError(Give(1, {0}), "only 26 were granted");
}

TEST_F(ReceiverTest, ASlotOutOfRangeIsAProtocolError) {
  Begin({4}, 4);
  ExpectProtocolError(Give(0, {0, 4}), "slot 4 of 4");
  EXPECT_EQ(receiver_->stats().waiting_bytes, 0u);
  ExpectProtocolError(Give(MakePiece(4, 0, 5, 10, 'x')), "slot 4 of 4");
  ExpectProtocolError(receiver_->OnSkip(0, MakeSkip(4)), "slot 4 of 4");
}

TEST_F(ReceiverTest, AStepNotAskedForIsAProtocolError) {
  Begin({4}, 2);
  ExpectProtocolError(Give(2, {0}), "epoch 0 step 2 was not asked for");
  wire::Chunk next_epoch = MakeChunk(0, {0});
  next_epoch.epoch = 1;
  ExpectProtocolError(Give(next_epoch), "epoch 1 step 0 was not asked for");
  receiver_->Begin(3, 0, 0, {kId + 1});
  next_epoch.open_id = kId + 1;
  next_epoch.epoch = 2;
  ExpectProtocolError(Give(next_epoch), "epoch 2 step 0 was not asked for");
}

TEST_F(ReceiverTest, AStreamNotOpenedIsAProtocolError) {
  Begin({4}, 2);
  wire::Chunk chunk = MakeChunk(0, {0});
  chunk.stream = 2;
  ExpectProtocolError(Give(chunk), "only 2 streams");
  wire::EpochEnd end = MakeEnd();
  end.streams.push_back({2, 0, 0});
  ExpectProtocolError(receiver_->OnEpochEnd(0, end), "stream 2 of 2");
}

TEST_F(ReceiverTest, MessagesOfAnOlderOpeningAreIgnored) {
  Begin({4}, 4);
  const wire::Chunk chunk = MakeChunk(0, {0, 1, 2, 3});
  receiver_->Begin(0, 0, 1, {kId + 1});
  EXPECT_FALSE(receiver_->IsCurrent(0, kId));
  EXPECT_TRUE(Give(chunk).ok());
  EXPECT_TRUE(receiver_->OnSkip(0, MakeSkip(99)).ok());
  wire::EpochEnd end = MakeEnd(99);
  EXPECT_TRUE(receiver_->OnEpochEnd(0, end).ok());
  EXPECT_THAT(TakeComplete(), IsEmpty());
  EXPECT_EQ(receiver_->stats().chunks, 0u);
  EXPECT_FALSE(receiver_->has_outbox());
}

TEST_F(ReceiverTest, BadRecordsAreAskedForAgainTogether) {
  Begin({4}, 4);
  ASSERT_TRUE(Give(MakeChunk(0, {0, 1, 2, 3}), 'a', {1, 0, 1, 0}).ok());
  const auto fills = Outbox<wire::Fill>();
  ASSERT_THAT(fills, SizeIs(1));
  EXPECT_EQ(fills[0].open_id, kId);
  EXPECT_EQ(fills[0].step, 0u);
  EXPECT_THAT(fills[0].slots, ElementsAre(1, 3));
  EXPECT_EQ(fills[0].reason, wire::FillReason::kCrc);
  EXPECT_THAT(TakeComplete(), IsEmpty());
  EXPECT_EQ(receiver_->stats().waiting_bytes, 20u);

  ASSERT_TRUE(Give(MakeChunk(0, {1}), 'b').ok());
  ASSERT_TRUE(Give(MakeChunk(0, {3}), 'b', {0}).ok());  // once more
  EXPECT_THAT(Outbox<wire::Fill>(), SizeIs(1));
  ASSERT_TRUE(Give(MakeChunk(0, {3}), 'c').ok());
  const auto complete = TakeComplete();
  ASSERT_THAT(complete, SizeIs(1));
  EXPECT_EQ(complete[0].records[0][0], 'a');
  EXPECT_EQ(complete[0].records[1][0], 'b');
  EXPECT_EQ(complete[0].records[3][0], 'c');
  EXPECT_THAT(complete[0].skipped, IsEmpty());
}

TEST_F(ReceiverTest, ASkipCompletesTheBatchAndCarriesTheReason) {
  Begin({2}, 2);
  ASSERT_TRUE(Give(MakeChunk(0, {0, 1}), 'a', {1, 0}).ok());
  ASSERT_TRUE(receiver_->OnSkip(0, MakeSkip(1)).ok());
  ASSERT_TRUE(receiver_->OnSkip(0, MakeSkip(1)).ok());
  ASSERT_TRUE(receiver_->OnSkip(0, MakeSkip(0)).ok());  // filled already
  const auto complete = TakeComplete();
  ASSERT_THAT(complete, SizeIs(1));
  EXPECT_THAT(complete[0].records[1], IsEmpty());
  ASSERT_THAT(complete[0].skipped, SizeIs(1));
  EXPECT_EQ(complete[0].skipped[0].slot, 1u);
  EXPECT_EQ(complete[0].skipped[0].reason.code(), Code::kCorrupt);
  for (const char* part : {"train-3", "record 12", "offset 3456", "payload checksum"}) {
    EXPECT_THAT(complete[0].skipped[0].reason.message(), HasSubstr(part));
  }
  EXPECT_EQ(receiver_->stats().skipped_records, 1u);
  receiver_->OnHandedOut(0, 0);
  EXPECT_TRUE(receiver_->OnSkip(0, MakeSkip(1)).ok());
  EXPECT_TRUE(receiver_->OnEpochEnd(0, MakeEnd()).ok());
}

TEST_F(ReceiverTest, ASkippedRecordThatNeverCameCountsAsReceived) {
  Begin({3}, 3);
  ASSERT_TRUE(Give(0, {0}).ok());
  wire::Skip skip = MakeSkip(1);
  skip.flow_begin = flow_;
  skip.flow_end = flow_ += 10 + kOverhead;
  ASSERT_TRUE(receiver_->OnSkip(0, skip).ok());
  ASSERT_TRUE(receiver_->OnSkip(0, skip).ok());
  ASSERT_TRUE(Give(0, {2}).ok());
  EXPECT_TRUE(receiver_->OnEpochEnd(0, MakeEnd()).ok());
  EXPECT_THAT(TakeComplete(), SizeIs(1));
}

TEST_F(ReceiverTest, ASkipTwiceDoesNotStandInForARecordThatIsMissing) {
  Begin({3}, 3);
  ASSERT_TRUE(Give(0, {0}).ok());
  wire::Skip skip = MakeSkip(1);
  skip.flow_begin = flow_;
  skip.flow_end = flow_ += 10 + kOverhead;
  ASSERT_TRUE(receiver_->OnSkip(0, skip).ok());
  ASSERT_TRUE(receiver_->OnSkip(0, skip).ok());
  flow_ += 10 + kOverhead;
  ExpectProtocolError(receiver_->OnEpochEnd(0, MakeEnd()), "records are missing");
}

TEST_F(ReceiverTest, ASkippedRecordOfWhichSomeCameCountsOnce) {
  Begin({2}, 2);
  ASSERT_TRUE(Give(MakePiece(0, 0, 4, 8, 'x'), 'x').ok());
  wire::Skip skip = MakeSkip(0);
  skip.flow_end = 8 + kOverhead;
  ASSERT_TRUE(receiver_->OnSkip(0, skip).ok());
  // The second piece was on its way.
  ASSERT_TRUE(Give(MakePiece(0, 4, 4, 8, 'x'), 'x').ok());
  flow_ += 10 + kOverhead;  // slot 1, which never comes
  ExpectProtocolError(receiver_->OnEpochEnd(0, MakeEnd()), "records are missing");
}

TEST_F(ReceiverTest, SkipsReturnTheirCredit) {
  constexpr uint64_t kPrefetch = 1000;
  Begin({100}, 1, kPrefetch);
  uint64_t limit = kPrefetch;
  for (uint64_t step = 0; step < 100; ++step) {
    wire::Skip skip = MakeSkip(0);
    skip.step = step;
    skip.flow_begin = flow_;
    skip.flow_end = flow_ += 400;
    ASSERT_TRUE(receiver_->OnSkip(0, skip).ok());
    ASSERT_THAT(TakeComplete(), SizeIs(1));
    receiver_->OnHandedOut(0, step);
    for (const wire::Grant& grant : Outbox<wire::Grant>()) limit = grant.limit;
    ASSERT_EQ(limit, flow_ + kPrefetch);
  }
}

TEST_F(ReceiverTest, ALargeRecordIsMadeOfPiecesInAnyOrder) {
  Begin({1}, 1);
  const wire::Chunk first = MakePiece(0, 0, 4, 10, 'x');
  const wire::Chunk second = MakePiece(0, 4, 4, 10, 'x');
  const wire::Chunk third = MakePiece(0, 8, 2, 10, 'x');
  ASSERT_TRUE(Give(third, 'x').ok());
  ASSERT_TRUE(Give(first, 'x').ok());
  EXPECT_EQ(receiver_->stats().waiting_bytes, 6u);
  // The same piece once more, over the other stream.
  wire::Chunk again = first;
  again.stream = 1;
  ASSERT_TRUE(Give(again, 'x').ok());
  EXPECT_EQ(receiver_->stats().waiting_bytes, 6u);
  EXPECT_THAT(TakeComplete(), IsEmpty());
  ASSERT_TRUE(Give(second, 'x').ok());
  const auto complete = TakeComplete();
  ASSERT_THAT(complete, SizeIs(1));
  EXPECT_EQ(std::string(complete[0].records[0].begin(), complete[0].records[0].end()),
            "xxxxxxxxxx");
  EXPECT_TRUE(receiver_->OnEpochEnd(0, MakeEnd()).ok());
}

TEST_F(ReceiverTest, ALargeRecordThatIsDamagedIsAskedForAsAWhole) {
  Begin({1}, 1);
  ASSERT_TRUE(Give(MakePiece(0, 0, 4, 8, 'x'), 'x').ok());
  ASSERT_TRUE(Give(MakePiece(0, 4, 4, 8, 'x'), 'y').ok());
  const auto fills = Outbox<wire::Fill>();
  ASSERT_THAT(fills, SizeIs(1));
  EXPECT_THAT(fills[0].slots, ElementsAre(0));
  EXPECT_EQ(receiver_->stats().waiting_bytes, 0u);
  const uint64_t flow = flow_;
  ASSERT_TRUE(Give(MakePiece(0, 0, 4, 8, 'x'), 'x').ok());
  ASSERT_TRUE(Give(MakePiece(0, 4, 4, 8, 'x'), 'x').ok());
  EXPECT_THAT(TakeComplete(), SizeIs(1));
  flow_ = flow;  // what is sent again has its old range
  EXPECT_TRUE(receiver_->OnEpochEnd(0, MakeEnd()).ok());
}

TEST_F(ReceiverTest, ASkippedLargeRecordGivesItsMemoryBack) {
  Begin({1}, 1);
  ASSERT_TRUE(Give(MakePiece(0, 0, 4, 8, 'x'), 'x').ok());
  ASSERT_TRUE(receiver_->OnSkip(0, MakeSkip(0)).ok());
  EXPECT_EQ(receiver_->stats().waiting_bytes, 0u);
  EXPECT_THAT(TakeComplete(), SizeIs(1));
}

TEST_F(ReceiverTest, PiecesThatDoNotAgreeAreAProtocolError) {
  Begin({1}, 1);
  ASSERT_TRUE(Give(MakePiece(0, 0, 4, 8, 'x'), 'x').ok());
  ExpectProtocolError(Give(MakePiece(0, 4, 4, 9, 'x')), "do not agree");
  ExpectProtocolError(Give(MakePiece(0, 4, 4, 8, 'y')), "do not agree");
}

TEST_F(ReceiverTest, ARecordBeyondTheLimitIsRefusedWithItsFirstPiece) {
  Begin({1}, 1);
  const Status status = Give(MakePiece(0, 0, 4, 1001, 'x'));
  EXPECT_EQ(status.code(), Code::kLimitExceeded);
  EXPECT_THAT(status.message(), HasSubstr("1001 bytes"));
  EXPECT_THAT(status.message(), HasSubstr("max_record_mb"));
}

TEST_F(ReceiverTest, RecordsMayBeEmpty) {
  Begin({2}, 2);
  ASSERT_TRUE(Give(MakeChunk(0, {0, 1}, 0)).ok());
  const auto complete = TakeComplete();
  ASSERT_THAT(complete, SizeIs(1));
  EXPECT_THAT(complete[0].records, ElementsAre(IsEmpty(), IsEmpty()));
  EXPECT_TRUE(receiver_->OnEpochEnd(0, MakeEnd()).ok());
}

TEST_F(ReceiverTest, AnEpochEndThatOvertakesChunksWaitsForThem) {
  Begin({4}, 1);
  std::vector<wire::Chunk> chunks;
  for (uint64_t step = 0; step < 4; ++step) chunks.push_back(MakeChunk(step, {0}, 10, step % 2));
  ASSERT_TRUE(receiver_->OnEpochEnd(0, MakeEnd()).ok());
  for (const wire::Chunk& chunk : chunks) EXPECT_TRUE(Give(chunk).ok());
  EXPECT_THAT(TakeComplete(), SizeIs(4));
}

TEST_F(ReceiverTest, AnEpochEndWithRecordsMissingIsAProtocolError) {
  Begin({3}, 3);
  ASSERT_TRUE(Give(0, {0}).ok());
  MakeChunk(0, {1});  // planned by the daemon, but never sent
  --sequence_[0];
  const wire::Chunk last = MakeChunk(0, {2});
  ASSERT_TRUE(receiver_->OnEpochEnd(0, MakeEnd()).ok());  // `last` may be on its way
  ExpectProtocolError(Give(last), "records are missing");
}

TEST_F(ReceiverTest, AnEpochEndWaitsForRecordsAskedForAgain) {
  Begin({2}, 2);
  ASSERT_TRUE(Give(MakeChunk(0, {0, 1}), 'a', {1, 0}).ok());
  ASSERT_TRUE(receiver_->OnEpochEnd(0, MakeEnd()).ok());
  ASSERT_TRUE(receiver_->OnSkip(0, MakeSkip(1)).ok());
  EXPECT_THAT(TakeComplete(), SizeIs(1));
}

// What is sent again must not stand in for what was never sent.
TEST_F(ReceiverTest, RecordsAskedForAgainCountOnceTowardsTheEndOfTheEpoch) {
  Begin({3}, 3);
  ASSERT_TRUE(Give(MakeChunk(0, {0, 1}), 'a', {1, 0}).ok());
  const uint64_t flow = flow_;
  ASSERT_TRUE(Give(MakeChunk(0, {1}), 'a', {0}).ok());
  ASSERT_TRUE(Give(MakeChunk(0, {1}), 'a').ok());
  flow_ = flow + 26;
  ExpectProtocolError(receiver_->OnEpochEnd(0, MakeEnd()), "records are missing");
}

TEST_F(ReceiverTest, AnEpochEndOfAnEarlierGenerationWaitsForWhatIsSentAgain) {
  Begin({2}, 1);
  ASSERT_TRUE(Give(0, {0}).ok());
  wire::Chunk lost = MakeChunk(1, {0});
  const wire::EpochEnd end = MakeEnd();
  EXPECT_EQ(receiver_->MakeJoin(0, 0, /*rejoin=*/true).last_sequence, 1u);
  ASSERT_TRUE(receiver_->OnEpochEnd(0, end).ok());
  lost.generation = 1;
  lost.sequence = 1;
  ASSERT_TRUE(Give(lost).ok());
  EXPECT_THAT(TakeComplete(), SizeIs(2));
}

// Small epochs: control messages can be far ahead of chunks on a slow stream.
TEST_F(ReceiverTest, AnyNumberOfEpochEndsMayOvertakeChunks) {
  Begin({1}, 1, 1 << 20, /*epochs=*/0);
  std::vector<wire::Chunk> chunks;
  for (uint64_t epoch = 0; epoch < 1000; ++epoch) {
    chunks.push_back(MakeChunk(0, {0}));
    chunks.back().epoch = epoch;
    ASSERT_TRUE(receiver_->OnEpochEnd(0, MakeEnd(epoch)).ok());
  }
  for (const wire::Chunk& chunk : chunks) ASSERT_TRUE(Give(chunk).ok());
  EXPECT_THAT(TakeComplete(), SizeIs(1000));
  // And what is missing is still found.
  MakeChunk(0, {0});
  --sequence_[0];
  ExpectProtocolError(receiver_->OnEpochEnd(0, MakeEnd(1000)), "ended epoch 1000");
}

TEST_F(ReceiverTest, EpochsMustEndOnceAndInOrder) {
  Begin({1}, 1, 1 << 20, /*epochs=*/2);
  wire::EpochEnd end = MakeEnd(1);
  end.flow_position = 0;
  ExpectProtocolError(receiver_->OnEpochEnd(0, end), "epoch 1, which is not the next one");
  end.epoch = 0;
  EXPECT_TRUE(receiver_->OnEpochEnd(0, end).ok());
  ExpectProtocolError(receiver_->OnEpochEnd(0, end), "epoch 0, which is not the next one");
  end.epoch = 1;
  EXPECT_TRUE(receiver_->OnEpochEnd(0, end).ok());
  end.epoch = 2;
  ExpectProtocolError(receiver_->OnEpochEnd(0, end), "epoch 2, which is not the next one");
}

TEST_F(ReceiverTest, CreditReturnsWhenABatchIsHandedOutNotWhenItIsComplete) {
  Begin({10}, 1, /*prefetch_bytes=*/100);
  ASSERT_TRUE(Give(0, {0}).ok());
  ASSERT_TRUE(Give(1, {0}).ok());
  EXPECT_THAT(TakeComplete(), SizeIs(2));
  // However full the receiver is, it gives no leave for more: its memory would have no bound.
  EXPECT_THAT(Outbox<wire::Grant>(), IsEmpty());
  receiver_->OnHandedOut(0, 0);
  EXPECT_EQ(receiver_->step(), 1u);
  const auto grants = Outbox<wire::Grant>();
  ASSERT_THAT(grants, SizeIs(1));
  EXPECT_EQ(grants[0].open_id, kId);
  EXPECT_EQ(grants[0].limit, 26 + 100u);
  EXPECT_EQ(grants[0].step, 1u);
  EXPECT_THAT(grants[0].acks, ElementsAre(wire::StreamAck{0, 0, 2}));
}

TEST_F(ReceiverTest, InAWindowOfOneBatchesAreHandedOutInOrder) {
  Begin({3}, 1);
  EXPECT_TRUE(receiver_->MayHandOut(0, 0));
  EXPECT_FALSE(receiver_->MayHandOut(0, 1));
}

TEST_F(ReceiverTest, BatchesInTheWindowAreHandedOutInAnyOrderAndTheOldestMovesIt) {
  Begin({20}, 2, 1 << 20, /*epochs=*/2, /*window_steps=*/3);
  for (const uint64_t step : {1, 2, 3, 9}) ASSERT_TRUE(Give(step, {0, 1}).ok());
  EXPECT_THAT(TakeComplete(), SizeIs(4));
  EXPECT_FALSE(receiver_->MayHandOut(0, 3));
  receiver_->OnHandedOut(0, 2);
  receiver_->OnHandedOut(0, 1);
  EXPECT_EQ(receiver_->step(), 0u);
  EXPECT_THAT(receiver_->handed_out(), ElementsAre(1, 2));
  EXPECT_FALSE(receiver_->MayHandOut(0, 3));  // however many of the window are gone
  // What was handed out does not come again.
  ASSERT_TRUE(Give(1, {0, 1}).ok());
  EXPECT_EQ(receiver_->stats().duplicate_records, 2u);

  ASSERT_TRUE(Give(0, {0, 1}).ok());
  EXPECT_THAT(TakeComplete(), SizeIs(1));
  receiver_->OnHandedOut(0, 0);
  EXPECT_EQ(receiver_->step(), 3u);
  EXPECT_THAT(receiver_->handed_out(), IsEmpty());
  EXPECT_TRUE(receiver_->MayHandOut(0, 5));
  EXPECT_FALSE(receiver_->MayHandOut(0, 6));
  EXPECT_FALSE(receiver_->MayHandOut(0, 2));
}

TEST_F(ReceiverTest, TheWindowDoesNotReachIntoTheNextEpoch) {
  Begin({3}, 1, 1 << 20, /*epochs=*/2, /*window_steps=*/100);
  for (const uint64_t step : {1, 2}) ASSERT_TRUE(Give(step, {0}).ok());
  wire::Chunk next_epoch = MakeChunk(0, {0});
  next_epoch.epoch = 1;
  ASSERT_TRUE(Give(next_epoch).ok());
  EXPECT_THAT(TakeComplete(), SizeIs(3));
  receiver_->OnHandedOut(0, 2);
  receiver_->OnHandedOut(0, 1);
  EXPECT_FALSE(receiver_->MayHandOut(1, 0));
  EXPECT_EQ(receiver_->epoch(), 0u);
  ASSERT_TRUE(Give(0, {0}).ok());
  EXPECT_THAT(TakeComplete(), SizeIs(1));
  receiver_->OnHandedOut(0, 0);
  EXPECT_EQ(receiver_->epoch(), 1u);
  EXPECT_EQ(receiver_->step(), 0u);
  EXPECT_THAT(receiver_->handed_out(), IsEmpty());
  EXPECT_TRUE(receiver_->MayHandOut(1, 0));
}

TEST_F(ReceiverTest, CreditReturnsForBatchesBehindOneThatIsMissing) {
  Begin({10}, 1, /*prefetch_bytes=*/100, /*epochs=*/1, /*window_steps=*/10);
  flow_ = 26;  // step 0 is on its way
  ASSERT_TRUE(Give(1, {0}).ok());
  ASSERT_TRUE(Give(2, {0}).ok());
  EXPECT_THAT(TakeComplete(), SizeIs(2));
  receiver_->OnHandedOut(0, 2);
  auto grants = Outbox<wire::Grant>();
  ASSERT_THAT(grants, SizeIs(1));
  EXPECT_EQ(grants[0].limit, 26 + 100u);
  EXPECT_EQ(grants[0].step, 0u);  // which may still be sent, whatever is granted
  receiver_->OnHandedOut(0, 1);
  grants = Outbox<wire::Grant>();
  ASSERT_THAT(grants, SizeIs(1));
  EXPECT_EQ(grants[0].limit, 2 * 26 + 100u);

  wire::Chunk oldest = MakeChunk(0, {0});
  oldest.flow_begin = 0;
  oldest.flow_end = 26;
  ASSERT_TRUE(Give(oldest).ok());
  EXPECT_THAT(TakeComplete(), SizeIs(1));
  receiver_->OnHandedOut(0, 0);
  grants = Outbox<wire::Grant>();
  ASSERT_THAT(grants, SizeIs(1));
  EXPECT_EQ(grants[0].limit, 3 * 26 + 100u);  // each counts once
  EXPECT_EQ(grants[0].step, 3u);
}

TEST_F(ReceiverTest, StepsHandedOutBeforeAreNeitherAskedForNorHandedOutAgain) {
  Begin({13}, 2, /*prefetch_bytes=*/100, /*epochs=*/2, /*window_steps=*/1, {1, 3, 6});
  // Slots 2 and 3, 6 and 7, and the only one of the last step.
  EXPECT_THAT(receiver_->MakeOpen(0).filled, ElementsAre(0xcc, 0x10));
  EXPECT_THAT(receiver_->handed_out(), ElementsAre(1, 3, 6));
  for (const uint64_t step : {0, 2, 4, 5}) {
    EXPECT_EQ(receiver_->step(), step);
    ASSERT_TRUE(Give(step, {0, 1}).ok());
    EXPECT_THAT(TakeComplete(), SizeIs(1));
    receiver_->OnHandedOut(0, step);
    const auto grants = Outbox<wire::Grant>();
    EXPECT_EQ(grants.back().limit, flow_ + 100);
  }
  EXPECT_EQ(receiver_->epoch(), 1u);
  EXPECT_TRUE(receiver_->OnEpochEnd(0, MakeEnd()).ok());
  // The next epoch has all of its steps.
  wire::Chunk chunk = MakeChunk(1, {0, 1});
  chunk.epoch = 1;
  ASSERT_TRUE(Give(chunk).ok());
  EXPECT_THAT(TakeComplete(), SizeIs(1));
}

TEST_F(ReceiverTest, APositionThatOpenCannotNameIsRefused) {
  Begin({uint64_t{10} << 20}, 1 << 20);
  EXPECT_TRUE(receiver_->CheckHandedOut(0, {}).ok());
  EXPECT_TRUE(receiver_->CheckHandedOut(1, {2, 8}).ok());
  EXPECT_EQ(receiver_->CheckHandedOut(1, {2, 9}).code(), Code::kInvalidArgument);
}

TEST_F(ReceiverTest, AcknowledgesNowAndThenAlsoWithoutNewCredit) {
  Begin({1000}, 1000, /*prefetch_bytes=*/uint64_t{1} << 30);
  size_t grants = 0;
  for (uint32_t slot = 0; slot < 999; ++slot) {
    ASSERT_TRUE(Give(0, {slot}).ok());
    grants += Outbox<wire::Grant>().size();
  }
  EXPECT_EQ(grants, 3u);
}

TEST_F(ReceiverTest, OpensFromTheCursorOfBegin) {
  ReceiverSource source;
  source.assigned = {0x5};
  source.streams = 3;
  source.prefetch_bytes = 12345;
  ReceiverOptions options;
  options.rank = 1;
  options.world_size = 2;
  Receiver receiver(MakePlan({4, 4, 4}, 4), {source}, options);
  receiver.Begin(6, 2, 9, {kId});
  const wire::Open open = receiver.MakeOpen(0);
  EXPECT_EQ(open.open_id, kId);
  EXPECT_EQ(open.rank, 1u);
  EXPECT_EQ(open.world_size, 2u);
  EXPECT_EQ(open.epoch, 6u);
  EXPECT_EQ(open.step, 2u);
  EXPECT_EQ(open.epochs, 9u);
  EXPECT_EQ(open.assigned, source.assigned);
  EXPECT_EQ(open.streams, 3u);
  EXPECT_EQ(open.credit_bytes, 12345u);
}

}  // namespace
}  // namespace emlio::session
