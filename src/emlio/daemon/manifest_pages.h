// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "emlio/base/hash128.h"
#include "emlio/base/status.h"
#include "emlio/dataset/manifest.h"
#include "emlio/wire/messages.h"

namespace emlio::daemon {

// Cuts a manifest into the pages that carry it over the wire.
std::vector<wire::ManifestPage> ToManifestPages(const std::string& dataset,
                                                const dataset::Manifest& manifest);

// Puts the pages of one manifest together again. Not thread-safe.
class ManifestAssembler {
 public:
  // True when the page was the last one: the manifest is whole. kProtocol when pages come out of
  // order or do not have the digest that they name; the assembler is then empty again.
  Result<bool> Add(const wire::ManifestPage& page);
  // REQUIRES: Add has just returned true.
  dataset::Manifest Take() { return std::move(manifest_); }

 private:
  Hash128 digest_{};
  uint32_t pages_ = 0;
  std::vector<dataset::ShardInfo> shards_;
  dataset::Manifest manifest_;
};

}  // namespace emlio::daemon
