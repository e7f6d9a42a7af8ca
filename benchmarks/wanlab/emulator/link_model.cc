// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "link_model.h"

#include <algorithm>
#include <utility>

namespace emlio::wanlab {
namespace {

constexpr int64_t kPsPerNs = 1000;
// The delay takes a new direction this often, or less often for a jitter so large that it would
// change faster than time itself, which would change the order.
constexpr int64_t kJitterStepPs = 10'000'000'000;
constexpr int64_t kJitterStepsOfJitter = 4;

// A number that looks drawn, from -1 to 1, for the knot `index` of the delay's course.
double Knot(uint64_t seed, uint64_t index) {
  uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15u;  // splitmix64
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  z ^= z >> 31;
  return static_cast<double>(z >> 11) / static_cast<double>(uint64_t{1} << 52) - 1.0;
}

}  // namespace

LinkModel::LinkModel(uint64_t seed) : random_(seed), jitter_seed_(random_()) {}

int64_t LinkModel::ToModel(int64_t now_ns) const {
  return ((settings_.stalled ? stalled_at_ns_ : now_ns) - origin_ns_) * kPsPerNs;
}

void LinkModel::Configure(int64_t now_ns, const DirectionSettings& settings) {
  if (!started_) {
    started_ = true;
    origin_ns_ = now_ns;
  }
  if (settings.stalled && !settings_.stalled) stalled_at_ns_ = now_ns;
  if (!settings.stalled && settings_.stalled) origin_ns_ += now_ns - stalled_at_ns_;
  settings_ = settings;
  const int64_t old_ps_per_byte = ps_per_byte_;
  ps_per_byte_ = settings.rate_bits_per_s == 0
                     ? 0
                     : std::max<int64_t>(1, (8'000'000'000'000 + settings.rate_bits_per_s / 2) /
                                                settings.rate_bits_per_s);
  if (ps_per_byte_ != old_ps_per_byte) ChangeRate(ToModel(now_ns), old_ps_per_byte);
  if (settings.queue_packets == 0) departures_ps_.clear();
}

void LinkModel::ChangeRate(int64_t now_ps, int64_t old_ps_per_byte) {
  const auto rescaled = [&](int64_t departs_ps) {
    if (departs_ps <= now_ps) return departs_ps;
    if (old_ps_per_byte == 0 || ps_per_byte_ == 0) return now_ps;
    return now_ps + (departs_ps - now_ps) / old_ps_per_byte * ps_per_byte_;
  };
  free_at_ps_ = rescaled(free_at_ps_);
  for (int64_t& departs_ps : departures_ps_) departs_ps = rescaled(departs_ps);
  int64_t due_ps = 0;
  for (Entry& entry : line_) {
    const int64_t departs_ps = rescaled(entry.departs_ps);
    due_ps = std::max(due_ps, entry.due_ps + (departs_ps - entry.departs_ps));
    entry.due_ps = due_ps;
    entry.departs_ps = departs_ps;
  }
  if (!line_.empty()) last_due_ps_ = due_ps;
  for (Entry& entry : late_) {
    const int64_t departs_ps = rescaled(entry.departs_ps);
    entry.due_ps += departs_ps - entry.departs_ps;
    entry.departs_ps = departs_ps;
  }
  std::make_heap(late_.begin(), late_.end(), LaterFirst());
}

int64_t LinkModel::BacklogBytes(int64_t now_ps) const {
  if (ps_per_byte_ == 0 || free_at_ps_ <= now_ps) return 0;
  return (free_at_ps_ - now_ps + ps_per_byte_ - 1) / ps_per_byte_;
}

int64_t LinkModel::QueueBytes(int64_t now_ns) const { return BacklogBytes(ToModel(now_ns)); }

bool LinkModel::HasRoom(int64_t now_ps, int64_t wire_bytes) const {
  const int64_t backlog = BacklogBytes(now_ps);
  if (backlog == 0) return true;
  if (settings_.queue_bytes > 0 && backlog + wire_bytes > settings_.queue_bytes) return false;
  return settings_.queue_packets == 0 ||
         static_cast<int64_t>(departures_ps_.size()) < settings_.queue_packets;
}

int64_t LinkModel::JitterPs(int64_t at_ps) const {
  if (settings_.jitter_ns == 0) return 0;
  const int64_t jitter_ps = settings_.jitter_ns * kPsPerNs;
  const int64_t step_ps = std::max(kJitterStepPs, kJitterStepsOfJitter * jitter_ps);
  const int64_t index = at_ps / step_ps;
  const double from = Knot(jitter_seed_, static_cast<uint64_t>(index));
  const double to = Knot(jitter_seed_, static_cast<uint64_t>(index) + 1);
  const double along = static_cast<double>(at_ps % step_ps) / static_cast<double>(step_ps);
  return static_cast<int64_t>((from + (to - from) * along) * static_cast<double>(jitter_ps));
}

bool LinkModel::Chance(double share) {
  if (share <= 0) return false;
  return static_cast<double>(random_() >> 11) / static_cast<double>(uint64_t{1} << 53) < share;
}

void LinkModel::Offer(int64_t now_ns, const PacketShape& shape,
                      const std::function<Piece(int first, int count)>& make_piece) {
  const int64_t now_ps = ToModel(now_ns);
  ++counts_.offered_frames;
  counts_.offered_packets += static_cast<uint64_t>(shape.segments);
  if (settings_.cut) {
    counts_.cut_packets += static_cast<uint64_t>(shape.segments);
    for (int i = 0; i < shape.segments; ++i) counts_.offered_bytes += shape.SegmentBytes(i);
    return;
  }
  while (!departures_ps_.empty() && departures_ps_.front() <= now_ps) departures_ps_.pop_front();

  // The run of segments that is growing: they follow each other and arrive together.
  int run_first = 0;
  int run_count = 0;
  int64_t run_bytes = 0;
  int64_t run_starts_ps = 0;
  int64_t run_departs_ps = 0;
  const auto end_run = [&] {
    if (run_count == 0) return;
    Keep(run_departs_ps, false, run_count, run_bytes, make_piece(run_first, run_count));
    run_count = 0;
    run_bytes = 0;
  };

  for (int i = 0; i < shape.segments; ++i) {
    const int64_t bytes = shape.SegmentBytes(i);
    const int64_t wire_bytes = bytes + kFramingBytes;
    counts_.offered_bytes += static_cast<uint64_t>(bytes);
    if (!HasRoom(now_ps, wire_bytes)) {
      ++counts_.queue_dropped_packets;
      end_run();
      continue;
    }
    if (held_bytes_ + run_bytes + bytes > kMaxHeldBytes) {
      ++counts_.memory_dropped_packets;
      end_run();
      continue;
    }
    const int64_t starts_ps = std::max(now_ps, free_at_ps_);
    free_at_ps_ = starts_ps + wire_bytes * ps_per_byte_;
    if (ps_per_byte_ > 0) {
      counts_.peak_queue_bytes = std::max(counts_.peak_queue_bytes, BacklogBytes(now_ps));
      if (settings_.queue_packets > 0) departures_ps_.push_back(free_at_ps_);
    }
    if (Chance(settings_.loss)) {  // on the wire: its time is spent
      ++counts_.lost_packets;
      end_run();
      continue;
    }
    if (Chance(settings_.reorder)) {
      ++counts_.reordered_packets;
      end_run();
      Keep(free_at_ps_, true, 1, bytes, make_piece(i, 1));
      continue;
    }
    if (run_count > 0 && free_at_ps_ - run_starts_ps > kMaxFrameNs * kPsPerNs) end_run();
    if (run_count == 0) {
      run_first = i;
      run_starts_ps = starts_ps;
    }
    ++run_count;
    run_bytes += bytes;
    run_departs_ps = free_at_ps_;
  }
  end_run();
}

void LinkModel::Keep(int64_t departs_ps, bool late, int packets, int64_t bytes, Piece piece) {
  held_bytes_ += bytes;
  counts_.peak_held_bytes = std::max(counts_.peak_held_bytes, held_bytes_);
  int64_t due_ps = departs_ps + settings_.delay_ns * kPsPerNs + JitterPs(departs_ps);
  if (late) {
    due_ps += settings_.reorder_by_ns * kPsPerNs;
    late_.push_back({due_ps, departs_ps, packets, bytes, std::move(piece)});
    std::push_heap(late_.begin(), late_.end(), LaterFirst());
    return;
  }
  due_ps = std::max(due_ps, last_due_ps_);
  last_due_ps_ = due_ps;
  line_.push_back({due_ps, departs_ps, packets, bytes, std::move(piece)});
}

std::optional<Piece> LinkModel::Take(int64_t now_ns, int64_t early_ns) {
  if (settings_.stalled) return std::nullopt;
  const bool from_late =
      !late_.empty() && (line_.empty() || late_.front().due_ps < line_.front().due_ps);
  if (!from_late && line_.empty()) return std::nullopt;
  const int64_t wait_ps =
      (from_late ? late_.front().due_ps : line_.front().due_ps) - ToModel(now_ns);
  if (wait_ps > early_ns * kPsPerNs) return std::nullopt;
  if (from_late) std::pop_heap(late_.begin(), late_.end(), LaterFirst());
  Entry entry = std::move(from_late ? late_.back() : line_.front());
  if (from_late) {
    late_.pop_back();
  } else {
    line_.pop_front();
  }
  held_bytes_ -= entry.bytes;
  const int64_t late_ns = std::max<int64_t>(0, -wait_ps / kPsPerNs);
  counts_.late_ns_sum += late_ns;
  counts_.late_ns_max = std::max(counts_.late_ns_max, late_ns);
  counts_.delivered_packets += static_cast<uint64_t>(entry.packets);
  counts_.delivered_bytes += static_cast<uint64_t>(entry.bytes);
  ++counts_.delivered_frames;
  return std::move(entry.piece);
}

std::optional<int64_t> LinkModel::NextDueNs() const {
  if (settings_.stalled || (line_.empty() && late_.empty())) return std::nullopt;
  int64_t due_ps = INT64_MAX;
  if (!line_.empty()) due_ps = line_.front().due_ps;
  if (!late_.empty()) due_ps = std::min(due_ps, late_.front().due_ps);
  return origin_ns_ + (due_ps + kPsPerNs - 1) / kPsPerNs;
}

}  // namespace emlio::wanlab
