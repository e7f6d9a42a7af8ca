// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "emlio/base/clock.h"
#include "emlio/energy/library.h"
#include "emlio/energy/sources.h"

namespace emlio::energy {
namespace {

constexpr int kSuccess = 0;

// What is used of ROCm SMI's interface.
struct Api {
  explicit Api(const Library& library)
      : init(library.Find<int(uint64_t)>("rsmi_init")),
        shut_down(library.Find<int()>("rsmi_shut_down")),
        count(library.Find<int(uint32_t*)>("rsmi_num_monitor_devices")),
        pci(library.Find<int(uint32_t, uint64_t*)>("rsmi_dev_pci_id_get")),
        unique_id(library.Find<int(uint32_t, uint64_t*)>("rsmi_dev_unique_id_get")),
        energy(library.Find<int(uint32_t, uint64_t*, float*, uint64_t*)>(
            "rsmi_dev_energy_count_get")) {}

  int (*init)(uint64_t);
  int (*shut_down)();
  int (*count)(uint32_t*);
  int (*pci)(uint32_t, uint64_t*);
  int (*unique_id)(uint32_t, uint64_t*);
  int (*energy)(uint32_t, uint64_t*, float*, uint64_t*);
};

class Session {
 public:
  explicit Session(const Api& functions) : api(functions) {}
  ~Session() {
    if (api.shut_down != nullptr) api.shut_down();
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  const Api api;
};

class RocmCounter : public Counter {
 public:
  RocmCounter(std::shared_ptr<Session> session, uint32_t index)
      : session_(std::move(session)), index_(index) {}

  Result<uint64_t> Read() override {
    uint64_t value = 0;
    float resolution_uj = 0;
    uint64_t time_ns = 0;
    const int result = session_->api.energy(index_, &value, &resolution_uj, &time_ns);
    if (result == kSuccess) return value;
    return Unavailable(fmt::format("ROCm SMI: status {}", result));
  }

 private:
  const std::shared_ptr<Session> session_;
  const uint32_t index_;
};

// The library packs an address into one number.
std::string PciAddress(uint64_t id) {
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", id >> 32, id >> 8 & 0xFF, id >> 3 & 0x1F, id & 7);
}

Meter MeterOf(const std::shared_ptr<Session>& session, uint32_t index, std::string uuid,
              std::string pci) {
  Meter meter;
  Domain& domain = meter.domain;
  domain = MakeDomain(DomainKind::kGpu, "rocm", -1, -1);
  domain.id = fmt::format("gpu-{}", uuid);
  domain.device = std::move(uuid);
  domain.pci = std::move(pci);
  domain.detail = "energy count";
  domain.refresh_ns = 100 * kNsPerMs;
  uint64_t value = 0;
  float resolution_uj = 0;
  uint64_t time_ns = 0;
  const int result = session->api.energy(index, &value, &resolution_uj, &time_ns);
  if (result != kSuccess) {
    domain.cause = fmt::format("ROCm SMI gives no energy of this GPU (status {})", result);
    domain.fix = "none, if the GPU has no such counter; else a newer ROCm";
  } else if (!std::isfinite(resolution_uj) || resolution_uj <= 0) {
    domain.cause = fmt::format("ROCm SMI gives {} as the unit of the energy count", resolution_uj);
    domain.fix = "a newer ROCm";
  } else if (value == 0) {
    // The second die of an MI250 reads 0: the first has the energy of both.
    domain.cause = "the energy count is 0: another die of the same card has the energy of both";
    domain.fix = "none, if the card has two dies; else a newer ROCm";
    domain.outside_total = "in the energy of the card's first die";
  } else {
    domain.per_unit = static_cast<double>(resolution_uj) * 1e-6;
    domain.step_joules = domain.per_unit;
    meter.counter = std::make_unique<RocmCounter>(session, index);
  }
  return meter;
}

}  // namespace

Finding FindRocm(const Host& host) {
  Finding finding;
  const auto reject = [&](std::string cause, std::string fix) {
    finding.absent.push_back({"rocm", std::move(cause), std::move(fix)});
    return std::move(finding);
  };
  const auto library = Library::Open(
      host.rocm_library, "EMLIO_ROCM_SMI_LIBRARY",
      {"librocm_smi64.so.7", "librocm_smi64.so.6", "librocm_smi64.so.5", "librocm_smi64.so"});
  if (!library.ok()) {
    return reject(fmt::format("ROCm SMI cannot be loaded: {}", library.status().message()),
                  "install rocm-smi-lib, or name the library with EMLIO_ROCM_SMI_LIBRARY");
  }
  const Api api(*library);
  if (api.init == nullptr || api.count == nullptr || api.energy == nullptr) {
    return reject(fmt::format("{} lacks the functions that energy needs", library->name()),
                  "install ROCm 4.5 or newer");
  }
  if (const int result = api.init(0); result != kSuccess) {
    return reject(fmt::format("ROCm SMI cannot be started: status {}", result),
                  "load the amdgpu driver");
  }
  const auto session = std::make_shared<Session>(api);
  uint32_t count = 0;
  if (const int result = api.count(&count); result != kSuccess) {
    return reject(fmt::format("ROCm SMI cannot count GPUs: status {}", result), "");
  }
  for (uint32_t index = 0; index < count; ++index) {
    uint64_t id = 0;
    const bool has_pci = api.pci != nullptr && api.pci(index, &id) == kSuccess;
    std::string pci = has_pci ? PciAddress(id) : "";
    const bool has_id = api.unique_id != nullptr && api.unique_id(index, &id) == kSuccess;
    std::string uuid = has_id    ? fmt::format("{:016x}", id)
                       : has_pci ? pci
                                 : fmt::format("index-{}", index);
    if (!GpuWanted(host, uuid, pci)) continue;
    finding.meters.push_back(MeterOf(session, index, std::move(uuid), std::move(pci)));
  }
  if (finding.meters.empty()) {
    finding.absent.push_back(
        {"rocm", fmt::format("ROCm SMI sees {} GPUs, none of which was asked for", count), ""});
  }
  return finding;
}

}  // namespace emlio::energy
