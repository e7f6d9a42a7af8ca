// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
// Stands in for the NVIDIA driver's library in tests, for EMLIO and for whatever reads GPUs through
// nvidia-ml-py. nvmlInit_v2 reads the file that $EMLIO_STUB_NVML names, one GPU a line, in words
// "key=value":
//   uuid=GPU-... pci=00000000:3B:00.0   watts=100   refresh_ms=100   offset_j=123456
//   period_s=1.3 high_share=0.2 high=3 low=0.5     a square wave of factors of watts
//   driver=550.1 limit_w=700 persistence=1 busy=40 processes=2
//   energy=no  power=no  mig=1  module=1  virtualization=2  lost=1   counter_factor=1.5
// Time is CLOCK_MONOTONIC, or what StubNvmlSetTimeNs said last.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#define STUB_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr int kSuccess = 0;
constexpr int kInvalidArgument = 2;
constexpr int kNotSupported = 3;
constexpr int kNotFound = 6;
constexpr int kInsufficientSize = 7;
constexpr int kGpuIsLost = 15;

struct Gpu {
  std::map<std::string, std::string> words;
  std::string Text(const std::string& key) const {
    const auto at = words.find(key);
    return at == words.end() ? "" : at->second;
  }
  double Number(const std::string& key, double otherwise) const {
    const auto at = words.find(key);
    return at == words.end() ? otherwise : std::strtod(at->second.c_str(), nullptr);
  }
};

std::vector<Gpu> g_gpus;
int g_users = 0;
int64_t g_time_ns = -1;

double NowSeconds() {
  if (g_time_ns >= 0) return static_cast<double>(g_time_ns) * 1e-9;
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

const Gpu* Find(void* device) { return static_cast<const Gpu*>(device); }

double Watts(const Gpu& gpu, double at) {
  const double watts = gpu.Number("watts", 100);
  const double period = gpu.Number("period_s", 0);
  if (period <= 0) return watts;
  const bool high = std::fmod(at, period) < period * gpu.Number("high_share", 0.5);
  return watts * (high ? gpu.Number("high", 1) : gpu.Number("low", 1));
}

// The integral of Watts from 0.
double Joules(const Gpu& gpu, double at) {
  const double watts = gpu.Number("watts", 100);
  const double period = gpu.Number("period_s", 0);
  if (period <= 0) return watts * at;
  const double high_s = period * gpu.Number("high_share", 0.5);
  const double high = gpu.Number("high", 1);
  const double low = gpu.Number("low", 1);
  const double periods = std::floor(at / period);
  const double rest = at - periods * period;
  return watts * (periods * (high_s * high + (period - high_s) * low) +
                  std::min(rest, high_s) * high + std::max(0.0, rest - high_s) * low);
}

// The last moment at which the figures were refreshed.
double Refreshed(const Gpu& gpu) {
  const double refresh_s = gpu.Number("refresh_ms", 100) * 1e-3;
  return std::floor(NowSeconds() / refresh_s + 1e-9) * refresh_s;
}

}  // namespace

STUB_EXPORT void StubNvmlSetTimeNs(int64_t time_ns) { g_time_ns = time_ns; }

STUB_EXPORT int nvmlInit_v2() {
  if (g_users++ > 0) return kSuccess;  // as the driver's: what is open stays
  g_gpus.clear();
  const char* path = std::getenv("EMLIO_STUB_NVML");
  if (path == nullptr) {
    --g_users;
    return 9;  // the driver is not loaded
  }
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    Gpu gpu;
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      const size_t equals = word.find('=');
      if (equals != std::string::npos) gpu.words[word.substr(0, equals)] = word.substr(equals + 1);
    }
    g_gpus.push_back(gpu);
  }
  return kSuccess;
}

STUB_EXPORT int nvmlShutdown() {
  --g_users;
  return kSuccess;
}

STUB_EXPORT const char* nvmlErrorString(int code) {
  switch (code) {
    case kSuccess:
      return "Success";
    case kNotSupported:
      return "Not Supported";
    case 9:
      return "Driver Not Loaded";
    case kGpuIsLost:
      return "GPU is lost";
    default:
      return "Unknown Error";
  }
}

STUB_EXPORT int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(g_gpus.size());
  return kSuccess;
}

STUB_EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index >= g_gpus.size()) return kInvalidArgument;
  *device = &g_gpus[index];
  return g_gpus[index].Number("lost", 0) == 0 ? kSuccess : kGpuIsLost;
}

// An instance "MIG-n-..." is of GPU n.
STUB_EXPORT int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  for (size_t i = 0; i < g_gpus.size(); ++i) {
    const std::string instance = "MIG-" + std::to_string(i) + "-";
    if (g_gpus[i].Text("uuid") != uuid && std::strncmp(uuid, instance.c_str(), instance.size())) {
      continue;
    }
    *device = &g_gpus[i];
    return kSuccess;
  }
  return kNotFound;
}

STUB_EXPORT int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void* instance, void** device) {
  *device = instance;
  return kSuccess;
}

STUB_EXPORT int nvmlDeviceGetUUID(void* device, char* text, unsigned size) {
  std::snprintf(text, size, "%s", Find(device)->Text("uuid").c_str());
  return kSuccess;
}

STUB_EXPORT int nvmlDeviceGetPciInfo_v3(void* device, void* info) {
  const std::string pci = Find(device)->Text("pci");
  if (pci.empty()) return kNotSupported;
  // char[16], five unsigned, char[32]
  std::snprintf(static_cast<char*>(info) + 36, 32, "%s", pci.c_str());
  return kSuccess;
}

STUB_EXPORT int nvmlDeviceGetMigMode(void* device, unsigned* current, unsigned* pending) {
  const std::string mode = Find(device)->Text("mig");
  if (mode.empty()) return kNotSupported;
  *current = *pending = mode == "1";
  return kSuccess;
}

STUB_EXPORT int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  const std::string driver = g_gpus.empty() ? "" : g_gpus[0].Text("driver");
  if (driver.empty()) return kNotSupported;
  std::snprintf(text, size, "%s", driver.c_str());
  return kSuccess;
}

STUB_EXPORT int nvmlDeviceGetEnforcedPowerLimit(void* device, unsigned* milliwatts) {
  if (Find(device)->Text("limit_w").empty()) return kNotSupported;
  *milliwatts = static_cast<unsigned>(Find(device)->Number("limit_w", 0) * 1000);
  return kSuccess;
}

STUB_EXPORT int nvmlDeviceGetPersistenceMode(void* device, unsigned* mode) {
  if (Find(device)->Text("persistence").empty()) return kNotSupported;
  *mode = Find(device)->Number("persistence", 0) != 0;
  return kSuccess;
}

STUB_EXPORT int nvmlDeviceGetUtilizationRates(void* device, unsigned* rates) {
  if (Find(device)->Text("busy").empty()) return kNotSupported;
  rates[0] = static_cast<unsigned>(Find(device)->Number("busy", 0));
  rates[1] = 0;
  return kSuccess;
}

// Says how many, and of none of them who.
STUB_EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, void*) {
  *count = static_cast<unsigned>(Find(device)->Number("processes", 0));
  return *count == 0 ? kSuccess : kInsufficientSize;
}

STUB_EXPORT int nvmlDeviceGetVirtualizationMode(void* device, unsigned* mode) {
  *mode = static_cast<unsigned>(Find(device)->Number("virtualization", 0));
  return kSuccess;
}

#ifdef STUB_NVML_WITHOUT_ENERGY
// A driver that is older than the function.
#define nvmlDeviceGetTotalEnergyConsumption StubNvmlFunctionOfLaterVersions
#endif
STUB_EXPORT int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules) {
  const Gpu& gpu = *Find(device);
  if (gpu.Text("energy") == "no") return kNotSupported;
  *millijoules = static_cast<unsigned long long>(
      (gpu.Number("offset_j", 0) + Joules(gpu, Refreshed(gpu)) * gpu.Number("counter_factor", 1)) *
      1000);
  return kSuccess;
}

STUB_EXPORT int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  const Gpu& gpu = *Find(device);
  if (gpu.Text("power") == "no") return kNotSupported;
  *milliwatts = static_cast<unsigned>(Watts(gpu, Refreshed(gpu)) * 1000);
  return kSuccess;
}

struct StubFieldValue {
  unsigned field, scope;
  long long time_us, latency_us;
  int type, result;
  unsigned long long value;
};

STUB_EXPORT int nvmlDeviceGetFieldValues(void* device, int count, StubFieldValue* fields) {
  const Gpu& gpu = *Find(device);
  for (int i = 0; i < count; ++i) {
    StubFieldValue& field = fields[i];
    const bool module = gpu.Number("module", 0) != 0;
    if (field.field == 83 && field.scope == 0) {  // energy, in mJ
      field.type = 3;
      field.result = nvmlDeviceGetTotalEnergyConsumption(device, &field.value);
      continue;
    }
    const bool known =
        (field.field == 185 || field.field == 186) && field.scope <= (module ? 1U : 0U);
    field.result = known && gpu.Text("power") != "no" ? kSuccess : kNotSupported;
    field.type = 1;
    field.value = static_cast<unsigned>(Watts(gpu, Refreshed(gpu)) * 1000);
  }
  return kSuccess;
}

// What EMLIO does not ask for, and programs that read the same library through nvidia-ml-py do.

STUB_EXPORT int nvmlInitWithFlags(unsigned) { return nvmlInit_v2(); }

STUB_EXPORT int nvmlSystemGetNVMLVersion(char* text, unsigned size) {
  std::snprintf(text, size, "13.580.00.00");
  return kSuccess;
}

STUB_EXPORT int nvmlSystemGetCudaDriverVersion(int* version) {
  *version = 13000;
  return kSuccess;
}

STUB_EXPORT int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  return nvmlSystemGetCudaDriverVersion(version);
}

STUB_EXPORT int nvmlDeviceGetName(void*, char* text, unsigned size) {
  std::snprintf(text, size, "EMLIO stand-in");
  return kSuccess;
}

STUB_EXPORT int nvmlDeviceGetIndex(void* device, unsigned* index) {
  *index = static_cast<unsigned>(Find(device) - g_gpus.data());
  return kSuccess;
}

STUB_EXPORT int nvmlDeviceGetMinorNumber(void* device, unsigned* number) {
  return nvmlDeviceGetIndex(device, number);
}

STUB_EXPORT int nvmlDeviceGetArchitecture(void*, unsigned* architecture) {
  *architecture = 9;  // Hopper
  return kSuccess;
}

STUB_EXPORT int nvmlDeviceGetTemperature(void*, int, unsigned* degrees) {
  *degrees = 40;
  return kSuccess;
}

STUB_EXPORT int nvmlDeviceGetMemoryInfo(void*, unsigned long long* total_free_used) {
  total_free_used[0] = 80ULL << 30;
  total_free_used[1] = 79ULL << 30;
  total_free_used[2] = 1ULL << 30;
  return kSuccess;
}

STUB_EXPORT int nvmlDeviceGetPowerManagementLimit(void*, unsigned* milliwatts) {
  *milliwatts = 1'200'000;
  return kSuccess;
}

STUB_EXPORT int nvmlDeviceGetPowerManagementDefaultLimit(void* device, unsigned* milliwatts) {
  return nvmlDeviceGetPowerManagementLimit(device, milliwatts);
}

STUB_EXPORT int nvmlDeviceGetPowerManagementLimitConstraints(void*, unsigned* least,
                                                             unsigned* most) {
  *least = 100'000;
  *most = 1'200'000;
  return kSuccess;
}

STUB_EXPORT int nvmlDeviceGetComputeMode(void*, int* mode) {
  *mode = 0;
  return kSuccess;
}

STUB_EXPORT int nvmlDeviceGetClockInfo(void*, int, unsigned* mhz) {
  *mhz = 1500;
  return kSuccess;
}

STUB_EXPORT int nvmlDeviceGetMaxClockInfo(void* device, int type, unsigned* mhz) {
  return nvmlDeviceGetClockInfo(device, type, mhz);
}

STUB_EXPORT int nvmlDeviceGetGraphicsRunningProcesses_v3(void*, unsigned* count, void*) {
  *count = 0;
  return kSuccess;
}
