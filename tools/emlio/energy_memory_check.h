// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "emlio/base/status.h"
#include "emlio/energy/meter.h"

namespace emlio::tool {

// When memory is put under load before a command is measured, to see whether its counters rise.
enum class MemoryCheck {
  // Once after each start of this host, if it is idle and this process can reach all its memory
  // (energy::CanLoadAllMemory); not with another root than its own.
  kAuto,
  kAlways,  // now
  kNever,
};
// "auto", "always", "never".
Result<MemoryCheck> ParseMemoryCheck(std::string_view name);
std::string_view MemoryCheckName(MemoryCheck check);

// Makes that check if it is due, and keeps what was found out (energy::KeepDramChecks). What
// hinders it is told and no error: counters that were not checked say so. Takes up to three
// seconds, after up to energy::kWaitForChecksNs for others who check.
void CheckMemory(const energy::Host& host, MemoryCheck when);

}  // namespace emlio::tool
