// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>

#include "emlio/base/hash128.h"
#include "emlio/base/status.h"
#include "emlio/daemon/manifest_pages.h"
#include "emlio/dataset/manifest.h"
#include "emlio/transport/transport.h"
#include "emlio/wire/messages.h"

namespace emlio::daemon {

// The manifests over several daemons that receivers supply when asked (NeedManifest), kept for the
// sessions to come. Whoever can connect can send them, so what they occupy is bounded: `max_bytes`
// for all, those still arriving included, and `max_manifest_bytes` for each. Not thread-safe.
class MergedManifests {
 public:
  MergedManifests(uint64_t max_bytes, uint64_t max_manifest_bytes)
      : max_bytes_(max_bytes), max_manifest_bytes_(max_manifest_bytes) {}

  // Null if it is not known (any more).
  std::shared_ptr<const dataset::Manifest> Find(const Hash128& digest) const;
  // The peer of this connection was asked for that manifest. The last question counts.
  void Expect(transport::ConnectionId from, const Hash128& digest);
  // kProtocol for a page that was not asked for or does not fit those before it; kLimitExceeded.
  // An upload that failed is forgotten and has to be asked for again.
  Status Add(transport::ConnectionId from, const wire::ManifestPage& page);
  // The connection is gone.
  void Forget(transport::ConnectionId from) { arriving_.erase(from); }

 private:
  struct Arriving {
    Hash128 digest{};
    ManifestAssembler pages;
  };
  struct Kept {
    std::shared_ptr<const dataset::Manifest> manifest;
    uint64_t bytes = 0;
  };

  const uint64_t max_bytes_;
  const uint64_t max_manifest_bytes_;
  std::unordered_map<transport::ConnectionId, Arriving> arriving_;
  std::deque<Kept> kept_;  // newest last
};

}  // namespace emlio::daemon
