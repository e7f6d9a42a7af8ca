// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <random>
#include <vector>

#include "packet.h"

namespace emlio::wanlab {

// One direction of a link, as it is wanted.
struct DirectionSettings {
  int64_t delay_ns = 0;
  // The delay wanders between delay - jitter and delay + jitter, slowly enough that packets stay in
  // order. At most `delay_ns`.
  int64_t jitter_ns = 0;
  // Of an Ethernet wire, so framing is in it (kFramingBytes a segment); 0: no limit.
  int64_t rate_bits_per_s = 0;
  double loss = 0;  // the share of segments that are lost, 0 to 1
  // The share of segments that take `reorder_by_ns` longer, so that later ones overtake them.
  double reorder = 0;
  int64_t reorder_by_ns = 1'000'000;
  // What may wait for the wire, framing included; what comes when it is full is dropped. Without a
  // rate nothing waits. A packet that finds the queue empty is always taken. 0: no such limit.
  int64_t queue_bytes = 0;
  int64_t queue_packets = 0;
  // Everything that comes is lost; what is on its way arrives.
  bool cut = false;
  // Time stands still: nothing arrives, and the queue fills. Afterwards everything is as much
  // later.
  bool stalled = false;
};

// What happened to segments; a super-packet counts as the segments that it stands for.
struct DirectionCounts {
  uint64_t offered_packets = 0;
  uint64_t offered_bytes = 0;   // IP packets, without framing
  uint64_t offered_frames = 0;  // super-packets and others, as they were read
  uint64_t delivered_packets = 0;
  uint64_t delivered_bytes = 0;
  uint64_t delivered_frames = 0;
  uint64_t lost_packets = 0;  // by `loss`
  uint64_t queue_dropped_packets = 0;
  uint64_t cut_packets = 0;
  uint64_t memory_dropped_packets = 0;  // more than kMaxHeldBytes were held
  uint64_t reordered_packets = 0;
  int64_t peak_queue_bytes = 0;
  int64_t peak_held_bytes = 0;
  // How much later than due frames were given out; what is given out early counts as 0.
  int64_t late_ns_sum = 0;
  int64_t late_ns_max = 0;
};

// The queue, the wire and the distance of one direction: decides for every segment whether and when
// it arrives, and keeps it until then. Deterministic: depends on the seed and on the times that it
// is told, which must not go back. For one thread.
class LinkModel {
 public:
  // Super-packets are divided so that none stands for more time on the wire: the receiver of a slow
  // link would see bursts that no link has. At 1 Gbit/s the largest stays whole.
  static constexpr int64_t kMaxFrameNs = 600'000;
  static constexpr int64_t kMaxHeldBytes = int64_t{2} << 30;

  explicit LinkModel(uint64_t seed);

  // New settings from now on. What waits for the wire goes at the new rate; what has left the queue
  // keeps its time. Nothing overtakes because of a shorter delay.
  void Configure(int64_t now_ns, const DirectionSettings& settings);
  const DirectionSettings& settings() const { return settings_; }

  // A frame has come. `make_piece(first, count)` is asked for each run of segments that arrive
  // together.
  void Offer(int64_t now_ns, const PacketShape& shape,
             const std::function<Piece(int first, int count)>& make_piece);

  // The next frame whose time has come, or comes within `early_ns`.
  std::optional<Piece> Take(int64_t now_ns, int64_t early_ns = 0);
  // When Take will have something, on the clock of `now_ns`; nothing while the line is empty or
  // time stands still.
  std::optional<int64_t> NextDueNs() const;

  // What waits for the wire now.
  int64_t QueueBytes(int64_t now_ns) const;
  const DirectionCounts& counts() const { return counts_; }

 private:
  // Times are picoseconds of model time, which stands still during a stall: at 100 Gbit/s a byte
  // takes 80 ps, and 64 bits are 106 days.
  struct Entry {
    int64_t due_ps;
    int64_t departs_ps;  // when its last byte is on the wire
    int packets;
    int64_t bytes;
    Piece piece;
  };
  struct LaterFirst {
    bool operator()(const Entry& a, const Entry& b) const { return a.due_ps > b.due_ps; }
  };

  int64_t ToModel(int64_t now_ns) const;
  int64_t BacklogBytes(int64_t now_ps) const;
  int64_t JitterPs(int64_t at_ps) const;
  bool Chance(double share);
  bool HasRoom(int64_t now_ps, int64_t wire_bytes) const;
  void Keep(int64_t departs_ps, bool late, int packets, int64_t bytes, Piece piece);
  void ChangeRate(int64_t now_ps, int64_t old_ps_per_byte);

  DirectionSettings settings_;
  DirectionCounts counts_;
  std::mt19937_64 random_;
  const uint64_t jitter_seed_;
  bool started_ = false;
  int64_t origin_ns_ = 0;  // model time 0, moved by every stall
  int64_t stalled_at_ns_ = 0;
  int64_t ps_per_byte_ = 0;
  int64_t free_at_ps_ = 0;  // when the wire has sent all it has taken
  int64_t last_due_ps_ = 0;
  int64_t held_bytes_ = 0;
  // When each packet in the queue leaves it; kept only where packets are limited.
  std::deque<int64_t> departures_ps_;
  std::deque<Entry> line_;   // in order of due_ps
  std::vector<Entry> late_;  // a heap: the reordered ones
};

}  // namespace emlio::wanlab
