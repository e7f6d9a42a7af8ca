// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "emlio/base/mutex.h"
#include "emlio/base/nanoseconds.h"

namespace emlio::energy {
namespace {

constexpr int64_t kMinIntervalNs = 10 * kNsPerMs;
constexpr int64_t kMaxIntervalNs = 60 * kNsPerSecond;

}  // namespace

// What the thread and its callers share.
struct Sampler::Shared {
  Shared(std::string node, std::vector<Meter> meters, SamplerOptions sampler_options)
      : options(std::move(sampler_options)),
        recorder(std::move(node), std::move(meters), options.recorder),
        late_ns(std::max<size_t>(options.recorder.kept_ticks, 1)) {}

  void Run() EMLIO_EXCLUDES(mu);
  void RequestEnd() EMLIO_EXCLUDES(mu) {
    const MutexLock lock(mu);
    stop = true;
    changed.NotifyAll();
  }
  // Samples, tells the observer, and counts.
  void Take(const Moment& now, const TickSchedule::Tick& tick, bool due) EMLIO_EXCLUDES(mu);

  const SamplerOptions options;
  Recorder recorder;
  int64_t started_ns = 0;

  Mutex mu;
  CondVar changed;
  bool stop EMLIO_GUARDED_BY(mu) = false;
  bool stopped EMLIO_GUARDED_BY(mu) = false;
  SamplerStats stats EMLIO_GUARDED_BY(mu);
  int64_t due EMLIO_GUARDED_BY(mu) = 0;  // ticks at a deadline
  std::vector<int64_t> late_ns
      EMLIO_GUARDED_BY(mu);  // of the latest ticks at a deadline, in a ring
};

void Sampler::Shared::Take(const Moment& now, const TickSchedule::Tick& tick, bool at_deadline) {
  const std::span<const Sample> samples = recorder.TakeSample(now);
  if (options.observer) {
    options.observer({now, tick.late_ns, tick.missed, tick.clock_step_ns, recorder, samples});
  }
  const MutexLock lock(mu);
  ++stats.ticks;
  stats.missed += tick.missed;
  stats.late += tick.late_ns > options.interval_ns / 10;
  stats.clock_steps += tick.clock_step_ns != 0;
  stats.clock_step_ns += tick.clock_step_ns;
  stats.late_max_ns = std::max(stats.late_max_ns, tick.late_ns);
  if (at_deadline) late_ns[static_cast<size_t>(due++) % late_ns.size()] = tick.late_ns;
  stats.elapsed_ns = SystemClock().NowNs() - started_ns;
  changed.NotifyAll();
}

void Sampler::Shared::Run() {
  TickSchedule schedule(options.interval_ns, ReadMoment());
  while (true) {
    bool stopping = false;
    {
      const MutexLock lock(mu);
      while (!stop && SystemClock().NowNs() < schedule.deadline_ns()) {
        changed.WaitUntil(mu, SteadyTime(schedule.deadline_ns()));
      }
      stopping = stop;
    }
    const Moment now = ReadMoment();
    if (now.monotonic_ns < schedule.deadline_ns()) {
      Take(now, {}, false);
    } else {
      Take(now, schedule.Advance(now), true);
    }
    const MutexLock lock(mu);
    stats.cpu_ns = ThreadCpuNs();
    if (!stopping) continue;
    stopped = true;
    changed.NotifyAll();
    return;
  }
}

Sampler::Sampler(std::unique_ptr<Shared> shared) : shared_(std::move(shared)) {}

Result<std::unique_ptr<Sampler>> Sampler::Start(std::string node, std::vector<Meter> meters,
                                                SamplerOptions options) {
  if (options.interval_ns < kMinIntervalNs || options.interval_ns > kMaxIntervalNs) {
    return InvalidArgument(fmt::format(
        "a sampling interval of {} ms: 10 ms to 60000 ms are possible, 100 ms is the default",
        static_cast<double>(options.interval_ns) / kNsPerMs));
  }
  auto shared = std::make_unique<Shared>(std::move(node), std::move(meters), std::move(options));
  shared->started_ns = SystemClock().NowNs();
  shared->Take(ReadMoment(), {}, false);
  auto sampler = std::unique_ptr<Sampler>(new Sampler(std::move(shared)));
  EMLIO_RETURN_IF_ERROR(sampler->shared_.Start("emlio-energy"));
  return sampler;
}

Status Sampler::CheckProcess() const {
  if (!shared_.in_child()) return OkStatus();
  return Unavailable(fmt::format(
      "energy is sampled by process {}, of which this one is a fork: start a sampler here, or ask "
      "that one",
      shared_.pid()));
}

void Sampler::Stop() {
  if (!CheckProcess().ok()) return;
  if (!shared_.started()) return;
  shared_->RequestEnd();
  // Several may stop at once; only the thread's end lets them go on.
  const MutexLock lock(shared_->mu);
  while (!shared_->stopped) shared_->changed.Wait(shared_->mu);
}

Sampler::~Sampler() = default;

Result<const Recorder*> Sampler::recorder() const {
  EMLIO_RETURN_IF_ERROR(CheckProcess());
  return &shared_->recorder;
}

Result<SamplerStats> Sampler::Stats() const {
  EMLIO_RETURN_IF_ERROR(CheckProcess());
  SamplerStats stats;
  std::vector<int64_t> late;
  {
    const MutexLock lock(shared_->mu);
    stats = shared_->stats;
    const size_t kept = std::min(static_cast<size_t>(shared_->due), shared_->late_ns.size());
    late.assign(shared_->late_ns.begin(), shared_->late_ns.begin() + static_cast<ptrdiff_t>(kept));
  }
  if (!late.empty()) {
    std::sort(late.begin(), late.end());
    stats.late_p50_ns = late[late.size() / 2];
    stats.late_p99_ns = late[late.size() * 99 / 100];
  }
  return stats;
}

Status Sampler::WaitUntilSampled(int64_t time_ns, int64_t timeout_ns) const {
  EMLIO_RETURN_IF_ERROR(CheckProcess());
  const auto deadline = SteadyTime(SystemClock().NowNs() + timeout_ns);
  const MutexLock lock(shared_->mu);
  while (shared_->recorder.sampled_until_ns() < time_ns) {
    if (shared_->stopped) return Cancelled("the sampler was stopped before that time");
    if (!shared_->changed.WaitUntil(shared_->mu, deadline) &&
        shared_->recorder.sampled_until_ns() < time_ns) {
      return TimeoutError("no sample was taken in time: does a driver hang?");
    }
  }
  return OkStatus();
}

}  // namespace emlio::energy
