// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_analysis/figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "emlio/energy_analysis/numbers.h"

namespace emlio::energy_analysis {

std::string_view LabelName(Label label) {
  switch (label) {
    case Label::kMeasured:
      return "measured";
    case Label::kIntegrated:
      return "integrated";
    case Label::kDerived:
      return "derived";
    case Label::kWholeDevice:
      return "whole_device";
    case Label::kVirtualised:
      return "virtualised";
    case Label::kAllocated:
      return "allocated";
    case Label::kModelled:
      return "modelled";
    case Label::kProxy:
      return "proxy";
    case Label::kNone:
      break;
  }
  return "n/a";
}

Label LabelOf(energy::State state) {
  switch (state) {
    case energy::State::kMeasured:
      return Label::kMeasured;
    case energy::State::kIntegrated:
      return Label::kIntegrated;
    case energy::State::kVirtualised:
      return Label::kVirtualised;
    case energy::State::kShared:
      return Label::kWholeDevice;
    default:
      return Label::kNone;
  }
}

bool CountsInTotals(Label label) { return label < Label::kAllocated; }

std::string FigureText(const Figure& figure) {
  if (!figure.joules) {
    return figure.cause.empty() ? "n/a" : fmt::format("n/a ({})", figure.cause);
  }
  return fmt::format("{} ({})", JoulesText(*figure.joules), LabelName(figure.label));
}

Figure SumOf(std::span<const Figure> figures) {
  if (figures.empty()) return {.cause = "there is nothing to sum"};
  Figure sum{.joules = 0, .label = Label::kMeasured};
  for (const Figure& figure : figures) {
    if (!figure.joules) return {.cause = figure.cause, .fix = figure.fix};
    if (!CountsInTotals(figure.label)) {
      return {.cause = fmt::format("{} joules must not be in a total", LabelName(figure.label))};
    }
    *sum.joules += *figure.joules;
    sum.uncertainty_joules += figure.uncertainty_joules;
    sum.label = std::max(sum.label, figure.label);
  }
  return sum;
}

Status CheckModel(const PowerModel& model) {
  if (model.name.empty()) return InvalidArgument("a model of power needs a name");
  if (model.source.empty()) {
    return InvalidArgument(
        fmt::format("model {}: its source is missing (a paper, a data sheet)", model.name));
  }
  if (!(model.error_percent >= 0)) {
    return InvalidArgument(
        fmt::format("model {}: the error that its source states is missing", model.name));
  }
  const double parts[] = {model.watts, model.joules_per_cpu_second, model.joules_per_gb};
  for (const double part : parts) {
    if (!std::isfinite(part) || part < 0) {
      return InvalidArgument(
          fmt::format("model {}: powers are finite and not negative", model.name));
    }
  }
  if (std::all_of(std::begin(parts), std::end(parts), [](double part) { return part == 0; })) {
    return InvalidArgument(fmt::format("model {}: it says of nothing what it uses", model.name));
  }
  return OkStatus();
}

Figure ModelledJoules(const PowerModel& model, double seconds, std::optional<double> cpu_seconds,
                      std::optional<double> bytes) {
  const auto lacks = [&](const char* what) {
    return Figure{.cause = fmt::format("model {} is of {}, which are not known", model.name, what)};
  };
  if (model.joules_per_cpu_second > 0 && !cpu_seconds) return lacks("CPU-seconds");
  if (model.joules_per_gb > 0 && !bytes) return lacks("bytes");
  const double joules = model.watts * seconds +
                        model.joules_per_cpu_second * cpu_seconds.value_or(0) +
                        model.joules_per_gb * bytes.value_or(0) / 1e9;
  return {.joules = joules,
          .label = Label::kModelled,
          .uncertainty_joules = joules * model.error_percent / 100,
          .cause = fmt::format("model {} ({}), stated error {:g} %", model.name, model.source,
                               model.error_percent)};
}

Figure AllocatedByCpuTime(const Figure& host, double cpu_seconds, double host_cpu_seconds) {
  if (!host.joules) return {.cause = host.cause, .fix = host.fix};
  if (!CountsInTotals(host.label)) {
    return {.cause = fmt::format("{} joules are not allotted", LabelName(host.label))};
  }
  if (!(cpu_seconds >= 0) || !(host_cpu_seconds > 0) || cpu_seconds > host_cpu_seconds) {
    return {.cause = "CPU times that do not fit each other"};
  }
  const double share = cpu_seconds / host_cpu_seconds;
  return {.joules = *host.joules * share,
          .label = Label::kAllocated,
          .uncertainty_joules = host.uncertainty_joules * share,
          .cause = fmt::format("{:.1f} % of the host's CPU time; an allotment, not a measurement",
                               share * 100)};
}

}  // namespace emlio::energy_analysis
