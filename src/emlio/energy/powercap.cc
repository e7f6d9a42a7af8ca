// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "emlio/energy/sources.h"

namespace emlio::energy {
namespace {

Absence NothingThere(const std::string& source, const CpuFacts& facts, std::string_view cause) {
  if (facts.hypervisor) {
    return {source, fmt::format("this is a virtual machine, and {}", cause),
            "measure on the physical host: hypervisors seldom pass energy counters on"};
  }
  return {source, std::string(cause),
          "load the kernel module intel_rapl_msr (modprobe intel_rapl_msr), if the CPU has RAPL"};
}

// A zone's name is of that control type: "intel-rapl:0:1" is of "intel-rapl".
bool IsZoneOf(std::string_view zone, std::string_view control_type) {
  return zone.size() > control_type.size() + 1 && zone.starts_with(control_type) &&
         zone[control_type.size()] == ':';
}

// Of a host whose files somebody else answers for.
class ZoneCounter : public Counter {
 public:
  ZoneCounter(const Host& host, std::string path) : read_(host.read_zone), path_(std::move(path)) {}
  Result<uint64_t> Read() override { return read_(path_); }

 private:
  const std::function<Result<uint64_t>(const std::string&)> read_;
  const std::string path_;
};

Meter MeterOfZone(const Host& host, const std::string& folder, Domain domain) {
  Meter meter;
  const std::string path = folder + "/energy_uj";
  domain.detail = path;
  const auto range = ReadText(folder + "/max_energy_range_uj");
  const auto range_uj = range.ok() ? ParseNumber(*range) : std::nullopt;
  if (!range_uj || *range_uj == 0) {
    domain.cause =
        fmt::format("{}/max_energy_range_uj holds no range, so no wrap can be told", folder);
    domain.fix = "report the kernel version: every RAPL zone should have one";
  } else {
    domain.range_units = *range_uj;
    if (host.read_zone) {
      meter.counter = std::make_unique<ZoneCounter>(host, path);
    } else {
      meter.counter = SysfsCounter(path);
    }
    const auto first = meter.counter->Read();
    if (first.status().code() == Code::kPermissionDenied) {
      domain.cause = first.status().message();
      domain.fix =
          "let a group read it with a udev rule (SUBSYSTEM==\"powercap\", ACTION==\"add\", "
          "RUN+=\"/bin/sh -c 'chgrp -R power /sys%p && chmod -R g+r /sys%p'\"), or give the "
          "program "
          "CAP_PERFMON so that perf can be used";
    } else if (!first.ok()) {
      domain.cause = first.status().message();
      domain.fix = "the file should hold one number: check what is mounted over it";
    }
    if (!first.ok()) meter.counter = nullptr;
  }
  meter.domain = std::move(domain);
  return meter;
}

Finding FindZones(const Host& host, const CpuFacts& facts, const std::string& source,
                  const std::string& control_type) {
  Finding finding;
  const std::string root = host.root + "sys/class/powercap/";
  std::map<std::string, ZoneName, std::less<>> zones;  // for those inside them
  int psys = 0;
  bool masked = false;
  // Shorter names first: a zone comes before what lies in it.
  for (const std::string& entry : SortedNames(root)) {
    if (!IsZoneOf(entry, control_type)) continue;
    const auto text = ReadText(root + entry + "/name");
    if (!text.ok()) {
      masked = true;
      continue;
    }
    auto zone = ParseZoneName(*text);
    if (!zone) {
      finding.absent.push_back(
          {source, fmt::format("{}{} has a name that EMLIO does not know", root, entry), ""});
      continue;
    }
    if (zone->kind == DomainKind::kPsys) {
      zone->socket = psys++;
    } else if (zone->kind != DomainKind::kPackage) {
      const auto around = zones.find(entry.substr(0, entry.rfind(':')));
      if (around == zones.end()) {
        finding.absent.push_back(
            {source, fmt::format("{}{} lies in no package, so its socket is unknown", root, entry),
             ""});
        continue;
      }
      zone->socket = around->second.socket;
      zone->die = around->second.die;
    }
    zones.emplace(entry, *zone);
    if (facts.amd && (zone->kind == DomainKind::kDram || zone->kind == DomainKind::kPsys)) {
      finding.absent.push_back(
          {source,
           fmt::format("AMD CPUs have no {} counter, though one is listed", KindName(zone->kind)),
           ""});
      continue;
    }
    finding.meters.push_back(
        MeterOfZone(host, root + entry, MakeDomain(zone->kind, source, zone->socket, zone->die)));
  }
  if (finding.meters.empty() && finding.absent.empty()) {
    if (masked) {
      finding.absent.push_back(
          {source,
           fmt::format("{}{}* is listed, but its files are hidden: a container masks them", root,
                       control_type),
           "mount the host's /sys/devices/virtual/powercap into the container, read-only"});
    } else {
      finding.absent.push_back(NothingThere(
          source, facts, fmt::format("the kernel shows no {} zone under {}", control_type, root)));
    }
  }
  return finding;
}

}  // namespace

Finding FindPowercap(const Host& host, const CpuFacts& facts) {
  return FindZones(host, facts, "powercap", "intel-rapl");
}

Finding FindPowercapMmio(const Host& host, const CpuFacts& facts) {
  return FindZones(host, facts, "powercap-mmio", "intel-rapl-mmio");
}

}  // namespace emlio::energy
