// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "emlio/base/clock.h"
#include "emlio/transport/endpoint.h"
#include "emlio/transport/poll_timeout.h"
#include "emlio/transport/tcp_link.h"
#include "emlio/transport/waker.h"
#include "emlio/transport/zmq_socket.h"

namespace emlio::transport {
namespace {

constexpr size_t kMaxEvents = 64;
// The destructor gives the last messages (an Error, an EpochEnd) this long to reach the kernel.
constexpr int kLingerMs = 250;
// libzmq reports the end of a connection a moment before it hands over the connection's last
// messages.
constexpr int64_t kLastMessagesNs = 5 * kNsPerMs;

// A ROUTER tells which peer a message is from, its monitor which descriptor was closed, and neither
// says which peer that is. The link between the two is the descriptor number that every received
// message carries. Numbers are used again by later connections, so three things are tracked: which
// descriptors are open now, which peer was heard on each, and, between peers that claim the same
// one, which is the newer.
class ZmqListener final : public Listener {
 public:
  ZmqListener(ZmqContext context, std::unique_ptr<ZmqSocket> socket, std::unique_ptr<Waker> waker,
              TransportOptions options)
      : context_(std::move(context)),
        waker_(std::move(waker)),
        socket_(std::move(socket)),
        endpoint_(socket_->LastEndpoint()),
        options_(options) {}
  ~ZmqListener() override {
    // Here and not by the members' destructors: callbacks that still come may call Wake().
    socket_->SetLinger(kLingerMs);
    socket_.reset();
    context_.Close();
  }

  const std::string& endpoint() const override { return endpoint_; }
  Status Poll(int timeout_ms, std::vector<Event>* events) override;
  SendResult Send(ConnectionId to, Message* message) override;
  void Forget(ConnectionId connection) override;
  std::optional<LinkState> StateOf(ConnectionId connection) const override;
  void Wake() override { waker_->Wake(); }

 private:
  struct Peer {
    ConnectionId id = 0;
    std::string routing_id;
    std::string address;
    int fd = -1;
    bool closing = false;
    bool forgotten = false;
  };
  struct Closing {
    ConnectionId id;
    int64_t since_ns;
    uint64_t messages_taken;
  };

  void ReadMonitor();
  void ReadMessages(size_t limit, std::vector<Event>* events);
  void FinishClosing(int64_t now_ns, std::vector<Event>* events);
  static bool IsDue(const Closing& closing, int64_t now_ns) {
    return now_ns - closing.since_ns >= kLastMessagesNs;
  }
  Peer* Register(const ZmqSocket::Received& received);
  void StartClosing(Peer* peer);
  static bool IsOlder(const Peer& a, const Peer& b);

  ZmqContext context_;
  const std::unique_ptr<Waker> waker_;
  std::unique_ptr<ZmqSocket> socket_;
  const std::string endpoint_;
  const TransportOptions options_;

  ConnectionId next_id_ = 1;
  std::unordered_map<ConnectionId, Peer> peers_;
  std::unordered_map<std::string, Peer*> by_routing_id_;
  std::unordered_map<int, Peer*> by_fd_;  // live peers only
  std::unordered_set<int> open_fds_;
  std::deque<Closing> closing_;
  uint64_t messages_taken_ = 0;
  bool was_full_ = false;
  ZmqSocket::Received received_;
};

Status ZmqListener::Poll(int timeout_ms, std::vector<Event>* events) {
  const PollTimeout timeout(timeout_ms);
  const size_t before = events->size();
  for (bool first = true;; first = false) {
    int wait_ms = timeout.LeftMs();
    if (was_full_) wait_ms = CapWait(wait_ms, kRetryFullMs);
    if (!closing_.empty()) wait_ms = CapWait(wait_ms, kLastMessagesNs / kNsPerMs);
    if (socket_->readable || socket_->monitor_readable || waker_->pending()) wait_ms = 0;
    pollfd fds[] = {
        {waker_->fd(), POLLIN, 0}, {socket_->fd(), POLLIN, 0}, {socket_->monitor_fd(), POLLIN, 0}};
    if (::poll(fds, 3, wait_ms) < 0 && errno != EINTR) {
      return ErrnoStatus(errno, "poll in a listener");
    }
    const bool woken = fds[0].revents != 0 || waker_->pending();
    if (woken) waker_->Drain();
    const bool signalled = fds[1].revents != 0;
    if (signalled) socket_->readable = true;
    if (fds[2].revents != 0) socket_->monitor_readable = true;

    ReadMonitor();
    const int64_t now_ns = SystemClock().NowNs();
    // What a lost peer sent last may have come since poll() looked.
    if (!closing_.empty() && IsDue(closing_.front(), now_ns)) socket_->readable = true;
    ReadMessages(before + kMaxEvents, events);
    FinishClosing(now_ns, events);
    // A connection that was full may take messages again: let the caller try.
    const bool retry = was_full_ && (signalled || !first);
    if (events->size() > before || woken || retry || timeout.Over()) {
      was_full_ = false;
      return OkStatus();
    }
  }
}

void ZmqListener::ReadMonitor() {
  while (socket_->monitor_readable) {
    const MonitorEvent event = socket_->TakeMonitorEvent();
    if (event.kind == MonitorEvent::Kind::kNone) break;
    const bool accepted = event.kind == MonitorEvent::Kind::kAccepted;
    if (accepted) {
      open_fds_.insert(event.fd);
    } else {
      open_fds_.erase(event.fd);
    }
    if (auto it = by_fd_.find(event.fd); it != by_fd_.end()) StartClosing(it->second);
  }
}

void ZmqListener::ReadMessages(size_t limit, std::vector<Event>* events) {
  while (socket_->readable && events->size() < limit) {
    if (!socket_->TakeMessage(&received_)) continue;
    ++messages_taken_;
    const auto it = by_routing_id_.find(received_.routing_id);
    Peer* peer = it != by_routing_id_.end() ? it->second : Register(received_);
    if (peer->forgotten) {
      received_.message = Message();
      continue;
    }
    Event event;
    event.connection = peer->id;
    if (received_.too_many_frames) {
      event.kind = Event::Kind::kLost;
      event.reason = ProtocolError(
          fmt::format("the client at {} sent a message of more than two frames", peer->address));
      peer->forgotten = true;
    } else {
      event.message = std::move(received_.message);
    }
    events->push_back(std::move(event));
  }
}

// Whether `a` connected before `b`. Routing ids that libzmq made up are numbered as peers come; of
// others the one that was heard first counts as the older.
bool ZmqListener::IsOlder(const Peer& a, const Peer& b) {
  auto number = [](const std::string& id, uint32_t* value) {
    if (id.size() != 5 || id[0] != 0) return false;
    for (size_t i = 1; i < 5; ++i) *value = *value << 8 | static_cast<uint8_t>(id[i]);
    return true;
  };
  uint32_t a_number = 0;
  uint32_t b_number = 0;
  if (number(a.routing_id, &a_number) && number(b.routing_id, &b_number)) {
    return static_cast<int32_t>(a_number - b_number) < 0;
  }
  return a.id < b.id;
}

ZmqListener::Peer* ZmqListener::Register(const ZmqSocket::Received& received) {
  const ConnectionId id = next_id_++;
  Peer& peer = peers_[id];
  peer.id = id;
  peer.routing_id = received.routing_id;
  peer.address = received.peer_address;
  peer.fd = received.fd;
  by_routing_id_[peer.routing_id] = &peer;

  // Whatever the monitor says about this connection's beginning, and about the end of earlier ones
  // with the same descriptor, it has said before the message came.
  socket_->monitor_readable = true;
  ReadMonitor();
  if (!open_fds_.contains(peer.fd)) {
    StartClosing(&peer);
    return &peer;
  }
  PrepareToSend(peer.fd);
  const auto [it, inserted] = by_fd_.try_emplace(peer.fd, &peer);
  if (!inserted) {
    Peer* other = it->second;
    if (IsOlder(peer, *other)) {
      StartClosing(&peer);
    } else {
      StartClosing(other);
      by_fd_[peer.fd] = &peer;
    }
  }
  return &peer;
}

void ZmqListener::StartClosing(Peer* peer) {
  if (peer->closing) return;
  peer->closing = true;
  if (auto it = by_fd_.find(peer->fd); it != by_fd_.end() && it->second == peer) by_fd_.erase(it);
  closing_.push_back({peer->id, SystemClock().NowNs(), messages_taken_});
}

void ZmqListener::FinishClosing(int64_t now_ns, std::vector<Event>* events) {
  // Everything a lost peer sent is delivered first: either nothing is left at all, or, when others
  // keep the socket busy, enough was read that the lost peer's queue had its turns.
  const uint64_t turns =
      (peers_.size() + 1) * (static_cast<uint64_t>(options_.high_water_messages) + 1);
  while (!closing_.empty()) {
    const Closing& closing = closing_.front();
    if (!IsDue(closing, now_ns)) return;
    if (socket_->readable && messages_taken_ - closing.messages_taken < turns) return;
    const auto it = peers_.find(closing.id);
    Peer& peer = it->second;
    if (!peer.forgotten) {
      Event event;
      event.kind = Event::Kind::kLost;
      event.connection = peer.id;
      event.reason = Unavailable(fmt::format(
          "the client at {} closed the connection, or sent a frame larger than {} bytes",
          peer.address, options_.max_frame_bytes));
      events->push_back(std::move(event));
    }
    by_routing_id_.erase(peer.routing_id);
    peers_.erase(it);
    closing_.pop_front();
  }
}

SendResult ZmqListener::Send(ConnectionId to, Message* message) {
  const auto it = peers_.find(to);
  if (it == peers_.end() || it->second.forgotten || it->second.closing) return SendResult::kGone;
  const SendResult result = socket_->Send(&it->second.routing_id, message);
  if (result == SendResult::kFull) was_full_ = true;
  if (result == SendResult::kGone) StartClosing(&it->second);
  return result;
}

void ZmqListener::Forget(ConnectionId connection) {
  // Its routing id is kept until the peer closes, or else its next message would make it a new one.
  if (auto it = peers_.find(connection); it != peers_.end()) it->second.forgotten = true;
}

std::optional<LinkState> ZmqListener::StateOf(ConnectionId connection) const {
  const auto it = peers_.find(connection);
  if (it == peers_.end() || it->second.closing) return std::nullopt;
  return ReadLinkState(it->second.fd);
}

}  // namespace

Result<std::unique_ptr<Listener>> ListenZmq(const std::string& bind, TransportOptions options) {
  EMLIO_ASSIGN_OR_RETURN(const HostPort address, ParseHostPort(bind));
  std::vector<NumericAddress> candidates;
  if (address.host == "*") {
    // One socket for both families, or IPv4 alone where the kernel has no IPv6.
    candidates = {{fmt::format("tcp://[::]:{}", address.port), true},
                  {fmt::format("tcp://0.0.0.0:{}", address.port), false}};
  } else {
    EMLIO_ASSIGN_OR_RETURN(candidates, Resolve(address, Lookup::kNames));
  }
  EMLIO_ASSIGN_OR_RETURN(ZmqContext context, ZmqContext::Create(options.io_threads));
  EMLIO_ASSIGN_OR_RETURN(std::unique_ptr<Waker> waker, Waker::Create());
  Status failure;
  for (const NumericAddress& candidate : candidates) {
    EMLIO_ASSIGN_OR_RETURN(
        std::unique_ptr<ZmqSocket> socket,
        ZmqSocket::Open(context, ZmqSocket::Role::kRouter, options, candidate.ipv6));
    const int error = socket->Bind(candidate.endpoint);
    if (error == 0) {
      return std::unique_ptr<Listener>(std::make_unique<ZmqListener>(
          std::move(context), std::move(socket), std::move(waker), options));
    }
    const std::string what = fmt::format("cannot listen on {}: ", candidate.endpoint);
    switch (error) {
      case EADDRINUSE:
        // Not the other family then: clients of the name would reach whoever sits on this one.
        return Unavailable(what +
                           "the address is in use; stop the other process or take another "
                           "port (0 picks a free one)");
      case EACCES:
        failure = PermissionDenied(what + "permission denied; ports below 1024 need privileges");
        break;
      case EADDRNOTAVAIL:
      case ENODEV:
        failure = Unavailable(what + "this host has no interface with that address");
        break;
      default:
        failure = Unavailable(what + std::strerror(error));
    }
  }
  return failure;
}

}  // namespace emlio::transport
