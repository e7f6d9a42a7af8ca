// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emlio/base/status.h"
#include "emlio/energy/domain.h"
#include "emlio/energy/meter.h"

namespace emlio::energy {

// The text of a small file of /sys or /proc, at most its first 64 KiB.
Result<std::string> ReadText(const std::string& path);
// The same without the line's end; "" when it cannot be read.
std::string ReadLine(const std::string& path);
// Names in a directory, in the order of "2" before "10"; none when it cannot be read.
std::vector<std::string> SortedNames(const std::string& path);

// A file that holds one number, kept open; opened anew after an error.
std::unique_ptr<Counter> SysfsCounter(std::string path);

// The parsers below take any text. Nothing when the text is not of the form that is stated.

// "123456\n": decimal digits and at most one line's end.
std::optional<uint64_t> ParseNumber(std::string_view text);
// "2.3283064365386962890625e-10\n": a finite number above zero.
std::optional<double> ParseScale(std::string_view text);
// "0-3,8": the CPUs of a list, ascending; at most 4096.
std::optional<std::vector<int>> ParseCpuList(std::string_view text);
// The config of a PMU's event: "event=0x02" placed where the format "config:0-7" says.
std::optional<uint64_t> ParseEvent(std::string_view event, std::string_view format);

struct ZoneName {
  DomainKind kind = DomainKind::kPackage;
  int socket = -1;
  int die = -1;
};
// The file `name` of a powercap zone: "package-0", "package-0-die-1", "core", "dram", "psys", ...
std::optional<ZoneName> ParseZoneName(std::string_view name);
// The file power1_oem_info of Grace: "Grace Power Socket 0", ...
std::optional<ZoneName> ParseGraceInfo(std::string_view text);

// Time all CPUs together were busy, in clock ticks, from the text of /proc/stat.
std::optional<uint64_t> ParseBusyTicks(std::string_view stat);

// What /proc/cpuinfo and an MSR say about how far RAPL can be believed.
struct CpuFacts {
  bool amd = false;         // or Hygon
  bool hypervisor = false;  // this is a virtual machine
  size_t sockets = 0;       // with CPUs that are on, as far as the kernel says; 0: it does not
  enum class Filtering { kOff, kOn, kUnknown } filtering = Filtering::kUnknown;
};
CpuFacts ReadCpuFacts(const std::string& root);
// "on", "off", "unknown".
std::string_view FilteringName(CpuFacts::Filtering filtering);

}  // namespace emlio::energy
