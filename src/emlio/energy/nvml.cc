// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "emlio/base/clock.h"
#include "emlio/base/nanoseconds.h"
#include "emlio/energy/gpu_busy.h"
#include "emlio/energy/library.h"
#include "emlio/energy/sources.h"

namespace emlio::energy {
namespace {

// What is used of NVML's interface, of which only functions that are found are called.
using Device = void*;
constexpr int kSuccess = 0;
constexpr int kNotSupported = 3;
constexpr int kInsufficientSize = 7;
constexpr int kFunctionNotFound = 13;
constexpr unsigned kPowerAverage = 185;
constexpr unsigned kPowerInstant = 186;
constexpr unsigned kScopeGpu = 0;
constexpr unsigned kScopeModule = 1;
constexpr unsigned kVirtualGpu = 2;  // a guest's share of a GPU
                                     // above it: a host whose guests have shares of it

struct PciInfo {
  char legacy_id[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char id[32];
};

struct Utilization {
  unsigned gpu, memory;  // percent of the latest period of the driver's own
};

struct FieldValue {
  unsigned field;
  unsigned scope;
  long long time_us;
  long long latency_us;
  int type;  // 0 double, 1 unsigned int, 2 unsigned long, 3 unsigned long long
  int result;
  union {
    double d;
    unsigned u;
    unsigned long long ull;
  } value;
};

struct Api {
  explicit Api(const Library& library)
      : init(library.Find<int()>("nvmlInit_v2")),
        shutdown(library.Find<int()>("nvmlShutdown")),
        error_string(library.Find<const char*(int)>("nvmlErrorString")),
        count(library.Find<int(unsigned*)>("nvmlDeviceGetCount_v2")),
        by_index(library.Find<int(unsigned, Device*)>("nvmlDeviceGetHandleByIndex_v2")),
        by_uuid(library.Find<int(const char*, Device*)>("nvmlDeviceGetHandleByUUID")),
        uuid(library.Find<int(Device, char*, unsigned)>("nvmlDeviceGetUUID")),
        pci(library.Find<int(Device, PciInfo*)>("nvmlDeviceGetPciInfo_v3")),
        mig_mode(library.Find<int(Device, unsigned*, unsigned*)>("nvmlDeviceGetMigMode")),
        mig_parent(
            library.Find<int(Device, Device*)>("nvmlDeviceGetDeviceHandleFromMigDeviceHandle")),
        virtualization(library.Find<int(Device, unsigned*)>("nvmlDeviceGetVirtualizationMode")),
        energy(
            library.Find<int(Device, unsigned long long*)>("nvmlDeviceGetTotalEnergyConsumption")),
        power(library.Find<int(Device, unsigned*)>("nvmlDeviceGetPowerUsage")),
        fields(library.Find<int(Device, int, FieldValue*)>("nvmlDeviceGetFieldValues")),
        driver(library.Find<int(char*, unsigned)>("nvmlSystemGetDriverVersion")),
        power_limit(library.Find<int(Device, unsigned*)>("nvmlDeviceGetEnforcedPowerLimit")),
        persistence(library.Find<int(Device, unsigned*)>("nvmlDeviceGetPersistenceMode")),
        utilization(library.Find<int(Device, Utilization*)>("nvmlDeviceGetUtilizationRates")),
        processes(library.Find<int(Device, unsigned*, void*)>(
            "nvmlDeviceGetComputeRunningProcesses_v3")) {}

  int (*init)();
  int (*shutdown)();
  const char* (*error_string)(int);
  int (*count)(unsigned*);
  int (*by_index)(unsigned, Device*);
  int (*by_uuid)(const char*, Device*);
  int (*uuid)(Device, char*, unsigned);
  int (*pci)(Device, PciInfo*);
  int (*mig_mode)(Device, unsigned*, unsigned*);
  int (*mig_parent)(Device, Device*);
  int (*virtualization)(Device, unsigned*);
  int (*energy)(Device, unsigned long long*);
  int (*power)(Device, unsigned*);
  int (*fields)(Device, int, FieldValue*);
  int (*driver)(char*, unsigned);
  int (*power_limit)(Device, unsigned*);
  int (*persistence)(Device, unsigned*);
  int (*utilization)(Device, Utilization*);
  int (*processes)(Device, unsigned*, void*);

  std::string Error(int code) const {
    const char* text = error_string != nullptr ? error_string(code) : nullptr;
    return text != nullptr ? fmt::format("{} ({})", text, code) : fmt::format("error {}", code);
  }
};

// NVML as long as somebody uses it.
class Session {
 public:
  explicit Session(const Api& functions) : api(functions) {}
  ~Session() {
    if (api.shutdown != nullptr) api.shutdown();
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  const Api api;
};

std::string UuidOf(const Api& api, Device device) {
  std::array<char, 96> text{};
  if (api.uuid == nullptr || api.uuid(device, text.data(), text.size() - 1) != kSuccess) return "";
  return text.data();
}

int ReadEnergy(const Api& api, Device device, uint64_t* millijoules) {
  if (api.energy == nullptr) return kFunctionNotFound;
  unsigned long long value = 0;
  const int result = api.energy(device, &value);
  *millijoules = value;
  return result;
}

int ReadPowerField(const Api& api, Device device, unsigned number, unsigned scope,
                   uint64_t* milliwatts) {
  if (api.fields == nullptr) return kFunctionNotFound;
  FieldValue field;
  std::memset(&field, 0, sizeof field);
  field.field = number;
  field.scope = scope;
  const int result = api.fields(device, 1, &field);
  if (result != kSuccess) return result;
  if (field.result != kSuccess) return field.result;
  *milliwatts = field.type == 0   ? static_cast<uint64_t>(field.value.d)
                : field.type == 1 ? field.value.u
                                  : field.value.ull;
  return kSuccess;
}

// Power now, which is what can be integrated; on most GPUs of today NVML's plain figure is the mean
// of a second.
int ReadInstant(const Api& api, Device device, unsigned scope, uint64_t* milliwatts) {
  return ReadPowerField(api, device, kPowerInstant, scope, milliwatts);
}

int ReadAverage(const Api& api, Device device, uint64_t* milliwatts) {
  if (api.power == nullptr) return kFunctionNotFound;
  unsigned value = 0;
  const int result = api.power(device, &value);
  *milliwatts = value;
  return result;
}

enum class Figure { kEnergy, kInstant, kAverage };

int ReadFigure(const Api& api, Device device, Figure figure, unsigned scope, uint64_t* value) {
  switch (figure) {
    case Figure::kEnergy:
      return ReadEnergy(api, device, value);
    case Figure::kInstant:
      return ReadInstant(api, device, scope, value);
    case Figure::kAverage:
      return ReadAverage(api, device, value);
  }
  return kFunctionNotFound;
}

class NvmlCounter : public Counter {
 public:
  NvmlCounter(std::shared_ptr<Session> session, Device device, Figure figure, unsigned scope)
      : session_(std::move(session)), device_(device), figure_(figure), scope_(scope) {}

  Result<uint64_t> Read() override {
    uint64_t value = 0;
    const int result = ReadFigure(session_->api, device_, figure_, scope_, &value);
    if (result == kSuccess) return value;
    return Unavailable(fmt::format("NVML: {}", session_->api.Error(result)));
  }

 private:
  const std::shared_ptr<Session> session_;
  const Device device_;
  const Figure figure_;
  const unsigned scope_;
};

// How many processes compute on it; none: NVML does not say.
std::optional<unsigned> ProcessesOn(const Api& api, Device device) {
  unsigned count = 0;  // room for none: only their number is asked for
  if (api.processes == nullptr) return std::nullopt;
  const int result = api.processes(device, &count, nullptr);
  if (result != kSuccess && result != kInsufficientSize) return std::nullopt;
  return count;
}

// What is kept of a GPU with every run: figures that tell how far its energy can be compared.
void AddFacts(const Api& api, Device device, unsigned scope, Domain* domain) {
  const auto add = [&](const char* name, std::string value) {
    domain->facts.emplace_back(name, std::move(value));
  };
  std::array<char, 96> text{};
  if (api.driver != nullptr && api.driver(text.data(), text.size() - 1) == kSuccess) {
    add("driver", text.data());
  }
  add("scope", scope == kScopeModule ? "module" : "gpu");
  unsigned value = 0;
  if (api.power_limit != nullptr && api.power_limit(device, &value) == kSuccess) {
    add("power_limit_watts", fmt::format("{}", value * 1e-3));
  }
  if (api.persistence != nullptr && api.persistence(device, &value) == kSuccess) {
    add("persistence", value != 0 ? "on" : "off");
  }
  unsigned pending = 0;
  if (api.mig_mode != nullptr && api.mig_mode(device, &value, &pending) == kSuccess) {
    add("mig", value == 1 ? "on" : "off");
  }
  uint64_t milliwatts = 0;
  if (ReadInstant(api, device, scope, &milliwatts) == kSuccess) {
    add("instant_watts", fmt::format("{}", static_cast<double>(milliwatts) * 1e-3));
  }
  if (ReadPowerField(api, device, kPowerAverage, scope, &milliwatts) == kSuccess) {
    add("average_watts", fmt::format("{}", static_cast<double>(milliwatts) * 1e-3));
  }
  if (const auto processes = ProcessesOn(api, device)) {
    add("processes_at_start", fmt::format("{}", *processes));
  }
}

Meter MeterOf(const std::shared_ptr<Session>& session, const Host& host, Device device,
              std::string uuid, std::string pci) {
  const Api& api = session->api;
  uint64_t value = 0;
  const bool module = ReadInstant(api, device, kScopeModule, &value) == kSuccess;
  const unsigned scope = module ? kScopeModule : kScopeGpu;
  const DomainKind kind = module ? DomainKind::kModule : DomainKind::kGpu;
  Meter meter;
  Domain& domain = meter.domain;
  domain = MakeDomain(kind, "nvml", -1, -1);
  domain.id = fmt::format("{}-{}", KindName(kind), uuid);
  domain.device = std::move(uuid);
  domain.pci = std::move(pci);
  domain.per_unit = 1e-3;
  domain.step_joules = 1e-3;
  domain.refresh_ns = 100 * kNsPerMs;
  unsigned mig = 0;
  unsigned pending = 0;
  if (api.mig_mode != nullptr && api.mig_mode(device, &mig, &pending) == kSuccess) {
    domain.shared = mig == 1;
  }
  if (host.before_the_job) domain.shared |= ProcessesOn(api, device).value_or(0) > 0;
  unsigned mode = 0;
  if (api.virtualization != nullptr && api.virtualization(device, &mode) == kSuccess) {
    domain.virtualised = mode == kVirtualGpu;
    domain.shared |= mode >= kVirtualGpu;
  }
  AddFacts(api, device, scope, &domain);
  static constexpr std::pair<Figure, const char*> kFigures[] = {
      {Figure::kEnergy, "total energy"},
      {Figure::kInstant, "instant power"},
      {Figure::kAverage, "power usage (on many GPUs the mean of a second)"}};
  std::string refusals;
  bool lost = false;
  for (const auto& [figure, name] : kFigures) {
    const int result = ReadFigure(api, device, figure, scope, &value);
    if (result == kSuccess) {
      domain.quantity = figure == Figure::kEnergy ? Quantity::kEnergy : Quantity::kPower;
      domain.detail = module ? fmt::format("{}, of the whole module", name) : name;
      // A mean of a second says little about shorter times.
      if (figure == Figure::kAverage) domain.refresh_ns = kNsPerSecond;
      meter.counter = std::make_unique<NvmlCounter>(session, device, figure, scope);
      return meter;
    }
    lost |= result != kNotSupported && result != kFunctionNotFound;
    refusals += fmt::format("{}{}: {}", refusals.empty() ? "" : "; ", name, api.Error(result));
  }
  domain.cause = fmt::format("NVML gives neither energy nor power of this GPU ({})", refusals);
  domain.fix = lost ? "look at the kernel log for what happened to the GPU (dmesg | grep NVRM)"
                    : "none: this GPU, or this share of one, has no such figure";
  return meter;
}

// The power of a GPU that has a counter; no counter where there is no such figure.
Meter PowerBeside(const std::shared_ptr<Session>& session, Device device, const Domain& gpu) {
  Meter meter;
  meter.domain = gpu;
  Domain& domain = meter.domain;
  domain.kind = DomainKind::kGpuPower;
  domain.id = fmt::format("{}-{}", KindName(domain.kind), gpu.device);
  domain.quantity = Quantity::kPower;
  const unsigned scope = gpu.kind == DomainKind::kModule ? kScopeModule : kScopeGpu;
  uint64_t value = 0;
  for (const Figure figure : {Figure::kInstant, Figure::kAverage}) {
    if (ReadFigure(session->api, device, figure, scope, &value) != kSuccess) continue;
    domain.detail = figure == Figure::kInstant ? "instant power" : "power usage";
    if (figure == Figure::kAverage) domain.refresh_ns = kNsPerSecond;
    meter.counter = std::make_unique<NvmlCounter>(session, device, figure, scope);
    break;
  }
  return meter;
}

// MIG devices that were asked for, as their parents: only these have energy.
std::vector<std::string> ParentsOfMig(const Api& api, const Host& host) {
  std::vector<std::string> parents;
  for (const std::string& gpu : host.gpus) {
    Device instance = nullptr;
    Device parent = nullptr;
    if (!gpu.starts_with("MIG-") || api.by_uuid == nullptr || api.mig_parent == nullptr) continue;
    if (api.by_uuid(gpu.c_str(), &instance) != kSuccess) continue;
    if (api.mig_parent(instance, &parent) == kSuccess) parents.push_back(UuidOf(api, parent));
  }
  return parents;
}

}  // namespace

Finding FindNvml(const Host& host) {
  Finding finding;
  const auto reject = [&](std::string cause, std::string fix) {
    finding.absent.push_back({"nvml", std::move(cause), std::move(fix)});
    return std::move(finding);
  };
  const auto library = Library::Open(host.nvml_library, "EMLIO_NVML_LIBRARY",
                                     {"libnvidia-ml.so.1", "libnvidia-ml.so"});
  if (!library.ok()) {
    return reject(fmt::format("NVML cannot be loaded: {}", library.status().message()),
                  "install the NVIDIA driver's library (in a container: the NVIDIA runtime), or "
                  "name it with EMLIO_NVML_LIBRARY");
  }
  const Api api(*library);
  if (api.init == nullptr || api.count == nullptr || api.by_index == nullptr ||
      api.uuid == nullptr) {
    return reject(
        fmt::format("{} is not NVML: it lacks functions that every version has", library->name()),
        "name the driver's library with EMLIO_NVML_LIBRARY");
  }
  if (const int result = api.init(); result != kSuccess) {
    return reject(fmt::format("NVML cannot be started: {}", api.Error(result)),
                  "load the NVIDIA driver, of the same version as its library (nvidia-smi)");
  }
  const auto session = std::make_shared<Session>(api);
  unsigned count = 0;
  if (const int result = api.count(&count); result != kSuccess) {
    return reject(fmt::format("NVML cannot count GPUs: {}", api.Error(result)), "");
  }
  Host wanted = host;
  for (std::string& parent : ParentsOfMig(api, host)) wanted.gpus.push_back(std::move(parent));
  for (unsigned index = 0; index < count; ++index) {
    Device device = nullptr;
    if (const int result = api.by_index(index, &device); result != kSuccess) {
      Meter lost;
      lost.domain = MakeDomain(DomainKind::kGpu, "nvml", -1, -1);
      lost.domain.id = fmt::format("gpu-{}", index);
      lost.domain.cause = fmt::format("NVML cannot open GPU {}: {}", index, api.Error(result));
      lost.domain.fix = "look at the kernel log for what happened to the GPU (dmesg | grep NVRM)";
      finding.meters.push_back(std::move(lost));
      continue;
    }
    std::string uuid = UuidOf(api, device);
    if (uuid.empty()) uuid = fmt::format("index-{}", index);
    PciInfo info{};
    std::string pci;
    if (api.pci != nullptr && api.pci(device, &info) == kSuccess) {
      info.id[sizeof info.id - 1] = '\0';
      pci = NormalPci(info.id);
    }
    if (!GpuWanted(wanted, uuid, pci)) continue;
    finding.meters.push_back(MeterOf(session, host, device, std::move(uuid), std::move(pci)));
    const Meter& gpu = finding.meters.back();
    if (!host.gpu_power_too || !gpu.counter || gpu.domain.quantity != Quantity::kEnergy) continue;
    Meter power = PowerBeside(session, device, gpu.domain);
    if (power.counter) finding.meters.push_back(std::move(power));
  }
  if (finding.meters.empty()) {
    finding.absent.push_back({"nvml",
                              fmt::format("NVML sees {} GPUs, none of which was asked for", count),
                              host.gpus.empty() ? "" : "check the UUIDs with nvidia-smi -L"});
  }
  return finding;
}

std::unique_ptr<GpuBusy> GpuBusy::Open(const Host& host) {
  const auto library = Library::Open(host.nvml_library, "EMLIO_NVML_LIBRARY",
                                     {"libnvidia-ml.so.1", "libnvidia-ml.so"});
  if (!library.ok()) return nullptr;
  const Api api(*library);
  if (api.init == nullptr || api.count == nullptr || api.by_index == nullptr ||
      api.utilization == nullptr || api.init() != kSuccess) {
    return nullptr;
  }
  const auto session = std::make_shared<Session>(api);
  unsigned count = 0;
  if (api.count(&count) != kSuccess) return nullptr;
  auto busy = std::unique_ptr<GpuBusy>(new GpuBusy);
  for (unsigned index = 0; index < count; ++index) {
    Device device = nullptr;
    Utilization now{};
    if (api.by_index(index, &device) != kSuccess || api.utilization(device, &now) != kSuccess) {
      continue;
    }
    busy->read_.push_back([session, device]() -> std::optional<double> {
      Utilization utilization{};
      if (session->api.utilization(device, &utilization) != kSuccess) return std::nullopt;
      return utilization.gpu * 0.01;
    });
  }
  if (busy->read_.empty()) return nullptr;
  return busy;
}

void GpuBusy::Take(int64_t time_ns) {
  const int64_t elapsed_ns = last_ns_ == 0 ? 0 : time_ns - last_ns_;
  last_ns_ = time_ns;
  for (const auto& read : read_) {
    if (const auto share = read()) seconds_ += *share * Seconds(elapsed_ns);
  }
}

}  // namespace emlio::energy
