// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "console.h"
#include "emlio/base/clock.h"
#include "emlio/base/log.h"
#include "emlio/base/nanoseconds.h"
#include "emlio/energy/monitor.h"
#include "emlio/energy/self_check.h"
#include "energy_commands.h"
#include "energy_json.h"
#include "text.h"

namespace emlio::tool {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kIntervalNs = 20 * kNsPerMs;
constexpr int64_t kIdleNs = kNsPerSecond;
constexpr int64_t kLoadNs = 3 * kNsPerSecond / 2;

std::string Milliseconds(int64_t ns) {
  return ns > 0 ? fmt::format("{:.1f} ms", static_cast<double>(ns) / kNsPerMs) : "";
}

struct Diagnosis {
  energy::WindowReport idle;  // what a second at rest gives
  std::vector<energy::DramCheck> dram;
};

// What of DRAM may be summed (METRICS.md section 3): a counter that does not see memory at work has
// no plausible joules. Where nothing was found out now, what was before still holds.
void MarkImplausible(const std::vector<energy::Domain>& domains, const std::string& root,
                     Diagnosis* diagnosis) {
  for (size_t i = 0; i < domains.size(); ++i) {
    if (domains[i].kind != energy::DomainKind::kDram || !domains[i].cause.empty()) continue;
    const auto now = std::find_if(
        diagnosis->dram.begin(), diagnosis->dram.end(), [&](const energy::DramCheck& check) {
          return check.id == domains[i].id && check.rise != energy::Rise::kUnknown;
        });
    const auto check = now != diagnosis->dram.end() ? std::optional(*now)
                                                    : energy::KeptDramCheck(root, domains[i].id);
    if (!check || check->rise != energy::Rise::kFlat) continue;
    energy::Energy& energy = diagnosis->idle.energies[i];
    energy.state = energy::State::kImplausible;
    energy.joules.reset();
    energy.cause = energy::FlatText(*check);
    energy.fix = "check the firmware's DRAM mode for RAPL; until then leave it out of any figure";
  }
}

Result<Diagnosis> Diagnose(energy::Monitor& monitor, const std::string& root, bool load_memory) {
  Diagnosis diagnosis;
  const bool has_dram = std::any_of(
      monitor.domains().begin(), monitor.domains().end(), [](const energy::Domain& domain) {
        return domain.kind == energy::DomainKind::kDram && domain.cause.empty();
      });
  const auto alone = has_dram && load_memory
                         ? energy::LockDramChecks(root, energy::kWaitForChecksNs)
                         : Result<std::unique_ptr<DirectoryLock>>(nullptr);
  const int64_t begin_ns = SystemClock().NowNs();
  EMLIO_ASSIGN_OR_RETURN(diagnosis.idle, monitor.Between(begin_ns, begin_ns + kIdleNs));
  if (!alone.ok()) {
    LogWarning("what counters of memory show under load is not looked at: {}",
               alone.status().ToString());
  } else if (has_dram && load_memory) {
    EMLIO_ASSIGN_OR_RETURN(diagnosis.dram, energy::CheckDram(monitor, kIdleNs, [] {
                             return energy::LoadMemory(kLoadNs);
                           }));
    if (const Status kept = energy::KeepDramChecks(root, diagnosis.dram); !kept.ok()) {
      LogWarning("what was found out about DRAM is not kept: {}", kept.ToString());
    }
  }
  MarkImplausible(monitor.domains(), root, &diagnosis);
  EMLIO_ASSIGN_OR_RETURN(const energy::Recorder* const recorder, monitor.recorder());
  diagnosis.idle.total = recorder->TotalOf(diagnosis.idle.energies);
  return diagnosis;
}

void Print(const energy::Monitor& monitor, const Diagnosis& diagnosis) {
  const double seconds = Seconds(diagnosis.idle.end_ns - diagnosis.idle.begin_ns);
  fmt::print("{}: {}{}\n\n", monitor.node(),
             diagnosis.idle.total.joules ? "energy can be measured here"
                                         : "the host's total energy cannot be measured here",
             monitor.cpu().hypervisor ? "; this is a virtual machine" : "");
  fmt::print("{}\n", EnergyTable(monitor.domains(), diagnosis.idle.energies, diagnosis.idle.total,
                                 seconds));
  Table details(
      {{"domain"}, {"what is read"}, {"moves every", true}, {"outside the total, because"}});
  for (const energy::Domain& domain : monitor.domains()) {
    if (domain.source.empty()) continue;
    details.AddRow(
        {domain.id, domain.detail, Milliseconds(domain.update_period_ns), domain.outside_total});
  }
  if (std::any_of(monitor.domains().begin(), monitor.domains().end(),
                  [](const energy::Domain& domain) { return !domain.source.empty(); })) {
    fmt::print("{}\n", details.Render(OutputColumns()));
  }
  for (const energy::DramCheck& check : diagnosis.dram) {
    fmt::print("{}: {:.1f} W at rest, {:.1f} W under a memory load: {}\n", check.id,
               check.idle_watts, check.load_watts, energy::RiseName(check.rise));
  }
  if (!monitor.absent().empty()) fmt::print("sources that are not used\n");
  for (const energy::Absence& absence : monitor.absent()) {
    fmt::print("{}", WrapWords(fmt::format("{}: {}{}", absence.source, absence.cause,
                                           absence.fix.empty() ? "" : "\nfix: " + absence.fix),
                               2, OutputColumns()));
  }
}

}  // namespace

int RunEnergyDoctor(const EnergyDoctorCommand& command) {
  const ::emlio::tool::Report report(command.json);
  if (const Status status = report.Check(); !status.ok()) return Fail(status);
  ordered_json json = {{"version", EMLIO_VERSION}};
  energy::MonitorOptions options;
  options.host = command.source.host;
  options.interval_ns = kIntervalNs;
  options.update_check = energy::UpdateCheck::kAll;
  options.believe_checks = false;  // they are made anew
  auto monitor = energy::Monitor::Start(std::move(options));
  if (!monitor.ok()) return report.Finish(monitor.status(), std::move(json));
  const auto diagnosis = Diagnose(**monitor, command.source.host.root, command.load_memory);
  if (!diagnosis.ok()) return report.Finish(diagnosis.status(), std::move(json));

  const double seconds = Seconds(diagnosis->idle.end_ns - diagnosis->idle.begin_ns);
  json["node"] = (*monitor)->node();
  json["measurable"] = diagnosis->idle.total.joules.has_value();
  json["cpu"] = CpuJson((*monitor)->cpu());
  json["total"] = TotalJson(diagnosis->idle.total, seconds);
  ordered_json domains = ordered_json::array();
  for (size_t i = 0; i < (*monitor)->domains().size(); ++i) {
    const energy::Domain& domain = (*monitor)->domains()[i];
    ordered_json one = EnergyJson(domain, diagnosis->idle.energies[i], seconds);
    for (const energy::DramCheck& check : diagnosis->dram) {
      if (check.id != domain.id) continue;
      one["memory_load"] = {{"result", energy::RiseName(check.rise)},
                            {"idle_watts", check.idle_watts},
                            {"load_watts", check.load_watts}};
      if (!check.cause.empty()) one["memory_load"]["cause"] = check.cause;
    }
    domains.push_back(std::move(one));
  }
  json["domains"] = std::move(domains);
  json["gpu_checks"] = GpuChecksJson((*monitor)->domains(), diagnosis->idle.energies);
  json["absent"] = AbsentJson((*monitor)->absent());
  if (report.for_people()) Print(**monitor, *diagnosis);
  return report.Finish(OkStatus(), std::move(json));
}

}  // namespace emlio::tool
