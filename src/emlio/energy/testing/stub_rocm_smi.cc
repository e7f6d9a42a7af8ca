// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
// Stands in for ROCm SMI in tests: two dies of one card, of which the first has the energy of both,
// and a GPU without the counter. 200 W in units of 15.3 µJ.
#include <cstdint>
#include <ctime>

#define STUB_EXPORT extern "C" __attribute__((visibility("default")))

namespace {
constexpr float kResolutionUj = 15.3F;
int64_t g_time_ns = -1;
}  // namespace

STUB_EXPORT void StubRocmSetTimeNs(int64_t time_ns) { g_time_ns = time_ns; }

STUB_EXPORT int rsmi_init(uint64_t) { return 0; }
STUB_EXPORT int rsmi_shut_down() { return 0; }

STUB_EXPORT int rsmi_num_monitor_devices(uint32_t* count) {
  *count = 3;
  return 0;
}

STUB_EXPORT int rsmi_dev_pci_id_get(uint32_t index, uint64_t* id) {
  *id = uint64_t{0xC1 + index} << 8;
  return 0;
}

STUB_EXPORT int rsmi_dev_unique_id_get(uint32_t index, uint64_t* id) {
  *id = 0xABCDEF0000000000 + index;
  return 0;
}

STUB_EXPORT int rsmi_dev_energy_count_get(uint32_t index, uint64_t* count, float* resolution_uj,
                                          uint64_t* time_ns) {
  if (index == 2) return 2;  // not supported
  int64_t now_ns = g_time_ns;
  if (now_ns < 0) {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    now_ns = now.tv_sec * 1'000'000'000 + now.tv_nsec;
  }
  const double joules = 1000 + 200.0 * static_cast<double>(now_ns) * 1e-9;
  *count = index == 0 ? static_cast<uint64_t>(joules * 1e6 / kResolutionUj) : 0;
  *resolution_uj = kResolutionUj;
  *time_ns = static_cast<uint64_t>(now_ns);
  return 0;
}
