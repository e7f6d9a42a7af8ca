// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/dataset/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "emlio/base/endian.h"

namespace emlio::dataset {
namespace {

Hash128 DigestOf(const std::vector<ShardInfo>& shards) {
  Xxh3Stream hash;
  const auto add_number = [&hash](uint64_t number) {
    std::array<uint8_t, 8> bytes;
    StoreLe(bytes.data(), number);
    hash.Update(bytes.data(), bytes.size());
  };
  for (const ShardInfo& shard : shards) {
    add_number(shard.name.size());
    hash.Update(shard.name.data(), shard.name.size());
    add_number(shard.records);
    hash.Update(shard.fingerprint.data(), shard.fingerprint.size());
  }
  return hash.Digest();
}

// Adds to a sum; false when it does not fit.
bool AddTo(uint64_t* sum, uint64_t number) { return !__builtin_add_overflow(*sum, number, sum); }

}  // namespace

Result<Manifest> Manifest::Create(std::vector<ShardInfo> shards) {
  Manifest manifest;
  manifest.shards_ = std::move(shards);
  // std::string compares as unsigned bytes.
  std::sort(manifest.shards_.begin(), manifest.shards_.end(),
            [](const ShardInfo& a, const ShardInfo& b) { return a.name < b.name; });
  const ShardInfo* previous = nullptr;
  for (const ShardInfo& shard : manifest.shards_) {
    if (shard.name.empty()) return InvalidArgument("a shard of the manifest has no name");
    if (previous != nullptr && previous->name == shard.name) {
      return InvalidArgument(fmt::format("shard '{}' is twice in the manifest", shard.name));
    }
    // The counts may come from another host: their sums need not make sense.
    if (!AddTo(&manifest.records_, shard.records) ||
        !AddTo(&manifest.payload_bytes_, shard.payload_bytes)) {
      return InvalidArgument(
          fmt::format("the manifest claims more than 2^64 records or bytes (at shard '{}': {} "
                      "records, {} bytes)",
                      shard.name, shard.records, shard.payload_bytes));
    }
    manifest.max_record_bytes_ = std::max(manifest.max_record_bytes_, shard.max_record_bytes);
    previous = &shard;
  }
  if (manifest.records_ == 0) {
    return NotFound(fmt::format("no record in {} shard(s)", manifest.shards_.size()));
  }
  manifest.digest_ = DigestOf(manifest.shards_);
  return manifest;
}

Result<Manifest> Manifest::Merge(std::span<const Manifest> manifests) {
  std::vector<ShardInfo> all;
  for (const Manifest& manifest : manifests) {
    all.insert(all.end(), manifest.shards_.begin(), manifest.shards_.end());
  }
  std::sort(all.begin(), all.end(),
            [](const ShardInfo& a, const ShardInfo& b) { return a.name < b.name; });
  std::vector<ShardInfo> merged;
  for (ShardInfo& shard : all) {
    if (merged.empty() || merged.back().name != shard.name) {
      merged.push_back(std::move(shard));
    } else if (!merged.back().HasContentsOf(shard)) {
      return PlanMismatch(fmt::format(
          "shard '{}' has other contents on another source: {} records, fingerprint {}, against {} "
          "records, fingerprint {}; {}",
          shard.name, merged.back().records, ToHex(merged.back().fingerprint), shard.records,
          ToHex(shard.fingerprint),
          merged.back().unreadable_bytes + shard.unreadable_bytes > 0
              ? "one of the two is damaged: replace it by the good one"
              : "give different files different names"));
    }
  }
  return Create(std::move(merged));
}

uint64_t Manifest::unreadable_bytes() const {
  uint64_t sum = 0;
  for (const ShardInfo& shard : shards_) sum += shard.unreadable_bytes;
  return sum;
}

int64_t Manifest::Find(std::string_view name) const {
  const auto at =
      std::lower_bound(shards_.begin(), shards_.end(), name,
                       [](const ShardInfo& shard, std::string_view n) { return shard.name < n; });
  return at != shards_.end() && at->name == name ? at - shards_.begin() : -1;
}

}  // namespace emlio::dataset
