// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "commands.h"
#include "console.h"
#include "emlio/base/file.h"
#include "emlio/base/hash128.h"
#include "emlio/base/log.h"
#include "emlio/base/system_limits.h"
#include "emlio/base/thread.h"
#include "emlio/energy/clock_state.h"
#include "emlio/energy/epoch_observer.h"
#include "emlio/energy/monitor.h"
#include "emlio/energy_agent/agent.h"
#include "emlio/energy_analysis/host_facts.h"
#include "energy_json.h"
#include "interrupt.h"
#include "record_source.h"
#include "sample_sinks.h"

namespace emlio::tool {
namespace {

using nlohmann::ordered_json;

// Several NAME=PATTERN with one name are one data set of several patterns.
Result<std::vector<dataset::DatasetOptions>> ParseDatasets(const ServeCommand& command) {
  std::vector<dataset::DatasetOptions> datasets;
  for (const std::string& argument : command.datasets) {
    const size_t equals = argument.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == argument.size()) {
      return InvalidArgument(fmt::format(
          "'{}' is not NAME=PATTERN; write for example train='/data/train-*.tfrecord'", argument));
    }
    const std::string name = argument.substr(0, equals);
    auto found = std::find_if(datasets.begin(), datasets.end(),
                              [&](const dataset::DatasetOptions& d) { return d.name == name; });
    if (found == datasets.end()) {
      dataset::DatasetOptions made;
      made.name = name;
      made.index_directory = command.index_directory;
      made.index_beside = command.index_beside;
      made.max_record_bytes = command.max_record_bytes;
      made.io = command.io;
      made.on_bad_shard = command.on_bad_shard;
      found = datasets.insert(datasets.end(), std::move(made));
    }
    found->patterns.push_back(argument.substr(equals + 1));
  }
  return datasets;
}

// What measures this host for the runs that it serves; nothing when it could not be started.
struct ServeEnergy {
  std::shared_ptr<SampleSinks> sinks;
  std::shared_ptr<energy::Monitor> monitor;
  std::unique_ptr<energy_agent::Agent> agent;
};

// Data are served without it as well, unless its samples were asked for.
Result<ServeEnergy> StartEnergy(const ServeCommand& command) {
  const auto start = [&]() -> Result<ServeEnergy> {
    ServeEnergy energy;
    energy.sinks = std::make_shared<SampleSinks>();
    energy::MonitorOptions monitor_options;
    monitor_options.host.root = command.energy_root;
    // The daemon's observer has the monitor too: what it calls lives as long as it does.
    monitor_options.on_tick = [sinks = energy.sinks](const energy::TickView& tick) {
      sinks->OnTick(tick);
    };
    EMLIO_ASSIGN_OR_RETURN(energy.monitor, energy::Monitor::Start(std::move(monitor_options)));
    EMLIO_RETURN_IF_ERROR(energy.sinks->Start(command.sinks, "", *energy.monitor));
    energy_agent::AgentOptions options;
    options.root = command.energy_root;
    options.bind = command.energy_bind;
    if (options.bind.empty()) {
      options.bind = command.daemon.bind.substr(0, command.daemon.bind.rfind(':')) + ":0";
    }
    options.insecure = command.daemon.insecure;
    options.role = "storage";
    options.facts = energy_analysis::HostFacts(command.energy_root, energy.monitor->domains());
    options.sinks = [sinks = energy.sinks.get()] { return sinks->Reports(); };
    EMLIO_ASSIGN_OR_RETURN(energy.agent,
                           energy_agent::Agent::Start(energy.monitor, std::move(options)));
    return energy;
  };
  auto energy = start();
  if (energy.ok() || command.sinks.any()) return energy;
  LogWarning("this host's energy is in no total: {}", energy.status().ToString());
  return ServeEnergy{};
}

void PrintConfiguration(const ServeCommand& command, const daemon::DaemonOptions& options,
                        const daemon::Daemon& daemon, const ServeEnergy& energy) {
  std::string index = "default cache directory";
  if (command.index_beside) index = "beside the shards";
  if (!command.index_directory.empty()) index = command.index_directory;
  std::string text = fmt::format("emlio {} serve\n", EMLIO_VERSION);
  const auto line = [&text](std::string_view what, const std::string& value) {
    text += fmt::format("  {:<15}{}\n", what, value);
  };
  line("bind", fmt::format("{}{}", options.bind,
                           options.insecure ? ", any host may read (--insecure)" : ""));
  line("roots", options.roots.empty() ? "any" : fmt::format("{}", fmt::join(options.roots, ", ")));
  line("send buffer", fmt::format("{} MiB, chunks of {} to {} KiB", options.send_buffer_bytes >> 20,
                                  options.first_chunk_bytes >> 10, options.max_chunk_bytes >> 10));
  line("gather threads",
       options.gather_threads == 0 ? "automatic" : std::to_string(options.gather_threads));
  line("read ahead", fmt::format("{} MiB a session", options.read_ahead_bytes >> 20));
  line("indexes", index);
  line("largest record", fmt::format("{} MiB", command.max_record_bytes >> 20));
  line("on bad shard", std::string(dataset::BadShardPolicyName(command.on_bad_shard)));
  line("drain", fmt::format("{} s", static_cast<double>(command.drain_ms) / 1000));
  for (const auto& data : daemon.datasets()) {
    const dataset::Manifest& manifest = data->manifest();
    line("data set", fmt::format("{}: {}, {}, {}, {}, digest {}{}", data->name(),
                                 FormatCount(manifest.shards().size(), "shard"),
                                 FormatCount(manifest.records(), "record"),
                                 FormatBytes(static_cast<double>(manifest.payload_bytes())),
                                 dataset::IoModeName(data->io()), ToHex(manifest.digest()),
                                 UnreadableText(manifest)));
  }
  if (energy.agent != nullptr) {
    line("energy agent", energy.agent->endpoint());
    for (const energy::SinkReport& sink : energy.sinks->Reports()) line(sink.sink, sink.target);
    if (!energy.sinks->metrics().empty()) line("metrics", energy.sinks->metrics());
  }
  line("endpoint", daemon.endpoint());
  SayText(text);
}

Status WriteReadyFile(const std::string& path, const std::string& endpoint) {
  EMLIO_ASSIGN_OR_RETURN(const auto file, AtomicFile::Create(path));
  const std::string text = endpoint + "\n";
  EMLIO_RETURN_IF_ERROR(file->Append(text.data(), text.size()));
  return file->Commit();
}

// Serves until a signal asks to stop or the transport fails. The first signal starts draining, a
// second one ends it. `cut_off`: sessions were ended that would have gone on.
Status ServeUntilStopped(daemon::Daemon& daemon, SignalWaiter& signals, int64_t drain_ms,
                         bool* cut_off) {
  Status end;
  auto waiter = Thread::Start("serve-wait", [&](std::stop_token) {
    end = daemon.Wait();
    signals.Notify();
  });
  if (!waiter.ok()) return waiter.status();
  if (signals.Wait() == 0) {  // not asked to
    waiter->Join();
    return end.ok() ? InternalError("the daemon stopped by itself") : end;
  }
  Say("emlio: stopping; {} may go on for {} s, another signal ends them at once\n",
      FormatCount(daemon.stats().sessions_now, "session"), static_cast<double>(drain_ms) / 1000);
  Status drained;
  auto drainer =
      Thread::Start("serve-drain", [&](std::stop_token) { drained = daemon.Shutdown(drain_ms); });
  if (drainer.ok()) {
    // Calling it again with an earlier deadline shortens it.
    if (signals.Wait() != 0) (void)daemon.Shutdown(0);
    drainer->Join();
  } else {
    drained = daemon.Shutdown(drain_ms);
  }
  waiter->Join();
  const daemon::DaemonStats stats = daemon.stats();
  Say("emlio: stopped; {}, {}, {} sent\n", FormatCount(stats.sessions_opened, "session"),
      FormatCount(stats.records_sent, "record"),
      FormatBytes(static_cast<double>(stats.payload_bytes_sent)));
  *cut_off = drained.code() == Code::kTimeout;
  return drained;
}

ordered_json ServedJson(const daemon::DaemonStats& stats) {
  return {
      {"sessions", stats.sessions_opened},        {"epochs", stats.epochs_ended},
      {"records_sent", stats.records_sent},       {"records_sent_again", stats.records_resent},
      {"records_skipped", stats.records_skipped}, {"payload_bytes_sent", stats.payload_bytes_sent}};
}

// The last samples are taken and delivered.
ordered_json FinishEnergy(ServeEnergy* energy) {
  if (energy->monitor == nullptr) return nullptr;
  ordered_json json = {{"node", energy->monitor->node()}, {"endpoint", energy->agent->endpoint()}};
  energy->agent.reset();
  energy->monitor->Stop();
  energy->sinks->Finish();
  if (!energy->sinks->metrics().empty()) json["metrics"] = energy->sinks->metrics();
  if (const auto stats = energy->monitor->Stats(); stats.ok())
    json["sampler"] = SamplerJson(*stats);
  json["sinks"] = SinksJson(energy->sinks->Reports());
  SayText(SinksText(energy->sinks->Reports(), /*stored=*/""));
  return json;
}

}  // namespace

int RunServe(const ServeCommand& command) {
  const Report report(command.json);
  if (const Status status = report.Check(); !status.ok()) return Fail(status);
  ordered_json json = {{"version", EMLIO_VERSION}};
  // While nothing is served yet no peer can be at fault.
  const auto fail = [&](const Status& status) {
    const int exit_code = report.Finish(status, json);
    return exit_code == kExitUnreachable ? kExitFailed : exit_code;
  };
  auto datasets = ParseDatasets(command);
  if (!datasets.ok()) return fail(datasets.status());
  daemon::DaemonOptions options = command.daemon;
  options.datasets = *std::move(datasets);
  // One of an earlier life would tell that this one is ready.
  if (!command.ready_file.empty()) unlink(command.ready_file.c_str());

  options.boot_id = energy::BootId(command.energy_root);
  ServeEnergy energy;
  if (command.energy && !command.check) {
    auto started = StartEnergy(command);
    if (!started.ok()) return fail(started.status());
    energy = *std::move(started);
  }
  if (energy.agent != nullptr) {
    options.observer = std::make_shared<energy::EpochObserver>(energy.monitor);
    options.energy_port = energy.agent->port();
  }
  std::unique_ptr<daemon::Daemon> daemon;
  {
    const InterruptFlag interrupt;
    ProgressBar bar("indexing", "shards");
    for (dataset::DatasetOptions& data : options.datasets) {
      data.is_interrupted = &InterruptFlag::IsSet;
      data.progress = [&bar](const dataset::Progress& progress) {
        bar.Update({.items_done = progress.shards_done,
                    .items_total = progress.shards_total,
                    .bytes_done = progress.bytes_done,
                    .bytes_total = progress.bytes_total});
      };
    }
    auto started = daemon::Daemon::Start(options);
    if (!started.ok()) return InterruptFlag::ExitCode(fail(started.status()));
    daemon = *std::move(started);
  }
  PrintConfiguration(command, options, *daemon, energy);
  if (command.check) {
    Say("emlio: configuration and data are good (--check)\n");
    return report.Finish(OkStatus(), std::move(json));
  }

  SignalWaiter signals;
  if (!command.ready_file.empty()) {
    if (const Status status = WriteReadyFile(command.ready_file, daemon->endpoint());
        !status.ok()) {
      return fail(status.WithContext("--ready-file"));
    }
  }
  Say("emlio: serving on {}\n", daemon->endpoint());
  bool cut_off = false;
  const Status end = ServeUntilStopped(*daemon, signals, command.drain_ms, &cut_off);
  if (!command.ready_file.empty()) unlink(command.ready_file.c_str());
  json["endpoint"] = daemon->endpoint();
  json["served"] = ServedJson(daemon->stats());
  json["energy"] = FinishEnergy(&energy);
  const int exit_code = report.Finish(end, std::move(json));
  if (cut_off) return kExitCutOff;
  return exit_code == kExitOk ? kExitOk : kExitFailed;
}

}  // namespace emlio::tool
