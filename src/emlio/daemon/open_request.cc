// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/daemon/open_request.h"

#include <utility>

#include "emlio/daemon/local_records.h"
#include "emlio/session/bitmap.h"
#include "fmt/format.h"

namespace emlio::daemon {

Status CheckOpen(const wire::Open& open) {
  if (open.sources.size() != 1) return Unsupported("a plan over several data sets");
  if (open.world_size == 0 || open.rank >= open.world_size) {
    return InvalidArgument(fmt::format("rank {} of world size {}", open.rank, open.world_size));
  }
  constexpr uint64_t kMaxEpoch = uint64_t{1} << 63;
  if (open.epoch >= kMaxEpoch || open.epochs > kMaxEpoch) {
    return InvalidArgument(fmt::format("epoch {} and {} epochs; less than 2^63 are possible",
                                       open.epoch, open.epochs));
  }
  if (open.streams == 0 || open.streams > wire::kMaxStreams) {
    return InvalidArgument(
        fmt::format("{} streams; 1 to {} are possible", open.streams, wire::kMaxStreams));
  }
  return OkStatus();
}

Result<std::vector<uint32_t>> FindAssigned(const wire::Open& open, const dataset::Manifest& merged,
                                           const dataset::Manifest& own) {
  std::vector<uint32_t> local_shards(merged.shards().size(), LocalRecords::kNotHere);
  for (size_t i = 0; i < merged.shards().size(); ++i) {
    if (!open.assigned.empty() && !session::TestBit(open.assigned, i)) continue;
    const dataset::ShardInfo& wanted = merged.shards()[i];
    const int64_t here = &merged == &own ? static_cast<int64_t>(i) : own.Find(wanted.name);
    if (here < 0 || own.shards()[here].fingerprint != wanted.fingerprint) {
      return NotFound(fmt::format("shard {} of data set '{}' is not here, or has other contents",
                                  wanted.name, open.dataset));
    }
    local_shards[i] = static_cast<uint32_t>(here);
  }
  return local_shards;
}

Result<plan::Plan> MakePlan(const wire::Open& open, const dataset::Manifest& merged) {
  plan::PlanSpec spec;
  spec.sources.resize(1);
  spec.sources[0].manifest_digest = merged.digest();
  spec.sources[0].weight = open.sources.front().weight;
  spec.sources[0].shuffle = static_cast<plan::Shuffle>(open.sources.front().shuffle);
  spec.sources[0].block_records = open.sources.front().block_records;
  spec.sources[0].window_blocks = open.sources.front().window_blocks;
  for (const dataset::ShardInfo& shard : merged.shards()) {
    spec.sources[0].shard_records.push_back(shard.records);
  }
  spec.seed = open.seed;
  spec.global_batch = open.global_batch;
  spec.tail = static_cast<plan::Tail>(open.tail);
  EMLIO_ASSIGN_OR_RETURN(plan::Plan plan, plan::Plan::Create(std::move(spec)));
  EMLIO_RETURN_IF_ERROR(plan.CheckWorld(open.world_size));
  if (plan.Share(0, open.rank, open.world_size).slots > wire::kMaxBatchSlots) {
    return LimitExceeded(fmt::format("a batch of {} records for one rank; at most {} are possible",
                                     plan.Share(0, open.rank, open.world_size).slots,
                                     wire::kMaxBatchSlots));
  }
  if (open.step >= plan.steps_per_epoch()) {
    return InvalidArgument(
        fmt::format("step {}, but an epoch has {}", open.step, plan.steps_per_epoch()));
  }
  return plan;
}

}  // namespace emlio::daemon
