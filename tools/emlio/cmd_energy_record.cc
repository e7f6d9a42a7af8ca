// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "child_process.h"
#include "console.h"
#include "emlio/base/clock.h"
#include "emlio/energy/activity.h"
#include "emlio/energy/monitor.h"
#include "energy_commands.h"
#include "energy_json.h"
#include "energy_live.h"
#include "interrupt.h"

namespace emlio::tool {
namespace {

using nlohmann::ordered_json;

constexpr int kLiveMs = 500;

// What a run that is to be measured may not have: domains of the total that no hardware counter
// gives, with the reason. Empty: all is measured.
std::vector<std::string> NotMeasured(const energy::Monitor& monitor) {
  std::vector<std::string> reasons;
  bool has_cpu = false;
  for (const energy::Domain& domain : monitor.domains()) {
    if (!domain.in_total) continue;
    std::string reason;
    if (!domain.cause.empty()) {
      // Memory that this hardware does not count is no fault.
      if (domain.kind == energy::DomainKind::kDram && domain.source.empty() && has_cpu) continue;
      reason = domain.cause + (domain.fix.empty() ? "" : "; fix: " + domain.fix);
    } else if (domain.virtualised) {
      reason = "the figure is a hypervisor's, and not a measurement";
    } else if (domain.quantity == energy::Quantity::kPower) {
      reason = "only its power can be sampled; it has no energy counter";
    } else if (domain.shared) {
      reason = "the counter is that of a whole GPU, of which others may use a part";
    } else {
      has_cpu |=
          domain.kind != energy::DomainKind::kDram && domain.kind != energy::DomainKind::kGpu;
      continue;
    }
    reasons.push_back(fmt::format("{}: {}", domain.id, reason));
  }
  return reasons;
}

Status CheckMeasured(energy::Monitor& monitor) {
  const std::vector<std::string> reasons = NotMeasured(monitor);
  if (reasons.empty()) return OkStatus();
  return Unsupported(fmt::format("--require-measured: the command was not started\n  {}",
                                 fmt::join(reasons, "\n  ")));
}

// One clear statement a domain, before the command begins, of what will not be measured.
void PrintWhatIsMissing(const energy::Monitor& monitor) {
  std::vector<std::string> missing;
  for (const energy::Domain& domain : monitor.domains()) {
    if (domain.in_total && !domain.cause.empty()) missing.push_back(domain.id);
  }
  if (missing.empty()) return;
  fmt::print(stderr,
             "emlio: energy of {} cannot be measured here and will read n/a; why, and what "
             "helps: emlio energy doctor\n",
             fmt::join(missing, ", "));
}

}  // namespace

int RunEnergyRecord(const EnergyRecordCommand& command) {
  const ::emlio::tool::Report report(command.json);
  ChildProcess child;  // before any thread
  ordered_json json = {{"version", EMLIO_VERSION}, {"command", command.argv}};

  energy::MonitorOptions options;
  options.host = command.source.host;
  options.interval_ns = command.source.interval_ms * kNsPerMs;
  options.rules.allow_gaps = command.allow_gaps;
  auto started = energy::Monitor::Start(std::move(options));
  if (!started.ok()) return report.Finish(started.status(), std::move(json));
  energy::Monitor& monitor = **started;
  json["node"] = monitor.node();
  json["interval_ms"] = command.source.interval_ms;
  json["cpu"] = CpuJson(monitor.cpu());
  json["absent"] = AbsentJson(monitor.absent());
  if (command.require_measured) {
    if (const Status status = CheckMeasured(monitor); !status.ok()) {
      json["domains"] = ordered_json::array();
      for (const energy::Domain& domain : monitor.domains()) {
        json["domains"].push_back(DomainJson(domain));
      }
      report.Finish(status, std::move(json));
      return kExitUnreachable;
    }
  }
  PrintWhatIsMissing(monitor);

  energy::WindowLabel label;
  label.name = command.name.empty() ? command.argv[0] : command.name;
  label.stage = command.stage;
  const energy::Activity before = energy::ReadActivity(command.source.host.root);
  const energy::Moment began = energy::ReadMoment();
  const energy::WindowId window = monitor.Open(label);
  if (const Status status = child.Start(command.argv, command.json == "-"); !status.ok()) {
    report.Finish(status, std::move(json));
    return status.code() == Code::kNotFound ? kExitNotFound : kExitNotExecutable;
  }
  {
    LiveView live(monitor, command.live);
    while (!child.Wait(command.live ? kLiveMs : -1)) live.Update();
  }
  monitor.Close(window);
  const energy::Activity activity =
      energy::Between(before, energy::ReadActivity(command.source.host.root));
  monitor.Stop();

  const auto measured = monitor.Report(window);
  const auto stats = monitor.Stats();
  if (!measured.ok() || !stats.ok()) {
    return report.Finish(measured.ok() ? stats.status() : measured.status(), std::move(json));
  }
  const double seconds = static_cast<double>(measured->end_ns - measured->begin_ns) * 1e-9;
  json["exit_code"] = child.exit_code();
  json["begin_unix_ns"] = began.wall_ns;
  const ordered_json window_json = WindowJson(monitor.domains(), *measured);
  for (const auto& [key, value] : window_json.items()) json[key] = value;
  json["proxies"] = ActivityJson(activity);
  json["proxies"]["command_cpu_s"] = child.cpu_seconds();
  json["sampler"] = SamplerJson(*stats);
  fmt::print(stderr, "emlio: {:.3f} s, exit code {}\n{}{}", seconds, child.exit_code(),
             EnergyTable(monitor.domains(), measured->energies, measured->total, seconds),
             ActivityTable(activity, child.cpu_seconds(), std::nullopt));
  const int exit_code = report.Finish(OkStatus(), std::move(json));
  return exit_code == kExitOk ? child.exit_code() : exit_code;
}

}  // namespace emlio::tool
