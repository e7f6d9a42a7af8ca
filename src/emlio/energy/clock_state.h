// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "emlio/energy/run.h"

// What is known of this host's wall clock, and which start of which host this is.
namespace emlio::energy {

// adjtimex, which needs no rights.
ClockReading ReadClock();

// How far one node's windows can be laid beside another's (energy_agent/AGENT.md, "Clocks").
enum class ClockState { kOk, kFlagged, kRefused };
// "ok", "flagged", "refused".
std::string_view ClockStateName(ClockState state);
ClockState JudgeClock(int64_t offset_ns, int64_t bound_ns, int64_t interval_ns);

// The kernel's boot id below `root`; empty when it is not told.
std::string BootId(const std::string& root);

}  // namespace emlio::energy
