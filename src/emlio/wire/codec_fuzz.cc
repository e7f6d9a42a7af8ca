// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "emlio/wire/messages.h"

// Whatever decodes must encode to the canonical form, which must decode to the same message.
// Start with testdata/ as the corpus.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using emlio::wire::AnyMessage;
  const auto first = emlio::wire::Decode({data, size});
  if (!first.ok()) return 0;
  const std::vector<uint8_t> canonical = emlio::wire::Encode(*first);
  const auto second = emlio::wire::Decode(canonical);
  if (!second.ok() || emlio::wire::Encode(*second) != canonical) std::abort();
  if (const auto* chunk = std::get_if<emlio::wire::Chunk>(&*first)) {
    uint64_t sum = 0;
    for (const uint32_t bytes : chunk->sizes) sum += bytes;
    const bool ok = emlio::wire::CheckChunk(*chunk, sum).ok();
    if (ok && emlio::wire::CheckChunk(*chunk, sum + 1).ok()) std::abort();
  }
  return 0;
}
