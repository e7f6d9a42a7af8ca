// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_analysis/headline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "emlio/energy_analysis/numbers.h"

namespace emlio::energy_analysis {
namespace {

constexpr auto kFields = std::to_array<HeadlineField>({
    {"work", "dataset", "its name and version"},
    {"work", "samples", "how many were processed"},
    {"work", "sample_bytes", "their mean size"},
    {"work", "bytes", "that were delivered"},
    {"work", "epochs", "how many"},
    {"work", "model", "that was trained, or none"},
    {"work", "batch", "samples a batch"},
    {"work", "precision", "of training: fp32, bf16, ..., or none"},
    {"path", "rtt", "round-trip time and how it was imposed"},
    {"path", "bandwidth", "of the link, and any cap"},
    {"path", "storage", "the medium"},
    {"path", "cache", "cold or warm"},
    {"software", "loader", "its name"},
    {"software", "version", "or commit"},
    {"software", "configuration", "all of it"},
    {"software", "workers", "how many"},
    {"software", "prefetch", "its depth"},
    {"statistics", "run_ids", "of all runs"},
    {"statistics", "failed", "how many runs failed, and which"},
    {"statistics", "order", "in which runs were made"},
    {"included", "nodes", "all of them, storage too"},
    {"included", "domains", "that are summed"},
    {"included", "absent", "domains that are not, and why"},
    {"included", "switches", "yes or no"},
    {"included", "psu_losses", "yes or no"},
    {"quality", "sources", "of each domain"},
    {"quality", "interval", "between samples"},
    {"quality", "update_period", "of the counters"},
    {"quality", "missing_time", "for which joules are not known"},
    {"quality", "edge_uncertainty", "of the windows"},
    {"quality", "clock_bound", "how far the nodes' clocks may differ"},
    {"quality", "counter_vs_power", "how far counters and integrated power differ"},
    {"quality", "monitor_overhead", "CPU time of the monitor"},
    {"quality", "meter", "validated against a meter, or not"},
    {"system", "cpu", "model", true},
    {"system", "sockets", "how many", true},
    {"system", "memory", "size", true},
    {"system", "gpu", "model and number, or none", true},
    {"system", "nic", "model or speed", true},
    {"system", "kernel", "its version", true},
    {"system", "driver", "of the GPU, or none", true},
    {"system", "governor", "of CPU frequencies", true},
    {"system", "turbo", "on or off", true},
    {"system", "gpu_power_limit", "in W, or none", true},
    {"system", "environment", "bare metal, container or virtual machine", true},
});

constexpr size_t kMaxNamed = 500;  // of what is missing: there may be thousands of nodes

bool IsSaid(const Facts& facts, const std::string& key) {
  constexpr std::array<std::string_view, 6> kNothing = {"", "unknown", "n/a", "?", "-", "null"};
  const auto it = facts.find(key);
  return it != facts.end() &&
         std::find(kNothing.begin(), kNothing.end(), it->second) == kNothing.end();
}

std::string Said(const Facts& facts, std::string_view key) {
  const auto it = facts.find(std::string(key));
  return it == facts.end() ? "" : it->second;
}

std::string WithDeviation(const Summary& summary, const std::string& unit) {
  return WithSpread(summary.mean, summary.sd, unit);
}

}  // namespace

std::string HeadlineField::key() const { return fmt::format("{}.{}", group, name); }

std::span<const HeadlineField> HeadlineFields() { return kFields; }

std::vector<std::string> MissingFields(const Headline& headline) {
  std::vector<std::string> missing;
  const auto require = [&](bool said, std::string_view what) {
    if (!said) missing.emplace_back(what);
  };
  require(!headline.quantity.empty(), "claim.quantity (what was measured)");
  require(headline.label != Label::kNone, "claim.label (joules: there are none)");
  require(!headline.baseline.empty(), "claim.baseline (which one, or none)");
  require(headline.joules.n >= 2, "statistics.n (two runs or more)");
  require(headline.seconds.n >= 1, "statistics.time (of the same runs)");
  require(!headline.net || headline.total_joules.has_value(), "claim.total (beside what is net)");
  require(!headline.nodes.empty(), "system (no node is described)");
  for (const HeadlineField& field : kFields) {
    if (!field.per_node) {
      if (!IsSaid(headline.facts, field.key())) {
        missing.push_back(fmt::format("{} ({})", field.key(), field.meaning));
      }
      continue;
    }
    for (const HeadlineNode& node : headline.nodes) {
      if (IsSaid(node.facts, field.key())) continue;
      missing.push_back(fmt::format("node {}: {} ({})", node.name, field.key(), field.meaning));
    }
  }
  return missing;
}

Result<std::string> HeadlineText(const Headline& headline) {
  if (headline.label == Label::kNone) return InvalidArgument("no headline: there are no joules");
  if (!CountsInTotals(headline.label)) {
    return InvalidArgument(
        fmt::format("no headline: {} joules are not measured ones", LabelName(headline.label)));
  }
  if (headline.quantity.find("I/O energy") != std::string::npos &&
      !(headline.stage && headline.net)) {
    return InvalidArgument(
        "no headline: \"I/O energy\" is the net energy of a stage and nothing else");
  }
  if (auto missing = MissingFields(headline); !missing.empty()) {
    if (const size_t all = missing.size(); all > kMaxNamed) {
      missing.resize(kMaxNamed);
      missing.push_back(fmt::format("and {} more", all - kMaxNamed));
    }
    return InvalidArgument(fmt::format("no headline: it lacks {}", fmt::join(missing, "; ")));
  }
  std::string line = fmt::format(
      "{} {} (sd, n={}; {}; {}; {})", headline.quantity, WithDeviation(headline.joules, "J"),
      headline.joules.n, LabelName(headline.label), headline.domains,
      headline.baseline == "none" ? "no baseline subtracted"
                                  : fmt::format("minus {} baseline", headline.baseline));
  if (headline.net) line += fmt::format(" · total {}", WithDeviation(*headline.total_joules, "J"));
  line +=
      fmt::format(" · {} · mean {} · {}, {} × {}, {}, batch {} · RTT {} · {} · {}",
                  WithDeviation(headline.seconds, "s"), WithUnit(headline.watts.mean, "W"),
                  Said(headline.facts, "work.dataset"), Said(headline.facts, "work.samples"),
                  Said(headline.facts, "work.sample_bytes"), Said(headline.facts, "work.model"),
                  Said(headline.facts, "work.batch"), Said(headline.facts, "path.rtt"),
                  Said(headline.facts, "path.bandwidth"), Said(headline.facts, "quality.meter"));
  return line;
}

}  // namespace emlio::energy_analysis
