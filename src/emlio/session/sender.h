// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "emlio/base/status.h"
#include "emlio/plan/plan.h"
#include "emlio/wire/messages.h"

namespace emlio::session {

// The sending half of a session as a pure state machine: messages in, chunk jobs and messages out;
// no sockets, no threads, no clock, no file. It decides which chunk goes next, how far credit
// reaches, what is sent again and when an epoch has ended (wire/PROTOCOL.md, "Daemon: session").
// Not thread-safe: the daemon's router thread owns it.

// What the sender must know about the records that it may send. `shard` is a position in the
// merged manifest. REQUIRES of all methods but Prefetch: that shard is assigned to this daemon.
class RecordSource {
 public:
  virtual ~RecordSource() = default;
  virtual uint64_t PayloadBytes(uint32_t shard, uint64_t record) const = 0;
  // A hint that PayloadBytes of this record comes soon.
  virtual void Prefetch(uint32_t shard, uint64_t record) const {
    (void)shard;
    (void)record;
  }
  // Sets skip->shard, record and offset: where the record lies, for people.
  virtual void Place(uint32_t shard, uint64_t record, wire::Skip* skip) const = 0;
};

struct SenderOptions {
  uint32_t max_chunk_bytes = wire::kMaxChunkPayloadBytes;
  uint32_t first_chunk_bytes = 256u << 10;  // doubles with every chunk, up to max_chunk_bytes
  // How far, in flow bytes, to plan beyond the last chunk given out, for TakeReadAhead. It is a
  // hint: a turn of planning may go a little further, and 65536 records always bound it.
  uint64_t read_ahead_bytes = 0;
};

struct StepPosition {
  uint64_t epoch = 0;
  uint64_t step = 0;
  friend auto operator<=>(const StepPosition&, const StepPosition&) = default;
};

// What is needed to make a chunk (again): everything else follows from plan, share and records. So
// a chunk on its way costs the daemon these few bytes, however many records it has.
struct ChunkRange {
  StepPosition at;
  uint32_t slots_begin = 0;  // the share's slots among [begin, end), at least one
  uint32_t slots_end = 0;
  uint64_t record_offset = 0;  // of a piece in its record
  uint64_t flow_begin = 0;
};

// One chunk to be read and sent. `header` lacks crcs (known once read) and stream, generation and
// sequence (given by Assign).
struct ChunkJob {
  wire::Chunk header;
  ChunkRange range;
  std::vector<plan::PlannedRecord> records;  // one per slot; shard = position in merged manifest
  uint64_t payload_bytes = 0;
  bool verify = false;  // asked for again because of its checksum: compare before sending
};

class Sender {
 public:
  // What one call may plan at most, in slots: it bounds the time that one session takes from the
  // others, and the memory for steps of millions of records.
  static constexpr uint32_t kSlotsATurn = 16384;
  // Chunks that were sent and not acknowledged; a receiver acknowledges every 256 (PROTOCOL.md).
  static constexpr uint64_t kMaxUnacknowledged = 65536;
  // Steps (or parts of kSlotsATurn slots of large ones) that are sent ahead of the receiver's
  // cursor, whatever the credit.
  static constexpr size_t kMaxPartsAhead = 65536;
  // Slots of steps not handed out yet that the receiver has asked for again.
  static constexpr size_t kMaxFilled = 65536;

  enum class NextResult : uint8_t {
    kChunk,
    kBlocked,  // nothing until the receiver says something; or all is sent
    kBusy,     // the plan has to be searched further for records of this daemon: call again
  };

  // `open` has been validated against `plan` (ranges of rank, step, streams). `source` outlives the
  // sender.
  Sender(const wire::Open& open, std::shared_ptr<const plan::Plan> plan, const RecordSource& source,
         SenderOptions options);

  // Messages of the receiver. kProtocol when one breaks the rules: the session must end.
  Status OnGrant(const wire::Grant& grant);
  Status OnFill(const wire::Fill& fill);
  // A data connection takes over a stream. Chunks of it that the receiver has not seen are queued
  // to be sent again (on any stream). Generations may be left out: their Joins got lost.
  Status OnJoin(const wire::Join& join);

  // The next chunk that credit allows, those to be sent again first. `job` is overwritten; its
  // vectors keep their capacity.
  NextResult Next(ChunkJob* job);
  // Appends the records that are planned beyond the last chunk and were not named before, in the
  // order in which they will be wanted. Whether credit ever reaches that far is open.
  void TakeReadAhead(std::vector<plan::PlannedRecord>* records);
  // From now on, instead of options.read_ahead_bytes.
  void SetReadAhead(uint64_t bytes) { read_ahead_bytes_ = bytes; }
  // Binds a chunk that has been read to a stream, just before it is sent: gives it its sequence
  // number and remembers it until it is acknowledged. REQUIRES: the stream was joined.
  void Assign(uint32_t stream, ChunkJob* job);
  // Instead of Assign, when one of the job's records is bad where it is stored, or cannot be read
  // (why: `reason`): a Skip of its slot goes to the outbox, once however many pieces the record
  // has. Next gives the other records of the job out again.
  void OnBadRecord(const ChunkJob& job, size_t position, const Status& reason);
  // Instead of Assign, for a chunk that no stream can carry now: Next gives it out again, so do not
  // call Next before a stream was joined.
  void TakeBack(const ChunkJob& job);

  bool joined(uint32_t stream) const { return streams_[stream].joined; }
  uint32_t generation(uint32_t stream) const { return streams_[stream].generation; }
  uint32_t streams() const { return static_cast<uint32_t>(streams_.size()); }
  // Every chunk of every epoch asked for was handed out by Next and bound by Assign.
  bool finished() const {
    return planned_all_ && next_slot_ == planned_.size() && pending_of_epoch_.empty();
  }
  uint64_t epochs_ended() const { return epochs_ended_; }
  uint64_t records_resent() const { return records_resent_; }
  // Control messages to send, in order; empties the outbox.
  std::vector<wire::AnyMessage> TakeOutbox() { return std::exchange(outbox_, {}); }

 private:
  struct Slot {
    StepPosition at;
    uint32_t slot = 0;
    plan::PlannedRecord record;
    uint64_t payload_bytes = 0;

    uint64_t flow_bytes() const { return payload_bytes + wire::kRecordOverheadBytes; }
  };
  struct Sent {
    uint64_t sequence = 0;
    ChunkRange range;
  };
  struct Stream {
    bool joined = false;
    uint32_t generation = 0;
    uint64_t sequence = 0;  // last one used
    std::deque<Sent> unacknowledged;
  };
  struct Resend {
    ChunkRange range;
    bool verify = false;
    bool to_record_end = false;  // all pieces of the record, one after the other
  };
  // Where in the flow a part of a step begins: up to kSlotsATurn slots that were planned together.
  struct Part {
    StepPosition at;
    uint32_t slots_begin = 0;
    uint64_t flow_begin = 0;
    friend bool operator<(const Part& a, const std::pair<StepPosition, uint32_t>& b) {
      return std::pair(a.at, a.slots_begin) < b;
    }
  };

  bool HasShare() const;
  void PlanAhead();
  NextResult Planned();
  void BeginStep(StepPosition at);
  uint64_t WantedFrom(uint64_t step) const;
  void PassOverOtherShards();
  void AppendSlotsOf(StepPosition at, uint32_t begin, uint32_t end, std::vector<Slot>* slots) const;
  static void BeginJob(const ChunkRange& range, ChunkJob* job);
  void TakeResend(ChunkJob* job);
  void Add(const Slot& slot, ChunkJob* job) const;
  Status FillPart(const Part& part, std::span<const uint32_t> wanted, wire::FillReason reason);
  void AddSkip(const Slot& slot, uint64_t flow_begin, const Status& reason);
  void DropPiecesOf(const Slot& slot, uint64_t flow_end);
  void QueueResend(const Resend& resend);
  void Settle(uint64_t epoch);
  void EndEpochs();

  const wire::Open open_;
  const std::shared_ptr<const plan::Plan> plan_;
  const RecordSource& source_;
  const SenderOptions options_;
  const uint64_t end_epoch_;  // first epoch not to be sent; max for endless

  // Planning: what comes behind the slots that are planned already.
  StepPosition at_;
  plan::StepShare share_;       // of at_
  uint32_t planned_slots_ = 0;  // of share_
  uint64_t planned_flow_ = 0;
  bool planned_all_ = false;
  std::deque<Part> parts_;  // from the exempt step on, in order, those without own slots left out
  // Flow positions at which next_end_epoch_ and its successors end, as far as they are planned.
  std::deque<uint64_t> epoch_flow_ends_;

  // Sending: planned_[next_slot_] begins the next fresh chunk.
  std::vector<Slot> planned_;
  size_t next_slot_ = 0;
  size_t read_ahead_from_ = 0;  // in planned_: not named to TakeReadAhead yet
  uint64_t read_ahead_bytes_;
  uint64_t piece_offset_ = 0;  // in a record that goes in pieces
  uint64_t flow_ = 0;
  uint64_t blocked_flow_end_ = 0;  // the next fresh chunk ends here and lacked credit; 0: not so
  uint32_t chunk_limit_ = 0;

  // Credit.
  uint64_t limit_ = 0;
  StepPosition exempt_;

  std::vector<Stream> streams_;
  uint64_t unacknowledged_ = 0;  // on all streams
  std::deque<Resend> resend_;
  std::map<std::pair<StepPosition, uint32_t>, int> fill_attempts_;
  // Chunks of an epoch that are queued to be sent again, or given out by Next and not bound yet.
  std::map<uint64_t, uint64_t> pending_of_epoch_;
  uint64_t next_end_epoch_ = 0;  // the epoch whose EpochEnd comes next
  uint64_t epochs_ended_ = 0;
  uint64_t records_resent_ = 0;
  std::vector<wire::AnyMessage> outbox_;
  mutable std::vector<plan::PlannedRecord> plan_scratch_;
  std::vector<Slot> slot_scratch_;
};

}  // namespace emlio::session
