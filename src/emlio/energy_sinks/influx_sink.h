// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emlio/base/clock.h"
#include "emlio/base/status.h"
#include "emlio/base/thread_owner.h"
#include "emlio/energy/run.h"

namespace emlio::energy_sinks {

enum class InfluxVersion { kV1, kV2, kV3 };
// "1", "2" or "3".
Result<InfluxVersion> ParseInfluxVersion(std::string_view name);

struct InfluxOptions {
  InfluxVersion version = InfluxVersion::kV2;
  std::string url;               // "http://127.0.0.1:8086"; a path in front of the API's is kept
  std::string database;          // versions 1 and 3
  std::string retention_policy;  // version 1; empty: the database's own
  std::string user;              // version 1; empty: nobody
  std::string password;          // version 1
  std::string organisation;      // version 2
  std::string bucket;            // version 2
  std::string token;             // versions 2 and 3; empty: none

  size_t max_lines = 5'000;                  // of one request
  int64_t flush_interval_ns = kNsPerSecond;  // what is there by then is sent
  // Points that may wait, some 10 MB: beyond it the oldest are dropped and counted.
  size_t max_waiting_points = 100'000;
  int64_t connect_timeout_ms = 5'000;
  int64_t timeout_ms = 10'000;
  // After the first failure, doubled with each further one; Retry-After comes before both.
  int64_t min_backoff_ns = kNsPerSecond;
  int64_t max_backoff_ns = 60 * kNsPerSecond;
  // When it ends: how long it still tries to send what waits.
  int64_t close_timeout_ns = 5 * kNsPerSecond;
};

// Sends one node's samples to InfluxDB, or to what speaks its line protocol, on a thread of its own
// (METRICS.md section 10). Neither a slow nor a dead database delays who appends. All functions are
// thread-safe. What was dropped can be had from a store of the run, where the caller keeps one.
class InfluxSink {
 public:
  // kInvalidArgument: options that can never work. Whether the database is there shows later.
  static Result<std::unique_ptr<InfluxSink>> Start(InfluxOptions options, const std::string& run,
                                                   const std::string& node,
                                                   std::vector<energy::Domain> domains);
  ~InfluxSink();
  InfluxSink(const InfluxSink&) = delete;
  InfluxSink& operator=(const InfluxSink&) = delete;

  // REQUIRES: a sample for each domain.
  void Append(int64_t wall_ns, std::span<const energy::Sample> samples);
  // Waits until all that was appended before was sent, refused or dropped.
  Status Flush(int64_t timeout_ns);
  // Tries for close_timeout_ns to send what waits, drops the rest, and ends: Report is final then.
  // What is appended later is dropped, too. Again: nothing.
  void Close();
  // For RunStore::ReportSink.
  energy::SinkReport Report() const;

 private:
  struct Shared;
  explicit InfluxSink(std::unique_ptr<Shared> shared);
  ThreadOwner<Shared> shared_;
};

}  // namespace emlio::energy_sinks
