// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emlio/base/clock.h"
#include "emlio/base/mutex.h"
#include "emlio/daemon/control_connection.h"
#include "emlio/daemon/daemon.h"
#include "emlio/daemon/gather.h"
#include "emlio/daemon/merged_manifests.h"
#include "emlio/daemon/read_ahead.h"
#include "emlio/dataset/manifest.h"
#include "emlio/session/sender.h"
#include "emlio/session/stream_tuner.h"
#include "emlio/transport/transport.h"
#include "emlio/wire/messages.h"

namespace emlio::daemon {

// What outlives the router because a transport may still hold buffers: counts what was gathered
// and not sent yet, and wakes the router when that changes.
class SendBudget {
 public:
  explicit SendBudget(transport::Listener* listener) : listener_(listener) {}
  void Add(uint64_t bytes) { bytes_ += bytes; }
  uint64_t bytes() const { return bytes_; }
  // From any thread: `bytes` were sent. The listener's own thread needs no waking: it looks at what
  // became free when it comes back from the listener.
  void Release(uint64_t bytes) EMLIO_EXCLUDES(mu_) {
    bytes_ -= bytes;
    if (std::this_thread::get_id() != runs_on_) Wake();
  }
  // Before anything was added: the thread that calls the listener.
  void RunsOnThisThread() { runs_on_ = std::this_thread::get_id(); }
  void Wake() EMLIO_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (listener_ != nullptr) listener_->Wake();
  }
  // The listener goes away.
  void Detach() EMLIO_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    listener_ = nullptr;
  }

 private:
  std::atomic<uint64_t> bytes_{0};
  std::thread::id runs_on_;
  Mutex mu_;
  transport::Listener* listener_ EMLIO_GUARDED_BY(mu_);
};

// The daemon's brain: owns the listener and all sessions, runs on one thread. Messages and gathered
// chunks come in, chunks and answers go out; copying is left to the gather threads.
class Router {
 public:
  Router(std::unique_ptr<transport::Listener> listener,
         std::map<std::string, std::shared_ptr<const dataset::Dataset>> datasets,
         const DaemonOptions& options);
  ~Router();

  // Runs until Stop; the status of a transport that failed. On the router thread.
  Status Run();
  // From any thread. Refuses new sessions; Run returns once the running ones have ended or the
  // deadline (of SystemClock) has passed, having told the rest.
  void Stop(int64_t deadline_ns);
  const std::string& endpoint() const { return endpoint_; }
  DaemonStats stats() const EMLIO_EXCLUDES(stats_mu_);
  // After Run: whether every session had ended by itself.
  bool all_ended() const { return all_ended_; }

 private:
  struct Session;
  struct Stream;

  void Handle(transport::Event event);
  void HandleControl(ControlConnection* control, const wire::AnyMessage& message);
  void OnHello(transport::ConnectionId from, const wire::Hello& hello);
  void OnDescribe(ControlConnection* control, const wire::Describe& describe);
  void OnOpen(ControlConnection* control, const wire::Open& open);
  Result<std::shared_ptr<Session>> OpenSession(ControlConnection* control, const wire::Open& open,
                                               bool* need_manifest);
  void OnJoin(transport::ConnectionId from, const wire::Join& join);
  void OnLost(transport::ConnectionId connection);
  void Unbind(transport::ConnectionId data_connection);

  bool Schedule();
  std::shared_ptr<Session> NextSession(wire::OpenId* turn) const;
  session::Sender::NextResult ScheduleOne(const std::shared_ptr<Session>& session,
                                          size_t active_sessions);
  void TuneStreams(int64_t now_ns);
  void ReadAheadOf(Session* session);
  bool MaySendFiles(const Session& session, const session::ChunkJob& job) const;
  bool MayGather(const Session& session, size_t active_sessions) const;
  void SendDone(std::unique_ptr<GatherTask> task);
  void CountBadRecord(const Status& what);
  void FlushOutbox(Session* session);
  void SendTo(transport::ConnectionId to, const wire::AnyMessage& message);
  void SendBacklog(Stream* stream);
  void RetryBacklogs();
  void EndSession(wire::OpenId open_id, const Status& reason);
  void DropControl(transport::ConnectionId connection);
  void CheckSilence(int64_t now_ns);
  void ForgetLingering(int64_t now_ns);

  const DaemonOptions options_;
  const std::map<std::string, std::shared_ptr<const dataset::Dataset>> datasets_;
  std::unique_ptr<transport::Listener> listener_;
  const std::string endpoint_;
  Hash128 run_id_{};
  std::shared_ptr<SendBudget> budget_;

  std::unordered_map<transport::ConnectionId, std::unique_ptr<ControlConnection>> controls_;
  std::unordered_map<transport::ConnectionId, std::pair<wire::OpenId, uint32_t>> data_;
  std::map<wire::OpenId, std::shared_ptr<Session>> sessions_;
  struct Lingering {
    std::shared_ptr<std::atomic<int>> unsent;
    int64_t deadline_ns = 0;
  };
  std::unordered_map<transport::ConnectionId, Lingering> lingering_;  // of sessions that ended
  wire::OpenId next_turn_ = 0;                                        // round robin
  wire::OpenId next_search_ = 0;  // likewise, of those that search
  MergedManifests merged_;
  // (job, loader) -> plan hash and the number of open sessions that hold it.
  std::map<std::pair<std::string, std::string>, std::pair<Hash128, int>> jobs_;
  uint64_t gathering_bytes_ = 0;  // submitted, not done
  const uint64_t send_window_bytes_;
  int64_t next_tuning_ns_ = 0;
  std::vector<session::StreamState> link_scratch_;
  std::vector<plan::PlannedRecord> ahead_scratch_;
  GatherScratch gather_scratch_;

  std::atomic<int64_t> stop_deadline_ns_{-1};
  bool all_ended_ = true;
  mutable Mutex stats_mu_;
  DaemonStats stats_ EMLIO_GUARDED_BY(stats_mu_);
  std::unique_ptr<ReadAhead> read_ahead_;  // null: the options say so
  std::unique_ptr<GatherPool> gather_;     // last: its threads wake us through budget_
};

}  // namespace emlio::daemon
