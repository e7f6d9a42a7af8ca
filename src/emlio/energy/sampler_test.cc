// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace emlio::energy {
namespace {

constexpr int64_t kInterval = 100 * kNsPerMs;
constexpr int64_t kHang = 60 * kNsPerSecond;

// 1,000 s after the monotonic clock began it was 12:00:00.030.
Moment At(int64_t ns) {
  return {1000 * kNsPerSecond + ns, 43200 * kNsPerSecond + 30 * kNsPerMs + ns, 0};
}

TEST(TickScheduleTest, TicksFallOnMultiplesOfTheIntervalOfTheWallClock) {
  TickSchedule schedule(kInterval, At(0));
  EXPECT_EQ(schedule.deadline_ns(), At(70 * kNsPerMs).monotonic_ns);
  const auto tick = schedule.Advance(At(70 * kNsPerMs + 40'000));
  EXPECT_EQ(tick.late_ns, 40'000);
  EXPECT_EQ(tick.missed, 0);
  EXPECT_EQ(schedule.deadline_ns(), At(170 * kNsPerMs).monotonic_ns);
}

TEST(TickScheduleTest, LatenessDoesNotAddUp) {
  TickSchedule schedule(kInterval, At(0));
  for (int64_t tick = 0; tick < 1000; ++tick) {
    EXPECT_EQ(schedule.Advance(At(70 * kNsPerMs + tick * kInterval + 60'000)).late_ns, 60'000);
  }
}

TEST(TickScheduleTest, MissedTicksAreCountedAndNotCaughtUp) {
  TickSchedule schedule(kInterval, At(0));
  const auto tick = schedule.Advance(At(70 * kNsPerMs + 350 * kNsPerMs));
  EXPECT_EQ(tick.missed, 3);
  EXPECT_EQ(tick.late_ns, 350 * kNsPerMs);
  EXPECT_EQ(schedule.deadline_ns(), At(470 * kNsPerMs).monotonic_ns);
}

TEST(TickScheduleTest, AStepOfTheWallClockIsSeenAndTicksAreAlignedAnew) {
  TickSchedule schedule(kInterval, At(0));
  schedule.Advance(At(70 * kNsPerMs));
  Moment stepped = At(170 * kNsPerMs);
  stepped.wall_ns += 3 * kNsPerSecond + 20 * kNsPerMs;
  const auto tick = schedule.Advance(stepped);
  EXPECT_EQ(tick.clock_step_ns, 3 * kNsPerSecond + 20 * kNsPerMs);
  // 20 ms behind a multiple now, so the next one is 80 ms away.
  EXPECT_EQ(schedule.deadline_ns(), stepped.monotonic_ns + 80 * kNsPerMs);
  stepped.monotonic_ns += 80 * kNsPerMs;
  stepped.wall_ns += 80 * kNsPerMs;
  EXPECT_EQ(schedule.Advance(stepped).clock_step_ns, 0);
}

TEST(TickScheduleTest, AStepBackIsOneToo) {
  TickSchedule schedule(kInterval, At(0));
  schedule.Advance(At(70 * kNsPerMs));
  Moment stepped = At(170 * kNsPerMs);
  stepped.wall_ns -= 5 * kNsPerMs;
  EXPECT_EQ(schedule.Advance(stepped).clock_step_ns, -5 * kNsPerMs);
  EXPECT_GT(schedule.deadline_ns(), stepped.monotonic_ns);
}

TEST(TickScheduleTest, SlewingIsNoStepAndTicksFollowIt) {
  TickSchedule schedule(kInterval, At(0));
  Moment now;
  for (int64_t tick = 0; tick < 1000; ++tick) {
    now.monotonic_ns = schedule.deadline_ns();
    // 400 millionths too fast.
    const int64_t since_ns = now.monotonic_ns - At(0).monotonic_ns;
    now.wall_ns = At(0).wall_ns + since_ns + since_ns / 2500;
    EXPECT_EQ(schedule.Advance(now).clock_step_ns, 0);
    const int64_t off_ns = now.wall_ns % kInterval;
    EXPECT_LE(std::min(off_ns, kInterval - off_ns), 2 * kNsPerMs);
  }
}

TEST(TickScheduleTest, ClocksThatWereReadFarApartAreNoStep) {
  TickSchedule schedule(kInterval, At(0));
  Moment interrupted = At(70 * kNsPerMs);
  interrupted.wall_ns += 8 * kNsPerMs;
  interrupted.apart_ns = 20 * kNsPerMs;
  EXPECT_EQ(schedule.Advance(interrupted).clock_step_ns, 0);
}

TEST(TickScheduleTest, BothClocksOfThisHostAreReadTogether) {
  const Moment first = ReadMoment();
  const Moment second = ReadMoment();
  EXPECT_GE(second.monotonic_ns, first.monotonic_ns);
  EXPECT_GT(first.wall_ns, 1'600'000'000 * kNsPerSecond);
}

// 50 W by the clock of this host.
class ClockCounter : public Counter {
 public:
  Result<uint64_t> Read() override {
    return static_cast<uint64_t>(SystemClock().NowNs() / 1000) * 50;
  }
};

std::vector<Meter> OnePackage() {
  std::vector<Meter> meters;
  Domain domain = MakeDomain(DomainKind::kPackage, "powercap", 0, -1);
  domain.in_total = true;
  meters.push_back({domain, std::make_unique<ClockCounter>()});
  return meters;
}

std::unique_ptr<Sampler> StartSampler(SamplerOptions options = {}) {
  if (options.interval_ns == kInterval) options.interval_ns = 10 * kNsPerMs;
  auto sampler = Sampler::Start("node", OnePackage(), std::move(options));
  EXPECT_TRUE(sampler.ok()) << sampler.status().ToString();
  return *std::move(sampler);
}

TEST(SamplerTest, AWindowFromStartToStopIsWhole) {
  auto sampler = StartSampler();
  const int64_t begin_ns = SystemClock().NowNs();
  ASSERT_TRUE(sampler->WaitUntilSampled(begin_ns + 200 * kNsPerMs, kHang).ok());
  const int64_t end_ns = SystemClock().NowNs();
  sampler->Stop();
  const Recorder& recorder = **sampler->recorder();
  const Energy energy = recorder.Window(begin_ns, end_ns)[0];
  EXPECT_EQ(energy.void_ns, 0);
  const double truth = 50e-9 * static_cast<double>(end_ns - begin_ns);
  ASSERT_TRUE(energy.joules) << energy.cause;
  EXPECT_NEAR(*energy.joules, truth, truth * 0.01);
}

TEST(SamplerTest, TheObserverSeesEveryTickOnce) {
  std::atomic<int64_t> seen = 0;
  SamplerOptions options;
  options.observer = [&](const TickView& view) {
    EXPECT_EQ(view.samples.size(), 1u);
    EXPECT_EQ(view.recorder.node(), "node");
    EXPECT_GT(view.taken.wall_ns, 0);
    ++seen;
  };
  auto sampler = StartSampler(std::move(options));
  ASSERT_TRUE(sampler->WaitUntilSampled(SystemClock().NowNs() + 100 * kNsPerMs, kHang).ok());
  sampler->Stop();
  EXPECT_EQ(sampler->Stats()->ticks, seen.load());
  EXPECT_GE(seen.load(), 3);
}

TEST(SamplerTest, ItsOwnCostIsMeasured) {
  auto sampler = StartSampler();
  ASSERT_TRUE(sampler->WaitUntilSampled(SystemClock().NowNs() + 100 * kNsPerMs, kHang).ok());
  sampler->Stop();
  const SamplerStats stats = *sampler->Stats();
  EXPECT_GT(stats.cpu_ns, 0);
  EXPECT_GT(stats.elapsed_ns, stats.cpu_ns);
  EXPECT_LE(stats.late_p50_ns, stats.late_p99_ns);
  EXPECT_LE(stats.late_p99_ns, stats.late_max_ns);
}

TEST(SamplerTest, ASlowObserverMakesTicksMissedAndNotMore) {
  SamplerOptions options;
  options.observer = [](const TickView&) { usleep(45'000); };
  auto sampler = StartSampler(std::move(options));
  ASSERT_TRUE(sampler->WaitUntilSampled(SystemClock().NowNs() + 300 * kNsPerMs, kHang).ok());
  sampler->Stop();
  const SamplerStats stats = *sampler->Stats();
  EXPECT_GT(stats.missed, 0);
  EXPECT_LE(stats.ticks, stats.elapsed_ns / (45 * kNsPerMs) + 1);
}

TEST(SamplerTest, StopDoesNotWaitForTheNextTickAndMayBeRepeated) {
  SamplerOptions options;
  options.interval_ns = 60 * kNsPerSecond;
  auto sampler = Sampler::Start("node", OnePackage(), std::move(options));
  ASSERT_TRUE(sampler.ok());
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back([&] { (*sampler)->Stop(); });
  threads.clear();
  (*sampler)->Stop();
  EXPECT_EQ((*sampler)->Stats()->ticks, 2);
  EXPECT_EQ((*sampler)->WaitUntilSampled(SystemClock().NowNs() + kHang, kHang).code(),
            Code::kCancelled);
}

TEST(SamplerTest, WaitingForASampleHasAnEnd) {
  auto sampler = StartSampler();
  EXPECT_EQ(sampler->WaitUntilSampled(SystemClock().NowNs() + kHang, kNsPerMs).code(),
            Code::kTimeout);
}

TEST(SamplerTest, IntervalsThatMakeNoSenseAreRefused) {
  for (int64_t interval_ns : {int64_t{0}, int64_t{-1}, kNsPerMs, 61 * kNsPerSecond}) {
    SamplerOptions options;
    options.interval_ns = interval_ns;
    EXPECT_EQ(Sampler::Start("node", OnePackage(), std::move(options)).status().code(),
              Code::kInvalidArgument);
  }
}

TEST(SamplerTest, AHostWithoutMetersIsSampledAllTheSame) {
  auto sampler = Sampler::Start("node", {}, {});
  ASSERT_TRUE(sampler.ok());
  EXPECT_TRUE((*(*sampler)->recorder())->Window(0, 1).empty());
}

TEST(SamplerTest, AForkedChildSaysThatItDoesNotSample) {
  auto sampler = StartSampler();
  for (int round = 0; round < 20; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);  // nothing may hang
      const bool refuses = sampler->recorder().status().code() == Code::kUnavailable &&
                           sampler->Stats().status().code() == Code::kUnavailable &&
                           sampler->WaitUntilSampled(0, 0).code() == Code::kUnavailable;
      sampler->Stop();
      sampler.reset();
      _exit(refuses ? 0 : 1);
    }
    ASSERT_GT(child, 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  // The parent goes on.
  EXPECT_TRUE(sampler->WaitUntilSampled(SystemClock().NowNs(), kHang).ok());
}

}  // namespace
}  // namespace emlio::energy
