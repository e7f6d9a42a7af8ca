// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/transport/zmq_dialer.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "emlio/base/clock.h"
#include "emlio/base/mutex.h"
#include "emlio/base/thread.h"
#include "emlio/transport/poll_timeout.h"
#include "emlio/transport/tcp_link.h"
#include "emlio/transport/waker.h"
#include "emlio/transport/zmq_socket.h"

namespace emlio::transport {
namespace {

constexpr size_t kMaxEvents = 64;
// A share for each connection, so that one busy stream does not hold up the others.
constexpr size_t kMaxEventsPerConnection = 16;
// libzmq announces the end of a connection, and then, after handing over the last messages, that it
// will connect anew: unless it ended the connection itself because of what the peer sent. That the
// second announcement does not come within this time is the only sign of it.
constexpr int64_t kProtocolVerdictNs = 100 * kNsPerMs;

// A name being resolved on a thread of its own.
class NameLookup {
 public:
  // The thread is detached and shares only this object: getaddrinfo cannot be interrupted, and
  // closing a dialer must not wait for a name server.
  static std::shared_ptr<NameLookup> Start(ResolveFunction resolve, HostPort address,
                                           std::shared_ptr<Waker> waker) {
    auto lookup = std::make_shared<NameLookup>();
    auto thread =
        Thread::Start("emlio-resolve", [lookup, resolve = std::move(resolve),
                                        address = std::move(address), waker](std::stop_token) {
          lookup->Put(resolve(address));
          waker->Wake();
        });
    if (thread.ok()) {
      thread->Detach();
    } else {
      lookup->Put(thread.status());
      waker->Wake();
    }
    return lookup;
  }
  std::optional<Result<std::vector<NumericAddress>>> Take() {
    MutexLock lock(mu_);
    return std::exchange(result_, std::nullopt);
  }

 private:
  void Put(Result<std::vector<NumericAddress>> result) {
    MutexLock lock(mu_);
    result_ = std::move(result);
  }

  Mutex mu_;
  std::optional<Result<std::vector<NumericAddress>>> result_ EMLIO_GUARDED_BY(mu_);
};

// One DEALER socket for each connection and attempt, never used again.
class ZmqDialer final : public Dialer {
 public:
  ZmqDialer(ZmqContext context, std::shared_ptr<Waker> waker, TransportOptions options,
            ResolveFunction resolve)
      : context_(std::move(context)),
        waker_(std::move(waker)),
        options_(options),
        resolve_(std::move(resolve)) {}
  ~ZmqDialer() override {
    // Here and not by the members' destructors: callbacks that still come may call Wake().
    connections_.clear();
    context_.Close();
  }

  Result<ConnectionId> Dial(const std::string& endpoint, int connect_deadline_ms) override;
  Status Poll(int timeout_ms, std::vector<Event>* events) override;
  SendResult Send(ConnectionId to, Message* message) override;
  void Close(ConnectionId connection) override { connections_.erase(connection); }
  std::optional<LinkState> StateOf(ConnectionId connection) const override;
  void Wake() override { waker_->Wake(); }

 private:
  enum class State { kResolving, kConnecting, kConnected, kEnding, kLost };
  struct Connection {
    ConnectionId id = 0;
    State state = State::kResolving;
    std::string endpoint;  // as the user wrote it
    int64_t deadline_ns = 0;
    int deadline_ms = 0;

    std::shared_ptr<NameLookup> lookup;
    std::vector<NumericAddress> addresses;  // still to be tried, the next one last
    std::string attempt;                    // the address being tried or connected
    int64_t attempt_deadline_ns = 0;
    std::unique_ptr<ZmqSocket> socket;
    bool handshake_cut = false;
    int fd = -1;  // of the TCP connection; libzmq's

    int64_t ending_since_ns = 0;
    Status loss;  // of the last attempt, or of the connection
  };

  void StartNextAttempt(Connection* connection);
  void FailAttempt(Connection* connection, Status reason);
  void CheckTimers(Connection* connection, int64_t now_ns);
  void ReadMonitor(Connection* connection, std::vector<Event>* events);
  void ReadMessages(Connection* connection, size_t limit, std::vector<Event>* events);
  static void Lose(Connection* connection, Status reason) {
    connection->state = State::kLost;
    connection->loss = std::move(reason);
    // What came before the loss may be there without poll() having said so yet.
    if (connection->socket != nullptr) connection->socket->readable = true;
  }
  static int64_t NextTimerNs(const Connection& connection);

  ZmqContext context_;
  const std::shared_ptr<Waker> waker_;
  const TransportOptions options_;
  const ResolveFunction resolve_;
  ConnectionId next_id_ = 1;
  std::map<ConnectionId, Connection> connections_;
  ConnectionId last_served_ = 0;
  bool was_full_ = false;
  bool has_reached_ = false;  // a peer's host since the last Poll returned
  std::vector<pollfd> fds_;
  ZmqSocket::Received received_;
};

Result<ConnectionId> ZmqDialer::Dial(const std::string& endpoint, int connect_deadline_ms) {
  EMLIO_ASSIGN_OR_RETURN(HostPort address, ParseDialEndpoint(endpoint));
  const ConnectionId id = next_id_++;
  Connection& connection = connections_[id];
  connection.id = id;
  connection.endpoint = endpoint;
  connection.deadline_ms = std::max(connect_deadline_ms, 0);
  connection.deadline_ns = SystemClock().NowNs() + int64_t{connection.deadline_ms} * kNsPerMs;
  if (auto numeric = Resolve(address, Lookup::kNumericOnly); numeric.ok()) {
    connection.addresses = *std::move(numeric);
    StartNextAttempt(&connection);
  } else {
    connection.lookup = NameLookup::Start(resolve_, std::move(address), waker_);
  }
  return id;
}

void ZmqDialer::StartNextAttempt(Connection* connection) {
  while (!connection->addresses.empty()) {
    // An address that swallows everything must leave time for the others.
    const int64_t now_ns = SystemClock().NowNs();
    const int64_t left_ns = std::max<int64_t>(connection->deadline_ns - now_ns, 0);
    connection->attempt_deadline_ns =
        now_ns + left_ns / static_cast<int64_t>(connection->addresses.size());
    const NumericAddress address = std::move(connection->addresses.back());
    connection->addresses.pop_back();
    connection->attempt = address.endpoint;
    connection->handshake_cut = false;
    connection->state = State::kConnecting;
    auto socket = ZmqSocket::Open(context_, ZmqSocket::Role::kDealer, options_, address.ipv6);
    if (!socket.ok()) return Lose(connection, socket.status());
    connection->socket = *std::move(socket);
    connection->fd = -1;
    const int error = connection->socket->Connect(address.endpoint);
    if (error == 0) return;
    connection->loss = Unavailable(
        ErrnoStatus(error, fmt::format("cannot connect to {}", address.endpoint)).message());
  }
  Lose(connection, connection->loss);
}

// Goes on with the next address, or gives the connection up with the last reason.
void ZmqDialer::FailAttempt(Connection* connection, Status reason) {
  connection->loss = std::move(reason);
  connection->socket.reset();
  StartNextAttempt(connection);
}

void ZmqDialer::CheckTimers(Connection* connection, int64_t now_ns) {
  switch (connection->state) {
    case State::kResolving:
      if (auto found = connection->lookup->Take()) {
        connection->lookup.reset();
        if (!found->ok()) return Lose(connection, found->status());
        connection->addresses = *std::move(*found);
        std::reverse(connection->addresses.begin(), connection->addresses.end());
        StartNextAttempt(connection);
      } else if (now_ns >= connection->deadline_ns) {
        Lose(connection, TimeoutError(fmt::format("the host name of {} was not resolved in {} ms",
                                                  connection->endpoint, connection->deadline_ms)));
      }
      return;
    case State::kConnecting:
      if (now_ns < connection->attempt_deadline_ns) return;
      return FailAttempt(connection, TimeoutError(fmt::format(
                                         "{} did not answer within the connect deadline of {} ms",
                                         connection->attempt, connection->deadline_ms)));
    case State::kEnding:
      if (now_ns - connection->ending_since_ns < kProtocolVerdictNs) return;
      return Lose(connection,
                  LimitExceeded(fmt::format(
                      "{} sent a frame larger than {} bytes, or bytes that are not ZMTP",
                      connection->attempt, options_.max_frame_bytes)));
    case State::kConnected:
    case State::kLost:
      return;
  }
}

int64_t ZmqDialer::NextTimerNs(const Connection& connection) {
  switch (connection.state) {
    case State::kResolving:
      return connection.deadline_ns;
    case State::kConnecting:
      return connection.attempt_deadline_ns;
    case State::kEnding:
      return connection.ending_since_ns + kProtocolVerdictNs;
    case State::kConnected:
    case State::kLost:
      break;
  }
  return std::numeric_limits<int64_t>::max();
}

void ZmqDialer::ReadMonitor(Connection* connection, std::vector<Event>* events) {
  using Kind = MonitorEvent::Kind;
  while (connection->socket != nullptr && connection->socket->monitor_readable) {
    const MonitorEvent event = connection->socket->TakeMonitorEvent();
    const Kind kind = event.kind;
    const bool connecting = connection->state == State::kConnecting;
    switch (kind) {
      case Kind::kConnected:
        connection->fd = event.fd;
        PrepareToSend(event.fd);
        has_reached_ = true;
        break;
      case Kind::kHandshakeSucceeded: {
        if (!connecting) break;
        connection->state = State::kConnected;
        connection->addresses.clear();
        Event connected;
        connected.kind = Event::Kind::kConnected;
        connected.connection = connection->id;
        events->push_back(std::move(connected));
        break;
      }
      case Kind::kHandshakeCut:
        connection->handshake_cut = true;
        break;
      case Kind::kHandshakeMismatch:
        FailAttempt(connection, ProtocolError(fmt::format(
                                    "{} speaks ZMTP, but its handshake is not one of EMLIO",
                                    connection->attempt)));
        break;
      case Kind::kDisconnected:
        if (connecting && connection->handshake_cut) {
          FailAttempt(connection,
                      Unavailable(fmt::format("{} closed the connection before the handshake was "
                                              "over; is it an EMLIO daemon?",
                                              connection->attempt)));
        } else if (connecting) {
          FailAttempt(connection,
                      ProtocolError(fmt::format("{} does not speak ZMTP 3; is it an EMLIO daemon?",
                                                connection->attempt)));
        } else if (connection->state == State::kConnected) {
          connection->state = State::kEnding;
          connection->ending_since_ns = SystemClock().NowNs();
        }
        break;
      case Kind::kGivenUp:
        if (connecting) {
          FailAttempt(connection, Unavailable(fmt::format(
                                      "cannot connect to {}: refused or unreachable; is the "
                                      "daemon running there?",
                                      connection->attempt)));
        } else if (connection->state != State::kLost) {
          Lose(connection,
               Unavailable(fmt::format("{} closed the connection", connection->attempt)));
        }
        break;
      case Kind::kNone:
      case Kind::kAccepted:
        break;
    }
  }
}

void ZmqDialer::ReadMessages(Connection* connection, size_t limit, std::vector<Event>* events) {
  while (connection->socket != nullptr && connection->socket->readable && events->size() < limit) {
    if (!connection->socket->TakeMessage(&received_)) continue;
    if (connection->state == State::kConnecting) {
      // The monitor spoke of the handshake before the message came.
      connection->socket->monitor_readable = true;
      ReadMonitor(connection, events);
    }
    if (received_.too_many_frames) {
      connection->socket.reset();
      return Lose(connection, ProtocolError(fmt::format("{} sent a message of more than two frames",
                                                        connection->attempt)));
    }
    Event event;
    event.connection = connection->id;
    event.message = std::move(received_.message);
    events->push_back(std::move(event));
  }
}

Status ZmqDialer::Poll(int timeout_ms, std::vector<Event>* events) {
  const PollTimeout timeout(timeout_ms);
  const size_t before = events->size();
  for (bool first = true;; first = false) {
    int wait_ms = timeout.LeftMs();
    if (was_full_) wait_ms = CapWait(wait_ms, kRetryFullMs);
    if (waker_->pending()) wait_ms = 0;
    fds_.assign(1, {waker_->fd(), POLLIN, 0});
    int64_t next_timer_ns = std::numeric_limits<int64_t>::max();
    for (const auto& [id, connection] : connections_) {
      next_timer_ns = std::min(next_timer_ns, NextTimerNs(connection));
      if (connection.state == State::kLost) wait_ms = 0;
      if (connection.socket == nullptr) continue;
      if (connection.socket->readable || connection.socket->monitor_readable) wait_ms = 0;
      fds_.push_back({connection.socket->fd(), POLLIN, 0});
      fds_.push_back({connection.socket->monitor_fd(), POLLIN, 0});
    }
    if (wait_ms != 0 && next_timer_ns != std::numeric_limits<int64_t>::max()) {
      const int64_t left_ns = std::max<int64_t>(next_timer_ns - SystemClock().NowNs(), 0);
      wait_ms = CapWait(wait_ms, (left_ns + kNsPerMs - 1) / kNsPerMs);
    }
    const int polled = ::poll(fds_.data(), fds_.size(), wait_ms);
    if (polled < 0 && errno != EINTR) return ErrnoStatus(errno, "poll in a dialer");
    const bool woken = fds_[0].revents != 0 || waker_->pending();
    if (woken) waker_->Drain();

    bool signalled = false;
    size_t next_fd = 1;
    for (auto& [id, connection] : connections_) {
      if (connection.socket == nullptr) continue;
      if (fds_[next_fd++].revents != 0) {
        connection.socket->readable = true;
        signalled = true;
      }
      if (fds_[next_fd++].revents != 0) connection.socket->monitor_readable = true;
    }

    const int64_t now_ns = SystemClock().NowNs();
    auto it = connections_.upper_bound(last_served_);
    for (size_t left = connections_.size(); left > 0; --left) {
      if (it == connections_.end()) it = connections_.begin();
      Connection& connection = it->second;
      ReadMonitor(&connection, events);
      CheckTimers(&connection, now_ns);
      const size_t size = events->size();
      const size_t limit = std::min(before + kMaxEvents, size + kMaxEventsPerConnection);
      ReadMessages(&connection, limit, events);
      if (events->size() > size) last_served_ = connection.id;
      if (connection.state == State::kLost &&
          (connection.socket == nullptr || !connection.socket->readable)) {
        // Everything that came before the loss has been delivered.
        Event event;
        event.kind = Event::Kind::kLost;
        event.connection = connection.id;
        event.reason = std::move(connection.loss);
        events->push_back(std::move(event));
        it = connections_.erase(it);
      } else {
        ++it;
      }
    }
    const bool retry = was_full_ && (signalled || !first);
    const bool reached = std::exchange(has_reached_, false);
    if (events->size() > before || woken || retry || reached || timeout.Over()) {
      was_full_ = false;
      return OkStatus();
    }
  }
}

SendResult ZmqDialer::Send(ConnectionId to, Message* message) {
  const auto it = connections_.find(to);
  if (it == connections_.end()) return SendResult::kGone;
  switch (it->second.state) {
    case State::kResolving:
    case State::kConnecting:
      return SendResult::kFull;
    case State::kEnding:
    case State::kLost:
      return SendResult::kGone;
    case State::kConnected:
      break;
  }
  const SendResult result = it->second.socket->Send(nullptr, message);
  if (result == SendResult::kFull) was_full_ = true;
  return result;
}

std::optional<LinkState> ZmqDialer::StateOf(ConnectionId connection) const {
  const auto it = connections_.find(connection);
  if (it == connections_.end() || it->second.socket == nullptr) return std::nullopt;
  return ReadLinkState(it->second.fd);
}

}  // namespace

Result<std::unique_ptr<Dialer>> DialZmqWith(TransportOptions options, ResolveFunction resolve) {
  EMLIO_ASSIGN_OR_RETURN(ZmqContext context, ZmqContext::Create(options.io_threads));
  EMLIO_ASSIGN_OR_RETURN(std::unique_ptr<Waker> waker, Waker::Create());
  return std::unique_ptr<Dialer>(std::make_unique<ZmqDialer>(std::move(context), std::move(waker),
                                                             options, std::move(resolve)));
}

Result<std::unique_ptr<Dialer>> DialZmq(TransportOptions options) {
  return DialZmqWith(options,
                     [](const HostPort& address) { return Resolve(address, Lookup::kNames); });
}

}  // namespace emlio::transport
