// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace emlio::session {

// How many streams a session has and uses. The receiver dials them, by round-trip time and by what
// arrives (StreamDialing); the daemon, who sees the connections' state in the kernel, decides how
// many of them it sends on (StreamTuner). Both are pure: numbers and times in, a number out. Not
// thread-safe. docs/decisions/0018 has the measurements behind the constants.

// More than anybody needs at 200 ms and 5 Gbit/s.
inline constexpr uint32_t kMaxAutoStreams = 64;
// Without distance: so many that one is filled while others are on their way.
inline constexpr uint32_t kMinAutoStreams = 4;
// How many streams a link of that round trip gets at first.
uint32_t InitialStreams(int64_t round_trip_ns);

// What the kernel knows of one connection that data are sent on. Counters since its beginning.
struct StreamState {
  uint64_t acked_bytes = 0;       // that arrived
  int64_t busy_us = 0;            // with something to send
  int64_t window_limited_us = 0;  // of it: not the network but a buffer of an end was full
  int64_t round_trip_us = 0;      // smoothed
  int64_t min_round_trip_us = 0;  // of the last minutes
};

// The daemon's half: more streams while those in use are limited by their windows, fewer when fewer
// carry as much. A stream that carries little is sent in small packets, which costs both ends
// processor time, and many streams overfill the link's queue; too few do not fill the link.
class StreamTuner {
 public:
  // `window_bytes`: what one connection can have on its way at most, about (tcp_wmem).
  // `initial`: how many to use at first; 0: as many as the round trip asks for, once it is known,
  // and all until then.
  explicit StreamTuner(uint64_t window_bytes, uint32_t initial = 0)
      : window_bytes_(window_bytes), in_use_(initial == 0 ? kAll : initial) {}

  // When Update is due.
  int64_t next_update_ns() const { return next_update_ns_; }
  // `states`: of the streams that stand, in their order; those that are used are the first ones.
  void Update(int64_t now_ns, std::span<const StreamState> states);
  // Chunks go to the first so many of the streams that stand.
  uint32_t in_use() const { return in_use_; }

 private:
  static constexpr uint32_t kAll = UINT32_MAX;
  void Use(uint32_t streams, int64_t now_ns, int64_t round_trip_ns);
  void Try(uint32_t streams, double rate_to_reach, int64_t now_ns, int64_t round_trip_ns);

  const uint64_t window_bytes_;
  uint32_t in_use_;
  int64_t next_update_ns_ = 0;
  std::vector<StreamState> before_;  // at the last Update
  int64_t before_ns_ = 0;

  double rate_ = 0;  // bytes a second, at the last Update
  double best_rate_ = 0;
  int64_t settled_at_ns_ = 0;  // when the last change has had its effect
  // While another number is tried: what there was before, and what the rate must be for it to stay.
  uint32_t tried_from_ = 0;  // 0: nothing is tried
  double rate_to_reach_ = 0;
  double rate_to_hold_ = 0;
  int64_t no_try_until_ns_ = 0;     // of fewer
  int64_t no_growth_until_ns_ = 0;  // of more
};

// The receiver's half: how many connections to have.
class StreamDialing {
 public:
  // `sharers`: loaders that read one rank's batches together and share the link.
  explicit StreamDialing(uint32_t sharers) : sharers_(sharers == 0 ? 1 : sharers) {}

  // At the beginning, before the round-trip time is known.
  uint32_t first() const { return Share(kMinAutoStreams); }
  // How many to have now that it is known. Round trips here are the least of the last minutes.
  uint32_t OnConnected(int64_t round_trip_ns);
  // The same after so many bytes have arrived in that time, on `connected` streams. Never fewer
  // than before: the daemon uses as many as it needs.
  uint32_t OnBytes(uint64_t bytes, int64_t elapsed_ns, int64_t round_trip_ns, uint32_t connected);
  int64_t round_trip_ns() const { return round_trip_ns_; }
  double bytes_per_s() const { return bytes_per_s_; }

 private:
  uint32_t Share(uint32_t streams) const { return (streams + sharers_ - 1) / sharers_; }

  const uint32_t sharers_;
  uint32_t wanted_ = 0;
  int64_t round_trip_ns_ = 0;
  double bytes_per_s_ = 0;
};

}  // namespace emlio::session
