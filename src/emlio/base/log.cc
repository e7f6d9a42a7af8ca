// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <memory>
#include <string_view>

namespace emlio {
namespace {

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      return spdlog::level::off;
  }
  return spdlog::level::off;
}

// Our own logger, not spdlog's default one: the host program may use that for itself.
spdlog::logger& Logger() {
  static spdlog::logger* const logger = [] {
    auto* made = new spdlog::logger("emlio", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%e %L emlio: %v");
    made->set_level(spdlog::level::warn);
    if (const char* wanted = std::getenv("EMLIO_LOG")) {
      const spdlog::level::level_enum level = spdlog::level::from_str(wanted);
      // spdlog reads every word that it does not know as "off".
      if (level != spdlog::level::off || std::string_view(wanted) == "off") made->set_level(level);
    }
    return made;
  }();
  return *logger;
}

}  // namespace

void Log(LogLevel level, std::string_view message) {
  Logger().log(ToSpdlog(level), spdlog::string_view_t(message.data(), message.size()));
}
void SetLogLevel(LogLevel level) { Logger().set_level(ToSpdlog(level)); }
bool LogEnabled(LogLevel level) { return Logger().should_log(ToSpdlog(level)); }

}  // namespace emlio
