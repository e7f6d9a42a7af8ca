// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "run_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

namespace emlio::tool {
namespace {

constexpr char kRunWindow[] = "run";
constexpr int64_t kFlushNs = 10 * kNsPerSecond;

std::optional<int64_t> Signed(const std::optional<uint64_t>& value) {
  if (!value) return std::nullopt;
  return static_cast<int64_t>(std::min<uint64_t>(*value, INT64_MAX));
}

energy::Proxies ProxiesOf(const energy::Activity& activity) {
  energy::Proxies proxies;
  proxies.cpu_seconds = activity.cpu_seconds;
  proxies.gpu_seconds = activity.gpu_seconds;
  proxies.bytes_read = Signed(activity.storage_read_bytes);
  proxies.bytes_sent = Signed(activity.network_sent_bytes);
  return proxies;
}

// `key`: unique in the run. `wall_offset_ns`: from the node's monotonic clock to its wall clock.
energy::WindowRecord RecordOf(const energy::WindowReport& window, std::string key,
                              int64_t wall_offset_ns) {
  energy::WindowRecord record;
  record.id = std::move(key);
  record.name = window.label.name;
  record.stage = window.label.stage;
  if (window.label.epoch >= 0) record.epoch = window.label.epoch;
  if (window.label.rank >= 0) record.rank = window.label.rank;
  record.begin_ns = window.begin_ns;
  record.end_ns = window.end_ns;
  record.begin_wall_ns = window.begin_ns + wall_offset_ns;
  record.energies = window.energies;
  record.total = window.total;
  if (window.work.records > 0) {
    record.proxies.records_delivered = static_cast<int64_t>(window.work.records);
  }
  if (window.work.bytes > 0) {
    record.proxies.bytes_delivered = static_cast<int64_t>(window.work.bytes);
  }
  if (window.cut) record.labels["cut"] = "yes";
  return record;
}

}  // namespace

void RunWriter::OnWindow(const energy::WindowReport& window) {
  const MutexLock lock(mu_);
  if (store_ == nullptr || ended_) return;
  if (window.id == run_window_) {
    run_report_ = window;  // is written with what End knows
    return;
  }
  store_->AppendWindow(
      node_, RecordOf(window, fmt::format("{}", window.id), began_.wall_ns - began_.monotonic_ns));
}

void RunWriter::SetRunWindow(energy::WindowId window, const energy::Moment& began) {
  const MutexLock lock(mu_);
  run_window_ = window;
  began_ = began;
}

std::string RunWriter::path() const {
  const MutexLock lock(mu_);
  return store_ == nullptr ? "" : store_->path();
}

Status RunWriter::Begin(const std::string& path, const energy::Run& run,
                        const energy::Monitor& monitor, const std::string& boot_id,
                        std::string facts) {
  EMLIO_ASSIGN_OR_RETURN(auto store, energy::RunStore::Open(path));
  EMLIO_RETURN_IF_ERROR(store->BeginRun(run));
  const MutexLock lock(mu_);
  info_.name = monitor.node();
  info_.role = "compute";
  info_.boot_id = boot_id;
  info_.facts = std::move(facts);
  info_.interval_ns = monitor.interval_ns();
  info_.domains = monitor.domains();
  info_.absent = monitor.absent();
  EMLIO_ASSIGN_OR_RETURN(node_, store->AddNode(run.id, info_));
  run_id_ = run.id;
  store_ = std::move(store);
  relay_.Begin([to = store_.get(), node = node_](const energy::Moment& taken,
                                                 std::span<const energy::Sample> samples) {
    to->AppendTick(node, {taken.monotonic_ns, taken.wall_ns, samples});
  });
  return OkStatus();
}

Status RunWriter::End(const energy::Monitor& monitor, const Outcome& outcome,
                      const std::vector<energy_agent::NodeReport>& others,
                      const std::vector<energy::SinkReport>& sinks) {
  relay_.End();
  const MutexLock lock(mu_);
  ended_ = true;
  if (store_ == nullptr) return OkStatus();
  energy::WindowRecord record =
      RecordOf(run_report_, kRunWindow, began_.wall_ns - began_.monotonic_ns);
  record.proxies = ProxiesOf(outcome.activity);
  store_->AppendWindow(node_, std::move(record));
  if (const auto stats = monitor.Stats(); stats.ok()) info_.sampler = *stats;
  info_.clock = {outcome.clock_began, outcome.clock_ended};
  info_.start_barrier = began_;
  info_.stop_barrier = outcome.ended;
  EMLIO_RETURN_IF_ERROR(store_->UpdateNode(node_, info_));
  for (const energy::SinkReport& sink : sinks) {
    EMLIO_RETURN_IF_ERROR(store_->ReportSink(node_, sink));
  }
  for (const energy_agent::NodeReport& other : others) {
    const std::string name = other.node.empty() ? other.endpoint : other.node;
    const bool whole = other.state == energy_agent::NodeState::kWhole;
    // One that is this host, or another one again, is in the run already.
    if (other.state == energy_agent::NodeState::kSameHost) continue;
    if (!whole) {
      energy::Note note;
      note.wall_ns = outcome.ended.wall_ns;
      note.node = name;
      note.kind = fmt::format("node_{}", energy_agent::NodeStateName(other.state));
      note.text = other.cause;
      EMLIO_RETURN_IF_ERROR(store_->AddNote(run_id_, note));
    }
    energy::NodeInfo info;
    info.name = name;
    info.role = other.role;
    info.boot_id = other.boot_id;
    info.interval_ns = other.interval_ns;
    info.domains = other.domains;
    info.absent = other.absent;
    info.sampler = other.stats;
    if (other.start_clock) info.clock.push_back(*other.start_clock);
    if (other.stop_clock) info.clock.push_back(*other.stop_clock);
    if (other.offset) {
      info.offsets.push_back(*other.offset);
      info.offsets.back().peer = info_.name;
    }
    info.start_barrier = other.started;
    info.stop_barrier = other.stopped;
    EMLIO_ASSIGN_OR_RETURN(const int64_t node, store_->AddNode(run_id_, info));
    if (!whole || !other.started) continue;
    const int64_t offset_ns = other.started->wall_ns - other.started->monotonic_ns;
    energy::WindowReport run = other.run;
    run.label.name = kRunWindow;
    energy::WindowRecord whole_run = RecordOf(run, kRunWindow, offset_ns);
    whole_run.proxies = ProxiesOf(other.proxies);
    store_->AppendWindow(node, std::move(whole_run));
    for (const energy::WindowReport& window : other.windows) {
      store_->AppendWindow(node,
                           RecordOf(window, fmt::format("{}/{}", name, window.id), offset_ns));
    }
  }
  EMLIO_RETURN_IF_ERROR(store_->EndRun(run_id_, outcome.ended.wall_ns, outcome.exit_status));
  return store_->Flush(kFlushNs);
}

}  // namespace emlio::tool
