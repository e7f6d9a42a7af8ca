// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_analysis/meter_series.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace emlio::energy_analysis {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxLine = 64 << 10;
constexpr int kMaxJsonDepth = 16;
constexpr double kMaxWatts = 1e9;

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\"'";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

template <typename T>
std::optional<T> ParseAll(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The first `digits` characters as a number of exactly so many digits, taken off.
std::optional<int> TakeDigits(std::string_view* text, size_t digits) {
  if (text->size() < digits) return std::nullopt;
  int value = 0;
  for (size_t i = 0; i < digits; ++i) {
    const char c = (*text)[i];
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  text->remove_prefix(digits);
  return value;
}

bool TakeOne(std::string_view* text, std::string_view any_of) {
  if (text->empty() || any_of.find(text->front()) == std::string_view::npos) return false;
  text->remove_prefix(1);
  return true;
}

std::optional<int64_t> WallNs(int year, int month, int day, int64_t second_of_day) {
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok() || year < 1970 || year > 2200) return std::nullopt;
  const int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  return (days * 86400 + second_of_day) * 1'000'000'000;
}

// "13:15:02", taken off.
std::optional<int64_t> TakeSecondOfDay(std::string_view* text) {
  const auto hour = TakeDigits(text, 2);
  if (!hour || !TakeOne(text, ":")) return std::nullopt;
  const auto minute = TakeDigits(text, 2);
  if (!minute || !TakeOne(text, ":")) return std::nullopt;
  const auto second = TakeDigits(text, 2);
  if (!second || *hour > 23 || *minute > 59 || *second > 60) return std::nullopt;
  return *hour * 3600 + *minute * 60 + *second;
}

// East of Greenwich in seconds: "Z", "+02:00", "-0530", nothing. Takes all that is left.
std::optional<int64_t> TakeZone(std::string_view* text) {
  if (text->empty() || *text == "Z" || *text == "z" || *text == " UTC") return 0;
  const bool west = text->front() == '-';
  if (!TakeOne(text, "+-")) return std::nullopt;
  const auto hours = TakeDigits(text, 2);
  if (!hours) return std::nullopt;
  int minutes = 0;
  if (!text->empty()) {
    TakeOne(text, ":");
    const auto parsed = TakeDigits(text, 2);
    if (!parsed || !text->empty()) return std::nullopt;
    minutes = *parsed;
  }
  const int64_t seconds = *hours * 3600 + minutes * 60;
  return west ? -seconds : seconds;
}

std::optional<int64_t> ParseEpoch(std::string_view text) {
  const auto number = ParseAll<double>(text);
  if (!number || !std::isfinite(*number) || *number < 0) return std::nullopt;
  if (*number < 5e9) return std::llround(*number * 1e9);
  if (const auto whole = ParseAll<int64_t>(text)) {
    if (*whole < 5'000'000'000'000) return *whole * 1'000'000;
    if (*whole < 5'000'000'000'000'000) return *whole * 1000;
    return *whole;
  }
  if (*number < 5e12) return std::llround(*number * 1e6);
  if (*number < 5e15) return std::llround(*number * 1e3);
  return std::nullopt;
}

// "Thu Jan  1 12:00:00 2026", as ipmitool prints it.
std::optional<int64_t> ParseIpmiTime(std::string_view text) {
  constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  std::vector<std::string_view> words;
  while (!(text = Trim(text)).empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
    if (words.size() > 6) return std::nullopt;
  }
  if (words.size() < 5) return ParseWallTime(words.empty() ? "" : words[0]);
  const size_t month = words[1].size() == 3 ? kMonths.find(words[1]) : std::string_view::npos;
  const auto day = ParseAll<int>(words[2]);
  const auto second = TakeSecondOfDay(&words[3]);
  const auto year = ParseAll<int>(words[4]);
  if (month == std::string_view::npos || month % 3 != 0 || !day || !second || !year) {
    return std::nullopt;
  }
  return WallNs(*year, static_cast<int>(month / 3) + 1, *day, *second);
}

// Lines without their ends.
class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {}
  bool Next(std::string_view* line) {
    if (rest_.empty()) return false;
    const size_t end = std::min(rest_.find('\n'), rest_.size());
    *line = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    ++number_;
    return true;
  }
  size_t number() const { return number_; }

 private:
  std::string_view rest_;
  size_t number_ = 0;
};

class Collector {
 public:
  explicit Collector(double scale) : scale_(scale) {}

  Status Add(size_t line, std::optional<int64_t> wall_ns, std::optional<double> figure,
             double factor = 1) {
    if (!wall_ns) return Corrupt(fmt::format("meter series, line {}: no time", line));
    if (!figure || !std::isfinite(*figure)) {
      return Corrupt(fmt::format("meter series, line {}: no figure of power", line));
    }
    const double watts = *figure * factor * scale_;
    if (watts < 0 || watts > kMaxWatts) {
      return Corrupt(fmt::format("meter series, line {}: {:g} W cannot be", line, watts));
    }
    if (readings_.size() >= kMaxMeterReadings) {
      return LimitExceeded(fmt::format("meter series: more than {} readings", kMaxMeterReadings));
    }
    readings_.push_back({.wall_ns = *wall_ns, .watts = watts});
    return OkStatus();
  }
  Result<std::vector<MeterReading>> Finish() {
    if (readings_.empty()) return Corrupt("meter series: there is no reading of power in it");
    std::sort(readings_.begin(), readings_.end(),
              [](const MeterReading& a, const MeterReading& b) { return a.wall_ns < b.wall_ns; });
    return std::move(readings_);
  }

 private:
  const double scale_;
  std::vector<MeterReading> readings_;
};

std::vector<std::string_view> Fields(std::string_view line, char separator) {
  std::vector<std::string_view> fields;
  bool quoted = false;
  size_t begin = 0;
  for (size_t i = 0; i <= line.size(); ++i) {
    if (i < line.size() && line[i] == '"') quoted = !quoted;
    if (i == line.size() || (line[i] == separator && !quoted)) {
      fields.push_back(Trim(line.substr(begin, i - begin)));
      begin = i + 1;
    }
  }
  return fields;
}

char SeparatorOf(std::string_view line) {
  for (const char separator : {',', ';', '\t'}) {
    if (line.find(separator) != std::string_view::npos) return separator;
  }
  return ' ';
}

struct Columns {
  size_t time = 0;
  size_t watts = 1;
  double factor = 1;  // kW
};

Result<Columns> FindColumns(const std::vector<std::string_view>& header,
                            const MeterSeriesOptions& options) {
  const auto find = [&](const std::string& wanted, const auto& suits) -> std::optional<size_t> {
    for (size_t i = 0; i < header.size(); ++i) {
      if (wanted.empty() ? suits(Lower(header[i])) : header[i] == wanted) return i;
    }
    return std::nullopt;
  };
  const auto time = find(options.time_column, [](const std::string& name) {
    return name.starts_with("time") || name.starts_with("date");
  });
  const auto watts = find(options.watts_column, [](const std::string& name) {
    return name.find("watt") != std::string::npos || name.find("power") != std::string::npos ||
           name == "w" || name == "kw";
  });
  if (!time || !watts) {
    return InvalidArgument(
        fmt::format("meter series: no column {} in the first line",
                    !time ? (options.time_column.empty() ? "\"time\"" : options.time_column)
                          : (options.watts_column.empty() ? "\"watts\"" : options.watts_column)));
  }
  const bool kilo = Lower(header[*watts]).find("kw") != std::string::npos ||
                    Lower(header[*watts]).find("kilowatt") != std::string::npos;
  return Columns{.time = *time, .watts = *watts, .factor = kilo ? 1000.0 : 1.0};
}

Result<std::vector<MeterReading>> ParseCsv(std::string_view text,
                                           const MeterSeriesOptions& options) {
  Lines lines(text);
  Collector collector(options.scale);
  std::optional<Columns> columns;
  char separator = ',';
  for (std::string_view line; lines.Next(&line);) {
    if (line.size() > kMaxLine) {
      return LimitExceeded(
          fmt::format("meter series, line {}: longer than {} bytes", lines.number(), kMaxLine));
    }
    if (Trim(line).empty() || line.front() == '#') continue;
    if (!columns) separator = SeparatorOf(line);
    const auto fields = Fields(line, separator);
    if (!columns) {
      // Without a header: time, watts.
      const bool bare = options.time_column.empty() && options.watts_column.empty() &&
                        fields.size() >= 2 && ParseWallTime(fields[0]).has_value();
      columns = Columns{};
      if (!bare) {
        EMLIO_ASSIGN_OR_RETURN(columns, FindColumns(fields, options));
        continue;
      }
    }
    const auto field = [&](size_t i) { return i < fields.size() ? fields[i] : std::string_view(); };
    EMLIO_RETURN_IF_ERROR(collector.Add(lines.number(), ParseWallTime(field(columns->time)),
                                        ParseAll<double>(field(columns->watts)), columns->factor));
  }
  return collector.Finish();
}

// A reading begins with "Instantaneous power reading" and has its time some lines later.
Result<std::vector<MeterReading>> ParseIpmi(std::string_view text,
                                            const MeterSeriesOptions& options) {
  Lines lines(text);
  Collector collector(options.scale);
  bool has_power = false;
  double watts = 0;
  for (std::string_view line; lines.Next(&line);) {
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || line.size() > kMaxLine) continue;
    const std::string_view key = Trim(line.substr(0, colon));
    const std::string_view value = Trim(line.substr(colon + 1));
    if (key == "Instantaneous power reading") {
      const auto figure = ParseAll<double>(value.substr(0, value.find(' ')));
      if (!figure) {
        return Corrupt(fmt::format("meter series, line {}: no figure of power", lines.number()));
      }
      watts = *figure;
      has_power = true;
    } else if (key == "IPMI timestamp" && std::exchange(has_power, false)) {
      EMLIO_RETURN_IF_ERROR(collector.Add(lines.number(), ParseIpmiTime(value), watts));
    }
  }
  return collector.Finish();
}

std::optional<double> NumberOf(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) return ParseAll<double>(value.get_ref<const std::string&>());
  return std::nullopt;
}

const Json* Find(const Json& object, std::initializer_list<const char*> names) {
  if (!object.is_object()) return nullptr;
  for (const char* name : names) {
    if (const auto it = object.find(name); it != object.end()) return &*it;
  }
  return nullptr;
}

std::optional<int64_t> TimeOf(const Json& object) {
  const Json* time = Find(object, {"Timestamp", "ReadingTime", "time", "timestamp"});
  if (time == nullptr) return std::nullopt;
  if (time->is_string()) return ParseWallTime(time->get_ref<const std::string&>());
  return time->is_number() ? ParseWallTime(time->dump()) : std::nullopt;
}

// The power in a power resource, an environment resource or a sensor.
std::optional<double> PowerOf(const Json& object) {
  if (const Json* controls = Find(object, {"PowerControl"});
      controls && controls->is_array() && !controls->empty()) {
    const Json* figure = Find(controls->front(), {"PowerConsumedWatts"});
    return figure ? NumberOf(*figure) : std::nullopt;
  }
  if (const Json* sensor = Find(object, {"PowerWatts"})) {
    const Json* figure = Find(*sensor, {"Reading"});
    return figure ? NumberOf(*figure) : std::nullopt;
  }
  const Json* units = Find(object, {"ReadingUnits"});
  const Json* figure = Find(object, {"Reading"});
  return units && *units == "W" && figure ? NumberOf(*figure) : std::nullopt;
}

// Everything in one document that has both a power and a time.
Status CollectRedfish(const Json& object, size_t line, Collector* collector) {
  if (object.is_array()) {
    for (const Json& item : object) EMLIO_RETURN_IF_ERROR(CollectRedfish(item, line, collector));
    return OkStatus();
  }
  if (const Json* values = Find(object, {"MetricValues"}); values && values->is_array()) {
    for (const Json& value : *values) {
      // A report may carry temperatures too.
      const Json* id = Find(value, {"MetricId", "MetricProperty"});
      const bool power = id && id->is_string() &&
                         (id->get_ref<const std::string&>().find("Power") != std::string::npos ||
                          id->get_ref<const std::string&>().find("Watts") != std::string::npos);
      const Json* figure = Find(value, {"MetricValue"});
      if (!power || figure == nullptr) continue;
      EMLIO_RETURN_IF_ERROR(collector->Add(line, TimeOf(value), NumberOf(*figure)));
    }
    return OkStatus();
  }
  const auto watts = PowerOf(object);
  if (!watts) return OkStatus();
  return collector->Add(line, TimeOf(object), watts);
}

// One document a line, or one document as a whole.
Result<std::vector<MeterReading>> ParseRedfish(std::string_view text,
                                               const MeterSeriesOptions& options) {
  Collector collector(options.scale);
  const auto parse = [](std::string_view piece) {
    const Json::parser_callback_t shallow = [](int depth, Json::parse_event_t, Json&) {
      return depth <= kMaxJsonDepth;
    };
    return Json::parse(piece, shallow, /*allow_exceptions=*/false);
  };
  Lines lines(text);
  for (std::string_view line; lines.Next(&line);) {
    if (Trim(line).empty()) continue;
    const Json document = parse(line);
    if (document.is_discarded()) {
      if (lines.number() > 1) {
        return Corrupt(fmt::format("meter series, line {}: no JSON", lines.number()));
      }
      const Json whole = parse(text);
      if (whole.is_discarded()) return Corrupt("meter series, line 1: no JSON");
      EMLIO_RETURN_IF_ERROR(CollectRedfish(whole, 1, &collector));
      break;
    }
    EMLIO_RETURN_IF_ERROR(CollectRedfish(document, lines.number(), &collector));
  }
  return collector.Finish();
}

}  // namespace

std::optional<MeterFormat> MeterFormatFromName(std::string_view name) {
  if (name == "csv") return MeterFormat::kCsv;
  if (name == "ipmi") return MeterFormat::kIpmi;
  if (name == "redfish") return MeterFormat::kRedfish;
  return std::nullopt;
}

std::optional<int64_t> ParseWallTime(std::string_view text) {
  text = Trim(text);
  if (text.size() < 19 || text[4] != '-') return ParseEpoch(text);
  const auto year = TakeDigits(&text, 4);
  if (!year || !TakeOne(&text, "-")) return std::nullopt;
  const auto month = TakeDigits(&text, 2);
  if (!month || !TakeOne(&text, "-")) return std::nullopt;
  const auto day = TakeDigits(&text, 2);
  if (!day || !TakeOne(&text, "T ")) return std::nullopt;
  const auto second = TakeSecondOfDay(&text);
  if (!second) return std::nullopt;
  int64_t fraction_ns = 0;
  if (TakeOne(&text, ".,")) {
    int64_t unit_ns = 100'000'000;
    size_t digits = 0;
    for (; !text.empty() && text.front() >= '0' && text.front() <= '9'; ++digits) {
      fraction_ns += (text.front() - '0') * unit_ns;
      unit_ns /= 10;
      text.remove_prefix(1);
    }
    if (digits == 0) return std::nullopt;
  }
  const auto east = TakeZone(&text);
  const auto wall_ns = WallNs(*year, *month, *day, *second);
  if (!east || !wall_ns) return std::nullopt;
  return *wall_ns + fraction_ns - *east * 1'000'000'000;
}

Result<std::vector<MeterReading>> ParseMeterSeries(std::string_view text,
                                                   const MeterSeriesOptions& options) {
  if (text.size() > kMaxMeterBytes) {
    return LimitExceeded(fmt::format("meter series: more than {} bytes", kMaxMeterBytes));
  }
  switch (options.format) {
    case MeterFormat::kCsv:
      return ParseCsv(text, options);
    case MeterFormat::kIpmi:
      return ParseIpmi(text, options);
    case MeterFormat::kRedfish:
      break;
  }
  return ParseRedfish(text, options);
}

}  // namespace emlio::energy_analysis
