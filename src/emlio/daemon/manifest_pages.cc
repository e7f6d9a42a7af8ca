// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/daemon/manifest_pages.h"

#include <algorithm>

namespace emlio::daemon {
namespace {

// A page stays well below the header limit whatever the names' lengths.
constexpr size_t kPageShards = 1024;
static_assert(kPageShards <= wire::kMaxManifestPageShards);
static_assert(kPageShards * (wire::kMaxShardNameBytes + 64) < wire::kMaxHeaderBytes);

}  // namespace

std::vector<wire::ManifestPage> ToManifestPages(const std::string& dataset,
                                                const dataset::Manifest& manifest) {
  const std::vector<dataset::ShardInfo>& shards = manifest.shards();
  const size_t count = std::max<size_t>(1, (shards.size() + kPageShards - 1) / kPageShards);
  std::vector<wire::ManifestPage> pages(count);
  for (size_t i = 0; i < count; ++i) {
    wire::ManifestPage& page = pages[i];
    page.dataset = dataset;
    page.digest = manifest.digest();
    page.page = static_cast<uint32_t>(i);
    page.pages = static_cast<uint32_t>(count);
    for (size_t s = i * kPageShards; s < std::min(shards.size(), (i + 1) * kPageShards); ++s) {
      page.shards.push_back({shards[s].name, shards[s].records, shards[s].payload_bytes,
                             shards[s].max_record_bytes, shards[s].fingerprint});
    }
  }
  return pages;
}

Result<bool> ManifestAssembler::Add(const wire::ManifestPage& page) {
  const auto reset = [this](const char* message) {
    pages_ = 0;
    shards_.clear();
    return ProtocolError(message);
  };
  if (page.page == 0) {
    pages_ = 0;
    shards_.clear();
    digest_ = page.digest;
  }
  if (page.page != pages_ || page.digest != digest_) {
    return reset("the pages of a manifest came out of order");
  }
  for (const wire::ManifestPage::Shard& shard : page.shards) {
    shards_.push_back({shard.name, shard.records, shard.payload_bytes, shard.max_record_bytes,
                       shard.fingerprint});
  }
  if (++pages_ < page.pages) return false;
  Result<dataset::Manifest> manifest = dataset::Manifest::Create(std::move(shards_));
  if (!manifest.ok()) return manifest.status();
  if (manifest->digest() != digest_) return reset("a manifest does not have the digest it names");
  pages_ = 0;
  shards_.clear();
  manifest_ = *std::move(manifest);
  return true;
}

}  // namespace emlio::daemon
