// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "emlio/energy_agent/messages.h"

// Whatever decodes must encode to what decodes to the same message again.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace emlio::energy_agent;
  const auto first = Decode({data, size});
  if (!first.ok()) return 0;
  const std::vector<uint8_t> canonical = Encode(*first);
  if (canonical.size() > kMaxMessageBytes) return 0;
  const auto second = Decode(canonical);
  if (!second.ok() || Encode(*second) != canonical) std::abort();
  return 0;
}
