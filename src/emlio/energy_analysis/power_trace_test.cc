// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_analysis/power_trace.h"

#include <gtest/gtest.h>

#include "emlio/base/clock.h"

namespace emlio::energy_analysis {
namespace {

energy::Sample At(int64_t ms, double joules, bool knot = true, int64_t void_ms = 0) {
  energy::Sample sample;
  sample.time_ns = ms * kNsPerMs;
  sample.joules = joules;
  sample.void_ns = void_ms * kNsPerMs;
  sample.knot = knot;
  return sample;
}

TEST(PowerTraceTest, EnergyIsConservedWhateverTheParts) {
  for (const size_t parts : {1u, 7u, 100u, 3000u}) {
    PowerTrace trace(0, 10 * kNsPerSecond, parts);
    PowerTrace::Cursor cursor;
    double joules = 0;
    for (int i = 0; i <= 100; ++i) {
      trace.Add(&cursor, At(100 * i, joules));
      joules += 5 + i % 3;
    }
    EXPECT_NEAR(trace.joules(), joules - (5 + 100 % 3), 1e-6) << parts;
  }
}

TEST(PowerTraceTest, AStepOfPowerIsSeenWhereItIs) {
  PowerTrace trace(0, 4 * kNsPerSecond, 4);
  PowerTrace::Cursor cursor;
  trace.Add(&cursor, At(0, 0));
  trace.Add(&cursor, At(2000, 20));
  trace.Add(&cursor, At(4000, 120));
  EXPECT_DOUBLE_EQ(trace.Watts(0), 10);
  EXPECT_DOUBLE_EQ(trace.Watts(1), 10);
  EXPECT_DOUBLE_EQ(trace.Watts(2), 50);
  EXPECT_DOUBLE_EQ(trace.Watts(3), 50);
}

TEST(PowerTraceTest, BetweenStepsOfACounterPowerIsEven) {
  PowerTrace trace(0, kNsPerSecond, 10);
  PowerTrace::Cursor cursor;
  trace.Add(&cursor, At(0, 0));
  for (int i = 1; i < 10; ++i) trace.Add(&cursor, At(100 * i, 0, false));
  trace.Add(&cursor, At(1000, 30));
  for (size_t part = 0; part < 10; ++part) EXPECT_NEAR(trace.Watts(part), 30, 1e-9);
}

TEST(PowerTraceTest, VoidTimeIsEmptyAndOutsideIsLeftOut) {
  PowerTrace trace(kNsPerSecond, 3 * kNsPerSecond, 2);
  PowerTrace::Cursor cursor;
  trace.Add(&cursor, At(0, 0));
  trace.Add(&cursor, At(2000, 20));
  trace.Add(&cursor, At(3000, 900, true, 500));
  trace.Add(&cursor, At(4000, 910, true, 500));
  EXPECT_DOUBLE_EQ(trace.Watts(0), 10);
  EXPECT_DOUBLE_EQ(trace.Watts(1), 0);
}

TEST(PowerTraceTest, TracesOfTheSameTimeAddUp) {
  PowerTrace a(0, kNsPerSecond, 2);
  PowerTrace b(0, kNsPerSecond, 2);
  a.AddEnergy(0, kNsPerSecond, 10);
  b.AddEnergy(kNsPerSecond / 2, kNsPerSecond, 10);
  a.Add(b);
  EXPECT_DOUBLE_EQ(a.Watts(0), 10);
  EXPECT_DOUBLE_EQ(a.Watts(1), 30);
}

}  // namespace
}  // namespace emlio::energy_analysis
