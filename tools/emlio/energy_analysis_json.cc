// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "energy_analysis_json.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "emlio/base/nanoseconds.h"
#include "emlio/energy_analysis/figure.h"

namespace emlio::tool {
namespace {

using nlohmann::ordered_json;
namespace analysis = energy_analysis;

using tool::ToJson;  // those below would hide them
ordered_json ToJson(const analysis::Figure& figure);
ordered_json ToJson(const analysis::Quantity& quantity);
ordered_json ToJson(const analysis::StageEnergy& stage);
ordered_json ToJson(const analysis::WindowFigures& window);
ordered_json ToJson(const analysis::EpochEnergy& epoch);
ordered_json ToJson(const analysis::RunFigures& run);
ordered_json ToJson(const analysis::Arm& arm);

ordered_json NumberOrNull(double value) {
  return std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr);
}

ordered_json IntervalJson(const std::optional<analysis::Interval>& interval) {
  if (!interval) return nullptr;
  return {NumberOrNull(interval->low), NumberOrNull(interval->high)};
}

template <typename T>
ordered_json OrNull(const std::optional<T>& value) {
  if (!value) return nullptr;
  return ToJson(*value);
}

ordered_json ToJson(const analysis::Figure& figure) {
  return {{"joules", figure.joules ? NumberOrNull(*figure.joules) : ordered_json(nullptr)},
          {"label", analysis::LabelName(figure.label)},
          {"uncertainty_joules",
           figure.joules ? NumberOrNull(figure.uncertainty_joules) : ordered_json(nullptr)},
          {"cause", figure.cause},
          {"fix", figure.fix}};
}

ordered_json ToJson(const analysis::Quantity& quantity) {
  return {{"name", quantity.name},
          {"what", quantity.detail},
          {"label", analysis::LabelName(quantity.label)},
          {"in_total", quantity.in_total},
          {"total_joules", OrNull(quantity.total)},
          {"net_joules", OrNull(quantity.net)},
          {"cause", quantity.cause},
          {"fix", quantity.fix}};
}

ordered_json ToJson(const analysis::StageEnergy& stage) {
  return {{"name", stage.name},
          {"label", "derived"},
          {"total_joules", ToJson(stage.total)},
          {"net_joules", OrNull(stage.net)},
          {"seconds", ToJson(stage.seconds)}};
}

ordered_json SetsJson(const std::vector<analysis::StageSetMean>& sets) {
  ordered_json list = ordered_json::array();
  for (const analysis::StageSetMean& set : sets) {
    list.push_back({{"stages", set.set.List()},
                    {"n", set.n},
                    {"total_joules", ToJson(set.joules)},
                    {"net_joules", OrNull(set.net)},
                    {"seconds", ToJson(set.seconds)},
                    {"watts", ToJson(set.watts)}});
  }
  return list;
}

template <typename T>
ordered_json ListJson(const T& items) {
  ordered_json list = ordered_json::array();
  for (const auto& item : items) list.push_back(ToJson(item));
  return list;
}

ordered_json OptionalNumber(const auto& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

ordered_json ToJson(const analysis::WindowFigures& window) {
  const energy::Proxies& proxies = window.proxies;
  return {{"stage", window.stage},
          {"name", window.name},
          {"windows", window.windows},
          {"nodes", window.nodes},
          {"seconds", window.seconds},
          {"energy", ToJson(window.energy)},
          {"proxies",
           {{"cpu_seconds", OptionalNumber(proxies.cpu_seconds)},
            {"gpu_seconds", OptionalNumber(proxies.gpu_seconds)},
            {"bytes_read", OptionalNumber(proxies.bytes_read)},
            {"bytes_sent", OptionalNumber(proxies.bytes_sent)},
            {"bytes_delivered", OptionalNumber(proxies.bytes_delivered)},
            {"records_delivered", OptionalNumber(proxies.records_delivered)}}}};
}

ordered_json ToJson(const analysis::RunFigures& run) {
  return {{"id", run.id},
          {"started_unix_ns", run.started_wall_ns},
          {"labels", run.labels},
          {"failure", run.failure.empty() ? ordered_json(nullptr) : ordered_json(run.failure)},
          {"seconds", run.seconds},
          {"total", ToJson(run.total)}};
}

ordered_json ToJson(const analysis::Arm& arm) {
  ordered_json per_unit = ordered_json::array();
  for (const analysis::PerUnit& per : arm.per_unit) {
    per_unit.push_back(
        {{"unit", per.unit}, {"total_joules", ToJson(per.total)}, {"net_joules", OrNull(per.net)}});
  }
  return {{"name", arm.name},
          {"whole_job", arm.whole},
          {"counted", arm.good},
          {"energy", ToJson(arm.energy)},
          {"seconds", ToJson(arm.seconds)},
          {"watts", ToJson(arm.watts)},
          {"per_unit", std::move(per_unit)},
          {"runs", ListJson(arm.runs)}};
}

ordered_json NamedFigures(const std::vector<std::pair<std::string, analysis::Figure>>& figures) {
  ordered_json list = ordered_json::array();
  for (const auto& [name, figure] : figures) {
    ordered_json one = {{"of", name}};
    one.update(ToJson(figure));
    list.push_back(std::move(one));
  }
  return list;
}

ordered_json ToJson(const analysis::EpochEnergy& epoch) {
  ordered_json domains = ordered_json::array();
  for (const analysis::Quantity& domain : epoch.domains) domains.push_back(ToJson(domain));
  return {{"epoch", epoch.epoch},
          {"rank", OptionalNumber(epoch.rank)},
          {"node", epoch.node},
          {"window", epoch.window},
          {"stage", epoch.stage},
          {"windows", epoch.windows},
          {"seconds", ToJson(epoch.seconds)},
          {"energy", ToJson(epoch.energy)},
          {"domains", std::move(domains)}};
}

ordered_json TraceJson(const analysis::EnergyReport& report) {
  if (report.trace.by_kind.empty()) return nullptr;
  ordered_json kinds = ordered_json::object();
  for (const auto& [kind, trace] : report.trace.by_kind) {
    ordered_json watts = ordered_json::array();
    for (size_t i = 0; i < trace.parts(); ++i) watts.push_back(OptionalNumber(trace.Watts(i)));
    kinds[kind] = std::move(watts);
  }
  return {{"run", report.traced_run},
          {"seconds", report.trace.seconds},
          {"without_nodes", report.trace.silent_nodes},
          {"watts", kinds}};
}

}  // namespace

ordered_json ToJson(const analysis::Estimate& estimate) {
  return {{"value", NumberOrNull(estimate.value)},
          {"standard_error",
           estimate.degrees > 0 ? NumberOrNull(estimate.standard_error) : ordered_json(nullptr)},
          {"interval_95", IntervalJson(estimate.confidence())}};
}

ordered_json ToJson(const analysis::Summary& summary) {
  if (summary.n == 0) return nullptr;
  return {{"n", summary.n},
          {"mean", NumberOrNull(summary.mean)},
          {"sd", summary.n > 1 ? NumberOrNull(summary.sd) : ordered_json(nullptr)},
          {"interval_95", IntervalJson(summary.estimate().confidence())}};
}

ordered_json ToJson(const analysis::Ratio& ratio) {
  return {{"value", NumberOrNull(ratio.value)}, {"interval_95", IntervalJson(ratio.interval)}};
}

ordered_json ToJson(const analysis::NamedBaseline& named) {
  const analysis::Baseline& baseline = named.baseline;
  ordered_json domains = ordered_json::array();
  for (const analysis::DomainBaseline& domain : baseline.domains) {
    domains.push_back({{"domain", domain.domain}, {"watts", ToJson(domain.watts)}});
  }
  return {{"kind", analysis::BaselineKindName(baseline.kind)},
          {"experiment", named.id},
          {"runs", baseline.runs},
          {"seconds", baseline.seconds},
          {"watts", ToJson(baseline.watts)},
          {"domains", std::move(domains)},
          {"cpu_use", OptionalNumber(baseline.cpu_use)},
          {"drift_watts", baseline.drift_watts},
          {"drift_sd", baseline.drift_sd}};
}

ordered_json ToJson(const analysis::Ladder& ladder) {
  return {{"sets", SetsJson(ladder.sets)},
          {"marginal", ListJson(ladder.marginal)},
          {"train_alone", ToJson(ladder.train_alone)},
          {"interaction", ToJson(ladder.interaction)},
          {"whole", ToJson(ladder.whole)},
          {"unpaced", ladder.unpaced}};
}

ordered_json ToJson(const analysis::Shapley& shapley) {
  return {{"sets", SetsJson(shapley.sets)},
          {"shares", ListJson(shapley.shares)},
          {"whole", ToJson(shapley.whole)},
          {"unpaced", shapley.unpaced}};
}

ordered_json ToJson(const analysis::Regression& regression) {
  ordered_json coefficients = ordered_json::array();
  for (const analysis::Coefficient& one : regression.coefficients) {
    coefficients.push_back({{"name", one.name},
                            {"label", "derived"},
                            {"watts", ToJson(one.watts)},
                            {"vif", NumberOrNull(one.vif)},
                            {"joules", ToJson(one.joules)}});
  }
  return {{"observations", regression.observations},
          {"seconds", regression.seconds},
          {"constant_watts", ToJson(regression.constant_watts)},
          {"coefficients", std::move(coefficients)},
          {"r_squared", NumberOrNull(regression.r_squared)}};
}

ordered_json ToJson(const analysis::Overhead& overhead) {
  return {{"pairs", overhead.pairs},
          {"with_seconds", ToJson(overhead.with_seconds)},
          {"without_seconds", ToJson(overhead.without_seconds)},
          {"throughput_change_percent", NumberOrNull(overhead.throughput_change_percent)},
          {"interval_95", IntervalJson(overhead.interval_percent)},
          {"core_percent", ToJson(overhead.core_percent)}};
}

ordered_json ToJson(const analysis::MeterComparison& comparison) {
  ordered_json levels = ordered_json::array();
  for (const analysis::LevelError& level : comparison.levels) {
    levels.push_back({{"name", level.name},
                      {"spans", level.spans},
                      {"own_watts", ToJson(level.own_watts)},
                      {"meter_watts", ToJson(level.meter_watts)},
                      {"error_percent", ToJson(level.error_percent)}});
  }
  return {{"lag_seconds", Seconds(comparison.lag_ns)},
          {"correlation", NumberOrNull(comparison.correlation)},
          {"slope", ToJson(comparison.slope)},
          {"offset_watts", ToJson(comparison.offset_watts)},
          {"r_squared", NumberOrNull(comparison.r_squared)},
          {"levels", std::move(levels)}};
}

ordered_json ToJson(const analysis::EnergyReport& report) {
  ordered_json ratios = ordered_json::object();
  for (const analysis::NamedRatio& ratio : report.ratios) ratios[ratio.name] = ToJson(ratio.ratio);
  ordered_json checks = ordered_json::array();
  for (const analysis::CounterCheck& check : report.counter_checks) {
    checks.push_back({{"run", check.run},
                      {"node", check.node},
                      {"device", check.device},
                      {"counter_joules", check.counter_joules},
                      {"integrated_joules", check.integrated_joules},
                      {"gap_percent", NumberOrNull(check.gap_percent)},
                      {"warning", check.warns}});
  }
  ordered_json detail = ordered_json::array();
  if (!report.headline.empty()) {
    for (const analysis::HeadlineGroup& group : analysis::HeadlineDetail(report.headline_parts)) {
      detail.push_back({{"group", group.name}, {"text", group.text}});
    }
  }
  ordered_json nodes = ordered_json::object();
  for (const analysis::HeadlineNode& node : report.headline_parts.nodes) {
    nodes[node.name] = node.facts;
  }
  return {
      {"title", report.title},
      {"headline", report.headline.empty() ? ordered_json(nullptr) : ordered_json(report.headline)},
      {"headline_detail", std::move(detail)},
      {"no_headline", report.no_headline},
      {"these", ToJson(report.arm)},
      {"against", OrNull(report.against)},
      {"ratios", std::move(ratios)},
      {"baseline", OrNull(report.baseline)},
      {"no_baseline", report.no_baseline},
      {"meter", report.meter},
      {"warnings", report.warnings},
      {"nodes", ListJson(report.nodes)},
      {"domains", ListJson(report.domains)},
      {"windows", ListJson(report.windows)},
      {"epochs", ListJson(report.epochs)},
      {"epochs_left_out", report.epochs_left_out},
      {"ladder", OrNull(report.ladder)},
      {"shapley", OrNull(report.shapley)},
      {"no_stages", report.no_stages},
      {"counter_checks", std::move(checks)},
      {"modelled", NamedFigures(report.modelled)},
      {"allocated", NamedFigures(report.allocated)},
      {"facts", report.headline_parts.facts},
      {"node_facts", std::move(nodes)},
      {"power", TraceJson(report)}};
}

}  // namespace emlio::tool
