// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emlio/base/status.h"
#include "emlio/energy/run.h"

namespace emlio::energy {

inline constexpr size_t kMaxPackedTicks = 65'536;
inline constexpr size_t kMaxPackedDomains = 4096;
inline constexpr size_t kMaxPackedSamples = size_t{1} << 20;  // ticks times domains

// Some ticks of one node.
class TickBlock {
 public:
  explicit TickBlock(size_t domains) : domains_(domains) {}

  size_t domains() const { return domains_; }
  size_t size() const { return monotonic_ns_.size(); }
  // Valid until the block is changed.
  Tick At(size_t tick) const {
    return {monotonic_ns_[tick], wall_ns_[tick],
            std::span(samples_).subspan(tick * domains_, domains_)};
  }
  // REQUIRES: tick.samples has domains() samples.
  void Append(const Tick& tick);
  // Drops what is behind the first `ticks`.
  void Shrink(size_t ticks);
  // Drops the first `ticks`.
  void DropFront(size_t ticks);

 private:
  friend std::string EncodeTicks(const TickBlock& block, size_t ticks);
  friend Status DecodeTicks(std::string_view data, TickBlock* block);

  size_t domains_;
  std::vector<int64_t> monotonic_ns_;
  std::vector<int64_t> wall_ns_;
  std::vector<Sample> samples_;  // the samples of one tick lie beside each other
};

// The first ticks of a block (METRICS.md section 9, "data"). REQUIRES: 1 to kMaxPackedTicks, at
// most kMaxPackedDomains and kMaxPackedSamples.
std::string EncodeTicks(const TickBlock& block, size_t ticks);
// Replaces the ticks of `block`, which keeps its memory. kCorrupt: what is wrong with `data`; it
// was made for another number of domains than block->domains(), or ticks go back in time.
Status DecodeTicks(std::string_view data, TickBlock* block);

}  // namespace emlio::energy
