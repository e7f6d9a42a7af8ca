// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "energy_live.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "console.h"
#include "emlio/base/clock.h"
#include "energy_json.h"
#include "text.h"

namespace emlio::tool {
namespace {

constexpr int64_t kShownNs = kNsPerSecond;
constexpr int64_t kLineNs = 10 * kNsPerSecond;

size_t TerminalRows() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0) return 24;
  return size.ws_row;
}

// To the begin of the first of that many lines, of which the cursor is in the last one.
std::string BackOver(size_t lines) {
  return lines > 1 ? fmt::format("\r\x1b[{}A", lines - 1) : "\r";
}

}  // namespace

NodeWatts WattsOf(const std::string& node, const std::vector<energy::Domain>& domains,
                  const std::vector<std::optional<double>>& watts) {
  NodeWatts result;
  result.node = node;
  // What a second used are the watts of it, and totals have one rule.
  std::vector<energy::Energy> second(domains.size());
  for (size_t i = 0; i < domains.size() && i < watts.size(); ++i) {
    second[i].joules = watts[i];
    if (watts[i]) second[i].state = energy::State::kMeasured;
  }
  for (size_t i = 0; i < domains.size(); ++i) {
    if (domains[i].in_total) result.domains.emplace_back(domains[i].id, second[i].joules);
  }
  result.total = energy::TotalOf(domains, second).joules;
  return result;
}

std::string RenderWatts(const NodeWatts& watts, int width) {
  std::string line = watts.node.empty() ? "" : Printable(watts.node) + ": ";
  if (!watts.cause.empty()) {
    line += fmt::format("n/a: {}", Printable(watts.cause));
  } else {
    line += fmt::format("total {}", FormatWatts(watts.total));
    for (const auto& [domain, value] : watts.domains) {
      line += fmt::format("  {} {}", Printable(domain), FormatWatts(value));
    }
  }
  return width > 0 ? CutTo(line, static_cast<size_t>(width)) : line;
}

std::vector<NodeWatts> WattsOfNodes(NodeWatts own, const std::string& own_boot_id,
                                    const std::vector<energy_agent::NodeReport>& others) {
  std::vector<NodeWatts> all = {std::move(own)};
  std::vector<std::string> boots = {own_boot_id};
  for (const energy_agent::NodeReport& other : others) {
    if (other.state == energy_agent::NodeState::kSameHost) continue;
    const std::string& boot = other.boot_id;
    if (!boot.empty() && std::find(boots.begin(), boots.end(), boot) != boots.end()) continue;
    boots.push_back(boot);
    all.push_back(
        WattsOf(other.node.empty() ? other.endpoint : other.node, other.domains, other.watts));
    all.back().cause = other.cause;
    if (other.node.empty() && other.cause.empty()) all.back().cause = "not reached yet";
  }
  if (all.size() == 1) all[0].node.clear();  // there is nobody to be told apart from
  return all;
}

LiveView::LiveView(energy::Monitor& monitor, std::string boot_id,
                   const energy_agent::NodeSet* nodes, bool shown)
    : monitor_(monitor),
      boot_id_(std::move(boot_id)),
      nodes_(nodes),
      shown_(shown),
      at_terminal_(isatty(STDERR_FILENO) == 1),
      next_ns_(SystemClock().NowNs() + (at_terminal_ ? kShownNs : kLineNs)) {}

LiveView::~LiveView() {
  if (drawn_lines_ > 0) Say("{}\x1b[J", BackOver(drawn_lines_));
}

void LiveView::Update() {
  const int64_t now_ns = SystemClock().NowNs();
  if (!shown_ || now_ns < next_ns_) return;
  const auto recorder = monitor_.recorder();
  if (!recorder.ok()) return;
  const int64_t end_ns = (*recorder)->sampled_until_ns();
  std::vector<std::optional<double>> watts;
  for (const energy::Energy& energy : (*recorder)->Window(end_ns - kShownNs, end_ns)) {
    watts.push_back(energy.joules);  // of one second
  }
  const std::vector<NodeWatts> nodes = WattsOfNodes(
      WattsOf(monitor_.node(), monitor_.domains(), watts), boot_id_,
      nodes_ == nullptr ? std::vector<energy_agent::NodeReport>() : nodes_->Snapshot());
  if (!at_terminal_) {
    next_ns_ = now_ns + kLineNs;
    for (const NodeWatts& node : nodes) Say("emlio: {}\n", RenderWatts(node, 0));
    return;
  }
  std::string text = drawn_lines_ > 0 ? BackOver(drawn_lines_) : "\r";
  const size_t rows = std::max<size_t>(TerminalRows() - 1, 2);
  const size_t shown = nodes.size() <= rows ? nodes.size() : rows - 1;
  for (size_t i = 0; i < shown; ++i) {
    text +=
        fmt::format("{}{}\x1b[K", i == 0 ? "" : "\n", RenderWatts(nodes[i], TerminalColumns() - 1));
  }
  drawn_lines_ = shown;
  if (shown < nodes.size()) {
    text += fmt::format("\n... and {}\x1b[K", FormatCount(nodes.size() - shown, "other node"));
    ++drawn_lines_;
  }
  Say("{}\x1b[J", text);
}

}  // namespace emlio::tool
