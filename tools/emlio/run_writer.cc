// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "run_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

namespace emlio::tool {
namespace {

constexpr int64_t kFlushNs = 10 * kNsPerSecond;

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

void RunWriter::SetRunWindow(energy::WindowId window) {
  const MutexLock lock(mu_);
  run_window_ = window;
}

Status RunWriter::EndUnstarted(int64_t ended_wall_ns, int exit_status) {
  relay_.End();
  const MutexLock lock(mu_);
  ended_ = true;
  if (store_ == nullptr) return OkStatus();
  return store_->EndRun(run_id_, ended_wall_ns, exit_status);
}

Status RunWriter::AddNote(const energy::Note& note) {
  energy::RunStore* store = nullptr;  // lives as long as this does
  std::string run_id;
  {
    const MutexLock lock(mu_);
    store = store_.get();
    run_id = run_id_;
  }
  return store->AddNote(run_id, note);  // waits for the disk, without the lock
}

std::string RunWriter::path() const {
  const MutexLock lock(mu_);
  return store_ == nullptr ? "" : store_->path();
}

Status RunWriter::Begin(const std::string& path, const energy::Run& run,
                        const energy::Moment& began, const energy::Monitor& monitor,
                        const std::string& boot_id, std::string facts,
                        std::shared_ptr<energy_agent::NodeSet> nodes) {
  EMLIO_ASSIGN_OR_RETURN(auto store, energy::RunStore::Open(path));
  EMLIO_RETURN_IF_ERROR(store->BeginRun(run));
  energy::NodeInfo info;
  info.name = monitor.node();
  info.role = "compute";
  info.boot_id = boot_id;
  info.facts = std::move(facts);
  info.interval_ns = monitor.interval_ns();
  info.domains = monitor.domains();
  info.absent = monitor.absent();
  // Before the lock is taken: they wait for the disk, and the sampler waits for the lock.
  EMLIO_ASSIGN_OR_RETURN(const int64_t node, store->AddNode(run.id, info));
  EMLIO_ASSIGN_OR_RETURN(nodes_, NodeWriter::Start(store.get(), run.id,
                                                   {node, info, began.wall_ns - began.monotonic_ns},
                                                   std::move(nodes)));
  const MutexLock lock(mu_);
  info_ = std::move(info);
  began_ = began;
  node_ = node;
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
  if (nodes_ != nullptr) {
    EMLIO_RETURN_IF_ERROR(nodes_->End(others, outcome.ended.wall_ns));
  }
  EMLIO_RETURN_IF_ERROR(store_->EndRun(run_id_, outcome.ended.wall_ns, outcome.exit_status));
  return store_->Flush(kFlushNs);
}

}  // namespace emlio::tool
