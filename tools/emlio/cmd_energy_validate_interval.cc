// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "console.h"
#include "emlio/base/clock.h"
#include "emlio/energy/detect.h"
#include "emlio/energy/sampler.h"
#include "energy_commands.h"
#include "energy_json.h"
#include "interrupt.h"
#include "text.h"

namespace emlio::tool {
namespace {

using nlohmann::ordered_json;

struct Outcome {
  int64_t interval_ms = 0;
  std::vector<energy::Domain> domains;
  std::vector<energy::Energy> energies;
  energy::Total total;
  energy::SamplerStats stats;
};

// Sampled with all intervals at once, so that all of them see the same energy.
Result<std::vector<Outcome>> Measure(const EnergyValidateIntervalCommand& command,
                                     double* seconds) {
  std::vector<std::unique_ptr<energy::Sampler>> samplers;
  for (const int64_t interval_ms : command.intervals_ms) {
    energy::Detection found = energy::Detect(command.source.host);
    energy::SamplerOptions options;
    options.interval_ns = interval_ms * kNsPerMs;
    options.recorder.root = command.source.host.root;
    options.recorder.kept_ticks = static_cast<size_t>(command.duration_ms / interval_ms) + 200;
    EMLIO_ASSIGN_OR_RETURN(auto sampler, energy::Sampler::Start(found.node, std::move(found.meters),
                                                                std::move(options)));
    samplers.push_back(std::move(sampler));
  }
  const int64_t begin_ns = SystemClock().NowNs();
  const int64_t until_ns = begin_ns + command.duration_ms * kNsPerMs;
  while (SystemClock().NowNs() < until_ns && !InterruptFlag::IsSet()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const int64_t end_ns = SystemClock().NowNs();
  *seconds = static_cast<double>(end_ns - begin_ns) * 1e-9;
  std::vector<Outcome> outcomes;
  for (size_t i = 0; i < samplers.size(); ++i) {
    samplers[i]->Stop();
    EMLIO_ASSIGN_OR_RETURN(const energy::Recorder* const recorder, samplers[i]->recorder());
    EMLIO_ASSIGN_OR_RETURN(const energy::SamplerStats stats, samplers[i]->Stats());
    Outcome outcome;
    outcome.interval_ms = command.intervals_ms[i];
    outcome.domains = recorder->domains();
    outcome.energies = recorder->Window(begin_ns, end_ns);
    outcome.total = recorder->TotalOf(outcome.energies);
    outcome.stats = stats;
    outcomes.push_back(std::move(outcome));
  }
  return outcomes;
}

// How far the total is from that of the shortest interval.
std::optional<double> DifferencePercent(const Outcome& outcome, const Outcome& shortest) {
  if (!outcome.total.joules || !shortest.total.joules || *shortest.total.joules <= 0) {
    return std::nullopt;
  }
  return (*outcome.total.joules / *shortest.total.joules - 1) * 100;
}

}  // namespace

int RunEnergyValidateInterval(const EnergyValidateIntervalCommand& command) {
  const ::emlio::tool::Report report(command.json);
  if (const Status status = report.Check(); !status.ok()) return Fail(status);
  double seconds = 0;
  const auto measured = Measure(command, &seconds);
  if (!measured.ok()) return report.Finish(measured.status(), {{"version", EMLIO_VERSION}});
  const std::vector<Outcome>& outcomes = *measured;

  ordered_json json = {{"version", EMLIO_VERSION}, {"seconds", seconds}};
  ordered_json list = ordered_json::array();
  Table table({{"interval", true},
               {"total", true},
               {"+-", true},
               {"difference", true},
               {"late p99", true},
               {"missed", true},
               {"CPU", true},
               {"state"}});
  for (const Outcome& outcome : outcomes) {
    const auto difference = DifferencePercent(outcome, outcomes.front());
    const double late_ms = static_cast<double>(outcome.stats.late_p99_ns) / kNsPerMs;
    table.AddRow({fmt::format("{} ms", outcome.interval_ms), FormatJoules(outcome.total.joules),
                  outcome.total.joules ? FormatJoules(outcome.total.uncertainty_joules) : "",
                  difference ? fmt::format("{:+.2f} %", *difference) : "n/a",
                  fmt::format("{:.2f} ms", late_ms), std::to_string(outcome.stats.missed),
                  fmt::format("{:.2f} %", 100 * outcome.stats.cpu_share()),
                  std::string(energy::StateName(outcome.total.state))});
    ordered_json domains = ordered_json::array();
    for (size_t i = 0; i < outcome.domains.size(); ++i) {
      domains.push_back(EnergyJson(outcome.domains[i], outcome.energies[i], seconds));
    }
    list.push_back(
        {{"interval_ms", outcome.interval_ms},
         {"total", TotalJson(outcome.total, seconds)},
         {"difference_percent", difference ? ordered_json(*difference) : ordered_json(nullptr)},
         {"domains", std::move(domains)},
         {"sampler", SamplerJson(outcome.stats)}});
  }
  json["intervals"] = std::move(list);
  if (report.for_people()) {
    fmt::print("{:.1f} s, all intervals at once\n{}", seconds, table.Render(OutputColumns()));
    if (!outcomes.front().total.joules) {
      fmt::print("{}",
                 WrapWords("There is no total on this host (emlio energy doctor tells why), so "
                           "that the intervals can be compared in their cost alone.",
                           0, OutputColumns()));
    }
  }
  return report.Finish(OkStatus(), std::move(json));
}

}  // namespace emlio::tool
