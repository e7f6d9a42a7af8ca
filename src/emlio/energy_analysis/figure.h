// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "emlio/base/status.h"
#include "emlio/energy/recorder.h"

namespace emlio::energy_analysis {

// What a number is (ANALYSIS.md, "Labels"), the better founded first.
enum class Label {
  kMeasured,
  kIntegrated,
  kDerived,
  kWholeDevice,
  kVirtualised,
  kAllocated,
  kModelled,
  kProxy,
  kNone,
};
// "measured", ..., "n/a".
std::string_view LabelName(Label label);
Label LabelOf(energy::State state);
// Whether such joules may be added to others and stand in a ratio or a headline: they were
// measured, not allotted or modelled.
bool CountsInTotals(Label label);

// Joules with what they are. `joules` is none exactly when the label is kNone.
struct Figure {
  std::optional<double> joules = std::nullopt;
  Label label = Label::kNone;
  double uncertainty_joules = 0;  // of window edges and integration, not of scatter between runs
  std::string cause = {};         // why there are none, or what to know about them
  std::string fix = {};
};
// "41.2 kJ (measured)", "n/a (no counter)".
std::string FigureText(const Figure& figure);

// The sum, with the least founded label. A figure without joules, or whose label must not count,
// makes it n/a with that cause: never smaller.
Figure SumOf(std::span<const Figure> figures);

// A model of power that the user names (no other is in the program): E37.
struct PowerModel {
  std::string name = {};
  std::string source = {};    // where its numbers come from: a paper, a data sheet
  double error_percent = -1;  // as that source states it
  double watts = 0;           // drawn all the time
  double joules_per_cpu_second = 0;
  double joules_per_gb = 0;
};
// kInvalidArgument names what is missing.
Status CheckModel(const PowerModel& model);
// kModelled, with the stated error; its cause names model and source. n/a when the model is of
// something that was not counted. REQUIRES: CheckModel is ok.
Figure ModelledJoules(const PowerModel& model, double seconds, std::optional<double> cpu_seconds,
                      std::optional<double> bytes);

// A share of measured joules by CPU time: kAllocated (E23). n/a when either is not known.
Figure AllocatedByCpuTime(const Figure& host, double cpu_seconds, double host_cpu_seconds);

}  // namespace emlio::energy_analysis
