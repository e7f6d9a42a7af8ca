// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0

// Both state machines against each other over a made-up network that delays, reorders, repeats,
// damages and loses, under a scheduler that draws the next event. Equal seeds give equal runs.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "emlio/session/bitmap.h"
#include "emlio/session/receiver.h"
#include "emlio/session/sender.h"
#include "emlio/session/session_testing.h"
#include "gtest/gtest.h"

namespace emlio::session {
namespace {

using testing::FakeRecords;
using testing::MakePlan;

constexpr int kMaxReading = 4;           // chunks in the hands of a daemon's reading threads
constexpr int kMaxDamagesOfOneSlot = 3;  // with one more the daemon gives it up

struct Scenario {
  std::vector<uint64_t> shard_records = {40, 25, 35};
  uint64_t global_batch = 8;
  plan::Shuffle shuffle = plan::Shuffle::kFull;
  plan::Tail tail = plan::Tail::kKeep;
  uint32_t world_size = 1;
  uint64_t epoch = 0;
  uint64_t step = 0;
  uint32_t stride = 1;
  uint64_t window_steps = 1;    // 1: batches are handed out in order
  uint64_t epochs = 1;          // 0: endless, of which
  uint64_t epochs_wanted = 20;  // so many are read
  uint32_t daemons = 1;
  uint32_t streams = 3;
  uint32_t max_record_bytes = 300;
  uint32_t first_chunk_bytes = 256;
  uint32_t max_chunk_bytes = 2048;
  uint64_t prefetch_bytes = 8192;  // of each daemon
  // How often something happens when it can: relative to 1 for the other events.
  double network_weight = 1;
  double control_weight = 1;
  double consumer_weight = 1;
  double first_daemon_weight = 1;  // relative to the other daemons: all that it sends
  // Of each chunk delivered.
  double repeat_share = 0;
  double damage_share = 0;
  double stored_bad_share = 0;  // of the records
  double unreadable_share = 0;
  int losses = 0;  // connections
  int reopenings = 0;
};

class Simulation {
 public:
  Simulation(const Scenario& scenario, uint32_t rank, uint64_t seed)
      : scenario_(scenario),
        plan_(MakePlan(scenario.shard_records, scenario.global_batch, scenario.shuffle,
                       scenario.tail)),
        rank_(rank),
        random_(seed),
        records_([max = scenario.max_record_bytes](uint32_t shard, uint64_t record) {
          // Empty ones, and some much larger than the rest.
          const uint64_t x = (shard * 7919 + record) * 2654435761u >> 7;
          return x % 11 == 0 ? 0 : x % (x % 13 == 0 ? max * uint64_t{8} + 1 : max + uint64_t{1});
        }),
        end_epoch_(scenario.epoch +
                   (scenario.epochs == 0 ? scenario.epochs_wanted : scenario.epochs)),
        losses_left_(scenario.losses),
        reopenings_left_(scenario.reopenings) {
    EXPECT_TRUE(plan_->CheckWorld(scenario.world_size).ok());
    ReceiverOptions options;
    options.rank = rank;
    options.world_size = scenario.world_size;
    options.stride = scenario.stride;
    options.window_steps = scenario.window_steps;
    std::vector<ReceiverSource> sources(scenario.daemons);
    for (ReceiverSource& source : sources) {
      source.assigned.resize((scenario.shard_records.size() + 7) / 8);
      source.prefetch_bytes = scenario.prefetch_bytes;
      source.streams = scenario.streams;
    }
    for (size_t shard = 0; shard < scenario.shard_records.size(); ++shard) {
      SetBit(&sources[Draw(scenario.daemons)].assigned, shard);
    }
    receiver_ = std::make_unique<Receiver>(plan_, std::move(sources), options);
    daemons_.resize(scenario.daemons);
    model_ = {scenario.epoch, scenario.step};
    Open();
  }

  // Until everything was handed out and the network is empty.
  void Run() {
    uint64_t slots = 0;
    for (uint64_t step = 0; step < plan_->steps_per_epoch(); ++step) {
      slots += plan_->Share(step, rank_, scenario_.world_size).slots;
    }
    const uint64_t max_events = 50'000 + 200 * slots * (end_epoch_ - scenario_.epoch);
    uint64_t events = 0;
    while (Step()) {
      if (::testing::Test::HasFatalFailure()) return;
      ASSERT_LT(++events, max_events)
          << "no end in sight at epoch " << receiver_->epoch() << " step " << receiver_->step();
    }
    if (::testing::Test::HasFatalFailure()) return;
    ASSERT_EQ(receiver_->epoch(), end_epoch_) << "stuck at step " << receiver_->step();
    if (scenario_.epochs == 0) return;
    EXPECT_EQ(receiver_->step(), scenario_.step % scenario_.stride);
    EXPECT_EQ(batches_, BatchesDue());
    EXPECT_EQ(receiver_->stats().waiting_bytes, 0u);
    for (const Daemon& daemon : daemons_) {
      EXPECT_TRUE(daemon.sender->finished());
      if (daemon.flow > 0) {
        EXPECT_EQ(daemon.epochs_ended, end_epoch_ - opened_epoch_);
      }
    }
  }

  const ReceiverStats& stats() const { return receiver_->stats(); }
  uint64_t skipped() const { return skipped_; }
  uint64_t records_resent() const { return records_resent_; }
  uint64_t batches() const { return batches_; }
  // So many batches were handed out while an older one was not.
  uint64_t batches_ahead() const { return batches_ahead_; }

 private:
  struct Packet {
    wire::Chunk chunk;
    std::shared_ptr<const Buffer> payload;
  };
  // The connection of one stream.
  struct Wire {
    uint32_t generation = 0;
    std::deque<Packet> chunks;
    std::deque<wire::Join> joins;
  };
  struct Daemon {
    wire::OpenId open_id = 0;
    std::unique_ptr<Sender> sender;
    bool may_have_more = true;  // Next was not in vain since something came
    std::vector<ChunkJob> reading;
    std::vector<Wire> wires;
    std::vector<Packet> stragglers;  // in the hands of the receiver's threads
    std::deque<wire::AnyMessage> to_receiver;
    std::deque<wire::AnyMessage> to_daemon;
    // What PROTOCOL.md lets it send.
    uint64_t limit = 0;
    std::pair<uint64_t, uint64_t> exempt;
    uint64_t flow = 0;  // where its next fresh chunk must begin
    uint64_t epochs_ended = 0;
  };
  enum class Kind {
    kNext,
    kRead,
    kChunk,
    kStraggler,
    kJoin,
    kToReceiver,
    kToDaemon,
    kLose,
    kReopen,
    kHandOut
  };
  struct Event {
    double weight;
    Kind kind;
    uint32_t daemon = 0;
    uint32_t stream = 0;
  };

  uint64_t Draw(uint64_t bound) { return random_() % bound; }
  bool Happens(double share) { return static_cast<double>(random_() >> 11) < share * 0x1p53; }

  bool IsStoredBad(const plan::PlannedRecord& record) const {
    const uint64_t x = (record.shard * 104729 + record.record + 1) * 0x9e3779b97f4a7c15u;
    return static_cast<double>(x >> 11) < scenario_.stored_bad_share * 0x1p53 &&
           records_.PayloadBytes(record.shard, record.record) > 0;
  }

  bool IsUnreadable(const plan::PlannedRecord& record) const {
    const uint64_t x = (record.shard * 15485863 + record.record + 1) * 0x9e3779b97f4a7c15u;
    return static_cast<double>(x >> 11) < scenario_.unreadable_share * 0x1p53;
  }
  // A record that travels in pieces can be bad in its last one only.
  bool FailsToRead(const ChunkJob& job, size_t position) const {
    const plan::PlannedRecord& record = job.records[position];
    const bool is_last_piece = job.header.record_offset + job.header.sizes[position] ==
                               std::max<uint64_t>(job.header.record_total, 1);
    return IsUnreadable(record) &&
           (job.header.record_total == 0 || record.record % 2 == 0 || is_last_piece);
  }

  // What was not handed out, of all epochs.
  uint64_t BatchesDue() const {
    uint64_t due = 0;
    for (uint64_t epoch = scenario_.epoch; epoch < end_epoch_; ++epoch) {
      const uint64_t first =
          epoch == scenario_.epoch ? scenario_.step : scenario_.step % scenario_.stride;
      for (uint64_t step = first; step < plan_->steps_per_epoch(); step += scenario_.stride) ++due;
    }
    return due;
  }

  // Begins where the model of the state says.
  void Open() {
    const auto [epoch, step] = model_;
    const std::vector<uint64_t> handed_out(ahead_.begin(), ahead_.end());
    ASSERT_EQ(receiver_->CheckHandedOut(step, handed_out), OkStatus());
    opened_ahead_ = ahead_;
    std::vector<wire::OpenId> ids;
    for (size_t i = 0; i < daemons_.size(); ++i) ids.push_back(++last_open_id_);
    const uint64_t epochs = scenario_.epochs == 0 ? 0 : end_epoch_ - epoch;
    receiver_->Begin(epoch, step, epochs, ids, handed_out);
    opened_epoch_ = epoch;
    complete_.clear();
    damages_.clear();
    for (uint32_t i = 0; i < daemons_.size(); ++i) {
      // What is on its way stays there; its open id is an old one.
      Daemon& daemon = daemons_[i];
      const wire::Open open = receiver_->MakeOpen(i);
      SenderOptions options;
      options.first_chunk_bytes = scenario_.first_chunk_bytes;
      options.max_chunk_bytes = scenario_.max_chunk_bytes;
      options.read_ahead_bytes = Draw(3) * 200;
      daemon.open_id = open.open_id;
      daemon.sender = std::make_unique<Sender>(open, plan_, records_, options);
      daemon.may_have_more = true;
      daemon.reading.clear();
      daemon.limit = open.credit_bytes;
      daemon.exempt = {open.epoch, open.step};
      daemon.flow = 0;
      daemon.epochs_ended = 0;
      daemon.wires.resize(scenario_.streams);
      for (uint32_t stream = 0; stream < scenario_.streams; ++stream) {
        daemon.wires[stream].generation = 0;
        daemon.wires[stream].joins = {receiver_->MakeJoin(i, stream, /*rejoin=*/false)};
      }
    }
    OnCursor();
  }

  // One event, and its consequences; false when there is none left.
  bool Step() {
    if (scenario_.epochs == 0 && receiver_->epoch() == end_epoch_) return false;
    events_.clear();
    for (uint32_t i = 0; i < daemons_.size(); ++i) {
      const Daemon& daemon = daemons_[i];
      const double speed = i == 0 ? scenario_.first_daemon_weight : 1;
      bool is_joined = false;
      for (uint32_t stream = 0; stream < scenario_.streams; ++stream) {
        const Wire& wire = daemon.wires[stream];
        is_joined = is_joined || daemon.sender->joined(stream);
        if (!wire.chunks.empty()) {
          events_.push_back({speed * scenario_.network_weight, Kind::kChunk, i, stream});
        }
        if (!wire.joins.empty()) events_.push_back({1, Kind::kJoin, i, stream});
        if (losses_left_ > 0) events_.push_back({0.01, Kind::kLose, i, stream});
      }
      if (is_joined && daemon.may_have_more && daemon.reading.size() < kMaxReading) {
        events_.push_back({speed, Kind::kNext, i});
      }
      if (is_joined && !daemon.reading.empty()) events_.push_back({speed, Kind::kRead, i});
      if (!daemon.stragglers.empty()) events_.push_back({0.3, Kind::kStraggler, i});
      const double control = scenario_.control_weight;
      if (!daemon.to_receiver.empty()) events_.push_back({control, Kind::kToReceiver, i});
      if (!daemon.to_daemon.empty()) events_.push_back({control, Kind::kToDaemon, i});
    }
    if (!ReadyToHandOut().empty()) events_.push_back({scenario_.consumer_weight, Kind::kHandOut});
    if (events_.empty()) return false;
    if (reopenings_left_ > 0 && receiver_->epoch() < end_epoch_) {
      events_.push_back({0.005, Kind::kReopen});
    }
    double total = 0;
    for (const Event& event : events_) total += event.weight;
    double at = static_cast<double>(random_() >> 11) * 0x1p-53 * total;
    size_t chosen = 0;
    while (chosen + 1 < events_.size() && at >= events_[chosen].weight) {
      at -= events_[chosen++].weight;
    }
    const Event event = events_[chosen];
    Happen(event);
    if (!::testing::Test::HasFatalFailure()) Settle();
    return !::testing::Test::HasFatalFailure();
  }

  void Happen(const Event& event) {
    Daemon& daemon = daemons_[event.daemon];
    switch (event.kind) {
      case Kind::kNext:
        return Plan(&daemon);
      case Kind::kRead:
        return FinishReading(&daemon);
      case Kind::kChunk: {
        // Threads share the chunks of a connection, and may swap some.
        std::deque<Packet>& chunks = daemon.wires[event.stream].chunks;
        const size_t index = Happens(0.2) ? Draw(std::min<size_t>(chunks.size(), 4)) : 0;
        const Packet packet = chunks[index];
        chunks.erase(chunks.begin() + static_cast<std::ptrdiff_t>(index));
        if (Happens(scenario_.repeat_share)) daemon.stragglers.push_back(packet);
        return Deliver(event.daemon, packet);
      }
      case Kind::kStraggler: {
        std::swap(daemon.stragglers[Draw(daemon.stragglers.size())], daemon.stragglers.back());
        const Packet packet = daemon.stragglers.back();
        daemon.stragglers.pop_back();
        return Deliver(event.daemon, packet);
      }
      case Kind::kJoin: {
        const wire::Join join = daemon.wires[event.stream].joins.front();
        daemon.wires[event.stream].joins.pop_front();
        if (join.open_id != daemon.open_id) return;
        ASSERT_EQ(daemon.sender->OnJoin(join), OkStatus());
        daemon.may_have_more = true;
        return;
      }
      case Kind::kToReceiver: {
        const wire::AnyMessage message = std::move(daemon.to_receiver.front());
        daemon.to_receiver.pop_front();
        if (const auto* skip = std::get_if<wire::Skip>(&message)) {
          ASSERT_EQ(receiver_->OnSkip(event.daemon, *skip), OkStatus());
        } else {
          ASSERT_EQ(receiver_->OnEpochEnd(event.daemon, std::get<wire::EpochEnd>(message)),
                    OkStatus());
        }
        return;
      }
      case Kind::kToDaemon: {
        const wire::AnyMessage message = std::move(daemon.to_daemon.front());
        daemon.to_daemon.pop_front();
        return Control(&daemon, message);
      }
      case Kind::kLose:
        return Lose(event.daemon, event.stream);
      case Kind::kReopen:
        --reopenings_left_;
        return Open();
      case Kind::kHandOut:
        return HandOut();
    }
  }

  void Plan(Daemon* daemon) {
    ChunkJob job;
    const uint64_t resent = daemon->sender->records_resent();
    const Sender::NextResult next = daemon->sender->Next(&job);
    if (next != Sender::NextResult::kChunk) {
      daemon->may_have_more = next == Sender::NextResult::kBusy;
      return;
    }
    if (daemon->sender->records_resent() > resent) {
      records_resent_ += daemon->sender->records_resent() - resent;
      ASSERT_LE(job.header.flow_end, daemon->flow) << "sent again with a fresh flow range";
    } else {
      ASSERT_FALSE(job.header.epoch == opened_epoch_ && opened_ahead_.contains(job.header.step))
          << "step " << job.header.step << " was handed out before";
      ASSERT_EQ(job.header.flow_begin, daemon->flow);
      daemon->flow = job.header.flow_end;
      ASSERT_TRUE(job.header.flow_end <= daemon->limit ||
                  std::pair(job.header.epoch, job.header.step) <= daemon->exempt)
          << "step " << job.header.step << " up to " << job.header.flow_end << " with a limit of "
          << daemon->limit;
    }
    ASSERT_LE(job.payload_bytes, scenario_.max_chunk_bytes);
    daemon->reading.push_back(std::move(job));
  }

  // A daemon's thread has read some chunk: it is sent on some stream.
  void FinishReading(Daemon* daemon) {
    std::swap(daemon->reading[Draw(daemon->reading.size())], daemon->reading.back());
    ChunkJob job = std::move(daemon->reading.back());
    daemon->reading.pop_back();
    daemon->may_have_more = true;
    for (size_t i = 0; i < job.records.size(); ++i) {
      if (!FailsToRead(job, i)) continue;
      daemon->sender->OnBadRecord(job, i, IoError("cannot be read"));
      if (job.header.record_total > 0) {  // the pieces behind it are left out
        const uint64_t rest = job.header.record_total - job.header.record_offset;
        daemon->flow = std::max(
            daemon->flow, job.header.flow_begin + rest + (job.header.record_offset == 0 ? 16 : 0));
      }
      return;
    }
    if (job.verify && IsStoredBad(job.records.front())) {
      daemon->sender->OnBadRecord(job, 0, Corrupt("payload checksum"));
      return;
    }
    const std::shared_ptr<Buffer> payload = testing::Read(records_, &job);
    uint8_t* record = payload->data();
    for (size_t i = 0; i < job.records.size(); ++i) {
      if (job.header.record_offset == 0 && IsStoredBad(job.records[i])) *record ^= 1;
      record += job.header.sizes[i];
    }
    uint32_t stream = 0;
    do {
      stream = static_cast<uint32_t>(Draw(scenario_.streams));
    } while (!daemon->sender->joined(stream));
    daemon->sender->Assign(stream, &job);
    ASSERT_EQ(wire::CheckChunk(job.header, job.payload_bytes), OkStatus());
    Wire& wire = daemon->wires[stream];
    // Into a connection that is dead already, as long as the next Join has not come?
    if (job.header.generation != wire.generation) return;
    wire.chunks.push_back({job.header, payload});
  }

  void Deliver(uint32_t source, Packet packet) {
    const wire::Chunk& chunk = packet.chunk;
    if (packet.payload->size() > 0 && Happens(scenario_.damage_share)) Damage(&packet);
    std::vector<uint8_t> good(chunk.slots.size(), 1);
    if (chunk.record_total == 0) {
      const uint8_t* record = packet.payload->data();
      for (size_t i = 0; i < chunk.sizes.size(); ++i) {
        good[i] = Crc32c(record, chunk.sizes[i]) == chunk.crcs[i];
        record += chunk.sizes[i];
      }
    }
    ASSERT_EQ(receiver_->OnChunk(source, chunk, packet.payload, good), OkStatus());
  }

  void Damage(Packet* packet) {
    const size_t index = Draw(packet->chunk.slots.size());
    if (packet->chunk.sizes[index] == 0) return;
    int& damages = damages_[{packet->chunk.epoch, packet->chunk.step, packet->chunk.slots[index]}];
    if (damages == kMaxDamagesOfOneSlot) return;
    ++damages;
    auto damaged =
        std::make_shared<Buffer>(Buffer::CopyOf(packet->payload->data(), packet->payload->size()));
    uint8_t* record = damaged->data();
    for (size_t i = 0; i < index; ++i) record += packet->chunk.sizes[i];
    record[Draw(packet->chunk.sizes[index])] ^= 0x10;
    packet->payload = std::move(damaged);
  }

  void Control(Daemon* daemon, const wire::AnyMessage& message) {
    daemon->may_have_more = true;
    if (const auto* grant = std::get_if<wire::Grant>(&message)) {
      if (grant->open_id != daemon->open_id) return;
      daemon->limit = std::max(daemon->limit, grant->limit);
      daemon->exempt = std::max(daemon->exempt, {grant->epoch, grant->step});
      ASSERT_EQ(daemon->sender->OnGrant(*grant), OkStatus());
    } else {
      const auto& fill = std::get<wire::Fill>(message);
      if (fill.open_id != daemon->open_id) return;
      ASSERT_EQ(daemon->sender->OnFill(fill), OkStatus());
    }
  }

  void Lose(uint32_t source, uint32_t stream) {
    --losses_left_;
    Daemon& daemon = daemons_[source];
    Wire& wire = daemon.wires[stream];
    for (const Packet& packet : wire.chunks) {
      if (Happens(0.3)) daemon.stragglers.push_back(packet);
    }
    wire.chunks.clear();
    const wire::Join join = receiver_->MakeJoin(source, stream, /*rejoin=*/true);
    wire.generation = join.generation;
    wire.joins = {join};
  }

  std::pair<uint64_t, uint64_t> Cursor() const { return {receiver_->epoch(), receiver_->step()}; }

  std::vector<plan::PlannedRecord> RecordsOf(uint64_t epoch, uint64_t step) const {
    std::vector<plan::PlannedRecord> records;
    plan_->Records(epoch, plan_->Share(step, rank_, scenario_.world_size), &records);
    return records;
  }

  void OnCursor() {
    cursor_bytes_ = 0;
    if (receiver_->epoch() == end_epoch_) return;
    for (const plan::PlannedRecord& record : RecordsOf(receiver_->epoch(), receiver_->step())) {
      cursor_bytes_ += records_.PayloadBytes(record.shard, record.record);
    }
  }

  // Complete batches in the window, which is worked out here anew.
  std::vector<std::pair<uint64_t, uint64_t>> ReadyToHandOut() const {
    std::vector<std::pair<uint64_t, uint64_t>> ready;
    for (const auto& [at, batch] : complete_) {
      const bool may =
          at.first == model_.first && at.second < model_.second + scenario_.window_steps;
      EXPECT_EQ(may, receiver_->MayHandOut(at.first, at.second));
      if (may) ready.push_back(at);
    }
    return ready;
  }

  // The state is exact: the first step that is left, and those behind it that are not.
  void MoveModel(uint64_t step) {
    ASSERT_TRUE(ahead_.insert(step).second) << "step " << step << " comes again";
    if (step != model_.second) ++batches_ahead_;
    while (ahead_.erase(model_.second) == 1) {
      model_.second += scenario_.stride;
      if (model_.second >= plan_->steps_per_epoch()) {
        model_ = {model_.first + 1, scenario_.step % scenario_.stride};
        ASSERT_TRUE(ahead_.empty());
      }
    }
    ASSERT_EQ(Cursor(), model_);
    const std::vector<uint64_t> handed_out = receiver_->handed_out();
    ASSERT_TRUE(std::equal(ahead_.begin(), ahead_.end(), handed_out.begin(), handed_out.end()));
  }

  void HandOut() {
    const auto ready = ReadyToHandOut();
    const auto at = ready[Draw(ready.size())];
    const AssembledBatch batch = std::move(complete_.at(at));
    complete_.erase(at);
    const std::vector<plan::PlannedRecord> expected = RecordsOf(at.first, at.second);
    ASSERT_EQ(batch.records.size(), expected.size());
    std::set<uint32_t> skipped;
    for (const SkippedSlot& slot : batch.skipped) {
      EXPECT_EQ(slot.reason.code(), IsUnreadable(expected[slot.slot]) ? Code::kIo : Code::kCorrupt);
      EXPECT_TRUE(skipped.insert(slot.slot).second);
    }
    for (uint32_t slot = 0; slot < expected.size(); ++slot) {
      ASSERT_EQ(skipped.contains(slot), IsStoredBad(expected[slot]) || IsUnreadable(expected[slot]))
          << "slot " << slot;
      if (skipped.contains(slot)) continue;
      const std::vector<uint8_t> bytes = records_.Bytes(expected[slot]);
      ASSERT_TRUE(std::equal(bytes.begin(), bytes.end(), batch.records[slot].begin(),
                             batch.records[slot].end()))
          << "slot " << slot << " of step " << batch.step << " holds another record";
    }
    skipped_ += skipped.size();
    ASSERT_EQ(batch.step % scenario_.stride, scenario_.step % scenario_.stride);
    ++batches_;
    receiver_->OnHandedOut(at.first, at.second);
    MoveModel(at.second);
    OnCursor();
  }

  // What follows from an event at once: messages go out, complete batches are taken.
  void Settle() {
    for (auto& [source, message] : receiver_->TakeOutbox()) {
      daemons_[source].to_daemon.push_back(std::move(message));
    }
    for (Daemon& daemon : daemons_) {
      for (wire::AnyMessage& message : daemon.sender->TakeOutbox()) {
        if (const auto* end = std::get_if<wire::EpochEnd>(&message)) {
          EXPECT_EQ(end->epoch, opened_epoch_ + daemon.epochs_ended++);
        }
        daemon.to_receiver.push_back(std::move(message));
      }
    }
    AssembledBatch batch;
    while (receiver_->TakeComplete(&batch)) {
      const std::pair key(batch.epoch, batch.step);
      ASSERT_GE(key, Cursor());
      ASSERT_TRUE(complete_.emplace(key, std::move(batch)).second) << "a batch came twice";
    }
    ASSERT_LE(receiver_->stats().waiting_bytes,
              scenario_.daemons * scenario_.prefetch_bytes + cursor_bytes_);
  }

  const Scenario scenario_;
  const std::shared_ptr<const plan::Plan> plan_;
  const uint32_t rank_;
  std::mt19937_64 random_;
  const FakeRecords records_;
  const uint64_t end_epoch_;
  int losses_left_;
  int reopenings_left_;
  wire::OpenId last_open_id_ = 100;
  uint64_t opened_epoch_ = 0;

  std::unique_ptr<Receiver> receiver_;
  std::vector<Daemon> daemons_;
  std::map<std::pair<uint64_t, uint64_t>, AssembledBatch> complete_;
  // What was handed out: up to this step, and behind it in its epoch.
  std::pair<uint64_t, uint64_t> model_;
  std::set<uint64_t> ahead_;
  std::set<uint64_t> opened_ahead_;  // when it was opened
  uint64_t cursor_bytes_ = 0;        // of the cursor's batch
  std::map<std::tuple<uint64_t, uint64_t, uint32_t>, int> damages_;
  std::vector<Event> events_;
  uint64_t skipped_ = 0;
  uint64_t batches_ = 0;
  uint64_t batches_ahead_ = 0;
  uint64_t records_resent_ = 0;
};

// Several runs of one scenario, of every rank; sums what happened, so that tests can tell that it
// did.
struct Totals {
  uint64_t duplicates = 0;
  uint64_t refilled = 0;
  uint64_t skipped = 0;
  uint64_t resent = 0;
  uint64_t batches_ahead = 0;
  uint64_t max_waiting_bytes = 0;
};
Totals RunAll(const Scenario& scenario, int runs = 20) {
  Totals totals;
  for (int seed = 1; seed <= runs; ++seed) {
    for (uint32_t rank = 0; rank < scenario.world_size; ++rank) {
      SCOPED_TRACE(::testing::Message() << "seed " << seed << " rank " << rank);
      Simulation simulation(scenario, rank, seed);
      simulation.Run();
      if (::testing::Test::HasFailure()) return totals;
      totals.duplicates += simulation.stats().duplicate_records;
      totals.refilled += simulation.stats().refilled_records;
      totals.skipped += simulation.skipped();
      totals.resent += simulation.records_resent();
      totals.batches_ahead += simulation.batches_ahead();
      totals.max_waiting_bytes =
          std::max(totals.max_waiting_bytes, simulation.stats().max_waiting_bytes);
    }
  }
  return totals;
}

TEST(SimulationTest, DeliversEverythingInAnyOrderOfArrival) {
  const Totals totals = RunAll({});
  EXPECT_EQ(totals.duplicates, 0u);
  EXPECT_EQ(totals.resent, 0u);
}

TEST(SimulationTest, RepeatedChunksChangeNothing) {
  Scenario scenario;
  scenario.repeat_share = 0.3;
  EXPECT_GT(RunAll(scenario).duplicates, 0u);
}

TEST(SimulationTest, DamagedRecordsAreDeliveredInTheEnd) {
  Scenario scenario;
  scenario.damage_share = 0.3;
  const Totals totals = RunAll(scenario);
  EXPECT_GT(totals.refilled, 0u);
  EXPECT_EQ(totals.skipped, 0u);
}

TEST(SimulationTest, RecordsThatAreBadWhereStoredAreSkippedAndNoOthers) {
  Scenario scenario;
  scenario.stored_bad_share = 0.1;
  scenario.damage_share = 0.1;
  scenario.losses = 4;
  EXPECT_GT(RunAll(scenario).skipped, 0u);
}

TEST(SimulationTest, RecordsThatCannotBeReadAreSkippedAndNoOthers) {
  Scenario scenario;
  scenario.unreadable_share = 0.15;
  scenario.stored_bad_share = 0.05;
  scenario.damage_share = 0.05;
  scenario.repeat_share = 0.1;
  scenario.losses = 4;
  scenario.daemons = 2;
  scenario.epochs = 2;
  EXPECT_GT(RunAll(scenario).skipped, 0u);
  scenario.shuffle = plan::Shuffle::kNone;
  scenario.max_record_bytes = 900;  // many in pieces
  EXPECT_GT(RunAll(scenario).skipped, 0u);
}

// Skips take up credit and return it: many in a row must not use it up.
TEST(SimulationTest, NothingButSkipsComesToAnEnd) {
  for (const double share : {0.9, 1.0}) {
    Scenario scenario;
    scenario.unreadable_share = share;
    scenario.prefetch_bytes = 600;
    scenario.first_chunk_bytes = 100;
    scenario.max_chunk_bytes = 200;
    scenario.reopenings = 2;
    scenario.epochs = 2;
    EXPECT_GT(RunAll(scenario).skipped, 0u);
    scenario.epochs = 0;
    RunAll(scenario, 5);
  }
}

TEST(SimulationTest, LostConnectionsLoseNothing) {
  Scenario scenario;
  scenario.epochs = 3;
  scenario.losses = 25;
  scenario.network_weight = 0.3;
  const Totals totals = RunAll(scenario);
  EXPECT_GT(totals.resent, 0u);
  EXPECT_GT(totals.duplicates, 0u);
}

TEST(SimulationTest, LostConnectionsOfSmallEpochsLoseNothing) {
  Scenario scenario;
  scenario.shard_records = {2, 3};
  scenario.global_batch = 2;
  scenario.epochs = 40;
  scenario.losses = 60;
  scenario.damage_share = 0.05;
  scenario.network_weight = 0.5;
  EXPECT_GT(RunAll(scenario).resent, 0u);
}

TEST(SimulationTest, DaemonsShareTheShards) {
  Scenario scenario;
  scenario.shard_records = {10, 0, 33, 7, 1, 20, 16};
  scenario.daemons = 3;
  scenario.epochs = 2;
  scenario.losses = 5;
  RunAll(scenario);
  scenario.shuffle = plan::Shuffle::kNone;
  RunAll(scenario);
}

TEST(SimulationTest, RanksReadTheirSharesAtAnyWorldSize) {
  for (const uint32_t world_size : {2, 3, 5}) {
    Scenario scenario;
    scenario.global_batch = 10;
    scenario.shard_records = {31, 24, 50};  // the last step has 5
    scenario.world_size = world_size;
    scenario.daemons = 2;
    for (const plan::Tail tail : {plan::Tail::kKeep, plan::Tail::kDrop, plan::Tail::kPad}) {
      scenario.tail = tail;
      RunAll(scenario, 5);
    }
  }
}

TEST(SimulationTest, RecordsThatPadTheLastStepAreDeliveredInAnyOrderOfThePlan) {
  for (const plan::Shuffle shuffle :
       {plan::Shuffle::kNone, plan::Shuffle::kFull, plan::Shuffle::kBlock}) {
    Scenario scenario;
    scenario.shuffle = shuffle;
    scenario.tail = plan::Tail::kPad;
    scenario.daemons = 3;
    scenario.world_size = 3;
    scenario.epochs = 3;
    scenario.losses = 4;
    scenario.shard_records = {2, 0, 21, 1, 6};
    for (const uint64_t global_batch : {4, 7, 100}) {  // the last one holds the epoch several times
      scenario.global_batch = global_batch;
      RunAll(scenario, 5);
    }
  }
}

TEST(SimulationTest, ResumesAtAnyCursor) {
  for (const uint64_t step : {1, 7, 12}) {
    Scenario scenario;
    scenario.epoch = 3;
    scenario.step = step;  // of 13
    scenario.epochs = 2;
    scenario.daemons = 2;
    for (const plan::Shuffle shuffle :
         {plan::Shuffle::kNone, plan::Shuffle::kFull, plan::Shuffle::kBlock}) {
      scenario.shuffle = shuffle;
      for (const plan::Tail tail : {plan::Tail::kKeep, plan::Tail::kPad}) {
        scenario.tail = tail;
        RunAll(scenario, 3);
      }
    }
  }
}

TEST(SimulationTest, EveryStrideThStepIsDeliveredAndNoOther) {
  for (const plan::Shuffle shuffle :
       {plan::Shuffle::kNone, plan::Shuffle::kFull, plan::Shuffle::kBlock}) {
    for (const uint64_t step : {0, 1, 5, 12}) {
      Scenario scenario;
      scenario.shuffle = shuffle;
      scenario.tail = plan::Tail::kPad;
      scenario.step = step;  // of 13
      scenario.stride = 3;
      scenario.epochs = 2;
      scenario.daemons = 3;
      scenario.losses = 4;
      scenario.shard_records = {2, 30, 41, 1, 26};
      for (uint64_t seed = 1; seed <= 5; ++seed) {
        Simulation simulation(scenario, 0, seed);
        simulation.Run();
        ASSERT_FALSE(::testing::Test::HasFailure()) << "step " << step << " seed " << seed;
        const uint64_t first_epoch = (12 - step) / 3 + 1;
        const uint64_t second_epoch = (12 - step % 3) / 3 + 1;
        EXPECT_EQ(simulation.batches(), first_epoch + second_epoch);
      }
    }
  }
}

TEST(SimulationTest, OpeningAnewForgetsWhatIsOnItsWay) {
  Scenario scenario;
  scenario.reopenings = 4;
  scenario.losses = 4;
  scenario.daemons = 2;
  scenario.epochs = 2;
  scenario.network_weight = 0.3;
  RunAll(scenario);
}

TEST(SimulationTest, BatchesAreHandedOutOnceInAnyOrderOfTheWindow) {
  for (const uint64_t window_steps : {1, 2, 5, 1000}) {
    Scenario scenario;
    scenario.window_steps = window_steps;
    scenario.daemons = 2;
    scenario.epochs = 3;
    scenario.losses = 6;
    scenario.damage_share = 0.05;
    for (const plan::Shuffle shuffle : {plan::Shuffle::kNone, plan::Shuffle::kFull}) {
      scenario.shuffle = shuffle;
      const Totals totals = RunAll(scenario, 10);
      EXPECT_EQ(totals.batches_ahead > 0, window_steps > 1);
    }
  }
}

TEST(SimulationTest, ASlowDaemonAndLittleCreditDoNotStopBatchesInTheWindow) {
  for (const uint64_t prefetch_bytes : {0, 500, 5000}) {
    Scenario scenario;
    scenario.shuffle = plan::Shuffle::kNone;  // many steps are of one daemon alone
    scenario.shard_records = {8, 9, 7, 16, 3, 12, 10, 15};
    scenario.window_steps = 6;
    scenario.daemons = 3;
    scenario.first_daemon_weight = 0.02;
    scenario.consumer_weight = 10;
    scenario.prefetch_bytes = prefetch_bytes;
    scenario.epochs = 3;
    scenario.losses = 3;
    const Totals totals = RunAll(scenario, 10);
    if (prefetch_bytes >= 5000) {  // several batches
      EXPECT_GT(totals.batches_ahead, 0u);
    }
  }
}

TEST(SimulationTest, ResumesAtAnyMomentInTheWindow) {
  for (const uint32_t stride : {1, 3}) {
    Scenario scenario;
    scenario.shard_records = {30, 21, 40, 9};
    scenario.global_batch = 4;
    scenario.tail = plan::Tail::kPad;
    scenario.stride = stride;
    scenario.step = 4;
    scenario.window_steps = 8;
    scenario.daemons = 3;
    scenario.first_daemon_weight = 0.1;
    scenario.epochs = 3;
    scenario.losses = 4;
    scenario.reopenings = 8;
    EXPECT_GT(RunAll(scenario).batches_ahead, 0u);
  }
}

TEST(SimulationTest, LargeRecordsGoInPieces) {
  Scenario scenario;
  scenario.max_chunk_bytes = 64;
  scenario.first_chunk_bytes = 16;
  scenario.damage_share = 0.005;
  scenario.stored_bad_share = 0.05;
  scenario.repeat_share = 0.1;
  scenario.losses = 5;
  RunAll(scenario, 10);
}

TEST(SimulationTest, EmptyRecordsAreDelivered) {
  Scenario scenario;
  scenario.max_record_bytes = 0;
  scenario.prefetch_bytes = 200;
  scenario.losses = 3;
  RunAll(scenario);
}

TEST(SimulationTest, CreditSmallerThanARecordIsEnough) {
  for (const uint64_t prefetch_bytes : {0, 1, 20}) {
    Scenario scenario;
    scenario.prefetch_bytes = prefetch_bytes;
    scenario.daemons = 2;
    scenario.losses = 2;
    RunAll(scenario, 10);
  }
}

TEST(SimulationTest, ASlowConsumerHoldsTheDaemonsBack) {
  Scenario scenario;
  scenario.consumer_weight = 0.002;
  scenario.prefetch_bytes = 4000;
  scenario.daemons = 2;
  scenario.epochs = 5;
  // The bound itself is checked after every event.
  EXPECT_GT(RunAll(scenario, 5).max_waiting_bytes, 4000u);
}

TEST(SimulationTest, AFastConsumerIsServedOverASlowNetwork) {
  Scenario scenario;
  scenario.consumer_weight = 100;
  scenario.network_weight = 0.05;
  RunAll(scenario, 5);
}

TEST(SimulationTest, ControlMessagesMayBeMuchFasterOrSlowerThanChunks) {
  for (const double control_weight : {0.02, 50.0}) {
    Scenario scenario;
    scenario.control_weight = control_weight;
    scenario.epochs = 10;
    scenario.shard_records = {5, 8};
    scenario.network_weight = 0.2;
    scenario.losses = 10;
    scenario.damage_share = 0.05;
    RunAll(scenario, 10);
  }
}

TEST(SimulationTest, EndlessEpochsGoOn) {
  Scenario scenario;
  scenario.epochs = 0;
  scenario.epochs_wanted = 30;
  scenario.shard_records = {7, 5};
  scenario.daemons = 2;
  scenario.losses = 10;
  RunAll(scenario, 10);
}

TEST(SimulationTest, EverythingAtOnce) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const auto draw = [&](uint64_t least, uint64_t most) {
      return least + random() % (most - least + 1);
    };
    Scenario scenario;
    scenario.shard_records.resize(draw(1, 6));
    for (uint64_t& records : scenario.shard_records) records = draw(0, 20);
    scenario.shard_records.back() += 6;
    scenario.world_size = static_cast<uint32_t>(draw(1, 3));
    scenario.global_batch = draw(scenario.world_size, 6);
    scenario.shuffle = static_cast<plan::Shuffle>(draw(0, 2));
    scenario.tail = static_cast<plan::Tail>(draw(0, 2));
    const auto plan =
        MakePlan(scenario.shard_records, scenario.global_batch, scenario.shuffle, scenario.tail);
    if (!plan->CheckWorld(scenario.world_size).ok()) scenario.tail = plan::Tail::kDrop;
    scenario.epoch = draw(0, 2);
    scenario.step = draw(0, 3) % (MakePlan(scenario.shard_records, scenario.global_batch,
                                           scenario.shuffle, scenario.tail)
                                      ->steps_per_epoch());
    scenario.epochs = draw(0, 4);
    scenario.epochs_wanted = 4;
    scenario.stride = static_cast<uint32_t>(draw(1, 3));
    scenario.window_steps = draw(0, 1) * draw(1, 12) + 1;
    scenario.first_daemon_weight = std::ldexp(1.0, -static_cast<int>(draw(0, 4)));
    scenario.daemons = static_cast<uint32_t>(draw(1, 3));
    scenario.streams = static_cast<uint32_t>(draw(1, 4));
    scenario.max_record_bytes = static_cast<uint32_t>(draw(0, 1) * draw(1, 200));
    scenario.max_chunk_bytes = static_cast<uint32_t>(draw(64, 1000));
    scenario.first_chunk_bytes = static_cast<uint32_t>(draw(1, 500));
    scenario.prefetch_bytes = draw(0, 1) * draw(0, 5000);
    scenario.network_weight = std::ldexp(1.0, static_cast<int>(draw(0, 8)) - 5);
    scenario.control_weight = std::ldexp(1.0, static_cast<int>(draw(0, 8)) - 5);
    scenario.consumer_weight = std::ldexp(1.0, static_cast<int>(draw(0, 8)) - 5);
    scenario.repeat_share = 0.1 * static_cast<double>(draw(0, 2));
    scenario.damage_share = 0.05 * static_cast<double>(draw(0, 2));
    scenario.stored_bad_share = 0.05 * static_cast<double>(draw(0, 1));
    scenario.losses = static_cast<int>(draw(0, 10));
    scenario.reopenings = static_cast<int>(draw(0, 2));
    Simulation simulation(scenario, static_cast<uint32_t>(draw(0, scenario.world_size - 1)), seed);
    simulation.Run();
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace emlio::session
