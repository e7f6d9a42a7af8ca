// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy/run.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <random>

#include "emlio/base/clock.h"

namespace emlio::energy {

std::string MakeRunId(int64_t wall_ns) {
  std::random_device random;
  const uint64_t bits = (static_cast<uint64_t>(random()) << 32U) | random();
  const auto seconds = static_cast<std::time_t>(wall_ns / kNsPerSecond);
  return fmt::format("{:%Y%m%dT%H%M%SZ}-{:016x}", fmt::gmtime(seconds), bits);
}

}  // namespace emlio::energy
