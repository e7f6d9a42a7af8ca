// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "emlio/plan/plan.h"

namespace emlio::tool {

// Checks that one rank's passes hand out the records that the plan gives them, each once; padding
// is left out. One bit per record of the data set; costs about as much again as planning. Not
// thread-safe.
class ExactlyOnce {
 public:
  // The plan is borrowed.
  ExactlyOnce(const plan::Plan& plan, uint32_t rank, uint32_t world_size)
      : plan_(plan), rank_(rank), world_size_(world_size) {}

  // A pass over the steps from first_step on begins.
  void BeginPass(uint64_t epoch, uint64_t first_step);
  // From a batch of that pass, in any order of steps: numbers in manifest order of its records,
  // without those that pad it.
  void Add(uint64_t step, std::span<const uint64_t> indices);
  // The pass is over. Due was every record of the steps that came or, if the epoch has `ended`, of
  // all its steps.
  void EndPass(bool ended);

  uint64_t passes() const { return passes_; }
  uint64_t repeated() const { return repeated_; }      // came again within a pass
  uint64_t missing() const { return missing_; }        // due, did not come
  uint64_t unexpected() const { return unexpected_; }  // came, was not due in that pass
  bool ok() const { return repeated_ + missing_ + unexpected_ == 0; }

 private:
  const plan::Plan& plan_;
  const uint32_t rank_;
  const uint32_t world_size_;
  uint64_t epoch_ = 0;
  uint64_t first_step_ = 0;
  uint64_t distinct_ = 0;        // of this pass
  std::vector<uint64_t> steps_;  // that came
  std::vector<uint64_t> seen_;
  std::vector<uint64_t> due_;
  uint64_t passes_ = 0;
  uint64_t repeated_ = 0;
  uint64_t missing_ = 0;
  uint64_t unexpected_ = 0;
};

}  // namespace emlio::tool
