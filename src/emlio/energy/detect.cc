// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy/detect.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "emlio/base/log.h"
#include "emlio/energy/sources.h"

namespace emlio::energy {
namespace {

constexpr double kMostDramWatts = 1000;  // its wraps are told by that (Domain::max_watts)

// None: those of MakeDomain.
std::optional<WattLimits> DramLimits(const Host& host) {
  std::string text = host.dram_watts;
  if (const char* given = std::getenv("EMLIO_DRAM_WATTS"); text.empty() && given != nullptr) {
    text = given;
  }
  if (text.empty()) return std::nullopt;
  auto limits = ParseWattLimits(text);
  if (limits.ok()) return *limits;
  LogWarning("energy: the limits of DRAM are the built-in ones: {}", limits.status().message());
  return std::nullopt;
}

std::string NodeName() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "unknown";
  return name.data();
}

bool Has(const std::vector<Meter>& meters, DomainKind kind) {
  return std::any_of(meters.begin(), meters.end(),
                     [&](const Meter& meter) { return meter.domain.kind == kind; });
}

// The sockets that have domains of this kind, as far as it has sockets.
std::set<int> SocketsOf(const std::vector<Meter>& meters, DomainKind kind) {
  std::set<int> sockets;
  if (kind != DomainKind::kPackage && kind != DomainKind::kDram) return sockets;
  for (const Meter& meter : meters) {
    if (meter.domain.kind == kind) sockets.insert(meter.domain.socket);
  }
  return sockets;
}

// How well a source supplies a kind: 2 all domains, of as many sockets as any source knows of;
// 1 some, 0 none.
int Supply(const std::vector<Meter>& meters, DomainKind kind, size_t sockets) {
  size_t all = 0;
  size_t readable = 0;
  for (const Meter& meter : meters) {
    if (meter.domain.kind != kind) continue;
    ++all;
    readable += meter.counter != nullptr;
  }
  if (readable == 0) return 0;
  return readable == all && SocketsOf(meters, kind).size() == sockets ? 2 : 1;
}

// A domain that should be there.
Meter MissingMeter(DomainKind kind, int socket, std::string cause, std::string fix) {
  Meter meter;
  meter.domain = MakeDomain(kind, "", socket, -1);
  meter.domain.cause = std::move(cause);
  meter.domain.fix = std::move(fix);
  return meter;
}

// Moves the meters of one kind out of the source that supplies it best, the first of equals, and
// says of the others why they were not taken. Where nobody can read any, the first that knows of
// the domains names them.
void ChooseKind(DomainKind kind, std::vector<Finding>* findings, Detection* detection) {
  const auto source_of = [&](const Finding& finding) {
    for (const Meter& meter : finding.meters) {
      if (meter.domain.kind == kind) return meter.domain.source;
    }
    return std::string();
  };
  std::set<int> sockets;
  for (const Finding& finding : *findings) sockets.merge(SocketsOf(finding.meters, kind));
  Finding* best = nullptr;
  for (Finding& finding : *findings) {
    if (!Has(finding.meters, kind)) continue;
    if (best == nullptr ||
        Supply(finding.meters, kind, sockets.size()) > Supply(best->meters, kind, sockets.size())) {
      best = &finding;
    }
  }
  if (best == nullptr) return;
  // A socket that the best one does not know of is missing, and not absent.
  for (const int known : SocketsOf(best->meters, kind)) sockets.erase(known);
  for (const int socket : sockets) {
    detection->meters.push_back(MissingMeter(
        kind, socket,
        fmt::format("{}, which supplies this kind here, does not list it", source_of(*best)),
        "make the source that lists it readable (emlio energy doctor tells how)"));
  }
  const std::string chosen = source_of(*best);
  for (Finding& finding : *findings) {
    if (&finding == best || !Has(finding.meters, kind)) continue;
    const auto unreadable = std::find_if(
        finding.meters.begin(), finding.meters.end(),
        [&](const Meter& meter) { return meter.domain.kind == kind && meter.counter == nullptr; });
    if (unreadable == finding.meters.end()) {
      detection->absent.push_back(
          {source_of(finding),
           fmt::format("its {} domains are the same joules as those of {}", KindName(kind), chosen),
           ""});
    } else {
      detection->absent.push_back(
          {source_of(finding), unreadable->domain.cause, unreadable->domain.fix});
    }
  }
  std::set<std::string> ids;
  for (Meter& meter : best->meters) {
    if (meter.domain.kind != kind) continue;
    if (!ids.insert(meter.domain.id).second) {
      detection->absent.push_back(
          {chosen, fmt::format("{} is there twice; the second is not counted", meter.domain.id),
           ""});
      continue;
    }
    detection->meters.push_back(std::move(meter));
  }
  std::erase_if(best->meters, [&](const Meter& meter) { return meter.domain.kind == kind; });
}

// The same of no socket, with what the sources said.
Meter NullMeter(DomainKind kind, std::string id, const std::vector<Absence>& absent,
                const std::set<std::string>& sources, std::string cause) {
  Meter meter = MissingMeter(kind, -1, std::move(cause), "");
  meter.domain.id = std::move(id);
  for (const Absence& absence : absent) {
    if (!sources.contains(absence.source)) continue;
    meter.domain.cause += fmt::format("{}{}: {}", meter.domain.cause.empty() ? "" : "; ",
                                      absence.source, absence.cause);
    if (!absence.fix.empty() && meter.domain.fix.find(absence.fix) == std::string::npos) {
      meter.domain.fix += (meter.domain.fix.empty() ? "" : "; or ") + absence.fix;
    }
  }
  if (meter.domain.fix.empty()) meter.domain.fix = "none on this hardware";
  return meter;
}

// A socket whose zone has no name, or one that is there already, is missing, and not absent; so is
// memory of a socket where others show theirs.
void AddMissingSockets(Detection* detection) {
  size_t sockets = detection->cpu.sockets;
  for (const DomainKind kind : {DomainKind::kPackage, DomainKind::kDram}) {
    std::set<int> shown = SocketsOf(detection->meters, kind);
    if (shown.empty()) continue;
    sockets = std::max(sockets, shown.size());
    for (int socket = 0; shown.size() < sockets; ++socket) {
      if (!shown.insert(socket).second) continue;
      detection->meters.push_back(MissingMeter(
          kind, socket,
          fmt::format("this host has {} sockets, and no source shows the {} of this one", sockets,
                      KindName(kind)),
          "emlio energy doctor says which zones were not taken, and why"));
    }
  }
}

struct PciGpu {
  std::string address;
  bool nvidia = false;
};

// Display controllers of NVIDIA and AMD on the PCI bus. AMD's may be part of the CPU, whose package
// has its energy: only those that compute count (class 0x0380 and 0x1200), NVIDIA's all do.
std::vector<PciGpu> GpusOnPci(const std::string& root) {
  std::vector<PciGpu> gpus;
  const std::string bus = root + "sys/bus/pci/devices/";
  for (const std::string& address : SortedNames(bus)) {
    const std::string vendor = ReadLine(bus + address + "/vendor");
    const std::string type = ReadLine(bus + address + "/class");
    const bool nvidia = vendor == "0x10de" && type.starts_with("0x03");
    const bool amd =
        vendor == "0x1002" && (type.starts_with("0x0380") || type.starts_with("0x1200"));
    if (nvidia || amd) gpus.push_back({NormalPci(address), nvidia});
  }
  return gpus;
}

void AddMissingGpus(const Host& host, Detection* detection) {
  for (const PciGpu& gpu : GpusOnPci(host.root)) {
    if (!GpuWanted(host, "", gpu.address)) continue;
    const bool known =
        std::any_of(detection->meters.begin(), detection->meters.end(),
                    [&](const Meter& meter) { return meter.domain.pci == gpu.address; });
    if (known) continue;
    Meter meter = NullMeter(DomainKind::kGpu, "gpu-" + gpu.address, detection->absent,
                            {gpu.nvidia ? "nvml" : "rocm"}, "");
    if (meter.domain.cause.empty()) {
      meter.domain.cause = "it is on the PCI bus, but its driver's library does not show it";
      meter.domain.fix = "in a container: pass all GPUs that the job uses to it";
    }
    meter.domain.pci = gpu.address;
    detection->meters.push_back(std::move(meter));
  }
}

// Who asks for a GPU that is not there is not told the joules of the others alone.
void AddUnknownGpus(const Host& host, Detection* detection) {
  for (const std::string& id : host.gpus) {
    Host one;
    one.gpus = {id};
    const bool known =
        std::any_of(detection->meters.begin(), detection->meters.end(), [&](const Meter& meter) {
          const Domain& domain = meter.domain;
          // An instance is measured by its parent.
          return GpuWanted(one, domain.device, domain.pci) ||
                 (id.starts_with("MIG-") && domain.kind == DomainKind::kGpu);
        });
    if (known) continue;
    detection->meters.push_back(
        MissingMeter(DomainKind::kGpu, -1, "no GPU of this host has this id",
                     "name it by its UUID (nvidia-smi -L) or its PCI address with the domain, such "
                     "as 0000:3b:00.0 (lspci -D)"));
    detection->meters.back().domain.id = "gpu-" + id;
  }
}

}  // namespace

std::string NormalPci(std::string_view pci) {
  std::string address(pci);
  for (char& c : address) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const size_t colon = address.find(':');
  // NVML writes the PCI domain with eight digits.
  if (colon == 8 && address.starts_with("0000")) address.erase(0, 4);
  return address;
}

bool GpuWanted(const Host& host, std::string_view uuid, std::string_view pci) {
  if (host.gpus.empty()) return true;
  return std::any_of(host.gpus.begin(), host.gpus.end(), [&](const std::string& wanted) {
    return (!uuid.empty() && wanted == uuid) || (!pci.empty() && NormalPci(wanted) == pci);
  });
}

Result<WattLimits> ParseWattLimits(std::string_view text) {
  const size_t colon = text.find(':');
  WattLimits limits;
  const auto read = [](std::string_view number, double* value) {
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), *value);
    return error == std::errc() && end == number.data() + number.size();
  };
  if (colon == std::string_view::npos || !read(text.substr(0, colon), &limits.least) ||
      !read(text.substr(colon + 1), &limits.most) || !(limits.least >= 0) ||
      !(limits.most > limits.least) || limits.most > kMostDramWatts) {
    return InvalidArgument(
        fmt::format("'{}' is not LEAST:MOST in watts, from 0 to {:g} and the first one smaller, "
                    "such as 0.5:120",
                    text, kMostDramWatts));
  }
  return limits;
}

void ResolveTotal(std::vector<Meter>* meters) {
  const bool module = std::any_of(meters->begin(), meters->end(), [](const Meter& meter) {
    return meter.domain.kind == DomainKind::kModule && meter.domain.source == "nvml";
  });
  const bool package = Has(*meters, DomainKind::kPackage);
  for (Meter& meter : *meters) {
    Domain& domain = meter.domain;
    // A source knows of an overlap that cannot be seen from the kinds.
    if (!domain.outside_total.empty()) continue;
    switch (domain.kind) {
      case DomainKind::kGpu:
        break;
      case DomainKind::kPackage:
      case DomainKind::kDram:
        if (module) domain.outside_total = "in the energy of the module, which has CPU and GPU";
        break;
      case DomainKind::kGrace:
        if (module) domain.outside_total = "in the energy of the module, which has CPU and GPU";
        if (package) domain.outside_total = "the same CPU as the package";
        break;
      case DomainKind::kModule:
        if (domain.source != "nvml")
          domain.outside_total = "contains CPU and GPU, which are counted";
        break;
      case DomainKind::kCore:
      case DomainKind::kUncore:
        domain.outside_total = "inside the package";
        break;
      case DomainKind::kCpu:
      case DomainKind::kSysIo:
        domain.outside_total = "inside the Grace socket";
        break;
      case DomainKind::kPsys:
        domain.outside_total = "contains the packages";
        break;
      case DomainKind::kMeter:
        domain.outside_total = "contains what is counted one by one";
        break;
      case DomainKind::kGpuPower:
        domain.outside_total = "the same GPU as its counter, for comparison";
        break;
    }
    domain.in_total = domain.outside_total.empty();
  }
}

Detection Detect(const Host& host) {
  Detection detection;
  detection.node = NodeName();
  detection.cpu = ReadCpuFacts(host.root);

  std::vector<Finding> cpu_sources;
  for (const auto find : {FindPerf, FindPowercap, FindPowercapMmio, FindHwmon}) {
    cpu_sources.push_back(find(host, detection.cpu));
    detection.absent.insert(detection.absent.end(), cpu_sources.back().absent.begin(),
                            cpu_sources.back().absent.end());
  }
  for (int kind = 0; kind < kDomainKinds; ++kind) {
    ChooseKind(static_cast<DomainKind>(kind), &cpu_sources, &detection);
  }
  AddMissingSockets(&detection);
  const auto dram_limits = DramLimits(host);
  for (Meter& meter : detection.meters) {
    Domain& domain = meter.domain;
    if (domain.kind == DomainKind::kDram && dram_limits) {
      domain.plausible_from_watts = dram_limits->least;
      domain.plausible_watts = dram_limits->most;
    }
    // Of hwmon only amd_energy reads RAPL.
    if (domain.source == "hwmon" && domain.kind != DomainKind::kPackage) continue;
    domain.virtualised = detection.cpu.hypervisor;
    domain.filtered = detection.cpu.filtering == CpuFacts::Filtering::kOn;
    domain.facts.emplace_back("energy_filtering", FilteringName(detection.cpu.filtering));
  }
  const std::set<std::string> cpu_names = {"perf", "powercap", "powercap-mmio", "hwmon"};
  const bool grace = Has(detection.meters, DomainKind::kGrace);
  const bool package = Has(detection.meters, DomainKind::kPackage);
  for (DomainKind kind : {DomainKind::kPackage, DomainKind::kDram}) {
    if (grace || Has(detection.meters, kind)) continue;
    detection.meters.push_back(NullMeter(
        kind, std::string(KindName(kind)), detection.absent, cpu_names,
        kind == DomainKind::kDram && package ? "this CPU shows no energy of its memory" : ""));
  }

  for (const auto find : {FindNvml, FindRocm}) {
    Finding finding = find(host);
    detection.absent.insert(detection.absent.end(), finding.absent.begin(), finding.absent.end());
    for (Meter& meter : finding.meters) detection.meters.push_back(std::move(meter));
  }
  AddMissingGpus(host, &detection);
  AddUnknownGpus(host, &detection);

  const auto order = [](const Meter& meter) {
    const Domain& domain = meter.domain;
    return std::tie(domain.kind, domain.socket, domain.die, domain.pci, domain.id);
  };
  std::sort(detection.meters.begin(), detection.meters.end(),
            [&](const Meter& a, const Meter& b) { return order(a) < order(b); });
  ResolveTotal(&detection.meters);
  return detection;
}

}  // namespace emlio::energy
