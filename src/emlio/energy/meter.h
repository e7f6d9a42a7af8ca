// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "emlio/base/status.h"
#include "emlio/energy/domain.h"

namespace emlio::energy {

// The one thing that every source offers: a number that can be read again and again. An error is a
// reading that is missing now; the next one may be there. One thread at a time.
class Counter {
 public:
  virtual ~Counter() = default;
  virtual Result<uint64_t> Read() = 0;
  // When what Read returned last was read, if that was not just now; 0: it was.
  virtual int64_t taken_ns() const { return 0; }
};

// A domain and its counter; none when domain.cause says why.
struct Meter {
  Domain domain;
  std::unique_ptr<Counter> counter;
};

// Why a source, or a part of it, is not used.
struct Absence {
  std::string source;
  std::string cause;
  std::string fix;  // empty: nothing helps, or nothing is wrong

  friend bool operator==(const Absence&, const Absence&) = default;
};

// What one source found on this host.
struct Finding {
  std::vector<Meter> meters;
  std::vector<Absence> absent;
};

// Where sources look. The defaults are this host; tests replace them.
struct Host {
  std::string root = "/";    // of sys, proc and dev; ends with a slash
  std::string nvml_library;  // empty: $EMLIO_NVML_LIBRARY, else the driver's name
  std::string rocm_library;  // empty: $EMLIO_ROCM_SMI_LIBRARY, else ROCm's name
  // GPUs to measure: UUIDs ("GPU-...", "MIG-..." for its parent) or PCI addresses. Empty: all.
  std::vector<std::string> gpus;
  // What the memory of a socket can draw on average, "LEAST:MOST" in watts (WattLimits). Empty:
  // $EMLIO_DRAM_WATTS, else 0 to 180.
  std::string dram_watts;
  // Beside the counter of a GPU its power, as a domain of its own (gpu-power): to compare both. A
  // Monitor always does.
  bool gpu_power_too = false;
  // Nothing of what is to be measured has begun: a GPU that somebody uses now is shared with
  // others.
  bool before_the_job = false;
  // perf_event_open for one event on one CPU: a descriptor, or an errno value below zero. Empty:
  // the system's.
  std::function<int(uint32_t type, uint64_t config, int cpu)> perf_open;
  // What the energy_uj file of a powercap zone holds now. Empty: what is in it.
  std::function<Result<uint64_t>(const std::string& path)> read_zone;
};

}  // namespace emlio::energy
