// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
// Any text as the state of a conversion: what is read can be written and read again.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "emlio/base/crc32c.h"
#include "emlio/convert/conversion_state.h"
#include "fmt/format.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace emlio;
  using namespace emlio::convert;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  (void)ParseState(input);

  // Checksums would stop nearly every input: give every line the right one.
  std::string text;
  for (size_t at = 0; at < input.size();) {
    const size_t end = std::min(input.find('\n', at), input.size());
    const std::string_view line = input.substr(at, end - at);
    text += fmt::format("{} #{:08x}\n", line, Crc32c(line.data(), line.size()));
    at = end + 1;
  }
  const auto state = ParseState(text);
  if (!state.ok()) return 0;
  std::string written = StateHead(state->options);
  for (const auto& [number, shard] : state->shards) written += StateLine(number, shard);
  if (state->complete) written += StateEnd();
  const auto again = ParseState(written);
  if (!again.ok() || again->options != state->options || again->shards != state->shards ||
      again->complete != state->complete) {
    std::abort();
  }
  return 0;
}
