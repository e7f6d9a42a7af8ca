// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy/recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <tuple>
#include <utility>

namespace emlio::energy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr double kTickSeconds = 0.1;

// A counter that is a function of time.
class FunctionCounter : public Counter {
 public:
  using Function = std::function<Result<uint64_t>(double seconds)>;
  FunctionCounter(const ManualClock& clock, Function function)
      : clock_(clock), function_(std::move(function)) {}
  Result<uint64_t> Read() override { return function_(static_cast<double>(clock_.NowNs()) * 1e-9); }

 private:
  const ManualClock& clock_;
  const Function function_;
};

class RecorderTest : public ::testing::Test {
 protected:
  void Add(Domain domain, FunctionCounter::Function function) {
    domain.in_total = domain.outside_total.empty();
    meters_.push_back(
        {std::move(domain), std::make_unique<FunctionCounter>(clock_, std::move(function))});
  }
  // A package whose counter shows the joules at a time.
  void AddPackage(std::function<double(double)> joules) {
    Add(MakeDomain(DomainKind::kPackage, "powercap", 0, -1),
        [joules](double t) { return static_cast<uint64_t>(std::llround(joules(t) * 1e6)); });
  }
  void AddPower(std::function<double(double)> watts) {
    Domain domain = MakeDomain(DomainKind::kGpu, "nvml", -1, -1);
    domain.quantity = Quantity::kPower;
    domain.step_joules = 0;
    domain.id = "gpu-a";
    Add(domain, [watts](double t) { return static_cast<uint64_t>(watts(t) * 1e6); });
  }
  // Samples from now on for that long, the first and the last moment included.
  void Run(double seconds) {
    if (!recorder_) {
      recorder_ = std::make_unique<Recorder>("node", std::move(meters_), options_, clock_);
      recorder_->TakeSample();
    }
    for (int tick = 0; tick < std::lround(seconds / kTickSeconds); ++tick) {
      clock_.AdvanceNs(std::llround(kTickSeconds * 1e9));
      recorder_->TakeSample();
    }
  }
  // Another host, at 0 s.
  void StartOver() {
    recorder_.reset();
    meters_.clear();
    clock_.AdvanceNs(-clock_.NowNs());
  }
  std::vector<Energy> Window(double begin, double end, bool allow_gaps = false) const {
    return recorder_->Window(std::llround(begin * 1e9), std::llround(end * 1e9), {allow_gaps});
  }

  ManualClock clock_;
  RecorderOptions options_;
  std::vector<Meter> meters_;
  std::unique_ptr<Recorder> recorder_;
};

TEST_F(RecorderTest, AWindowBetweenSamplesIsInterpolated) {
  AddPackage([](double t) { return 50 * t; });
  Run(5);
  const auto energy = Window(1.03, 3.57);
  ASSERT_TRUE(energy[0].joules);
  EXPECT_NEAR(*energy[0].joules, 50 * 2.54, 1e-3);
  EXPECT_EQ(energy[0].state, State::kMeasured);
  EXPECT_EQ(energy[0].cause, "");
}

TEST_F(RecorderTest, TicksAreReadByTheirNumberAndThoseThatAreForgottenAreSkipped) {
  options_.kept_ticks = 4;
  AddPackage([](double t) { return 50 * t; });
  Recorder recorder("node", std::move(meters_), options_, clock_);
  std::vector<int64_t> taken;
  const auto read = [&](uint64_t from, size_t most) {
    taken.clear();
    const auto range =
        recorder.ReadTicks(from, most, [&](const Moment& moment, std::span<const Sample> samples) {
          EXPECT_EQ(samples.size(), 1U);
          EXPECT_EQ(moment.wall_ns, moment.monotonic_ns + 7);
          taken.push_back(moment.monotonic_ns);
        });
    EXPECT_EQ(range.end - range.begin, taken.size());
    return range.begin;
  };
  EXPECT_EQ(recorder.TickFrom(0), 1U);
  EXPECT_EQ(read(1, 10), 1U);
  EXPECT_TRUE(taken.empty());
  for (int64_t tick = 1; tick <= 6; ++tick) recorder.TakeSample({tick * 100, tick * 100 + 7, 0});
  EXPECT_EQ(read(1, 10), 3U);
  EXPECT_EQ(taken, (std::vector<int64_t>{300, 400, 500, 600}));
  EXPECT_EQ(read(4, 2), 4U);
  EXPECT_EQ(taken, (std::vector<int64_t>{400, 500}));
  read(7, 2);
  EXPECT_TRUE(taken.empty());
  EXPECT_EQ(recorder.TickFrom(0), 3U);
  EXPECT_EQ(recorder.TickFrom(400), 4U);
  EXPECT_EQ(recorder.TickFrom(401), 5U);
  EXPECT_EQ(recorder.TickFrom(700), 7U);
}

TEST_F(RecorderTest, WindowsThatTileARunAddUpToIt) {
  AddPackage([](double t) { return 50 * t + 20 * std::sin(t); });
  Run(20);
  double sum = 0;
  for (double at = 0; at < 19.5; at += 1.7) {
    sum += *Window(at, std::min(at + 1.7, 20.0))[0].joules;
  }
  EXPECT_NEAR(sum, *Window(0, 20)[0].joules, 1e-6);
}

TEST_F(RecorderTest, TheUncertaintyCoversAChangeOfPowerAtAnEdge) {
  // 20 W until 2.03 s, then 200 W.
  const auto truth = [](double t) { return t < 2.03 ? 20 * t : 20 * 2.03 + 200 * (t - 2.03); };
  AddPackage(truth);
  Run(12);
  const Energy energy = Window(2.06, 10)[0];
  ASSERT_TRUE(energy.joules);
  const double error = std::abs(*energy.joules - (truth(10) - truth(2.06)));
  EXPECT_GT(error, 1);
  EXPECT_LT(error, energy.uncertainty_joules);
}

// Loads that are steady for two intervals or more: whatever the window, its error is no more than
// it says.
TEST_F(RecorderTest, TheUncertaintyCoversTheErrorOfAnyWindow) {
  struct Load {
    const char* name;
    double interval_s;
    std::function<double(double)> watts;
  };
  const Load loads[] = {
      {"constant", 0.1, [](double) { return 50.0; }},
      {"ramp", 0.1, [](double t) { return 20 + 10 * t; }},
      {"step", 0.1, [](double t) { return t < 7.33 ? 20.0 : 220.0; }},
      {"burst", 0.1, [](double t) { return t > 5.01 && t < 9.47 ? 300.0 : 12.0; }},
      {"square wave of 1.3 s", 0.1,
       [](double t) { return std::fmod(t, 1.3) < 0.26 ? 400.0 : 50.0; }},
      {"square wave of 7 Hz", 0.02,
       [](double t) { return std::fmod(t * 7, 1) < 0.5 ? 400.0 : 50.0; }},
      {"spikes", 0.01, [](double t) { return std::fmod(t, 0.9) < 0.03 ? 450.0 : 60.0; }}};
  constexpr int kMs = 20'000;
  std::mt19937_64 random(3);
  for (const Load& load : loads) {
    StartOver();
    std::vector<double> joules = {0};
    for (int ms = 0; ms < kMs; ++ms)
      joules.push_back(joules.back() + load.watts((ms + 0.5) * 1e-3) * 1e-3);
    AddPackage([&](double t) { return joules[static_cast<size_t>(std::lround(t * 1000))]; });
    Recorder recorder("node", std::move(meters_), options_, clock_);
    recorder.TakeSample();
    const int64_t interval_ns = std::llround(load.interval_s * 1e9);
    for (int64_t at = interval_ns; at <= kMs * kNsPerMs; at += interval_ns) {
      clock_.AdvanceNs(interval_ns);
      recorder.TakeSample();
    }
    int told = 0;
    for (int window = 0; window < 300; ++window) {
      const auto length = static_cast<int64_t>(500 + random() % 7500);
      const auto begin = static_cast<int64_t>(1500 + random() % (kMs - 3000 - length));
      const int64_t end = begin + length;
      const Energy energy = recorder.Window(begin * kNsPerMs, end * kNsPerMs)[0];
      if (!energy.joules) continue;
      ++told;
      const double truth = joules[static_cast<size_t>(end)] - joules[static_cast<size_t>(begin)];
      EXPECT_LE(std::abs(*energy.joules - truth), energy.uncertainty_joules + 1e-6)
          << load.name << " from " << begin << " to " << end << " ms";
    }
    EXPECT_GT(told, 270) << load.name;
  }
}

// As of windows that are asked for at once: what comes before the first sample and after the last
// one is not known. One step at any moment, edges at any moment of the first and last interval.
TEST_F(RecorderTest, TheUncertaintyCoversEdgesWhereSamplesBeginAndEnd) {
  int told = 0;
  for (const double other_watts : {0.0, 20.0, 420.0}) {
    for (int step_ms = 1; step_ms < 2000; step_ms += step_ms == 199 ? 1602 : 2) {
      const auto truth = [&](double t) {
        const double step = step_ms * 1e-3;
        return t < step ? other_watts * t : other_watts * step + 120 * (t - step);
      };
      StartOver();
      AddPackage(truth);
      Recorder recorder("node", std::move(meters_), options_, clock_);
      recorder.TakeSample();
      for (int tick = 0; tick < 20; ++tick) {
        clock_.AdvanceNs(100 * kNsPerMs);
        recorder.TakeSample();
      }
      for (int edge_ms = 0; edge_ms < 100; edge_ms += 3) {
        for (const bool at_begin : {true, false}) {
          const double begin = at_begin ? edge_ms * 1e-3 : 1;
          const double end = at_begin ? 1 : 2 - edge_ms * 1e-3;
          const Energy energy =
              recorder.Window(std::llround(begin * 1e9), std::llround(end * 1e9))[0];
          if (!energy.joules) continue;
          ++told;
          EXPECT_LE(std::abs(*energy.joules - (truth(end) - truth(begin))),
                    energy.uncertainty_joules + 1e-6)
              << other_watts << " W until " << step_ms << " ms, from " << begin << " to " << end;
        }
      }
    }
  }
  EXPECT_GT(told, 30'000);
}

TEST_F(RecorderTest, BesideVoidTimeAnEdgeHasANeighbourOnOneSideOnly) {
  // Begins anew at 5.15 s; 420 W from 5.21 s on, 20 W before.
  const auto shown = [](double t) {
    if (t < 5.15) return 500 + 20 * t;
    return t < 5.21 ? 20 * (t - 5.15) : 20 * 0.06 + 420 * (t - 5.21);
  };
  AddPackage(shown);
  Run(12);
  const Energy energy = Window(5.205, 10)[0];
  ASSERT_TRUE(energy.joules) << energy.cause;
  const double error = std::abs(*energy.joules - (shown(10) - shown(5.205)));
  EXPECT_GT(error, 1);
  EXPECT_LT(error, energy.uncertainty_joules);
}

TEST_F(RecorderTest, OfOneIntervalAloneNothingTellsWhenItsEnergyWasUsed) {
  AddPackage([](double t) { return t < 0.09 ? 0 : 5000 * (t - 0.09); });
  Run(0.1);
  const Energy energy = Window(0.04, 0.1)[0];
  EXPECT_EQ(energy.state, State::kBelowResolution);
  EXPECT_GE(energy.uncertainty_joules, 50 * 0.4);
}

TEST_F(RecorderTest, ASlowUpdatePeriodIsInTheUncertainty) {
  // 20 W until 4 s, then 200 W: how late the counter is matters where power changes.
  const auto joules = [](double t) { return t < 4 ? 20 * t : 80 + 200 * (t - 4); };
  double uncertainty = 0;
  for (const int64_t period_ns : {int64_t{0}, 100 * kNsPerMs}) {
    StartOver();
    Domain domain = MakeDomain(DomainKind::kPackage, "powercap", 0, -1);
    domain.update_period_ns = period_ns;
    Add(domain, [&](double t) { return static_cast<uint64_t>(std::llround(joules(t) * 1e6)); });
    Run(12);
    const double before = std::exchange(uncertainty, Window(4, 10)[0].uncertainty_joules);
    if (period_ns > 0) {
      EXPECT_NEAR(uncertainty - before, 180 * 0.098, 1e-3);
    }
  }
}

TEST_F(RecorderTest, AWindowBetweenTwoStepsIsBelowResolution) {
  AddPackage([](double t) { return 50 * std::floor(t); });
  Run(10);
  const Energy energy = Window(3.2, 3.7)[0];
  EXPECT_EQ(energy.state, State::kBelowResolution);
  EXPECT_FALSE(energy.joules);
  EXPECT_THAT(energy.cause, HasSubstr("between two steps"));
  EXPECT_NE(energy.fix, "");
  // Of longer ones the steps are part of the uncertainty at most.
  EXPECT_NEAR(*Window(1, 9)[0].joules, 400, 1);
}

TEST_F(RecorderTest, AWindowOfLessThanOneIntervalIsBelowResolution) {
  AddPackage([](double t) { return 50 * t; });
  Run(5);
  EXPECT_EQ(Window(2.02, 2.07)[0].state, State::kBelowResolution);
}

TEST_F(RecorderTest, ACounterThatNeverMovedIsNotZeroJoules) {
  Add(MakeDomain(DomainKind::kUncore, "powercap", 0, -1), [](double) { return uint64_t{77}; });
  options_.accumulator.stall_ns = 60 * kNsPerSecond;
  Run(5);
  EXPECT_EQ(Window(1, 4)[0].state, State::kBelowResolution);
  EXPECT_FALSE(Window(1, 4)[0].joules);
}

TEST_F(RecorderTest, AGapInsideAWindowLosesNothingOfACounter) {
  Add(MakeDomain(DomainKind::kPackage, "powercap", 0, -1), [](double t) -> Result<uint64_t> {
    if (t > 2.05 && t < 3.05) return Unavailable("not now");
    return static_cast<uint64_t>(std::llround(50e6 * t));
  });
  Run(6);
  const Energy energy = Window(1, 5)[0];
  EXPECT_EQ(energy.state, State::kMeasured);
  EXPECT_NEAR(*energy.joules, 200, 1e-3);
  EXPECT_EQ(energy.gaps, 1u);
  EXPECT_EQ(energy.void_ns, 0);
  EXPECT_THAT(energy.cause, HasSubstr("readings failed (1)"));
}

TEST_F(RecorderTest, AWindowInWhichPowerWasNotReadIsWithheldUnlessGapsAreAllowed) {
  Domain domain = MakeDomain(DomainKind::kGpu, "nvml", -1, -1);
  domain.quantity = Quantity::kPower;
  Add(domain, [](double t) -> Result<uint64_t> {
    if (t > 2.05 && t < 2.55) return Unavailable("not now");
    return uint64_t{100'000'000};
  });
  Run(6);
  const Energy energy = Window(1, 5)[0];
  EXPECT_EQ(energy.state, State::kGap);
  EXPECT_FALSE(energy.joules);
  EXPECT_EQ(energy.void_ns, 600 * kNsPerMs);
  EXPECT_THAT(energy.cause, HasSubstr("readings failed (1)"));
  const Energy allowed = Window(1, 5, true)[0];
  EXPECT_EQ(allowed.state, State::kGap);
  EXPECT_NEAR(*allowed.joules, 340, 1e-3);
  EXPECT_EQ(Window(3, 5)[0].state, State::kIntegrated);
}

TEST_F(RecorderTest, AWindowWithASegmentThatIsAmbiguousHasNoNumber) {
  // 50 W on a range of 262 J, which 1000 W use in 0.262 s.
  Domain domain = MakeDomain(DomainKind::kPackage, "powercap", 0, -1);
  domain.range_units = 262'000'000;
  Add(domain, [](double t) { return static_cast<uint64_t>(50e6 * t) % 262'000'000; });
  Run(6);
  clock_.AdvanceNs(300 * kNsPerMs);
  Run(4);
  const Energy energy = Window(1, 9)[0];
  EXPECT_EQ(energy.state, State::kGap);
  EXPECT_FALSE(energy.joules);
  EXPECT_EQ(energy.ambiguous, 1u);
  EXPECT_EQ(energy.void_ns, 400 * kNsPerMs);
  EXPECT_THAT(energy.cause, HasSubstr("too late to tell"));
  EXPECT_FALSE(recorder_->TotalOf(Window(1, 9)).joules);
  // Of the segment alone nothing is told even where gaps are allowed.
  EXPECT_FALSE(Window(6, 6.4, true)[0].joules);
  EXPECT_NEAR(*Window(1, 5.9)[0].joules, 245, 1e-3);
}

TEST_F(RecorderTest, AWindowWithAResetIsWithheldUnlessGapsAreAllowed) {
  AddPackage([](double t) { return t < 2.95 ? 1000 + 50 * t : 50 * t; });
  Run(6);
  const Energy energy = Window(1, 5)[0];
  EXPECT_EQ(energy.state, State::kGap);
  EXPECT_FALSE(energy.joules);
  EXPECT_EQ(energy.resets, 1u);
  EXPECT_EQ(energy.void_ns, 100 * kNsPerMs);
  EXPECT_THAT(energy.cause, HasSubstr("began anew (1)"));
  const Energy allowed = Window(1, 5, true)[0];
  EXPECT_EQ(allowed.state, State::kGap);
  EXPECT_NEAR(*allowed.joules, 50 * 3.9, 1e-3);
  // One that ends in the interval of the reset, and one that begins there, say so as well.
  for (const auto& [from, to, resets] : {std::tuple{1.0, 2.95, 0u}, {2.95, 4.0, 1u}}) {
    const Energy part = Window(from, to)[0];
    EXPECT_EQ(part.state, State::kGap);
    EXPECT_EQ(part.resets, resets);
    EXPECT_THAT(part.cause, HasSubstr("are unknown: the counter began anew (1)"));
  }
  // Windows beside it are whole.
  EXPECT_EQ(Window(0.5, 2.5)[0].state, State::kMeasured);
  EXPECT_EQ(Window(3.5, 5.5)[0].state, State::kMeasured);
}

TEST_F(RecorderTest, LittleThatIsUnknownIsNotWorthWithholding) {
  AddPackage([](double t) { return t < 10.05 ? 1000 + 50 * t : 50 * t; });
  Run(30);
  const Energy energy = Window(0, 30)[0];
  EXPECT_EQ(energy.state, State::kMeasured);
  EXPECT_EQ(energy.void_ns, 100 * kNsPerMs);
  EXPECT_NEAR(*energy.joules, 50 * 29.9, 1e-3);
  EXPECT_GE(*energy.joules + energy.uncertainty_joules, 50 * 30);
}

TEST_F(RecorderTest, AWindowDuringAStallIsWithheld) {
  AddPackage([](double t) { return 50 * std::min(t, 3.0); });
  Run(10);
  EXPECT_EQ(Window(4, 9)[0].state, State::kGap);
  EXPECT_THAT(Window(0, 9)[0].cause, HasSubstr("stood still"));
  EXPECT_EQ(Window(0, 2.9)[0].state, State::kMeasured);
}

TEST_F(RecorderTest, ACounterThatFreezesInMidRunIsBelievedOnlyIfItCatchesUp) {
  for (const double frozen : {0.8, 1.3, 1.8}) {
    StartOver();
    const double until = 4 + frozen;
    AddPackage([until](double t) { return t < 4 ? 50 * t : t < until ? 200 : 50 * t; });
    Run(10);
    EXPECT_EQ(Window(1, 9)[0].state, State::kMeasured) << Window(1, 9)[0].cause;
    EXPECT_NEAR(*Window(1, 9)[0].joules, 400, 1e-3);
    StartOver();
    AddPackage([&](double t) { return 50 * (t < 4 ? t : t < until ? 4 : t - frozen); });
    Run(10);
    const Energy lost = Window(1, 9)[0];
    EXPECT_EQ(lost.state, State::kGap);
    EXPECT_FALSE(lost.joules);
    EXPECT_EQ(lost.stalls, 1u);
    EXPECT_THAT(lost.cause, HasSubstr("the counter stood still (1)"));
    EXPECT_EQ(Window(0.5, 3.5)[0].state, State::kMeasured);
  }
}

TEST_F(RecorderTest, ACounterThatDiesJustBeforeTheEndIsNotBelieved) {
  for (const auto& [dies, ends] : {std::pair{8.2, 10.0}, {8.26, 10.0}, {1.2, 3.0}, {1.25, 3.0}}) {
    StartOver();
    AddPackage([until = dies](double t) { return 50 * std::min(t, until); });
    Add(MakeDomain(DomainKind::kDram, "powercap", 0, -1),
        [](double t) { return static_cast<uint64_t>(10e6 * t); });
    Run(ends);
    const auto energies = Window(0, ends);
    EXPECT_EQ(energies[0].state, State::kGap);
    EXPECT_FALSE(energies[0].joules);
    EXPECT_THAT(energies[0].cause, HasSubstr("stood still for its last 1."));
    EXPECT_NEAR(static_cast<double>(energies[0].void_ns) * 1e-9, ends - dies, 0.1);
    EXPECT_EQ(energies[1].state, State::kMeasured);
    EXPECT_FALSE(recorder_->TotalOf(energies).joules);
    // What is before it is whole, and what is allowed to lack it is what was counted.
    EXPECT_EQ(Window(0, 1.1)[0].state, State::kMeasured);
    EXPECT_NEAR(*Window(0, ends, true)[0].joules, 50 * dies, 1e-3);
  }
}

TEST_F(RecorderTest, TheUncertaintyCoversACounterThatMayHaveDiedALittleBeforeTheEnd) {
  for (const double dies : {9.55, 9.7, 9.76, 9.9}) {
    StartOver();
    AddPackage([dies](double t) { return 50 * std::min(t, dies); });
    Run(10);
    const Energy energy = Window(0, 10)[0];
    ASSERT_EQ(energy.state, State::kMeasured) << energy.cause;
    EXPECT_GE(*energy.joules + energy.uncertainty_joules, 500 - 1e-3) << dies;
    EXPECT_LT(energy.uncertainty_joules, 30);
  }
  // Of a long window it is little, whether it died or not.
  StartOver();
  AddPackage([](double t) { return 50 * std::min(t, 298.3); });
  Run(300);
  const Energy energy = Window(0, 300)[0];
  ASSERT_EQ(energy.state, State::kMeasured) << energy.cause;
  EXPECT_GE(*energy.joules + energy.uncertainty_joules, 15000 - 1e-3);
}

TEST_F(RecorderTest, ASlowCounterIsNotDeadBetweenItsSteps) {
  AddPackage([](double t) { return 50 * std::floor(t + 1e-9); });
  Run(20.9);
  const Energy energy = Window(0, 20.9)[0];
  ASSERT_EQ(energy.state, State::kMeasured) << energy.cause;
  EXPECT_EQ(energy.void_ns, 0);
  EXPECT_GE(*energy.joules + energy.uncertainty_joules, 50 * 20.9 - 1e-3);
}

TEST_F(RecorderTest, APartThatMayBeIdleIsNotCalledDead) {
  // The graphics part works until 8.2 s; whether it idles then or its counter is dead, nobody knows
  // yet.
  Add(MakeDomain(DomainKind::kUncore, "powercap", 0, -1),
      [](double t) { return static_cast<uint64_t>(5e6 * std::min(t, 8.2)); });
  Run(10);
  const Energy energy = Window(0, 10)[0];
  EXPECT_EQ(energy.state, State::kBelowResolution);
  EXPECT_EQ(energy.void_ns, 0);
  EXPECT_THAT(energy.cause, HasSubstr("has not moved since"));
  EXPECT_EQ(Window(0, 8)[0].state, State::kMeasured);
  // After a little work long ago it is little that it may have used.
  StartOver();
  Add(MakeDomain(DomainKind::kUncore, "powercap", 0, -1),
      [](double t) { return static_cast<uint64_t>(5e6 * std::min(t, 49.2)); });
  Run(50);
  const Energy rest = Window(0, 50)[0];
  ASSERT_EQ(rest.state, State::kMeasured) << rest.cause;
  EXPECT_NEAR(*rest.joules, 5 * 49.2, 1e-3);
  EXPECT_NEAR(rest.uncertainty_joules, 5 * 0.8, 0.1);
}

TEST_F(RecorderTest, MemoryThatStandsStillIsNotZeroWatts) {
  AddPackage([](double t) { return 50 * t; });
  Add(MakeDomain(DomainKind::kDram, "powercap", 0, -1),
      [](double t) { return static_cast<uint64_t>(10e6 * std::min(t, 1.5)); });
  Run(6);
  const auto energies = Window(0, 6);
  EXPECT_EQ(energies[1].state, State::kGap);
  EXPECT_THAT(energies[1].cause, HasSubstr("stood still"));
  EXPECT_THAT(recorder_->TotalOf(energies).missing, ElementsAre("dram-0"));
}

TEST_F(RecorderTest, WhatWasNotSampledIsNotGuessed) {
  AddPackage([](double t) { return 50 * t; });
  Run(5);
  const Energy energy = Window(3, 7)[0];
  EXPECT_EQ(energy.state, State::kGap);
  EXPECT_EQ(energy.void_ns, 2 * kNsPerSecond);
  EXPECT_THAT(energy.cause, HasSubstr("not sampled"));
  EXPECT_EQ(Window(20, 30)[0].state, State::kGap);
  EXPECT_EQ(Window(3, 3)[0].cause, "the window is empty");
}

TEST_F(RecorderTest, BeforeTheFirstSampleNothingIsKnown) {
  AddPackage([](double t) { return 50 * t; });
  const Recorder recorder("node", std::move(meters_), options_, clock_);
  EXPECT_EQ(recorder.Window(0, 1000)[0].state, State::kGap);
  EXPECT_EQ(recorder.sampled_until_ns(), 0);
}

TEST_F(RecorderTest, AnEdgeOutlivesTheSamples) {
  options_.kept_ticks = 50;
  AddPackage([](double t) { return 50 * t; });
  Run(2);
  const Edge begin = recorder_->EdgeAt(std::llround(1.25e9));
  Run(60);
  EXPECT_EQ(Window(1.25, 61)[0].state, State::kGap);
  const auto energy = recorder_->Between(begin, recorder_->EdgeAt(61 * kNsPerSecond));
  EXPECT_NEAR(*energy[0].joules, 50 * 59.75, 1e-3);
}

TEST_F(RecorderTest, SteadyPowerIsIntegratedAndSaysSo) {
  AddPower([](double) { return 250.0; });
  Run(10);
  const Energy energy = Window(0.55, 9.05)[0];
  EXPECT_EQ(energy.state, State::kIntegrated);
  EXPECT_NEAR(*energy.joules, 250 * 8.5, 1e-3);
}

TEST_F(RecorderTest, PowerThatChangesFasterThanItIsSampledIsNotANumber) {
  // 7 Hz, sampled at 10 Hz.
  AddPower([](double t) { return std::fmod(t * 7, 1.0) < 0.5 ? 400.0 : 50.0; });
  Run(20);
  const Energy energy = Window(0, 20)[0];
  EXPECT_EQ(energy.state, State::kBelowResolution);
  EXPECT_FALSE(energy.joules);
  EXPECT_THAT(energy.cause, HasSubstr("faster than it is sampled"));
}

TEST_F(RecorderTest, ARampIsIntegratedExactly) {
  AddPower([](double t) { return 100 + 10 * t; });
  Run(20);
  EXPECT_NEAR(*Window(0, 20)[0].joules, 100 * 20 + 5 * 400, 1e-2);
}

TEST_F(RecorderTest, MemoryThatDrawsMoreThanItCanIsImplausibleAndNotSummed) {
  AddPackage([](double t) { return 50 * t; });
  Add(MakeDomain(DomainKind::kDram, "powercap", 0, -1),
      [](double t) { return static_cast<uint64_t>(200e6 * t); });
  Run(10);
  const auto energies = Window(1, 9);
  EXPECT_EQ(energies[1].state, State::kImplausible);
  EXPECT_FALSE(energies[1].joules);
  const Total total = recorder_->TotalOf(energies);
  EXPECT_FALSE(total.joules);
  EXPECT_THAT(total.missing, ElementsAre("dram-0"));
}

TEST_F(RecorderTest, MemoryIsBelievedBetweenItsLimitsOnly) {
  for (const auto& [watts, plausible] :
       {std::pair(0.4, false), {0.6, true}, {29.0, true}, {31.0, false}}) {
    StartOver();
    AddPackage([](double t) { return 50 * t; });
    Domain dram = MakeDomain(DomainKind::kDram, "powercap", 0, -1);
    dram.plausible_from_watts = 0.5;
    dram.plausible_watts = 30;
    Add(dram, [draws = watts](double t) { return static_cast<uint64_t>(draws * 1e6 * t); });
    Run(10);
    const auto energies = Window(1, 9);
    EXPECT_EQ(energies[1].state, plausible ? State::kMeasured : State::kImplausible);
    EXPECT_EQ(energies[1].joules.has_value(), plausible);
    EXPECT_EQ(recorder_->TotalOf(energies).joules.has_value(), plausible);
  }
}

TEST_F(RecorderTest, LabelsOfADomainReachItsEnergy) {
  Domain shared = MakeDomain(DomainKind::kGpu, "nvml", -1, -1);
  shared.shared = true;
  Add(shared, [](double t) { return static_cast<uint64_t>(50e6 * t); });
  Domain virtualised = MakeDomain(DomainKind::kPackage, "powercap", 0, -1);
  virtualised.virtualised = true;
  Add(virtualised, [](double t) { return static_cast<uint64_t>(50e6 * t); });
  Run(5);
  const auto energies = Window(0, 5);
  EXPECT_EQ(energies[0].state, State::kShared);
  EXPECT_TRUE(energies[0].joules);
  EXPECT_EQ(energies[1].state, State::kVirtualised);
  EXPECT_EQ(recorder_->TotalOf(energies).state, State::kShared);
}

TEST_F(RecorderTest, EnergyFilteringIsInTheCauseOfEachFigure) {
  Domain domain = MakeDomain(DomainKind::kPackage, "powercap", 0, -1);
  domain.filtered = true;
  Add(domain, [](double t) { return static_cast<uint64_t>(50e6 * t); });
  Run(5);
  const Energy energy = Window(0, 5)[0];
  EXPECT_TRUE(energy.joules);
  EXPECT_THAT(energy.cause, HasSubstr("energy filtering is on"));
}

TEST_F(RecorderTest, CountersOfGpusAreComparedWithTheirIntegratedPower) {
  for (const double watts : {100.0, 104.0, 106.0, 94.0}) {
    StartOver();
    Domain counter = MakeDomain(DomainKind::kGpu, "nvml", -1, -1);
    counter.id = "gpu-a";
    counter.device = "a";
    Add(counter, [](double t) { return static_cast<uint64_t>(100e6 * t); });
    Domain power = MakeDomain(DomainKind::kGpuPower, "nvml", -1, -1);
    power.device = "a";
    power.quantity = Quantity::kPower;
    power.outside_total = "for comparison";
    Add(power, [watts](double) { return static_cast<uint64_t>(watts * 1e6); });
    Run(5);
    const auto checks = CompareGpus(recorder_->domains(), Window(0, 5));
    ASSERT_EQ(checks.size(), 1u);
    EXPECT_NEAR(checks[0].gap_percent, watts - 100, 0.1);
    EXPECT_EQ(checks[0].apart, std::abs(watts - 100) > 5);
  }
}

TEST_F(RecorderTest, TheTotalIsOfWhatMayBeAdded) {
  AddPackage([](double t) { return 50 * t; });
  Domain core = MakeDomain(DomainKind::kCore, "powercap", 0, -1);
  core.outside_total = "inside the package";
  Add(core, [](double t) { return static_cast<uint64_t>(35e6 * t); });
  Domain dram = MakeDomain(DomainKind::kDram, "", -1, -1);
  dram.cause = "no such counter";
  dram.in_total = true;
  meters_.push_back({dram, nullptr});
  Run(5);
  const Total total = recorder_->TotalOf(Window(0, 5));
  EXPECT_NEAR(*total.joules, 250, 1e-3);
  EXPECT_THAT(total.domains, ElementsAre("package-0"));
  EXPECT_THAT(total.without, ElementsAre("dram"));
  EXPECT_THAT(total.missing, IsEmpty());
}

TEST_F(RecorderTest, WithoutACpuThereIsNoTotal) {
  AddPower([](double) { return 250.0; });
  Run(5);
  const Total total = recorder_->TotalOf(Window(0, 5));
  EXPECT_FALSE(total.joules);
  EXPECT_EQ(total.state, State::kUnavailable);
}

TEST_F(RecorderTest, WindowsCanBeAskedForWhileSamplesAreTaken) {
  AddPackage([](double t) { return 50 * t; });
  options_.kept_ticks = 20;
  Run(2);
  std::jthread reader([this](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      for (const Energy& energy : recorder_->Window(kNsPerSecond, 2 * kNsPerSecond)) {
        if (energy.joules) {
          EXPECT_NEAR(*energy.joules, 50, 1e-3);
        }
      }
    }
  });
  Run(50);
}

}  // namespace
}  // namespace emlio::energy
