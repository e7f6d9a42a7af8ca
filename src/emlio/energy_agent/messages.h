// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "emlio/base/status.h"
#include "emlio/energy/activity.h"
#include "emlio/energy/monitor.h"
#include "emlio/energy/run.h"

// The messages of AGENT.md and their codec.
namespace emlio::energy_agent {

inline constexpr uint32_t kMinVersion = 1;
inline constexpr uint32_t kVersion = 2;
inline constexpr uint32_t kWindowFiguresVersion = 2;  // from here on there is GetWindow
inline constexpr size_t kMaxMessageBytes = size_t{4} << 20;
inline constexpr size_t kMaxElements = 4096;
inline constexpr size_t kMaxTextBytes = 4096;
inline constexpr size_t kMaxWindowsAMessage = 256;

struct Hello {
  uint32_t min_version = kMinVersion;
  uint32_t max_version = kVersion;
  std::string agent;
};
struct Welcome {
  uint32_t version = kVersion;
  std::string node;
  std::string boot_id;
  std::string role;
  int64_t interval_ns = 0;
  std::vector<energy::Domain> domains;
  std::vector<energy::Absence> absent;
  std::string facts;  // of the machine: a JSON object, or empty
};
struct Probe {
  uint64_t nonce = 0;
};
struct Probed {
  uint64_t nonce = 0;
  energy::Moment at;
};
struct StartRun {
  std::string run;
  int64_t ago_ns = 0;
  std::string name;
  std::string stage;
};
struct Started {
  std::string run;
  energy::Moment at;
  int64_t begin_ns = 0;
  energy::ClockReading clock;
};
struct Look {
  std::string run;
  bool stop = false;
  uint64_t after = 0;
};
struct Figures {
  std::string run;
  energy::Moment at;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  bool stopped = false;
  std::vector<energy::Energy> energies;  // in the order of Welcome.domains
  // The mean of the last second, of each domain; none: not known.
  std::vector<std::optional<double>> watts;
  energy::ClockReading clock;
  std::vector<energy::WindowReport> windows;  // without totals, which follow from the rest
  bool more = false;
  energy::SamplerStats stats;
  energy::Activity proxies;
  std::vector<energy::SinkReport> sinks;
};
struct Window {
  uint64_t key = 0;
  energy::WindowLabel label;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  energy::WindowWork work;
};
struct Peer {
  bool unmeasured = false;  // its host has no agent: `endpoint` is that of what gives the data
  std::string endpoint;
  std::string boot_id{};  // of its host, if it is unmeasured and told
};
struct Error {
  Code code = Code::kInternal;
  std::string text;
  std::string run;
};
struct GetTicks {
  std::string run;
  uint64_t from = 0;  // the number of a tick; 0: from some before the run's begin
};
// Bytes that are no text.
struct Blob {
  std::string bytes;
};
struct Ticks {
  std::string run;
  uint64_t first = 0;  // the number of the first tick
  uint64_t next = 0;   // the number behind the last one
  Blob data;           // METRICS.md section 9; empty: there are none
  bool more = false;   // others can be had at once
  bool last = false;   // the run has ended, and with these all that matter to it are told
};
// What did a window of this client use, up to now if it is open?
struct GetWindow {
  uint64_t nonce = 0;
  uint64_t key = 0;  // Window::key
};
struct WindowFigures {
  uint64_t nonce = 0;
  bool found = false;           // false: it is not known, or forgotten
  energy::WindowReport window;  // without its total, which follows from Welcome.domains
};

using AnyMessage = std::variant<Hello, Welcome, Probe, Probed, StartRun, Started, Look, Figures,
                                Window, Peer, Error, GetTicks, Ticks, GetWindow, WindowFigures>;

// kUnsupported unless the agent chose a version that this program speaks.
Status CheckVersion(const Welcome& welcome);

// Texts that are too long or no UTF-8 are cut, and more elements than allowed are left out: what is
// written can be read, as long as it is no longer than kMaxMessageBytes.
std::vector<uint8_t> Encode(const AnyMessage& message);
// kProtocol, or kUnsupported for an unknown type. Reads any bytes; allocates no more than their
// size warrants.
Result<AnyMessage> Decode(std::span<const uint8_t> bytes);

}  // namespace emlio::energy_agent
