// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emlio/base/status.h"
#include "emlio/energy_analysis/figure.h"
#include "emlio/energy_analysis/statistics.h"

namespace emlio::energy_analysis {

enum class SaidBy {
  kRuns,  // all together
  kEachNode,
  kComparison,  // those that compare with others only
};

// One thing that a headline must say (ANALYSIS.md, "Headlines").
struct HeadlineField {
  std::string_view group;  // "work", "path", ...
  std::string_view name;   // "dataset"
  std::string_view meaning;
  SaidBy by = SaidBy::kRuns;
  bool is_amount = false;  // begins with a number above 0: "1.28 M", "110 kB"

  std::string key() const;  // "work.dataset"
  bool per_node() const { return by == SaidBy::kEachNode; }
};
std::span<const HeadlineField> HeadlineFields();

using Facts = std::map<std::string, std::string>;  // by HeadlineField::key

struct HeadlineNode {
  std::string name = {};
  Facts facts = {};    // of the fields that each node says
  Facts reasons = {};  // why it does not say others, where that is known
};

struct NamedRatio {
  std::string name = {};  // "net energy", "time", ...
  Ratio ratio;
};

// What a headline's runs are compared with.
struct HeadlineComparison {
  std::string name = {};
  size_t n = 0;  // its runs
  std::vector<NamedRatio> ratios = {};
};

// A figure with everything that it depends on.
struct Headline {
  std::string quantity = {};  // "net energy", "total energy", "net I/O energy"
  Label label = Label::kNone;
  std::string baseline = {};  // "none" or a baseline's name
  bool net = false;
  bool stage = false;                     // of a stage, not of the whole job
  Summary joules = {};                    // of the quantity
  std::optional<Interval> interval = {};  // of its mean
  std::optional<Summary> total_joules = {};
  Summary seconds = {};
  Summary watts = {};
  std::string domains = {};  // "CPU+DRAM+GPU, 1 storage + 2 compute nodes"
  Facts facts = {};
  Facts reasons = {};  // why there is none of others, where that is known
  std::vector<HeadlineNode> nodes = {};
  std::optional<HeadlineComparison> comparison = {};
};

// Everything that is missing, as "work.dataset (what was read)" or "node a: system.cpu (...)", with
// the reason where one is known. A fact that says only "unknown", "n/a", "?", "-", "tbd" or the
// like is missing, and so is an amount that is none; "none" with a reason is a fact.
std::vector<std::string> MissingFields(const Headline& headline);

// The line. kInvalidArgument names every missing field (of thousands the first), or why the figure
// may not stand there: its label, a single run, "I/O energy" of something that is no stage or not
// net.
Result<std::string> HeadlineText(const Headline& headline);

// Every field of a headline that HeadlineText would print: what goes below the line, a text for
// each group ("claim", "work", ...) and, of the group "system", for each set of nodes that say the
// same.
struct HeadlineGroup {
  std::string name = {};
  std::string text = {};
};
std::vector<HeadlineGroup> HeadlineDetail(const Headline& headline);

}  // namespace emlio::energy_analysis
