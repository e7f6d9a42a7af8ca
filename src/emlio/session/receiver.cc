// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/session/receiver.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "emlio/base/crc32c.h"
#include "emlio/session/bitmap.h"
#include "fmt/format.h"

namespace emlio::session {
namespace {

// No chunk moves the flow position further than this. A daemon with that much credit in hand is
// not blocked.
constexpr uint64_t kMaxChunkFlowBytes =
    wire::kMaxChunkPayloadBytes + wire::kRecordOverheadBytes * wire::kMaxChunkRecords;
// Acknowledge at least so often, so that the daemon can forget what it sent.
constexpr uint64_t kMaxUnacknowledgedChunks = 256;
// A connection keeps its order; only the threads that process its chunks can swap a few.
constexpr uint64_t kMaxSequenceAhead = 1 << 16;
// So many slots may be open however small the credit: a daemon that has few of the records opens a
// whole step with each of them.
constexpr uint64_t kMinOpenSlots = 1 << 20;

// Of wire::Open::filled.
constexpr uint64_t kMaxBitmapSlots = 8 * uint64_t{wire::kMaxBitmapBytes};

std::string Where(const wire::Chunk& chunk) {
  return fmt::format("chunk {} of stream {} (epoch {}, step {})", chunk.sequence, chunk.stream,
                     chunk.epoch, chunk.step);
}

}  // namespace

Receiver::Receiver(std::shared_ptr<const plan::Plan> plan, std::vector<ReceiverSource> sources,
                   ReceiverOptions options)
    : plan_(std::move(plan)), options_(options) {
  for (ReceiverSource& config : sources) {
    Source source;
    source.config = std::move(config);
    sources_.push_back(std::move(source));
  }
  LimitOpenSlots();
}

// With credit shared out in proportion to the records, honest daemons together open about as many
// slots as the credit can pay for, and a batch or two at the edges. Never less than what was
// allowed once: credit is not taken back.
void Receiver::LimitOpenSlots() {
  uint64_t prefetch_bytes = 0;
  for (const Source& source : sources_) prefetch_bytes += source.config.prefetch_bytes;
  max_open_slots_ = std::max(max_open_slots_,
                             std::max(kMinOpenSlots, prefetch_bytes / wire::kRecordOverheadBytes) +
                                 4 * plan_->spec().global_batch);
}

void Receiver::SetPrefetch(size_t source_number, uint64_t bytes) {
  Source& source = sources_[source_number];
  if (source.config.prefetch_bytes == bytes) return;
  source.config.prefetch_bytes = bytes;
  LimitOpenSlots();
  MaybeGrant(source_number, /*handed_out=*/true);
}

void Receiver::Begin(uint64_t epoch, uint64_t step, uint64_t epochs,
                     std::vector<wire::OpenId> open_ids, const std::vector<uint64_t>& handed_out) {
  first_epoch_ = epoch_ = epoch;
  first_step_ = step_ = step;
  epochs_ = epochs;
  handed_out_.clear();
  for (const uint64_t done : handed_out) handed_out_.try_emplace(done, sources_.size());
  steps_.clear();
  open_slots_ = 0;
  complete_.clear();
  outbox_.clear();
  stats_.waiting_bytes = 0;
  for (size_t i = 0; i < sources_.size(); ++i) {
    Source fresh;
    fresh.config = std::move(sources_[i].config);
    fresh.open_id = open_ids[i];
    fresh.limit = fresh.config.prefetch_bytes;
    fresh.granted_step = step;
    fresh.next_end_epoch = epoch;
    fresh.streams.resize(fresh.config.streams);
    sources_[i] = std::move(fresh);
  }
}

Status Receiver::CheckHandedOut(uint64_t step, const std::vector<uint64_t>& handed_out) const {
  if (handed_out.empty()) return OkStatus();
  const uint64_t slots = plan_->Share(step, options_.rank, options_.world_size).slots;
  const uint64_t span = handed_out.back() - step + 1;
  if (span <= kMaxBitmapSlots / slots) return OkStatus();
  return InvalidArgument(
      fmt::format("step {} was handed out, but step {} was not: with {} records a batch that is "
                  "further apart than can be asked for; start the epoch anew",
                  handed_out.back(), step, slots));
}

wire::Open Receiver::MakeOpen(size_t source) const {
  wire::Open open;
  open.open_id = sources_[source].open_id;
  open.rank = options_.rank;
  open.world_size = options_.world_size;
  open.epoch = first_epoch_;
  open.step = first_step_;
  open.epochs = epochs_;
  open.stride = options_.stride;
  open.assigned = sources_[source].config.assigned;
  open.streams = sources_[source].config.streams;
  open.credit_bytes = sources_[source].limit;
  if (!handed_out_.empty()) {
    // The slots of whole steps, numbered through from the cursor's; those between them count.
    const uint64_t slots = plan_->Share(first_step_, options_.rank, options_.world_size).slots;
    for (const auto& [step, flow] : handed_out_) {
      const uint64_t first = (step - first_step_) * slots;
      const uint64_t end = first + plan_->Share(step, options_.rank, options_.world_size).slots;
      for (uint64_t slot = first; slot < end; ++slot) SetBit(&open.filled, slot);
    }
  }
  return open;
}

// The state of a step that is not handed out, made when its first chunk comes; nullptr for one that
// was handed out already.
Result<Receiver::Step*> Receiver::FindStep(uint64_t epoch, uint64_t step) {
  if (epoch < first_epoch_ || step >= plan_->steps_per_epoch() ||
      step % options_.stride != first_step_ % options_.stride ||
      (epochs_ != 0 && epoch - first_epoch_ >= epochs_)) {
    return ProtocolError(fmt::format("epoch {} step {} was not asked for", epoch, step));
  }
  const uint64_t ordinal = Ordinal(epoch, step);
  if (ordinal < Ordinal(epoch_, step_)) return nullptr;
  if (epoch == epoch_ && handed_out_.contains(step)) return nullptr;
  auto found = steps_.find(ordinal);
  if (found != steps_.end()) return &found->second;

  const plan::StepShare share = plan_->Share(step, options_.rank, options_.world_size);
  if (open_slots_ + share.slots > max_open_slots_) {
    return ProtocolError(
        fmt::format("epoch {} step {} would open more than {} slots: far beyond what was granted",
                    epoch, step, max_open_slots_));
  }
  open_slots_ += share.slots;
  Step fresh;
  fresh.batch.epoch = epoch;
  fresh.batch.step = step;
  fresh.batch.records.resize(share.slots);
  fresh.slots.resize(share.slots, SlotState::kEmpty);
  fresh.missing = share.slots;
  fresh.flow.resize(sources_.size());
  return &steps_.emplace(ordinal, std::move(fresh)).first->second;
}

wire::Join Receiver::MakeJoin(size_t source, uint32_t stream_number, bool rejoin) {
  Stream& stream = sources_[source].streams[stream_number];
  wire::Join join;
  join.open_id = sources_[source].open_id;
  join.stream = stream_number;
  if (rejoin) {
    // Sequences start anew with every generation. What came early is sent once more and dropped.
    join.last_sequence = stream.contiguous;
    stream.contiguous = 0;
    stream.ahead.clear();
    ++stream.generation;
  }
  join.generation = stream.generation;
  return join;
}

// Marks the chunk's sequence as received; true if it was already.
Result<bool> Receiver::IsRepetition(Stream* stream, const wire::Chunk& chunk) {
  // A straggler of a connection that was given up: its slots count, its sequence does not.
  if (chunk.generation < stream->generation) return false;
  if (chunk.sequence > stream->contiguous + kMaxSequenceAhead) {
    return ProtocolError(
        fmt::format("{} comes, but those after {} are missing", Where(chunk), stream->contiguous));
  }
  if (chunk.sequence <= stream->contiguous || !stream->ahead.insert(chunk.sequence).second) {
    return true;
  }
  while (!stream->ahead.empty() && *stream->ahead.begin() == stream->contiguous + 1) {
    stream->ahead.erase(stream->ahead.begin());
    ++stream->contiguous;
  }
  return false;
}

Status Receiver::OnChunk(size_t source_number, const wire::Chunk& chunk,
                         std::shared_ptr<const Buffer> payload, std::span<const uint8_t> good) {
  if (!IsCurrent(source_number, chunk.open_id)) return OkStatus();
  Source& source = sources_[source_number];
  if (chunk.stream >= source.streams.size()) {
    return ProtocolError(
        fmt::format("{}: there are only {} streams", Where(chunk), source.streams.size()));
  }
  if (chunk.generation > source.streams[chunk.stream].generation) {
    return ProtocolError(fmt::format("{} is of generation {}, which was not joined yet",
                                     Where(chunk), chunk.generation));
  }
  EMLIO_ASSIGN_OR_RETURN(Step * step, FindStep(chunk.epoch, chunk.step));
  const uint64_t ordinal = Ordinal(chunk.epoch, chunk.step);
  if (chunk.flow_end > source.limit && ordinal > source.granted_step) {
    return ProtocolError(fmt::format("{} ends at flow position {}, but only {} were granted",
                                     Where(chunk), chunk.flow_end, source.limit));
  }
  ++stats_.chunks;
  ++source.unacknowledged;
  EMLIO_ASSIGN_OR_RETURN(const bool is_repetition,
                         IsRepetition(&source.streams[chunk.stream], chunk));
  if (is_repetition || step == nullptr || step->taken) {
    stats_.duplicate_records += chunk.slots.size();
  } else if (const uint32_t last = chunk.slots.back(); last >= step->slots.size()) {
    return ProtocolError(
        fmt::format("{} fills slot {} of {}", Where(chunk), last, step->slots.size()));
  } else {
    if (chunk.record_total == 0) {
      Accept(step, &source, source_number, chunk, payload, good);
    } else {
      EMLIO_RETURN_IF_ERROR(
          AcceptPiece(step, &source, source_number, chunk, *payload).WithContext(Where(chunk)));
    }
    source.highest = std::max(source.highest, chunk.flow_end);
    step->flow[source_number].Add({chunk.flow_begin, chunk.flow_end});
  }
  MaybeGrant(source_number, /*handed_out=*/false);
  return CheckGap(source_number);
}

void Receiver::Accept(Step* step, Source* source, size_t source_number, const wire::Chunk& chunk,
                      const std::shared_ptr<const Buffer>& payload, std::span<const uint8_t> good) {
  std::vector<uint32_t> bad;
  bool used = false;
  const uint8_t* data = payload->data();
  for (size_t i = 0; i < chunk.slots.size(); ++i) {
    const uint32_t slot = chunk.slots[i];
    const uint32_t size = chunk.sizes[i];
    const uint8_t* const record = data;
    data += size;
    SlotState& state = step->slots[slot];
    if (state == SlotState::kFilled || state == SlotState::kSkipped) {
      ++stats_.duplicate_records;
      continue;
    }
    const bool was_refilling = state == SlotState::kRefilling;
    if (!was_refilling) source->accepted += size + wire::kRecordOverheadBytes;
    if (!good[i]) {
      // Whether asked for before or not: the daemon counts the attempts.
      if (!was_refilling) ++source->refills;
      state = SlotState::kRefilling;
      bad.push_back(slot);
      continue;
    }
    if (was_refilling) --source->refills;
    state = SlotState::kFilled;
    step->batch.records[slot] = {record, size};
    step->batch.payload_bytes += size;
    stats_.waiting_bytes += size;
    used = true;
    FinishSlot(step);
  }
  stats_.max_waiting_bytes = std::max(stats_.max_waiting_bytes, stats_.waiting_bytes);
  if (used) step->batch.owners.push_back(payload);
  if (!bad.empty()) AskAgain(source_number, *step, std::move(bad));
}

Status Receiver::AcceptPiece(Step* step, Source* source, size_t source_number,
                             const wire::Chunk& chunk, const Buffer& payload) {
  const uint32_t slot = chunk.slots.front();
  if (chunk.record_total > options_.max_record_bytes) {
    return LimitExceeded(
        fmt::format("slot {} holds a record of {} bytes, more than max_record_mb "
                    "allows ({} bytes)",
                    slot, chunk.record_total, options_.max_record_bytes));
  }
  SlotState& state = step->slots[slot];
  if (state == SlotState::kFilled || state == SlotState::kSkipped) {
    ++stats_.duplicate_records;
    return OkStatus();
  }
  auto [entry, is_first] = step->large.try_emplace(slot);
  Piecewise& large = entry->second;
  if (is_first) {
    large.bytes = std::make_shared<Buffer>(Buffer::Allocate(chunk.record_total));
    large.crc32c = chunk.crcs.front();
  } else if (large.bytes->size() != chunk.record_total || large.crc32c != chunk.crcs.front()) {
    return ProtocolError(fmt::format("the pieces of slot {} do not agree", slot));
  }
  // Pieces are cut the same way each time, so a range that was seen is a whole repetition.
  const uint64_t begin = chunk.record_offset;
  const uint64_t end = begin + payload.size();
  auto next = large.have.lower_bound(begin);
  const bool overlaps_next = next != large.have.end() && next->first < end;
  const bool overlaps_previous = next != large.have.begin() && std::prev(next)->second > begin;
  if (overlaps_next || overlaps_previous) {
    ++stats_.duplicate_records;
    return OkStatus();
  }
  std::memcpy(large.bytes->data() + begin, payload.data(), payload.size());
  if (state != SlotState::kRefilling) source->accepted += chunk.flow_end - chunk.flow_begin;
  stats_.waiting_bytes += payload.size();
  stats_.max_waiting_bytes = std::max(stats_.max_waiting_bytes, stats_.waiting_bytes);
  auto range = large.have.emplace_hint(next, begin, end);
  if (range != large.have.begin() && std::prev(range)->second == begin) {
    std::prev(range)->second = end;
    range = std::prev(large.have.erase(range));
  }
  if (auto after = std::next(range); after != large.have.end() && after->first == range->second) {
    range->second = after->second;
    large.have.erase(after);
  }
  if (!large.is_complete()) return OkStatus();

  if (Crc32c(large.bytes->data(), large.bytes->size()) != large.crc32c) {
    stats_.waiting_bytes -= large.bytes->size();
    step->large.erase(entry);
    if (state != SlotState::kRefilling) ++source->refills;
    state = SlotState::kRefilling;
    AskAgain(source_number, *step, {slot});
    return OkStatus();
  }
  if (state == SlotState::kRefilling) --source->refills;
  state = SlotState::kFilled;
  step->batch.records[slot] = {large.bytes->data(), large.bytes->size()};
  step->batch.payload_bytes += large.bytes->size();
  step->batch.owners.push_back(std::move(large.bytes));
  step->large.erase(entry);
  FinishSlot(step);
  return OkStatus();
}

void Receiver::AskAgain(size_t source_number, const Step& step, std::vector<uint32_t> slots) {
  stats_.refilled_records += slots.size();
  wire::Fill fill;
  fill.open_id = sources_[source_number].open_id;
  fill.epoch = step.batch.epoch;
  fill.step = step.batch.step;
  fill.slots = std::move(slots);
  fill.reason = wire::FillReason::kCrc;
  outbox_.emplace_back(source_number, std::move(fill));
}

void Receiver::FinishSlot(Step* step) {
  if (--step->missing == 0) complete_.push_back(Ordinal(step->batch.epoch, step->batch.step));
}

Status Receiver::OnSkip(size_t source_number, const wire::Skip& skip) {
  if (!IsCurrent(source_number, skip.open_id)) return OkStatus();
  EMLIO_ASSIGN_OR_RETURN(Step * step, FindStep(skip.epoch, skip.step));
  if (step == nullptr || step->taken) return OkStatus();
  if (skip.slot >= step->slots.size()) {
    return ProtocolError(fmt::format("Skip names slot {} of {} (epoch {}, step {})", skip.slot,
                                     step->slots.size(), skip.epoch, skip.step));
  }
  SlotState& state = step->slots[skip.slot];
  if (state == SlotState::kFilled || state == SlotState::kSkipped) return OkStatus();
  Source& source = sources_[source_number];
  uint64_t missing_flow = skip.flow_end - skip.flow_begin;
  if (auto large = step->large.find(skip.slot); large != step->large.end()) {
    for (const auto& [begin, end] : large->second.have) {
      stats_.waiting_bytes -= end - begin;
      const uint64_t accepted = end - begin + (begin == 0 ? wire::kRecordOverheadBytes : 0);
      missing_flow -= std::min(missing_flow, accepted);
    }
    step->large.erase(large);
  }
  if (state == SlotState::kRefilling) {
    --source.refills;
  } else {
    source.accepted += missing_flow;  // it never came, or not all of it
  }
  source.highest = std::max(source.highest, skip.flow_end);
  step->flow[source_number].Add({skip.flow_begin, skip.flow_end});
  state = SlotState::kSkipped;
  ++stats_.skipped_records;
  step->batch.skipped.push_back(
      {skip.slot, Status(skip.code, fmt::format("shard {}, record {}, offset {}: {}", skip.shard,
                                                skip.record, skip.offset, skip.message))});
  FinishSlot(step);
  MaybeGrant(source_number, /*handed_out=*/false);
  return CheckGap(source_number);
}

Status Receiver::OnEpochEnd(size_t source_number, const wire::EpochEnd& end) {
  if (!IsCurrent(source_number, end.open_id)) return OkStatus();
  Source& source = sources_[source_number];
  for (const wire::EpochEnd::StreamEnd& stream : end.streams) {
    if (stream.stream >= source.streams.size()) {
      return ProtocolError(
          fmt::format("EpochEnd names stream {} of {}", stream.stream, source.streams.size()));
    }
  }
  if (end.epoch != source.next_end_epoch || (epochs_ != 0 && end.epoch - first_epoch_ >= epochs_)) {
    return ProtocolError(
        fmt::format("EpochEnd for epoch {}, which is not the next one to end", end.epoch));
  }
  ++source.next_end_epoch;
  // Its counts include those of the one before, if that still waits for chunks.
  source.end = end;
  return CheckGap(source_number);
}

// Once every chunk that an EpochEnd counts has come, nothing of that epoch may be missing.
Status Receiver::CheckGap(size_t source_number) {
  Source& source = sources_[source_number];
  if (!source.end.has_value() || source.refills > 0) return OkStatus();
  bool rejoined = false;
  for (const wire::EpochEnd::StreamEnd& stream : source.end->streams) {
    const Stream& state = source.streams[stream.stream];
    if (state.generation != stream.generation) {
      // Counts of an earlier generation say nothing any more; what is missing is sent again.
      rejoined = true;
    } else if (state.contiguous < stream.sequence) {
      return OkStatus();
    }
  }
  if (source.accepted >= source.end->flow_position) {
    source.end.reset();
  } else if (!rejoined) {
    return ProtocolError(fmt::format(
        "the daemon ended epoch {} at flow position {}, but only {} bytes of it came on the "
        "streams: records are missing",
        source.end->epoch, source.end->flow_position, source.accepted));
  }
  return OkStatus();
}

bool Receiver::TakeComplete(AssembledBatch* batch) {
  if (complete_.empty()) return false;
  Step& step = steps_.at(complete_.back());
  complete_.pop_back();
  step.taken = true;
  *batch = std::move(step.batch);
  // The step stays known until it is handed out: its flow positions are its credit.
  step.batch.epoch = batch->epoch;
  step.batch.step = batch->step;
  step.batch.payload_bytes = batch->payload_bytes;
  return true;
}

void Receiver::OnHandedOut(uint64_t epoch, uint64_t step_number) {
  auto found = steps_.find(Ordinal(epoch, step_number));
  Step& step = found->second;
  stats_.waiting_bytes -= step.batch.payload_bytes;
  open_slots_ -= step.slots.size();
  for (size_t i = 0; i < sources_.size(); ++i) sources_[i].consumed_ahead += step.flow[i].bytes();
  handed_out_.emplace(step_number, std::move(step.flow));
  steps_.erase(found);
  PassOverHandedOut();
  for (size_t i = 0; i < sources_.size(); ++i) MaybeGrant(i, /*handed_out=*/true);
}

// Moves the cursor to the first step that was not handed out.
void Receiver::PassOverHandedOut() {
  for (auto next = handed_out_.begin(); next != handed_out_.end() && next->first == step_;
       next = handed_out_.erase(next)) {
    for (size_t i = 0; i < sources_.size(); ++i) {
      const FlowRange& flow = next->second[i];
      sources_[i].consumed_ahead -= flow.bytes();
      sources_[i].consumed = std::max(sources_[i].consumed, flow.end);
    }
    step_ += options_.stride;
    if (step_ >= plan_->steps_per_epoch()) {
      step_ = first_step_ % options_.stride;
      ++epoch_;
    }
  }
}

std::vector<uint64_t> Receiver::handed_out() const {
  std::vector<uint64_t> steps;
  for (const auto& [step, flow] : handed_out_) steps.push_back(step);
  return steps;
}

// Grants travel when they matter: when a good part of the window has come free, when the daemon may
// be waiting for leave to finish the batch of the cursor, or when it is owed an acknowledgement.
void Receiver::MaybeGrant(size_t source_number, bool handed_out) {
  Source& source = sources_[source_number];
  if (source.open_id == 0) return;
  const uint64_t limit = source.consumed + source.consumed_ahead + source.config.prefetch_bytes;
  // The oldest batch that was not handed out may be sent however large it is, so nothing can be
  // stuck.
  const uint64_t cursor = Ordinal(epoch_, step_);
  const bool much_came_free = handed_out &&
                              limit - source.limit >= source.config.prefetch_bytes / 8 &&
                              limit > source.limit;
  const uint64_t in_hand = source.limit > source.highest ? source.limit - source.highest : 0;
  const bool may_be_blocked =
      in_hand < kMaxChunkFlowBytes && (cursor > source.granted_step || limit > source.limit);
  if (!much_came_free && !may_be_blocked && source.unacknowledged < kMaxUnacknowledgedChunks) {
    return;
  }
  source.limit = std::max(source.limit, limit);
  source.granted_step = std::max(source.granted_step, cursor);
  source.unacknowledged = 0;
  wire::Grant grant;
  grant.open_id = source.open_id;
  grant.limit = source.limit;
  grant.epoch = first_epoch_ + source.granted_step / plan_->steps_per_epoch();
  grant.step = source.granted_step % plan_->steps_per_epoch();
  for (uint32_t i = 0; i < source.streams.size(); ++i) {
    if (source.streams[i].contiguous > 0) {
      grant.acks.push_back({i, source.streams[i].generation, source.streams[i].contiguous});
    }
  }
  outbox_.emplace_back(source_number, std::move(grant));
}

}  // namespace emlio::session
