// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>

#include "console.h"
#include "emlio/base/file.h"
#include "emlio/energy/monitor.h"
#include "emlio/energy_agent/agent.h"
#include "emlio/energy_analysis/host_facts.h"
#include "energy_commands.h"
#include "energy_json.h"
#include "energy_live.h"
#include "interrupt.h"
#include "sample_sinks.h"

namespace emlio::tool {

using nlohmann::ordered_json;

int RunEnergyAgent(const EnergyAgentCommand& command) {
  const ::emlio::tool::Report report(command.json);
  if (const Status status = report.Check(); !status.ok()) return Fail(status);
  CheckMemory(command.source.host, command.memory_check);  // a signal ends it, and this process
  const InterruptFlag interrupt;
  ordered_json json = {{"version", EMLIO_VERSION}};
  const auto fail = [&](const Status& status) {
    const int exit_code = report.Finish(status, std::move(json));
    return exit_code == kExitUnreachable ? kExitFailed : exit_code;  // no peer is involved yet
  };
  if (!command.ready_file.empty()) unlink(command.ready_file.c_str());
  energy::MonitorOptions options;
  options.host = command.source.host;
  options.node = command.node;
  options.interval_ns = command.source.interval_ms * kNsPerMs;
  SampleSinks sinks;  // outlives the monitor, which calls it
  options.on_tick = [&sinks](const energy::TickView& tick) { sinks.OnTick(tick); };
  auto started = energy::Monitor::Start(std::move(options));
  if (!started.ok()) return fail(started.status());
  const std::shared_ptr<energy::Monitor> monitor = *std::move(started);
  json["node"] = monitor->node();
  json["interval_ms"] = command.source.interval_ms;
  if (const Status status = sinks.Start(command.sinks, "", *monitor); !status.ok()) {
    return fail(status);
  }
  energy_agent::AgentOptions agent_options = command.agent;
  agent_options.root = command.source.host.root;
  agent_options.facts = energy_analysis::HostFacts(command.source.host.root, monitor->domains());
  agent_options.sinks = [&sinks] { return sinks.Reports(); };
  auto agent = energy_agent::Agent::Start(monitor, std::move(agent_options));
  if (!agent.ok()) return fail(agent.status());
  json["endpoint"] = (*agent)->endpoint();
  if (!sinks.metrics().empty()) {
    json["metrics"] = sinks.metrics();
    Say("emlio: metrics at {}\n", sinks.metrics());
  }
  if (!command.ready_file.empty()) {
    const auto write = [&]() -> Status {
      EMLIO_ASSIGN_OR_RETURN(const auto file, AtomicFile::Create(command.ready_file));
      const std::string text = (*agent)->endpoint() + "\n";
      EMLIO_RETURN_IF_ERROR(file->Append(text.data(), text.size()));
      return file->Commit();
    };
    if (const Status status = write(); !status.ok()) {
      return fail(status.WithContext("--ready-file"));
    }
  }
  Say("emlio: energy of {} at {}\n", monitor->node(), (*agent)->endpoint());
  {
    LiveView live(*monitor, "", nullptr, isatty(STDERR_FILENO) == 1);
    while (!InterruptFlag::IsSet()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      live.Update();
    }
  }
  if (!command.ready_file.empty()) unlink(command.ready_file.c_str());
  agent->reset();
  monitor->Stop();
  sinks.Finish();
  if (const auto stats = monitor->Stats(); stats.ok()) json["sampler"] = SamplerJson(*stats);
  json["sinks"] = SinksJson(sinks.Reports());
  SayText(SinksText(sinks.Reports(), /*stored=*/""));
  return report.Finish(OkStatus(), std::move(json));
}

}  // namespace emlio::tool
