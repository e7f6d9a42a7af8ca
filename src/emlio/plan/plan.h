// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "emlio/base/hash128.h"
#include "emlio/base/status.h"

namespace emlio::plan {

// The numbers are part of the wire format and of the plan hash (PLAN.md).
enum class Shuffle : uint8_t { kNone = 0, kFull = 1, kBlock = 2 };
enum class Tail : uint8_t { kDrop = 0, kKeep = 1, kPad = 2 };

std::string_view ShuffleName(Shuffle shuffle);  // "none", "full", "block"
std::string_view TailName(Tail tail);           // "drop", "keep", "pad"
Result<Shuffle> ParseShuffle(std::string_view name);
Result<Tail> ParseTail(std::string_view name);

// Everything that decides which record fills which slot. Equal specs give equal plans on every
// machine. The list of sources has length one for now; mixing data sets must not change its form.
struct PlanSpec {
  struct Source {
    Hash128 manifest_digest{};
    std::vector<uint64_t> shard_records;  // in manifest order
    uint32_t weight = 1;
    Shuffle shuffle = Shuffle::kNone;
    // Of Shuffle::kBlock, for which both are at least 1; 0 for the others.
    uint32_t block_records = 0;  // consecutive records that stay close together
    uint32_t window_blocks = 0;  // blocks whose records are mixed
  };
  std::vector<Source> sources;
  uint64_t seed = 0;
  uint64_t global_batch = 0;  // records a step, over all ranks; 1 to 2^31
  Tail tail = Tail::kKeep;
};

// Which record fills a slot.
struct PlannedRecord {
  uint32_t shard = 0;
  uint64_t record = 0;  // inside the shard
};

// The consecutive positions of the epoch order that make up one rank's batch of one step. With
// Tail::kPad they may reach behind the last position, where the order begins anew.
struct StepShare {
  uint64_t first_position = 0;
  uint32_t slots = 0;
  uint32_t padded = 0;  // so many of the slots, the last ones, repeat records of the epoch
};

// Where a record is handed out.
struct PlannedSlot {
  uint64_t step = 0;
  uint32_t rank = 0;
  uint32_t slot = 0;
  bool padded = false;  // the epoch has the record elsewhere, too
  friend bool operator==(const PlannedSlot&, const PlannedSlot&) = default;
};

class EpochOrder;

// The pure function (spec, epoch, step, rank, world size) -> record of every slot, specified in
// PLAN.md. O(number of shards) memory, any position in O(log shards) time. Immutable and
// thread-safe.
class Plan {
 public:
  // kInvalidArgument: no source or more than one, no record, a batch of 0 or over 2^31, more than
  // 2^62 records; sizes of blocks that do not go with the shuffle; with Tail::kDrop, fewer records
  // than one global batch. kUnsupported: an unknown shuffle or tail.
  static Result<Plan> Create(PlanSpec spec);

  // Ok if every rank of that world gets at least one record of every step; otherwise
  // kInvalidArgument with the choices that there are (PLAN.md, "Tail").
  Status CheckWorld(uint32_t world_size) const;

  uint64_t records() const { return records_; }
  uint64_t steps_per_epoch() const { return steps_per_epoch_; }
  const PlanSpec& spec() const { return spec_; }
  // Covers manifest digests, weights, shuffle with its sizes, seed, global batch and tail; not the
  // world size.
  const Hash128& hash() const { return hash_; }

  // The record number (0 to records()-1, in manifest order) at a position of an epoch's order,
  // which begins anew behind its end.
  uint64_t RecordAt(uint64_t epoch, uint64_t position) const;
  // The record numbers of one rank's batch, in slot order; `out` is overwritten.
  void Numbers(uint64_t epoch, const StepShare& share, std::vector<uint64_t>* out) const;
  // Where an epoch hands out a record, in order of steps: once, not at all (Tail::kDrop may leave
  // it out), or again as padding (Tail::kPad). O(1) for each. REQUIRES: number < records(),
  // CheckWorld is ok.
  std::vector<PlannedSlot> SlotsOf(uint64_t epoch, uint64_t number, uint32_t world_size) const;
  // Splits a record number into shard and record. REQUIRES: number < records().
  PlannedRecord Locate(uint64_t number) const;
  // REQUIRES: step < steps_per_epoch(), rank < world_size.
  StepShare Share(uint64_t step, uint32_t rank, uint32_t world_size) const;
  // Whether the share holds one of the positions begin to end-1, padded slots included.
  // REQUIRES: share.slots > 0, begin < end <= records().
  bool Touches(const StepShare& share, uint64_t begin, uint64_t end) const;
  // Records of one rank's batch, in slot order; `out` is overwritten, its capacity reused.
  void Records(uint64_t epoch, const StepShare& share, std::vector<PlannedRecord>* out) const;

 private:
  Plan() = default;
  EpochOrder OrderOf(uint64_t epoch) const;
  uint64_t SlotsOfStep(uint64_t step) const;  // of all ranks together

  PlanSpec spec_;
  uint64_t records_ = 0;
  uint64_t steps_per_epoch_ = 0;
  std::vector<uint64_t> first_record_;  // of every shard, plus the total at the end
  Hash128 hash_{};
};

}  // namespace emlio::plan
