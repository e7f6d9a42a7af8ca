// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_analysis/headline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "emlio/energy_analysis/numbers.h"

namespace emlio::energy_analysis {
namespace {

constexpr auto kFields = std::to_array<HeadlineField>({
    {"work", "dataset", "its name and version"},
    {"work", "samples", "how many were processed", SaidBy::kRuns, true},
    {"work", "sample_bytes", "their mean size", SaidBy::kRuns, true},
    {"work", "bytes", "that were delivered", SaidBy::kRuns, true},
    {"work", "epochs", "how many", SaidBy::kRuns, true},
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
    {"comparison", "loader", "name and version of what is compared with", SaidBy::kComparison},
    {"comparison", "tuning", "how that was tuned", SaidBy::kComparison},
    {"system", "cpu", "model", SaidBy::kEachNode},
    {"system", "sockets", "how many", SaidBy::kEachNode},
    {"system", "memory", "size", SaidBy::kEachNode},
    {"system", "gpu", "model and number, or none", SaidBy::kEachNode},
    {"system", "nic", "model or speed", SaidBy::kEachNode},
    {"system", "kernel", "its version", SaidBy::kEachNode},
    {"system", "driver", "of the GPU, or none", SaidBy::kEachNode},
    {"system", "governor", "of CPU frequencies", SaidBy::kEachNode},
    {"system", "turbo", "on or off", SaidBy::kEachNode},
    {"system", "gpu_power_limit", "in W, or none", SaidBy::kEachNode},
    {"system", "environment", "bare metal, container or virtual machine", SaidBy::kEachNode},
});

constexpr size_t kMaxNamed = 500;  // of what is missing: there may be thousands of nodes

bool IsSaid(const Facts& facts, const std::string& key) {
  constexpr std::array<std::string_view, 6> kNothing = {"unknown", "na",   "null",
                                                        "tbd",     "todo", "notknown"};
  const auto it = facts.find(key);
  if (it == facts.end()) return false;
  // However it is written: letters and digits alone, and what has none says nothing.
  std::string text;
  for (const char c : it->second) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80 || std::isalnum(byte) != 0) text += static_cast<char>(std::tolower(byte));
  }
  return !text.empty() && std::find(kNothing.begin(), kNothing.end(), text) == kNothing.end();
}

// "system.cpu (model)", with the reason where one is known.
std::string Lacking(const HeadlineField& field, const Facts& reasons) {
  const auto reason = reasons.find(field.key());
  return fmt::format("{} ({}{})", field.key(), field.meaning,
                     reason == reasons.end() ? "" : "; " + reason->second);
}

std::string Said(const Facts& facts, std::string_view key) {
  const auto it = facts.find(std::string(key));
  return it == facts.end() ? "" : it->second;
}

// "ratios to another loader (n=5): net energy 0.50 (95 %: 0.48 to 0.52), ...".
std::string ComparisonText(const HeadlineComparison& comparison) {
  std::vector<std::string> ratios;
  for (const NamedRatio& ratio : comparison.ratios) {
    ratios.push_back(fmt::format("{} {}", ratio.name, RatioText(ratio.ratio)));
  }
  return fmt::format("ratios to {} (n={}): {}", comparison.name, comparison.n,
                     fmt::join(ratios, ", "));
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
  require(headline.interval.has_value(), "statistics.interval (of 95 %)");
  require(headline.seconds.n >= 1, "statistics.time (of the same runs)");
  require(!headline.net || headline.total_joules.has_value(), "claim.total (beside what is net)");
  require(!headline.nodes.empty(), "system (no node is described)");
  if (headline.comparison) {
    for (const NamedRatio& ratio : headline.comparison->ratios) {
      require(ratio.ratio.interval.has_value(),
              fmt::format("comparison.interval (of 95 %, of the ratio of {})", ratio.name));
    }
    require(!headline.comparison->ratios.empty(), "comparison.ratios (of energy, time and power)");
  }
  for (const HeadlineField& field : kFields) {
    if (field.by == SaidBy::kComparison && !headline.comparison) continue;
    if (field.by != SaidBy::kEachNode) {
      if (!IsSaid(headline.facts, field.key())) {
        missing.push_back(Lacking(field, headline.reasons));
      } else if (const std::string& text = headline.facts.at(field.key());
                 field.is_amount && !AmountOf(text)) {
        missing.push_back(fmt::format("{} ({}; '{}' does not begin with a number above 0)",
                                      field.key(), field.meaning, text));
      }
      continue;
    }
    for (const HeadlineNode& node : headline.nodes) {
      if (IsSaid(node.facts, field.key())) continue;
      missing.push_back(fmt::format("node {}: {}", node.name, Lacking(field, node.reasons)));
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
  if (headline.comparison) line += " · " + ComparisonText(*headline.comparison);
  return line;
}

std::vector<HeadlineGroup> HeadlineDetail(const Headline& headline) {
  std::vector<HeadlineGroup> groups;
  groups.push_back({"claim", fmt::format("quantity: {}; unit: J; label: {}; {}; baseline: {}",
                                         headline.quantity, LabelName(headline.label),
                                         headline.net ? "net" : "total", headline.baseline)});
  const auto text_of = [](const Facts& facts, std::string_view group) {
    std::string text;
    for (const HeadlineField& field : kFields) {
      if (field.group != group || !facts.contains(field.key())) continue;
      text +=
          fmt::format("{}{}: {}", text.empty() ? "" : "; ", field.name, Said(facts, field.key()));
    }
    return text;
  };
  std::vector<std::string_view> names;
  for (const HeadlineField& field : kFields) {
    const bool left_out =
        field.by == SaidBy::kEachNode || (field.by == SaidBy::kComparison && !headline.comparison);
    if (!left_out && (names.empty() || names.back() != field.group)) names.push_back(field.group);
  }
  for (const std::string_view name : names) {
    std::string text = text_of(headline.facts, name);
    if (name == "statistics") {
      text = fmt::format(
          "n: {}; mean: {}; sd: {}; 95 %: {} to {}; {}", headline.joules.n,
          WithUnit(headline.joules.mean, "J"), WithUnit(headline.joules.sd, "J"),
          WithUnit(headline.interval ? std::optional(headline.interval->low) : std::nullopt, "J"),
          WithUnit(headline.interval ? std::optional(headline.interval->high) : std::nullopt, "J"),
          text);
    } else if (name == "comparison") {
      text += "; " + ComparisonText(*headline.comparison);
    }
    groups.push_back({std::string(name), std::move(text)});
  }
  // Nodes that say the same, in the order of the first of them.
  std::vector<std::string> order;
  std::map<std::string, std::vector<std::string>> nodes;
  for (const HeadlineNode& node : headline.nodes) {
    std::string text = text_of(node.facts, "system");
    auto& same = nodes[text];
    if (same.empty()) order.push_back(std::move(text));
    same.push_back(node.name);
  }
  for (const std::string& text : order) {
    groups.push_back({"system", fmt::format("{}: {}", fmt::join(nodes[text], ", "), text)});
  }
  return groups;
}

}  // namespace emlio::energy_analysis
