// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "emlio/base/nanoseconds.h"
#include "emlio/energy_analysis/statistics.h"

// Numbers as people read them. None has more digits than it can support.
namespace emlio::energy_analysis {

// Three significant digits and a prefix of 1000 (not with %): "41.2 kJ", "-2.61 kJ", "0 J", "n/a".
std::string WithUnit(std::optional<double> value, const std::string& unit);
inline std::string JoulesText(std::optional<double> joules) { return WithUnit(joules, "J"); }
// "100 ms".
inline std::string NanosecondsText(int64_t ns) { return WithUnit(Seconds(ns), "s"); }
// "41.2 ± 1.9 kJ": both in the unit of the larger one, to the place of the second digit of the
// spread, but no more than two places finer than three digits of the value: "143.00 ± < 0.01 W".
// `spread` none: "41.2 kJ".
std::string WithSpread(double value, std::optional<double> spread, const std::string& unit);
// With the half width of the interval of 95 %: "41.2 ± 1.9 kJ", "41.2 kJ (no interval)" for one
// run.
std::string EstimateText(const Estimate& estimate, const std::string& unit);
// "2.41 (95 %: 2.20 to 2.66)", "2.41 (no interval)".
std::string RatioText(const Ratio& ratio);
// "312 s", "0.120 s": always in seconds.
std::string SecondsText(double seconds);

// An amount as people write it, the other way round: "1000", "1.28 M", "1,281,167", "110 kB",
// "1.5 GiB". `rest`: what follows the number and was not understood ("per GPU"). Nothing where it
// does not begin with a finite number above 0.
struct Amount {
  double value = 0;
  std::string rest = {};
};
std::optional<Amount> AmountOf(std::string_view text);

}  // namespace emlio::energy_analysis
