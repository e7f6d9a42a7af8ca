// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "emlio/energy/sources.h"

namespace emlio::energy {
namespace {

int SystemPerfOpen(uint32_t type, uint64_t config, int cpu) {
  perf_event_attr attributes;
  std::memset(&attributes, 0, sizeof attributes);
  attributes.size = sizeof attributes;
  attributes.type = type;
  attributes.config = config;
  const long fd =
      syscall(SYS_perf_event_open, &attributes, -1, cpu, -1, (unsigned long)PERF_FLAG_FD_CLOEXEC);
  return fd < 0 ? -errno : static_cast<int>(fd);
}

class EventCounter : public Counter {
 public:
  explicit EventCounter(int fd) : fd_(fd) {}
  ~EventCounter() override { close(fd_); }

  Result<uint64_t> Read() override {
    uint64_t value = 0;
    const ssize_t size = read(fd_, &value, sizeof value);
    if (size == sizeof value) return value;
    if (size < 0) return ErrnoStatus(errno, "cannot read an event of the power PMU");
    return Unavailable("an event of the power PMU gives nothing: was its CPU taken offline?");
  }

 private:
  const int fd_;
};

struct Event {
  std::string_view name;
  DomainKind kind;
};
constexpr Event kEvents[] = {{"energy-pkg", DomainKind::kPackage},
                             {"energy-ram", DomainKind::kDram},
                             {"energy-cores", DomainKind::kCore},
                             {"energy-gpu", DomainKind::kUncore},
                             {"energy-psys", DomainKind::kPsys}};

// Where a CPU that counts for others sits.
struct Scope {
  int cpu = 0;
  int socket = 0;
  int die = -1;
};

std::vector<Scope> Scopes(const std::string& root, const std::vector<int>& cpus) {
  std::vector<Scope> scopes;
  std::map<int, int> dies_of;
  for (int cpu : cpus) {
    const std::string topology = fmt::format("{}sys/devices/system/cpu/cpu{}/topology/", root, cpu);
    const auto socket = ParseNumber(ReadLine(topology + "physical_package_id"));
    const auto die = ParseNumber(ReadLine(topology + "die_id"));
    Scope scope;
    scope.cpu = cpu;
    // Without topology each CPU of the mask is taken for a socket of its own.
    scope.socket = static_cast<int>(socket.value_or(scopes.size()) & 0xFFFF);
    scope.die = static_cast<int>(die.value_or(0) & 0xFFFF);
    ++dies_of[scope.socket];
    scopes.push_back(scope);
  }
  for (Scope& scope : scopes) {
    if (dies_of[scope.socket] == 1) scope.die = -1;
  }
  return scopes;
}

void ExplainRefusal(int error_number, const std::string& root, Domain* domain) {
  const std::string paranoid = ReadLine(root + "proc/sys/kernel/perf_event_paranoid");
  domain->cause =
      ErrnoStatus(error_number, fmt::format("perf_event_open of {} failed", domain->detail))
          .message();
  switch (error_number) {
    case EACCES:
      domain->fix = fmt::format(
          "give the program CAP_PERFMON (setcap cap_perfmon=ep PROGRAM), or set "
          "kernel.perf_event_paranoid to 0 (sysctl kernel.perf_event_paranoid=0); it is {}",
          paranoid.empty() ? "unknown" : paranoid);
      break;
    case EPERM:
      domain->fix =
          "a seccomp profile forbids it, as that of most containers does: allow perf_event_open "
          "and add the capability PERFMON (--cap-add PERFMON)";
      break;
    case ENOENT:
      domain->fix = "none: the kernel lists an event that this CPU does not have";
      break;
    default:
      domain->fix = "check what else uses the power PMU (dmesg, perf list)";
      break;
  }
}

}  // namespace

Finding FindPerf(const Host& host, const CpuFacts& facts) {
  const std::string source = "perf";
  const std::string pmu = host.root + "sys/bus/event_source/devices/power/";
  Finding finding;
  const auto reject = [&](std::string cause, std::string fix) {
    finding.absent.push_back({source, std::move(cause), std::move(fix)});
  };
  const auto type = ReadText(pmu + "type");
  if (!type.ok()) {
    if (facts.hypervisor) {
      reject("this is a virtual machine, and the kernel has no power PMU",
             "measure on the physical host: hypervisors seldom pass energy counters on");
    } else {
      reject(fmt::format("the kernel has no power PMU ({})", type.status().message()),
             "load the kernel module rapl (modprobe rapl), if the CPU has RAPL");
    }
    return finding;
  }
  const auto type_number = ParseNumber(*type);
  const auto cpus = ParseCpuList(ReadLine(pmu + "cpumask"));
  const std::string format = ReadLine(pmu + "format/event");
  if (!type_number || *type_number > UINT32_MAX || !cpus) {
    reject(fmt::format("{}type and cpumask do not describe a PMU", pmu), "");
    return finding;
  }
  const std::vector<Scope> scopes = Scopes(host.root, *cpus);
  for (const Event& event : kEvents) {
    const std::string path = fmt::format("{}events/{}", pmu, event.name);
    const auto text = ReadText(path);
    if (!text.ok()) continue;
    if (facts.amd && event.kind != DomainKind::kPackage) {
      reject(fmt::format("AMD CPUs have no {}, though the kernel lists it", event.name), "");
      continue;
    }
    const auto config = ParseEvent(*text, format);
    const auto scale = ParseScale(ReadLine(path + ".scale"));
    const std::string unit = ReadLine(path + ".unit");
    if (unit != "Joules") {
      reject(fmt::format("{} counts in '{}', not in Joules", path, unit), "");
      continue;
    }
    if (!config || !scale) {
      reject(fmt::format("{} and its .scale are not of a form that EMLIO knows", path), "");
      continue;
    }
    int psys = 0;
    for (const Scope& scope : scopes) {
      Meter meter;
      const bool whole_host = event.kind == DomainKind::kPsys;
      meter.domain = MakeDomain(event.kind, source, whole_host ? psys++ : scope.socket,
                                whole_host ? -1 : scope.die);
      meter.domain.detail = fmt::format("power/{}/ on CPU {}", event.name, scope.cpu);
      meter.domain.per_unit = *scale;
      const auto type_id = static_cast<uint32_t>(*type_number);
      const int fd = host.perf_open ? host.perf_open(type_id, *config, scope.cpu)
                                    : SystemPerfOpen(type_id, *config, scope.cpu);
      if (fd >= 0) {
        meter.counter = std::make_unique<EventCounter>(fd);
      } else {
        ExplainRefusal(-fd, host.root, &meter.domain);
      }
      finding.meters.push_back(std::move(meter));
    }
  }
  if (finding.meters.empty() && finding.absent.empty()) {
    reject(fmt::format("{}events lists no energy", pmu), "");
  }
  return finding;
}

}  // namespace emlio::energy
