// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy/tick_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "emlio/energy/testing/store_file.h"

namespace emlio::energy {
namespace {

using ::testing::HasSubstr;

void ExpectSame(const Tick& a, const Tick& b) {
  EXPECT_EQ(a.monotonic_ns, b.monotonic_ns);
  EXPECT_EQ(a.wall_ns, b.wall_ns);
  ASSERT_EQ(a.samples.size(), b.samples.size());
  for (size_t i = 0; i < a.samples.size(); ++i) {
    const Sample& x = a.samples[i];
    const Sample& y = b.samples[i];
    EXPECT_EQ(x.time_ns, y.time_ns);
    EXPECT_NEAR(x.joules, y.joules, 0.51e-6);
    EXPECT_NEAR(x.spread_joules, y.spread_joules, 0.51e-6);
    EXPECT_EQ(x.void_ns, y.void_ns);
    EXPECT_EQ(x.wraps, y.wraps);
    EXPECT_EQ(x.resets, y.resets);
    EXPECT_EQ(x.gaps, y.gaps);
    EXPECT_EQ(x.stalls, y.stalls);
    EXPECT_EQ(x.ambiguous, y.ambiguous);
    EXPECT_EQ(x.state, y.state);
    EXPECT_EQ(x.knot, y.knot);
    EXPECT_EQ(x.stall_busy, y.stall_busy);
  }
}

void ExpectRoundTrip(const TickBlock& block) {
  TickBlock decoded(block.domains());
  const Status status = DecodeTicks(EncodeTicks(block, block.size()), &decoded);
  ASSERT_TRUE(status.ok()) << status.ToString();
  ASSERT_EQ(decoded.size(), block.size());
  for (size_t i = 0; i < block.size(); ++i) ExpectSame(decoded.At(i), block.At(i));
}

TEST(TickCodecTest, WhatHappensToCountersComesBackAsItWas) {
  std::mt19937 random(1);
  TickBlock block(5);
  std::vector<Sample> samples(5);
  int64_t time_ns = 1;
  for (int tick = 0; tick < 700; ++tick) {
    time_ns += 1 + static_cast<int64_t>(random() % 200'000'000);
    for (Sample& s : samples) {
      s.time_ns = time_ns + static_cast<int64_t>(random() % 10'000);
      s.joules += static_cast<double>(random() % 1'000'000) * 61e-6;
      s.state = static_cast<SampleState>(random() % 8);
      s.knot = random() % 2 == 0;
      if (random() % 40 != 0) continue;
      s.spread_joules += 0.1;
      s.void_ns += random();
      ++s.wraps;
      s.resets += 2;
      s.gaps += random() % 3;
      ++s.stalls;
      ++s.ambiguous;
      s.stall_busy = !s.stall_busy;
    }
    block.Append({time_ns, time_ns + 1'800'000'000'000'000'000 + tick % 3, samples});
  }
  ExpectRoundTrip(block);
}

TEST(TickCodecTest, ExtremesComeBackAsTheyWere) {
  Sample sample;
  sample.time_ns = std::numeric_limits<int64_t>::max();
  sample.joules = 9e12;
  sample.void_ns = std::numeric_limits<int64_t>::max();
  sample.wraps = sample.gaps = std::numeric_limits<uint32_t>::max();
  const std::vector<Sample> samples = {sample, Sample{}};
  TickBlock block(2);
  block.Append({std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(), samples});
  block.Append({0, -1, samples});
  block.Append({std::numeric_limits<int64_t>::max(), 0, samples});
  TickBlock decoded(2);
  ASSERT_TRUE(DecodeTicks(EncodeTicks(block, 3), &decoded).ok());
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(decoded.At(i).monotonic_ns, block.At(i).monotonic_ns);
    EXPECT_EQ(decoded.At(i).samples[0].void_ns, sample.void_ns);
    EXPECT_EQ(decoded.At(i).samples[0].gaps, sample.gaps);
    EXPECT_NEAR(decoded.At(i).samples[0].joules, 9e12, 2e-3);
  }
}

TEST(TickCodecTest, AHostWithoutDomainsHasTicksToo) {
  TickBlock block(0);
  block.Append({1, 2, {}});
  block.Append({3, 4, {}});
  ExpectRoundTrip(block);
}

TEST(TickCodecTest, SteadyDomainsTakeFewBytes) {
  TickBlock block(20);
  for (int64_t tick = 0; tick < 600; ++tick) {
    const auto samples = testing::SteadySamples(20, tick);
    block.Append(testing::TickOf(tick, samples));
  }
  ExpectRoundTrip(block);
  EXPECT_LT(EncodeTicks(block, 600).size(), 600 * 20 * 5);
}

TEST(TickCodecTest, EveryTruncationAndEveryBitThatFallsOverIsTakenOrRefusedWhole) {
  TickBlock block(2);
  for (int64_t tick = 0; tick < 5; ++tick) {
    block.Append(testing::TickOf(tick, testing::SteadySamples(2, tick)));
  }
  const std::string whole = EncodeTicks(block, 5);
  TickBlock decoded(2);
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(DecodeTicks(std::string_view(whole).substr(0, size), &decoded).code(),
              Code::kCorrupt);
    EXPECT_EQ(decoded.size(), 0U);
  }
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    const Status status = DecodeTicks(damaged, &decoded);
    EXPECT_EQ(decoded.size() > 0, status.ok());
  }
  EXPECT_THAT(DecodeTicks(whole + '\0', &decoded).message(), HasSubstr("more follows"));
}

TEST(TickCodecTest, SizesThatNobodyWritesAreRefusedBeforeMemoryIsTaken) {
  const auto header = [](std::string ticks) { return "\x01" + std::move(ticks) + "\x02\x01\x01"; };
  TickBlock block(2);
  EXPECT_EQ(DecodeTicks(header({"\0", 1}), &block).code(), Code::kCorrupt);
  EXPECT_EQ(DecodeTicks(header("\xff\xff\xff\xff\x0f"), &block).code(), Code::kCorrupt);
  EXPECT_EQ(DecodeTicks(header("\x81\x80\x04"), &block).code(), Code::kCorrupt);  // 65537
  // As many domains as may be, with too many ticks for them.
  TickBlock wide(4096);
  EXPECT_EQ(DecodeTicks("\x01\x81\x02\x80\x20\x01\x01", &wide).code(), Code::kCorrupt);
  EXPECT_THAT(DecodeTicks("\x01\x01\x03\x01\x01", &block).message(), HasSubstr("domains"));
  EXPECT_THAT(DecodeTicks("\x02", &block).message(), HasSubstr("version 2"));
}

}  // namespace
}  // namespace emlio::energy
