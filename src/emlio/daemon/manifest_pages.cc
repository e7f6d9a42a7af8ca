// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/daemon/manifest_pages.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"

namespace emlio::daemon {
namespace {

// A page stays well below the header limit whatever the names' lengths.
constexpr size_t kPageShards = 1024;
static_assert(kPageShards <= wire::kMaxManifestPageShards);
static_assert(kPageShards * (wire::kMaxShardNameBytes + 64) < wire::kMaxHeaderBytes);

}  // namespace

uint32_t ManifestPageCount(const dataset::Manifest& manifest) {
  return static_cast<uint32_t>(
      std::max<size_t>(1, (manifest.shards().size() + kPageShards - 1) / kPageShards));
}

wire::ManifestPage MakeManifestPage(const std::string& dataset, const dataset::Manifest& manifest,
                                    uint32_t number) {
  const std::vector<dataset::ShardInfo>& shards = manifest.shards();
  wire::ManifestPage page;
  page.dataset = dataset;
  page.digest = manifest.digest();
  page.page = number;
  page.pages = ManifestPageCount(manifest);
  const size_t end = std::min(shards.size(), (size_t{number} + 1) * kPageShards);
  for (size_t i = size_t{number} * kPageShards; i < end; ++i) {
    page.shards.push_back({shards[i].name, shards[i].records, shards[i].payload_bytes,
                           shards[i].max_record_bytes, shards[i].fingerprint,
                           shards[i].unreadable_bytes});
  }
  return page;
}

Status ManifestAssembler::Reset(Status reason) {
  pages_ = 0;
  bytes_ = 0;
  shards_ = {};
  return reason;
}

Result<bool> ManifestAssembler::Add(const wire::ManifestPage& page) {
  if (page.page == 0) {
    (void)Reset(OkStatus());
    digest_ = page.digest;
  }
  if (page.page != pages_ || page.digest != digest_) {
    return Reset(ProtocolError("the pages of a manifest came out of order"));
  }
  for (const wire::ManifestPage::Shard& shard : page.shards) {
    bytes_ += sizeof(dataset::ShardInfo) + shard.name.size();
    if (bytes_ > max_bytes_) {
      return Reset(LimitExceeded(
          fmt::format("a manifest of more than {} MiB: use fewer, larger shards or shorter names",
                      max_bytes_ >> 20)));
    }
    shards_.push_back({shard.name, shard.records, shard.payload_bytes, shard.max_record_bytes,
                       shard.fingerprint, shard.unreadable_bytes});
  }
  if (++pages_ < page.pages) return false;
  Result<dataset::Manifest> manifest = dataset::Manifest::Create(std::move(shards_));
  if (!manifest.ok()) return Reset(manifest.status());
  if (manifest->digest() != digest_) {
    return Reset(ProtocolError("a manifest does not have the digest it names"));
  }
  (void)Reset(OkStatus());
  manifest_ = *std::move(manifest);
  return true;
}

}  // namespace emlio::daemon
