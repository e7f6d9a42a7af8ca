// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "emlio/energy_sinks/http_post.h"

namespace emlio::energy_sinks {

// What an answer to a write means.
struct InfluxVerdict {
  enum class What {
    kTaken,     // all but `refused` points
    kTryAgain,  // nothing, or nobody knows: the same again does no harm
    kTooLarge,  // smaller pieces may do
  };
  What what = What::kTaken;
  int64_t refused = 0;
  std::string error;  // empty: none
};

// `points` were sent. Any status and any body.
InfluxVerdict JudgeInfluxAnswer(const HttpAnswer& answer, int64_t points);

}  // namespace emlio::energy_sinks
