// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy/tick_codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace emlio::energy {
namespace {

constexpr uint64_t kVersion = 1;
constexpr uint64_t kStates = 8;
constexpr uint64_t kKnot = 8;
constexpr uint64_t kStallBusy = 16;

// Sums wrap around instead of overflowing: damaged data may hold any difference.
int64_t Add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t Subtract(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}

int64_t Microjoules(double joules) { return std::llround(joules * 1e6); }

void PutUnsigned(uint64_t value, std::string* to) {
  while (value >= 0x80) {
    to->push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  to->push_back(static_cast<char>(value));
}

void PutSigned(int64_t value, std::string* to) {
  PutUnsigned((static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63), to);
}

// One column, dense when most ticks change it.
template <typename Get>
void PutColumn(size_t ticks, const Get& get, std::string* to) {
  size_t changes = 0;
  int64_t before = 0;
  for (size_t i = 0; i < ticks; ++i) {
    const int64_t value = get(i);
    changes += value != before;
    before = value;
  }
  before = 0;
  if (changes * 2 > ticks) {
    PutUnsigned(0, to);
    for (size_t i = 0; i < ticks; ++i) {
      const int64_t value = get(i);
      PutSigned(Subtract(value, before), to);
      before = value;
    }
    return;
  }
  PutUnsigned(1 + changes, to);
  size_t changed_at = 0;
  for (size_t i = 0; i < ticks; ++i) {
    const int64_t value = get(i);
    if (value == before) continue;
    PutUnsigned(i - changed_at, to);
    PutSigned(Subtract(value, before), to);
    changed_at = i;
    before = value;
  }
}

class Input {
 public:
  explicit Input(std::string_view data) : at_(data.data()), end_(at_ + data.size()) {}

  bool GetUnsigned(uint64_t* value) {
    if (at_ == end_) return false;
    uint64_t byte = static_cast<uint8_t>(*at_++);
    uint64_t result = byte & 0x7f;
    for (int shift = 7; byte >= 0x80; shift += 7) {
      if (at_ == end_ || shift > 63) return false;
      byte = static_cast<uint8_t>(*at_++);
      if (shift == 63 && byte > 1) return false;
      result |= (byte & 0x7f) << shift;
    }
    *value = result;
    return true;
  }
  bool GetSigned(int64_t* value) {
    uint64_t coded = 0;
    if (!GetUnsigned(&coded)) return false;
    *value = static_cast<int64_t>((coded >> 1) ^ (~(coded & 1) + 1));
    return true;
  }
  bool done() const { return at_ == end_; }

  // One column. `set` returns false for a number that cannot be; a column of zeros sets nothing.
  template <typename Set>
  bool GetColumn(size_t ticks, const Set& set) {
    uint64_t form = 0;
    int64_t value = 0;
    int64_t difference = 0;
    if (!GetUnsigned(&form)) return false;
    if (form == 0) {
      for (size_t i = 0; i < ticks; ++i) {
        if (!GetSigned(&difference)) return false;
        value = Add(value, difference);
        if (!set(i, value)) return false;
      }
      return true;
    }
    uint64_t changes = form - 1;
    if (changes > ticks) return false;
    size_t filled = 0;
    size_t changed_at = 0;
    for (bool first = true; changes > 0; --changes, first = false) {
      uint64_t distance = 0;
      if (!GetUnsigned(&distance) || !GetSigned(&difference)) return false;
      if (distance >= ticks - changed_at || (distance == 0 && !first)) return false;
      changed_at += distance;
      if (value != 0) {
        for (size_t i = filled; i < changed_at; ++i) {
          if (!set(i, value)) return false;
        }
      }
      filled = changed_at;
      value = Add(value, difference);
    }
    if (value != 0) {
      for (size_t i = filled; i < ticks; ++i) {
        if (!set(i, value)) return false;
      }
    }
    return true;
  }

 private:
  const char* at_;
  const char* const end_;
};

}  // namespace

void TickBlock::Append(const Tick& tick) {
  monotonic_ns_.push_back(tick.monotonic_ns);
  wall_ns_.push_back(tick.wall_ns);
  samples_.insert(samples_.end(), tick.samples.begin(), tick.samples.end());
}

void TickBlock::Shrink(size_t ticks) {
  monotonic_ns_.resize(ticks);
  wall_ns_.resize(ticks);
  samples_.resize(ticks * domains_);
}

void TickBlock::DropFront(size_t ticks) {
  const auto dropped = static_cast<ptrdiff_t>(ticks);
  monotonic_ns_.erase(monotonic_ns_.begin(), monotonic_ns_.begin() + dropped);
  wall_ns_.erase(wall_ns_.begin(), wall_ns_.begin() + dropped);
  samples_.erase(samples_.begin(), samples_.begin() + dropped * static_cast<ptrdiff_t>(domains_));
}

std::string EncodeTicks(const TickBlock& block, size_t ticks) {
  const size_t domains = block.domains_;
  const std::vector<int64_t>& times = block.monotonic_ns_;
  std::string out;
  PutUnsigned(kVersion, &out);
  PutUnsigned(ticks, &out);
  PutUnsigned(domains, &out);
  PutColumn(ticks, [&](size_t i) { return times[i]; }, &out);
  PutColumn(ticks, [&](size_t i) { return Subtract(block.wall_ns_[i], times[i]); }, &out);
  for (size_t domain = 0; domain < domains; ++domain) {
    const auto put = [&](const auto& of) {
      PutColumn(ticks, [&](size_t i) { return of(block.samples_[i * domains + domain], i); }, &out);
    };
    put([&](const Sample& s, size_t i) { return Subtract(s.time_ns, times[i]); });
    put([](const Sample& s, size_t) { return Microjoules(s.joules); });
    put([](const Sample& s, size_t) { return Microjoules(s.spread_joules); });
    put([](const Sample& s, size_t) { return s.void_ns; });
    for (uint32_t Sample::* const count :
         {&Sample::wraps, &Sample::resets, &Sample::gaps, &Sample::stalls, &Sample::ambiguous}) {
      put([count](const Sample& s, size_t) { return static_cast<int64_t>(s.*count); });
    }
    put([](const Sample& s, size_t) {
      return static_cast<int64_t>(static_cast<uint64_t>(s.state) + (s.knot ? kKnot : 0) +
                                  (s.stall_busy ? kStallBusy : 0));
    });
  }
  return out;
}

Status DecodeTicks(std::string_view data, TickBlock* block) {
  block->Shrink(0);
  const size_t domains = block->domains_;
  const auto damaged = [block](std::string_view what) {
    block->Shrink(0);
    return Corrupt(fmt::format("packed samples are damaged: {}", what));
  };
  Input in(data);
  uint64_t version = 0;
  uint64_t ticks = 0;
  uint64_t packed_domains = 0;
  if (!in.GetUnsigned(&version)) return damaged("nothing is there");
  if (version != kVersion) return damaged(fmt::format("version {} is unknown", version));
  if (!in.GetUnsigned(&ticks) || ticks == 0 || ticks > kMaxPackedTicks) {
    return damaged("the number of ticks");
  }
  if (!in.GetUnsigned(&packed_domains) || packed_domains != domains ||
      domains > kMaxPackedDomains || ticks * domains > kMaxPackedSamples) {
    return damaged("the number of domains");
  }
  std::vector<int64_t>& times = block->monotonic_ns_;
  std::vector<int64_t>& wall = block->wall_ns_;
  times.assign(ticks, 0);
  wall.assign(ticks, 0);
  if (!in.GetColumn(ticks, [&](size_t i, int64_t value) {
        times[i] = value;
        return true;
      })) {
    return damaged("times");
  }
  if (!std::is_sorted(times.begin(), times.end())) return damaged("time goes back");
  if (!in.GetColumn(ticks, [&](size_t i, int64_t value) {
        wall[i] = value;
        return true;
      })) {
    return damaged("wall-clock times");
  }
  for (size_t i = 0; i < ticks; ++i) wall[i] = Add(wall[i], times[i]);

  Sample blank;
  blank.state = SampleState::kFirst;  // flags of 0
  block->samples_.assign(ticks * domains, blank);
  for (size_t domain = 0; domain < domains; ++domain) {
    Sample* const first = block->samples_.data() + domain;
    const auto number = [&](int64_t Sample::* field) {
      return in.GetColumn(ticks, [&](size_t i, int64_t value) {
        first[i * domains].*field = value;
        return true;
      });
    };
    const auto joules = [&](double Sample::* field) {
      return in.GetColumn(ticks, [&](size_t i, int64_t value) {
        first[i * domains].*field = static_cast<double>(value) * 1e-6;
        return true;
      });
    };
    const auto count = [&](uint32_t Sample::* field) {
      return in.GetColumn(ticks, [&](size_t i, int64_t value) {
        first[i * domains].*field = static_cast<uint32_t>(value);
        return value >= 0 && value <= std::numeric_limits<uint32_t>::max();
      });
    };
    if (!number(&Sample::time_ns)) return damaged("times of samples");
    for (size_t i = 0; i < ticks; ++i) {
      first[i * domains].time_ns = Add(first[i * domains].time_ns, times[i]);
    }
    if (!joules(&Sample::joules) || !joules(&Sample::spread_joules) || !number(&Sample::void_ns)) {
      return damaged("joules");
    }
    if (!count(&Sample::wraps) || !count(&Sample::resets) || !count(&Sample::gaps) ||
        !count(&Sample::stalls) || !count(&Sample::ambiguous)) {
      return damaged("counts");
    }
    if (!in.GetColumn(ticks, [&](size_t i, int64_t value) {
          Sample& sample = first[i * domains];
          const auto flags = static_cast<uint64_t>(value);
          sample.state = static_cast<SampleState>(flags % kStates);
          sample.knot = (flags & kKnot) != 0;
          sample.stall_busy = (flags & kStallBusy) != 0;
          return flags < 2 * kStallBusy;
        })) {
      return damaged("states");
    }
  }
  if (!in.done()) return damaged("more follows than belongs to them");
  return OkStatus();
}

}  // namespace emlio::energy
