// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_sinks/exposition.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "emlio/base/nanoseconds.h"

namespace emlio::energy_sinks {
namespace {

using energy::Domain;
using energy::DomainKind;
using energy::Sample;
using Label = std::pair<std::string_view, std::string_view>;

std::string Escaped(std::string_view value) {
  std::string out;
  for (const char byte : value) {
    if (byte == '\n') {
      out += "\\n";
      continue;
    }
    if (byte == '\\' || byte == '"') out += '\\';
    out += byte;
  }
  return out;
}

std::string Labels(std::initializer_list<Label> labels) {
  std::string out;
  for (const auto& [name, value] : labels) {
    out += fmt::format("{}{}=\"{}\"", out.empty() ? "" : ",", name, Escaped(value));
  }
  return "{" + out + "}";
}

class Text {
 public:
  void Head(std::string_view name, std::string_view type, std::string_view help) {
    fmt::format_to(std::back_inserter(text_), "# HELP {} {}\n# TYPE {} {}\n", name, help, name,
                   type);
  }
  void Value(std::string_view name, const std::string& labels, double value) {
    fmt::format_to(std::back_inserter(text_), "{}{} {}\n", name, labels, value);
  }
  std::string text_;
};

// What the domain is. It changes only with the host, so that it may be a label of a counter.
std::string Of(const std::string& node, const Domain& domain) {
  return Labels({{"node", node},
                 {"domain", domain.id},
                 {"kind", energy::KindName(domain.kind)},
                 {"source", domain.source},
                 {"device", domain.device}});
}

// The labels of METRICS.md section 5 that are known before a window is.
std::string_view StateOf(const Domain& domain) {
  if (!domain.cause.empty()) return "unavailable";
  if (domain.shared) return energy::StateName(energy::State::kShared);
  if (domain.virtualised) return "virtualised";
  return domain.quantity == energy::Quantity::kPower ? "integrated" : "measured";
}

std::string EmlioText(const std::string& node, std::span<const Domain> domains,
                      std::span<const Sample> samples, std::span<const energy::SinkReport> sinks) {
  Text out;
  const auto counter = [&](std::string_view name, std::string_view help, const auto& wanted,
                           const auto& value) {
    out.Head(name, "counter", help);
    for (size_t i = 0; i < samples.size(); ++i) {
      // What nobody can read has no number.
      if (!domains[i].cause.empty() || !wanted(domains[i])) continue;
      out.Value(name, Of(node, domains[i]), value(samples[i]));
    }
  };
  const auto all = [](const Domain&) { return true; };
  counter(
      "emlio_energy_joules_total", "Energy used, of domains that do not overlap.",
      [](const Domain& d) { return d.in_total; }, [](const Sample& s) { return s.joules; });
  counter(
      "emlio_energy_overlapping_joules_total",
      "Energy used, of domains that lie inside or around others: never to be added.",
      [](const Domain& d) { return !d.in_total; }, [](const Sample& s) { return s.joules; });
  counter("emlio_energy_void_seconds_total", "Time for which joules are not known.", all,
          [](const Sample& s) { return Seconds(s.void_ns); });
  counter("emlio_energy_wraps_total", "Wraps of the counter.", all,
          [](const Sample& s) { return s.wraps; });
  counter("emlio_energy_resets_total", "Times that the counter began anew.", all,
          [](const Sample& s) { return s.resets; });
  counter("emlio_energy_gaps_total", "Times that readings failed.", all,
          [](const Sample& s) { return s.gaps; });
  counter("emlio_energy_stalls_total", "Times that the counter stood still.", all,
          [](const Sample& s) { return s.stalls; });
  counter("emlio_energy_ambiguous_total", "Readings that came too late to tell what was used.", all,
          [](const Sample& s) { return s.ambiguous; });

  out.Head("emlio_energy_source_info", "gauge",
           "Where a domain is read, what its figures are, and why there are none.");
  for (const Domain& d : domains) {
    out.Value("emlio_energy_source_info",
              Labels({{"node", node},
                      {"domain", d.id},
                      {"kind", energy::KindName(d.kind)},
                      {"source", d.source},
                      {"device", d.device},
                      {"state", StateOf(d)},
                      {"in_total", d.in_total ? "yes" : "no"},
                      {"cause", d.cause},
                      {"fix", d.fix}}),
              1);
  }
  if (!sinks.empty()) {
    const auto points = [&](std::string_view name, std::string_view help,
                            int64_t energy::SinkReport::* const count) {
      out.Head(name, "counter", help);
      for (const energy::SinkReport& sink : sinks) {
        out.Value(name, Labels({{"node", node}, {"sink", sink.sink}, {"target", sink.target}}),
                  static_cast<double>(sink.*count));
      }
    };
    points("emlio_energy_sink_points_total", "Points that a database took.",
           &energy::SinkReport::points_sent);
    points("emlio_energy_sink_refused_points_total", "Points that a database refused.",
           &energy::SinkReport::points_refused);
    points("emlio_energy_sink_dropped_points_total", "Points that could not wait for a database.",
           &energy::SinkReport::points_dropped);
    points("emlio_energy_sink_retries_total", "Requests that were sent again.",
           &energy::SinkReport::retries);
  }
  return std::move(out.text_);
}

// The semantic conventions' hw.type; they have none for a whole superchip.
std::string_view HardwareType(DomainKind kind) {
  switch (kind) {
    case DomainKind::kDram:
      return "memory";
    case DomainKind::kGpu:
    case DomainKind::kModule:
      return "gpu";
    default:
      return "cpu";
  }
}

std::string OpenTelemetryText(const std::string& node, std::span<const Domain> domains,
                              std::span<const Sample> samples) {
  Text out;
  // Domains outside the total lie in others: adding up hw.energy has to make sense.
  out.Head("hw_energy_joules_total", "counter", "Energy consumed by the component.");
  double host = 0;
  bool has_cpu = false;
  bool whole = true;
  for (size_t i = 0; i < samples.size(); ++i) {
    const Domain& domain = domains[i];
    if (!domain.in_total) continue;
    if (!domain.cause.empty()) {
      // Memory is counted or it is not; what else is there and cannot be read is missing.
      whole &= domain.source.empty() && domain.kind == DomainKind::kDram;
      continue;
    }
    has_cpu |= domain.kind != DomainKind::kDram && domain.kind != DomainKind::kGpu;
    host += samples[i].joules;
    out.Value(
        "hw_energy_joules_total",
        Labels({{"hw_id", domain.id}, {"hw_type", HardwareType(domain.kind)}, {"host_name", node}}),
        samples[i].joules);
  }
  if (has_cpu && whole) {
    out.Head("hw_host_energy_joules_total", "counter",
             "Total energy consumed by the host's components.");
    out.Value("hw_host_energy_joules_total", Labels({{"host_name", node}}), host);
  }
  return std::move(out.text_);
}

}  // namespace

Result<MetricNames> ParseMetricNames(std::string_view name) {
  if (name == "emlio") return MetricNames::kEmlio;
  if (name == "opentelemetry") return MetricNames::kOpenTelemetry;
  return InvalidArgument(fmt::format("'{}' are no names of metrics: emlio or opentelemetry", name));
}

std::string ExpositionText(MetricNames names, const std::string& node,
                           std::span<const Domain> domains, std::span<const Sample> samples,
                           std::span<const energy::SinkReport> sinks) {
  return names == MetricNames::kEmlio ? EmlioText(node, domains, samples, sinks)
                                      : OpenTelemetryText(node, domains, samples);
}

}  // namespace emlio::energy_sinks
