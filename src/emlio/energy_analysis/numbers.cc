// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_analysis/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

namespace emlio::energy_analysis {
namespace {

struct Prefix {
  double factor;
  const char* letter;
};

Prefix PrefixFor(double magnitude, const std::string& unit) {
  if (unit == "%") return {1, ""};
  // 999.6 is written 1.00 k.
  if (magnitude >= 999.5e6) return {1e9, "G"};
  if (magnitude >= 999.5e3) return {1e6, "M"};
  if (magnitude >= 999.5) return {1e3, "k"};
  if (magnitude >= 0.9995 || magnitude == 0) return {1, ""};
  if (magnitude >= 0.9995e-3) return {1e-3, "m"};
  return {1e-6, "µ"};
}

// Places behind the point for `digits` significant ones.
int Places(double magnitude, int digits) {
  if (!(magnitude > 0)) return 0;
  // What rounds up to the next power of ten has one more before the point.
  const int before = static_cast<int>(std::floor(std::log10(magnitude * 1.0005))) + 1;
  return std::clamp(digits - before, 0, 9);
}

}  // namespace

std::string WithUnit(std::optional<double> value, const std::string& unit) {
  if (!value || !std::isfinite(*value)) return "n/a";
  const double magnitude = std::abs(*value);
  const Prefix prefix = PrefixFor(magnitude, unit);
  return fmt::format("{:.{}f} {}{}", *value / prefix.factor, Places(magnitude / prefix.factor, 3),
                     prefix.letter, unit);
}

std::string WithSpread(double value, std::optional<double> spread, const std::string& unit) {
  if (!spread || !std::isfinite(*spread) || !std::isfinite(value)) return WithUnit(value, unit);
  const double largest = std::max(std::abs(value), std::abs(*spread));
  const Prefix prefix = PrefixFor(largest, unit);
  const double scaled_spread = std::abs(*spread) / prefix.factor;
  // Where there is hardly any spread, three digits of the value are enough.
  const int value_places = Places(largest / prefix.factor, 3);
  const int places =
      scaled_spread > 0 ? std::min(Places(scaled_spread, 2), value_places + 2) : value_places;
  // What is not 0 does not read 0.
  if (const double least = std::pow(10, -places); scaled_spread > 0 && scaled_spread < least / 2) {
    return fmt::format("{:.{}f} ± < {:.{}f} {}{}", value / prefix.factor, places, least, places,
                       prefix.letter, unit);
  }
  return fmt::format("{:.{}f} ± {:.{}f} {}{}", value / prefix.factor, places, scaled_spread, places,
                     prefix.letter, unit);
}

std::string EstimateText(const Estimate& estimate, const std::string& unit) {
  const auto half = estimate.half_width();
  if (!half) return fmt::format("{} (no interval)", WithUnit(estimate.value, unit));
  return WithSpread(estimate.value, half, unit);
}

std::string RatioText(const Ratio& ratio) {
  if (!std::isfinite(ratio.value)) return "n/a";
  const int places = std::max(2, Places(std::abs(ratio.value), 3));
  if (!ratio.interval) return fmt::format("{:.{}f} (no interval)", ratio.value, places);
  return fmt::format("{:.{}f} (95 %: {:.{}f} to {:.{}f})", ratio.value, places, ratio.interval->low,
                     places, ratio.interval->high, places);
}

std::string SecondsText(double seconds) {
  return fmt::format("{:.{}f} s", seconds, Places(std::abs(seconds), 3));
}

std::optional<Amount> AmountOf(std::string_view text) {
  constexpr std::string_view kSpace = " \t";
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto skip_space = [&] {
    text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  };
  skip_space();
  // Commas stand between groups of three digits, or they end the number.
  std::string number;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != ',') {
      number += text[at];
      continue;
    }
    const std::string_view group = text.substr(at + 1, 3);
    const bool is_group = group.size() == 3 && std::all_of(group.begin(), group.end(), is_digit) &&
                          (at + 4 >= text.size() || !is_digit(text[at + 4])) && at > 0 &&
                          number.find_first_not_of("0123456789") == std::string::npos;
    if (!is_group) {
      number += text.substr(at);
      break;
    }
  }
  Amount amount;
  const char* const begin = number.data();
  const auto [end, error] = std::from_chars(begin, begin + number.size(), amount.value);
  if (error != std::errc() || !std::isfinite(amount.value) || !(amount.value > 0)) {
    return std::nullopt;
  }
  text = std::string_view(end, static_cast<size_t>(begin + number.size() - end));
  skip_space();
  constexpr std::pair<std::string_view, double> kPrefixes[] = {
      {"Ki", 0x1p10}, {"Mi", 0x1p20}, {"Gi", 0x1p30}, {"Ti", 0x1p40}, {"k", 1e3},
      {"K", 1e3},     {"M", 1e6},     {"G", 1e9},     {"T", 1e12},    {"", 1}};
  for (const auto& [prefix, factor] : kPrefixes) {
    for (const std::string_view unit : {"B", "bytes", "samples", "epochs", ""}) {
      std::string_view rest = text;
      if (!rest.starts_with(prefix)) continue;
      rest.remove_prefix(prefix.size());
      if (!rest.starts_with(unit)) continue;
      rest.remove_prefix(unit.size());
      if (!rest.empty() && kSpace.find(rest.front()) == std::string_view::npos) continue;
      amount.value *= factor;
      text = rest;
      skip_space();
      amount.rest = std::string(text);
      return amount;
    }
  }
  amount.rest = std::string(text);
  return amount;
}

}  // namespace emlio::energy_analysis
