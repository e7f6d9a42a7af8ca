// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "emlio/base/mutex.h"
#include "emlio/base/status.h"

// What the subcommands share: exit codes, messages, reports, progress.
namespace emlio::tool {

// Listed in `emlio --help` and in docs/cli.md; scripts depend on them.
enum ExitCode : int {
  kExitOk = 0,
  kExitFailed = 1,       // the data or the run are at fault
  kExitUsage = 2,        // the command line is
  kExitUnreachable = 3,  // a peer could not be reached, was lost, or did not answer in time
  kExitCutOff = 4,       // serve: sessions were still running when it stopped
  kExitSignalled = 128,  // plus the signal's number: 130 for Ctrl-C, 143 for SIGTERM
};

// Writes on standard error. That nobody can read it (closed, a full disk, `| head`) stops nothing:
// what a command measured or moved is worth more than what it says of it. fmt::print would throw.
void SayText(std::string_view text);
template <typename... Args>
void Say(fmt::format_string<Args...> format, Args&&... args) {
  SayText(fmt::format(format, std::forward<Args>(args)...));
}

int ExitCodeFor(const Status& status);
// Prints "emlio: error: CODE: message" on standard error; returns ExitCodeFor(status).
int Fail(const Status& status);

// Thousands separated by commas: "1,281,167".
std::string FormatCount(uint64_t count);
// With what is counted, given for one: "1 shard", "3 shards", "2 bad batches".
std::string FormatCount(uint64_t count, std::string_view noun);
// Powers of 1000, three significant digits: "146 GB", "512 B".
std::string FormatBytes(double bytes);
// "0:07", "12:30", "3:05:00".
std::string FormatDuration(double seconds);

// Where a command's results go: a table for people on standard output, or with --json one object,
// to a file or ("-") to standard output, which then carries nothing else.
class Report {
 public:
  // `json_path`: as given on the command line; empty: people only.
  explicit Report(std::string json_path) : json_path_(std::move(json_path)) {}

  bool for_people() const { return json_path_ != "-"; }
  // Whether the object can be written as far as that shows before the work, which may take hours.
  Status Check() const;
  // Writes the object, with `"error": {"code", "message"}` added when `status` is not ok, and
  // prints the error. Returns the exit code: the status's, or kExitFailed when the report itself
  // could not be written.
  int Finish(const Status& status, nlohmann::ordered_json object) const;
  // The same of a command whose data are at fault and not its options: INVALID_ARGUMENT of an
  // analysis that refuses them is kExitFailed too.
  int FinishRefused(const Status& status, nlohmann::ordered_json object) const;

 private:
  Status Write(const std::string& text) const;
  std::string json_path_;
};

// Of the terminal that standard error is; 80 when it is none.
int TerminalColumns();

// How far an operation is. Totals of 0 are not known.
struct ProgressPoint {
  uint64_t items_done = 0;
  uint64_t items_total = 0;
  uint64_t bytes_done = 0;
  uint64_t bytes_total = 0;
  // Of those done: what was done before the time began to count.
  uint64_t items_kept = 0;
  uint64_t bytes_kept = 0;
};

// One line, at most `width` columns (0: any): verb, bar, share, items, rate, time left.
std::string RenderProgress(std::string_view verb, std::string_view items,
                           const ProgressPoint& point, double elapsed_s, int width);

// Shows progress on standard error: at a terminal a bar that is redrawn ten times a second, else a
// line every ten seconds. Thread-safe.
class ProgressBar {
 public:
  ProgressBar(std::string verb, std::string items);
  ~ProgressBar() { Finish(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void Update(const ProgressPoint& point) EMLIO_EXCLUDES(mu_);
  // Takes the bar off the screen, for what is printed next.
  void Finish() EMLIO_EXCLUDES(mu_);

 private:
  using TimePoint = std::chrono::steady_clock::time_point;

  const std::string verb_;
  const std::string items_;
  const bool at_terminal_;
  const TimePoint begin_;
  Mutex mu_;
  TimePoint next_ EMLIO_GUARDED_BY(mu_);
  bool drawn_ EMLIO_GUARDED_BY(mu_) = false;
};

}  // namespace emlio::tool
