// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy/domain.h"

#include <fmt/format.h>

#include <utility>

#include "emlio/base/clock.h"

namespace emlio::energy {

std::string_view KindName(DomainKind kind) {
  switch (kind) {
    case DomainKind::kPackage:
      return "package";
    case DomainKind::kDram:
      return "dram";
    case DomainKind::kGpu:
      return "gpu";
    case DomainKind::kModule:
      return "module";
    case DomainKind::kGrace:
      return "grace";
    case DomainKind::kCore:
      return "core";
    case DomainKind::kUncore:
      return "uncore";
    case DomainKind::kCpu:
      return "cpu";
    case DomainKind::kSysIo:
      return "sysio";
    case DomainKind::kPsys:
      return "psys";
    case DomainKind::kMeter:
      return "meter";
    case DomainKind::kGpuPower:
      return "gpu-power";
  }
  return "unknown";
}

bool AlwaysDraws(DomainKind kind) {
  switch (kind) {
    case DomainKind::kCore:
    case DomainKind::kUncore:
    case DomainKind::kSysIo:
      return false;
    default:
      return true;
  }
}

Domain MakeDomain(DomainKind kind, std::string source, int socket, int die) {
  Domain domain;
  domain.kind = kind;
  domain.source = std::move(source);
  domain.socket = socket;
  domain.die = die;
  domain.id = KindName(kind);
  if (socket >= 0) domain.id += fmt::format("-{}", socket);
  if (die >= 0) domain.id += fmt::format("-die-{}", die);
  // RAPL moves about once a millisecond, in steps of 2^-14 J or finer; psys in steps of up to 1 J.
  domain.refresh_ns = 2 * kNsPerMs;
  domain.step_joules = 1.0 / 16384;
  switch (kind) {
    case DomainKind::kDram:
      domain.plausible_watts = 180;
      break;
    case DomainKind::kPsys:
      domain.step_joules = 1;
      [[fallthrough]];
    case DomainKind::kGpu:
    case DomainKind::kModule:
    case DomainKind::kMeter:
    case DomainKind::kGpuPower:
      domain.max_watts = domain.plausible_watts = 10000;
      break;
    default:
      break;
  }
  return domain;
}

}  // namespace emlio::energy
