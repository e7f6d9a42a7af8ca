// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "energy_run.h"

#include <signal.h>
#include <stdlib.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "child_process.h"
#include "emlio/base/clock.h"
#include "emlio/energy/activity.h"
#include "emlio/energy/monitor.h"
#include "emlio/energy/run_store.h"
#include "emlio/energy_analysis/host_facts.h"
#include "emlio/energy_analysis/stored_experiments.h"

namespace emlio::tool {
namespace {

constexpr int64_t kFlushTimeoutNs = 60 * kNsPerSecond;

std::optional<int64_t> Signed(const std::optional<uint64_t>& value) {
  if (!value) return std::nullopt;
  return static_cast<int64_t>(*value);
}

energy::NodeInfo NodeOf(const energy::Monitor& monitor, const EnergySource& source) {
  energy::NodeInfo info;
  info.name = monitor.node();
  info.role = "compute";
  info.facts = energy_analysis::HostFacts(source.host.root, monitor.domains());
  info.interval_ns = monitor.interval_ns();
  info.domains = monitor.domains();
  info.absent = monitor.absent();
  return info;
}

}  // namespace

Result<StoredRunOutcome> MeasureIntoStore(const EnergySource& source, const std::string& store_path,
                                          const StoredRunRequest& request) {
  ChildProcess child;  // before any thread
  for (const auto& [name, value] : request.environment) {
    setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
  }
  EMLIO_ASSIGN_OR_RETURN(const auto store, energy::RunStore::Open(store_path));
  energy::Run run;
  const energy::Moment began = energy::ReadMoment();
  run.id = energy::MakeRunId(began.wall_ns);
  run.started_wall_ns = began.wall_ns;
  run.command = request.argv;
  run.labels = request.labels;
  run.configuration = request.configuration;
  EMLIO_RETURN_IF_ERROR(store->BeginRun(run));

  // Ticks before the node is known to the store belong to no run.
  std::atomic<int64_t> node{0};
  energy::MonitorOptions options;
  options.host = source.host;
  options.host.gpu_power_too = true;
  options.interval_ns = source.interval_ms * kNsPerMs;
  options.on_tick = [&](const energy::TickView& tick) {
    if (const int64_t id = node.load(); id != 0) {
      store->AppendTick(id, {tick.taken.monotonic_ns, tick.taken.wall_ns, tick.samples});
    }
  };
  EMLIO_ASSIGN_OR_RETURN(const auto monitor, energy::Monitor::Start(std::move(options)));
  energy::NodeInfo info = NodeOf(*monitor, source);
  EMLIO_ASSIGN_OR_RETURN(const int64_t id, store->AddNode(run.id, info));
  node = id;
  // A sample of this run before it begins, so that all of it lies among those stored.
  std::this_thread::sleep_for(std::chrono::milliseconds(source.interval_ms));

  const energy::Activity before = energy::ReadActivity(source.host.root);
  energy::WindowLabel label;
  label.name = request.argv.front();
  label.stage = request.stage;
  info.start_barrier = energy::ReadMoment();
  const energy::WindowId window = monitor->Open(label);
  if (const Status status = child.Start(request.argv, request.output_to_stderr); !status.ok()) {
    const Status ended =
        store->EndRun(run.id, energy::ReadMoment().wall_ns,
                      status.code() == Code::kNotFound ? kExitNotFound : kExitNotExecutable);
    return ended.ok() ? status : ended;
  }
  child.Wait(-1);
  monitor->Close(window);
  info.stop_barrier = energy::ReadMoment();
  const energy::Activity used = energy::Between(before, energy::ReadActivity(source.host.root));
  monitor->Stop();
  node = 0;

  EMLIO_ASSIGN_OR_RETURN(const energy::WindowReport measured, monitor->Report(window));
  EMLIO_ASSIGN_OR_RETURN(info.sampler, monitor->Stats());
  energy::WindowRecord record;
  record.id = "run";
  record.name = label.name;
  record.stage = label.stage;
  record.begin_ns = measured.begin_ns;
  record.end_ns = measured.end_ns;
  record.begin_wall_ns =
      measured.begin_ns + info.start_barrier->wall_ns - info.start_barrier->monotonic_ns;
  record.energies = measured.energies;
  record.total = measured.total;
  record.labels = {{energy_analysis::kWholeRunLabel, "run"}};
  record.proxies.cpu_seconds = used.cpu_seconds;
  record.proxies.bytes_read = Signed(used.storage_read_bytes);
  record.proxies.bytes_sent = Signed(used.network_sent_bytes);
  store->AppendWindow(id, std::move(record));
  EMLIO_RETURN_IF_ERROR(store->UpdateNode(id, info));
  EMLIO_RETURN_IF_ERROR(store->EndRun(run.id, info.stop_barrier->wall_ns, child.exit_code()));
  EMLIO_RETURN_IF_ERROR(store->Flush(kFlushTimeoutNs));
  const int code = child.exit_code();
  return StoredRunOutcome{
      .id = run.id,
      .exit_code = code,
      .seconds = static_cast<double>(measured.end_ns - measured.begin_ns) * 1e-9,
      .monitor_cpu_seconds =
          static_cast<double>(info.sampler.cpu_ns + store->Stats().cpu_ns) * 1e-9,
      .joules = measured.total.joules,
      .interrupted = code == 128 + SIGINT || code == 128 + SIGTERM};
}

int FinishRefused(const Report& report, const Status& status, nlohmann::ordered_json json) {
  const Status refused = status.code() == Code::kInvalidArgument
                             ? Status(Code::kUnsupported, status.message())
                             : status;
  return report.Finish(refused, std::move(json));
}

}  // namespace emlio::tool
