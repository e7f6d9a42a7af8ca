// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "emlio/plan/plan.h"

// What `emlio plan` says, as text for people.
namespace emlio::tool {

// Half-open: begin, begin+1, ..., end-1.
struct NumberRange {
  uint64_t begin = 0;
  uint64_t end = 0;
};

// Steps, shares and tail of a plan: several lines. REQUIRES: plan.CheckWorld(world_size) is ok.
std::string PlanText(const plan::Plan& plan, uint32_t world_size);

// Slots of one batch that hold consecutive records of one shard.
struct SlotRun {
  uint32_t slot = 0;
  uint32_t slots = 0;
  uint64_t number = 0;  // of the first record, in the data set
  plan::PlannedRecord first;
  bool padded = false;
};
// A batch in as few runs as possible. REQUIRES: `share` is one of the plan.
std::vector<SlotRun> RunsOf(const plan::Plan& plan, uint64_t epoch, const plan::StepShare& share);

// A listing of slots, line by line, so that a long one needs no memory.
class SlotLines {
 public:
  // The largest epoch and step that will come decide how wide columns are. `has_offsets`: whether
  // there is a column for the place in the file.
  SlotLines(const plan::Plan& plan, uint64_t last_epoch, bool has_offsets);

  std::string Header() const;
  // `offset`: of the first record's header in its shard.
  std::string Line(uint64_t epoch, uint64_t step, uint32_t rank, const SlotRun& run,
                   uint64_t offset, const std::string& shard) const;

 private:
  const bool has_offsets_;
  size_t epoch_width_, step_width_, slot_width_, number_width_;
};

}  // namespace emlio::tool
