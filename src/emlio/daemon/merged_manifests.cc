// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/daemon/merged_manifests.h"

#include <utility>

#include "fmt/format.h"

namespace emlio::daemon {

std::shared_ptr<const dataset::Manifest> MergedManifests::Find(const Hash128& digest) const {
  for (const Kept& kept : kept_) {
    if (kept.manifest->digest() == digest) return kept.manifest;
  }
  return nullptr;
}

void MergedManifests::Expect(transport::ConnectionId from, const Hash128& digest) {
  const auto found = arriving_.find(from);
  if (found != arriving_.end() && found->second.digest == digest) return;
  arriving_.erase(from);
  arriving_.emplace(from, Arriving{digest, ManifestAssembler(max_manifest_bytes_)});
}

Status MergedManifests::Add(transport::ConnectionId from, const wire::ManifestPage& page) {
  const auto found = arriving_.find(from);
  if (found == arriving_.end() || found->second.digest != page.digest) {
    return ProtocolError("a page of a manifest that was not asked for (NeedManifest)");
  }
  ManifestAssembler& pages = found->second.pages;
  Result<bool> whole = pages.Add(page);
  if (!whole.ok()) {
    arriving_.erase(found);
    return whole.status();
  }
  if (*whole) {
    dataset::Manifest manifest = pages.Take();
    uint64_t bytes = 0;
    for (const dataset::ShardInfo& shard : manifest.shards()) {
      bytes += sizeof(dataset::ShardInfo) + shard.name.size();
    }
    arriving_.erase(found);
    kept_.push_back({std::make_shared<const dataset::Manifest>(std::move(manifest)), bytes});
  }
  uint64_t bytes = 0;
  for (const auto& [connection, arriving] : arriving_) bytes += arriving.pages.bytes();
  for (const Kept& kept : kept_) bytes += kept.bytes;
  // A session needs its manifest only while it is opened: older ones can be asked for again.
  while (bytes > max_bytes_ && kept_.size() > (*whole ? 1 : 0)) {
    bytes -= kept_.front().bytes;
    kept_.pop_front();
  }
  if (bytes <= max_bytes_) return OkStatus();
  if (*whole) {
    kept_.pop_back();
  } else {
    arriving_.erase(from);
  }
  return LimitExceeded(
      fmt::format("the manifests that receivers send now need more than {} MiB; try again later",
                  max_bytes_ >> 20));
}

}  // namespace emlio::daemon
