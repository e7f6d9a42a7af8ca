// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "emlio/base/observer.h"
#include "emlio/base/status.h"
#include "emlio/dataset/dataset.h"
#include "emlio/transport/transport.h"

namespace emlio::daemon {

struct DaemonOptions {
  // "host:port"; port 0 takes a free one. A host that is not loopback is kPermissionDenied unless
  // `insecure` is set: there are no keys yet, whoever can connect can read.
  std::string bind = "127.0.0.1:0";
  bool insecure = false;
  std::vector<dataset::DatasetOptions> datasets;  // at least one; names differ
  // If not empty, every shard must lie below one of these directories (after resolving links);
  // others are kPermissionDenied.
  std::vector<std::string> roots;
  uint64_t send_buffer_bytes = uint64_t{256} << 20;  // gathered, not yet taken by the kernel; all
                                                     // sessions together
  uint32_t max_chunk_bytes = uint32_t{1} << 20;      // up to 4 MiB
  uint32_t first_chunk_bytes = uint32_t{256} << 10;  // chunks of a session double from here
  // How far ahead of what was sent records are read from storage, a session. 0: not at all.
  uint64_t read_ahead_bytes = uint64_t{32} << 20;
  // How far all sessions together, who share it alike. 0: an eighth of the memory that the process
  // may use, beyond which what was read ahead would be thrown out before it is sent.
  uint64_t total_read_ahead_bytes = 0;
  // 0: the number of processors, at most 4. At most kMaxThreads; fewer when the system has no more.
  int gather_threads = 0;
  int64_t peer_silence_ms = 60'000;  // a receiver that says nothing for so long is given up
  size_t max_sessions = 4096;
  // Told of the epochs of every session. May be null.
  std::shared_ptr<Observer> observer;
  // Where the agent that measures this host's energy listens; receivers are told. 0: none.
  uint16_t energy_port = 0;
  // Of this host; receivers are told which host it is. Empty: they are not.
  std::string boot_id;
};

// Counters since Start; they only grow, except the "now" ones.
struct DaemonStats {
  uint64_t sessions_opened = 0;
  uint64_t sessions_now = 0;
  uint64_t epochs_ended = 0;
  uint64_t chunks_sent = 0;
  uint64_t records_sent = 0;
  uint64_t payload_bytes_sent = 0;
  uint64_t records_resent = 0;
  uint64_t records_skipped = 0;
  uint64_t send_buffer_bytes_now = 0;
  uint64_t protocol_errors = 0;
};

// Serves data sets to receivers: the storage side. Start opens everything and returns with the
// port bound; Shutdown refuses new sessions, lets running ones finish until the deadline, ends the
// rest with an Error, and joins. The destructor is Shutdown(0). All methods are thread-safe.
class Daemon {
 public:
  static Result<std::unique_ptr<Daemon>> Start(DaemonOptions options);
  // The same over a listener and data sets that somebody else made (local paths in a loader,
  // tests). `bind`, `insecure`, `datasets` and `roots` of the options are ignored.
  static Result<std::unique_ptr<Daemon>> StartOn(
      std::unique_ptr<transport::Listener> listener,
      std::vector<std::shared_ptr<const dataset::Dataset>> datasets, DaemonOptions options);
  ~Daemon();

  const std::string& endpoint() const;  // "tcp://127.0.0.1:40123"
  std::vector<std::shared_ptr<const dataset::Dataset>> datasets() const;
  DaemonStats stats() const;
  // Blocks until Shutdown has ended, or a fault of the transport stopped the daemon (its status).
  Status Wait();
  // Ok when every session had ended by itself; kTimeout when some had to be cut off. Idempotent.
  Status Shutdown(int64_t deadline_ms);

 private:
  class Impl;
  explicit Daemon(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace emlio::daemon
