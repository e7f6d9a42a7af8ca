// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/session/stream_tuner.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "emlio/base/clock.h"

namespace emlio::session {
namespace {

// Streams of less than so much are not worth having beside each other, and one of more is a
// thread's whole work.
constexpr double kBytesPerSOfAStream = 300e6;
constexpr uint32_t kFewestInUse = 2;
// Windows are not filled evenly, and the round trip grows with the queue.
constexpr double kWindowMargin = 1.5;
// Of the time that streams are busy.
constexpr double kLimitedShare = 0.15;
// One trial of fewer keeps this part of them; it holds if it keeps this part of the rate.
constexpr double kTriedPart = 0.75;
constexpr double kHeldPart = 0.97;
// More streams are worth it if the rate grows by so much.
constexpr double kRisenPart = 1.10;
// A rate that falls below this part of the best is looked into at once.
constexpr double kFallenPart = 0.70;
// Packets that take so much longer than the fastest did wait in a queue: the link is full.
constexpr double kQueuedRoundTrips = 1.25;
// A rate that changes by more is no rate to compare with.
constexpr double kSteadyPart = 0.10;
constexpr int64_t kUpdateNs = 100 * kNsPerMs;
constexpr int64_t kSettleNs = 300 * kNsPerMs;
// BBR takes eight to find out that there is more room.
constexpr int64_t kSettleRoundTrips = 10;
constexpr int64_t kNoTryNs = 20 * kNsPerSecond;

// Both ends': windows as full as this may be what limits.
constexpr double kFullWindows = 0.8;

// The receiver's: what a link is taken to carry at first, and a window to hold (Linux's tcp_wmem as
// it comes, 4 MiB, of which this much can be data on their way).
constexpr double kExpectedBytesPerS = 625e6;
constexpr double kExpectedWindowBytes = 3.4e6;
constexpr double kDialMargin = 1.3;

}  // namespace

uint32_t InitialStreams(int64_t round_trip_ns) {
  const double on_the_way = kExpectedBytesPerS * static_cast<double>(round_trip_ns) / 1e9;
  return static_cast<uint32_t>(
      std::clamp<double>(std::ceil(kDialMargin * on_the_way / kExpectedWindowBytes),
                         kMinAutoStreams, kMaxAutoStreams));
}

void StreamTuner::Use(uint32_t streams, int64_t now_ns, int64_t round_trip_ns) {
  in_use_ = streams;
  settled_at_ns_ = now_ns + std::max(kSettleNs, kSettleRoundTrips * round_trip_ns);
}

void StreamTuner::Try(uint32_t streams, double rate_to_reach, int64_t now_ns,
                      int64_t round_trip_ns) {
  tried_from_ = in_use_;
  rate_to_reach_ = rate_to_reach;
  Use(streams, now_ns, round_trip_ns);
}

void StreamTuner::Update(int64_t now_ns, std::span<const StreamState> states) {
  const auto used = static_cast<uint32_t>(std::min<size_t>(in_use_, states.size()));
  const auto all = static_cast<uint32_t>(states.size());
  bool comparable = before_.size() == states.size() && before_ns_ > 0;
  uint64_t acked_bytes = 0;
  int64_t busy_us = 0;
  int64_t limited_us = 0;
  double round_trip_us_by_bytes = 0;
  int64_t min_round_trip_us = 0;
  for (uint32_t i = 0; comparable && i < all; ++i) {
    // One that was replaced counts from 0.
    comparable = states[i].acked_bytes >= before_[i].acked_bytes;
    const uint64_t bytes = states[i].acked_bytes - before_[i].acked_bytes;
    acked_bytes += bytes;
    round_trip_us_by_bytes +=
        static_cast<double>(states[i].round_trip_us) * static_cast<double>(bytes);
    if (i >= used) continue;
    busy_us += states[i].busy_us - before_[i].busy_us;
    limited_us += states[i].window_limited_us - before_[i].window_limited_us;
    min_round_trip_us = min_round_trip_us == 0
                            ? states[i].min_round_trip_us
                            : std::min(min_round_trip_us, states[i].min_round_trip_us);
  }
  const auto round_trip_us =
      acked_bytes == 0
          ? int64_t{0}
          : static_cast<int64_t>(round_trip_us_by_bytes / static_cast<double>(acked_bytes));
  const int64_t elapsed_ns = now_ns - before_ns_;
  before_.assign(states.begin(), states.end());
  before_ns_ = now_ns;
  const int64_t round_trip_ns = round_trip_us * 1000;
  next_update_ns_ = now_ns + std::max(kUpdateNs, 2 * round_trip_ns);
  if (!comparable || elapsed_ns <= 0 || acked_bytes == 0) return;
  if (in_use_ == kAll) {
    if (round_trip_us == 0) return;
    no_growth_until_ns_ = now_ns + kNoTryNs;  // the first seconds show nothing
    return Use(InitialStreams(round_trip_ns), now_ns, round_trip_ns);
  }

  const double last_rate = rate_;
  rate_ = static_cast<double>(acked_bytes) * 1e9 / static_cast<double>(elapsed_ns);
  // While a connection speeds up its buffer grows behind it: that is no limit.
  const double in_windows = static_cast<double>(used) * static_cast<double>(window_bytes_);
  const bool is_limited =
      static_cast<double>(limited_us) > kLimitedShare * static_cast<double>(busy_us) &&
      rate_ * static_cast<double>(round_trip_us) / 1e6 > kFullWindows * in_windows;
  const bool has_queue = static_cast<double>(round_trip_us) >
                         kQueuedRoundTrips * static_cast<double>(min_round_trip_us);
  if (is_limited && !has_queue && used < all) {
    tried_from_ = 0;
    return Use(std::min(all, used + (used + 1) / 2), now_ns, round_trip_ns);
  }
  if (now_ns < settled_at_ns_ || std::abs(rate_ - last_rate) > kSteadyPart * rate_) return;
  if (tried_from_ > 0 && rate_ < rate_to_reach_) {
    (in_use_ > tried_from_ ? no_growth_until_ns_ : no_try_until_ns_) = now_ns + kNoTryNs;
    rate_to_hold_ = 0;
    return Use(std::exchange(tried_from_, 0), now_ns, round_trip_ns);
  }
  tried_from_ = 0;
  // A queue may be what the round trip that has grown looks like: then the windows are too small
  // and nothing but trying shows it.
  if (is_limited && used < all &&
      (now_ns >= no_growth_until_ns_ || rate_ < kFallenPart * best_rate_)) {
    best_rate_ = rate_;
    return Try(std::min(all, 2 * used), kRisenPart * rate_, now_ns, round_trip_ns);
  }
  best_rate_ = std::max(best_rate_, rate_);
  if (now_ns < no_try_until_ns_) return;
  const double on_the_way = rate_ * static_cast<double>(min_round_trip_us) / 1e6;
  const auto needed = static_cast<uint32_t>(
      std::max(std::ceil(kWindowMargin * on_the_way / static_cast<double>(window_bytes_)),
               std::ceil(rate_ / kBytesPerSOfAStream)));
  const uint32_t fewer = std::max({needed, kFewestInUse, static_cast<uint32_t>(kTriedPart * used)});
  if (fewer >= used) return;
  // Of all trials in a row, so that many small losses do not add up.
  rate_to_hold_ = std::max(rate_to_hold_, rate_);
  Try(fewer, kHeldPart * rate_to_hold_, now_ns, round_trip_ns);
}

uint32_t StreamDialing::OnConnected(int64_t round_trip_ns) {
  round_trip_ns_ = round_trip_ns;
  wanted_ = std::max(wanted_, Share(InitialStreams(round_trip_ns)));
  return wanted_;
}

uint32_t StreamDialing::OnBytes(uint64_t bytes, int64_t elapsed_ns, int64_t round_trip_ns,
                                uint32_t connected) {
  if (elapsed_ns <= 0) return wanted_;
  round_trip_ns_ = round_trip_ns;
  bytes_per_s_ = static_cast<double>(bytes) * 1e9 / static_cast<double>(elapsed_ns);
  const double on_the_way = bytes_per_s_ * static_cast<double>(round_trip_ns_) / 1e9;
  if (on_the_way > kFullWindows * kExpectedWindowBytes * connected && connected >= wanted_) {
    wanted_ = std::min(kMaxAutoStreams, std::max(wanted_, 2 * connected));
  }
  return wanted_;
}

}  // namespace emlio::session
