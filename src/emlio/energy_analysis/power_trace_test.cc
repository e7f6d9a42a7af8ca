// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_analysis/power_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emlio/base/clock.h"

namespace emlio::energy_analysis {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

std::vector<std::optional<double>> WattsOf(const PowerTrace& trace) {
  std::vector<std::optional<double>> watts;
  for (size_t part = 0; part < trace.parts(); ++part) watts.push_back(trace.Watts(part));
  return watts;
}

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
  EXPECT_THAT(WattsOf(trace),
              ElementsAre(Optional(10.0), Optional(10.0), Optional(50.0), Optional(50.0)));
}

TEST(PowerTraceTest, BetweenStepsOfACounterPowerIsEven) {
  PowerTrace trace(0, kNsPerSecond, 10);
  PowerTrace::Cursor cursor;
  trace.Add(&cursor, At(0, 0));
  for (int i = 1; i < 10; ++i) trace.Add(&cursor, At(100 * i, 0, false));
  trace.Add(&cursor, At(1000, 30));
  for (size_t part = 0; part < 10; ++part) EXPECT_NEAR(trace.Watts(part).value(), 30, 1e-9);
}

TEST(PowerTraceTest, VoidTimeIsNotKnownAndOutsideIsLeftOut) {
  PowerTrace trace(kNsPerSecond, 3 * kNsPerSecond, 2);
  PowerTrace::Cursor cursor;
  trace.Add(&cursor, At(0, 0));
  trace.Add(&cursor, At(2000, 20));
  trace.Add(&cursor, At(3000, 900, true, 500));
  trace.Add(&cursor, At(4000, 910, true, 500));
  EXPECT_THAT(WattsOf(trace), ElementsAre(Optional(10.0), std::nullopt));
}

TEST(PowerTraceTest, ASourceThatIsSilentMakesTheSumUnknown) {
  PowerTrace trace(0, 2 * kNsPerSecond, 2);
  for (const bool goes_on : {true, false}) {
    trace.AddSource();
    PowerTrace::Cursor cursor;
    trace.Add(&cursor, At(0, 0));
    trace.Add(&cursor, At(1000, 20));
    if (goes_on) trace.Add(&cursor, At(2000, 40));
  }
  EXPECT_THAT(WattsOf(trace), ElementsAre(Optional(40.0), std::nullopt));
}

TEST(PowerTraceTest, AShortGapIsNoDipOfPower) {
  PowerTrace trace(0, kNsPerSecond, 1);
  trace.AddEnergy(0, 950 * kNsPerMs, 95);
  EXPECT_NEAR(trace.Watts(0).value(), 100, 1e-9);
}

}  // namespace
}  // namespace emlio::energy_analysis
