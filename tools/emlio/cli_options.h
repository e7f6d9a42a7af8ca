// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "emlio/base/log.h"
#include "emlio/base/status.h"
#include "emlio/base/thread.h"

// Options of the command line that several subcommands have. For main.cc and cli_energy*.cc alone.
namespace emlio::tool {

template <typename T>
bool ParseWhole(std::string_view text, T* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

template <typename T>
struct Bounds {
  T lowest = 0;
  T highest = std::numeric_limits<T>::max();
};
inline constexpr Bounds<int> kThreadCount{.lowest = 0, .highest = kMaxThreads};  // 0: automatic

// A whole number. CLI11's own conversion reads "-1" as the largest unsigned number.
template <typename T>
CLI::Option* AddCount(CLI::App* app, const std::string& flag, T* target, const std::string& help,
                      Bounds<T> bounds = {}) {
  return app
      ->add_option_function<std::string>(
          flag,
          [=](const std::string& text) {
            T value = 0;
            if (!ParseWhole(text, &value) || value < bounds.lowest || value > bounds.highest) {
              throw CLI::ValidationError(
                  flag, fmt::format("'{}' is not a whole number from {} to {}", text, bounds.lowest,
                                    bounds.highest));
            }
            *target = value;
          },
          help)
      ->type_name("N")
      ->default_str(std::to_string(*target));
}

// A value that is given by name. `parse` makes a Result<T> of a string_view.
template <typename Parse, typename Set>
CLI::Option* AddNamed(CLI::App* app, const std::string& flags, Parse parse, Set set,
                      const std::string& help) {
  return app
      ->add_option_function<std::string>(
          flags,
          [=](const std::string& name) {
            const auto value = parse(name);
            if (!value.ok()) throw CLI::ValidationError(flags, value.status().message());
            set(*value);
          },
          help)
      ->type_name("NAME");
}

// A number in a unit of `scale` of the target's, `lowest` at least: MiB for bytes, seconds for
// milliseconds.
template <typename T>
CLI::Option* AddScaled(CLI::App* app, const std::string& flag, T* target, double scale,
                       const std::string& type, const std::string& help, double lowest = 0) {
  return app
      ->add_option_function<double>(
          flag,
          [=](double value) {
            if (!(value >= lowest && value <= 1e9)) {
              throw CLI::ValidationError(
                  flag, fmt::format("{} is not a number from {} to 1000000000", value, lowest));
            }
            *target = static_cast<T>(std::llround(value * scale));
          },
          help)
      ->type_name(type)
      ->default_str(fmt::format("{}", static_cast<double>(*target) / scale));
}
template <typename T>
CLI::Option* AddMib(CLI::App* app, const std::string& flags, T* target, const std::string& help) {
  return AddScaled(app, flags, target, 1 << 20, "MIB", help);
}
inline CLI::Option* AddSeconds(CLI::App* app, const std::string& flags, int64_t* target_ms,
                               const std::string& help, double lowest_s = 0) {
  return AddScaled(app, flags, target_ms, 1000, "S", help, lowest_s);
}

// Where the kernel's files are.
inline void AddRoot(CLI::App* app, const std::string& flag, std::string* target) {
  app->add_option_function<std::string>(
         flag,
         [target](std::string root) {
           if (!root.ends_with('/')) root += '/';
           *target = std::move(root);
         },
         "Look for energy counters in the folders sys, proc and dev of this folder; for containers "
         "and tests")
      ->type_name("DIR")
      ->default_str(*target);
}

inline CLI::Option* AddFile(CLI::App* app, const std::string& flags, std::string* file,
                            const std::string& help) {
  return app->add_option(flags, *file, help)->type_name("FILE");
}
inline void AddJson(CLI::App* app, std::string* json) {
  AddFile(app, "--json", json, "Write the results as one JSON object; - is standard output");
}
inline void AddReadyFile(CLI::App* app, std::string* file) {
  AddFile(app, "--ready-file", file,
          "Write the endpoint to this file once connections are taken; removed at the end");
}

inline Result<LogLevel> ParseLogLevel(std::string_view name) {
  static constexpr std::pair<std::string_view, LogLevel> kLevels[] = {
      {"debug", LogLevel::kDebug},
      {"info", LogLevel::kInfo},
      {"warning", LogLevel::kWarning},
      {"error", LogLevel::kError},
      {"off", LogLevel::kOff}};
  for (const auto& [level_name, level] : kLevels) {
    if (level_name == name) return level;
  }
  return InvalidArgument(
      fmt::format("'{}' is not a log level: debug, info, warning, error or off", name));
}

inline void AddLog(CLI::App* app) {
  AddNamed(app, "--log", &ParseLogLevel, &SetLogLevel,
           "Log level: debug, info, warning, error or off [$EMLIO_LOG, else warning]");
}

}  // namespace emlio::tool
