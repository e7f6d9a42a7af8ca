// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "energy_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "console.h"
#include "text.h"

namespace emlio::tool {
namespace {

using nlohmann::ordered_json;

double Seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

template <typename T>
ordered_json OrNull(const std::optional<T>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

std::optional<double> MeanWatts(const std::optional<double>& joules, double seconds) {
  if (!joules || seconds <= 0) return std::nullopt;
  return *joules / seconds;
}

// Joules are of the time for which they are known, and so is their mean power.
std::optional<double> MeanWatts(const energy::Energy& energy, double seconds) {
  return MeanWatts(energy.joules, seconds - Seconds(energy.void_ns));
}

std::string WithPrefix(double value, std::string_view unit) {
  static constexpr std::pair<double, std::string_view> kPrefixes[] = {
      {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}, {1e-3, "m"}};
  for (const auto& [factor, prefix] : kPrefixes) {
    if (std::abs(value) < factor) continue;
    const double scaled = value / factor;
    const int decimals = std::abs(scaled) >= 99.95 ? 1 : std::abs(scaled) >= 9.995 ? 2 : 3;
    return fmt::format("{:.{}f} {}{}", scaled, decimals, prefix, unit);
  }
  // What is not 0 does not read 0.
  return value > 0 ? fmt::format("< 1 m{}", unit) : fmt::format("{:.3f} {}", value, unit);
}

}  // namespace

ordered_json DomainJson(const energy::Domain& domain) {
  ordered_json json = {
      {"id", domain.id},
      {"kind", energy::KindName(domain.kind)},
      {"source", domain.source.empty() ? ordered_json(nullptr) : ordered_json(domain.source)},
      {"detail", domain.detail},
      {"in_total", domain.in_total},
  };
  if (!domain.outside_total.empty()) json["outside_total"] = domain.outside_total;
  if (!domain.device.empty()) json["device"] = domain.device;
  if (!domain.pci.empty()) json["pci"] = domain.pci;
  if (domain.socket >= 0) json["socket"] = domain.socket;
  if (domain.die >= 0) json["die"] = domain.die;
  if (domain.filtered) json["filtered"] = true;
  if (domain.update_period_ns > 0) {
    json["update_period_ms"] = Seconds(domain.update_period_ns) * 1000;
  }
  if (!domain.facts.empty()) {
    for (const auto& [key, value] : domain.facts) json["facts"][key] = value;
  }
  return json;
}

ordered_json EnergyJson(const energy::Domain& domain, const energy::Energy& energy,
                        double seconds) {
  ordered_json json = DomainJson(domain);
  json["state"] = energy::StateName(energy.state);
  json["joules"] = OrNull(energy.joules);
  json["uncertainty_joules"] =
      energy.joules ? ordered_json(energy.uncertainty_joules) : ordered_json(nullptr);
  json["mean_watts"] = OrNull(MeanWatts(energy, seconds));
  json["void_s"] = Seconds(energy.void_ns);
  for (const auto& [name, count] : {std::pair{"wraps", energy.wraps},
                                    {"resets", energy.resets},
                                    {"gaps", energy.gaps},
                                    {"stalls", energy.stalls},
                                    {"ambiguous", energy.ambiguous}}) {
    if (count > 0) json[name] = count;
  }
  if (!energy.cause.empty()) json["cause"] = energy.cause;
  if (!energy.fix.empty()) json["fix"] = energy.fix;
  return json;
}

ordered_json TotalJson(const energy::Total& total, double seconds) {
  return {
      {"state", energy::StateName(total.state)},
      {"joules", OrNull(total.joules)},
      {"uncertainty_joules",
       total.joules ? ordered_json(total.uncertainty_joules) : ordered_json(nullptr)},
      {"mean_watts", OrNull(MeanWatts(total.joules, seconds))},
      {"domains", total.domains},
      {"missing", total.missing},
      {"without", total.without},
  };
}

ordered_json WindowJson(const std::vector<energy::Domain>& domains,
                        const energy::WindowReport& window) {
  const double seconds = Seconds(window.end_ns - window.begin_ns);
  ordered_json json = {{"name", window.label.name}};
  if (!window.label.stage.empty()) json["stage"] = window.label.stage;
  if (window.label.epoch >= 0) json["epoch"] = window.label.epoch;
  if (window.label.rank >= 0) json["rank"] = window.label.rank;
  if (window.work.records > 0) json["records"] = window.work.records;
  if (window.work.bytes > 0) json["bytes"] = window.work.bytes;
  json["begin_monotonic_ns"] = window.begin_ns;
  json["seconds"] = seconds;
  if (window.cut) json["cut"] = true;
  json["total"] = TotalJson(window.total, seconds);
  ordered_json energies = ordered_json::array();
  for (size_t i = 0; i < domains.size(); ++i) {
    energies.push_back(EnergyJson(domains[i], window.energies[i], seconds));
  }
  json["domains"] = std::move(energies);
  return json;
}

ordered_json AbsentJson(const std::vector<energy::Absence>& absent) {
  ordered_json json = ordered_json::array();
  for (const energy::Absence& absence : absent) {
    ordered_json one = {{"source", absence.source}, {"cause", absence.cause}};
    if (!absence.fix.empty()) one["fix"] = absence.fix;
    json.push_back(std::move(one));
  }
  return json;
}

ordered_json CpuJson(const energy::CpuFacts& cpu) {
  using Filtering = energy::CpuFacts::Filtering;
  return {{"amd", cpu.amd},
          {"hypervisor", cpu.hypervisor},
          {"energy_filtering", cpu.filtering == Filtering::kOn    ? "on"
                               : cpu.filtering == Filtering::kOff ? "off"
                                                                  : "unknown"}};
}

ordered_json SamplerJson(const energy::SamplerStats& stats) {
  return {
      {"ticks", stats.ticks},
      {"late", stats.late},
      {"missed", stats.missed},
      {"clock_steps", stats.clock_steps},
      {"clock_step_s", Seconds(stats.clock_step_ns)},
      {"late_p50_ms", Seconds(stats.late_p50_ns) * 1000},
      {"late_p99_ms", Seconds(stats.late_p99_ns) * 1000},
      {"late_max_ms", Seconds(stats.late_max_ns) * 1000},
      {"cpu_s", Seconds(stats.cpu_ns)},
      {"elapsed_s", Seconds(stats.elapsed_ns)},
      {"cpu_share", stats.cpu_share()},
  };
}

ordered_json ActivityJson(const energy::Activity& activity) {
  return {
      {"host_cpu_s", OrNull(activity.cpu_seconds)},
      {"gpu_s", OrNull(activity.gpu_seconds)},
      {"network_received_bytes", OrNull(activity.network_received_bytes)},
      {"network_sent_bytes", OrNull(activity.network_sent_bytes)},
      {"storage_read_bytes", OrNull(activity.storage_read_bytes)},
      {"storage_written_bytes", OrNull(activity.storage_written_bytes)},
  };
}

std::string FormatJoules(const std::optional<double>& joules) {
  return joules ? WithPrefix(*joules, "J") : "n/a";
}

std::string FormatWatts(const std::optional<double>& watts) {
  return watts ? WithPrefix(*watts, "W") : "n/a";
}

std::string EnergyTable(const std::vector<energy::Domain>& domains,
                        std::span<const energy::Energy> energies, const energy::Total& total,
                        double seconds) {
  Table table({{"domain"}, {"source"}, {"energy", true}, {"+-", true}, {"mean", true}, {"state"}});
  const auto row = [&](const std::string& id, const std::string& source,
                       const std::optional<double>& joules, double uncertainty,
                       const std::optional<double>& watts, std::string state) {
    table.AddRow({id, source, FormatJoules(joules), joules ? FormatJoules(uncertainty) : "",
                  FormatWatts(watts), std::move(state)});
  };
  // What several domains have in common is said once.
  std::vector<std::pair<std::string, std::vector<std::string>>> remarks;
  const auto remark = [&](const std::string& text, const std::string& id) {
    for (auto& [known, ids] : remarks) {
      if (known == text) return ids.push_back(id);
    }
    remarks.push_back({text, {id}});
  };
  for (size_t i = 0; i < domains.size(); ++i) {
    const energy::Domain& domain = domains[i];
    const energy::Energy& energy = energies[i];
    std::string state(energy::StateName(energy.state));
    if (!domain.in_total) state += ", not in the total";
    row(domain.id, domain.source.empty() ? "-" : domain.source, energy.joules,
        energy.uncertainty_joules, MeanWatts(energy, seconds), state);
    if (!energy.cause.empty()) {
      std::string text = energy.cause;
      if (!energy.fix.empty() && !energy.joules) text += "\nfix: " + energy.fix;
      remark(text, domain.id);
    }
  }
  row("total", "", total.joules, total.uncertainty_joules, MeanWatts(total.joules, seconds),
      std::string(energy::StateName(total.state)));
  std::string text = table.Render(OutputColumns());
  if (!total.missing.empty()) {
    remark("no joules, so that there is no total",
           fmt::format("{}", fmt::join(total.missing, ", ")));
  }
  if (!total.without.empty() && total.joules) {
    remark("nothing on this host counts it: the total is without it",
           fmt::format("{}", fmt::join(total.without, ", ")));
  }
  for (const auto& [cause, ids] : remarks) {
    text += WrapWords(fmt::format("{}: {}", fmt::join(ids, ", "), cause), 2, OutputColumns());
  }
  return text;
}

std::string WindowsTable(const std::vector<energy::WindowReport>& windows, energy::WindowId whole) {
  constexpr size_t kShown = 20;
  Table table({{"window"},
               {"epoch", true},
               {"time", true},
               {"energy", true},
               {"+-", true},
               {"mean", true},
               {"state"}});
  size_t rows = 0;
  for (const energy::WindowReport& window : windows) {
    if (window.id == whole || rows++ >= kShown) continue;
    const double seconds = Seconds(window.end_ns - window.begin_ns);
    const energy::Total& total = window.total;
    const auto& label = window.label;
    table.AddRow({Printable(label.stage.empty() ? label.name : label.stage + " " + label.name),
                  label.epoch >= 0 ? std::to_string(label.epoch) : "",
                  fmt::format("{:.3f} s", seconds), FormatJoules(total.joules),
                  total.joules ? FormatJoules(total.uncertainty_joules) : "",
                  FormatWatts(MeanWatts(total.joules, seconds)),
                  std::string(energy::StateName(total.state))});
  }
  if (rows == 0) return "";
  std::string text = table.Render(OutputColumns());
  if (rows > kShown) text += fmt::format("  ... and {} more\n", rows - kShown);
  return text;
}

std::string ActivityTable(const energy::Activity& activity,
                          const std::optional<double>& command_cpu_seconds) {
  Table table({{"proxy, not energy"}, {"amount", true}});
  const auto seconds = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.2f} s", *value) : std::string("n/a");
  };
  const auto bytes = [](const std::optional<uint64_t>& value) {
    return value ? FormatBytes(static_cast<double>(*value)) : std::string("n/a");
  };
  if (command_cpu_seconds) table.AddRow({"CPU time of the command", seconds(command_cpu_seconds)});
  table.AddRow({"CPU time of the host", seconds(activity.cpu_seconds)});
  table.AddRow({"GPU time", seconds(activity.gpu_seconds)});
  table.AddRow({"network but loopback, received", bytes(activity.network_received_bytes)});
  table.AddRow({"network but loopback, sent", bytes(activity.network_sent_bytes)});
  table.AddRow({"storage, read", bytes(activity.storage_read_bytes)});
  table.AddRow({"storage, written", bytes(activity.storage_written_bytes)});
  return table.Render(OutputColumns());
}

}  // namespace emlio::tool
