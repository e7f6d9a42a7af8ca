// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/transport/zmtp_dialer.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
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
#include "emlio/transport/descriptors.h"
#include "emlio/transport/epoll_set.h"
#include "emlio/transport/poll_timeout.h"
#include "emlio/transport/tcp_link.h"
#include "emlio/transport/waker.h"
#include "emlio/transport/zmtp_connection.h"

namespace emlio::transport {
namespace {

constexpr size_t kMaxEvents = 64;
// A share for each connection, so that one busy stream does not hold up the others.
constexpr size_t kMaxEventsPerConnection = 16;
constexpr size_t kReadBytes = size_t{4} << 20;
constexpr int kDialerDescriptors = 3;
// Frames that are not larger get memory that was used before, whose pages are there already.
constexpr size_t kSmallFrameBytes = size_t{64} << 10;
constexpr size_t kPooledFrameBytes = size_t{1} << 20;
constexpr size_t kPooledFrames = 64;
constexpr uint64_t kFirstFrameBytes = uint64_t{4} << 20;

constexpr uint64_t kWakerTag = 0;
constexpr ConnectionId kFirstId = 1;

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

// A DEALER of ZeroMQ for each connection, all on the thread of their owner.
class ZmtpDialer final : public Dialer {
 public:
  ZmtpDialer(EpollSet epoll, std::shared_ptr<Waker> waker, TransportOptions options,
             ResolveFunction resolve)
      : epoll_(std::move(epoll)),
        waker_(std::move(waker)),
        options_(options),
        resolve_(std::move(resolve)),
        frames_(kPooledFrameBytes, kPooledFrames) {
    epoll_.Add(waker_->fd(), EPOLLIN, kWakerTag);
  }

  Result<ConnectionId> Dial(const std::string& endpoint, int connect_deadline_ms) override;
  Status Poll(int timeout_ms, std::vector<Event>* events) override;
  SendResult Send(ConnectionId to, Message* message) override;
  void Close(ConnectionId connection) override { peers_.erase(connection); }
  std::optional<LinkState> StateOf(ConnectionId connection) const override;
  void Wake() override { waker_->Wake(); }

 private:
  enum class State { kResolving, kConnecting, kHandshaking, kConnected, kLost };
  struct Peer {
    State state = State::kResolving;
    std::string endpoint;  // as the user wrote it
    int64_t deadline_ns = 0;
    int deadline_ms = 0;

    std::shared_ptr<NameLookup> lookup;
    std::vector<NumericAddress> addresses;  // still to be tried, the next one last
    std::string attempt;                    // the address being tried or connected
    int64_t attempt_deadline_ns = 0;
    Descriptor connecting;
    std::unique_ptr<ZmtpConnection> connection;  // once TCP has connected

    bool watches_room = false;  // epoll tells when the kernel takes more
    bool is_listed = false;     // in visits_
    Status loss;                // of the last attempt, or of the connection
  };

  void StartNextAttempt(ConnectionId id, Peer* peer);
  Status StartConnecting(ConnectionId id, Peer* peer, const NumericAddress& address);
  void FailAttempt(ConnectionId id, Peer* peer, Status reason);
  void FinishConnecting(ConnectionId id, Peer* peer);
  void CheckTimers(ConnectionId id, Peer* peer, int64_t now_ns);
  void Read(ConnectionId id, Peer* peer, size_t limit, std::vector<Event>* events);
  void AfterWriting(ConnectionId id, Peer* peer);
  void OnEnded(ConnectionId id, Peer* peer);
  void Lose(ConnectionId id, Peer* peer, Status reason);
  void Visit(ConnectionId id, Peer* peer);
  static int64_t NextTimerNs(const Peer& peer);

  const EpollSet epoll_;
  const std::shared_ptr<Waker> waker_;
  const TransportOptions options_;
  const ResolveFunction resolve_;
  BufferPool frames_;
  ConnectionId next_id_ = kFirstId;
  std::map<ConnectionId, Peer> peers_;
  std::deque<ConnectionId> visits_;  // whose turns come
  bool has_reached_ = false;         // a peer's host since the last Poll returned
};

Result<ConnectionId> ZmtpDialer::Dial(const std::string& endpoint, int connect_deadline_ms) {
  EMLIO_ASSIGN_OR_RETURN(HostPort address, ParseDialEndpoint(endpoint));
  const ConnectionId id = next_id_++;
  Peer& peer = peers_[id];
  peer.endpoint = endpoint;
  peer.deadline_ms = std::max(connect_deadline_ms, 0);
  peer.deadline_ns = SystemClock().NowNs() + int64_t{peer.deadline_ms} * kNsPerMs;
  if (auto numeric = Resolve(address, Lookup::kNumericOnly); numeric.ok()) {
    peer.addresses = *std::move(numeric);
    StartNextAttempt(id, &peer);
  } else {
    peer.lookup = NameLookup::Start(resolve_, std::move(address), waker_);
  }
  return id;
}

void ZmtpDialer::StartNextAttempt(ConnectionId id, Peer* peer) {
  while (!peer->addresses.empty()) {
    // An address that swallows everything must leave time for the others.
    const int64_t now_ns = SystemClock().NowNs();
    const int64_t left_ns = std::max<int64_t>(peer->deadline_ns - now_ns, 0);
    peer->attempt_deadline_ns = now_ns + left_ns / static_cast<int64_t>(peer->addresses.size());
    const NumericAddress address = std::move(peer->addresses.back());
    peer->addresses.pop_back();
    peer->attempt = address.endpoint;
    peer->state = State::kConnecting;
    peer->loss = StartConnecting(id, peer, address);
    if (peer->loss.ok()) return;
  }
  Lose(id, peer, peer->loss);
}

Status ZmtpDialer::StartConnecting(ConnectionId id, Peer* peer, const NumericAddress& address) {
  EMLIO_RETURN_IF_ERROR(CheckDescriptorsLeft(1));
  Descriptor fd(
      ::socket(address.ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const auto failed = [&] {
    return Unavailable(
        ErrnoStatus(errno, fmt::format("cannot connect to {}", address.endpoint)).message());
  };
  if (fd.get() < 0) return failed();
  PrepareToSend(fd.get());
  PrepareToKeep(fd.get());
  const auto* where = reinterpret_cast<const sockaddr*>(&address.address.storage);
  if (::connect(fd.get(), where, address.address.size) != 0 && errno != EINPROGRESS) {
    return failed();
  }
  epoll_.Add(fd.get(), EPOLLOUT, id);
  peer->connecting = std::move(fd);
  return OkStatus();
}

// Goes on with the next address, or gives the connection up with the last reason.
void ZmtpDialer::FailAttempt(ConnectionId id, Peer* peer, Status reason) {
  peer->loss = std::move(reason);
  peer->connecting.Close();
  peer->connection.reset();
  StartNextAttempt(id, peer);
}

void ZmtpDialer::FinishConnecting(ConnectionId id, Peer* peer) {
  int error = 0;
  socklen_t size = sizeof(error);
  if (::getsockopt(peer->connecting.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
    error = errno;
  }
  if (error != 0) {
    return FailAttempt(
        id, peer,
        Unavailable(fmt::format("cannot connect to {}: {}; is the daemon running there?",
                                peer->attempt, std::strerror(error))));
  }
  has_reached_ = true;
  peer->state = State::kHandshaking;
  peer->watches_room = true;  // as it was added
  // Most frames are chunks, all of much the same size.
  peer->connection = std::make_unique<ZmtpConnection>(
      std::move(peer->connecting), "DEALER", "ROUTER", options_, [this](uint64_t frame_bytes) {
        return frame_bytes > kSmallFrameBytes && frame_bytes <= kPooledFrameBytes
                   ? frames_.Take()
                   : Buffer::Allocate(std::min(frame_bytes, kFirstFrameBytes));
      });
  peer->connection->Flush();
  AfterWriting(id, peer);
}

void ZmtpDialer::CheckTimers(ConnectionId id, Peer* peer, int64_t now_ns) {
  if (peer->state == State::kResolving) {
    if (auto found = peer->lookup->Take()) {
      peer->lookup.reset();
      if (!found->ok()) return Lose(id, peer, found->status());
      peer->addresses = *std::move(*found);
      std::reverse(peer->addresses.begin(), peer->addresses.end());
      StartNextAttempt(id, peer);
    } else if (now_ns >= peer->deadline_ns) {
      Lose(id, peer,
           TimeoutError(fmt::format("the host name of {} was not resolved in {} ms", peer->endpoint,
                                    peer->deadline_ms)));
    }
  } else if (now_ns >= NextTimerNs(*peer)) {
    FailAttempt(id, peer,
                TimeoutError(fmt::format("{} did not answer within the connect deadline of {} ms",
                                         peer->attempt, peer->deadline_ms)));
  }
}

int64_t ZmtpDialer::NextTimerNs(const Peer& peer) {
  switch (peer.state) {
    case State::kResolving:
      return peer.deadline_ns;
    case State::kConnecting:
    case State::kHandshaking:
      return peer.attempt_deadline_ns;
    case State::kConnected:
    case State::kLost:
      break;
  }
  return std::numeric_limits<int64_t>::max();
}

void ZmtpDialer::Lose(ConnectionId id, Peer* peer, Status reason) {
  peer->state = State::kLost;
  peer->loss = std::move(reason);
  peer->connecting.Close();
  peer->connection.reset();
  Visit(id, peer);
}

// Has a peer looked at at its turn: those that epoll tells of, those that may have more than fitted
// into their last turn, and those that ended otherwise.
void ZmtpDialer::Visit(ConnectionId id, Peer* peer) {
  if (std::exchange(peer->is_listed, true)) return;
  visits_.push_back(id);
}

// Everything that came before has been delivered.
void ZmtpDialer::OnEnded(ConnectionId id, Peer* peer) {
  const Status& ended = peer->connection->ended();
  if (peer->state == State::kHandshaking) {
    if (ended.code() == Code::kUnavailable) {
      return FailAttempt(id, peer,
                         Unavailable(fmt::format("{} closed the connection before the handshake "
                                                 "was over; is it an EMLIO daemon?",
                                                 peer->attempt)));
    }
    return FailAttempt(id, peer,
                       ProtocolError(fmt::format("{}: {}; is it an EMLIO daemon?", peer->attempt,
                                                 ended.message())));
  }
  Lose(id, peer, ended.WithContext(peer->attempt));
}

void ZmtpDialer::Read(ConnectionId id, Peer* peer, size_t limit, std::vector<Event>* events) {
  ZmtpConnection& connection = *peer->connection;
  size_t budget = kReadBytes;
  limit = std::min(limit, events->size() + kMaxEventsPerConnection);
  while (events->size() < limit) {
    std::optional<Message> message = connection.Receive(&budget);
    if (peer->state == State::kHandshaking && connection.is_open()) {
      peer->state = State::kConnected;
      peer->addresses.clear();
      Event& connected = events->emplace_back();
      connected.kind = Event::Kind::kConnected;
      connected.connection = id;
    }
    if (!message.has_value()) break;
    Event& event = events->emplace_back();
    event.connection = id;
    event.message = *std::move(message);
  }
  if (connection.may_have_more()) Visit(id, peer);
  AfterWriting(id, peer);  // answers to its questions
  if (!connection.ended().ok()) OnEnded(id, peer);
}

void ZmtpDialer::AfterWriting(ConnectionId id, Peer* peer) {
  const ZmtpConnection& connection = *peer->connection;
  if (!connection.ended().ok()) return Visit(id, peer);
  if (connection.wants_to_write() == peer->watches_room) return;
  peer->watches_room = connection.wants_to_write();
  epoll_.Change(connection.fd(), EPOLLIN | (peer->watches_room ? EPOLLOUT : 0u), id);
}

Status ZmtpDialer::Poll(int timeout_ms, std::vector<Event>* events) {
  const PollTimeout timeout(timeout_ms);
  const size_t before = events->size();
  const size_t limit = before + kMaxEvents;
  for (;;) {
    int wait_ms = timeout.LeftMs();
    if (!visits_.empty() || waker_->pending()) wait_ms = 0;
    int64_t next_timer_ns = std::numeric_limits<int64_t>::max();
    for (const auto& [id, peer] : peers_) {
      next_timer_ns = std::min(next_timer_ns, NextTimerNs(peer));
    }
    if (wait_ms != 0 && next_timer_ns != std::numeric_limits<int64_t>::max()) {
      const int64_t left_ns = std::max<int64_t>(next_timer_ns - SystemClock().NowNs(), 0);
      wait_ms = CapWait(wait_ms, (left_ns + kNsPerMs - 1) / kNsPerMs);
    }
    EpollSet::Events ready;
    EMLIO_ASSIGN_OR_RETURN(const int count, epoll_.Wait(wait_ms, &ready));
    bool woken = waker_->pending();
    bool has_sent = false;
    for (int i = 0; i < count; ++i) {
      const uint64_t tag = ready[i].data.u64;
      if (tag == kWakerTag) {
        woken = true;
        continue;
      }
      const auto found = peers_.find(tag);
      if (found == peers_.end()) continue;
      Peer* peer = &found->second;
      if (peer->state == State::kConnecting) {
        FinishConnecting(tag, peer);
        continue;
      }
      if ((ready[i].events & EPOLLOUT) != 0) {
        has_sent = peer->connection->Flush() || has_sent;
        AfterWriting(tag, peer);
      }
      if ((ready[i].events & ~EPOLLOUT) != 0) Visit(tag, peer);
    }
    if (woken) waker_->Drain();
    const int64_t now_ns = SystemClock().NowNs();
    if (woken || now_ns >= next_timer_ns) {
      for (auto& [id, peer] : peers_) {
        if (NextTimerNs(peer) != std::numeric_limits<int64_t>::max()) {
          CheckTimers(id, &peer, now_ns);
        }
      }
    }
    for (size_t turns = visits_.size(); turns > 0 && events->size() < limit; --turns) {
      const ConnectionId id = visits_.front();
      visits_.pop_front();
      const auto found = peers_.find(id);
      if (found == peers_.end()) continue;
      found->second.is_listed = false;
      if (found->second.connection != nullptr) {
        Read(id, &found->second, limit, events);
      } else if (found->second.state == State::kLost) {
        Event& event = events->emplace_back();
        event.kind = Event::Kind::kLost;
        event.connection = id;
        event.reason = std::move(found->second.loss);
        peers_.erase(found);
      }
    }
    const bool reached = std::exchange(has_reached_, false);
    if (events->size() > before || woken || has_sent || reached || timeout.Over()) {
      return OkStatus();
    }
  }
}

SendResult ZmtpDialer::Send(ConnectionId to, Message* message) {
  const auto found = peers_.find(to);
  if (found == peers_.end()) return SendResult::kGone;
  Peer* peer = &found->second;
  switch (peer->state) {
    case State::kResolving:
    case State::kConnecting:
    case State::kHandshaking:
      return SendResult::kFull;
    case State::kLost:
      return SendResult::kGone;
    case State::kConnected:
      break;
  }
  const SendResult result = peer->connection->Send(message);
  AfterWriting(to, peer);
  return result;
}

std::optional<LinkState> ZmtpDialer::StateOf(ConnectionId connection) const {
  const auto found = peers_.find(connection);
  if (found == peers_.end() || found->second.connection == nullptr) return std::nullopt;
  return ReadLinkState(found->second.connection->fd());
}

}  // namespace

Result<std::unique_ptr<Dialer>> DialZmqWith(TransportOptions options, ResolveFunction resolve) {
  if (options.high_water_messages < 1) {
    return InvalidArgument("high_water_messages must be at least 1");
  }
  EMLIO_RETURN_IF_ERROR(CheckDescriptorsLeft(kDialerDescriptors));
  EMLIO_ASSIGN_OR_RETURN(EpollSet epoll, EpollSet::Create());
  EMLIO_ASSIGN_OR_RETURN(std::unique_ptr<Waker> waker, Waker::Create());
  return std::unique_ptr<Dialer>(std::make_unique<ZmtpDialer>(std::move(epoll), std::move(waker),
                                                              options, std::move(resolve)));
}

Result<std::unique_ptr<Dialer>> DialZmq(TransportOptions options) {
  return DialZmqWith(options,
                     [](const HostPort& address) { return Resolve(address, Lookup::kNames); });
}

}  // namespace emlio::transport
