// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emlio/base/clock.h"
#include "emlio/base/log.h"
#include "emlio/transport/descriptors.h"
#include "emlio/transport/endpoint.h"
#include "emlio/transport/epoll_set.h"
#include "emlio/transport/poll_timeout.h"
#include "emlio/transport/tcp_link.h"
#include "emlio/transport/waker.h"
#include "emlio/transport/zmtp_connection.h"

namespace emlio::transport {
namespace {

constexpr size_t kMaxEvents = 64;
// A share for each connection, so that one busy client does not hold up the others.
constexpr size_t kMaxEventsPerConnection = 16;
// What is read of one connection before the others have their turn.
constexpr size_t kReadBytes = size_t{256} << 10;
// The destructor gives the last messages (an Error, an EpochEnd) this long to reach the kernel.
constexpr int64_t kLingerNs = 250 * kNsPerMs;
// A client that connects and does not finish its handshake is cut off after this.
constexpr int64_t kHandshakeNs = 10 * kNsPerSecond;
// While no connection can be accepted, for want of descriptors say.
constexpr int64_t kAcceptPauseNs = 100 * kNsPerMs;
constexpr int64_t kWarnAgainNs = 10 * kNsPerSecond;
constexpr int kBacklog = 1024;
constexpr int kListenerDescriptors = 4;

// What epoll says of which descriptor. Connections have their ids.
constexpr uint64_t kWakerTag = 0;
constexpr uint64_t kDoorTag = 1;
constexpr ConnectionId kFirstId = 2;

// A client's frame gets this much memory at once, and more when that is full: announcing large ones
// costs nothing.
Buffer AllocateFrame(uint64_t frame_bytes) {
  return Buffer::Allocate(std::min(frame_bytes, uint64_t{256} << 10));
}

// A ROUTER of ZeroMQ, on one thread: that of its owner. Nothing happens between two Polls but what
// Send does at once.
class ZmtpListener final : public Listener {
 public:
  ZmtpListener(Descriptor door, EpollSet epoll, std::unique_ptr<Waker> waker, std::string endpoint,
               TransportOptions options)
      : door_(std::move(door)),
        epoll_(std::move(epoll)),
        waker_(std::move(waker)),
        endpoint_(std::move(endpoint)),
        options_(options) {
    epoll_.Add(waker_->fd(), EPOLLIN, kWakerTag);
    epoll_.Add(door_.get(), EPOLLIN, kDoorTag);
  }
  ~ZmtpListener() override;

  const std::string& endpoint() const override { return endpoint_; }
  Status Poll(int timeout_ms, std::vector<Event>* events) override;
  SendResult Send(ConnectionId to, Message* message) override;
  void Forget(ConnectionId connection) override { peers_.erase(connection); }
  bool sends_files() const override { return true; }
  std::optional<LinkState> StateOf(ConnectionId connection) const override;
  void Wake() override { waker_->Wake(); }

 private:
  struct Peer {
    Peer(Descriptor fd, const TransportOptions& options)
        : connection(std::move(fd), "ROUTER", "DEALER", options, &AllocateFrame) {}
    ZmtpConnection connection;
    std::string address;
    bool was_heard = false;     // its owner knows of it
    bool is_listed = false;     // in visits_
    bool watches_room = false;  // epoll tells when the kernel takes more
  };

  void Accept(int64_t now_ns);
  bool TurnAway(int64_t now_ns);
  static Descriptor OpenSpare() { return Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }
  void Read(ConnectionId id, Peer* peer, size_t limit, std::vector<Event>* events);
  void AfterWriting(ConnectionId id, Peer* peer);
  void Visit(ConnectionId id, Peer* peer);
  void EndSlowHandshakes(int64_t now_ns);
  int CapToDeadlines(int wait_ms) const;

  const Descriptor door_;
  const EpollSet epoll_;
  Descriptor spare_ = OpenSpare();
  const std::unique_ptr<Waker> waker_;
  const std::string endpoint_;
  const TransportOptions options_;

  ConnectionId next_id_ = kFirstId;
  std::unordered_map<ConnectionId, std::unique_ptr<Peer>> peers_;
  std::deque<ConnectionId> visits_;                          // whose turns come
  std::deque<std::pair<int64_t, ConnectionId>> handshakes_;  // by deadline
  int64_t warn_again_ns_ = 0;
  int64_t accept_again_ns_ = 0;  // 0: accepting
};

ZmtpListener::~ZmtpListener() {
  const int64_t deadline_ns = SystemClock().NowNs() + kLingerNs;
  // What waits for the kernel goes out, then what waits for the peers is left to the kernel.
  for (bool waiting = true; waiting && SystemClock().NowNs() < deadline_ns;) {
    waiting = false;
    for (auto& [id, peer] : peers_) {
      peer->connection.Flush();
      waiting = waiting || peer->connection.wants_to_write();
    }
    if (waiting) ::usleep(1000);
  }
  for (auto& [id, peer] : peers_) {
    // A connection that is closed with something unread is reset, and the peer might lose the last
    // messages.
    ::shutdown(peer->connection.fd(), SHUT_WR);
    size_t budget = kReadBytes;
    while (peer->connection.Receive(&budget).has_value()) {
    }
  }
}

Status ZmtpListener::Poll(int timeout_ms, std::vector<Event>* events) {
  const PollTimeout timeout(timeout_ms);
  const size_t before = events->size();
  const size_t limit = before + kMaxEvents;
  for (;;) {
    int wait_ms = CapToDeadlines(timeout.LeftMs());
    if (!visits_.empty() || waker_->pending()) wait_ms = 0;
    EpollSet::Events ready;
    EMLIO_ASSIGN_OR_RETURN(const int count, epoll_.Wait(wait_ms, &ready));
    const int64_t now_ns = SystemClock().NowNs();
    bool woken = waker_->pending();
    bool has_sent = false;
    for (int i = 0; i < count; ++i) {
      const uint64_t tag = ready[i].data.u64;
      if (tag == kWakerTag) {
        woken = true;
      } else if (tag == kDoorTag) {
        Accept(now_ns);
      } else if (const auto found = peers_.find(tag); found != peers_.end()) {
        Peer* peer = found->second.get();
        if ((ready[i].events & EPOLLOUT) != 0) {
          has_sent = peer->connection.Flush() || has_sent;
          AfterWriting(tag, peer);
        }
        if ((ready[i].events & ~EPOLLOUT) != 0) Visit(tag, peer);
      }
    }
    if (woken) waker_->Drain();
    for (size_t turns = visits_.size(); turns > 0 && events->size() < limit; --turns) {
      const ConnectionId id = visits_.front();
      visits_.pop_front();
      const auto found = peers_.find(id);
      if (found == peers_.end()) continue;
      found->second->is_listed = false;
      Read(id, found->second.get(), limit, events);
    }
    EndSlowHandshakes(now_ns);
    if (events->size() > before || woken || has_sent || timeout.Over()) return OkStatus();
  }
}

// Has a peer read at its turn: those that epoll tells of, those that may have more than fitted into
// their last turn, and those that ended while they were written to.
void ZmtpListener::Visit(ConnectionId id, Peer* peer) {
  if (std::exchange(peer->is_listed, true)) return;
  visits_.push_back(id);
}

void ZmtpListener::Accept(int64_t now_ns) {
  constexpr int kAtOnce = 16;
  for (int i = 0; i < kAtOnce; ++i) {
    sockaddr_storage from{};
    socklen_t size = sizeof(from);
    const int fd = ::accept4(door_.get(), reinterpret_cast<sockaddr*>(&from), &size,
                             SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      if ((errno == EMFILE || errno == ENFILE) && TurnAway(now_ns)) continue;
      // It stays readable: looked at again when somebody may have closed something.
      accept_again_ns_ = now_ns + kAcceptPauseNs;
      epoll_.Change(door_.get(), 0, kDoorTag);
      return;
    }
    PrepareToSend(fd);
    PrepareToKeep(fd);
    const ConnectionId id = next_id_++;
    auto& peer = peers_[id];
    peer = std::make_unique<Peer>(Descriptor(fd), options_);
    peer->address = NumericEndpoint(reinterpret_cast<const sockaddr*>(&from), size);
    handshakes_.emplace_back(now_ns + kHandshakeNs, id);
    epoll_.Add(fd, EPOLLIN, id);
    peer->connection.Flush();
    AfterWriting(id, peer.get());
  }
}

// Without descriptors left: takes a client that waits, by means of the spare one, and closes the
// connection, which tells it more than waiting would. False when that is not possible.
bool ZmtpListener::TurnAway(int64_t now_ns) {
  if (spare_.get() < 0) return false;
  const Status status = CheckDescriptorsLeft(1);
  if (!status.ok() && now_ns >= warn_again_ns_) {
    warn_again_ns_ = now_ns + kWarnAgainNs;
    LogWarning("{}: clients are turned away: {}", endpoint_, status.message());
  }
  spare_.Close();
  Descriptor client(::accept4(door_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  const bool has_accepted = client.get() >= 0;
  client.Close();
  spare_ = OpenSpare();
  return has_accepted;
}

void ZmtpListener::Read(ConnectionId id, Peer* peer, size_t limit, std::vector<Event>* events) {
  size_t budget = kReadBytes;
  ZmtpConnection& connection = peer->connection;
  const size_t share = std::min(limit, events->size() + kMaxEventsPerConnection);
  while (events->size() < share) {
    std::optional<Message> message = connection.Receive(&budget);
    if (!message.has_value()) break;
    peer->was_heard = true;
    Event& event = events->emplace_back();
    event.connection = id;
    event.message = *std::move(message);
  }
  if (connection.may_have_more()) Visit(id, peer);
  AfterWriting(id, peer);  // answers to its questions
  if (connection.ended().ok()) return;
  if (peer->was_heard) {
    if (events->size() >= limit) return Visit(id, peer);
    Event& event = events->emplace_back();
    event.kind = Event::Kind::kLost;
    event.connection = id;
    event.reason = connection.ended().WithContext(fmt::format("the client at {}", peer->address));
  }
  peers_.erase(id);
}

void ZmtpListener::AfterWriting(ConnectionId id, Peer* peer) {
  const ZmtpConnection& connection = peer->connection;
  if (!connection.ended().ok()) return Visit(id, peer);
  if (connection.wants_to_write() == peer->watches_room) return;
  peer->watches_room = connection.wants_to_write();
  epoll_.Change(connection.fd(), EPOLLIN | (peer->watches_room ? EPOLLOUT : 0u), id);
}

void ZmtpListener::EndSlowHandshakes(int64_t now_ns) {
  while (!handshakes_.empty()) {
    const auto [deadline_ns, id] = handshakes_.front();
    const auto found = peers_.find(id);
    const bool is_over = found == peers_.end() || found->second->connection.is_open();
    if (!is_over && now_ns < deadline_ns) break;
    if (!is_over) peers_.erase(found);
    handshakes_.pop_front();
  }
  if (accept_again_ns_ > 0 && now_ns >= accept_again_ns_) {
    accept_again_ns_ = 0;
    if (spare_.get() < 0) spare_ = OpenSpare();
    epoll_.Change(door_.get(), EPOLLIN, kDoorTag);
  }
}

int ZmtpListener::CapToDeadlines(int wait_ms) const {
  int64_t next_ns = accept_again_ns_;
  if (!handshakes_.empty()) {
    const int64_t handshake_ns = handshakes_.front().first;
    next_ns = next_ns == 0 ? handshake_ns : std::min(next_ns, handshake_ns);
  }
  if (next_ns == 0) return wait_ms;
  const int64_t left_ns = std::max<int64_t>(0, next_ns - SystemClock().NowNs());
  return CapWait(wait_ms, (left_ns + kNsPerMs - 1) / kNsPerMs);
}

SendResult ZmtpListener::Send(ConnectionId to, Message* message) {
  const auto found = peers_.find(to);
  if (found == peers_.end()) return SendResult::kGone;
  const SendResult result = found->second->connection.Send(message);
  AfterWriting(to, found->second.get());
  return result;
}

std::optional<LinkState> ZmtpListener::StateOf(ConnectionId connection) const {
  const auto found = peers_.find(connection);
  if (found == peers_.end()) return std::nullopt;
  return ReadLinkState(found->second->connection.fd());
}

// Listens there; 0 or the error number.
int ListenOn(const NumericAddress& address, int* door) {
  const int family = address.ipv6 ? AF_INET6 : AF_INET;
  Descriptor fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.get() < 0) return errno;
  const int on = 1;
  const int off = 0;
  // Connections of an earlier process that are not forgotten yet do not keep the port.
  (void)::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (address.ipv6) (void)::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  const auto* where = reinterpret_cast<const sockaddr*>(&address.address.storage);
  if (::bind(fd.get(), where, address.address.size) != 0) return errno;
  if (::listen(fd.get(), kBacklog) != 0) return errno;
  *door = fd.Release();
  return 0;
}

}  // namespace

Result<std::unique_ptr<Listener>> ListenZmq(const std::string& bind, TransportOptions options) {
  EMLIO_ASSIGN_OR_RETURN(const HostPort address, ParseHostPort(bind));
  if (options.high_water_messages < 1) {
    return InvalidArgument("high_water_messages must be at least 1");
  }
  std::vector<NumericAddress> candidates;
  if (address.host == "*") {
    // One socket for both families, or IPv4 alone where the kernel has no IPv6.
    for (const char* any : {"::", "0.0.0.0"}) {
      EMLIO_ASSIGN_OR_RETURN(const auto found, Resolve({any, address.port}, Lookup::kNumericOnly));
      candidates.push_back(found.front());
    }
  } else {
    EMLIO_ASSIGN_OR_RETURN(candidates, Resolve(address, Lookup::kNames));
  }
  EMLIO_RETURN_IF_ERROR(CheckDescriptorsLeft(kListenerDescriptors));
  EMLIO_ASSIGN_OR_RETURN(std::unique_ptr<Waker> waker, Waker::Create());
  EMLIO_ASSIGN_OR_RETURN(EpollSet epoll, EpollSet::Create());
  Status failure;
  for (const NumericAddress& candidate : candidates) {
    int raw_door = -1;
    const int error = ListenOn(candidate, &raw_door);
    if (error == 0) {
      Descriptor door(raw_door);
      sockaddr_storage bound{};
      socklen_t size = sizeof(bound);
      ::getsockname(door.get(), reinterpret_cast<sockaddr*>(&bound), &size);
      return std::unique_ptr<Listener>(std::make_unique<ZmtpListener>(
          std::move(door), std::move(epoll), std::move(waker),
          NumericEndpoint(reinterpret_cast<const sockaddr*>(&bound), size), options));
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
