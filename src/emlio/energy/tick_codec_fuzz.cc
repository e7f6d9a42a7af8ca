// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
// Any bytes as packed samples: they are refused whole, or what they hold can be packed again and is
// the same then.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "emlio/energy/tick_codec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace emlio::energy;
  if (size == 0) return 0;
  const auto require = [](bool holds) {
    if (!holds) std::abort();
  };
  // The number of domains is the reader's, not that of the data.
  TickBlock block(data[0] % 8);
  const std::string_view packed(reinterpret_cast<const char*>(data + 1), size - 1);
  if (!DecodeTicks(packed, &block).ok()) {
    require(block.size() == 0);
    return 0;
  }
  require(block.size() > 0 && block.size() <= kMaxPackedTicks);
  for (size_t i = 0; i < block.size(); ++i) {
    for (const Sample& sample : block.At(i).samples) {
      // More microjoules than a double holds exactly come from no counter.
      if (std::abs(sample.joules) > 4e9 || std::abs(sample.spread_joules) > 4e9) return 0;
    }
  }
  TickBlock again(block.domains());
  require(DecodeTicks(EncodeTicks(block, block.size()), &again).ok());
  require(again.size() == block.size());
  for (size_t i = 0; i < block.size(); ++i) {
    const Tick a = block.At(i);
    const Tick b = again.At(i);
    require(a.monotonic_ns == b.monotonic_ns && a.wall_ns == b.wall_ns);
    for (size_t j = 0; j < block.domains(); ++j) {
      require(a.samples[j].time_ns == b.samples[j].time_ns);
      require(a.samples[j].joules == b.samples[j].joules);
      require(a.samples[j].void_ns == b.samples[j].void_ns);
      require(a.samples[j].state == b.samples[j].state);
      require(a.samples[j].gaps == b.samples[j].gaps);
    }
  }
  return 0;
}
