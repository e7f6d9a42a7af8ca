// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "energy_live.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "console.h"
#include "emlio/base/clock.h"
#include "energy_json.h"

namespace emlio::tool {
namespace {

constexpr int64_t kShownNs = kNsPerSecond;
constexpr int64_t kLineNs = 10 * kNsPerSecond;

std::optional<double> Watts(const std::optional<double>& joules, int64_t ns) {
  if (!joules || ns <= 0) return std::nullopt;
  return *joules / (static_cast<double>(ns) * 1e-9);
}

}  // namespace

std::string RenderWatts(const std::vector<energy::Domain>& domains,
                        const energy::WindowReport& window, int width) {
  const int64_t ns = window.end_ns - window.begin_ns;
  std::string line;
  for (size_t i = 0; i < domains.size(); ++i) {
    if (!domains[i].in_total) continue;
    line +=
        fmt::format("{} {}  ", domains[i].id, FormatWatts(Watts(window.energies[i].joules, ns)));
  }
  line += fmt::format("total {}", FormatWatts(Watts(window.total.joules, ns)));
  if (width > 0 && line.size() > static_cast<size_t>(width)) line.resize(width);
  return line;
}

LiveView::LiveView(energy::Monitor& monitor, bool shown)
    : monitor_(monitor),
      shown_(shown),
      at_terminal_(isatty(STDERR_FILENO) == 1),
      next_ns_(SystemClock().NowNs() + (at_terminal_ ? kShownNs : kLineNs)) {}

LiveView::~LiveView() {
  if (drawn_) fmt::print(stderr, "\r\x1b[K");
}

void LiveView::Update() {
  const int64_t now_ns = SystemClock().NowNs();
  if (!shown_ || now_ns < next_ns_) return;
  const auto recorder = monitor_.recorder();
  if (!recorder.ok()) return;
  const int64_t end_ns = (*recorder)->sampled_until_ns();
  const auto window = monitor_.Between(end_ns - kShownNs, end_ns);
  if (!window.ok()) return;
  if (at_terminal_) {
    drawn_ = true;
    fmt::print(stderr, "\r{}\x1b[K",
               RenderWatts(monitor_.domains(), *window, TerminalColumns() - 1));
  } else {
    next_ns_ = now_ns + kLineNs;
    fmt::print(stderr, "emlio: {}\n", RenderWatts(monitor_.domains(), *window, 0));
  }
  std::fflush(stderr);
}

}  // namespace emlio::tool
