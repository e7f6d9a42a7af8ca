// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "energy_memory_check.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>

#include "console.h"
#include "emlio/base/clock.h"
#include "emlio/base/log.h"
#include "emlio/energy/activity.h"
#include "emlio/energy/detect.h"
#include "emlio/energy/monitor.h"
#include "emlio/energy/self_check.h"

namespace emlio::tool {
namespace {

constexpr int64_t kIntervalNs = 20 * kNsPerMs;
constexpr int64_t kIdleNs = kNsPerSecond;
constexpr int64_t kLoadNs = 3 * kNsPerSecond / 2;
constexpr auto kLook = std::chrono::milliseconds(300);
// Of a host that does more, memory may be busy already, which takes but a few CPUs: it would not
// rise.
constexpr double kIdleShare = 0.1;
constexpr double kIdleCpus = 0.5;

bool IsIdle(const std::string& root) {
  const energy::Activity before = energy::ReadActivity(root);
  std::this_thread::sleep_for(kLook);
  const energy::Activity used = energy::Between(before, energy::ReadActivity(root));
  const double cpus = static_cast<double>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  return used.cpu_seconds && *used.cpu_seconds < std::min(kIdleShare * cpus, kIdleCpus) *
                                                     std::chrono::duration<double>(kLook).count();
}

Status Check(const energy::Host& host) {
  energy::MonitorOptions options;
  options.host = host;
  options.interval_ns = kIntervalNs;
  options.update_check = energy::UpdateCheck::kNone;
  options.believe_checks = false;  // they are made anew
  EMLIO_ASSIGN_OR_RETURN(const auto monitor, energy::Monitor::Start(std::move(options)));
  EMLIO_ASSIGN_OR_RETURN(const auto checks, energy::CheckDram(*monitor, kIdleNs, [] {
                           return energy::LoadMemory(kLoadNs);
                         }));
  for (const energy::DramCheck& check : checks) {
    Say("emlio: {}: {:.1f} W at rest, {:.1f} W under a memory load: {}{}\n", check.id,
        check.idle_watts, check.load_watts, energy::RiseName(check.rise),
        check.cause.empty() ? "" : ", for " + check.cause);
  }
  return energy::KeepDramChecks(host.root, checks);
}

}  // namespace

Result<MemoryCheck> ParseMemoryCheck(std::string_view name) {
  for (const MemoryCheck check : {MemoryCheck::kAuto, MemoryCheck::kAlways, MemoryCheck::kNever}) {
    if (name == MemoryCheckName(check)) return check;
  }
  return InvalidArgument(fmt::format("'{}' is none of auto, always and never", name));
}

std::string_view MemoryCheckName(MemoryCheck check) {
  switch (check) {
    case MemoryCheck::kAuto:
      return "auto";
    case MemoryCheck::kAlways:
      return "always";
    case MemoryCheck::kNever:
      return "never";
  }
  return "never";
}

void CheckMemory(const energy::Host& host, MemoryCheck when) {
  // What memory does here is not what counters of another root are about.
  if (when == MemoryCheck::kNever || (when == MemoryCheck::kAuto && host.root != "/")) return;
  const auto is_wanted = [&] {
    const energy::Detection found = energy::Detect(host);
    if (when == MemoryCheck::kAuto) return energy::HasUncheckedDram(host.root, found.meters);
    return std::any_of(found.meters.begin(), found.meters.end(), energy::IsCountedDram);
  };
  if (!is_wanted()) return;
  // Whoever comes second waits: beside the load of the first there is nothing to be measured.
  const auto alone = energy::LockDramChecks(host.root, energy::kWaitForChecksNs);
  if (!alone.ok()) {
    LogWarning("what counters of memory show under load is not looked at: {}",
               alone.status().ToString());
    return;
  }
  if (when == MemoryCheck::kAuto) {
    if (!is_wanted()) return;  // the first has found out
    std::string_view why;
    if (!energy::CanLoadAllMemory()) {
      why = "this process may not use all CPUs, or little memory is free";
    } else if (!IsIdle(host.root)) {
      why = "this host is busy";
    }
    if (!why.empty()) {
      Say("emlio: whether counters of memory rise under load was not looked at, for {}: they are "
          "believed; on an idle host: emlio energy doctor\n",
          why);
      return;
    }
  }
  Say("emlio: memory is put under load for {:g} s{}, to see whether its counters rise\n",
      static_cast<double>(kLoadNs) * 1e-9,
      when == MemoryCheck::kAuto ? ", once after each start of this host" : "");
  if (const Status status = Check(host); !status.ok()) {
    LogWarning("what counters of memory show under load is not known: {}", status.ToString());
  }
}

}  // namespace emlio::tool
