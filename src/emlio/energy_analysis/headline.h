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

// One thing that a headline must say (ANALYSIS.md, "Headlines"). `per_node`: each node says it.
struct HeadlineField {
  std::string_view group;  // "work", "path", ...
  std::string_view name;   // "dataset"
  std::string_view meaning;
  bool per_node = false;

  std::string key() const;  // "work.dataset"
};
std::span<const HeadlineField> HeadlineFields();

using Facts = std::map<std::string, std::string>;  // by HeadlineField::key

struct HeadlineNode {
  std::string name = {};
  Facts facts = {};  // of the fields that each node says
};

// A figure with everything that it depends on.
struct Headline {
  std::string quantity = {};  // "net energy", "total energy", "net I/O energy"
  Label label = Label::kNone;
  std::string baseline = {};  // "none" or a baseline's name
  bool net = false;
  bool stage = false;   // of a stage, not of the whole job
  Summary joules = {};  // of the quantity
  std::optional<Summary> total_joules = {};
  Summary seconds = {};
  Summary watts = {};
  std::string domains = {};  // "CPU+DRAM+GPU, 1 storage + 2 compute nodes"
  Facts facts = {};
  std::vector<HeadlineNode> nodes = {};
};

// Everything that is missing, as "work.dataset (what was read)" or "node a: system.cpu (...)". A
// fact that is only "unknown", "n/a", "?" or "-" is missing; "none" with a reason is a fact.
std::vector<std::string> MissingFields(const Headline& headline);

// The line. kInvalidArgument names every missing field (of thousands the first), or why the figure
// may not stand there: its label, a single run, "I/O energy" of something that is no stage or not
// net.
Result<std::string> HeadlineText(const Headline& headline);

}  // namespace emlio::energy_analysis
