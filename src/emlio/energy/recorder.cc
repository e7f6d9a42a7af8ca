// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy/recorder.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "emlio/energy/sysfs.h"

namespace emlio::energy {
namespace {

std::vector<Domain> DomainsOf(const std::vector<Meter>& meters) {
  std::vector<Domain> domains;
  for (const Meter& meter : meters) domains.push_back(meter.domain);
  return domains;
}

}  // namespace

Recorder::Recorder(std::string node, std::vector<Meter> meters, const RecorderOptions& options,
                   const Clock& clock)
    : node_(std::move(node)),
      options_(options),
      clock_(clock),
      domains_(DomainsOf(meters)),
      history_(domains_, options_.kept_ticks) {
  for (Meter& meter : meters) {
    accumulators_.emplace_back(meter.domain, options_.accumulator);
    counters_.push_back(std::move(meter.counter));
  }
  latest_.resize(domains_.size());
}

std::optional<double> Recorder::BusyCpuSeconds() const {
  static const double ticks_per_second = static_cast<double>(sysconf(_SC_CLK_TCK));
  const auto stat = ReadText(options_.root + "proc/stat");
  const auto ticks = stat.ok() ? ParseBusyTicks(*stat) : std::nullopt;
  if (!ticks) return std::nullopt;
  return static_cast<double>(*ticks) / ticks_per_second;
}

std::span<const Sample> Recorder::TakeSample(const Moment& taken) {
  bool asked = false;
  std::optional<double> busy;
  for (size_t i = 0; i < domains_.size(); ++i) {
    if (counters_[i] == nullptr) {
      latest_[i].time_ns = clock_.NowNs();
      continue;
    }
    // What is read belongs to some moment of the reading: drivers may take milliseconds.
    const int64_t before_ns = clock_.NowNs();
    const auto reading = counters_[i]->Read();
    const int64_t taken_ns = counters_[i]->taken_ns();
    const int64_t time_ns = taken_ns != 0 ? taken_ns : before_ns + (clock_.NowNs() - before_ns) / 2;
    if (accumulators_[i].WantsBusy(time_ns)) {
      if (!asked) busy = BusyCpuSeconds();
      asked = true;
      accumulators_[i].SetBusy(time_ns, busy);
    }
    latest_[i] = accumulators_[i].Add(
        time_ns, reading.ok() ? std::optional<uint64_t>(*reading) : std::nullopt);
  }
  const MutexLock lock(mu_);
  history_.Append(latest_, taken);
  // Of the domain that was read first: up to there all are known.
  sampled_until_ns_ = latest_.empty() ? clock_.NowNs() : latest_.front().time_ns;
  return latest_;
}

int64_t Recorder::sampled_until_ns() const {
  const MutexLock lock(mu_);
  return sampled_until_ns_;
}

Recorder::TickRange Recorder::ReadTicks(
    uint64_t from, size_t most,
    const std::function<void(const Moment& taken, std::span<const Sample>)>& use) const {
  const MutexLock lock(mu_);
  TickRange range;
  range.begin = std::max(from, history_.first_kept());
  range.end = range.begin;
  for (; range.end <= history_.ticks() && range.end - range.begin < most; ++range.end) {
    use(history_.TakenAt(range.end), history_.SamplesAt(range.end));
  }
  return range;
}

uint64_t Recorder::TickFrom(int64_t monotonic_ns) const {
  const MutexLock lock(mu_);
  uint64_t low = history_.first_kept();
  uint64_t high = history_.ticks() + 1;
  while (low < high) {
    const uint64_t middle = (low + high) / 2;
    if (history_.TakenAt(middle).monotonic_ns < monotonic_ns) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

Edge Recorder::EdgeAt(int64_t time_ns) const {
  const MutexLock lock(mu_);
  return history_.EdgeAt(time_ns);
}

std::vector<Energy> Recorder::Window(int64_t begin_ns, int64_t end_ns,
                                     const WindowRules& rules) const {
  Edge begin;
  Edge end;
  {
    // Both edges from the same samples.
    const MutexLock lock(mu_);
    begin = history_.EdgeAt(begin_ns);
    end = history_.EdgeAt(end_ns);
  }
  return Between(begin, end, rules);
}

}  // namespace emlio::energy
