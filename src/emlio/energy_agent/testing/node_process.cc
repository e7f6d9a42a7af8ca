// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
// A node of a run: an agent on a host and with a clock of its own. Writes its endpoint, then
// answers until it is killed or its standard input ends.
//   emlio_energy_node NAME COUNTERS OFFSET_MS SYNCHRONISED
// COUNTERS: "two-sockets" (98 W) or "none". OFFSET_MS: how far its wall clock is ahead.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "emlio/energy/clock_state.h"
#include "emlio/energy/testing/live_host.h"
#include "emlio/energy_agent/agent.h"

int main(int argc, char** argv) {
  using namespace emlio;
  if (argc != 5) return 2;
  const int64_t offset_ns = std::atoll(argv[3]) * kNsPerMs;
  const bool synchronised = std::strcmp(argv[4], "yes") == 0;
  std::unique_ptr<energy::testing::LiveHost> live;
  energy::testing::FakeHost bare;
  energy::MonitorOptions options;
  options.host = bare.host;
  if (std::strcmp(argv[2], "two-sockets") == 0) {
    live = std::make_unique<energy::testing::LiveHost>();
    options.host = live->host();
  }
  options.interval_ns = 50 * kNsPerMs;
  options.node = argv[1];
  auto monitor = energy::Monitor::Start(std::move(options));
  if (!monitor.ok()) return 1;
  energy_agent::AgentOptions agent_options;
  agent_options.role = "storage";
  agent_options.boot_id = fmt::format("boot-of-{}", argv[1]);
  agent_options.clocks.read_moment = [offset_ns] {
    energy::Moment moment = energy::ReadMoment();
    moment.wall_ns += offset_ns;
    return moment;
  };
  agent_options.clocks.read_clock = [offset_ns, synchronised] {
    energy::ClockReading reading = energy::ReadClock();
    reading.at.wall_ns += offset_ns;
    reading.offset_ns = offset_ns;
    reading.synchronised = synchronised;
    return reading;
  };
  auto agent = energy_agent::Agent::Start(*std::move(monitor), std::move(agent_options));
  if (!agent.ok()) return 1;
  const std::string line = (*agent)->endpoint() + "\n";
  if (write(STDOUT_FILENO, line.data(), line.size()) < 0) return 1;
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return 0;
}
