// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "config.h"
#include "link_model.h"
#include "packet.h"

// The input is a frame as a device hands it over. It goes through a link that loses, reorders and
// divides; what comes out may not be more than what went in. The same bytes are read as
// configuration and command.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace emlio::wanlab;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)ParseConfig(text);
  (void)ParseCommand(text);
  WantedDirection wanted;
  (void)Apply(text, &wanted);
  if (size < sizeof(VirtioNetHeader) || size > BufferPool::kLargestBytes) return 0;

  BufferPool pool;
  const BufferRef frame = pool.Get(size);
  std::copy(data, data + size, frame.data());
  const PacketShape shape = ShapeOf({frame.data(), size});
  LinkModel model(1);
  model.Configure(0, {.rate_bits_per_s = 50'000'000, .loss = 0.2, .reorder = 0.2});
  model.Offer(0, shape, [&](int first, int count) {
    return MakePiece(frame, static_cast<uint32_t>(size), shape, first, count, &pool);
  });
  uint64_t bytes = 0;
  while (const auto due_ns = model.NextDueNs()) {
    const auto piece = model.Take(*due_ns);
    if (!piece || piece->body_offset + piece->body_bytes > size) std::abort();
    bytes += piece->body_bytes;
  }
  if (bytes > size) std::abort();
  return 0;
}
