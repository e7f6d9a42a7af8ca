// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "emlio/base/mutex.h"
#include "emlio/base/status.h"
#include "emlio/base/thread.h"
#include "emlio/daemon/manifest_pages.h"
#include "emlio/dataset/manifest.h"
#include "emlio/session/stream_tuner.h"
#include "emlio/transport/transport.h"
#include "emlio/wire/messages.h"

namespace emlio::loader {

struct SourceClientOptions {
  std::string endpoint;  // "tcp://host:port"
  std::string dataset;
  uint32_t streams = 0;  // 0: as many as round-trip time and rate ask for
  uint32_t sharers = 1;  // loaders that do this one's work together: each has its part of them
  int64_t connect_timeout_ms = 60'000;
  int64_t peer_silence_ms = 10'000;
};

// The connections to one daemon and the thread that serves them: it shakes hands, fetches the
// manifest, joins streams, keeps the daemon's pings answered and never stops reading the data
// connections. What is behind a message is the owner's business: it is called back, on this thread.
// The public methods may be called from any thread.
class SourceClient {
 public:
  // All run on the client's thread and must return soon, except OnChunk, which may wait for room.
  class Owner {
   public:
    virtual ~Owner() = default;
    // A message of a data connection, still encoded.
    virtual void OnChunk(size_t source, transport::Message message) = 0;
    // Skip, EpochEnd, Opened or an Error that names a session.
    virtual void OnMessage(size_t source, wire::AnyMessage message) = 0;
    // The manifest came; called once.
    virtual void OnManifest(size_t source) = 0;
    // What was measured since the last time, a few times a second while data come; the round trip
    // is the least of the last minutes.
    virtual void OnRate(size_t source, double bytes_per_s, int64_t round_trip_ns) = 0;
    // The source cannot be used any more: nothing else will come from it.
    virtual void OnFailed(size_t source, Status reason) = 0;
  };

  // `owner` outlives the client. `index` is how the owner knows it.
  SourceClient(size_t index, std::unique_ptr<transport::Dialer> dialer, SourceClientOptions options,
               Owner* owner);
  // Starts to connect. REQUIRES: called once; the owner knows the client by now.
  Status Start();
  ~SourceClient();  // leaves within moments, whatever the peer does

  // "tcp://host:port/dataset", for messages.
  const std::string& name() const { return name_; }
  // REQUIRES: OnManifest was called.
  const dataset::Manifest& manifest() const { return manifest_; }

  // "tcp://host:port" of the agent that measures the daemon's host; empty: it told of none.
  std::string energy_agent() const;
  // "tcp://host:port" of the daemon, and the boot id of its host; empty: it did not tell.
  const std::string& endpoint() const { return options_.endpoint; }
  const std::string& boot_id() const { return boot_id_; }

  // Opens a session: sends Open, supplies `merged` if the daemon asks for it, and joins the streams
  // once Opened has come. The session before it, if any, is closed.
  void Open(wire::Open open, std::shared_ptr<const dataset::Manifest> merged) EMLIO_EXCLUDES(mu_);
  // Sends on the control connection, after what was sent before.
  void Send(wire::AnyMessage message) EMLIO_EXCLUDES(mu_);

 private:
  // Millions of shards. Against a daemon that is none.
  static constexpr uint64_t kMaxManifestBytes = uint64_t{1} << 30;

  struct Stream {
    transport::ConnectionId connection = 0;
    bool connected = false;
    wire::OpenId joined = 0;
    // Joined before the daemon said that the session is open: it may not have been yet.
    bool joined_early = false;
  };
  // What other threads have asked for.
  struct Command {
    wire::AnyMessage message;
    std::shared_ptr<const dataset::Manifest> merged;  // with Open
  };

  void Run(std::stop_token stop);
  Status Connect();
  Status Handle(transport::Event event);
  Status HandleControl(wire::AnyMessage message);
  Status TakeCommands() EMLIO_EXCLUDES(mu_);
  Status SendControl(const wire::AnyMessage& message);
  Status DialStreams(uint32_t count);
  Status DialByDistance();
  Status JoinStreams();
  Status OnJoinRefused(Stream* stream, const wire::Error& error);
  Status Measure(int64_t now_ns);
  // The least: the smoothed one includes answers that the peer's kernel holds back.
  int64_t RoundTripNs() const;
  // How long this thread may sleep.
  int PollMs() const;
  Status CheckLiveness(int64_t now_ns);

  const size_t index_;
  const SourceClientOptions options_;
  const std::string name_;
  Owner* const owner_;
  const std::unique_ptr<transport::Dialer> dialer_;

  // Only on the client's thread.
  transport::ConnectionId control_ = 0;
  bool control_connected_ = false;
  bool described_ = false;
  std::vector<Stream> streams_;
  std::unordered_map<transport::ConnectionId, size_t> stream_of_;
  std::deque<transport::Message> backlog_;  // control messages that wait for room
  wire::Open open_;                         // the newest
  bool opened_ = false;
  int64_t join_at_ns_ = 0;  // from when on Joins do not wait for Opened; 0: they do
  std::shared_ptr<const dataset::Manifest> merged_;
  daemon::ManifestAssembler assembler_{kMaxManifestBytes};
  dataset::Manifest manifest_;
  uint16_t energy_port_ = 0;
  std::string boot_id_;
  // A Join was answered by an Error. The session has ended then, and the control connection tells
  // why; this is what is said if it does not.
  wire::Error join_refused_;
  int64_t join_refused_at_ns_ = 0;
  int64_t last_heard_ns_ = 0;
  int64_t last_ping_ns_ = 0;
  uint64_t pings_ = 0;

  session::StreamDialing dialing_;
  int64_t measured_at_ns_ = 0;
  uint64_t measured_bytes_ = 0;  // of payload, since

  Mutex mu_;
  std::vector<Command> commands_ EMLIO_GUARDED_BY(mu_);
  Thread thread_;  // last: it uses all of the above
};

}  // namespace emlio::loader
