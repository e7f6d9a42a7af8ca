// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "emlio/base/status.h"
#include "emlio/base/thread_owner.h"
#include "emlio/energy/recorder.h"
#include "emlio/energy/tick_schedule.h"

namespace emlio::energy {

// One tick, as an observer sees it.
struct TickView {
  Moment taken;
  int64_t late_ns = 0;
  int64_t missed = 0;
  int64_t clock_step_ns = 0;
  const Recorder& recorder;
  std::span<const Sample> samples;  // until the observer returns
};

struct SamplerOptions {
  int64_t interval_ns = 100 * kNsPerMs;
  RecorderOptions recorder;
  // Called on the sampler's thread after each tick (the first one on that of Start). Whoever is
  // slow here makes ticks late.
  std::function<void(const TickView&)> observer;
};

// What sampling itself was like (METRICS.md section 7).
struct SamplerStats {
  int64_t ticks = 0;
  int64_t late = 0;
  int64_t missed = 0;
  int64_t clock_steps = 0;
  int64_t clock_step_ns = 0;  // their sum
  int64_t late_p50_ns = 0;
  int64_t late_p99_ns = 0;
  int64_t late_max_ns = 0;
  int64_t cpu_ns = 0;
  int64_t elapsed_ns = 0;
  // Of one core; 0 where no time has passed.
  double cpu_share() const {
    return elapsed_ns > 0 ? static_cast<double>(cpu_ns) / static_cast<double>(elapsed_ns) : 0;
  }
};

// Samples a host's meters at fixed times on a thread of its own, from Start until Stop or its
// destruction. All functions are thread-safe. In a child made by fork there is no such thread:
// every function says so (kUnavailable) or does nothing, and nothing hangs.
class Sampler {
 public:
  // Takes the first sample before it returns. kInvalidArgument for an interval that is not between
  // 10 ms and 60 s; the error of Thread::Start.
  static Result<std::unique_ptr<Sampler>> Start(std::string node, std::vector<Meter> meters,
                                                SamplerOptions options);
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  // Takes the last sample, so that windows up to now can be asked for, and ends the thread. What
  // was sampled stays. Again: nothing.
  void Stop();

  // Who may be asked for domains, edges and windows; not for TakeSample. Not in a child.
  Result<const Recorder*> recorder() const;
  Result<SamplerStats> Stats() const;
  // Waits until that time is among the samples: about one interval for the present. kTimeout after
  // `timeout_ns`, kCancelled when the sampler was stopped before.
  Status WaitUntilSampled(int64_t time_ns, int64_t timeout_ns) const;

 private:
  struct Shared;
  explicit Sampler(std::unique_ptr<Shared> shared);
  Status CheckProcess() const;

  ThreadOwner<Shared> shared_;
};

}  // namespace emlio::energy
