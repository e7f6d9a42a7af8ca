// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy/monitor.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "emlio/energy/clock_state.h"
#include "emlio/energy/self_check.h"

namespace emlio::energy {
namespace {

// Edges taken a tick: so that many windows at once do not make a tick late.
constexpr size_t kMaxEdgesATick = 512;
constexpr int64_t kUpdateCheckNs = kNsPerSecond / 2;
constexpr int64_t kSampleTimeoutNs = 60 * kNsPerSecond;

// Null: alone.
std::shared_ptr<HostShare> Share(const MonitorOptions& options) {
  if (!options.share_file.empty()) {
    auto share = HostShare::JoinFile(options.share_file);
    return share.ok() ? *std::move(share) : nullptr;
  }
  if (!options.share || options.host.root != "/") return nullptr;
  std::string what = fmt::format("{}\n{}\n{}", options.interval_ns, options.host.nvml_library,
                                 options.host.rocm_library);
  for (const std::string& gpu : options.host.gpus) what += "\n" + gpu;
  auto share = HostShare::Join(BootId(options.host.root), what);
  return share.ok() ? *std::move(share) : nullptr;
}

}  // namespace

Monitor::Monitor(MonitorOptions options, Detection detection)
    : options_(std::move(options)),
      node_(options_.node.empty() ? std::move(detection.node) : options_.node),
      absent_(std::move(detection.absent)),
      cpu_(detection.cpu),
      pid_(getpid()) {}

Result<std::unique_ptr<Monitor>> Monitor::Start(MonitorOptions options) {
  SamplerOptions sampler;
  sampler.interval_ns = options.interval_ns;
  sampler.recorder.root = options.host.root;
  sampler.recorder.kept_ticks = options.kept_ticks;
  const auto kept = static_cast<int64_t>(sampler.recorder.kept_ticks);
  options.settle_ns = std::clamp<int64_t>(options.settle_ns, 0, kept * options.interval_ns / 4);
  options.host.gpu_power_too = true;  // each run compares both
  Detection detection = Detect(options.host);
  std::vector<Meter> meters = std::move(detection.meters);
  if (options.believe_checks) TakeDramChecks(options.host.root, &meters);
  const std::shared_ptr<HostShare> share = Share(options);
  if (options.update_check != UpdateCheck::kNone) {
    if (share != nullptr && share->role() == HostShare::Role::kFollower) {
      TakeUpdatePeriods(*share, &meters);
    }
    MeasureUpdatePeriods(&meters, options.update_check == UpdateCheck::kAll, kUpdateCheckNs);
  }
  auto monitor = std::unique_ptr<Monitor>(new Monitor(std::move(options), std::move(detection)));
  Monitor* const self = monitor.get();
  monitor->share_ = share;
  sampler.observer = [self](const TickView& tick) {
    self->TakeGpuBusy(tick.taken.monotonic_ns);
    if (self->options_.on_tick) self->options_.on_tick(tick);
    self->Settle(tick.recorder, false);
  };
  monitor->gpu_busy_ = GpuBusy::Open(self->options_.host);
  for (const Meter& meter : meters) monitor->domains_.push_back(meter.domain);
  if (share != nullptr) meters = ShareMeters(share, std::move(meters));
  EMLIO_ASSIGN_OR_RETURN(monitor->sampler_,
                         Sampler::Start(monitor->node_, std::move(meters), std::move(sampler)));
  return monitor;
}

Monitor::~Monitor() {
  if (InChild()) {
    (void)windows_.release();
    return;
  }
  Stop();
}

void Monitor::TakeGpuBusy(int64_t now_ns) {
  if (gpu_busy_ == nullptr || (gpu_busy_ns_ != 0 && now_ns - gpu_busy_ns_ < kNsPerSecond)) return;
  gpu_busy_ns_ = now_ns;
  gpu_busy_->Take(now_ns);
  gpu_seconds_ = gpu_busy_->seconds();
}

Activity Monitor::ReadActivity() const {
  Activity activity = energy::ReadActivity(options_.host.root);
  if (gpu_busy_ != nullptr) activity.gpu_seconds = gpu_seconds_.load();
  return activity;
}

bool Monitor::InChild() const { return getpid() != pid_; }

WindowId Monitor::OpenAt(WindowLabel label, int64_t begin_ns) {
  if (InChild()) return 0;
  Entry entry;
  entry.report.label = std::move(label);
  entry.report.begin_ns = std::min(begin_ns, SystemClock().NowNs());
  const MutexLock lock(windows_->mu);
  if (windows_->stopped) return 0;
  const WindowId id = windows_->next_id++;
  entry.report.id = id;
  windows_->begins.emplace(entry.report.begin_ns, id);
  windows_->open.emplace_hint(windows_->open.end(), id, std::move(entry));
  return id;
}

void Monitor::CloseAt(WindowId id, int64_t end_ns, WindowWork work) {
  if (id == 0 || InChild()) return;
  end_ns = std::min(end_ns, SystemClock().NowNs());
  const MutexLock lock(windows_->mu);
  auto node = windows_->open.extract(id);
  if (node.empty()) return;
  WindowReport& report = node.mapped().report;
  report.work = work;
  report.end_ns = std::max(end_ns, report.begin_ns);
  windows_->ends.emplace(report.end_ns, id);
  windows_->closed.insert(std::move(node));
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
    const MutexLock lock(windows_->mu);
    for (auto* edges : {&windows_->begins, &windows_->ends}) {
      while (!edges->empty() &&
             (all || (edges->begin()->first <= until_ns && due.size() < kMaxEdgesATick))) {
        due.push_back({edges == &windows_->ends, edges->begin()->second, edges->begin()->first});
        edges->erase(edges->begin());
      }
    }
  }
  // Outside the lock, which windows wait for.
  std::vector<Edge> edges;
  edges.reserve(due.size());
  for (const Due& one : due) edges.push_back(recorder.EdgeAt(one.time_ns));
  std::vector<Entry> complete;
  {
    const MutexLock lock(windows_->mu);
    for (size_t i = 0; i < due.size(); ++i) {
      Entries& entries = windows_->open.contains(due[i].id) ? windows_->open : windows_->closed;
      Entry& entry = entries.at(due[i].id);
      (due[i].end ? entry.end : entry.begin) = std::move(edges[i]);
      if (entry.begin && entry.end) complete.push_back(entry);
    }
  }
  for (Entry& entry : complete) {
    WindowReport report = Complete(recorder, std::move(entry));
    if (options_.on_window) options_.on_window(report);
    const MutexLock lock(windows_->mu);
    windows_->closed.erase(report.id);
    windows_->final.push_back(std::move(report));
    if (windows_->final.size() <= options_.kept_windows) continue;
    windows_->final.pop_front();
    ++windows_->forgotten;
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

Result<Monitor::Entry> Monitor::Find(WindowId id, int64_t until_ns) {
  const MutexLock lock(windows_->mu);
  if (const auto open = windows_->open.find(id); open != windows_->open.end()) {
    Entry entry = open->second;
    entry.report.cut = true;
    entry.report.end_ns = std::max(until_ns, entry.report.begin_ns);
    return entry;
  }
  if (const auto closed = windows_->closed.find(id); closed != windows_->closed.end()) {
    return closed->second;
  }
  for (const WindowReport& report : windows_->final) {
    if (report.id != id) continue;
    Entry entry;
    entry.report = report;
    entry.final = true;
    return entry;
  }
  return NotFound(fmt::format("energy window {} is not known (the latest {} are kept)", id,
                              options_.kept_windows));
}

Result<WindowReport> Monitor::Report(WindowId id) {
  EMLIO_ASSIGN_OR_RETURN(const Recorder* const recorder, sampler_->recorder());
  EMLIO_ASSIGN_OR_RETURN(Entry entry, Find(id, SystemClock().NowNs()));
  if (entry.final) return std::move(entry.report);
  EMLIO_RETURN_IF_ERROR(sampler_->WaitUntilSampled(entry.report.end_ns, kSampleTimeoutNs));
  return Complete(*recorder, std::move(entry));
}

Result<WindowReport> Monitor::ReportSoFar(WindowId id) {
  EMLIO_ASSIGN_OR_RETURN(const Recorder* const recorder, sampler_->recorder());
  const int64_t until_ns = recorder->sampled_until_ns();
  EMLIO_ASSIGN_OR_RETURN(Entry entry, Find(id, until_ns));
  if (entry.final) return std::move(entry.report);
  if (entry.report.end_ns > until_ns) {
    entry.report.end_ns = std::max(until_ns, entry.report.begin_ns);
    entry.report.cut = true;
    entry.end.reset();
  }
  return Complete(*recorder, std::move(entry));
}

Result<std::vector<WindowReport>> Monitor::ReportsAfter(WindowId id, size_t most) {
  EMLIO_ASSIGN_OR_RETURN(const Recorder* const recorder, sampler_->recorder());
  const int64_t until_ns = recorder->sampled_until_ns();
  std::vector<WindowReport> reports;
  std::vector<Entry> entries;
  {
    const MutexLock lock(windows_->mu);
    for (const WindowReport& report : windows_->final) {
      if (report.id > id) reports.push_back(report);
    }
    for (auto closed = windows_->closed.upper_bound(id); closed != windows_->closed.end();
         ++closed) {
      if (closed->second.report.end_ns <= until_ns) entries.push_back(closed->second);
    }
  }
  for (Entry& entry : entries) reports.push_back(Complete(*recorder, std::move(entry)));
  std::sort(reports.begin(), reports.end(),
            [](const WindowReport& a, const WindowReport& b) { return a.id < b.id; });
  if (reports.size() > most) reports.resize(most);
  return reports;
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
    const MutexLock lock(windows_->mu);
    reports.assign(windows_->final.begin(), windows_->final.end());
    for (const auto& [id, entry] : windows_->closed) {
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
  const MutexLock lock(windows_->mu);
  return windows_->forgotten;
}

void Monitor::Stop() {
  // Not when Start failed, and not in a child, where nothing of this may be touched.
  if (sampler_ == nullptr || InChild()) return;
  {
    const MutexLock lock(windows_->mu);
    if (windows_->stopped) return;
    windows_->stopped = true;
    for (auto& [id, entry] : windows_->open) {
      entry.report.cut = true;
      entry.report.end_ns = SystemClock().NowNs();
      windows_->ends.emplace(entry.report.end_ns, id);
    }
    windows_->closed.merge(windows_->open);
  }
  sampler_->Stop();
  if (const auto recorder = sampler_->recorder(); recorder.ok()) Settle(**recorder, true);
}

}  // namespace emlio::energy
