// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_sinks/line_protocol.h"

#include <fmt/format.h>

#include <iterator>
#include <string_view>
#include <utility>

namespace emlio::energy_sinks {
namespace {

// A tag's value. There is no way to write a line's end, and none to end a value with a backslash.
std::string Escaped(std::string_view value) {
  std::string out;
  for (const char byte : value) {
    if (static_cast<unsigned char>(byte) < 0x20 || byte == '\\') {
      out += '_';
      continue;
    }
    if (byte == ',' || byte == '=' || byte == ' ') out += '\\';
    out += byte;
  }
  return out;
}

}  // namespace

LineWriter::LineWriter(const std::string& run, const std::string& node,
                       std::vector<energy::Domain> domains)
    : domains_(std::move(domains)), published_(domains_.size()) {
  for (const energy::Domain& domain : domains_) {
    std::string series = "emlio_energy";
    // Sorted by name. A tag without a value would not be one.
    for (const auto& [name, value] :
         {std::pair<std::string_view, std::string_view>{"device", domain.device},
          {"domain", domain.id},
          {"in_total", domain.in_total ? "yes" : "no"},
          {"kind", energy::KindName(domain.kind)},
          {"node", node},
          {"run", run},
          {"source", domain.source}}) {
      if (!value.empty()) series += fmt::format(",{}={}", name, Escaped(value));
    }
    series_.push_back(std::move(series));
  }
}

void LineWriter::Write(int64_t wall_ns, std::span<const energy::Sample> samples,
                       std::string* lines) {
  for (size_t i = 0; i < domains_.size(); ++i) {
    const energy::Sample& sample = samples[i];
    const Published published = published_[i].Next(domains_[i], sample);
    auto out = std::back_inserter(*lines);
    fmt::format_to(out, "{} ", series_[i]);
    if (published.delta_j) fmt::format_to(out, "delta_j={:.6f},", *published.delta_j);
    if (published.energy_uj) fmt::format_to(out, "energy_uj={}i,", *published.energy_uj);
    if (domains_[i].cause.empty()) {
      fmt::format_to(out, "ambiguous={}i,gaps={}i,resets={}i,stalls={}i,void_ns={}i,wraps={}i,",
                     sample.ambiguous, sample.gaps, sample.resets, sample.stalls, sample.void_ns,
                     sample.wraps);
    }
    fmt::format_to(out, "state=\"{}\" {}\n", published.state, wall_ns / 1000);
  }
}

}  // namespace emlio::energy_sinks
