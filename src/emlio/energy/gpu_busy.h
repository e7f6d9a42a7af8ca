// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "emlio/energy/meter.h"

namespace emlio::energy {

// How long the GPUs of a host were busy, all together, from what NVML says of the share of time in
// which any kernel ran. A proxy, not energy. Take is called by one thread at a time.
class GpuBusy {
 public:
  // Null where no GPU tells.
  static std::unique_ptr<GpuBusy> Open(const Host& host);
  // To be called about once a second: the driver's own period is up to that.
  void Take(int64_t time_ns);
  double seconds() const { return seconds_; }

 private:
  GpuBusy() = default;
  std::vector<std::function<std::optional<double>()>> read_;  // the share of each GPU
  int64_t last_ns_ = 0;
  double seconds_ = 0;
};

}  // namespace emlio::energy
