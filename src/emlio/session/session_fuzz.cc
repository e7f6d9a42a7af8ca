// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "emlio/session/receiver.h"
#include "emlio/session/sender.h"
#include "emlio/session/session_testing.h"

// Any sequence of messages that the codec lets through, to a sender and a receiver of the same
// plan, mixed with what they say to each other: no crash, no chunk beyond the credit, no batch
// twice or with another number of slots, no memory that does not come back.
namespace emlio::session {
namespace {

constexpr size_t kMaxReading = 16;
constexpr uint64_t kMaxRecordBytes = 600;

void Require(bool condition) {
  if (!condition) std::abort();
}

class Input {
 public:
  explicit Input(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  bool empty() const { return bytes_.empty(); }
  uint8_t Byte() {
    if (bytes_.empty()) return 0;
    const uint8_t byte = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return byte;
  }
  uint64_t Below(uint64_t bound) { return Byte() % bound; }
  // Mostly small, sometimes anything.
  uint64_t Number() {
    const uint8_t first = Byte();
    if (first < 0xf8) return first;
    uint64_t number = 0;
    for (int i = 0xf8; i <= first; ++i) number = number << 8 | Byte();
    return number;
  }
  std::vector<uint32_t> Slots() {
    std::set<uint32_t> slots;
    for (uint64_t count = 1 + Below(5); count > 0; --count) {
      slots.insert(static_cast<uint32_t>(Number()));
    }
    return {slots.begin(), slots.end()};
  }

 private:
  std::span<const uint8_t> bytes_;
};

class Harness {
 public:
  explicit Harness(Input input)
      : input_(input), records_([](uint32_t shard, uint64_t record) {
          return (shard * 31 + record * 17) % 5 == 0 ? 300 : (shard + record) % 40;
        }) {
    const uint64_t records = 8 + input_.Below(20);
    const uint64_t more_records = input_.Below(10);
    const uint64_t batch = 2 + input_.Below(6);
    const auto shuffle = static_cast<plan::Shuffle>(input_.Below(3));
    const auto tail = input_.Below(2) == 0 ? plan::Tail::kDrop : plan::Tail::kPad;
    plan_ = testing::MakePlan({records, more_records}, batch, shuffle, tail);
    world_size_ = 1 + static_cast<uint32_t>(input_.Below(2));
    ReceiverOptions options;
    options.world_size = world_size_;
    options.max_record_bytes = kMaxRecordBytes;
    options.stride = stride_ = 1 + static_cast<uint32_t>(input_.Below(3));
    options.window_steps = 1 + input_.Below(5);
    std::vector<ReceiverSource> sources(2);
    for (ReceiverSource& source : sources) {
      source.streams = 2;
      source.prefetch_bytes = 16 * input_.Number() % 100'000;
    }
    if (input_.Below(2) == 1) {
      sources[0].assigned = {1};
      sources[1].assigned = {2};
    }
    receiver_ = std::make_unique<Receiver>(plan_, std::move(sources), options);
    Begin();
  }

  void Run() {
    while (!input_.empty()) Step();
  }

 private:
  void Begin() {
    const uint64_t epoch = input_.Number();
    const uint64_t step = input_.Number() % plan_->steps_per_epoch();
    const uint64_t epochs = input_.Below(4);
    ++open_id_;
    std::vector<uint64_t> handed_out;
    for (uint64_t done = step + stride_; done < plan_->steps_per_epoch(); done += stride_) {
      if (input_.Below(4) == 1) handed_out.push_back(done);
    }
    receiver_->Begin(epoch, step, epochs, {open_id_, open_id_}, handed_out);
    const wire::Open open = receiver_->MakeOpen(0);
    SenderOptions options;
    options.max_chunk_bytes = 32 + static_cast<uint32_t>(input_.Byte());
    options.read_ahead_bytes = 4 * input_.Byte();
    options.first_chunk_bytes = 1 + static_cast<uint32_t>(input_.Byte());
    sender_ = std::make_unique<Sender>(open, plan_, records_, options);
    limit_ = open.credit_bytes;
    exempt_ = {epoch, step};
    flow_ = 0;
    reading_.clear();
    taken_.clear();
  }

  void Step() {
    switch (input_.Below(16)) {
      case 0:
        return Begin();
      case 1:
        return ReceiveChunk();
      case 2: {
        wire::Skip skip;
        skip.open_id = OpenId();
        skip.epoch = receiver_->epoch() + input_.Number();
        skip.step = input_.Number();
        skip.slot = static_cast<uint32_t>(input_.Number());
        skip.flow_begin = input_.Number();
        skip.flow_end = skip.flow_begin + input_.Number();
        (void)receiver_->OnSkip(input_.Below(2), skip);
        return Take();
      }
      case 3: {
        wire::EpochEnd end;
        end.open_id = OpenId();
        end.epoch = receiver_->epoch() + input_.Number();
        end.flow_position = input_.Number();
        end.streams = {{static_cast<uint32_t>(input_.Below(3)),
                        static_cast<uint32_t>(input_.Number()), input_.Number()}};
        (void)receiver_->OnEpochEnd(input_.Below(2), end);
        return;
      }
      case 4: {
        const auto stream = static_cast<uint32_t>(input_.Below(2));
        (void)sender_->OnJoin(receiver_->MakeJoin(0, stream, input_.Below(4) == 0));
        return;
      }
      case 5: {
        wire::Grant grant;
        grant.open_id = open_id_;
        grant.limit = input_.Number();
        grant.epoch = receiver_->epoch() + input_.Number();
        grant.step = input_.Number();
        grant.acks = {{static_cast<uint32_t>(input_.Below(3)),
                       static_cast<uint32_t>(input_.Number()), input_.Number()}};
        return Grant(grant);
      }
      case 6: {
        wire::Fill fill;
        fill.open_id = open_id_;
        fill.epoch = receiver_->epoch() + input_.Number();
        fill.step = input_.Number();
        fill.slots = input_.Slots();
        fill.reason = input_.Below(2) == 0 ? wire::FillReason::kCrc : wire::FillReason::kLost;
        (void)sender_->OnFill(fill);
        return;
      }
      case 7: {
        wire::Join join;
        join.open_id = open_id_;
        join.stream = static_cast<uint32_t>(input_.Below(3));
        join.generation = static_cast<uint32_t>(input_.Number());
        join.last_sequence = input_.Number();
        (void)sender_->OnJoin(join);
        return;
      }
      case 8:
        return HandOut();
      case 9:  // the receiver's messages arrive
        for (auto& [source, message] : receiver_->TakeOutbox()) {
          if (const auto* grant = std::get_if<wire::Grant>(&message)) Grant(*grant);
          if (const auto* fill = std::get_if<wire::Fill>(&message)) (void)sender_->OnFill(*fill);
        }
        return;
      case 10:  // the sender's messages arrive
        for (wire::AnyMessage& message : sender_->TakeOutbox()) {
          if (const auto* skip = std::get_if<wire::Skip>(&message)) {
            (void)receiver_->OnSkip(0, *skip);
          } else if (const auto* end = std::get_if<wire::EpochEnd>(&message)) {
            (void)receiver_->OnEpochEnd(0, *end);
          }
        }
        return Take();
      default:
        return Send();
    }
  }

  wire::OpenId OpenId() { return open_id_ - (input_.Byte() == 0xff ? 1 : 0); }

  void Grant(const wire::Grant& grant) {
    limit_ = std::max(limit_, grant.limit);
    exempt_ = std::max(exempt_, {grant.epoch, grant.step});
    (void)sender_->OnGrant(grant);
  }

  void ReceiveChunk() {
    wire::Chunk chunk;
    chunk.open_id = OpenId();
    chunk.stream = static_cast<uint32_t>(input_.Below(3));
    chunk.generation = static_cast<uint32_t>(input_.Number());
    chunk.sequence = input_.Number();
    chunk.epoch = receiver_->epoch() + input_.Number();
    chunk.step = input_.Number();
    chunk.flow_begin = input_.Number();
    uint64_t bytes = 0;
    if (input_.Below(2) == 0) {
      chunk.slots = input_.Slots();
      for (size_t i = 0; i < chunk.slots.size(); ++i) {
        chunk.sizes.push_back(static_cast<uint32_t>(input_.Below(200)));
        bytes += chunk.sizes.back();
      }
      chunk.flow_end = chunk.flow_begin + bytes + wire::kRecordOverheadBytes * chunk.slots.size();
    } else {
      chunk.slots = {static_cast<uint32_t>(input_.Number())};
      bytes = input_.Byte();
      chunk.sizes = {static_cast<uint32_t>(bytes)};
      chunk.record_offset = input_.Number();
      chunk.record_total = input_.Number();
      chunk.flow_end =
          chunk.flow_begin + bytes + (chunk.record_offset == 0 ? wire::kRecordOverheadBytes : 0);
    }
    const std::vector<uint8_t> payload(bytes, input_.Byte());
    // A piece that is the whole record can be good.
    const uint32_t crc = Crc32c(payload.data(), payload.size());
    chunk.crcs.assign(chunk.slots.size(), crc);
    if (!wire::CheckChunk(chunk, bytes).ok()) return;
    Deliver(input_.Below(2), chunk,
            std::make_shared<const Buffer>(Buffer::CopyOf(payload.data(), bytes)));
  }

  void Deliver(size_t source, const wire::Chunk& chunk, std::shared_ptr<const Buffer> payload) {
    std::vector<uint8_t> good;
    const uint8_t which = input_.Byte();
    for (size_t i = 0; i < chunk.slots.size(); ++i) {
      good.push_back(static_cast<uint8_t>(which < 0xc0 || ((which >> (i % 6)) & 1) != 0));
    }
    (void)receiver_->OnChunk(source, chunk, std::move(payload), good);
    Take();
  }

  // One step of the daemon: plans a chunk, or sends one that was read.
  void Send() {
    if (reading_.size() < kMaxReading && input_.Below(2) == 0) {
      ChunkJob job;
      const uint64_t resent = sender_->records_resent();
      if (sender_->Next(&job) != Sender::NextResult::kChunk) return;
      if (sender_->records_resent() == resent) {
        Require(job.header.flow_begin == flow_);
        Require(job.header.flow_end <= limit_ ||
                std::pair(job.header.epoch, job.header.step) <= exempt_);
        flow_ = job.header.flow_end;
      }
      reading_.push_back(std::move(job));
      return;
    }
    const uint32_t stream = static_cast<uint32_t>(input_.Below(2));
    if (reading_.empty() || !sender_->joined(stream)) return;
    std::swap(reading_[input_.Below(reading_.size())], reading_.back());
    ChunkJob job = std::move(reading_.back());
    reading_.pop_back();
    if (input_.Below(job.verify ? 2 : 8) == 0) {
      sender_->OnBadRecord(job, input_.Below(job.records.size()), Corrupt("it is bad"));
      // Of a record in pieces the rest is left out.
      if (job.header.record_total > 0) {
        const uint64_t rest = job.header.record_total - job.header.record_offset +
                              (job.header.record_offset == 0 ? wire::kRecordOverheadBytes : 0);
        flow_ = std::max(flow_, job.header.flow_begin + rest);
      }
      return;
    }
    const std::shared_ptr<Buffer> payload = testing::Read(records_, &job);
    sender_->Assign(stream, &job);
    Require(wire::CheckChunk(job.header, job.payload_bytes).ok());
    if (input_.Below(8) != 0) Deliver(0, job.header, payload);
  }

  void Take() {
    AssembledBatch batch;
    while (receiver_->TakeComplete(&batch)) {
      Require(batch.records.size() == plan_->Share(batch.step, 0, world_size_).slots);
      uint64_t bytes = 0;
      uint8_t seen = 0;
      for (const std::span<const uint8_t> record : batch.records) {
        bytes += record.size();
        for (const uint8_t byte : record) seen = static_cast<uint8_t>(seen ^ byte);
      }
      Require(bytes == batch.payload_bytes);
      Require(taken_.insert({batch.epoch, batch.step}).second);
      seen_ = seen;
    }
  }

  void HandOut() {
    for (const auto& [epoch, step] : taken_) {
      if (!receiver_->MayHandOut(epoch, step) || input_.Below(3) == 1) continue;
      receiver_->OnHandedOut(epoch, step);
      taken_.erase({epoch, step});
      return;
    }
  }

  Input input_;
  const testing::FakeRecords records_;
  std::shared_ptr<const plan::Plan> plan_;
  uint32_t world_size_ = 1;
  uint32_t stride_ = 1;
  std::unique_ptr<Receiver> receiver_;
  std::unique_ptr<Sender> sender_;
  wire::OpenId open_id_ = 1;
  uint64_t limit_ = 0;
  std::pair<uint64_t, uint64_t> exempt_;
  uint64_t flow_ = 0;
  std::vector<ChunkJob> reading_;
  std::set<std::pair<uint64_t, uint64_t>> taken_;  // and not handed out
  volatile uint8_t seen_ = 0;                      // keeps the reads of the records
};

}  // namespace
}  // namespace emlio::session

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  emlio::session::Harness(emlio::session::Input({data, size})).Run();
  return 0;
}
