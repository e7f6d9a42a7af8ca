// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "emlio/base/clock.h"
#include "emlio/energy/sources.h"

namespace emlio::energy {
namespace {

// A meter of power or energy in millionths. Drivers keep their files in the class's folder or in
// the device's: the first of `names` that is there in either.
void AddMeter(const std::string& folder, std::initializer_list<std::string_view> names,
              Domain domain, Finding* finding) {
  Meter meter;
  domain.refresh_ns = std::max(domain.refresh_ns, 50 * kNsPerMs);
  domain.step_joules = 0;
  std::string first_error;
  for (std::string_view name : names) {
    for (std::string_view place : {"/", "/device/"}) {
      domain.detail = fmt::format("{}{}{}", folder, place, name);
      auto counter = SysfsCounter(domain.detail);
      const auto first = counter->Read();
      if (first.ok()) {
        meter.counter = std::move(counter);
        meter.domain = std::move(domain);
        finding->meters.push_back(std::move(meter));
        return;
      }
      if (first_error.empty() || first.status().code() != Code::kNotFound) {
        first_error = first.status().message();
      }
    }
  }
  domain.cause = first_error;
  domain.fix =
      "let a group read it with a udev rule for SUBSYSTEM==\"hwmon\"; the ACPI power meter needs "
      "the kernel option CONFIG_SENSORS_ACPI_POWER";
  meter.domain = std::move(domain);
  finding->meters.push_back(std::move(meter));
}

// The interval that an average is taken over.
int64_t AverageNs(const std::string& folder) {
  for (std::string_view place : {"/", "/device/"}) {
    const auto interval_ms =
        ParseNumber(ReadLine(fmt::format("{}{}power1_average_interval", folder, place)));
    if (interval_ms && *interval_ms < 3'600'000) {
      return static_cast<int64_t>(*interval_ms) * kNsPerMs;
    }
  }
  return kNsPerSecond;
}

Domain PowerDomain(const ZoneName& name, const std::string& folder) {
  Domain domain = MakeDomain(name.kind, "hwmon", name.socket, name.die);
  domain.quantity = Quantity::kPower;
  domain.refresh_ns = AverageNs(folder);
  return domain;
}

// The sockets of the driver amd_energy: energy*_input with the label "Esocket0".
void AddAmdSockets(const std::string& folder, Finding* finding) {
  constexpr std::string_view kSocket = "Esocket";
  for (const std::string& file : SortedNames(folder)) {
    if (!file.starts_with("energy") || !file.ends_with("_label")) continue;
    const std::string label = ReadLine(folder + "/" + file);
    if (!label.starts_with(kSocket)) continue;
    const auto socket = ParseNumber(std::string_view(label).substr(kSocket.size()));
    if (!socket || *socket > 0xFFFF) continue;
    const std::string input = file.substr(0, file.size() - 6) + "_input";
    AddMeter(folder, {input},
             MakeDomain(DomainKind::kPackage, "hwmon", static_cast<int>(*socket), -1), finding);
  }
}

}  // namespace

Finding FindHwmon(const Host& host, const CpuFacts& facts) {
  (void)facts;
  Finding finding;
  const std::string root = host.root + "sys/class/hwmon/";
  int meters = 0;
  for (const std::string& entry : SortedNames(root)) {
    const std::string folder = root + entry;
    const std::string driver = ReadLine(folder + "/name");
    if (const auto part = ParseGraceInfo(ReadLine(folder + "/device/power1_oem_info"))) {
      AddMeter(folder, {"power1_average", "power1_input"}, PowerDomain(*part, folder), &finding);
    } else if (driver == "power_meter") {
      AddMeter(folder, {"power1_average", "power1_input"},
               PowerDomain({DomainKind::kMeter, meters++, -1}, folder), &finding);
    } else if (driver == "amd_energy") {
      AddAmdSockets(folder, &finding);
    }
  }
  if (finding.meters.empty()) {
    finding.absent.push_back(
        {"hwmon", fmt::format("no device under {} measures a CPU or the board", root), ""});
  }
  return finding;
}

}  // namespace emlio::energy
