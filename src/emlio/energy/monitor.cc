// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy/monitor.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "emlio/energy/self_check.h"

namespace emlio::energy {
namespace {

// Edges taken a tick: so that many windows at once do not make a tick late.
constexpr size_t kMaxEdgesATick = 512;
constexpr int64_t kUpdateCheckNs = kNsPerSecond / 2;
constexpr int64_t kSampleTimeoutNs = 60 * kNsPerSecond;

}  // namespace

Monitor::Monitor(MonitorOptions options, Detection detection)
    : options_(std::move(options)),
      node_(std::move(detection.node)),
      absent_(std::move(detection.absent)),
      cpu_(detection.cpu),
      pid_(getpid()) {}

Result<std::unique_ptr<Monitor>> Monitor::Start(MonitorOptions options) {
  SamplerOptions sampler;
  sampler.interval_ns = options.interval_ns;
  sampler.recorder.root = options.host.root;
  const auto kept = static_cast<int64_t>(sampler.recorder.kept_ticks);
  options.settle_ns = std::clamp<int64_t>(options.settle_ns, 0, kept * options.interval_ns / 4);
  Detection detection = Detect(options.host);
  std::vector<Meter> meters = std::move(detection.meters);
  if (options.update_check != UpdateCheck::kNone) {
    MeasureUpdatePeriods(&meters, options.update_check == UpdateCheck::kAll, kUpdateCheckNs);
  }
  auto monitor = std::unique_ptr<Monitor>(new Monitor(std::move(options), std::move(detection)));
  Monitor* const self = monitor.get();
  sampler.observer = [self](const TickView& tick) {
    if (self->options_.on_tick) self->options_.on_tick(tick);
    self->Settle(tick.recorder, false);
  };
  for (const Meter& meter : meters) monitor->domains_.push_back(meter.domain);
  EMLIO_ASSIGN_OR_RETURN(monitor->sampler_,
                         Sampler::Start(monitor->node_, std::move(meters), std::move(sampler)));
  return monitor;
}

Monitor::~Monitor() { Stop(); }

bool Monitor::InChild() const { return getpid() != pid_; }

WindowId Monitor::Open(WindowLabel label) {
  if (InChild()) return 0;
  Entry entry;
  entry.report.label = std::move(label);
  const MutexLock lock(mu_);
  if (stopped_) return 0;
  const WindowId id = next_id_++;
  entry.report.id = id;
  // Inside the lock, so that the edges to take are in the order of time.
  entry.report.begin_ns = SystemClock().NowNs();
  begins_.emplace_back(entry.report.begin_ns, id);
  open_.emplace_hint(open_.end(), id, std::move(entry));
  return id;
}

void Monitor::Close(WindowId id, WindowWork work) {
  if (id == 0 || InChild()) return;
  const MutexLock lock(mu_);
  auto node = open_.extract(id);
  if (node.empty()) return;
  WindowReport& report = node.mapped().report;
  report.work = work;
  report.end_ns = SystemClock().NowNs();
  ends_.emplace_back(report.end_ns, id);
  closed_.insert(std::move(node));
}

void Monitor::Settle(const Recorder& recorder, bool all) {
  struct Due {
    bool end;
    WindowId id;
    int64_t time_ns;
  };
  std::vector<Due> due;
  {
    const int64_t until_ns = recorder.sampled_until_ns() - options_.settle_ns;
    const MutexLock lock(mu_);
    for (auto* edges : {&begins_, &ends_}) {
      while (!edges->empty() &&
             (all || (edges->front().first <= until_ns && due.size() < kMaxEdgesATick))) {
        due.push_back({edges == &ends_, edges->front().second, edges->front().first});
        edges->pop_front();
      }
    }
  }
  // Outside the lock, which windows wait for.
  std::vector<Edge> edges;
  edges.reserve(due.size());
  for (const Due& one : due) edges.push_back(recorder.EdgeAt(one.time_ns));
  std::vector<Entry> complete;
  {
    const MutexLock lock(mu_);
    for (size_t i = 0; i < due.size(); ++i) {
      Entries& entries = open_.contains(due[i].id) ? open_ : closed_;
      Entry& entry = entries.at(due[i].id);
      (due[i].end ? entry.end : entry.begin) = std::move(edges[i]);
      if (entry.begin && entry.end) complete.push_back(entry);
    }
  }
  for (Entry& entry : complete) {
    WindowReport report = Complete(recorder, std::move(entry));
    if (options_.on_window) options_.on_window(report);
    const MutexLock lock(mu_);
    closed_.erase(report.id);
    final_.push_back(std::move(report));
    if (final_.size() <= options_.kept_windows) continue;
    final_.pop_front();
    ++forgotten_;
  }
}

WindowReport Monitor::Complete(const Recorder& recorder, Entry entry) const {
  WindowReport report = std::move(entry.report);
  if (!entry.begin) entry.begin = recorder.EdgeAt(report.begin_ns);
  if (!entry.end) entry.end = recorder.EdgeAt(report.end_ns);
  report.energies = recorder.Between(*entry.begin, *entry.end, options_.rules);
  report.total = recorder.TotalOf(report.energies);
  return report;
}

Result<WindowReport> Monitor::Report(WindowId id) {
  EMLIO_ASSIGN_OR_RETURN(const Recorder* const recorder, sampler_->recorder());
  std::optional<Entry> entry;
  {
    const MutexLock lock(mu_);
    if (const auto open = open_.find(id); open != open_.end()) {
      entry = open->second;
      entry->report.cut = true;
      entry->report.end_ns = SystemClock().NowNs();
    } else if (const auto closed = closed_.find(id); closed != closed_.end()) {
      entry = closed->second;
    } else {
      for (const WindowReport& report : final_) {
        if (report.id == id) return report;
      }
      return NotFound(fmt::format("energy window {} is not known (the latest {} are kept)", id,
                                  options_.kept_windows));
    }
  }
  EMLIO_RETURN_IF_ERROR(sampler_->WaitUntilSampled(entry->report.end_ns, kSampleTimeoutNs));
  return Complete(*recorder, *std::move(entry));
}

Result<WindowReport> Monitor::Between(int64_t begin_ns, int64_t end_ns) {
  EMLIO_ASSIGN_OR_RETURN(const Recorder* const recorder, sampler_->recorder());
  EMLIO_RETURN_IF_ERROR(sampler_->WaitUntilSampled(end_ns, kSampleTimeoutNs));
  Entry entry;
  entry.report.begin_ns = begin_ns;
  entry.report.end_ns = end_ns;
  return Complete(*recorder, std::move(entry));
}

Result<std::vector<WindowReport>> Monitor::Reports() {
  EMLIO_ASSIGN_OR_RETURN(const Recorder* const recorder, sampler_->recorder());
  std::vector<WindowReport> reports;
  std::vector<Entry> entries;
  int64_t last_ns = 0;
  {
    const MutexLock lock(mu_);
    reports.assign(final_.begin(), final_.end());
    for (const auto& [id, entry] : closed_) {
      entries.push_back(entry);
      last_ns = std::max(last_ns, entry.report.end_ns);
    }
  }
  if (!entries.empty()) {
    EMLIO_RETURN_IF_ERROR(sampler_->WaitUntilSampled(last_ns, kSampleTimeoutNs));
  }
  for (Entry& entry : entries) reports.push_back(Complete(*recorder, std::move(entry)));
  std::sort(reports.begin(), reports.end(), [](const WindowReport& a, const WindowReport& b) {
    return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.id < b.id;
  });
  return reports;
}

uint64_t Monitor::forgotten_windows() const {
  const MutexLock lock(mu_);
  return forgotten_;
}

void Monitor::Stop() {
  // Not when Start failed, and not in a child, where nothing of this may be touched.
  if (sampler_ == nullptr || InChild()) return;
  {
    const MutexLock lock(mu_);
    if (stopped_) return;
    stopped_ = true;
    for (auto& [id, entry] : open_) {
      entry.report.cut = true;
      entry.report.end_ns = SystemClock().NowNs();
      ends_.emplace_back(entry.report.end_ns, id);
    }
    closed_.merge(open_);
  }
  sampler_->Stop();
  if (const auto recorder = sampler_->recorder(); recorder.ok()) Settle(**recorder, true);
}

}  // namespace emlio::energy
