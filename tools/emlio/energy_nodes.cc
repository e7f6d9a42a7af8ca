// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "energy_nodes.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "emlio/base/nanoseconds.h"
#include "energy_json.h"
#include "sample_sinks.h"

namespace emlio::tool {
namespace {

using energy_agent::NodeReport;
using energy_agent::NodeState;
using nlohmann::ordered_json;

double Ms(int64_t ns) { return static_cast<double>(ns) * 1e-6; }

ordered_json MomentJson(const energy::Moment& moment) {
  return {{"monotonic_ns", moment.monotonic_ns}, {"unix_ns", moment.wall_ns}};
}

template <typename T, typename Make>
ordered_json OrNull(const std::optional<T>& value, const Make& make) {
  return value ? ordered_json(make(*value)) : ordered_json(nullptr);
}

}  // namespace

ordered_json ClockJson(const energy::ClockReading& reading) {
  return {{"offset_ms", Ms(reading.offset_ns)},
          {"esterror_ms", Ms(reading.esterror_ns)},
          {"maxerror_ms", Ms(reading.maxerror_ns)},
          {"synchronised", reading.synchronised}};
}

ordered_json NodeJson(const NodeReport& node) {
  const double seconds = Seconds(node.run.end_ns - node.run.begin_ns);
  ordered_json json = {{"node", NameOf(node)},
                       {"endpoint", node.endpoint},
                       {"role", node.role},
                       {"boot_id", node.boot_id},
                       {"state", energy_agent::NodeStateName(node.state)}};
  if (!node.cause.empty()) json["cause"] = node.cause;
  if (node.joined_late) json["joined_late"] = true;
  json["interval_ms"] = Ms(node.interval_ns);
  json["clock"] = {
      {"state", energy::ClockStateName(node.clock)},
      {"offset_ms", OrNull(node.offset, [](const auto& o) { return Ms(o.offset_ns); })},
      {"bound_ms", OrNull(node.offset, [](const auto& o) { return Ms(o.bound_ns); })},
      {"at_start", OrNull(node.start_clock, &ClockJson)},
      {"at_stop", OrNull(node.stop_clock, &ClockJson)}};
  json["started"] = OrNull(node.started, &MomentJson);
  json["stopped"] = OrNull(node.stopped, &MomentJson);
  // Of one that is lost what it told last is not what it used.
  const bool known =
      node.state == NodeState::kWhole || (node.state == NodeState::kSameHost && node.stopped);
  if (known) {
    json["seconds"] = seconds;
    json["total"] = TotalJson(node.run.total, seconds);
    ordered_json domains = ordered_json::array();
    for (size_t i = 0; i < node.run.energies.size(); ++i) {
      domains.push_back(EnergyJson(node.domains[i], node.run.energies[i], seconds));
    }
    json["domains"] = std::move(domains);
    if (auto checks = GpuChecksJson(node.domains, node.run.energies); !checks.empty()) {
      json["gpu_checks"] = std::move(checks);
    }
    json["proxies"] = ActivityJson(node.proxies);
    json["sampler"] = SamplerJson(node.stats);
  } else {
    json["total"] = {{"state", "unavailable"}, {"joules", nullptr}};
  }
  json["absent"] = AbsentJson(node.absent);
  ordered_json windows = ordered_json::array();
  for (const energy::WindowReport& window : node.windows) {
    windows.push_back(WindowJson(node.domains, window));
  }
  json["windows"] = std::move(windows);
  if (!node.sinks.empty()) json["sinks"] = SinksJson(node.sinks);
  return json;
}

ordered_json RunTotalJson(const energy_agent::RunTotal& total) {
  ordered_json json = {
      {"state", total.complete ? energy::StateName(total.state) : "incomplete"},
      {"joules", total.joules ? ordered_json(*total.joules) : ordered_json(nullptr)},
      {"uncertainty_joules",
       total.joules ? ordered_json(total.uncertainty_joules) : ordered_json(nullptr)},
      {"nodes", total.nodes}};
  ordered_json missing = ordered_json::array();
  for (const auto& [node, cause] : total.missing) {
    missing.push_back({{"node", node}, {"cause", cause}});
  }
  json["missing"] = std::move(missing);
  return json;
}

}  // namespace emlio::tool
