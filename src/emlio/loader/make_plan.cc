// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/loader/make_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "emlio/base/log.h"
#include "emlio/plan/shuffle_size.h"
#include "emlio/wire/messages.h"

namespace emlio::loader {
namespace {

Status SetBlockSizes(const LoaderOptions& options, const dataset::Manifest& manifest,
                     plan::PlanSpec::Source* source) {
  uint64_t records = 0;
  uint64_t bytes = 0;
  for (const dataset::ShardInfo& shard : manifest.shards()) {
    records += shard.records;
    bytes += shard.payload_bytes + wire::kRecordOverheadBytes * shard.records;
  }
  // The plan refuses a data set of no record; sizes may be wrong, they come from elsewhere.
  records = std::max<uint64_t>(records, 1);
  bytes = std::max<uint64_t>(bytes, 1);
  EMLIO_ASSIGN_OR_RETURN(
      const plan::BlockSizes sizes,
      plan::MakeBlockSizes(options.shuffle_block.value_or(plan::kDefaultShuffleBlock),
                           options.shuffle_window, records, bytes));
  source->block_records = sizes.block_records;
  source->window_blocks = sizes.window_blocks;
  const double mean_bytes = static_cast<double>(bytes) / static_cast<double>(records);
  LogInfo("shuffle in blocks of {} records ({:.1f} MiB) and windows of {} blocks ({:.1f} MiB)",
          sizes.block_records, mean_bytes * sizes.block_records / (1 << 20), sizes.window_blocks,
          mean_bytes * sizes.block_records * sizes.window_blocks / (1 << 20));
  return OkStatus();
}

}  // namespace

Status CheckPlanOptions(const LoaderOptions& options) {
  if ((options.batch_size == 0) == (options.global_batch_size == 0)) {
    return InvalidArgument(
        "give exactly one of batch_size (records a step and rank) and "
        "global_batch_size (records a step over all ranks), at least 1");
  }
  if (options.world_size == 0 || options.rank >= options.world_size) {
    return InvalidArgument(fmt::format("rank {} does not fit world size {}; ranks count from 0",
                                       options.rank, options.world_size));
  }
  if (options.shuffle != plan::Shuffle::kBlock &&
      (options.shuffle_block.has_value() || options.shuffle_window.has_value())) {
    return InvalidArgument(
        fmt::format("sizes of blocks and windows belong to shuffle 'block', not to '{}'",
                    plan::ShuffleName(options.shuffle)));
  }
  for (const auto& size : {options.shuffle_block, options.shuffle_window}) {
    if (size.has_value() && size->amount == 0) {
      return InvalidArgument(
          "a block and a window of the shuffle have at least one record or byte");
    }
  }
  return OkStatus();
}

Result<plan::Plan> MakePlan(const LoaderOptions& options, const dataset::Manifest& manifest) {
  plan::PlanSpec spec;
  spec.sources.resize(1);
  spec.sources[0].manifest_digest = manifest.digest();
  spec.sources[0].shuffle = options.shuffle;
  for (const dataset::ShardInfo& shard : manifest.shards()) {
    spec.sources[0].shard_records.push_back(shard.records);
  }
  if (options.shuffle == plan::Shuffle::kBlock) {
    EMLIO_RETURN_IF_ERROR(SetBlockSizes(options, manifest, &spec.sources[0]));
  }
  spec.seed = options.seed;
  spec.tail = options.tail;
  constexpr uint64_t kMaxGlobalBatch = uint64_t{1} << 31;
  if (options.batch_size > kMaxGlobalBatch / options.world_size) {
    return InvalidArgument(fmt::format("batch_size {} times {} ranks is more than 2^31",
                                       options.batch_size, options.world_size));
  }
  spec.global_batch = options.global_batch_size > 0 ? options.global_batch_size
                                                    : options.batch_size * options.world_size;
  EMLIO_ASSIGN_OR_RETURN(plan::Plan plan, plan::Plan::Create(std::move(spec)));
  EMLIO_RETURN_IF_ERROR(plan.CheckWorld(options.world_size));
  const uint32_t slots = plan.Share(0, options.rank, options.world_size).slots;
  if (slots > wire::kMaxBatchSlots) {
    return LimitExceeded(fmt::format("a batch of {} records for one rank; at most {} are possible",
                                     slots, wire::kMaxBatchSlots));
  }
  return plan;
}

}  // namespace emlio::loader
