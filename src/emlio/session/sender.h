// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
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
};

// One chunk to be read and sent. `header` lacks crcs (known once read) and stream, generation and
// sequence (given by Assign).
struct ChunkJob {
  wire::Chunk header;
  std::vector<plan::PlannedRecord> records;  // one per slot; shard = position in merged manifest
  uint64_t payload_bytes = 0;
  bool verify = false;  // asked for again because of its checksum: compare before sending
};

class Sender {
 public:
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

  // The next chunk that credit allows, those to be sent again first. False when there is none now.
  // `job` is overwritten; its vectors keep their capacity.
  bool Next(ChunkJob* job);
  // Binds a chunk that has been read to a stream, just before it is sent: gives it its sequence
  // number and remembers it until it is acknowledged. REQUIRES: the stream was joined.
  void Assign(uint32_t stream, wire::Chunk* header);
  // Instead of Assign, for a chunk to be verified whose one record is bad where it is stored (why:
  // `reason`): a Skip of its slot goes to the outbox, once however many pieces the record has.
  void OnBadRecord(const ChunkJob& job, const Status& reason);
  // Instead of Assign, for a chunk that no stream can carry now: Next gives it out again, so do not
  // call Next before a stream was joined.
  void TakeBack(const ChunkJob& job);

  bool joined(uint32_t stream) const { return streams_[stream].joined; }
  uint32_t generation(uint32_t stream) const { return streams_[stream].generation; }
  uint32_t streams() const { return static_cast<uint32_t>(streams_.size()); }
  // Every chunk of every epoch asked for was handed out by Next and bound by Assign.
  bool finished() const { return planned_all_ && pending_of_epoch_.empty(); }
  uint64_t epochs_ended() const { return epochs_ended_; }
  uint64_t records_resent() const { return records_resent_; }
  // Control messages to send, in order; empties the outbox.
  std::vector<wire::AnyMessage> TakeOutbox() { return std::exchange(outbox_, {}); }

 private:
  struct Slot {
    uint32_t slot = 0;
    plan::PlannedRecord record;
    uint64_t payload_bytes = 0;
  };
  // What is needed to send a chunk again without keeping its bytes.
  struct Sent {
    uint64_t sequence = 0;
    wire::Chunk header;  // without crcs
  };
  struct Stream {
    bool joined = false;
    uint32_t generation = 0;
    uint64_t sequence = 0;  // last one used
    std::deque<Sent> unacknowledged;
  };
  struct Position {
    uint64_t epoch = 0;
    uint64_t step = 0;
    friend auto operator<=>(const Position&, const Position&) = default;
  };
  struct Resend {
    wire::Chunk header;
    bool verify = false;
  };

  bool HasShare() const;
  bool LoadStep();
  void PassOverOtherShards();
  void QueueResend(wire::Chunk header, bool verify);
  void AddSkip(Position at, uint32_t slot, const plan::PlannedRecord& record, const Status& reason);
  void Settle(uint64_t epoch);
  void SlotsOf(Position at, std::vector<Slot>* slots) const;
  bool Allowed(const wire::Chunk& header) const;
  void FillJob(const wire::Chunk& header, bool verify, ChunkJob* job) const;
  void EndEpochIfSent();

  const wire::Open open_;
  const std::shared_ptr<const plan::Plan> plan_;
  const RecordSource& source_;
  const SenderOptions options_;
  const uint64_t end_epoch_;  // first epoch not to be sent; max for endless

  // Planning: where the next fresh chunk begins.
  Position at_;
  bool step_loaded_ = false;
  bool planned_all_ = false;
  std::vector<Slot> step_slots_;
  size_t next_slot_ = 0;       // in step_slots_
  uint64_t piece_offset_ = 0;  // in a record that goes in pieces
  uint64_t flow_ = 0;
  uint64_t blocked_flow_end_ = 0;  // the next fresh chunk ends here and lacked credit; 0: not so
  uint32_t chunk_limit_ = 0;
  std::deque<std::pair<Position, uint64_t>> step_flow_;  // flow position at which a step begins

  // Credit.
  uint64_t limit_ = 0;
  Position exempt_;

  std::vector<Stream> streams_;
  std::deque<Resend> resend_;
  std::map<std::pair<Position, uint32_t>, int> fill_attempts_;
  // Chunks of an epoch that are queued to be sent again, or given out by Next and not bound yet.
  std::map<uint64_t, uint64_t> pending_of_epoch_;
  uint64_t next_end_epoch_ = 0;  // the epoch whose EpochEnd comes next
  // Flow positions at which next_end_epoch_ and its successors end, as far as they are planned.
  std::deque<uint64_t> epoch_flow_ends_;
  uint64_t epochs_ended_ = 0;
  uint64_t records_resent_ = 0;
  std::vector<wire::AnyMessage> outbox_;
  mutable std::vector<plan::PlannedRecord> plan_scratch_;
};

}  // namespace emlio::session
