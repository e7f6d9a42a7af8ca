// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "emlio/base/buffer.h"
#include "emlio/base/status.h"
#include "emlio/plan/plan.h"
#include "emlio/wire/messages.h"

namespace emlio::session {

// The receiving half of all sessions of one rank as a pure state machine: chunks and messages in,
// complete batches and messages out; no sockets, no threads, no clock. It fills slots: a slot
// filled twice is dropped, a batch is complete when all its slots are filled or skipped; order,
// streams and daemons do not matter (wire/PROTOCOL.md, "Receiver"). Not thread-safe: the loader
// guards it with one mutex, taken once a chunk.

struct ReceiverSource {
  // Shards of the merged manifest that this daemon sends; empty = all.
  std::vector<uint8_t> assigned;
  // How much may be on the way or waiting from this daemon: the hard ceiling of its credit.
  uint64_t prefetch_bytes = uint64_t{256} << 20;
  uint32_t streams = 4;
};

struct ReceiverOptions {
  uint32_t rank = 0;
  uint32_t world_size = 1;
  uint64_t max_record_bytes = uint64_t{256} << 20;
  // Of every so many steps one is wanted: those that Begin's step is one of (wire::Open::stride).
  uint32_t stride = 1;
  // A complete batch may be handed out when its step is less than this behind the first one that
  // was not; 1: in the order of steps.
  uint64_t window_steps = 1;
};

// A slot that stays empty, and why.
struct SkippedSlot {
  uint32_t slot = 0;
  Status reason;  // names shard, record and offset
};

// All records of one step of one rank. The views borrow from `owners`.
struct AssembledBatch {
  uint64_t epoch = 0;
  uint64_t step = 0;
  std::vector<std::span<const uint8_t>> records;  // by slot; empty where skipped
  std::vector<SkippedSlot> skipped;
  std::vector<std::shared_ptr<const Buffer>> owners;
  uint64_t payload_bytes = 0;
};

struct ReceiverStats {
  uint64_t chunks = 0;
  uint64_t duplicate_records = 0;
  uint64_t refilled_records = 0;  // Fill was sent for them
  uint64_t skipped_records = 0;
  uint64_t waiting_bytes = 0;  // now: received, not handed out
  uint64_t max_waiting_bytes = 0;
};

class Receiver {
 public:
  Receiver(std::shared_ptr<const plan::Plan> plan, std::vector<ReceiverSource> sources,
           ReceiverOptions options);

  // Drops everything and begins a new opening at the cursor. `open_ids` has one per source, all
  // new. `epochs` as in wire::Open. `handed_out`: steps of this epoch that are not wanted any more.
  // REQUIRES: these are ascending, behind `step`, of its stride, and CheckHandedOut is ok.
  void Begin(uint64_t epoch, uint64_t step, uint64_t epochs, std::vector<wire::OpenId> open_ids,
             const std::vector<uint64_t>& handed_out = {});
  // kInvalidArgument if the last of them is so far behind `step` that Open cannot name it.
  Status CheckHandedOut(uint64_t step, const std::vector<uint64_t>& handed_out) const;
  // The fields of Open that the receiver decides; names and plan are the caller's.
  wire::Open MakeOpen(size_t source) const;

  // The message that binds a data connection to a stream of this opening. `rejoin`: the stream's
  // connection was lost and this is its successor; the daemon will send again what did not come.
  wire::Join MakeJoin(size_t source, uint32_t stream, bool rejoin);

  // A chunk from `source`, whose payload frame is `payload`. `good` says for every record of the
  // chunk whether its checksum held (for a piece of a large record it is ignored: such records are
  // checked when they are whole). Bad ones are asked for again. Chunks of older openings are
  // dropped. An error (kProtocol, kLimitExceeded) means that the daemon broke the rules; nothing of
  // the chunk is kept. REQUIRES: wire::CheckChunk was ok, and `good` is as long as chunk.slots.
  Status OnChunk(size_t source, const wire::Chunk& chunk, std::shared_ptr<const Buffer> payload,
                 std::span<const uint8_t> good);
  Status OnSkip(size_t source, const wire::Skip& skip);
  Status OnEpochEnd(size_t source, const wire::EpochEnd& end);
  // Whether this message belongs to the current opening of that source.
  bool IsCurrent(size_t source, wire::OpenId open_id) const {
    return open_id == sources_[source].open_id && open_id != 0;
  }

  // Moves out one batch that has become complete since the last call, in any order.
  bool TakeComplete(AssembledBatch* batch);
  // Whether that step lies in the window now: at most the steps of one epoch do.
  bool MayHandOut(uint64_t epoch, uint64_t step) const {
    return epoch == epoch_ && step >= step_ && step - step_ < options_.window_steps;
  }
  // This batch was handed out: its credit returns, and the cursor moves on if it stood there.
  // REQUIRES: TakeComplete gave it, MayHandOut, and it was not handed out before.
  void OnHandedOut(uint64_t epoch, uint64_t step);
  // The cursor: the first step not handed out yet, of the epochs of this opening.
  uint64_t epoch() const { return epoch_; }
  uint64_t step() const { return step_; }
  // Steps behind it, of its epoch, that were handed out; ascending.
  std::vector<uint64_t> handed_out() const;

  // How much may be on the way or waiting from that source, from the next Grant on. Less than
  // before takes nothing back.
  void SetPrefetch(size_t source, uint64_t bytes);

  // Messages to send, in order, with their source; empties the outbox.
  std::vector<std::pair<size_t, wire::AnyMessage>> TakeOutbox() {
    return std::exchange(outbox_, {});
  }
  bool has_outbox() const { return !outbox_.empty(); }
  const ReceiverStats& stats() const { return stats_; }

 private:
  enum class SlotState : uint8_t { kEmpty, kFilled, kSkipped, kRefilling };
  struct Piecewise {  // a large record on its way
    std::shared_ptr<Buffer> bytes;
    std::map<uint64_t, uint64_t> have;  // begin -> end of the ranges that came
    uint32_t crc32c = 0;
    bool is_complete() const {
      return have.size() == 1 && have.begin()->first == 0 && have.begin()->second == bytes->size();
    }
  };
  struct FlowRange {  // of what one source sends of a step
    uint64_t begin = std::numeric_limits<uint64_t>::max();
    uint64_t end = 0;
    uint64_t bytes() const { return end > begin ? end - begin : 0; }
    void Add(const FlowRange& other) {
      if (other.bytes() == 0) return;
      begin = std::min(begin, other.begin);
      end = std::max(end, other.end);
    }
  };
  struct Step {
    AssembledBatch batch;
    std::vector<SlotState> slots;
    uint32_t missing = 0;
    bool taken = false;                   // TakeComplete has handed it over
    std::vector<FlowRange> flow;          // by source: what was seen
    std::map<uint32_t, Piecewise> large;  // by slot
  };
  struct Stream {
    uint32_t generation = 0;
    uint64_t contiguous = 0;   // every sequence of this generation up to here came
    std::set<uint64_t> ahead;  // came early
  };
  struct Source {
    ReceiverSource config;
    wire::OpenId open_id = 0;
    uint64_t consumed = 0;        // flow position up to which all was handed out
    uint64_t consumed_ahead = 0;  // flow bytes behind it that were handed out
    uint64_t highest = 0;         // highest flow_end seen
    uint64_t accepted = 0;        // flow bytes accepted, duplicates left out
    uint64_t limit = 0;           // as granted last
    uint64_t granted_step = 0;    // ordinal exempted last
    uint64_t unacknowledged = 0;  // chunks since the last Grant
    uint64_t refills = 0;         // slots asked for again and not here yet
    std::vector<Stream> streams;
    uint64_t next_end_epoch = 0;        // the epoch whose EpochEnd comes next
    std::optional<wire::EpochEnd> end;  // the last one, until all that it counts has come
  };

  // Steps are numbered across epochs of one opening: the ordinal of (epoch, step).
  uint64_t Ordinal(uint64_t epoch, uint64_t step) const {
    return (epoch - first_epoch_) * plan_->steps_per_epoch() + step;
  }
  Result<Step*> FindStep(uint64_t epoch, uint64_t step);
  void Accept(Step* step, Source* source, size_t source_number, const wire::Chunk& chunk,
              const std::shared_ptr<const Buffer>& payload, std::span<const uint8_t> good);
  Status AcceptPiece(Step* step, Source* source, size_t source_number, const wire::Chunk& chunk,
                     const Buffer& payload);
  void AskAgain(size_t source_number, const Step& step, std::vector<uint32_t> slots);
  void FinishSlot(Step* step);
  void PassOverHandedOut();
  void LimitOpenSlots();
  void MaybeGrant(size_t source_number, bool handed_out);
  Status CheckGap(size_t source_number);
  static Result<bool> IsRepetition(Stream* stream, const wire::Chunk& chunk);

  const std::shared_ptr<const plan::Plan> plan_;
  const ReceiverOptions options_;
  std::vector<Source> sources_;
  uint64_t max_open_slots_ = 0;

  uint64_t first_epoch_ = 0;
  uint64_t first_step_ = 0;
  uint64_t epochs_ = 1;
  uint64_t epoch_ = 0;  // cursor
  uint64_t step_ = 0;
  // Handed out, at the cursor or behind it, all of its epoch: by step, where they lie in the flow.
  std::map<uint64_t, std::vector<FlowRange>> handed_out_;
  std::map<uint64_t, Step> steps_;
  uint64_t open_slots_ = 0;
  std::vector<uint64_t> complete_;  // ordinals to be taken
  std::vector<std::pair<size_t, wire::AnyMessage>> outbox_;
  ReceiverStats stats_;
};

}  // namespace emlio::session
