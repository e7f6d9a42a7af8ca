// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/session/stream_tuner.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "emlio/base/clock.h"
#include "gtest/gtest.h"

namespace emlio::session {
namespace {

constexpr uint64_t kWindowBytes = 3'400'000;

// A link and streams over it that are in full swing: each carries what its window allows, or its
// part of what the link carries.
class Link {
 public:
  Link(double bytes_per_s, int64_t round_trip_ms) : rate_(bytes_per_s), rtt_ms_(round_trip_ms) {}

  void SetRate(double bytes_per_s) { rate_ = bytes_per_s; }
  // The kernel remembers the least one for minutes.
  void SetRoundTrip(int64_t round_trip_ms) {
    rtt_ms_ = round_trip_ms;
    min_rtt_ms_ = std::min(min_rtt_ms_, round_trip_ms);
  }
  // What one stream carries at most, whatever its window: as CUBIC under loss.
  void SetStreamRate(double bytes_per_s) { stream_rate_ = bytes_per_s; }

  void Run(StreamTuner* tuner, size_t streams, double seconds) {
    states_.resize(streams);
    const int64_t end_ns = now_ns_ + static_cast<int64_t>(seconds * 1e9);
    while (now_ns_ < end_ns) {
      now_ns_ += kStepNs;
      Advance(std::min<size_t>(tuner->in_use(), streams));
      if (now_ns_ >= tuner->next_update_ns()) tuner->Update(now_ns_, states_);
    }
  }
  double CarriedBy(size_t used) const {
    return std::min(rate_, static_cast<double>(used) * RateOfOne());
  }

 private:
  static constexpr int64_t kStepNs = 10 * kNsPerMs;

  double RateOfOne() const {
    return std::min(stream_rate_, static_cast<double>(kWindowBytes) * 1e3 / rtt_ms_);
  }
  void Advance(size_t used) {
    const double seconds = kStepNs / 1e9;
    const bool by_window =
        stream_rate_ * rtt_ms_ / 1e3 > kWindowBytes && RateOfOne() * used < 2 * rate_;
    for (size_t i = 0; i < used; ++i) {
      states_[i].acked_bytes += static_cast<uint64_t>(CarriedBy(used) / used * seconds);
      states_[i].busy_us += kStepNs / 1000;
      states_[i].window_limited_us += by_window ? kStepNs / 2000 : 0;
    }
    // What is on its way beyond what the link carries in a round trip waits in the queue.
    const double in_windows = static_cast<double>(kWindowBytes) * used;
    const double queued_s =
        std::clamp(in_windows / rate_ - rtt_ms_ / 1e3, 0.0, rtt_ms_ / 1e3);  // one round trip's
    for (StreamState& state : states_) {
      state.round_trip_us = rtt_ms_ * 1000 + static_cast<int64_t>(queued_s * 1e6);
      state.min_round_trip_us = min_rtt_ms_ * 1000;
    }
  }

  double rate_;
  int64_t rtt_ms_;
  int64_t min_rtt_ms_ = rtt_ms_;
  double stream_rate_ = 1e12;
  int64_t now_ns_ = kNsPerSecond;
  std::vector<StreamState> states_;
};

TEST(StreamTunerTest, ALinkThatFewStreamsFillIsSharedByFew) {
  Link link(119e6, 30);
  StreamTuner tuner(kWindowBytes);
  link.Run(&tuner, 8, 5);
  EXPECT_EQ(tuner.in_use(), 2u);
  EXPECT_GE(link.CarriedBy(tuner.in_use()), 0.99 * 119e6);
}

TEST(StreamTunerTest, SoManyStreamsStayThatTheirWindowsHoldWhatIsOnTheWay) {
  Link link(600e6, 100);
  StreamTuner tuner(kWindowBytes);
  link.Run(&tuner, 48, 10);
  EXPECT_GE(link.CarriedBy(tuner.in_use()), 0.99 * 600e6);
  EXPECT_LE(tuner.in_use(), 30u);
}

TEST(StreamTunerTest, StreamsThatAreLimitedByTheirWindowsGetMore) {
  Link link(600e6, 100);
  StreamTuner tuner(kWindowBytes, /*initial=*/2);
  link.Run(&tuner, 48, 3);
  EXPECT_GE(link.CarriedBy(tuner.in_use()), 0.99 * 600e6);
}

TEST(StreamTunerTest, WhereEachStreamHasItsOwnLimitNoneIsGivenUp) {
  Link link(600e6, 30);
  link.SetStreamRate(5e6);
  StreamTuner tuner(kWindowBytes);
  link.Run(&tuner, 8, 2.5);  // the trial is over
  EXPECT_EQ(std::min(tuner.in_use(), 8u), 8u);
  link.Run(&tuner, 8, 10);
  EXPECT_EQ(std::min(tuner.in_use(), 8u), 8u);
}

TEST(StreamTunerTest, ARoundTripThatGrowsGetsMoreStreams) {
  Link link(119e6, 5);
  StreamTuner tuner(kWindowBytes);
  link.Run(&tuner, 16, 10);
  ASSERT_EQ(tuner.in_use(), 2u);
  link.SetRoundTrip(100);
  link.Run(&tuner, 16, 3);
  EXPECT_GE(link.CarriedBy(tuner.in_use()), 0.99 * 119e6);
}

TEST(StreamTunerTest, ARateThatFallsIsNotTakenForTooFewStreams) {
  Link link(600e6, 30);
  StreamTuner tuner(kWindowBytes);
  link.Run(&tuner, 8, 10);
  link.SetRate(60e6);
  link.Run(&tuner, 8, 60);
  EXPECT_EQ(tuner.in_use(), 2u);
}

TEST(StreamTunerTest, WithoutAnythingKnownAllAreUsed) {
  StreamTuner tuner(kWindowBytes);
  for (int64_t now_ns = 1; now_ns < 10 * kNsPerSecond; now_ns += 100 * kNsPerMs) {
    tuner.Update(now_ns, {});
  }
  EXPECT_GE(tuner.in_use(), 256u);
}

TEST(StreamTunerTest, AStreamThatWasReplacedDoesNotConfuse) {
  Link link(119e6, 30);
  StreamTuner tuner(kWindowBytes);
  std::vector<StreamState> states(4, {.acked_bytes = 1'000'000'000, .busy_us = 1'000'000});
  tuner.Update(kNsPerSecond, states);
  states[2] = {};
  tuner.Update(2 * kNsPerSecond, states);
  link.Run(&tuner, 4, 5);
  EXPECT_EQ(tuner.in_use(), 2u);
}

TEST(StreamDialingTest, DistanceDecidesHowManyThereAreAtFirst) {
  EXPECT_EQ(StreamDialing(1).first(), 4u);
  EXPECT_EQ(StreamDialing(1).OnConnected(100'000), 4u);
  EXPECT_EQ(StreamDialing(1).OnConnected(30 * kNsPerMs), 8u);
  EXPECT_EQ(StreamDialing(1).OnConnected(100 * kNsPerMs), 24u);
  EXPECT_EQ(StreamDialing(1).OnConnected(10 * kNsPerSecond), kMaxAutoStreams);
}

TEST(StreamDialingTest, LoadersOfOneRankShareThem) {
  EXPECT_EQ(StreamDialing(8).first(), 1u);
  EXPECT_EQ(StreamDialing(8).OnConnected(100 * kNsPerMs), 3u);
}

TEST(StreamDialingTest, FullWindowsGetMoreUntilTheyAreNot) {
  StreamDialing dialing(1);
  ASSERT_EQ(dialing.OnConnected(30 * kNsPerMs), 8u);
  // 18 MB on the way, of 27 that fit; then 24.
  EXPECT_EQ(dialing.OnBytes(600'000'000, kNsPerSecond, 30 * kNsPerMs, 8), 8u);
  EXPECT_EQ(dialing.OnBytes(800'000'000, kNsPerSecond, 30 * kNsPerMs, 8), 16u);
  EXPECT_EQ(dialing.OnBytes(600'000'000, kNsPerSecond, 30 * kNsPerMs, 16), 16u);
  // Those asked for do not stand yet.
  EXPECT_EQ(dialing.OnBytes(1'200'000'000, kNsPerSecond, 30 * kNsPerMs, 8), 16u);
  EXPECT_EQ(dialing.OnBytes(2'000'000'000, kNsPerSecond, 30 * kNsPerMs, 16), 32u);
}

}  // namespace
}  // namespace emlio::session
