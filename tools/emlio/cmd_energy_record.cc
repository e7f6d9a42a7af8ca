// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "child_process.h"
#include "console.h"
#include "emlio/base/clock.h"
#include "emlio/base/log.h"
#include "emlio/base/nanoseconds.h"
#include "emlio/energy/activity.h"
#include "emlio/energy/clock_state.h"
#include "emlio/energy/monitor.h"
#include "emlio/energy/run.h"
#include "emlio/energy_agent/agent.h"
#include "emlio/energy_agent/link.h"
#include "emlio/energy_agent/messages.h"
#include "emlio/energy_agent/node_set.h"
#include "emlio/energy_analysis/host_facts.h"
#include "emlio/transport/endpoint.h"
#include "energy_commands.h"
#include "energy_json.h"
#include "energy_live.h"
#include "energy_nodes.h"
#include "energy_run.h"
#include "interrupt.h"
#include "run_writer.h"
#include "sample_sinks.h"

namespace emlio::tool {
namespace {

using nlohmann::ordered_json;

constexpr int kLiveMs = 500;
constexpr char kNoStoreFile[] =
    "neither XDG_DATA_HOME nor HOME is set; fix: name a file with "
    "--store, set one of them, or say --no-store";
constexpr char kNotLookedFor[] =
    "--no-find: hosts that the command got data from were not looked for and are not in the total, "
    "unless --node names them";

// What a run that is to be measured may not have: domains of the total that no hardware counter
// gives, with the reason; those that have the same one together. Empty: all is measured.
std::vector<std::string> NotMeasured(const std::vector<energy::Domain>& host_domains) {
  std::vector<std::pair<std::string, std::vector<std::string>>> by_reason;
  bool has_cpu = false;
  for (const energy::Domain& domain : host_domains) {
    if (!domain.in_total) continue;
    std::string reason;
    if (!domain.cause.empty()) {
      // Memory that this hardware does not count is no fault.
      if (domain.kind == energy::DomainKind::kDram && domain.source.empty() && has_cpu) continue;
      reason = domain.cause + (domain.fix.empty() ? "" : "\n  fix: " + domain.fix);
    } else if (!domain.doubt.empty()) {
      reason = domain.doubt;
    } else if (domain.virtualised) {
      reason = "the figure is a hypervisor's, and not a measurement";
    } else if (domain.quantity == energy::Quantity::kPower) {
      reason = "only its power can be sampled; it has no energy counter";
    } else if (domain.shared) {
      reason = "the counter is that of a whole GPU, of which others may use a part";
    } else {
      has_cpu |=
          domain.kind != energy::DomainKind::kDram && domain.kind != energy::DomainKind::kGpu;
      continue;
    }
    const auto same = std::find_if(by_reason.begin(), by_reason.end(),
                                   [&](const auto& one) { return one.first == reason; });
    if (same != by_reason.end()) {
      same->second.push_back(domain.id);
    } else {
      by_reason.push_back({std::move(reason), {domain.id}});
    }
  }
  std::vector<std::string> reasons;
  for (const auto& [reason, ids] : by_reason) {
    reasons.push_back(fmt::format("{}: {}", fmt::join(ids, ", "), reason));
  }
  return reasons;
}

// The same of the other nodes, as they are when the run begins.
std::vector<std::string> NotMeasured(const std::vector<energy_agent::NodeReport>& nodes) {
  std::vector<std::string> reasons;
  for (const energy_agent::NodeReport& node : nodes) {
    if (node.state == energy_agent::NodeState::kSameHost) continue;
    const std::string name = node.node.empty() ? node.endpoint : node.node;
    if (!node.started) {
      reasons.push_back(fmt::format("node {} does not answer{}", name,
                                    node.cause.empty() ? "" : ": " + node.cause));
      continue;
    }
    for (const std::string& reason : NotMeasured(node.domains)) {
      reasons.push_back(fmt::format("node {}: {}", name, reason));
    }
  }
  return reasons;
}

Status MustBeEmpty(const std::vector<std::string>& reasons) {
  if (reasons.empty()) return OkStatus();
  return Unsupported(fmt::format("--require-measured: the command was not started\n  {}",
                                 fmt::join(reasons, "\n  ")));
}

// One clear statement a domain, before the command begins, of what will not be measured.
void PrintWhatIsMissing(const energy::Monitor& monitor) {
  std::vector<std::string> missing;
  for (const energy::Domain& domain : monitor.domains()) {
    if (domain.in_total && !domain.cause.empty()) missing.push_back(domain.id);
  }
  if (missing.empty()) return;
  Say("emlio: energy of {} cannot be measured here and will read n/a; why, and what "
      "helps: emlio energy doctor\n",
      fmt::join(missing, ", "));
}

// An address that can never be one is an error of the command line; one that nobody answers at is
// a node that is missing.
Status CheckNodes(const std::vector<std::string>& nodes) {
  for (const std::string& node : nodes) {
    const bool whole = node.starts_with("tcp://");
    const auto parsed = transport::ParseDialEndpoint(whole ? node : "tcp://" + node);
    if (!parsed.ok()) return parsed.status().WithContext("--node " + node);
  }
  return OkStatus();
}

// A run is measured whether it can be stored or not, unless it must be.
Status BeginStoring(const EnergyRecordCommand& command, const std::string& run_id,
                    const energy::Moment& began, const energy::Monitor& monitor,
                    std::shared_ptr<energy_agent::NodeSet> nodes, RunWriter* writer) {
  if (command.store.empty()) {
    if (!command.wants_store) return OkStatus();
    if (!command.quiet) LogWarning("the run will not be kept: {}", kNoStoreFile);
    return NotFound(kNoStoreFile);
  }
  energy::Run run;
  run.id = run_id;
  run.started_wall_ns = began.wall_ns;
  run.command = command.argv;
  run.labels = command.labels;
  run.configuration = command.configuration;
  if (!command.stage.empty()) run.labels["stage"] = command.stage;
  if (!command.name.empty()) run.labels["name"] = command.name;
  Status status = writer->Begin(
      command.store, run, began, monitor, energy::BootId(command.source.host.root),
      energy_analysis::HostFacts(command.source.host.root, monitor.domains()), std::move(nodes));
  if (status.ok() && !command.find_nodes) {
    status = writer->AddNote({began.wall_ns, "", "not_looked_for", kNotLookedFor});
  }
  if (!status.ok() && !command.must_store) {
    LogWarning("the run will not be in the store {}: {}", command.store, status.ToString());
  }
  return status;
}

Result<std::shared_ptr<energy_agent::NodeSet>> StartNodes(const EnergyRecordCommand& command,
                                                          const std::string& run_id,
                                                          const energy::WindowLabel& label) {
  energy_agent::NodeSetOptions options;
  options.run_id = run_id;
  options.name = label.name;
  options.stage = label.stage;
  options.boot_id = energy::BootId(command.source.host.root);
  options.connect_timeout_ms = command.connect_ms;
  options.ticks = !command.store.empty();
  EMLIO_ASSIGN_OR_RETURN(std::shared_ptr<energy_agent::NodeSet> nodes,
                         energy_agent::NodeSet::Start(std::move(options)));
  for (const std::string& node : command.nodes) nodes->Add(node);
  return nodes;
}

// The agent that the command's processes tell of their windows, and of where their data come from.
Result<std::unique_ptr<energy_agent::Agent>> StartAgent(
    const EnergyRecordCommand& command, const std::shared_ptr<energy::Monitor>& monitor,
    energy_agent::NodeSet* nodes) {
  energy_agent::AgentOptions options;
  options.root = command.source.host.root;
  if (command.find_nodes) {
    options.on_peer = [nodes](const energy_agent::Peer& peer) {
      if (peer.unmeasured) {
        nodes->AddUnmeasured(peer.endpoint, peer.boot_id);
      } else {
        nodes->Add(peer.endpoint);
      }
    };
  }
  EMLIO_ASSIGN_OR_RETURN(auto agent, energy_agent::Agent::Start(monitor, std::move(options)));
  setenv(energy_agent::kLinkVariable, agent->endpoint().c_str(), 1);
  return agent;
}

}  // namespace

int RunEnergyRecord(const EnergyRecordCommand& command) {
  const ::emlio::tool::Report report(command.json);
  if (const Status status = report.Check(); !status.ok()) return Fail(status);
  if (const Status status = CheckNodes(command.nodes); !status.ok()) return Fail(status);
  if (command.must_store) {
    if (const Status status = CheckStore(command.store); !status.ok()) {
      return report.Finish(status.WithContext("the command was not started"),
                           {{"version", EMLIO_VERSION}, {"command", command.argv}});
    }
  }
  CheckMemory(command.source.host, command.memory_check);  // a signal ends it, and this process
  ChildProcess child;                                      // before any thread that stays
  ordered_json json = {{"version", EMLIO_VERSION}, {"command", command.argv}};

  energy::MonitorOptions options;
  options.host = command.source.host;
  options.host.before_the_job = true;
  options.interval_ns = command.source.interval_ms * kNsPerMs;
  options.rules.allow_gaps = command.allow_gaps;
  // Both outlive the monitor, which calls them.
  RunWriter writer;
  SampleSinks sinks;
  options.on_tick = [&command, &writer, &sinks](const energy::TickView& tick) {
    if (!command.store.empty()) writer.OnTick(tick);
    sinks.OnTick(tick);
  };
  if (!command.store.empty()) {
    options.on_window = [&writer](const energy::WindowReport& one) { writer.OnWindow(one); };
  }
  auto started = energy::Monitor::Start(std::move(options));
  if (!started.ok()) return report.Finish(started.status(), std::move(json));
  const std::shared_ptr<energy::Monitor> monitor = *std::move(started);
  const std::string run_id =
      command.run_id.empty() ? energy::MakeRunId(energy::ReadMoment().wall_ns) : command.run_id;
  json["node"] = monitor->node();
  json["interval_ms"] = command.source.interval_ms;
  json["cpu"] = CpuJson(monitor->cpu());
  json["absent"] = AbsentJson(monitor->absent());
  if (command.require_measured) {
    if (const Status status = MustBeEmpty(NotMeasured(monitor->domains())); !status.ok()) {
      json["domains"] = ordered_json::array();
      for (const energy::Domain& domain : monitor->domains()) {
        json["domains"].push_back(DomainJson(domain));
      }
      report.Finish(status, std::move(json));
      return kExitUnreachable;
    }
  }
  if (!command.quiet) PrintWhatIsMissing(*monitor);
  if (const Status status = sinks.Start(command.sinks, run_id, *monitor); !status.ok()) {
    const int exit_code = report.Finish(status, std::move(json));
    return exit_code == kExitUnreachable ? kExitFailed : exit_code;  // no peer is involved yet
  }
  if (!sinks.metrics().empty()) {
    Say("emlio: metrics at {}\n", sinks.metrics());
    json["metrics"] = sinks.metrics();
  }

  energy::WindowLabel label;
  label.name = command.name.empty() ? command.argv[0] : command.name;
  label.stage = command.stage;
  auto nodes = StartNodes(command, run_id, label);
  if (!nodes.ok()) return report.Finish(nodes.status(), std::move(json));
  auto agent = StartAgent(command, monitor, nodes->get());
  if (!agent.ok()) return report.Finish(agent.status(), std::move(json));

  const std::vector<energy_agent::NodeReport> at_begin = (*nodes)->Begin();
  if (command.require_measured) {
    if (const Status status = MustBeEmpty(NotMeasured(at_begin)); !status.ok()) {
      json["nodes"] = ordered_json::array();
      for (const energy_agent::NodeReport& node : (*nodes)->End()) {
        json["nodes"].push_back(NodeJson(node));
      }
      report.Finish(status, std::move(json));
      return kExitUnreachable;
    }
  }
  for (const energy_agent::NodeReport& node : at_begin) {
    if (node.started) continue;
    Say("emlio: node {} does not answer: the total will be incomplete{}\n", node.endpoint,
        node.cause.empty() ? "" : " (" + node.cause + ")");
  }
  const energy::Activity before = monitor->ReadActivity();
  const energy::Moment began = energy::ReadMoment();
  const energy::ClockReading clock_began = energy::ReadClock();
  const Status storing = BeginStoring(command, run_id, began, *monitor, *nodes, &writer);
  if (command.must_store && !storing.ok()) {
    (*nodes)->End();
    return report.Finish(AsStoreError(storing).WithContext("the command was not started"),
                         std::move(json));
  }
  const energy::WindowId window = monitor->OpenAt(label, began.monotonic_ns);
  writer.SetRunWindow(window);
  if (const Status status = child.Start(command.argv, command.quiet || command.json == "-");
      !status.ok()) {
    const int exit_code = status.code() == Code::kNotFound ? kExitNotFound : kExitNotExecutable;
    const Status ended = writer.EndUnstarted(energy::ReadMoment().wall_ns, exit_code);
    if (!ended.ok()) LogWarning("the end of the run is not in the store: {}", ended.ToString());
    report.Finish(status, std::move(json));
    return exit_code;
  }
  {
    LiveView live(*monitor, energy::BootId(command.source.host.root), nodes->get(), command.live);
    while (!child.Wait(command.live ? kLiveMs : -1)) live.Update();
  }
  const energy::Moment ended = energy::ReadMoment();
  monitor->CloseAt(window, ended.monotonic_ns);
  const energy::Activity activity = energy::Between(before, monitor->ReadActivity());
  const std::vector<energy_agent::NodeReport> others = (*nodes)->End();
  agent->reset();  // windows of the command end with it
  monitor->Stop();
  sinks.Finish();

  const auto measured = monitor->Report(window);
  const auto windows = monitor->Reports();
  const auto stats = monitor->Stats();
  for (const Status& status : {measured.status(), windows.status(), stats.status()}) {
    if (!status.ok()) return report.Finish(status, std::move(json));
  }
  const double seconds = Seconds(measured->end_ns - measured->begin_ns);
  const energy_agent::RunTotal run_total =
      energy_agent::TotalOf(monitor->node(), &measured->total, others);
  const Status stored =
      writer.End(*monitor, {ended, clock_began, energy::ReadClock(), activity, child.exit_code()},
                 others, sinks.Reports());
  if (!stored.ok()) LogWarning("the run is not in the store: {}", stored.ToString());
  const std::string store = stored.ok() ? writer.path() : "";
  json["store"] = store.empty() ? ordered_json(nullptr) : ordered_json(store);
  if (const Status& status = storing.ok() ? stored : storing; !status.ok()) {
    json["store_cause"] = status.message();
  }
  json["exit_code"] = child.exit_code();
  json["begin_unix_ns"] = began.wall_ns;
  const ordered_json window_json = WindowJson(monitor->domains(), *measured);
  for (const auto& [key, value] : window_json.items()) json[key] = value;
  json["proxies"] = ActivityJson(activity);
  json["proxies"]["command_cpu_s"] = child.cpu_seconds();
  json["sampler"] = SamplerJson(*stats);
  json["clock"] = {{"at_start", ClockJson(clock_began)},
                   {"at_stop", ClockJson(energy::ReadClock())}};
  json["windows"] = ordered_json::array();
  for (const energy::WindowReport& one : *windows) {
    if (one.id != window) json["windows"].push_back(WindowJson(monitor->domains(), one));
  }
  json["nodes"] = ordered_json::array();
  for (const energy_agent::NodeReport& node : others) json["nodes"].push_back(NodeJson(node));
  json["run"] = {
      {"id", run_id}, {"total", RunTotalJson(run_total)}, {"hosts_looked_for", command.find_nodes}};
  for (const auto& [key, own, stop] :
       {std::tuple{"start_spread_ms", began, false}, {"stop_spread_ms", ended, true}}) {
    const auto spread_ns = energy_agent::SpreadNs(own, others, stop);
    json["run"][key] =
        spread_ns ? ordered_json(static_cast<double>(*spread_ns) * 1e-6) : ordered_json(nullptr);
  }
  if (!command.quiet) {
    Say("emlio: {:.3f} s, exit code {}\n{}{}{}", seconds, child.exit_code(),
        EnergyTable(monitor->domains(), measured->energies, measured->total, seconds),
        WindowsTable(*windows, window), ActivityTable(activity, child.cpu_seconds()));
  }
  if (!command.quiet && !others.empty()) {
    SayText(NodesTable(monitor->node(), measured->total, others, run_total));
  }
  if (!command.quiet && !command.find_nodes) Say("emlio: {}\n", kNotLookedFor);
  if (!command.quiet && !store.empty()) {
    Say("emlio: run {} is in {}\n", run_id, store);
  }
  json["sinks"] = SinksJson(sinks.Reports());
  SayText(SinksText(sinks.Reports(), store.empty() ? "" : run_id));
  const int exit_code = report.Finish(OkStatus(), std::move(json));
  return child.exit_code() != kExitOk ? child.exit_code() : exit_code;  // Finish has told
}

}  // namespace emlio::tool
