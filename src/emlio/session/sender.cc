// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/session/sender.h"

#include <algorithm>
#include <limits>

#include "emlio/session/bitmap.h"
#include "fmt/format.h"

namespace emlio::session {
namespace {

static_assert(Sender::kSlotsATurn <= wire::kMaxChunkRecords);
constexpr int kMaxFillAttempts = 3;
// Bad records come in rows: what is behind one is tried in small parts, for each bad one has its
// part planned anew.
constexpr size_t kMaxTriedTogether = 256;
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
      read_ahead_bytes_(options.read_ahead_bytes),
      chunk_limit_(std::min(options.first_chunk_bytes, options.max_chunk_bytes)),
      limit_(open.credit_bytes),
      exempt_{open.epoch, open.step},
      streams_(open.streams),
      next_end_epoch_(open.epoch) {
  // Without a record to send, endless epochs would be planned in a loop without end.
  planned_all_ = !HasShare();
  BeginStep(at_);
}

// Whether this rank ever gets a record of an assigned shard.
bool Sender::HasShare() const {
  const plan::PlanSpec::Source& source = plan_->spec().sources.front();
  const uint64_t global_batch = plan_->spec().global_batch;
  const auto touches = [this](uint64_t step, uint64_t begin, uint64_t end) {
    return plan_->Touches(plan_->Share(step, open_.rank, open_.world_size), begin, end);
  };
  uint64_t begin = 0;
  for (size_t shard = 0; shard < source.shard_records.size(); ++shard) {
    const uint64_t end = begin + source.shard_records[shard];
    if (begin < end && (open_.assigned.empty() || TestBit(open_.assigned, shard))) {
      // Sooner or later every record comes to every rank,
      if (source.shuffle != plan::Shuffle::kNone) return true;
      // unless all epochs are alike. A step that lies inside the shard ends the search.
      for (uint64_t step = WantedFrom(begin / global_batch);
           step < plan_->steps_per_epoch() && step * global_batch < end; step += open_.stride) {
        if (touches(step, begin, end)) return true;
      }
      // The last one may begin the order anew.
      const uint64_t last = plan_->steps_per_epoch() - 1;
      if (WantedFrom(last) == last && touches(last, begin, end)) return true;
    }
    begin = end;
  }
  return false;
}

// The first step that is wanted, of those from `step` on; it may lie behind the epoch's end.
uint64_t Sender::WantedFrom(uint64_t step) const {
  const uint64_t behind = (step + open_.stride - open_.step % open_.stride) % open_.stride;
  return behind == 0 ? step : step + open_.stride - behind;
}

// In manifest order this daemon's next shard may be far behind: moves on, within the epoch, to just
// before the step in which it begins, or before the last one where that is padded: it begins the
// order anew. REQUIRES: the present step has nothing more to send.
void Sender::PassOverOtherShards() {
  const plan::PlanSpec::Source& source = plan_->spec().sources.front();
  if (source.shuffle != plan::Shuffle::kNone || open_.assigned.empty()) return;
  const uint64_t global_batch = plan_->spec().global_batch;
  const plan::PlannedRecord at = plan_->Locate(at_.step * global_batch);
  uint64_t begin = at_.step * global_batch - at.record;
  const bool may_pad = plan_->spec().tail == plan::Tail::kPad;
  uint64_t next_step = plan_->steps_per_epoch() - (may_pad ? 1 : 0);
  for (size_t shard = at.shard; shard < source.shard_records.size(); ++shard) {
    if (source.shard_records[shard] > 0 && TestBit(open_.assigned, shard)) {
      next_step = std::min(next_step, begin / global_batch);
      break;
    }
    begin += source.shard_records[shard];
  }
  if (next_step > at_.step) at_.step = WantedFrom(next_step) - open_.stride;
}

// Those of a step's slots [begin, end) that this daemon fills, in slot order.
void Sender::AppendSlotsOf(StepPosition at, uint32_t begin, uint32_t end,
                           std::vector<Slot>* slots) const {
  plan::StepShare share = plan_->Share(at.step, open_.rank, open_.world_size);
  // Slots counted from the cursor, for the bitmap of those that are filled already. Every step but
  // an epoch's last has as many as the first.
  const bool some_filled = !open_.filled.empty() && at.epoch == open_.epoch;
  uint64_t ordinal = 0;
  if (some_filled && at.step > open_.step) {
    ordinal = (at.step - open_.step) * plan_->Share(open_.step, open_.rank, open_.world_size).slots;
  }
  share.first_position += begin;
  share.slots = end - begin;
  plan_->Records(at.epoch, share, &plan_scratch_);
  constexpr uint32_t kPrefetchDistance = 8;
  for (uint32_t i = 0; i < share.slots; ++i) {
    if (i + kPrefetchDistance < share.slots) {
      const plan::PlannedRecord& later = plan_scratch_[i + kPrefetchDistance];
      source_.Prefetch(later.shard, later.record);
    }
    const plan::PlannedRecord& record = plan_scratch_[i];
    if (!open_.assigned.empty() && !TestBit(open_.assigned, record.shard)) continue;
    if (some_filled && TestBit(open_.filled, ordinal + begin + i)) continue;
    slots->push_back({at, begin + i, record, source_.PayloadBytes(record.shard, record.record)});
  }
}

void Sender::BeginStep(StepPosition at) {
  at_ = at;
  planned_slots_ = 0;
  if (at_.epoch >= end_epoch_) {
    planned_all_ = true;
  } else {
    share_ = plan_->Share(at_.step, open_.rank, open_.world_size);
  }
}

// Plans until enough is planned ahead, or the turn is over.
void Sender::PlanAhead() {
  constexpr size_t kMaxSlotsAhead = 65536;
  constexpr uint32_t kCostOfAStep = 4;  // in slots, roughly
  if (planned_all_) return;
  // What was sent makes room, once it is more than what has to be moved.
  if (next_slot_ >= planned_.size() - next_slot_) {
    planned_.erase(planned_.begin(), planned_.begin() + next_slot_);
    read_ahead_from_ -= std::min(read_ahead_from_, next_slot_);
    next_slot_ = 0;
  }
  for (uint32_t cost = 0; cost < kSlotsATurn && !planned_all_;) {
    if (next_slot_ < planned_.size() &&
        (planned_flow_ - flow_ >= read_ahead_bytes_ ||
         planned_.size() - next_slot_ >= kMaxSlotsAhead || parts_.size() >= kMaxPartsAhead)) {
      return;
    }
    if (planned_slots_ == share_.slots) {
      if (at_.step + open_.stride < plan_->steps_per_epoch()) {
        BeginStep({at_.epoch, at_.step + open_.stride});
      } else {
        epoch_flow_ends_.push_back(planned_flow_);
        BeginStep({at_.epoch + 1, open_.step % open_.stride});
      }
      cost += kCostOfAStep;
      continue;
    }
    const uint32_t begin = planned_slots_;
    const size_t before = planned_.size();
    planned_slots_ = std::min(share_.slots, begin + kSlotsATurn);
    AppendSlotsOf(at_, begin, planned_slots_, &planned_);
    cost += planned_slots_ - begin;
    if (planned_.size() > before) {
      parts_.push_back({at_, begin, planned_flow_});
      for (size_t i = before; i < planned_.size(); ++i) planned_flow_ += planned_[i].flow_bytes();
    } else if (planned_slots_ == share_.slots) {
      PassOverOtherShards();
    }
  }
}

// kChunk: there is a slot to begin the next chunk with. kBlocked: the end of all epochs.
Sender::NextResult Sender::Planned() {
  PlanAhead();
  if (next_slot_ < planned_.size()) return NextResult::kChunk;
  return planned_all_ ? NextResult::kBlocked : NextResult::kBusy;
}

void Sender::TakeReadAhead(std::vector<plan::PlannedRecord>* records) {
  read_ahead_from_ = std::max(read_ahead_from_, next_slot_);
  for (; read_ahead_from_ < planned_.size(); ++read_ahead_from_) {
    records->push_back(planned_[read_ahead_from_].record);
  }
}

// Adds a whole record, or the piece of it that begins at range.record_offset.
void Sender::Add(const Slot& slot, ChunkJob* job) const {
  wire::Chunk& header = job->header;
  uint64_t bytes = slot.payload_bytes;
  if (bytes > options_.max_chunk_bytes) {
    header.record_offset = job->range.record_offset;
    header.record_total = bytes;
    bytes = std::min<uint64_t>(bytes - header.record_offset, options_.max_chunk_bytes);
  }
  header.slots.push_back(slot.slot);
  header.sizes.push_back(static_cast<uint32_t>(bytes));
  header.flow_end += bytes + (header.record_offset == 0 ? wire::kRecordOverheadBytes : 0);
  job->records.push_back(slot.record);
  job->payload_bytes += bytes;
}

// An empty chunk at the beginning of its range.
void Sender::BeginJob(const ChunkRange& range, ChunkJob* job) {
  wire::Chunk& header = job->header;
  header.epoch = range.at.epoch;
  header.step = range.at.step;
  header.flow_begin = header.flow_end = range.flow_begin;
  header.slots.clear();
  header.sizes.clear();
  header.crcs.clear();
  header.record_offset = 0;
  header.record_total = 0;
  job->range = range;
  job->records.clear();
  job->payload_bytes = 0;
  job->verify = false;
}

void Sender::TakeResend(ChunkJob* job) {
  Resend& next = resend_.front();
  BeginJob(next.range, job);
  job->verify = std::exchange(next.verify, false);  // that reads all of the record: once is enough
  slot_scratch_.clear();
  AppendSlotsOf(next.range.at, next.range.slots_begin, next.range.slots_end, &slot_scratch_);
  for (const Slot& slot : slot_scratch_) Add(slot, job);
  records_resent_ += job->records.size();
  const uint64_t piece_end = job->header.record_offset + job->payload_bytes;
  if (next.to_record_end && piece_end < job->header.record_total) {
    next.range.record_offset = piece_end;
    next.range.flow_begin = job->header.flow_end;
    ++pending_of_epoch_[next.range.at.epoch];
  } else {
    resend_.pop_front();
  }
}

Sender::NextResult Sender::Next(ChunkJob* job) {
  if (unacknowledged_ >= kMaxUnacknowledged) return NextResult::kBlocked;
  if (!resend_.empty()) {
    TakeResend(job);
    return NextResult::kChunk;
  }
  const NextResult planned = Planned();
  EndEpochs();
  if (planned != NextResult::kChunk) return planned;
  const Slot& first = planned_[next_slot_];
  const bool is_exempt = first.at <= exempt_;
  if (!is_exempt && (blocked_flow_end_ > limit_ || parts_.size() > kMaxPartsAhead)) {
    return NextResult::kBlocked;
  }

  BeginJob({first.at, first.slot, first.slot + 1, piece_offset_, flow_}, job);
  Add(first, job);
  size_t next_slot = next_slot_ + 1;
  uint64_t piece_offset = 0;
  if (first.payload_bytes > options_.max_chunk_bytes) {
    piece_offset = piece_offset_ + job->payload_bytes;
    if (piece_offset < first.payload_bytes) {
      --next_slot;
    } else {
      piece_offset = 0;
    }
  } else {
    // Within one part of a step, so that its slots can be found again in one turn.
    const uint64_t part_end = (first.slot / kSlotsATurn + 1) * uint64_t{kSlotsATurn};
    for (; next_slot < planned_.size(); ++next_slot) {
      const Slot& slot = planned_[next_slot];
      if (slot.at != first.at || slot.slot >= part_end) break;
      if (job->payload_bytes + slot.payload_bytes > chunk_limit_) break;
      Add(slot, job);
      job->range.slots_end = slot.slot + 1;
    }
  }
  if (!is_exempt && job->header.flow_end > limit_) {
    blocked_flow_end_ = job->header.flow_end;
    return NextResult::kBlocked;
  }
  blocked_flow_end_ = 0;
  flow_ = job->header.flow_end;
  next_slot_ = next_slot;
  piece_offset_ = piece_offset;
  chunk_limit_ = std::min(chunk_limit_ * 2, options_.max_chunk_bytes);
  ++pending_of_epoch_[job->header.epoch];
  return NextResult::kChunk;
}

void Sender::Assign(uint32_t stream_number, ChunkJob* job) {
  Stream& stream = streams_[stream_number];
  wire::Chunk& header = job->header;
  header.open_id = open_.open_id;
  header.stream = stream_number;
  header.generation = stream.generation;
  header.sequence = ++stream.sequence;
  stream.unacknowledged.push_back({header.sequence, job->range});
  ++unacknowledged_;
  Settle(header.epoch);
}

// An epoch has ended when planning is past it and none of its chunks waits to be read or sent; nor
// one of an earlier epoch, since the receiver takes an EpochEnd to count everything up to there.
void Sender::EndEpochs() {
  while (!epoch_flow_ends_.empty() &&
         (next_slot_ == planned_.size() || planned_[next_slot_].at.epoch > next_end_epoch_) &&
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
  exempt_ = std::max(exempt_, StepPosition{grant.epoch, grant.step});
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
      --unacknowledged_;
    }
  }
  // Steps before the oldest one that is needed cannot be asked for again.
  while (!parts_.empty() && parts_.front().at < exempt_) parts_.pop_front();
  fill_attempts_.erase(fill_attempts_.begin(), fill_attempts_.lower_bound({exempt_, 0}));
  return OkStatus();
}

Status Sender::OnFill(const wire::Fill& fill) {
  const StepPosition at{fill.epoch, fill.step};
  if (at < exempt_) return OkStatus();  // complete meanwhile: the request crossed a Grant
  std::vector<uint32_t> wanted = fill.slots;
  std::sort(wanted.begin(), wanted.end());
  const auto twice = std::adjacent_find(wanted.begin(), wanted.end());
  if (twice != wanted.end()) {
    return ProtocolError(fmt::format("Fill asks for slot {} of epoch {} step {} twice", *twice,
                                     fill.epoch, fill.step));
  }
  for (auto slot = wanted.begin(); slot != wanted.end();) {
    // The last part that does not begin behind the slot.
    auto part = std::lower_bound(parts_.begin(), parts_.end(), std::pair(at, *slot + 1));
    if (part == parts_.begin() || (--part)->at != at || *slot >= part->slots_begin + kSlotsATurn) {
      return ProtocolError(fmt::format(
          "Fill asks for slot {} of epoch {} step {}, which is not this daemon's or was "
          "not sent yet",
          *slot, fill.epoch, fill.step));
    }
    const auto end = std::find_if(slot, wanted.end(), [&](uint32_t other) {
      return other >= part->slots_begin + kSlotsATurn;
    });
    EMLIO_RETURN_IF_ERROR(FillPart(*part, {slot, end}, fill.reason));
    slot = end;
  }
  return OkStatus();
}

// `wanted` is sorted and lies inside the part.
Status Sender::FillPart(const Part& part, std::span<const uint32_t> wanted,
                        wire::FillReason reason) {
  const uint32_t step_slots = plan_->Share(part.at.step, open_.rank, open_.world_size).slots;
  slot_scratch_.clear();
  AppendSlotsOf(part.at, part.slots_begin, std::min(step_slots, part.slots_begin + kSlotsATurn),
                &slot_scratch_);
  uint64_t flow = part.flow_begin;
  auto slot = slot_scratch_.begin();
  for (uint32_t number : wanted) {
    for (; slot != slot_scratch_.end() && slot->slot < number; ++slot) {
      flow += slot->flow_bytes();
    }
    if (slot == slot_scratch_.end() || slot->slot != number || flow + slot->flow_bytes() > flow_) {
      return ProtocolError(fmt::format(
          "Fill asks for slot {} of epoch {} step {}, which is not this daemon's or was "
          "not sent yet",
          number, part.at.epoch, part.at.step));
    }
    int& attempts = fill_attempts_[{part.at, number}];
    if (fill_attempts_.size() > kMaxFilled) {
      return LimitExceeded(
          fmt::format("more than {} records of batches not handed out yet were asked for again; "
                      "the network or the memory of a host corrupts data",
                      kMaxFilled));
    }
    if (attempts == kSkipped) continue;
    if (++attempts > kMaxFillAttempts) {
      attempts = kSkipped;
      AddSkip(*slot, flow,
              Corrupt(fmt::format("payload checksum: the record arrived damaged {} times although "
                                  "it is good where it is stored; the network or the memory of a "
                                  "host corrupts data",
                                  1 + kMaxFillAttempts)));
      continue;
    }
    QueueResend({{part.at, number, number + 1, 0, flow}, reason == wire::FillReason::kCrc, true});
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
  for (const Sent& sent : stream.unacknowledged) {
    if (sent.sequence > join.last_sequence) QueueResend({sent.range});
  }
  unacknowledged_ -= stream.unacknowledged.size();
  stream.unacknowledged.clear();
  stream.sequence = 0;
  return OkStatus();
}

void Sender::TakeBack(const ChunkJob& job) {
  QueueResend({job.range, job.verify});
  Settle(job.header.epoch);
}

void Sender::OnBadRecord(const ChunkJob& job, size_t position, const Status& reason) {
  const wire::Chunk& header = job.header;
  const ChunkRange& range = job.range;
  const bool is_piece = header.record_total > 0;
  const Slot slot{range.at, header.slots[position], job.records[position],
                  is_piece ? header.record_total : header.sizes[position]};
  uint64_t flow_begin = range.flow_begin;
  if (header.record_offset > 0) {
    flow_begin -= header.record_offset + wire::kRecordOverheadBytes;
  }
  for (size_t i = 0; i < position; ++i) flow_begin += header.sizes[i] + wire::kRecordOverheadBytes;
  const uint64_t flow_end = flow_begin + slot.flow_bytes();
  // Only one that is asked for again, or travels in pieces, can turn out bad more than once.
  const bool may_repeat = is_piece || job.verify;
  if (!may_repeat || std::exchange(fill_attempts_[{slot.at, slot.slot}], kSkipped) != kSkipped) {
    AddSkip(slot, flow_begin, reason);
  }
  if (is_piece) DropPiecesOf(slot, flow_end);
  if (position > 0) QueueResend({{slot.at, range.slots_begin, slot.slot, 0, range.flow_begin}});
  uint64_t flow = flow_end;
  for (size_t i = position + 1; i < header.slots.size();) {
    const size_t end = std::min(header.slots.size(), i + kMaxTriedTogether);
    QueueResend({{slot.at, header.slots[i], header.slots[end - 1] + 1, 0, flow}});
    for (; i < end; ++i) flow += header.sizes[i] + wire::kRecordOverheadBytes;
  }
  Settle(header.epoch);
}

// Those that were not given out yet.
void Sender::DropPiecesOf(const Slot& slot, uint64_t flow_end) {
  if (piece_offset_ > 0 && planned_[next_slot_].at == slot.at &&
      planned_[next_slot_].slot == slot.slot) {
    flow_ = flow_end;
    blocked_flow_end_ = 0;
    piece_offset_ = 0;
    ++next_slot_;
  }
  std::erase_if(resend_, [&](const Resend& resend) {
    const bool is_of_it = resend.range.at == slot.at && resend.range.slots_begin == slot.slot &&
                          resend.range.slots_end == slot.slot + 1;
    if (is_of_it) --pending_of_epoch_[slot.at.epoch];
    return is_of_it;
  });
}

void Sender::QueueResend(const Resend& resend) {
  ++pending_of_epoch_[resend.range.at.epoch];
  resend_.push_back(resend);
}

void Sender::AddSkip(const Slot& slot, uint64_t flow_begin, const Status& reason) {
  wire::Skip skip;
  skip.open_id = open_.open_id;
  skip.epoch = slot.at.epoch;
  skip.step = slot.at.step;
  skip.slot = slot.slot;
  source_.Place(slot.record.shard, slot.record.record, &skip);
  skip.flow_begin = flow_begin;
  skip.flow_end = flow_begin + slot.flow_bytes();
  skip.code = reason.code();
  skip.message = reason.message();
  outbox_.push_back(std::move(skip));
}

// One chunk given out by Next is dealt with.
void Sender::Settle(uint64_t epoch) {
  auto pending = pending_of_epoch_.find(epoch);
  if (--pending->second == 0) pending_of_epoch_.erase(pending);
  // Look ahead, so that the end of an epoch does not wait for credit of the next one.
  PlanAhead();
  EndEpochs();
}

}  // namespace emlio::session
