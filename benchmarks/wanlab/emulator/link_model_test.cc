// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "link_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

namespace emlio::wanlab {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kUs = 1000;
constexpr int64_t kMs = 1000 * kUs;
// One byte a microsecond, so that times can be read as bytes.
constexpr int64_t kByteAUs = 8'000'000;

// The pieces that came out carry their first segment and their number of segments.
struct Arrival {
  int64_t at_ns;
  uint32_t first;
  uint32_t count;
  friend bool operator==(const Arrival&, const Arrival&) = default;
};
void PrintTo(const Arrival& arrival, std::ostream* out) {
  *out << "{" << arrival.at_ns << " ns, " << arrival.first << ", " << arrival.count << "}";
}

// A packet of one segment of that many bytes on the wire.
PacketShape Packet(uint32_t wire_bytes) {
  return {.segments = 1, .ip_bytes = wire_bytes - kFramingBytes};
}

// A super-packet of segments that all take 1000 bytes on the wire.
PacketShape Super(int segments) {
  const uint32_t header = 40;
  const uint32_t payload = 1000 - header - kFramingBytes;
  return {.segments = segments,
          .ip_bytes = header + static_cast<uint32_t>(segments) * payload,
          .header_bytes = header,
          .payload_bytes = payload};
}

class LinkModelTest : public ::testing::Test {
 protected:
  void Configure(const DirectionSettings& settings) { model_.Configure(now_ns_, settings); }
  void Offer(const PacketShape& shape, uint32_t mark = 0) {
    model_.Offer(now_ns_, shape, [&](int first, int count) {
      Piece piece;
      piece.body_offset = mark + static_cast<uint32_t>(first);
      piece.body_bytes = static_cast<uint32_t>(count);
      return piece;
    });
  }
  // Lets time pass, and takes what arrives at the moment that it should.
  std::vector<Arrival> Advance(int64_t by_ns) {
    std::vector<Arrival> arrivals;
    const int64_t until_ns = now_ns_ + by_ns;
    for (auto due = model_.NextDueNs(); due && *due <= until_ns; due = model_.NextDueNs()) {
      now_ns_ = std::max(now_ns_, *due);
      const std::optional<Piece> piece = model_.Take(now_ns_);
      if (!piece) break;
      arrivals.push_back({now_ns_ - start_ns_, piece->body_offset, piece->body_bytes});
    }
    now_ns_ = until_ns;
    return arrivals;
  }
  const DirectionCounts& counts() const { return model_.counts(); }

  const int64_t start_ns_ = 5'000'000'000;
  int64_t now_ns_ = start_ns_;
  LinkModel model_{7};
};

TEST_F(LinkModelTest, WithoutSettingsAPacketArrivesAtOnce) {
  Configure({});
  Offer(Packet(1000));
  EXPECT_THAT(Advance(0), ElementsAre(Arrival{0, 0, 1}));
  EXPECT_EQ(model_.NextDueNs(), std::nullopt);
}

TEST_F(LinkModelTest, DelayIsAddedToTheTimeOnTheWire) {
  Configure({.delay_ns = 15 * kMs, .rate_bits_per_s = kByteAUs, .queue_bytes = 1 << 20});
  Offer(Packet(1000), 0);
  Offer(Packet(500), 1);
  EXPECT_THAT(Advance(20 * kMs), ElementsAre(Arrival{16 * kMs, 0, 1}, Arrival{16500 * kUs, 1, 1}));
}

TEST_F(LinkModelTest, AnIdleWireIsNotSavedUp) {
  Configure({.rate_bits_per_s = kByteAUs, .queue_bytes = 1 << 20});
  Advance(100 * kMs);
  Offer(Packet(1000), 0);
  Offer(Packet(1000), 1);
  EXPECT_THAT(Advance(10 * kMs), ElementsAre(Arrival{101 * kMs, 0, 1}, Arrival{102 * kMs, 1, 1}));
}

TEST_F(LinkModelTest, TheRateHoldsOverManyPackets) {
  Configure({.rate_bits_per_s = 5'000'000'000, .queue_bytes = int64_t{1} << 40});
  constexpr int kPackets = 10'000;
  for (int i = 0; i < kPackets; ++i) Offer(Packet(1538));
  const std::vector<Arrival> arrivals = Advance(kMs * 1000);
  ASSERT_EQ(arrivals.size(), kPackets);
  EXPECT_EQ(arrivals.back().at_ns, kPackets * 1538 * 8 / 5);
}

TEST_F(LinkModelTest, AFullQueueDropsWhatComesLast) {
  Configure({.rate_bits_per_s = kByteAUs, .queue_bytes = 2500});
  for (uint32_t i = 0; i < 4; ++i) Offer(Packet(1000), i);
  EXPECT_EQ(counts().queue_dropped_packets, 2);
  EXPECT_EQ(counts().peak_queue_bytes, 2000);
  EXPECT_EQ(model_.QueueBytes(now_ns_ + 500 * kUs), 1500);
  Advance(500 * kUs);  // half of the first has left: there is room for another
  Offer(Packet(1000), 4);
  EXPECT_THAT(Advance(10 * kMs),
              ElementsAre(Arrival{kMs, 0, 1}, Arrival{2 * kMs, 1, 1}, Arrival{3 * kMs, 4, 1}));
}

TEST_F(LinkModelTest, AnEmptyQueueTakesAPacketThatIsLargerThanIt) {
  Configure({.rate_bits_per_s = kByteAUs, .queue_bytes = 100});
  Offer(Packet(1000));
  EXPECT_THAT(Advance(kMs), ElementsAre(Arrival{kMs, 0, 1}));
}

TEST_F(LinkModelTest, AQueueMayBeCountedInPackets) {
  Configure({.rate_bits_per_s = kByteAUs, .queue_packets = 2});
  for (uint32_t i = 0; i < 3; ++i) Offer(Packet(1000), i);
  EXPECT_EQ(counts().queue_dropped_packets, 1);
  Advance(kMs);
  Offer(Packet(1000), 3);
  EXPECT_EQ(counts().queue_dropped_packets, 1);
}

TEST_F(LinkModelTest, TheEndOfASuperPacketIsDroppedWhereTheQueueIsFull) {
  Configure({.rate_bits_per_s = kByteAUs, .queue_bytes = 3000});
  Offer(Super(5));
  EXPECT_EQ(counts().queue_dropped_packets, 2);
  EXPECT_EQ(counts().offered_packets, 5);
  Advance(10 * kMs);
  EXPECT_EQ(counts().delivered_packets, 3);
}

TEST_F(LinkModelTest, ASuperPacketIsDividedWhereItWouldTakeLong) {
  // 250 us a segment.
  Configure({.rate_bits_per_s = 4 * kByteAUs, .queue_bytes = 1 << 20});
  Offer(Super(5));
  EXPECT_THAT(Advance(2 * kMs), ElementsAre(Arrival{500 * kUs, 0, 2}, Arrival{1000 * kUs, 2, 2},
                                            Arrival{1250 * kUs, 4, 1}));
}

TEST_F(LinkModelTest, ASuperPacketStaysWholeOnAFastLink) {
  Configure({.rate_bits_per_s = 10'000'000'000, .queue_bytes = 1 << 20});
  Offer(Super(60));
  EXPECT_THAT(Advance(kMs), ElementsAre(Arrival{60 * 800, 0, 60}));
}

TEST_F(LinkModelTest, ALostSegmentIsOnlyThatSegment) {
  Configure({.loss = 0.1});
  std::vector<bool> arrived(1000, false);
  for (uint32_t i = 0; i < 20; ++i) Offer(Super(50), i * 50);
  int runs = 0;
  for (const Arrival& arrival : Advance(kMs)) {
    ++runs;
    for (uint32_t i = 0; i < arrival.count; ++i) {
      EXPECT_FALSE(arrived[arrival.first + i]);
      arrived[arrival.first + i] = true;
    }
  }
  const auto lost = static_cast<uint64_t>(std::ranges::count(arrived, false));
  EXPECT_EQ(lost, counts().lost_packets);
  EXPECT_NEAR(static_cast<double>(lost), 100, 40);  // 4 standard deviations
  EXPECT_GT(runs, 40);                              // few super-packets were whole
  EXPECT_EQ(counts().delivered_packets, 1000 - lost);
}

TEST_F(LinkModelTest, ALostPacketTakesItsTimeOnTheWire) {
  Configure({.rate_bits_per_s = kByteAUs, .loss = 1, .queue_bytes = 1 << 20});
  Offer(Packet(1000), 0);
  Configure({.rate_bits_per_s = kByteAUs, .queue_bytes = 1 << 20});
  Offer(Packet(1000), 1);
  EXPECT_THAT(Advance(10 * kMs), ElementsAre(Arrival{2 * kMs, 1, 1}));
}

TEST_F(LinkModelTest, TheSameSeedLosesTheSame) {
  LinkModel other(7);
  const DirectionSettings settings{.loss = 0.5};
  Configure(settings);
  other.Configure(now_ns_, settings);
  for (int i = 0; i < 100; ++i) {
    Offer(Packet(100));
    other.Offer(now_ns_, Packet(100), [](int, int) { return Piece(); });
    ASSERT_EQ(counts().lost_packets, other.counts().lost_packets);
  }
}

TEST_F(LinkModelTest, JitterStaysWithinItsBoundsAndKeepsTheOrder) {
  Configure({.delay_ns = 20 * kMs, .jitter_ns = 5 * kMs});
  std::vector<int64_t> delays_ns;
  uint32_t sent = 0;
  uint32_t received = 0;
  for (int ms = 0; ms < 5000; ++ms) {
    Offer(Packet(100), sent++);
    for (const Arrival& arrival : Advance(kMs)) {
      EXPECT_EQ(arrival.first, received);
      delays_ns.push_back(arrival.at_ns - int64_t{received} * kMs);
      ++received;
    }
  }
  ASSERT_GT(delays_ns.size(), 4900);
  const auto [low, high] = std::ranges::minmax(delays_ns);
  EXPECT_GE(low, 15 * kMs);
  EXPECT_LE(high, 25 * kMs);
  EXPECT_LT(low, 16 * kMs);
  EXPECT_GT(high, 24 * kMs);
  int64_t sum = 0;
  for (const int64_t delay_ns : delays_ns) sum += delay_ns;
  EXPECT_NEAR(static_cast<double>(sum) / static_cast<double>(delays_ns.size()), 20 * kMs, kMs / 2);
}

TEST_F(LinkModelTest, JitterLargerThanItsStepKeepsTheOrderToo) {
  Configure({.delay_ns = 500 * kMs, .jitter_ns = 500 * kMs});
  uint32_t received = 0;
  for (uint32_t i = 0; i < 20'000; ++i) {
    Offer(Packet(100), i);
    for (const Arrival& arrival : Advance(kMs)) EXPECT_EQ(arrival.first, received++);
  }
  EXPECT_GT(received, 18'000);
}

TEST_F(LinkModelTest, AReorderedSegmentIsOvertaken) {
  Configure({.delay_ns = 10 * kMs, .reorder = 1, .reorder_by_ns = 2 * kMs});
  Offer(Packet(100), 0);
  Configure({.delay_ns = 10 * kMs});
  Advance(kMs);
  Offer(Packet(100), 1);
  EXPECT_THAT(Advance(20 * kMs), ElementsAre(Arrival{11 * kMs, 1, 1}, Arrival{12 * kMs, 0, 1}));
  EXPECT_EQ(counts().reordered_packets, 1);
}

TEST_F(LinkModelTest, AReorderedSegmentLeavesItsSuperPacket) {
  Configure({.reorder = 0.2, .reorder_by_ns = kMs});
  for (uint32_t i = 0; i < 10; ++i) Offer(Super(20), i * 20);
  uint64_t late = 0;
  for (const Arrival& arrival : Advance(10 * kMs)) {
    if (arrival.at_ns == 0) continue;
    EXPECT_EQ(arrival.at_ns, kMs);
    EXPECT_EQ(arrival.count, 1);
    ++late;
  }
  EXPECT_EQ(late, counts().reordered_packets);
  EXPECT_GT(late, 10);
  EXPECT_EQ(counts().delivered_packets, 200);
}

TEST_F(LinkModelTest, ACutLosesWhatComesAndDeliversWhatIsOnItsWay) {
  Configure({.delay_ns = 10 * kMs});
  Offer(Packet(100), 0);
  Configure({.delay_ns = 10 * kMs, .cut = true});
  Offer(Super(3), 1);
  EXPECT_THAT(Advance(20 * kMs), ElementsAre(Arrival{10 * kMs, 0, 1}));
  EXPECT_EQ(counts().cut_packets, 3);
  Configure({.delay_ns = 10 * kMs});
  Offer(Packet(100), 4);
  EXPECT_THAT(Advance(20 * kMs), ElementsAre(Arrival{30 * kMs, 4, 1}));
}

TEST_F(LinkModelTest, AStallDelaysEverythingByItsLength) {
  DirectionSettings settings{
      .delay_ns = 10 * kMs, .rate_bits_per_s = kByteAUs, .queue_bytes = 3000};
  Configure(settings);
  Offer(Packet(1000), 0);
  Advance(kMs);
  settings.stalled = true;
  Configure(settings);
  EXPECT_EQ(model_.NextDueNs(), std::nullopt);
  EXPECT_THAT(Advance(100 * kMs), ElementsAre());
  EXPECT_EQ(model_.Take(now_ns_), std::nullopt);
  for (uint32_t i = 1; i <= 4; ++i) Offer(Packet(1000), i);
  EXPECT_EQ(counts().queue_dropped_packets, 1);  // the wire stands still, so the queue fills
  settings.stalled = false;
  Configure(settings);
  EXPECT_THAT(Advance(100 * kMs), ElementsAre(Arrival{111 * kMs, 0, 1}, Arrival{112 * kMs, 1, 1},
                                              Arrival{113 * kMs, 2, 1}, Arrival{114 * kMs, 3, 1}));
}

TEST_F(LinkModelTest, WhatWaitsGoesAtANewRate) {
  Configure({.delay_ns = 10 * kMs, .rate_bits_per_s = kByteAUs, .queue_bytes = 1 << 20});
  for (uint32_t i = 0; i < 4; ++i) Offer(Packet(1000), i);
  Advance(2 * kMs);  // two have left the queue
  Configure({.delay_ns = 10 * kMs, .rate_bits_per_s = kByteAUs / 2, .queue_bytes = 1 << 20});
  EXPECT_EQ(model_.QueueBytes(now_ns_), 2000);
  EXPECT_THAT(Advance(100 * kMs), ElementsAre(Arrival{11 * kMs, 0, 1}, Arrival{12 * kMs, 1, 1},
                                              Arrival{14 * kMs, 2, 1}, Arrival{16 * kMs, 3, 1}));
}

TEST_F(LinkModelTest, WithoutARateTheQueueEmptiesAtOnce) {
  Configure({.rate_bits_per_s = kByteAUs, .queue_bytes = 1 << 20});
  for (uint32_t i = 0; i < 3; ++i) Offer(Packet(1000), i);
  Configure({});
  EXPECT_EQ(model_.QueueBytes(now_ns_), 0);
  EXPECT_THAT(Advance(0), ElementsAre(Arrival{0, 0, 1}, Arrival{0, 1, 1}, Arrival{0, 2, 1}));
}

TEST_F(LinkModelTest, AShorterDelayLetsNothingOvertake) {
  Configure({.delay_ns = 100 * kMs});
  Offer(Packet(100), 0);
  Configure({.delay_ns = kMs});
  Offer(Packet(100), 1);
  EXPECT_THAT(Advance(200 * kMs), ElementsAre(Arrival{100 * kMs, 0, 1}, Arrival{100 * kMs, 1, 1}));
  Offer(Packet(100), 2);
  EXPECT_THAT(Advance(10 * kMs), ElementsAre(Arrival{201 * kMs, 2, 1}));
}

TEST_F(LinkModelTest, LatenessIsCounted) {
  Configure({.delay_ns = kMs});
  Offer(Packet(100));
  Offer(Packet(100));
  EXPECT_FALSE(model_.Take(now_ns_ + kMs - 10 * kUs, 9 * kUs).has_value());
  EXPECT_TRUE(model_.Take(now_ns_ + kMs - 10 * kUs, 10 * kUs).has_value());
  EXPECT_TRUE(model_.Take(now_ns_ + kMs + 70 * kUs).has_value());
  EXPECT_EQ(counts().late_ns_max, 70 * kUs);
  EXPECT_EQ(counts().late_ns_sum, 70 * kUs);
  EXPECT_EQ(counts().delivered_frames, 2);
}

}  // namespace
}  // namespace emlio::wanlab
