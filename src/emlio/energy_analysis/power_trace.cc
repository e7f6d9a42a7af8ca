// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_analysis/power_trace.h"

#include <algorithm>
#include <cmath>

namespace emlio::energy_analysis {
namespace {

// Of one part's time and all sources: less is not known well enough to be drawn.
constexpr double kLeastKnown = 0.9;

}  // namespace

PowerTrace::PowerTrace(int64_t begin_ns, int64_t end_ns, size_t parts)
    : begin_ns_(begin_ns), end_ns_(end_ns), joules_(parts), known_ns_(parts) {}

void PowerTrace::Add(Cursor* cursor, const energy::Sample& sample, int64_t offset_ns) {
  if (cursor->started && !sample.knot) return;
  const int64_t time_ns = sample.time_ns + offset_ns;
  // Where part of the time is void its energy is not known: nothing is drawn there.
  if (cursor->started && sample.void_ns == cursor->void_ns) {
    AddEnergy(cursor->time_ns, time_ns, sample.joules - cursor->joules);
  }
  *cursor = {
      .started = true, .time_ns = time_ns, .joules = sample.joules, .void_ns = sample.void_ns};
}

void PowerTrace::AddEnergy(int64_t from_ns, int64_t to_ns, double joules) {
  if (to_ns <= from_ns || to_ns <= begin_ns_ || from_ns >= end_ns_) return;
  const double part_ns =
      static_cast<double>(end_ns_ - begin_ns_) / static_cast<double>(joules_.size());
  const double watts_ns = joules / static_cast<double>(to_ns - from_ns);
  const double from = static_cast<double>(std::max(from_ns, begin_ns_) - begin_ns_);
  const double to = static_cast<double>(std::min(to_ns, end_ns_) - begin_ns_);
  const auto first = std::min(static_cast<size_t>(from / part_ns), joules_.size() - 1);
  for (size_t part = first; part < joules_.size(); ++part) {
    const double begin = part_ns * static_cast<double>(part);
    if (begin >= to) break;
    const double known_ns = std::min(to, begin + part_ns) - std::max(from, begin);
    joules_[part] += watts_ns * known_ns;
    known_ns_[part] += known_ns;
  }
}

std::optional<double> PowerTrace::Watts(size_t part) const {
  const double part_ns =
      static_cast<double>(end_ns_ - begin_ns_) / static_cast<double>(joules_.size());
  const auto sources = static_cast<double>(std::max<size_t>(sources_, 1));
  const double known = known_ns_[part] / (part_ns * sources);
  if (known < kLeastKnown) return std::nullopt;
  return joules_[part] / (part_ns * 1e-9 * known);
}

double PowerTrace::joules() const {
  double sum = 0;
  for (const double part : joules_) sum += part;
  return sum;
}

}  // namespace emlio::energy_analysis
