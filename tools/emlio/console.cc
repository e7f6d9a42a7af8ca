// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "console.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "emlio/base/file.h"

namespace emlio::tool {
namespace {

constexpr std::chrono::milliseconds kRedrawInterval{100};
constexpr std::chrono::seconds kLineInterval{10};
constexpr int kBarColumns = 16;

Status WriteAll(std::FILE* to, const std::string& text, const std::string& what) {
  if (std::fwrite(text.data(), 1, text.size(), to) != text.size() || std::fflush(to) != 0) {
    return ErrnoStatus(errno, what);
  }
  return OkStatus();
}

}  // namespace

int TerminalColumns() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

void SayText(std::string_view text) {
  (void)std::fwrite(text.data(), 1, text.size(), stderr);  // unbuffered
}

int ExitCodeFor(const Status& status) {
  switch (status.code()) {
    case Code::kOk:
      return kExitOk;
    case Code::kInvalidArgument:
      return kExitUsage;
    case Code::kUnavailable:
    case Code::kTimeout:
      return kExitUnreachable;
    default:
      return kExitFailed;
  }
}

int Fail(const Status& status) {
  Say("emlio: error: {}\n", status.ToString());
  return ExitCodeFor(status);
}

std::string FormatCount(uint64_t count) {
  const std::string digits = std::to_string(count);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text.push_back(',');
    text.push_back(digits[i]);
  }
  return text;
}

std::string FormatCount(uint64_t count, std::string_view noun) {
  std::string text = fmt::format("{} {}", FormatCount(count), noun);
  if (count == 1) return text;
  const bool hisses = noun.ends_with("s") || noun.ends_with("x") || noun.ends_with("tch");
  return text + (hisses ? "es" : "s");
}

std::string FormatBytes(double bytes) {
  static constexpr std::string_view kUnits[] = {"B", "KB", "MB", "GB", "TB", "PB", "EB"};
  size_t unit = 0;
  // 999.5 and more would print as 1000.
  while (bytes >= 999.5 && unit + 1 < std::size(kUnits)) {
    bytes /= 1000;
    ++unit;
  }
  const int decimals = unit == 0 || bytes >= 99.95 ? 0 : bytes >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}", bytes, decimals, kUnits[unit]);
}

std::string FormatDuration(double seconds) {
  const auto whole = static_cast<uint64_t>(std::max(0.0, std::round(seconds)));
  const uint64_t hours = whole / 3600, minutes = whole / 60 % 60, rest = whole % 60;
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, rest);
  return fmt::format("{}:{:02}", minutes, rest);
}

Status Report::Check() const {
  if (json_path_.empty() || json_path_ == "-") return OkStatus();
  struct stat existing{};
  if (stat(json_path_.c_str(), &existing) == 0 && S_ISDIR(existing.st_mode)) {
    return ErrnoStatus(EISDIR, "--json: " + json_path_);
  }
  // Made beside the file and taken away again: what is in the file stays until there is more.
  return AtomicFile::Create(json_path_).status().WithContext("--json");
}

int Report::FinishRefused(const Status& status, nlohmann::ordered_json object) const {
  const Status refused = status.code() == Code::kInvalidArgument
                             ? Status(Code::kUnsupported, status.message())
                             : status;
  return Finish(refused, std::move(object));
}

int Report::Finish(const Status& status, nlohmann::ordered_json object) const {
  int exit_code = kExitOk;
  if (!status.ok()) {
    exit_code = Fail(status);
    object["error"] = {{"code", CodeName(status.code())}, {"message", status.message()}};
  }
  if (json_path_.empty()) return exit_code;
  // File names are bytes and need not be UTF-8, JSON has to be.
  const std::string text =
      object.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  if (const Status written = Write(text); !written.ok()) {
    Fail(written);
    return exit_code == kExitOk ? kExitFailed : exit_code;
  }
  return exit_code;
}

Status Report::Write(const std::string& text) const {
  if (json_path_ == "-") return WriteAll(stdout, text, "writing the report to standard output");
  EMLIO_ASSIGN_OR_RETURN(const auto file, AtomicFile::Create(json_path_));
  EMLIO_RETURN_IF_ERROR(file->Append(text.data(), text.size()));
  return file->Commit();
}

std::string RenderProgress(std::string_view verb, std::string_view items,
                           const ProgressPoint& point, double elapsed_s, int width) {
  const bool by_bytes = point.bytes_total > 0;
  const double done = static_cast<double>(by_bytes ? point.bytes_done : point.items_done);
  const double total = static_cast<double>(by_bytes ? point.bytes_total : point.items_total);
  const double kept = static_cast<double>(by_bytes ? point.bytes_kept : point.items_kept);
  std::string line(verb);
  if (total > 0) {
    const double share = std::min(1.0, done / total);
    const int filled = static_cast<int>(share * kBarColumns);
    line += fmt::format("  [{:#<{}}{:-<{}}] {:3.0f} %", "", filled, "", kBarColumns - filled,
                        std::floor(share * 100));
  }
  line += fmt::format("  {}", FormatCount(point.items_done));
  if (point.items_total > 0) line += fmt::format("/{}", FormatCount(point.items_total));
  line += fmt::format(" {}", items);
  if (elapsed_s > 0 && point.bytes_done > point.bytes_kept) {
    const auto bytes = static_cast<double>(point.bytes_done - point.bytes_kept);
    line += fmt::format("  {}/s", FormatBytes(bytes / elapsed_s));
  }
  if (elapsed_s > 0 && done > kept && done < total) {
    line += fmt::format("  {} left", FormatDuration((total - done) * elapsed_s / (done - kept)));
  }
  if (width > 0 && line.size() > static_cast<size_t>(width)) line.resize(width);
  return line;
}

ProgressBar::ProgressBar(std::string verb, std::string items)
    : verb_(std::move(verb)),
      items_(std::move(items)),
      at_terminal_(isatty(STDERR_FILENO) == 1),
      begin_(std::chrono::steady_clock::now()),
      next_(begin_ + (at_terminal_ ? std::chrono::steady_clock::duration(kRedrawInterval)
                                   : std::chrono::steady_clock::duration(kLineInterval))) {}

void ProgressBar::Finish() {
  MutexLock lock(mu_);
  if (std::exchange(drawn_, false)) Say("\r\x1b[K");
}

void ProgressBar::Update(const ProgressPoint& point) {
  const TimePoint now = std::chrono::steady_clock::now();
  MutexLock lock(mu_);
  if (now < next_) return;
  const double elapsed_s = std::chrono::duration<double>(now - begin_).count();
  if (at_terminal_) {
    next_ = now + kRedrawInterval;
    drawn_ = true;
    Say("\r{}\x1b[K", RenderProgress(verb_, items_, point, elapsed_s, TerminalColumns() - 1));
  } else {
    next_ = now + kLineInterval;
    Say("emlio: {}\n", RenderProgress(verb_, items_, point, elapsed_s, 0));
  }
}

}  // namespace emlio::tool
