// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_analysis/host_facts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "emlio/base/file.h"
#include "emlio/base/hash128.h"
#include "emlio/energy/sysfs.h"

namespace emlio::energy_analysis {
namespace {

constexpr std::string_view kContainer = "container";
constexpr size_t kMaxProcBytes = size_t{16} << 20;  // /proc/cpuinfo of a thousand CPUs

std::string FirstLine(const std::string& path) {
  const auto text = ReadWholeFile(path, 4096);
  return text.ok() ? text->substr(0, text->find('\n')) : "";
}

// The values behind "key   : value" lines.
std::vector<std::string> ValuesOf(const std::string& text, std::string_view key) {
  std::vector<std::string> values;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line(text.data() + at, end - at);
    at = end + 1;
    const size_t colon = line.find(':');
    if (!line.starts_with(key) || colon == std::string_view::npos) continue;
    const size_t name_end = line.find_last_not_of(" \t", colon - 1);
    if (name_end + 1 != key.size()) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    values.emplace_back(begin == std::string_view::npos ? "" : line.substr(begin));
  }
  return values;
}

std::string TurboOf(const std::string& root) {
  const std::string cpu = root + "sys/devices/system/cpu/";
  if (const std::string off = FirstLine(cpu + "intel_pstate/no_turbo"); !off.empty()) {
    return off == "0" ? "on" : "off";
  }
  const std::string boost = FirstLine(cpu + "cpufreq/boost");
  if (boost.empty()) return "";
  return boost == "0" ? "off" : "on";
}

std::string NicsOf(const std::string& root) {
  std::vector<std::string> nics;
  const auto names = NamesInDirectory(root + "sys/class/net");
  if (!names.ok()) return "";
  for (const std::string& name : *names) {
    // Interfaces without a device are made by software.
    if (!NamesInDirectory(root + "sys/class/net/" + name + "/device").ok()) continue;
    const std::string speed = FirstLine(root + "sys/class/net/" + name + "/speed");
    nics.push_back(
        speed.empty() || speed.starts_with('-') ? name : fmt::format("{} {} Mbit/s", name, speed));
  }
  return fmt::format("{}", fmt::join(nics, ", "));
}

std::string EnvironmentOf(const std::string& root, const energy::CpuFacts& cpu) {
  std::vector<std::string> inside;
  // What Docker, Podman, systemd (nspawn, LXC), Kubernetes and Apptainer leave in a container.
  constexpr const char* kSigns[] = {".dockerenv",
                                    "run/.containerenv",
                                    "run/systemd/container",
                                    "run/secrets/kubernetes.io",
                                    "var/run/secrets/kubernetes.io",
                                    ".singularity.d"};
  if (std::any_of(std::begin(kSigns), std::end(kSigns),
                  [&](const char* sign) { return access((root + sign).c_str(), F_OK) == 0; })) {
    inside.emplace_back(kContainer);
  }
  if (cpu.hypervisor) inside.push_back("virtual machine");
  return inside.empty() ? "bare metal" : fmt::format("{}", fmt::join(inside, " in a "));
}

// Which installation of a system this is, by half a hash of its machine id: the id itself is not to
// leave the host, and cannot be found from that. None in a container, whose id, if it has one, is
// its image's or as new as the container.
std::string MachineOf(const std::string& root, std::string_view environment) {
  constexpr size_t kDigits = 32;
  if (environment.starts_with(kContainer)) return "";
  const std::string id = FirstLine(root + "etc/machine-id");
  if (id.size() != kDigits || id.find_first_not_of("0123456789abcdef") != std::string::npos) {
    return "";
  }
  const std::string key = "emlio\n" + id;
  return ToHex(Xxh3(key.data(), key.size())).substr(0, kDigits / 2);
}

std::string GpusOf(std::span<const energy::Domain> domains) {
  std::vector<std::string> gpus;
  for (const energy::Domain& domain : domains) {
    if (domain.in_total && !domain.device.empty()) gpus.push_back(domain.device);
  }
  return gpus.empty() ? "none" : fmt::format("{}", fmt::join(gpus, ", "));
}

}  // namespace

std::string HostFacts(const std::string& root, std::span<const energy::Domain> domains) {
  nlohmann::ordered_json facts = nlohmann::ordered_json::object();
  const auto set = [&](const char* key, const std::string& value) {
    if (!value.empty()) facts[key] = value;
  };
  const energy::CpuFacts cpu = energy::ReadCpuFacts(root);
  const auto cpuinfo = ReadWholeFile(root + "proc/cpuinfo", kMaxProcBytes);
  if (cpuinfo.ok()) {
    const auto models = ValuesOf(*cpuinfo, "model name");
    if (!models.empty()) set("cpu", models.front());
    if (cpu.sockets > 0) facts["sockets"] = cpu.sockets;
    if (const auto cpus = ValuesOf(*cpuinfo, "processor"); !cpus.empty()) {
      facts["cpus"] = cpus.size();
    }
  }
  if (const auto meminfo = ReadWholeFile(root + "proc/meminfo", kMaxProcBytes); meminfo.ok()) {
    const auto total = ValuesOf(*meminfo, "MemTotal");
    if (!total.empty()) set("memory", total.front());
  }
  set("gpu", GpusOf(domains));
  set("nic", NicsOf(root));
  utsname system{};
  if (uname(&system) == 0) set("kernel", system.release);
  const std::string driver = FirstLine(root + "proc/driver/nvidia/version");
  const bool has_gpu = facts["gpu"] != "none";
  set("driver", has_gpu ? driver : "none");
  if (!has_gpu) set("gpu_power_limit", "none");
  set("governor", FirstLine(root + "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"));
  set("turbo", TurboOf(root));
  const std::string environment = EnvironmentOf(root, cpu);
  set("environment", environment);
  set("machine", MachineOf(root, environment));
  return facts.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace emlio::energy_analysis
