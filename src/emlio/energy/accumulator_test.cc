// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy/accumulator.h"

#include <gtest/gtest.h>

#include <random>

namespace emlio::energy {
namespace {

constexpr int64_t kTick = 100 * kNsPerMs;
constexpr uint64_t kRangeUj = 262'143'328'850;

Domain Package(uint64_t range_units = kRangeUj) {
  Domain domain = MakeDomain(DomainKind::kPackage, "powercap", 0, -1);
  domain.range_units = range_units;
  return domain;
}

Domain Of(DomainKind kind) {
  Domain domain = MakeDomain(kind, "powercap", 0, -1);
  domain.range_units = kRangeUj;
  return domain;
}

TEST(AccumulatorTest, TheFirstReadingIsOnlyABeginning) {
  Accumulator accumulator(Package());
  const Sample first = accumulator.Add(kTick, 123'456'000'000);
  EXPECT_EQ(first.state, SampleState::kFirst);
  EXPECT_EQ(first.joules, 0);
  EXPECT_EQ(first.void_ns, 0);
  const Sample next = accumulator.Add(2 * kTick, 123'461'000'000);
  EXPECT_EQ(next.state, SampleState::kMoved);
  EXPECT_DOUBLE_EQ(next.joules, 5);
}

TEST(AccumulatorTest, ThreeWrapsGiveTheExactSum) {
  // 60 W on a counter of 12 J.
  constexpr uint64_t kRange = 120'000'000;
  Accumulator accumulator(Package(kRange));
  uint64_t total_uj = 100'000'000;
  Sample sample;
  for (int tick = 0; tick <= 60; ++tick) {
    sample = accumulator.Add(tick * kTick, total_uj % kRange);
    total_uj += 6'000'000;
  }
  EXPECT_EQ(sample.wraps, 3u);
  EXPECT_DOUBLE_EQ(sample.joules, 360);
  EXPECT_EQ(sample.resets + sample.ambiguous + sample.gaps, 0u);
}

// A register of 32 bits as the kernel shows it: in microjoules, and its range without the last
// unit.
TEST(AccumulatorTest, ARegisterOf32BitsIsExactToOneUnitAWrap) {
  for (const double unit_uj : {61.03515625, 15.2587890625}) {
    const auto shown = [unit_uj](uint64_t units) {
      return static_cast<uint64_t>(static_cast<double>(units & 0xFFFFFFFF) * unit_uj);
    };
    Accumulator accumulator(Package(shown(0xFFFFFFFF)));
    // 950 W, read once a minute, through three wraps.
    const auto minute = static_cast<uint64_t>(950 * 60e6 / unit_uj);
    uint64_t units = 0xFFFFFFFF - minute / 3;
    const uint64_t first = units;
    Sample sample = accumulator.Add(0, shown(units));
    for (int64_t at = 1; sample.wraps < 3; ++at) {
      units += minute;
      sample = accumulator.Add(at * 60 * kNsPerSecond, shown(units));
      ASSERT_EQ(sample.state, SampleState::kMoved);
    }
    const double truth = static_cast<double>(units - first) * unit_uj * 1e-6;
    // What the kernel shows is cut to whole microjoules besides.
    EXPECT_NEAR(sample.joules, truth, 3 * (unit_uj + 1) * 1e-6 + 1e-6);
  }
}

TEST(AccumulatorTest, ADropThatCannotBeAWrapIsAReset) {
  Accumulator accumulator(Package());
  accumulator.Add(0, 1'000'000'000);
  accumulator.Add(kTick, 1'005'000'000);
  const Sample reset = accumulator.Add(2 * kTick, 3'000'000);
  EXPECT_EQ(reset.state, SampleState::kReset);
  EXPECT_EQ(reset.resets, 1u);
  EXPECT_EQ(reset.wraps, 0u);
  EXPECT_DOUBLE_EQ(reset.joules, 5);
  EXPECT_EQ(reset.void_ns, kTick);
  const Sample after = accumulator.Add(3 * kTick, 8'000'000);
  EXPECT_DOUBLE_EQ(after.joules, 10);
  EXPECT_EQ(after.void_ns, kTick);
}

TEST(AccumulatorTest, ACounterThatNeverWrapsResetsWhenItFalls) {
  Domain gpu = MakeDomain(DomainKind::kGpu, "nvml", -1, -1);
  gpu.per_unit = 1e-3;
  gpu.refresh_ns = kTick;
  Accumulator accumulator(gpu);
  accumulator.Add(0, 123'456'000);
  EXPECT_EQ(accumulator.Add(kTick, 10).state, SampleState::kReset);
}

TEST(AccumulatorTest, ARiseThatCannotBeIsAReset) {
  Accumulator accumulator(Package());
  accumulator.Add(0, 1'000'000'000);
  const Sample sample = accumulator.Add(kTick, 60'000'000'000);
  EXPECT_EQ(sample.state, SampleState::kReset);
  EXPECT_EQ(sample.joules, 0);
}

TEST(AccumulatorTest, AFailedReadingIsNeitherZeroNorAWrap) {
  Accumulator accumulator(Package());
  accumulator.Add(0, 1'000'000'000);
  const Sample missing = accumulator.Add(kTick, std::nullopt);
  EXPECT_EQ(missing.state, SampleState::kMissing);
  EXPECT_EQ(missing.joules, 0);
  EXPECT_EQ(missing.void_ns, kTick);
  accumulator.Add(2 * kTick, std::nullopt);
  const Sample after = accumulator.Add(3 * kTick, 1'015'000'000);
  EXPECT_EQ(after.gaps, 1u);
  EXPECT_EQ(after.wraps, 0u);
  EXPECT_DOUBLE_EQ(after.joules, 15);
  EXPECT_EQ(after.void_ns, 0);
}

TEST(AccumulatorTest, AWrapInsideAGapIsStillOneWrap) {
  Accumulator accumulator(Package());
  accumulator.Add(0, kRangeUj - 7'000'000);
  accumulator.Add(kTick, std::nullopt);
  const Sample after = accumulator.Add(2 * kTick, 3'000'000);
  EXPECT_DOUBLE_EQ(after.joules, 10);
  EXPECT_EQ(after.wraps, 1u);
}

TEST(AccumulatorTest, AGapInWhichMoreThanOneWrapWasPossibleIsVoid) {
  Accumulator accumulator(Package());
  accumulator.Add(0, 1'000'000'000);
  // 262 kJ are used within 262 s at the most that a package can draw.
  const Sample late = accumulator.Add(263 * kNsPerSecond, 2'000'000'000);
  EXPECT_EQ(late.state, SampleState::kAmbiguous);
  EXPECT_EQ(late.ambiguous, 1u);
  EXPECT_EQ(late.joules, 0);
  EXPECT_EQ(late.void_ns, 263 * kNsPerSecond);
}

TEST(AccumulatorTest, ReadingsThatFailedAtTheBeginAreVoid) {
  Accumulator accumulator(Package());
  accumulator.Add(0, std::nullopt);
  accumulator.Add(kTick, std::nullopt);
  const Sample first = accumulator.Add(2 * kTick, 5);
  EXPECT_EQ(first.state, SampleState::kFirst);
  EXPECT_EQ(first.void_ns, 2 * kTick);
}

TEST(AccumulatorTest, ARepeatedValueIsNoUpdateAndNotZeroWatts) {
  Accumulator accumulator(Package());
  accumulator.Add(0, 1'000'000);
  const Sample same = accumulator.Add(kTick, 1'000'000);
  EXPECT_EQ(same.state, SampleState::kNoUpdate);
  EXPECT_FALSE(same.knot);
  const Sample twice = accumulator.Add(2 * kTick, 11'000'000);
  EXPECT_DOUBLE_EQ(twice.joules, 10);
  EXPECT_EQ(twice.void_ns, 0);
}

TEST(AccumulatorTest, AStalledPackageIsVoidSinceItMovedLast) {
  Accumulator accumulator(Package());
  accumulator.Add(0, 1'000'000);
  accumulator.Add(kTick, 6'000'000);
  Sample sample;
  for (int tick = 2; tick <= 30; ++tick) sample = accumulator.Add(tick * kTick, 6'000'000);
  EXPECT_EQ(sample.state, SampleState::kStalled);
  EXPECT_EQ(sample.stalls, 1u);
  EXPECT_EQ(sample.void_ns, 29 * kTick);
  // What it shows when it goes on is not what was used meanwhile.
  sample = accumulator.Add(31 * kTick, 7'000'000);
  EXPECT_DOUBLE_EQ(sample.joules, 5);
  EXPECT_EQ(sample.void_ns, 30 * kTick);
  sample = accumulator.Add(32 * kTick, 12'000'000);
  EXPECT_DOUBLE_EQ(sample.joules, 10);
  EXPECT_EQ(sample.void_ns, 30 * kTick);
}

// A package of 50 W whose counter stands still for `stood` ticks and then shows `joules` more.
Sample StandAndGoOn(int stood, double joules) {
  Accumulator accumulator(Package());
  double shown = 1000;
  const auto add = [&](int tick) {
    return accumulator.Add(tick * kTick, static_cast<uint64_t>(shown * 1e6));
  };
  int tick = 0;
  for (; tick < 10; ++tick, shown += 5) add(tick);
  shown -= 5;
  for (const int until = tick + stood; tick < until; ++tick) add(tick);
  shown += joules;
  return add(tick);
}

TEST(AccumulatorTest, ACounterThatCatchesUpAfterItStoodStillHasLostNothing) {
  const Sample sample = StandAndGoOn(15, 80);
  EXPECT_EQ(sample.stalls, 0u);
  EXPECT_EQ(sample.void_ns, 0);
  EXPECT_NEAR(sample.joules, 45 + 80, 1e-3);
  EXPECT_NEAR(sample.spread_joules, 0, 1e-3);
}

TEST(AccumulatorTest, ACounterThatGoesOnWhereItStoodHasLostThatTime) {
  for (const int stood : {6, 10, 15, 18}) {
    const Sample sample = StandAndGoOn(stood, 5);
    EXPECT_EQ(sample.stalls, 1u);
    EXPECT_EQ(sample.void_ns, (stood + 1) * kTick);
    EXPECT_NEAR(sample.joules, 45, 1e-3);
  }
  // A little is no reason to doubt it.
  EXPECT_EQ(StandAndGoOn(4, 5).void_ns, 0);
}

TEST(AccumulatorTest, WhatACounterThatStoodStillMayLackIsInTheSpread) {
  // 80 J are expected. Whether it lost some of them or less was used nobody can tell.
  const Sample sample = StandAndGoOn(15, 50);
  EXPECT_EQ(sample.void_ns, 0);
  EXPECT_NEAR(sample.joules, 45 + 50, 1e-3);
  EXPECT_NEAR(sample.spread_joules, 30, 1e-3);
}

TEST(AccumulatorTest, WhatStoodStillAndThenBeganAnewIsVoidSinceItMovedLast) {
  // A range of 400 J, which 1000 W use in 0.4 s.
  Accumulator accumulator(Package(400'000'000));
  uint64_t shown = 0;
  int tick = 0;
  for (; tick <= 10; ++tick) accumulator.Add(tick * kTick, shown += 10'000'000);
  for (; tick <= 28; ++tick) accumulator.Add(tick * kTick, shown);
  const Sample late = accumulator.Add(33 * kTick, shown + 1'000'000);
  EXPECT_EQ(late.state, SampleState::kAmbiguous);
  EXPECT_EQ(late.void_ns, 23 * kTick);
  EXPECT_NEAR(late.joules, 100, 1e-3);

  Accumulator other(Package());
  shown = 0;
  for (tick = 0; tick <= 10; ++tick) other.Add(tick * kTick, shown += 10'000'000);
  for (; tick <= 28; ++tick) other.Add(tick * kTick, shown);
  // Less than before, and one range more would be more than possible.
  const Sample reset = other.Add(tick * kTick, 3'000'000);
  EXPECT_EQ(reset.state, SampleState::kReset);
  EXPECT_EQ(reset.void_ns, 19 * kTick);
  EXPECT_NEAR(reset.joules, 100, 1e-3);
}

TEST(AccumulatorTest, ACounterThatCrawlsIsNotBelievedTheSecondTimeEither) {
  Accumulator accumulator(Package());
  uint64_t shown = 0;
  int tick = 0;
  for (; tick <= 10; ++tick) accumulator.Add(tick * kTick, shown += 10'000'000);
  Sample sample;
  for (int i = 1; i <= 1800; ++i, ++tick) {
    sample = accumulator.Add(tick * kTick, shown += i % 7 == 0 ? 5'000'000 : 0);
  }
  EXPECT_NEAR(sample.joules, 100, 1e-3);
  EXPECT_EQ(sample.stalls, 257u);
  EXPECT_EQ(sample.void_ns, 257 * 7 * kTick);
  // As fast as before it is what it was.
  for (int i = 0; i < 2; ++i, ++tick) sample = accumulator.Add(tick * kTick, shown += 10'000'000);
  EXPECT_NEAR(sample.joules, 120, 1e-3);
}

TEST(AccumulatorTest, TheFirstStepOfASlowCounterIsNoMeasureOfItsPower) {
  // 50 W in steps of 1 s, the first of which comes soon after the first reading.
  Accumulator accumulator(Package());
  Sample sample;
  for (int tick = 0; tick <= 100; ++tick) {
    sample = accumulator.Add(tick * kTick, static_cast<uint64_t>((tick + 9) / 10) * 50'000'000);
  }
  EXPECT_EQ(sample.stalls, 0u);
  EXPECT_EQ(sample.void_ns, 0);
  EXPECT_NEAR(sample.joules, 500, 1e-3);
}

// A package of 100 W that cannot be read for `failed` ticks and has used `joules` meanwhile.
Sample FailAndGoOn(int failed, double joules) {
  Accumulator accumulator(Package());
  double shown = 1000;
  int tick = 0;
  for (; tick <= 10; ++tick, shown += 10) {
    accumulator.Add(tick * kTick, static_cast<uint64_t>(shown * 1e6));
  }
  for (const int until = tick + failed; tick < until; ++tick) {
    accumulator.Add(tick * kTick, std::nullopt);
  }
  shown += joules - 10;
  return accumulator.Add(tick * kTick, static_cast<uint64_t>(shown * 1e6));
}

TEST(AccumulatorTest, WhatACounterLacksThatMayHavePausedInAGapIsInTheSpread) {
  const Sample paused = FailAndGoOn(40, 10);
  EXPECT_EQ(paused.gaps, 1u);
  EXPECT_EQ(paused.void_ns, 0) << "or its package used less: nobody saw";
  EXPECT_NEAR(paused.joules, 110, 1e-3);
  EXPECT_NEAR(paused.spread_joules, 400, 1e-3);
  EXPECT_NEAR(FailAndGoOn(40, 410).spread_joules, 0, 1e-3) << "it went on";
  EXPECT_NEAR(FailAndGoOn(4, 20).spread_joules, 0, 1e-3) << "too short to tell";
}

TEST(AccumulatorTest, ALongGapIsNoUsualInterval) {
  Accumulator accumulator(Package());
  uint64_t shown = 0;
  int tick = 0;
  for (; tick <= 10; ++tick) accumulator.Add(tick * kTick, shown += 10'000'000);
  for (; tick < 50; ++tick) accumulator.Add(tick * kTick, std::nullopt);
  accumulator.Add(tick++ * kTick, shown += 400'000'000);
  for (const int until = tick + 15; tick < until; ++tick) accumulator.Add(tick * kTick, shown);
  EXPECT_EQ(accumulator.Add(tick * kTick, shown + 10'000'000).stalls, 1u);
}

// A domain that stands still for 3 s while that many CPUs are busy.
Sample StandStill(DomainKind kind, std::optional<double> busy_cpus) {
  Accumulator accumulator(Of(kind));
  Sample sample;
  for (int tick = 0; tick <= 30; ++tick) {
    const int64_t now_ns = tick * kTick;
    if (accumulator.WantsBusy(now_ns)) {
      accumulator.SetBusy(now_ns,
                          busy_cpus ? std::optional(*busy_cpus * tick * 0.1) : std::nullopt);
    }
    sample = accumulator.Add(now_ns, 5'000'000);
  }
  return sample;
}

TEST(AccumulatorTest, PartsThatMayIdleAreStalledOnlyUnderLoad) {
  for (const DomainKind kind : {DomainKind::kCore, DomainKind::kUncore, DomainKind::kSysIo}) {
    EXPECT_EQ(StandStill(kind, 2.0).stalls, 1u);
    EXPECT_GT(StandStill(kind, 2.0).void_ns, 0);
    EXPECT_EQ(StandStill(kind, 0.01).stalls, 0u);
    EXPECT_EQ(StandStill(kind, 0.01).void_ns, 0);
    EXPECT_EQ(StandStill(kind, std::nullopt).stalls, 1u);
  }
}

TEST(AccumulatorTest, MemoryIsRefreshedWhateverTheHostDoes) {
  const Sample idle = StandStill(DomainKind::kDram, 0.01);
  EXPECT_EQ(idle.stalls, 1u);
  EXPECT_EQ(idle.state, SampleState::kStalled);
  EXPECT_EQ(idle.void_ns, 30 * kTick);
  EXPECT_EQ(StandStill(DomainKind::kDram, 2.0).stalls, 1u);
}

TEST(AccumulatorTest, TheLoadOfTheHostIsAskedForOnlyWhenACounterStandsStill) {
  Accumulator accumulator(Package());
  for (int tick = 0; tick < 50; ++tick) {
    EXPECT_FALSE(accumulator.WantsBusy(tick * kTick));
    accumulator.Add(tick * kTick, 1'000'000 + static_cast<uint64_t>(tick) * 5'000'000);
  }
}

Domain Power() {
  Domain domain = MakeDomain(DomainKind::kGpu, "nvml", -1, -1);
  domain.quantity = Quantity::kPower;
  domain.per_unit = 1e-3;
  return domain;
}

TEST(AccumulatorTest, PowerIsIntegratedByTrapezoids) {
  Accumulator accumulator(Power());
  accumulator.Add(0, 100'000);
  accumulator.Add(kTick, 200'000);
  const Sample sample = accumulator.Add(2 * kTick, 200'000);
  EXPECT_DOUBLE_EQ(sample.joules, 15 + 20);
  EXPECT_DOUBLE_EQ(sample.spread_joules, 5);
  EXPECT_TRUE(sample.knot);
}

TEST(AccumulatorTest, PowerThatWasNotReadForLongIsVoid) {
  Accumulator accumulator(Power());
  accumulator.Add(0, 100'000);
  accumulator.Add(kTick, std::nullopt);
  const Sample sample = accumulator.Add(2 * kNsPerSecond, 100'000);
  EXPECT_EQ(sample.joules, 0);
  EXPECT_EQ(sample.void_ns, 2 * kNsPerSecond);
}

TEST(AccumulatorTest, PowerOfATimeInWhichAReadingFailedIsNotGuessed) {
  Accumulator accumulator(Power());
  accumulator.Add(0, 100'000);
  accumulator.Add(kTick, std::nullopt);
  Sample sample = accumulator.Add(2 * kTick, 100'000);
  EXPECT_EQ(sample.joules, 0);
  EXPECT_EQ(sample.void_ns, 2 * kTick);
  EXPECT_EQ(sample.gaps, 1u);
  sample = accumulator.Add(3 * kTick, 100'000);
  EXPECT_DOUBLE_EQ(sample.joules, 10);
  EXPECT_EQ(sample.void_ns, 2 * kTick);
}

TEST(AccumulatorTest, TerawattsAreNotBelieved) {
  Accumulator accumulator(Power());
  accumulator.Add(0, 100'000);
  const Sample sample = accumulator.Add(kTick, 4'000'000'000'000'000);
  EXPECT_EQ(sample.state, SampleState::kReset);
  EXPECT_EQ(sample.joules, 0);
}

TEST(AccumulatorTest, NoTraceGivesNegativeOrInventedJoules) {
  std::mt19937_64 random(7);
  for (int trace = 0; trace < 300; ++trace) {
    const uint64_t range = trace % 2 == 0 ? 0 : 1 + random() % 500'000'000;
    Accumulator accumulator(Package(range));
    int64_t now_ns = 0;
    uint64_t value = random();
    double joules = 0;
    for (int step = 0; step < 200; ++step) {
      const int64_t elapsed_ns = static_cast<int64_t>(random() % (3 * kNsPerSecond));
      now_ns += elapsed_ns;
      switch (random() % 4) {
        case 0:
          value = random();
          break;
        case 1:
          value += random() % 50'000'000;
          break;
        default:
          break;
      }
      const bool failed = random() % 8 == 0;
      const Sample sample =
          accumulator.Add(now_ns, failed ? std::nullopt : std::optional<uint64_t>(value));
      ASSERT_GE(sample.joules, joules);
      ASSERT_GE(sample.void_ns, 0);
      ASSERT_LE(sample.void_ns, now_ns);
      if (failed) {
        ASSERT_EQ(sample.joules, joules);
      }
      // Never more than the package can draw.
      ASSERT_LE(sample.joules, 1000 * (static_cast<double>(now_ns) * 1e-9 + 0.002 * (step + 1)));
      joules = sample.joules;
    }
  }
}

}  // namespace
}  // namespace emlio::energy
