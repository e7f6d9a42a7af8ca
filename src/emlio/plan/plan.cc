// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <utility>

#include "emlio/base/endian.h"
#include "emlio/plan/epoch_order.h"
#include "emlio/plan/permutation.h"

namespace emlio::plan {
namespace {

constexpr uint8_t kPlanVersion = 1;
constexpr uint64_t kMaxRecords = Permutation::kMaxSize;
constexpr uint64_t kMaxGlobalBatch = uint64_t{1} << 31;

class CanonicalBytes {
 public:
  template <typename T>
  void Add(T value) {
    bytes_.resize(bytes_.size() + sizeof(T));
    StoreLe(bytes_.data() + bytes_.size() - sizeof(T), value);
  }
  void Add(const Hash128& hash) { bytes_.insert(bytes_.end(), hash.begin(), hash.end()); }
  Hash128 Digest() const { return Xxh3(bytes_.data(), bytes_.size()); }

 private:
  std::vector<uint8_t> bytes_;
};

Hash128 HashOf(const PlanSpec& spec) {
  CanonicalBytes bytes;
  bytes.Add(kPlanVersion);
  bytes.Add(static_cast<uint32_t>(spec.sources.size()));
  for (const PlanSpec::Source& source : spec.sources) {
    bytes.Add(source.manifest_digest);
    bytes.Add(source.weight);
    bytes.Add(static_cast<uint8_t>(source.shuffle));
    bytes.Add(source.block_records);
    bytes.Add(source.window_blocks);
  }
  bytes.Add(spec.seed);
  bytes.Add(spec.global_batch);
  bytes.Add(static_cast<uint8_t>(spec.tail));
  return bytes.Digest();
}

// Index of the last entry of `firsts` that is not above each number; `shards` gets kLanes of them.
// The searches advance together, without a branch on the data, so that their loads overlap.
// REQUIRES: firsts[0] <= every number.
template <size_t kLanes>
void FindShards(const uint64_t* firsts, size_t count, const uint64_t* numbers, uint32_t* shards) {
  for (size_t lane = 0; lane < kLanes; ++lane) shards[lane] = 0;
  while (count > 1) {
    const uint32_t half = static_cast<uint32_t>(count / 2);
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const bool not_above = firsts[shards[lane] + half] <= numbers[lane];
      shards[lane] += not_above ? half : 0;
    }
    count -= half;
  }
}

}  // namespace

std::string_view ShuffleName(Shuffle shuffle) {
  switch (shuffle) {
    case Shuffle::kNone:
      return "none";
    case Shuffle::kFull:
      return "full";
    case Shuffle::kBlock:
      return "block";
  }
  return "unknown";
}

std::string_view TailName(Tail tail) {
  switch (tail) {
    case Tail::kDrop:
      return "drop";
    case Tail::kKeep:
      return "keep";
    case Tail::kPad:
      return "pad";
  }
  return "unknown";
}

Result<Shuffle> ParseShuffle(std::string_view name) {
  for (Shuffle shuffle : {Shuffle::kNone, Shuffle::kFull, Shuffle::kBlock}) {
    if (name == ShuffleName(shuffle)) return shuffle;
  }
  return InvalidArgument(fmt::format("shuffle '{}': must be 'none', 'full' or 'block'", name));
}

Result<Tail> ParseTail(std::string_view name) {
  for (Tail tail : {Tail::kDrop, Tail::kKeep, Tail::kPad}) {
    if (name == TailName(tail)) return tail;
  }
  return InvalidArgument(fmt::format("tail '{}': must be 'drop', 'keep' or 'pad'", name));
}

Result<Plan> Plan::Create(PlanSpec spec) {
  if (spec.sources.size() != 1) {
    return InvalidArgument(fmt::format(
        "plan spec with {} sources: exactly one data set can be read", spec.sources.size()));
  }
  const PlanSpec::Source& source = spec.sources[0];
  if (source.shuffle > Shuffle::kBlock) {
    return Unsupported(fmt::format("shuffle {} is not known: use 'none', 'full' or 'block'",
                                   static_cast<int>(source.shuffle)));
  }
  if (spec.tail > Tail::kPad) {
    return Unsupported(fmt::format("tail {} is not known: use 'drop', 'keep' or 'pad'",
                                   static_cast<int>(spec.tail)));
  }
  if (source.shuffle == Shuffle::kBlock ? source.block_records == 0 || source.window_blocks == 0
                                        : source.block_records != 0 || source.window_blocks != 0) {
    return InvalidArgument(fmt::format(
        "blocks of {} records in windows of {} blocks with shuffle '{}': both are at least 1 with "
        "'block', and 0 otherwise",
        source.block_records, source.window_blocks, ShuffleName(source.shuffle)));
  }
  if (source.weight == 0) {
    return InvalidArgument("a source of weight 0 would never be read: weights start at 1");
  }
  if (spec.global_batch == 0 || spec.global_batch > kMaxGlobalBatch) {
    return InvalidArgument(fmt::format("global batch of {} records: must be 1 to {}",
                                       spec.global_batch, kMaxGlobalBatch));
  }
  if (source.shard_records.size() > std::numeric_limits<uint32_t>::max()) {
    return InvalidArgument(fmt::format("{} shards: a plan takes at most {}",
                                       source.shard_records.size(),
                                       std::numeric_limits<uint32_t>::max()));
  }

  Plan plan;
  plan.first_record_.reserve(source.shard_records.size() + 1);
  for (uint64_t records : source.shard_records) {
    plan.first_record_.push_back(plan.records_);
    if (records > kMaxRecords - plan.records_) {
      return InvalidArgument(
          fmt::format("more than {} records: the data set is too large for a "
                      "plan, or a record count is wrong",
                      kMaxRecords));
    }
    plan.records_ += records;
  }
  plan.first_record_.push_back(plan.records_);
  if (plan.records_ == 0) {
    return InvalidArgument(
        fmt::format("the data set has no record ({} shards)", source.shard_records.size()));
  }

  plan.steps_per_epoch_ = plan.records_ / spec.global_batch;
  if (spec.tail != Tail::kDrop && plan.records_ % spec.global_batch != 0) ++plan.steps_per_epoch_;
  if (plan.steps_per_epoch_ == 0) {
    return InvalidArgument(fmt::format(
        "{} records do not fill one global batch of {}, and tail='drop' leaves "
        "incomplete batches out: use tail='keep' or 'pad', or a batch size of at most {} "
        "over all ranks",
        plan.records_, spec.global_batch, plan.records_));
  }
  plan.hash_ = HashOf(spec);
  plan.spec_ = std::move(spec);
  return plan;
}

Status Plan::CheckWorld(uint32_t world_size) const {
  if (world_size == 0) return InvalidArgument("world size 0: there must be at least one rank");
  if (spec_.global_batch < world_size) {
    return InvalidArgument(
        fmt::format("a global batch of {} records cannot be split over {} ranks: every rank needs "
                    "at least one record of every step; use a global batch size of at least {}, or "
                    "fewer ranks",
                    spec_.global_batch, world_size, world_size));
  }
  const uint64_t remainder = records_ % spec_.global_batch;
  if (spec_.tail == Tail::kKeep && remainder != 0 && remainder < world_size) {
    return InvalidArgument(fmt::format(
        "the last step of an epoch has {} of {} records, too few for {} ranks with tail='keep': "
        "use tail='drop' (leaves {} out of every epoch), tail='pad' (repeats records, marked), "
        "another batch size, or fewer ranks",
        remainder, records_, world_size,
        remainder == 1 ? "1 record" : fmt::format("{} records", remainder)));
  }
  return OkStatus();
}

EpochOrder Plan::OrderOf(uint64_t epoch) const {
  return EpochOrder(spec_.sources[0], records_, EpochState(spec_.seed, epoch));
}

uint64_t Plan::RecordAt(uint64_t epoch, uint64_t position) const {
  uint64_t number = 0;
  OrderOf(epoch).Fill(position, std::span(&number, 1));
  return number;
}

PlannedRecord Plan::Locate(uint64_t number) const {
  uint32_t shard;
  FindShards<1>(first_record_.data(), first_record_.size() - 1, &number, &shard);
  return {shard, number - first_record_[shard]};
}

uint64_t Plan::SlotsOfStep(uint64_t step) const {
  if (spec_.tail == Tail::kPad) return spec_.global_batch;
  return std::min(spec_.global_batch, records_ - step * spec_.global_batch);
}

StepShare Plan::Share(uint64_t step, uint32_t rank, uint32_t world_size) const {
  const uint64_t first = step * spec_.global_batch;
  const uint64_t quotient = SlotsOfStep(step) / world_size;
  const uint64_t remainder = SlotsOfStep(step) % world_size;
  StepShare share;
  share.first_position = first + rank * quotient + std::min<uint64_t>(rank, remainder);
  share.slots = static_cast<uint32_t>(quotient + (rank < remainder ? 1 : 0));
  const uint64_t end = share.first_position + share.slots;
  if (end > records_) {
    share.padded = static_cast<uint32_t>(std::min<uint64_t>(share.slots, end - records_));
  }
  return share;
}

std::vector<PlannedSlot> Plan::SlotsOf(uint64_t epoch, uint64_t number, uint32_t world_size) const {
  std::vector<PlannedSlot> slots;
  uint64_t position = OrderOf(epoch).PositionOf(number);
  while (position / spec_.global_batch < steps_per_epoch_) {
    PlannedSlot at{.step = position / spec_.global_batch, .padded = position >= records_};
    const uint64_t offset = position % spec_.global_batch;
    const uint64_t quotient = SlotsOfStep(at.step) / world_size;
    const uint64_t remainder = SlotsOfStep(at.step) % world_size;
    const uint64_t in_larger_shares = remainder * (quotient + 1);
    at.rank = static_cast<uint32_t>(offset < in_larger_shares
                                        ? offset / (quotient + 1)
                                        : remainder + (offset - in_larger_shares) / quotient);
    at.slot = static_cast<uint32_t>(position - Share(at.step, at.rank, world_size).first_position);
    slots.push_back(at);
    if (spec_.tail != Tail::kPad) break;
    position += records_;
  }
  return slots;
}

bool Plan::Touches(const StepShare& share, uint64_t begin, uint64_t end) const {
  // The first time round the order at which `end` lies behind the share's begin.
  const uint64_t first = share.first_position;
  const uint64_t offset = first < end ? 0 : ((first - end) / records_ + 1) * records_;
  return begin + offset < first + share.slots;
}

void Plan::Numbers(uint64_t epoch, const StepShare& share, std::vector<uint64_t>* out) const {
  out->resize(share.slots);
  OrderOf(epoch).Fill(share.first_position, *out);
}

void Plan::Records(uint64_t epoch, const StepShare& share, std::vector<PlannedRecord>* out) const {
  out->resize(share.slots);
  constexpr size_t kLanes = 8;
  constexpr size_t kRun = 16 * kLanes;
  std::array<uint64_t, kRun> numbers;
  std::array<uint32_t, kRun> shards;
  EpochOrder order = OrderOf(epoch);
  const size_t shard_count = first_record_.size() - 1;
  for (size_t done = 0; done < share.slots; done += kRun) {
    const size_t count = std::min(kRun, share.slots - done);
    order.Fill(share.first_position + done, std::span(numbers).first(count));
    size_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      FindShards<kLanes>(first_record_.data(), shard_count, &numbers[i], &shards[i]);
    }
    for (; i < count; ++i) {
      FindShards<1>(first_record_.data(), shard_count, &numbers[i], &shards[i]);
    }
    for (i = 0; i < count; ++i) {
      (*out)[done + i] = {shards[i], numbers[i] - first_record_[shards[i]]};
    }
  }
}

}  // namespace emlio::plan
