// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/session/sender.h"

#include <algorithm>
#include <limits>

#include "emlio/session/bitmap.h"
#include "fmt/format.h"

namespace emlio::session {
namespace {

constexpr int kMaxFillAttempts = 3;
// In place of a number of attempts: the slot was answered with a Skip.
constexpr int kSkipped = std::numeric_limits<int>::max();

uint64_t EndEpoch(const wire::Open& open) {
  constexpr uint64_t kEndless = std::numeric_limits<uint64_t>::max();
  return open.epochs == 0 || open.epochs > kEndless - open.epoch ? kEndless
                                                                 : open.epoch + open.epochs;
}

}  // namespace

Sender::Sender(const wire::Open& open, std::shared_ptr<const plan::Plan> plan,
               const RecordSource& source, SenderOptions options)
    : open_(open),
      plan_(std::move(plan)),
      source_(source),
      options_(options),
      end_epoch_(EndEpoch(open)),
      at_{open.epoch, open.step},
      chunk_limit_(std::min(options.first_chunk_bytes, options.max_chunk_bytes)),
      limit_(open.credit_bytes),
      exempt_{open.epoch, open.step},
      streams_(open.streams),
      next_end_epoch_(open.epoch) {
  // Without a record to send, endless epochs would be planned in a loop without end.
  planned_all_ = !HasShare();
}

// Whether this rank ever gets a record of an assigned shard.
bool Sender::HasShare() const {
  const plan::PlanSpec::Source& source = plan_->spec().sources.front();
  const uint64_t global_batch = plan_->spec().global_batch;
  uint64_t begin = 0;
  for (size_t shard = 0; shard < source.shard_records.size(); ++shard) {
    const uint64_t end = begin + source.shard_records[shard];
    if (begin < end && (open_.assigned.empty() || TestBit(open_.assigned, shard))) {
      // Sooner or later every record comes to every rank,
      if (source.shuffle != plan::Shuffle::kNone) return true;
      // unless all epochs are alike. A step that lies inside the shard ends the search.
      for (uint64_t step = begin / global_batch;
           step < plan_->steps_per_epoch() && step * global_batch < end; ++step) {
        const plan::StepShare share = plan_->Share(step, open_.rank, open_.world_size);
        if (share.first_position < end && share.first_position + share.slots > begin) return true;
      }
    }
    begin = end;
  }
  return false;
}

// In manifest order this daemon's next shard may be far behind: moves on, within the epoch, to just
// before the step in which it begins. REQUIRES: the present step has nothing to send.
void Sender::PassOverOtherShards() {
  const plan::PlanSpec::Source& source = plan_->spec().sources.front();
  if (source.shuffle != plan::Shuffle::kNone || open_.assigned.empty()) return;
  const uint64_t global_batch = plan_->spec().global_batch;
  const plan::PlannedRecord at = plan_->Locate(at_.step * global_batch);
  uint64_t begin = at_.step * global_batch - at.record;
  uint64_t next_step = plan_->steps_per_epoch();
  for (size_t shard = at.shard; shard < source.shard_records.size(); ++shard) {
    if (source.shard_records[shard] > 0 && TestBit(open_.assigned, shard)) {
      next_step = std::min(next_step, begin / global_batch);
      break;
    }
    begin += source.shard_records[shard];
  }
  if (next_step > at_.step) at_.step = next_step - 1;
}

// The slots of one step that this daemon fills, in slot order.
void Sender::SlotsOf(Position at, std::vector<Slot>* slots) const {
  slots->clear();
  const plan::StepShare share = plan_->Share(at.step, open_.rank, open_.world_size);
  plan_->Records(at.epoch, share, &plan_scratch_);
  // Slots counted from the cursor, for the bitmap of those that are filled already.
  uint64_t ordinal = 0;
  const bool some_filled = !open_.filled.empty() && at.epoch == open_.epoch;
  if (some_filled) {
    for (uint64_t step = open_.step; step < at.step; ++step) {
      ordinal += plan_->Share(step, open_.rank, open_.world_size).slots;
      if (ordinal >= 8 * open_.filled.size()) break;
    }
  }
  constexpr uint32_t kPrefetchDistance = 8;
  for (uint32_t slot = 0; slot < share.slots; ++slot) {
    if (slot + kPrefetchDistance < share.slots) {
      const plan::PlannedRecord& later = plan_scratch_[slot + kPrefetchDistance];
      source_.Prefetch(later.shard, later.record);
    }
    const plan::PlannedRecord& record = plan_scratch_[slot];
    if (!open_.assigned.empty() && !TestBit(open_.assigned, record.shard)) continue;
    if (some_filled && TestBit(open_.filled, ordinal + slot)) continue;
    slots->push_back({slot, record, source_.PayloadBytes(record.shard, record.record)});
  }
}

// Moves on to the next step that has something to send; false at the end of all epochs.
bool Sender::LoadStep() {
  while (!step_loaded_ || next_slot_ == step_slots_.size()) {
    if (planned_all_) return false;
    if (step_loaded_) {
      ++at_.step;
      if (at_.step == plan_->steps_per_epoch()) {
        at_ = {at_.epoch + 1, 0};
        epoch_flow_ends_.push_back(flow_);
      }
    }
    if (at_.epoch >= end_epoch_) {
      planned_all_ = true;
      return false;
    }
    SlotsOf(at_, &step_slots_);
    next_slot_ = 0;
    piece_offset_ = 0;
    step_loaded_ = true;
    if (step_slots_.empty()) {
      PassOverOtherShards();
    } else {
      step_flow_.emplace_back(at_, flow_);
    }
  }
  return true;
}

bool Sender::Allowed(const wire::Chunk& header) const {
  return header.flow_end <= limit_ || Position{header.epoch, header.step} <= exempt_;
}

void Sender::FillJob(const wire::Chunk& header, bool verify, ChunkJob* job) const {
  job->header = header;
  job->verify = verify;
  job->payload_bytes = 0;
  for (uint32_t size : header.sizes) job->payload_bytes += size;
  const plan::StepShare share = plan_->Share(header.step, open_.rank, open_.world_size);
  plan_->Records(header.epoch, share, &plan_scratch_);
  job->records.clear();
  for (uint32_t slot : header.slots) job->records.push_back(plan_scratch_[slot]);
}

bool Sender::Next(ChunkJob* job) {
  if (!resend_.empty()) {
    FillJob(resend_.front().header, resend_.front().verify, job);
    resend_.pop_front();
    records_resent_ += job->records.size();
    return true;
  }
  if (!LoadStep()) {
    EndEpochIfSent();
    return false;
  }

  if (blocked_flow_end_ > limit_ && at_ > exempt_) return false;
  wire::Chunk& header = job->header;
  header.epoch = at_.epoch;
  header.step = at_.step;
  header.flow_begin = flow_;
  header.slots.clear();
  header.sizes.clear();
  header.crcs.clear();
  header.record_offset = 0;
  header.record_total = 0;
  job->records.clear();
  job->verify = false;

  const Slot& first = step_slots_[next_slot_];
  size_t next_slot = next_slot_;
  uint64_t piece_offset = 0;
  uint64_t payload_bytes = 0;
  if (first.payload_bytes > options_.max_chunk_bytes) {
    payload_bytes =
        std::min<uint64_t>(first.payload_bytes - piece_offset_, options_.max_chunk_bytes);
    header.slots.push_back(first.slot);
    header.sizes.push_back(static_cast<uint32_t>(payload_bytes));
    header.record_offset = piece_offset_;
    header.record_total = first.payload_bytes;
    job->records.push_back(first.record);
    header.flow_end = flow_ + payload_bytes + (piece_offset_ == 0 ? wire::kRecordOverheadBytes : 0);
    piece_offset = piece_offset_ + payload_bytes;
    if (piece_offset == first.payload_bytes) {
      ++next_slot;
      piece_offset = 0;
    }
  } else {
    while (next_slot < step_slots_.size() && header.slots.size() < wire::kMaxChunkRecords) {
      const Slot& slot = step_slots_[next_slot];
      const uint64_t limit = header.slots.empty() ? options_.max_chunk_bytes : chunk_limit_;
      if (slot.payload_bytes > limit || payload_bytes + slot.payload_bytes > limit) break;
      payload_bytes += slot.payload_bytes;
      header.slots.push_back(slot.slot);
      header.sizes.push_back(static_cast<uint32_t>(slot.payload_bytes));
      job->records.push_back(slot.record);
      ++next_slot;
    }
    header.flow_end = flow_ + payload_bytes + wire::kRecordOverheadBytes * header.slots.size();
  }
  if (!Allowed(header)) {
    blocked_flow_end_ = header.flow_end;
    return false;
  }
  blocked_flow_end_ = 0;
  job->payload_bytes = payload_bytes;
  flow_ = header.flow_end;
  next_slot_ = next_slot;
  piece_offset_ = piece_offset;
  chunk_limit_ = std::min(chunk_limit_ * 2, options_.max_chunk_bytes);
  ++pending_of_epoch_[header.epoch];
  return true;
}

void Sender::Assign(uint32_t stream_number, wire::Chunk* header) {
  Stream& stream = streams_[stream_number];
  header->open_id = open_.open_id;
  header->stream = stream_number;
  header->generation = stream.generation;
  header->sequence = ++stream.sequence;
  Sent sent{header->sequence, *header};
  sent.header.crcs.clear();
  sent.header.crcs.shrink_to_fit();
  stream.unacknowledged.push_back(std::move(sent));
  Settle(header->epoch);
}

// An epoch has ended when planning is past it and none of its chunks waits to be read or sent; nor
// one of an earlier epoch, since the receiver takes an EpochEnd to count everything up to there.
void Sender::EndEpochIfSent() {
  // Look ahead, so that the end of an epoch does not wait for credit of the next one.
  LoadStep();
  while (!epoch_flow_ends_.empty() &&
         (pending_of_epoch_.empty() || pending_of_epoch_.begin()->first > next_end_epoch_)) {
    wire::EpochEnd end;
    end.open_id = open_.open_id;
    end.epoch = next_end_epoch_;
    end.flow_position = epoch_flow_ends_.front();
    for (uint32_t i = 0; i < streams_.size(); ++i) {
      end.streams.push_back({i, streams_[i].generation, streams_[i].sequence});
    }
    outbox_.push_back(std::move(end));
    epoch_flow_ends_.pop_front();
    ++next_end_epoch_;
    ++epochs_ended_;
  }
}

Status Sender::OnGrant(const wire::Grant& grant) {
  limit_ = std::max(limit_, grant.limit);
  exempt_ = std::max(exempt_, Position{grant.epoch, grant.step});
  for (const wire::StreamAck& ack : grant.acks) {
    if (ack.stream >= streams_.size()) {
      return ProtocolError(
          fmt::format("Grant acknowledges stream {} of {}", ack.stream, streams_.size()));
    }
    Stream& stream = streams_[ack.stream];
    if (ack.generation != stream.generation) continue;  // crossed with a Join
    if (ack.sequence > stream.sequence) {
      return ProtocolError(
          fmt::format("Grant acknowledges chunk {} of stream {}, but only {} were sent",
                      ack.sequence, ack.stream, stream.sequence));
    }
    while (!stream.unacknowledged.empty() &&
           stream.unacknowledged.front().sequence <= ack.sequence) {
      stream.unacknowledged.pop_front();
    }
  }
  // Steps before the oldest one that is needed cannot be asked for again.
  while (!step_flow_.empty() && step_flow_.front().first < exempt_) step_flow_.pop_front();
  fill_attempts_.erase(fill_attempts_.begin(), fill_attempts_.lower_bound({exempt_, 0}));
  return OkStatus();
}

Status Sender::OnFill(const wire::Fill& fill) {
  const Position at{fill.epoch, fill.step};
  if (at < exempt_) return OkStatus();  // complete meanwhile: the request crossed a Grant
  const auto start = std::find_if(step_flow_.begin(), step_flow_.end(),
                                  [&](const auto& entry) { return entry.first == at; });
  if (start == step_flow_.end()) {
    return ProtocolError(fmt::format("Fill asks for epoch {} step {}, which was not sent yet",
                                     fill.epoch, fill.step));
  }
  std::vector<Slot> slots;
  SlotsOf(at, &slots);
  for (uint32_t wanted : fill.slots) {
    uint64_t flow = start->second;
    auto slot = slots.begin();
    for (; slot != slots.end() && slot->slot != wanted; ++slot) {
      flow += slot->payload_bytes + wire::kRecordOverheadBytes;
    }
    if (slot == slots.end()) {
      return ProtocolError(
          fmt::format("Fill asks for slot {} of epoch {} step {}, which is not "
                      "this daemon's",
                      wanted, fill.epoch, fill.step));
    }
    if (flow + slot->payload_bytes + wire::kRecordOverheadBytes > flow_) {
      return ProtocolError(
          fmt::format("Fill asks for slot {} of epoch {} step {}, which was not "
                      "sent yet",
                      wanted, fill.epoch, fill.step));
    }
    int& attempts = fill_attempts_[{at, wanted}];
    if (attempts == kSkipped) continue;
    if (++attempts > kMaxFillAttempts) {
      AddSkip(at, wanted, slot->record,
              Corrupt(fmt::format("payload checksum: the record arrived damaged {} times although "
                                  "it is good where it is stored; the network or the memory of a "
                                  "host corrupts data",
                                  1 + kMaxFillAttempts)));
      continue;
    }
    wire::Chunk header;
    header.epoch = at.epoch;
    header.step = at.step;
    header.slots = {wanted};
    uint64_t offset = 0;
    do {
      const uint64_t size =
          std::min<uint64_t>(slot->payload_bytes - offset, options_.max_chunk_bytes);
      header.sizes = {static_cast<uint32_t>(size)};
      header.flow_begin = flow;
      header.flow_end = flow + size + (offset == 0 ? wire::kRecordOverheadBytes : 0);
      if (slot->payload_bytes > options_.max_chunk_bytes) {
        header.record_offset = offset;
        header.record_total = slot->payload_bytes;
      }
      // Verifying reads the whole record: once is enough for all its pieces.
      QueueResend(header, fill.reason == wire::FillReason::kCrc && offset == 0);
      flow = header.flow_end;
      offset += size;
    } while (offset < slot->payload_bytes);
  }
  return OkStatus();
}

Status Sender::OnJoin(const wire::Join& join) {
  if (join.stream >= streams_.size()) {
    return ProtocolError(fmt::format("Join of stream {}, but Open asked for {} streams",
                                     join.stream, streams_.size()));
  }
  Stream& stream = streams_[join.stream];
  if (stream.joined && join.generation <= stream.generation) {
    return ProtocolError(fmt::format("Join of stream {} with generation {} after generation {}",
                                     join.stream, join.generation, stream.generation));
  }
  // last_sequence counts in the generation before: nothing came in one that was never joined here.
  const bool follows = stream.joined && join.generation == stream.generation + 1;
  const uint64_t sent_sequence = follows ? stream.sequence : 0;
  if (join.last_sequence > sent_sequence) {
    return ProtocolError(
        fmt::format("Join of stream {} says chunk {} was received, but only {} "
                    "were sent",
                    join.stream, join.last_sequence, sent_sequence));
  }
  stream.joined = true;
  stream.generation = join.generation;
  for (Sent& sent : stream.unacknowledged) {
    if (sent.sequence > join.last_sequence) QueueResend(std::move(sent.header), false);
  }
  stream.unacknowledged.clear();
  stream.sequence = 0;
  return OkStatus();
}

void Sender::TakeBack(const ChunkJob& job) {
  wire::Chunk header = job.header;
  header.crcs.clear();
  QueueResend(std::move(header), job.verify);
  Settle(job.header.epoch);
}

void Sender::OnBadRecord(const ChunkJob& job, const Status& reason) {
  AddSkip({job.header.epoch, job.header.step}, job.header.slots.front(), job.records.front(),
          reason);
  Settle(job.header.epoch);
}

void Sender::QueueResend(wire::Chunk header, bool verify) {
  ++pending_of_epoch_[header.epoch];
  resend_.push_back({std::move(header), verify});
}

void Sender::AddSkip(Position at, uint32_t slot, const plan::PlannedRecord& record,
                     const Status& reason) {
  if (std::exchange(fill_attempts_[{at, slot}], kSkipped) == kSkipped) return;
  wire::Skip skip;
  skip.open_id = open_.open_id;
  skip.epoch = at.epoch;
  skip.step = at.step;
  skip.slot = slot;
  source_.Place(record.shard, record.record, &skip);
  skip.code = reason.code();
  skip.message = reason.message();
  outbox_.push_back(std::move(skip));
}

// One chunk given out by Next is dealt with.
void Sender::Settle(uint64_t epoch) {
  auto pending = pending_of_epoch_.find(epoch);
  if (--pending->second == 0) pending_of_epoch_.erase(pending);
  EndEpochIfSent();
}

}  // namespace emlio::session
