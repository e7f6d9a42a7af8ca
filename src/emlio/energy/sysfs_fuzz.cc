// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
// Any text as a file of /sys or /proc: parsers take it or leave it, and what they take is in
// bounds.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "emlio/energy/sysfs.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace emlio::energy;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto require = [](bool holds) {
    if (!holds) std::abort();
  };
  (void)ParseNumber(text);
  (void)ParseBusyTicks(text);
  if (const auto scale = ParseScale(text)) require(*scale > 0);
  if (const auto cpus = ParseCpuList(text)) {
    require(!cpus->empty() && cpus->size() <= 4096);
    for (size_t i = 1; i < cpus->size(); ++i) require((*cpus)[i - 1] < (*cpus)[i]);
  }
  for (const auto& zone : {ParseZoneName(text), ParseGraceInfo(text)}) {
    if (zone) require(zone->socket >= -1 && zone->die >= -1);
  }
  const size_t line = text.find('\n');
  if (line != std::string_view::npos) {
    (void)ParseEvent(text.substr(0, line), text.substr(line + 1));
  }
  return 0;
}
