// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "node_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "emlio/base/log.h"

namespace emlio::tool {
namespace {

using energy_agent::NodeReport;
using energy_agent::NodeState;

constexpr auto kTakeEvery = std::chrono::milliseconds(500);

std::optional<int64_t> Signed(const std::optional<uint64_t>& value) {
  if (!value) return std::nullopt;
  return static_cast<int64_t>(std::min<uint64_t>(*value, INT64_MAX));
}

const std::string& NameOf(const NodeReport& report) {
  return report.node.empty() ? report.endpoint : report.node;
}

bool IsObject(const std::string& json) {
  return nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false).is_object();
}

// Agents of one boot are one node. One that could not be reached has told of none.
const std::string& HostOf(const NodeReport& report) {
  return report.boot_id.empty() ? report.endpoint : report.boot_id;
}

bool HaveOneId(const energy::Domain& a, const energy::Domain& b) { return a.id == b.id; }

// A window in terms of the domains that another process of the same host measures.
energy::WindowReport InDomains(const energy::WindowReport& window,
                               const std::vector<energy::Domain>& from,
                               const std::vector<energy::Domain>& to) {
  energy::WindowReport mapped = window;
  mapped.energies.assign(to.size(), {});
  for (size_t i = 0; i < to.size(); ++i) {
    const auto same = std::find_if(from.begin(), from.end(), [&](const energy::Domain& domain) {
      return domain.id == to[i].id;
    });
    const auto at = static_cast<size_t>(same - from.begin());
    // A node that was lost early has told of no energies.
    if (at < window.energies.size()) {
      mapped.energies[i] = window.energies[at];
    } else {
      mapped.energies[i].cause = "the process that had the window does not measure it";
    }
  }
  mapped.total = energy::TotalOf(to, mapped.energies);
  return mapped;
}

}  // namespace

energy::Proxies ProxiesOf(const energy::Activity& activity) {
  energy::Proxies proxies;
  proxies.cpu_seconds = activity.cpu_seconds;
  proxies.gpu_seconds = activity.gpu_seconds;
  proxies.bytes_read = Signed(activity.storage_read_bytes);
  proxies.bytes_sent = Signed(activity.network_sent_bytes);
  return proxies;
}

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
  if (window.work.records > 0) record.proxies.records_delivered = Signed(window.work.records);
  if (window.work.bytes > 0) record.proxies.bytes_delivered = Signed(window.work.bytes);
  if (window.cut) record.labels["cut"] = "yes";
  return record;
}

NodeWriter::NodeWriter(energy::RunStore* store, std::string run_id, OwnNode own,
                       std::shared_ptr<energy_agent::NodeSet> nodes)
    : store_(store), run_id_(std::move(run_id)), own_(std::move(own)), nodes_(std::move(nodes)) {}

Result<std::unique_ptr<NodeWriter>> NodeWriter::Start(
    energy::RunStore* store, std::string run_id, OwnNode own,
    std::shared_ptr<energy_agent::NodeSet> nodes) {
  auto writer = std::unique_ptr<NodeWriter>(
      new NodeWriter(store, std::move(run_id), std::move(own), std::move(nodes)));
  EMLIO_ASSIGN_OR_RETURN(
      writer->thread_,
      Thread::Start("energy-nodes", [self = writer.get()](std::stop_token) { self->Run(); }));
  return writer;
}

NodeWriter::~NodeWriter() { Stop(); }

void NodeWriter::Stop() {
  {
    const MutexLock lock(mu_);
    stop_ = true;
    work_.NotifyAll();
  }
  thread_.Join();
}

void NodeWriter::Run() {
  while (true) {
    {
      const auto until = std::chrono::steady_clock::now() + kTakeEvery;
      const MutexLock lock(mu_);
      while (!stop_ && std::chrono::steady_clock::now() < until) work_.WaitUntil(mu_, until);
      if (stop_) return;
    }
    const Status taken = TakeTicks();
    if (!taken.ok() && taken.ToString() != last_error_) {
      LogWarning("samples of other nodes are not stored: {}", taken.ToString());
    }
    last_error_ = taken.ok() ? "" : taken.ToString();
  }
}

Status NodeWriter::TakeTicks() {
  const std::vector<energy_agent::NodeTicks> taken = nodes_->TakeTicks();
  if (taken.empty()) return OkStatus();
  std::vector<NodeReport> reports;
  for (const energy_agent::NodeTicks& one : taken) {
    if (reports.empty()) reports = nodes_->Snapshot();
    const auto report = std::find_if(
        reports.begin(), reports.end(),
        [&](const NodeReport& candidate) { return candidate.endpoint == one.endpoint; });
    if (report == reports.end()) continue;
    Stored& stored = stored_[HostOf(*report)];
    if (stored.id == 0) {
      stored.info = InfoOf(*report);
      EMLIO_ASSIGN_OR_RETURN(stored.id, store_->AddNode(run_id_, stored.info));
    }
    stored.ticks_lost += one.lost;
    if (!std::equal(report->domains.begin(), report->domains.end(), stored.info.domains.begin(),
                    stored.info.domains.end(), HaveOneId)) {
      // Another agent took over on that host, and measures other domains.
      stored.ticks_lost += one.ticks.size();
      continue;
    }
    for (size_t i = 0; i < one.ticks.size(); ++i) {
      const energy::Tick tick = one.ticks.At(i);
      store_->AppendTick(stored.id, tick);
      stored.last_tick_ns = tick.monotonic_ns;
    }
  }
  return OkStatus();
}

energy::NodeInfo NodeWriter::InfoOf(const NodeReport& report) const {
  energy::NodeInfo info;
  info.name = NameOf(report);
  info.role = report.role;
  info.boot_id = report.boot_id;
  if (IsObject(report.facts)) info.facts = report.facts;
  info.interval_ns = report.interval_ns;
  info.domains = report.domains;
  info.absent = report.absent;
  info.sampler = report.stats;
  if (report.start_clock) info.clock.push_back(*report.start_clock);
  if (report.stop_clock) info.clock.push_back(*report.stop_clock);
  if (report.offset) {
    info.offsets.push_back(*report.offset);
    info.offsets.back().peer = own_.info.name;
  }
  info.start_barrier = report.started;
  info.stop_barrier = report.stopped;
  return info;
}

Status NodeWriter::AddNote(const NodeReport& report, int64_t wall_ns, std::string_view kind,
                           std::string text) {
  energy::Note note;
  note.wall_ns = wall_ns;
  note.node = NameOf(report);
  note.kind = kind;
  note.text = std::move(text);
  return store_->AddNote(run_id_, note);
}

Status NodeWriter::EndNode(const NodeReport& report, int64_t ended_wall_ns) {
  const bool whole = report.state == NodeState::kWhole;
  if (!whole) {
    EMLIO_RETURN_IF_ERROR(AddNote(report, ended_wall_ns,
                                  fmt::format("node_{}", energy_agent::NodeStateName(report.state)),
                                  report.cause));
  }
  Stored& stored = stored_[HostOf(report)];
  energy::NodeInfo info = InfoOf(report);
  if (stored.id == 0) {
    EMLIO_ASSIGN_OR_RETURN(stored.id, store_->AddNode(run_id_, info));
  } else {
    // One that was started again in the meantime, or took over, may have told others since.
    info.domains = stored.info.domains;
    EMLIO_RETURN_IF_ERROR(store_->UpdateNode(stored.id, info));
  }
  stored.info = std::move(info);
  for (const energy::SinkReport& sink : report.sinks) {
    EMLIO_RETURN_IF_ERROR(store_->ReportSink(stored.id, sink));
  }
  if (!report.started) return OkStatus();
  energy::WindowReport run = InDomains(report.run, report.domains, stored.info.domains);
  run.label.name = kRunWindow;
  if (!whole) {
    // Samples up to some moment are there. They are not what the node used in the run.
    run.end_ns = std::max({run.begin_ns, run.end_ns, stored.last_tick_ns});
    run.energies.assign(stored.info.domains.size(), {});
    for (energy::Energy& energy : run.energies) {
      energy.cause = fmt::format("the node is {}: {}", energy_agent::NodeStateName(report.state),
                                 report.cause);
    }
    run.total = energy::TotalOf(stored.info.domains, run.energies);
  }
  const int64_t offset_ns = report.started->wall_ns - report.started->monotonic_ns;
  energy::WindowRecord record = RecordOf(run, kRunWindow, offset_ns);
  record.proxies = ProxiesOf(report.proxies);
  store_->AppendWindow(stored.id, std::move(record));
  if (!whole) return OkStatus();
  if (stored.ticks_lost > 0 || stored.last_tick_ns < run.end_ns) {
    EMLIO_RETURN_IF_ERROR(AddNote(
        report, ended_wall_ns, "ticks_lost",
        fmt::format("its figures are whole, but of its samples {} are missing{}", stored.ticks_lost,
                    stored.last_tick_ns < run.end_ns ? " and those of the end" : "")));
  }
  for (const energy::WindowReport& window : report.windows) {
    store_->AppendWindow(stored.id,
                         RecordOf(InDomains(window, report.domains, stored.info.domains),
                                  fmt::format("{}/{}", report.endpoint, window.id), offset_ns));
  }
  return OkStatus();
}

Status NodeWriter::End(const std::vector<NodeReport>& others, int64_t ended_wall_ns) {
  Stop();
  EMLIO_RETURN_IF_ERROR(TakeTicks());
  for (const NodeReport& report : others) {
    if (report.state == NodeState::kSameHost) continue;
    EMLIO_RETURN_IF_ERROR(EndNode(report, ended_wall_ns));
  }
  // A second process on a host: the host is in the run, the windows are only known to it.
  for (const NodeReport& report : others) {
    if (report.state != NodeState::kSameHost) continue;
    int64_t id = own_.id;
    const std::vector<energy::Domain>* domains = &own_.info.domains;
    int64_t offset_ns = own_.wall_offset_ns;
    if (report.boot_id != own_.info.boot_id) {
      const auto host = stored_.find(HostOf(report));
      if (host == stored_.end() || !report.started) continue;
      id = host->second.id;
      domains = &host->second.info.domains;
      offset_ns = report.started->wall_ns - report.started->monotonic_ns;
    }
    for (const energy::WindowReport& window : report.windows) {
      store_->AppendWindow(id,
                           RecordOf(InDomains(window, report.domains, *domains),
                                    fmt::format("{}/{}", report.endpoint, window.id), offset_ns));
    }
  }
  return OkStatus();
}

}  // namespace emlio::tool
