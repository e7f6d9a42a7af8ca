// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace emlio::energy {

// What a counter covers (METRICS.md, "Domains").
enum class DomainKind {
  kPackage,
  kDram,
  kGpu,
  kModule,
  kGrace,
  kCore,
  kUncore,
  kCpu,
  kSysIo,
  kPsys,
  kMeter,
  kGpuPower,
};
inline constexpr int kDomainKinds = 12;
// "package", "dram", ...
std::string_view KindName(DomainKind kind);
// Whether something of this kind uses energy whenever its host is on.
bool AlwaysDraws(DomainKind kind);

// What the numbers of a counter are.
enum class Quantity { kEnergy, kPower };

// One domain of this host and how its numbers are to be read. Plain data.
struct Domain {
  std::string id;  // unique on the host: "package-0-die-1", "gpu-GPU-8f3a..."
  DomainKind kind = DomainKind::kPackage;
  std::string source;  // "perf", "powercap", ...; empty when there is none
  Quantity quantity = Quantity::kEnergy;
  int socket = -1;     // -1 where it has no meaning
  int die = -1;        // -1 unless the socket has several
  std::string device;  // a GPU's UUID
  std::string pci;     // its address, "0000:3b:00.0"
  std::string detail;  // of the source: which file, event or figure is read

  double per_unit = 1e-6;           // joules or watts for one unit of the counter
  uint64_t range_units = 0;         // the counter begins again behind this value; 0: never
  double max_watts = 1000;          // more cannot be: tells wraps from resets
  double plausible_watts = 1000;    // a mean above it is not believed
  double plausible_from_watts = 0;  // nor one below this
  int64_t refresh_ns = 0;           // how long the counter may stand though energy is used
  double step_joules = 0;           // the smallest difference that it shows
  int64_t update_period_ns = 0;  // how often it was seen to move; 0: not looked at (self_check.h)

  bool in_total = false;
  std::string outside_total;  // why not
  bool shared = false;        // a whole GPU of which others use a part
  bool virtualised = false;
  bool filtered = false;  // distorted by design (METRICS.md section 6)

  std::string doubt;  // why its counter is not believed: no joules then, and not summed

  // What its driver says of it, for the record: "driver", "power_limit_watts", ...
  std::vector<std::pair<std::string, std::string>> facts;

  // Both empty when the domain can be read.
  std::string cause;
  std::string fix;
};

// A domain with the limits of its kind, and with an id of kind, socket and die.
Domain MakeDomain(DomainKind kind, std::string source, int socket, int die);

}  // namespace emlio::energy
