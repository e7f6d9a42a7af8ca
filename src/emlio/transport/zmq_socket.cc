// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/transport/zmq_socket.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zmq.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "emlio/base/thread.h"

namespace emlio::transport {
namespace {

// Descriptors that a context and its first sockets open.
constexpr int kContextDescriptors = 16;
// One for the socket, two for the monitor, one for the connection.
constexpr int kSocketDescriptors = 4;
// libzmq's default is 1023 sockets a context, and a connection takes three.
constexpr int kMaxSockets = 65'000;
// A connection that is lost stays lost: reconnecting is the session's business, with a new socket.
// Not -1 ("never"): that makes libzmq throw away what was received and not read yet. The interval
// is doubled by a random part, so a week still fits into an int.
constexpr int kReconnectPauseMs = 7 * 24 * 3600 * 1000;
// A client that connects and stays silent is cut off after this.
constexpr int kHandshakeMs = 10'000;
constexpr int kBacklog = 1024;
// A peer that lost power: the kernel finds out by itself. Unlike ZMTP heartbeats this does not
// disturb a connection whose reader is merely slow, since kernels answer, not applications.
constexpr int kKeepaliveIdleSeconds = 60;
constexpr int kKeepaliveIntervalSeconds = 10;
constexpr int kKeepaliveProbes = 3;
// Below this a header is copied, which is cheaper than an object that keeps track of it.
constexpr size_t kCopyHeaderBelow = 512;

uint8_t empty_frame;

// A frame that libzmq refers to while it sends.
struct SentFrame {
  Buffer data;
  SentCallback on_sent;
};

void ReleaseSentFrame(void* /*data*/, void* hint) {
  auto* frame = static_cast<SentFrame*>(hint);
  const SentCallback on_sent = frame->on_sent;
  delete frame;  // the memory first: who is told may count on having it back
  if (on_sent.function != nullptr) on_sent.function(on_sent.context);
}

SentFrame* InitFrame(zmq_msg_t* msg, Buffer data, SentCallback on_sent) {
  auto* frame = new SentFrame{std::move(data), on_sent};
  // libzmq never calls back for a null pointer, so an empty frame points somewhere.
  void* bytes = frame->data.size() == 0 ? &empty_frame : frame->data.data();
  if (zmq_msg_init_data(msg, bytes, frame->data.size(), &ReleaseSentFrame, frame) != 0) {
    throw std::bad_alloc();
  }
  return frame;
}

int SendFrame(zmq_msg_t* msg, void* socket, bool more) {
  int rc = 0;
  do {
    rc = zmq_msg_send(msg, socket, ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0));
  } while (rc < 0 && errno == EINTR);
  return rc;
}

bool ReceiveFrame(zmq_msg_t* msg, void* socket) {
  int rc = 0;
  do {
    rc = zmq_msg_recv(msg, socket, ZMQ_DONTWAIT);
  } while (rc < 0 && errno == EINTR);
  return rc >= 0;
}

// A received frame on the heap: a short message lives inside the zmq_msg_t itself, so that its
// address must not change.
struct Frame {
  Frame() { zmq_msg_init(&msg); }
  ~Frame() { zmq_msg_close(&msg); }
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;
  zmq_msg_t msg;
};

Buffer Adopt(std::unique_ptr<Frame> frame) {
  void* data = zmq_msg_data(&frame->msg);
  const size_t size = zmq_msg_size(&frame->msg);
  return Buffer(
      data, size, [](void* context) { delete static_cast<Frame*>(context); }, frame.release());
}

Status SocketStatus(const char* what) {
  const int error = zmq_errno();
  if (error == EMFILE || error == ENFILE) {
    EMLIO_RETURN_IF_ERROR(CheckDescriptorsLeft(kSocketDescriptors));
  }
  return InternalError(fmt::format("{}: {}", what, zmq_strerror(error)));
}

}  // namespace

Status CheckDescriptorsLeft(int count) {
  std::vector<int> opened;
  int error = 0;
  while (static_cast<int>(opened.size()) < count && error == 0) {
    const int fd = ::eventfd(0, EFD_CLOEXEC);
    if (fd < 0) {
      error = errno;
    } else {
      opened.push_back(fd);
    }
  }
  for (const int fd : opened) ::close(fd);
  if (error == 0) return OkStatus();
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return LimitExceeded(fmt::format(
      "cannot open another connection: {} (this process may open {} files); raise the limit with "
      "\"ulimit -n\"",
      std::strerror(error), limit.rlim_cur));
}

void ZmqContext::Terminate::operator()(void* context) const {
  while (zmq_ctx_term(context) != 0 && zmq_errno() == EINTR) {
  }
}

Result<ZmqContext> ZmqContext::Create(int io_threads) {
  if (io_threads < 1 || io_threads > kMaxThreads) {
    return InvalidArgument(
        fmt::format("{} I/O threads; 1 to {} are possible", io_threads, kMaxThreads));
  }
  EMLIO_RETURN_IF_ERROR(CheckDescriptorsLeft(kContextDescriptors + 2 * io_threads));
  // libzmq has one thread more, and ends the process when it cannot start one.
  EMLIO_RETURN_IF_ERROR(CheckThreadsLeft(io_threads + 1));
  void* context = zmq_ctx_new();
  if (context == nullptr) return SocketStatus("cannot start libzmq");
  zmq_ctx_set(context, ZMQ_IO_THREADS, io_threads);
  zmq_ctx_set(context, ZMQ_MAX_SOCKETS, kMaxSockets);
  return ZmqContext(context);
}

Result<std::unique_ptr<ZmqSocket>> ZmqSocket::Open(const ZmqContext& context, Role role,
                                                   const TransportOptions& options, bool ipv6) {
  if (options.high_water_messages < 1) {
    return InvalidArgument("high_water_messages must be at least 1");
  }
  EMLIO_RETURN_IF_ERROR(CheckDescriptorsLeft(kSocketDescriptors));
  void* raw = nullptr;
  {
    // The first socket starts libzmq's threads. They block signals themselves, but not before they
    // run for the first time, which may take a while on a busy machine.
    const AsynchronousSignalsBlocked inherited_mask;
    raw = zmq_socket(context.get(), role == Role::kRouter ? ZMQ_ROUTER : ZMQ_DEALER);
  }
  if (raw == nullptr) return SocketStatus("cannot open a ZeroMQ socket");
  std::unique_ptr<ZmqSocket> socket(new ZmqSocket(role, raw));

  int failed_option = 0;
  auto set = [&](int option, int value) {
    if (zmq_setsockopt(raw, option, &value, sizeof(value)) != 0) failed_option = option;
  };
  set(ZMQ_LINGER, 0);
  set(ZMQ_SNDHWM, options.high_water_messages);
  set(ZMQ_RCVHWM, options.high_water_messages);
  set(ZMQ_IPV6, ipv6 ? 1 : 0);
  set(ZMQ_TCP_KEEPALIVE, 1);
  set(ZMQ_TCP_KEEPALIVE_IDLE, kKeepaliveIdleSeconds);
  set(ZMQ_TCP_KEEPALIVE_INTVL, kKeepaliveIntervalSeconds);
  set(ZMQ_TCP_KEEPALIVE_CNT, kKeepaliveProbes);
  if (role == Role::kRouter) {
    // Without it a message for a full or lost peer vanishes without a word.
    set(ZMQ_ROUTER_MANDATORY, 1);
    set(ZMQ_BACKLOG, kBacklog);
    set(ZMQ_HANDSHAKE_IVL, kHandshakeMs);
  } else {
    set(ZMQ_RECONNECT_IVL, kReconnectPauseMs);
    set(ZMQ_HANDSHAKE_IVL, 0);  // the dialer has its own deadline
  }
  const int64_t max_frame = static_cast<int64_t>(
      std::min<uint64_t>(options.max_frame_bytes, static_cast<uint64_t>(INT64_MAX)));
  if (zmq_setsockopt(raw, ZMQ_MAXMSGSIZE, &max_frame, sizeof(max_frame)) != 0) {
    failed_option = ZMQ_MAXMSGSIZE;
  }
  // With a domain set (and no authenticator) libzmq refuses ZMTP 1.0 and 2.0. Otherwise any bytes
  // that do not look like a greeting, an HTTP request say, would be read as frames of ZMTP 1.0.
  static constexpr char kDomain[] = "emlio";
  if (zmq_setsockopt(raw, ZMQ_ZAP_DOMAIN, kDomain, sizeof(kDomain) - 1) != 0) {
    failed_option = ZMQ_ZAP_DOMAIN;
  }
  if (failed_option != 0) {
    return InternalError(fmt::format("libzmq refuses socket option {}: {}", failed_option,
                                     zmq_strerror(zmq_errno())));
  }
  EMLIO_RETURN_IF_ERROR(socket->StartMonitor(context));
  return socket;
}

Status ZmqSocket::StartMonitor(const ZmqContext& context) {
  static std::atomic<uint64_t> next_name{0};
  const std::string name = fmt::format("inproc://monitor-{}", next_name.fetch_add(1));
  // No more events than needed: their queue has no bound (below), and an ACCEPT_FAILED comes in a
  // tight loop while the process lacks descriptors.
  const int events =
      role_ == Role::kRouter
          ? ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED
          : ZMQ_EVENT_CONNECTED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CONNECT_RETRIED |
                ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
  if (zmq_socket_monitor(socket_, name.c_str(), events) != 0) {
    return SocketStatus("cannot watch a ZeroMQ socket");
  }
  monitor_ = zmq_socket(context.get(), ZMQ_PAIR);
  if (monitor_ == nullptr) return SocketStatus("cannot watch a ZeroMQ socket");
  const int zero = 0;
  zmq_setsockopt(monitor_, ZMQ_LINGER, &zero, sizeof(zero));
  // No bound: libzmq's I/O thread would stand still on a full monitor.
  zmq_setsockopt(monitor_, ZMQ_RCVHWM, &zero, sizeof(zero));
  if (zmq_connect(monitor_, name.c_str()) != 0) {
    return SocketStatus("cannot watch a ZeroMQ socket");
  }
  size_t size = sizeof(fd_);
  if (zmq_getsockopt(socket_, ZMQ_FD, &fd_, &size) != 0 ||
      zmq_getsockopt(monitor_, ZMQ_FD, &monitor_fd_, &size) != 0) {
    return SocketStatus("a ZeroMQ socket has no descriptor");
  }
  return OkStatus();
}

ZmqSocket::~ZmqSocket() {
  // The sending side of the monitor goes first: a monitor without a reader would block libzmq's
  // I/O thread for ever.
  zmq_socket_monitor(socket_, nullptr, 0);
  if (monitor_ != nullptr) zmq_close(monitor_);
  zmq_close(socket_);
}

int ZmqSocket::Bind(const std::string& endpoint) {
  return zmq_bind(socket_, endpoint.c_str()) == 0 ? 0 : zmq_errno();
}

int ZmqSocket::Connect(const std::string& endpoint) {
  return zmq_connect(socket_, endpoint.c_str()) == 0 ? 0 : zmq_errno();
}

std::string ZmqSocket::LastEndpoint() const {
  char text[256] = "";
  size_t size = sizeof(text);
  if (zmq_getsockopt(socket_, ZMQ_LAST_ENDPOINT, text, &size) != 0) return "";
  return text;
}

void ZmqSocket::SetLinger(int linger_ms) {
  zmq_setsockopt(socket_, ZMQ_LINGER, &linger_ms, sizeof(linger_ms));
}

bool ZmqSocket::TakeMessage(Received* received) {
  auto frame = std::make_unique<Frame>();
  if (!ReceiveFrame(&frame->msg, socket_)) {
    readable = false;
    return false;
  }
  received->too_many_frames = false;
  received->message = Message();
  bool more = zmq_msg_more(&frame->msg) != 0;
  if (role_ == Role::kRouter) {
    received->routing_id.assign(static_cast<const char*>(zmq_msg_data(&frame->msg)),
                                zmq_msg_size(&frame->msg));
    // All parts of a message arrive at once.
    if (!more || !ReceiveFrame(&frame->msg, socket_)) return false;
    more = zmq_msg_more(&frame->msg) != 0;
    received->fd = zmq_msg_get(&frame->msg, ZMQ_SRCFD);
    const char* address = zmq_msg_gets(&frame->msg, "Peer-Address");
    received->peer_address = address == nullptr ? "unknown" : address;
  }
  received->message.header = Adopt(std::move(frame));
  if (!more) return true;
  frame = std::make_unique<Frame>();
  if (!ReceiveFrame(&frame->msg, socket_)) return false;
  more = zmq_msg_more(&frame->msg) != 0;
  received->message.payload = Adopt(std::move(frame));
  if (!more) return true;
  received->too_many_frames = true;
  received->message = Message();
  while (more) {
    Frame surplus;
    if (!ReceiveFrame(&surplus.msg, socket_)) break;
    more = zmq_msg_more(&surplus.msg) != 0;
  }
  return true;
}

MonitorEvent ZmqSocket::TakeMonitorEvent() {
  using Kind = MonitorEvent::Kind;
  for (;;) {
    Frame numbers;
    if (!ReceiveFrame(&numbers.msg, monitor_)) {
      monitor_readable = false;
      return {};
    }
    uint16_t event = 0;
    uint32_t value = 0;
    if (zmq_msg_size(&numbers.msg) >= sizeof(event) + sizeof(value)) {
      const auto* bytes = static_cast<const char*>(zmq_msg_data(&numbers.msg));
      std::memcpy(&event, bytes, sizeof(event));
      std::memcpy(&value, bytes + sizeof(event), sizeof(value));
    }
    for (bool more = zmq_msg_more(&numbers.msg) != 0; more;) {
      Frame endpoint;
      if (!ReceiveFrame(&endpoint.msg, monitor_)) break;
      more = zmq_msg_more(&endpoint.msg) != 0;
    }
    const int fd = static_cast<int>(value);
    switch (event) {
      case ZMQ_EVENT_ACCEPTED:
        return {Kind::kAccepted, fd};
      case ZMQ_EVENT_CONNECTED:
        return {Kind::kConnected, fd};
      case ZMQ_EVENT_DISCONNECTED:
        return {Kind::kDisconnected, fd};
      case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
        return {Kind::kHandshakeSucceeded, -1};
      case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
        return {Kind::kHandshakeCut, -1};
      case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
      case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
        return {Kind::kHandshakeMismatch, -1};
      case ZMQ_EVENT_CONNECT_RETRIED:
        return {Kind::kGivenUp, -1};
      default:
        break;
    }
  }
}

SendResult ZmqSocket::Send(const std::string* routing_id, Message* message) {
  // Any send may let libzmq process what the descriptor was signalled for.
  readable = true;
  if (routing_id != nullptr) {
    int rc = 0;
    do {
      rc = zmq_send(socket_, routing_id->data(), routing_id->size(), ZMQ_DONTWAIT | ZMQ_SNDMORE);
    } while (rc < 0 && errno == EINTR);
    // This frame alone can be refused; after it the rest of the message is always taken.
    if (rc < 0) return errno == EAGAIN ? SendResult::kFull : SendResult::kGone;
  }
  const bool has_payload = !message->payload.empty();
  zmq_msg_t header;
  SentFrame* kept = nullptr;
  const bool copy = message->header.size() <= kCopyHeaderBelow &&
                    (has_payload || message->on_sent.function == nullptr);
  if (copy) {
    if (zmq_msg_init_size(&header, message->header.size()) != 0) throw std::bad_alloc();
    if (!message->header.empty()) {
      std::memcpy(zmq_msg_data(&header), message->header.data(), message->header.size());
    }
  } else {
    kept = InitFrame(&header, std::move(message->header),
                     has_payload ? SentCallback() : message->on_sent);
  }
  if (SendFrame(&header, socket_, has_payload) < 0) {
    const SendResult result = errno == EAGAIN ? SendResult::kFull : SendResult::kGone;
    if (kept != nullptr) {
      message->header = std::move(kept->data);
      kept->on_sent = SentCallback();
    }
    zmq_msg_close(&header);
    if (routing_id == nullptr) return result;
    // Never seen of a router, which takes the rest once it took the routing id; were it so, the
    // router would wait for the rest of a message. An empty frame ends it.
    zmq_send(socket_, "", 0, ZMQ_DONTWAIT);
    return SendResult::kGone;
  }
  if (has_payload) {
    zmq_msg_t payload;
    InitFrame(&payload, std::move(message->payload), message->on_sent);
    // Fails only when the connection ended just now; then the message is dropped with it.
    if (SendFrame(&payload, socket_, false) < 0) zmq_msg_close(&payload);
  }
  *message = Message();
  return SendResult::kSent;
}

}  // namespace emlio::transport
