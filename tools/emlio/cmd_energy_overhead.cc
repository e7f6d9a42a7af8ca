// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <signal.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "child_process.h"
#include "console.h"
#include "emlio/base/clock.h"
#include "emlio/base/nanoseconds.h"
#include "emlio/energy/monitor.h"
#include "emlio/energy_analysis/numbers.h"
#include "emlio/energy_analysis/overhead.h"
#include "energy_analysis_json.h"
#include "energy_commands.h"

namespace emlio::tool {
namespace {

using nlohmann::ordered_json;
namespace analysis = energy_analysis;

struct Timed {
  double seconds = 0;
  double monitor_cpu_seconds = 0;
};

Result<Timed> RunOnce(const EnergyOverheadCommand& command, bool with_monitor) {
  ChildProcess child;
  std::unique_ptr<energy::Monitor> monitor;
  if (with_monitor) {
    energy::MonitorOptions options;
    options.host = command.source.host;
    options.interval_ns = command.source.interval_ms * kNsPerMs;
    EMLIO_ASSIGN_OR_RETURN(monitor, energy::Monitor::Start(std::move(options)));
  }
  const int64_t begin_ns = SystemClock().NowNs();
  EMLIO_RETURN_IF_ERROR(child.Start(command.argv, command.json == "-"));
  child.Wait(-1);
  Timed timed{.seconds = Seconds(SystemClock().NowNs() - begin_ns)};
  if (child.exit_code() == 128 + SIGINT || child.exit_code() == 128 + SIGTERM) {
    return Cancelled("interrupted by a signal");
  }
  if (child.exit_code() != 0) {
    return IoError(fmt::format("'{}' ended with {}", command.argv.front(), child.exit_code()));
  }
  if (monitor != nullptr) {
    monitor->Stop();
    EMLIO_ASSIGN_OR_RETURN(const energy::SamplerStats stats, monitor->Stats());
    timed.monitor_cpu_seconds = Seconds(stats.cpu_ns);
  }
  return timed;
}

Result<std::vector<analysis::OverheadPair>> RunPairs(const EnergyOverheadCommand& command) {
  std::mt19937_64 random(command.seed);
  std::vector<analysis::OverheadPair> pairs;
  for (int64_t i = 0; i < command.pairs; ++i) {
    Say("emlio: pair {} of {}\n", i + 1, command.pairs);
    const bool with_first = random() % 2 == 0;
    EMLIO_ASSIGN_OR_RETURN(const Timed first, RunOnce(command, with_first));
    EMLIO_ASSIGN_OR_RETURN(const Timed second, RunOnce(command, !with_first));
    const Timed& with = with_first ? first : second;
    const Timed& without = with_first ? second : first;
    pairs.push_back({.with_seconds = with.seconds,
                     .without_seconds = without.seconds,
                     .monitor_cpu_seconds = with.monitor_cpu_seconds});
  }
  return pairs;
}

}  // namespace

int RunEnergyOverhead(const EnergyOverheadCommand& command) {
  const ::emlio::tool::Report report(command.json);
  if (const Status status = report.Check(); !status.ok()) return Fail(status);
  ordered_json json = {{"version", EMLIO_VERSION}, {"command", command.argv}};
  const auto pairs = RunPairs(command);
  if (!pairs.ok()) return report.Finish(pairs.status(), std::move(json));
  ordered_json list = ordered_json::array();
  for (const analysis::OverheadPair& pair : *pairs) {
    list.push_back({{"with_seconds", pair.with_seconds},
                    {"without_seconds", pair.without_seconds},
                    {"monitor_cpu_seconds", pair.monitor_cpu_seconds}});
  }
  json["pairs"] = std::move(list);
  const auto overhead = analysis::AnalyseOverhead(*pairs);
  if (!overhead.ok()) return report.FinishRefused(overhead.status(), std::move(json));
  json["overhead"] = ToJson(*overhead);
  if (report.for_people()) {
    fmt::print(
        "throughput {:+.2f} % (95 %: {:+.2f} to {:+.2f}) with the monitor, {} pairs\n"
        "with it {}, without it {}; its thread uses {} of a core\n",
        overhead->throughput_change_percent,
        overhead->interval_percent ? overhead->interval_percent->low : 0,
        overhead->interval_percent ? overhead->interval_percent->high : 0, overhead->pairs,
        analysis::EstimateText(overhead->with_seconds.estimate(), "s"),
        analysis::EstimateText(overhead->without_seconds.estimate(), "s"),
        analysis::EstimateText(overhead->core_percent, "%"));
  }
  return report.Finish(OkStatus(), std::move(json));
}

}  // namespace emlio::tool
