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

// The pages that carry a manifest over the wire. They are made one by one, since all of them may be
// large.
uint32_t ManifestPageCount(const dataset::Manifest& manifest);
// REQUIRES: page < ManifestPageCount(manifest).
wire::ManifestPage MakeManifestPage(const std::string& dataset, const dataset::Manifest& manifest,
                                    uint32_t page);

// Puts the pages of one manifest together again. Not thread-safe.
class ManifestAssembler {
 public:
  explicit ManifestAssembler(uint64_t max_bytes) : max_bytes_(max_bytes) {}

  // True when the page was the last one: the manifest is whole. kProtocol when pages come out of
  // order or do not have the digest that they name, kLimitExceeded when the manifest needs more
  // memory than `max_bytes`; the assembler is then empty again.
  Result<bool> Add(const wire::ManifestPage& page);
  // What the pages so far occupy, roughly.
  uint64_t bytes() const { return bytes_; }
  // REQUIRES: Add has just returned true.
  dataset::Manifest Take() { return std::move(manifest_); }

 private:
  Status Reset(Status reason);

  const uint64_t max_bytes_;
  uint64_t bytes_ = 0;
  Hash128 digest_{};
  uint32_t pages_ = 0;
  std::vector<dataset::ShardInfo> shards_;
  dataset::Manifest manifest_;
};

}  // namespace emlio::daemon
