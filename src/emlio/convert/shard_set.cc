// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/convert/shard_set.h"

#include <fmt/format.h>

#include <algorithm>

#include "emlio/base/thread.h"
#include "emlio/convert/check_shards.h"
#include "emlio/convert/shard_names.h"
#include "emlio/convert/write_shards.h"

namespace emlio::convert {

Progress Tally::Of(Progress total) const {
  total.records_done = records.load(std::memory_order_relaxed);
  total.bytes_done = bytes.load(std::memory_order_relaxed);
  total.records_kept = records_kept.load(std::memory_order_relaxed);
  total.bytes_kept = bytes_kept.load(std::memory_order_relaxed);
  return total;
}

std::string ShardSet::Name(const ShardSetOptions& shard_options, uint64_t shard) const {
  return names.empty() ? ShardName(shard_options.prefix, shard, shards) : names[shard];
}

Status ShardSink::Append(std::span<const uint8_t> payload, uint64_t source_bytes,
                         std::string_view source) {
  if (stop_.stop_requested()) return Cancelled("the conversion was given up");
  EMLIO_RETURN_IF_ERROR(Take(payload, source));
  source_bytes_ += source_bytes;
  tally_->records.fetch_add(1, std::memory_order_relaxed);
  tally_->bytes.fetch_add(source_bytes, std::memory_order_relaxed);
  return OkStatus();
}

Status CheckShardSetOptions(const ShardSetOptions& options) {
  const std::string& prefix = options.prefix;
  if (prefix.empty() || prefix.front() == '.' || prefix.size() > 200 ||
      prefix.find_first_of(std::string_view("/\n\0", 3)) != std::string::npos) {
    return InvalidArgument(
        fmt::format("prefix '{}' cannot begin a shard's file name: use 1 to 200 characters, no '/' "
                    "and no '.' in front",
                    prefix));
  }
  return CheckDestination(options);
}

Status CheckDestination(const ShardSetOptions& options) {
  if (options.destination.empty()) return InvalidArgument("no destination folder was given");
  return CheckThreadCount("threads", options.threads);
}

Status CheckShardCount(uint64_t shards, uint64_t records) {
  const uint64_t most = std::min(kMaxShards, records);
  if (shards >= 1 && shards <= most) return OkStatus();
  return InvalidArgument(
      fmt::format("{} records cannot fill {} shards: use 1 to {} shards", records, shards, most));
}

uint64_t RecommendedShards(uint64_t bytes, uint64_t records) {
  const uint64_t shards = bytes / kGoodShardBytes + (bytes % kGoodShardBytes != 0 ? 1 : 0);
  return std::clamp<uint64_t>(shards, 1, records == 0 ? kMaxShards : std::min(kMaxShards, records));
}

Result<ShardSetSummary> MakeShardSet(const ShardSetOptions& options, const ShardSet& set,
                                     const ProgressFunction& progress) {
  auto summary =
      options.check ? CheckShards(options, set, progress) : WriteShards(options, set, progress);
  if (summary.ok()) {
    summary->recommended_shards = RecommendedShards(summary->payload_bytes, summary->records);
  }
  return summary;
}

}  // namespace emlio::convert
