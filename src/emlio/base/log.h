// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace emlio {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

// One line on standard error: time, level, message. Thread-safe. Never called once a record.
void Log(LogLevel level, std::string_view message);
// Default: kWarning, or the value of EMLIO_LOG (debug, info, warning, error, off) when it is set.
void SetLogLevel(LogLevel level);
bool LogEnabled(LogLevel level);

template <typename... Args>
void LogInfo(fmt::format_string<Args...> format, Args&&... args) {
  if (LogEnabled(LogLevel::kInfo))
    Log(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void LogWarning(fmt::format_string<Args...> format, Args&&... args) {
  if (LogEnabled(LogLevel::kWarning))
    Log(LogLevel::kWarning, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void LogError(fmt::format_string<Args...> format, Args&&... args) {
  if (LogEnabled(LogLevel::kError))
    Log(LogLevel::kError, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace emlio
