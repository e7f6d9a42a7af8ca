// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "emlio/session/sender.h"
#include "emlio/session/session_testing.h"

// A sender and the messages of its receiver, for tests.
namespace emlio::session {

inline constexpr uint64_t kEnoughCredit = uint64_t{1} << 40;

inline constexpr uint64_t kOverhead = wire::kRecordOverheadBytes;

inline wire::Open MakeOpen(uint32_t streams = 1, uint64_t credit_bytes = kEnoughCredit) {
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
             const testing::FakeRecords& records, SenderOptions options = {})
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
  const testing::FakeRecords records_;
  Sender sender_;
};

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

inline wire::Grant MakeGrant(uint64_t limit, uint64_t step = 0,
                             std::vector<wire::StreamAck> acks = {}) {
  wire::Grant grant;
  grant.open_id = 77;
  grant.limit = limit;
  grant.step = step;
  grant.acks = std::move(acks);
  return grant;
}

inline wire::Fill MakeFill(uint64_t step, std::vector<uint32_t> slots,
                           wire::FillReason reason = wire::FillReason::kCrc) {
  wire::Fill fill;
  fill.open_id = 77;
  fill.step = step;
  fill.slots = std::move(slots);
  fill.reason = reason;
  return fill;
}

inline void ExpectProtocolError(const Status& status, const std::string& text) {
  EXPECT_EQ(status.code(), Code::kProtocol) << status.ToString();
  EXPECT_THAT(status.message(), ::testing::HasSubstr(text));
}

}  // namespace emlio::session
