// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "emlio/energy/accumulator.h"

namespace emlio::energy_analysis {

// Mean power over equal parts of a stretch of time, made of any number of samples in memory that
// does not grow. Energy is conserved: what a counter showed between two of its steps is spread
// evenly over the time between them. One thread at a time.
class PowerTrace {
 public:
  // REQUIRES: begin < end, parts > 0. Times of the clock of whoever adds.
  PowerTrace(int64_t begin_ns, int64_t end_ns, size_t parts);

  // One domain's samples come through a cursor of its own, in the order of time; `offset_ns` is
  // added to their times.
  struct Cursor {
    bool started = false;
    int64_t time_ns = 0;
    double joules = 0;
    int64_t void_ns = 0;
  };
  void Add(Cursor* cursor, const energy::Sample& sample, int64_t offset_ns = 0);
  // So much energy, spread evenly over a time; what lies outside the stretch is left out.
  void AddEnergy(int64_t from_ns, int64_t to_ns, double joules);

  // Says that so many domains are added, which is what knowing all of a part is measured by.
  void AddSource() { ++sources_; }

  size_t parts() const { return joules_.size(); }
  int64_t begin_ns() const { return begin_ns_; }
  int64_t end_ns() const { return end_ns_; }
  // Of one part, over the time of it that is known; none where most of it is not, or where one of
  // the sources was silent: what is missing is not 0.
  std::optional<double> Watts(size_t part) const;
  double joules() const;

 private:
  int64_t begin_ns_;
  int64_t end_ns_;
  std::vector<double> joules_;
  std::vector<double> known_ns_;  // summed over all sources
  size_t sources_ = 0;
};

}  // namespace emlio::energy_analysis
