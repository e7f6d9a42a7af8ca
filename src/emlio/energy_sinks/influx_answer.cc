// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_sinks/influx_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>

namespace emlio::energy_sinks {
namespace {

using Json = nlohmann::json;

// What the database says about an error, on one line and not too long.
std::string Reason(const HttpAnswer& answer) {
  std::string reason = answer.body;
  const Json json = Json::parse(answer.body, nullptr, false);
  if (json.is_object()) {
    for (const char* const key : {"message", "error"}) {
      if (const auto it = json.find(key); it != json.end() && it->is_string()) {
        reason = it->get<std::string>();
        break;
      }
    }
  }
  for (char& byte : reason) {
    if (static_cast<unsigned char>(byte) < 0x20) byte = ' ';
  }
  constexpr size_t kLongest = 300;
  if (reason.size() > kLongest) reason.resize(kLongest);
  return fmt::format("HTTP {}: {}", answer.status, reason);
}

// How many points of a request were refused that was taken in part. Version 3 lists them; version 1
// gives their number, or a line of text for each that it could not read; version 2 refuses all.
int64_t RefusedOf(const HttpAnswer& answer, int64_t points) {
  const Json json = Json::parse(answer.body, nullptr, false);
  std::string_view text = answer.body;
  std::string error;
  if (json.is_object()) {
    if (const auto data = json.find("data"); data != json.end() && data->is_array()) {
      return std::min<int64_t>(points, static_cast<int64_t>(data->size()));
    }
    if (const auto it = json.find("error"); it != json.end() && it->is_string()) {
      error = it->get<std::string>();
      text = error;
    }
  }
  if (!text.starts_with("partial write")) return points;
  constexpr std::string_view kDropped = "dropped=";
  const size_t dropped = text.rfind(kDropped);
  if (dropped != std::string_view::npos) {
    int64_t count = 0;
    const char* const begin = text.data() + dropped + kDropped.size();
    const auto [end, failed] = std::from_chars(begin, text.data() + text.size(), count);
    // 0: it does not say which.
    if (failed == std::errc() && end != begin && count > 0) return std::min(count, points);
  }
  int64_t lines = 0;
  constexpr std::string_view kUnreadable = "unable to parse";
  for (size_t at = text.find(kUnreadable); at != std::string_view::npos;
       at = text.find(kUnreadable, at + 1)) {
    ++lines;
  }
  return std::clamp<int64_t>(lines, 1, points);
}

}  // namespace

InfluxVerdict JudgeInfluxAnswer(const HttpAnswer& answer, int64_t points) {
  using What = InfluxVerdict::What;
  if (answer.status >= 200 && answer.status < 300) return {};
  InfluxVerdict verdict;
  verdict.error = Reason(answer);
  if (answer.status == 408 || answer.status == 429 || answer.status >= 500) {
    verdict.what = What::kTryAgain;
  } else if (answer.status == 413 && points > 1) {
    verdict.what = What::kTooLarge;
  } else {
    verdict.refused = answer.status == 400 ? RefusedOf(answer, points) : points;
  }
  return verdict;
}

}  // namespace emlio::energy_sinks
