// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "emlio/base/status.h"
#include "emlio/energy/monitor.h"
#include "emlio/energy/run.h"
#include "emlio/energy_agent/messages.h"

namespace emlio::energy_agent {

// The clocks of a host; tests replace them.
struct HostClocks {
  std::function<energy::Moment()> read_moment = &energy::ReadMoment;
  std::function<energy::ClockReading()> read_clock;  // empty: energy::ReadClock
};

struct AgentOptions {
  // "host:port"; port 0 takes a free one. A host that is not loopback is kPermissionDenied unless
  // `insecure` is set: there are no keys.
  std::string bind = "127.0.0.1:0";
  bool insecure = false;
  std::string role;     // of this host in runs: "storage", "compute"
  std::string boot_id;  // empty: that of the monitored host
  std::string root = "/";
  std::string facts;  // of the machine, for the records of coordinators: a JSON
                      // object, or empty
  HostClocks clocks;
  // What the host's sinks delivered and lost, for the same; on the agent's thread. Empty: nothing.
  std::function<std::vector<energy::SinkReport>()> sinks;
  // A client told where its data come from. On the agent's thread.
  std::function<void(const Peer& peer)> on_peer;
};

// Answers coordinators with what a monitor measures (AGENT.md), on a thread of its own.
class Agent {
 public:
  static Result<std::unique_ptr<Agent>> Start(std::shared_ptr<energy::Monitor> monitor,
                                              AgentOptions options);
  // Ends connections; the monitor goes on.
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  const std::string& endpoint() const;  // "tcp://127.0.0.1:40123"
  uint16_t port() const;

 private:
  class Impl;
  explicit Agent(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace emlio::energy_agent
