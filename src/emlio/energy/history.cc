// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "emlio/base/clock.h"
#include "emlio/base/nanoseconds.h"

namespace emlio::energy {
namespace {

constexpr double kMaxUncertainShare = 0.1;
constexpr double kMaxVoidShare = 0.01;
constexpr double kMaxGpuGapPercent = 5;

// The mean power between two samples; none when they do not say.
std::optional<double> MeanWatts(const Sample& from, const Sample& to) {
  const int64_t known_ns = to.time_ns - from.time_ns - (to.void_ns - from.void_ns);
  if (known_ns <= 0) return std::nullopt;
  return (to.joules - from.joules) / Seconds(known_ns);
}

// What a window cannot know, and why. Events count in the window that their sample lies in: where
// it has none, those that were found when its last interval ended.
std::string VoidCause(const Energy& energy, const EdgePoint& begin, const EdgePoint& end,
                      int64_t length_ns) {
  std::string cause =
      fmt::format("{:.3f} of {:.3f} s are unknown:", Seconds(energy.void_ns), Seconds(length_ns));
  const auto add = [&](uint32_t count, std::string_view what) {
    if (count > 0) cause += fmt::format(" {} ({}),", what, count);
  };
  const auto add_events = [&](const Sample& until) {
    add(until.gaps - begin.counts.gaps, "readings failed");
    add(until.resets - begin.counts.resets, "the counter began anew");
    add(until.ambiguous - begin.counts.ambiguous, "readings came too late to tell what was used");
    add(until.stalls - begin.counts.stalls,
        until.stall_busy ? "the counter stood still"
                         : "the counter stood still while the host was idle");
  };
  const auto is_told = [&] { return cause.back() != ':'; };
  add_events(end.counts);
  // Not counted as a stall yet when sampling ended.
  if (end.unmoved_ns > 0 && energy.stalls == 0) {
    cause +=
        fmt::format(" the counter stood still for its last {:.3f} s,", Seconds(end.unmoved_ns));
  }
  if (const int64_t outside_ns = begin.outside_ns + end.outside_ns; outside_ns > 0) {
    cause += fmt::format(" {:.3f} s were not sampled,", Seconds(outside_ns));
  }
  if (!is_told()) add_events(end.counts_behind);
  if (!is_told()) cause += " what broke off before went on,";
  cause.pop_back();
  return cause;
}

Energy Difference(const Domain& domain, const EdgePoint& begin, const EdgePoint& end,
                  int64_t length_ns, const WindowRules& rules) {
  Energy energy;
  if (!domain.cause.empty()) {
    energy.cause = domain.cause;
    energy.fix = domain.fix;
    return energy;
  }
  if (length_ns <= 0 || begin.knot_ns < 0 || end.knot_ns < 0) {
    energy.state = State::kGap;
    energy.void_ns = std::max<int64_t>(length_ns, 0);
    energy.cause = length_ns <= 0 ? "the window is empty" : "nothing has been sampled yet";
    return energy;
  }
  energy.wraps = end.counts.wraps - begin.counts.wraps;
  energy.resets = end.counts.resets - begin.counts.resets;
  energy.gaps = end.counts.gaps - begin.counts.gaps;
  energy.stalls = end.counts.stalls - begin.counts.stalls;
  energy.ambiguous = end.counts.ambiguous - begin.counts.ambiguous;
  const int64_t outside_ns = begin.outside_ns + end.outside_ns;
  energy.void_ns =
      std::clamp<int64_t>(std::llround(end.void_ns - begin.void_ns) + outside_ns, 0, length_ns);
  const double joules = std::max(0.0, end.joules - begin.joules);
  const double spread_joules = end.spread_joules - begin.spread_joules;
  energy.uncertainty_joules =
      begin.uncertainty_joules + end.uncertainty_joules + spread_joules + 2 * domain.step_joules;
  const double known_s = Seconds(length_ns - energy.void_ns);

  if (static_cast<double>(energy.void_ns) > kMaxVoidShare * static_cast<double>(length_ns)) {
    energy.state = State::kGap;
    energy.cause = VoidCause(energy, begin, end, length_ns);
    if (rules.allow_gaps && known_s > 0) energy.joules = joules;
    return energy;
  }
  const double unmoved_joules = begin.unmoved_joules + end.unmoved_joules;
  energy.uncertainty_joules += unmoved_joules;
  // What is not worth withholding a window for is missing in its joules all the same.
  if (known_s > 0) energy.uncertainty_joules += joules / known_s * Seconds(energy.void_ns);
  if (!domain.doubt.empty()) {
    energy.state = State::kImplausible;
    energy.cause = domain.doubt;
    energy.fix =
        "check the firmware's DRAM mode for RAPL, then run emlio energy doctor again on an idle "
        "host";
    return energy;
  }
  if (joules > domain.plausible_watts * known_s) {
    energy.state = State::kImplausible;
    energy.cause = fmt::format("{:.0f} W on average, and more than {:.0f} W cannot be",
                               joules / known_s, domain.plausible_watts);
    energy.fix = "check the firmware's setting for this counter; newer kernels know more units";
    return energy;
  }
  if (joules + energy.uncertainty_joules < domain.plausible_from_watts * known_s) {
    energy.state = State::kImplausible;
    energy.cause = fmt::format("{:.3g} W on average, and less than {:.3g} W cannot be",
                               joules / known_s, domain.plausible_from_watts);
    energy.fix = "check the firmware's setting for this counter, or --dram-watts";
    return energy;
  }
  if (begin.knot_ns == end.knot_ns) {
    energy.state = State::kBelowResolution;
    energy.cause = fmt::format("{:.3f} s lie between two steps of the counter", Seconds(length_ns));
    energy.fix = "measure for longer, or sample more often";
    return energy;
  }
  if (energy.uncertainty_joules > kMaxUncertainShare * joules) {
    energy.state = State::kBelowResolution;
    energy.cause =
        domain.quantity == Quantity::kPower
            ? fmt::format(
                  "{:.3g} J with an uncertainty of {:.3g} J: power changes faster than it "
                  "is sampled, and there is no energy counter",
                  joules, energy.uncertainty_joules)
            : fmt::format("{:.3g} J with an uncertainty of {:.3g} J", joules,
                          energy.uncertainty_joules);
    if (unmoved_joules > energy.uncertainty_joules / 2) {
      energy.cause += ": the counter has not moved since, and may have used so much";
    } else if (domain.quantity == Quantity::kEnergy &&
               spread_joules > energy.uncertainty_joules / 2) {
      energy.cause +=
          energy.gaps > 0
              ? fmt::format(": readings failed ({}), and the counter may have paused meanwhile",
                            energy.gaps)
              : ": the counter stood still, and may have lost so much";
    }
    energy.fix = "measure for longer, or sample more often";
    return energy;
  }
  energy.joules = joules;
  if (domain.shared) {
    energy.state = State::kShared;
    energy.cause = "the whole GPU, of which others may use a part";
    if (domain.virtualised) energy.cause += "; this host has a virtual share of it";
  } else if (domain.virtualised) {
    energy.state = State::kVirtualised;
    energy.cause = "a hypervisor makes this figure up from its own accounting";
  } else if (domain.quantity == Quantity::kPower) {
    energy.state = State::kIntegrated;
  } else {
    energy.state = State::kMeasured;
  }
  const auto remark = [&energy](std::string_view text) {
    energy.cause += fmt::format("{}{}", energy.cause.empty() ? "" : "; ", text);
  };
  if (domain.filtered) remark("the CPU distorts it by design: energy filtering is on");
  if (energy.gaps > 0) {
    remark(
        fmt::format("readings failed ({}), and {:.3f} s are unknown: that is in the "
                    "uncertainty, and so is what a counter that paused meanwhile lacks",
                    energy.gaps, Seconds(energy.void_ns)));
  }
  return energy;
}

}  // namespace

std::string_view StateName(State state) {
  switch (state) {
    case State::kMeasured:
      return "measured";
    case State::kIntegrated:
      return "integrated";
    case State::kVirtualised:
      return "virtualised";
    case State::kShared:
      return "whole_device";
    case State::kBelowResolution:
      return "below_resolution";
    case State::kImplausible:
      return "implausible";
    case State::kGap:
      return "gap";
    case State::kUnavailable:
      return "unavailable";
  }
  return "unknown";
}

History::History(std::vector<Domain> domains, size_t kept_ticks)
    : domains_(std::move(domains)),
      rows_(std::max<size_t>(kept_ticks, 2)),
      ring_(rows_ * domains_.size()),
      taken_(rows_) {}

void History::Append(std::span<const Sample> samples, const Moment& taken) {
  const size_t row = ticks_ % rows_;
  std::copy(samples.begin(), samples.end(),
            ring_.begin() + static_cast<ptrdiff_t>(row * domains_.size()));
  taken_[row] = taken;
  ++ticks_;
}

size_t History::kept() const { return std::min<size_t>(ticks_, rows_); }

const Sample& History::At(size_t tick, size_t domain) const {
  return ring_[(ticks_ - kept() + tick) % rows_ * domains_.size() + domain];
}

std::optional<size_t> History::KnotBefore(size_t tick, size_t domain) const {
  while (tick > 0) {
    --tick;
    if (tick == 0 || At(tick, domain).knot) return tick;
  }
  return std::nullopt;
}

std::optional<size_t> History::KnotAfter(size_t tick, size_t domain) const {
  while (tick + 1 < kept()) {
    ++tick;
    if (tick + 1 == kept() || At(tick, domain).knot) return tick;
  }
  return std::nullopt;
}

void History::AddUnmoved(size_t domain, size_t from, int64_t time_ns, EdgePoint* point) const {
  const Domain& of = domains_[domain];
  const Sample& a = At(from, domain);
  int64_t usual_ns = std::max(of.refresh_ns, of.update_period_ns);
  if (const auto before = KnotBefore(from, domain)) {
    const Sample& b = At(*before, domain);
    usual_ns = std::max(usual_ns, a.time_ns - b.time_ns);
    // As if it had gone on as before. It may have died any time after the knot before its last one.
    double watts = MeanWatts(b, a).value_or(0);
    if (const auto first = KnotBefore(*before, domain)) {
      watts = std::max(watts, MeanWatts(At(*first, domain), b).value_or(0));
    }
    point->unmoved_joules =
        std::max(0.0, watts * Seconds(time_ns - b.time_ns) - (a.joules - b.joules));
  }
  const int64_t stood_ns = At(kept() - 1, domain).time_ns - a.time_ns;
  if (AlwaysDraws(of.kind) && stood_ns > std::max(kMaxUnmovedNs, kUnmovedIntervals * usual_ns)) {
    point->unmoved_ns = time_ns - a.time_ns;
  }
}

EdgePoint History::PointAt(size_t domain, int64_t time_ns) const {
  EdgePoint point;
  if (kept() == 0) return point;
  const int64_t first_ns = At(0, domain).time_ns;
  const int64_t last_ns = At(kept() - 1, domain).time_ns;
  const int64_t inside_ns = std::clamp(time_ns, first_ns, last_ns);
  point.outside_ns = std::abs(time_ns - inside_ns);

  // The first sample behind the moment, and so the last one that is not.
  size_t low = 0;
  size_t high = kept();
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (At(middle, domain).time_ns > inside_ns) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  point.counts = At(low - 1, domain);
  point.counts_behind = point.counts;
  const size_t from = KnotBefore(low, domain).value_or(0);
  const Sample& a = At(from, domain);
  const auto to = KnotAfter(from, domain);
  point.knot_ns = a.time_ns;
  point.joules = a.joules;
  point.spread_joules = a.spread_joules;
  point.void_ns = static_cast<double>(a.void_ns);
  if (!to) return point;
  const Sample& b = At(*to, domain);
  point.counts_behind = b;
  const double length = static_cast<double>(b.time_ns - a.time_ns);
  const double share =
      length > 0 ? std::min(1.0, static_cast<double>(inside_ns - a.time_ns) / length) : 0;
  point.joules += share * (b.joules - a.joules);
  point.spread_joules += share * (b.spread_joules - a.spread_joules);
  const double void_ns = share * static_cast<double>(b.void_ns - a.void_ns);
  if (!b.knot) {
    AddUnmoved(domain, from, inside_ns, &point);
    point.void_ns += std::max(void_ns, static_cast<double>(point.unmoved_ns));
    return point;
  }
  point.void_ns += void_ns;

  double most = 0;
  double least = INFINITY;
  // False when the samples do not say: void time is no neighbour.
  const auto see = [&](const Sample& x, const Sample& y) {
    const auto watts = MeanWatts(x, y);
    if (!watts) return false;
    most = std::max(most, *watts);
    least = std::min(least, *watts);
    return true;
  };
  see(a, b);
  const auto knot_before = KnotBefore(from, domain);
  const auto knot_after = KnotAfter(*to, domain);
  const bool before = knot_before && see(At(*knot_before, domain), a);
  const bool after = knot_after && see(b, At(*knot_after, domain));
  // Nothing to compare with: all of it may have been used in a moment.
  if (!before && !after) least = 0;
  // Of a power that begins or ends in this interval, its mean shows a part: the smaller, the nearer
  // to the end that has no neighbour. All that it may have added is `seen_watts` over the interval.
  const double seen_watts = most > least ? most - least : 0;
  double change_watts = seen_watts;
  if (!before && share > 0) change_watts /= share;
  if (!after) change_watts /= 1 - share;
  const double change_joules =
      change_watts *
      (share * (1 - share) * length * 1e-9 +
       Seconds(std::max(domains_[domain].refresh_ns, domains_[domain].update_period_ns)));
  const bool partly_seen = !before || !after;
  point.uncertainty_joules =
      partly_seen ? std::fmin(change_joules, seen_watts * length * 1e-9) : change_joules;
  return point;
}

Edge History::EdgeAt(int64_t time_ns) const {
  Edge edge;
  edge.time_ns = time_ns;
  edge.points.reserve(domains_.size());
  for (size_t i = 0; i < domains_.size(); ++i) edge.points.push_back(PointAt(i, time_ns));
  return edge;
}

std::vector<Energy> EnergyBetween(std::span<const Domain> domains, const Edge& begin,
                                  const Edge& end, const WindowRules& rules) {
  std::vector<Energy> energies;
  energies.reserve(domains.size());
  for (size_t i = 0; i < domains.size(); ++i) {
    energies.push_back(
        Difference(domains[i], begin.points[i], end.points[i], end.time_ns - begin.time_ns, rules));
  }
  return energies;
}

Total TotalOf(std::span<const Domain> domains, std::span<const Energy> energies) {
  Total total;
  double joules = 0;
  bool has_cpu = false;
  State worst = State::kMeasured;
  for (size_t i = 0; i < domains.size(); ++i) {
    const Domain& domain = domains[i];
    if (!domain.in_total) continue;
    // Memory is counted or it is not; a CPU or a GPU that is there and not counted is missing.
    if (domain.source.empty() && domain.kind == DomainKind::kDram) {
      total.without.push_back(domain.id);
      continue;
    }
    const Energy& energy = energies[i];
    if (!energy.joules || energy.state == State::kGap) {
      total.missing.push_back(domain.id);
      worst = std::max(worst, energy.state);
      continue;
    }
    has_cpu |= domain.kind != DomainKind::kDram && domain.kind != DomainKind::kGpu;
    joules += *energy.joules;
    total.uncertainty_joules += energy.uncertainty_joules;
    worst = std::max(worst, energy.state);
    total.domains.push_back(domain.id);
  }
  if (total.missing.empty() && has_cpu) {
    total.joules = joules;
    total.state = worst;
  } else {
    total.state = total.missing.empty() ? State::kUnavailable : worst;
  }
  return total;
}

std::vector<GpuCheck> CompareGpus(std::span<const Domain> domains,
                                  std::span<const Energy> energies) {
  std::vector<GpuCheck> checks;
  for (size_t power = 0; power < domains.size(); ++power) {
    if (domains[power].kind != DomainKind::kGpuPower || !energies[power].joules) continue;
    for (size_t counter = 0; counter < domains.size(); ++counter) {
      const Domain& gpu = domains[counter];
      if (gpu.kind != DomainKind::kGpu && gpu.kind != DomainKind::kModule) continue;
      if (gpu.device != domains[power].device || energies[counter].joules.value_or(0) <= 0) {
        continue;
      }
      const double gap_percent = (*energies[power].joules / *energies[counter].joules - 1) * 100;
      checks.push_back({counter, power, gap_percent, std::abs(gap_percent) > kMaxGpuGapPercent});
    }
  }
  return checks;
}

}  // namespace emlio::energy
