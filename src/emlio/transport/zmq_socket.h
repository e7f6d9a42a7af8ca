// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "emlio/transport/transport.h"

// Owners and message passing over libzmq's C interface, shared by the listener and the dialer.
namespace emlio::transport {

// One libzmq context.
class ZmqContext {
 public:
  static Result<ZmqContext> Create(int io_threads);
  void* get() const { return context_.get(); }
  // Waits until the linger time of its sockets, which must be closed, is over. When it returns,
  // libzmq holds nothing any more and every on_sent has run. The destructor does the same.
  void Close() { context_.reset(); }

 private:
  struct Terminate {
    void operator()(void* context) const;
  };
  explicit ZmqContext(void* context) : context_(context) {}
  std::unique_ptr<void, Terminate> context_;
};

// What a socket's monitor tells.
struct MonitorEvent {
  enum class Kind {
    kNone,
    kAccepted,      // fd
    kConnected,     // fd; the handshake goes on
    kDisconnected,  // fd
    kHandshakeSucceeded,
    kHandshakeCut,       // the connection ended before its handshake did
    kHandshakeMismatch,  // the peer's handshake is not acceptable
    kGivenUp,            // libzmq would connect anew now; it never does, its pause is a week
  };
  Kind kind = Kind::kNone;
  int fd = -1;
};

// One libzmq socket and its monitor. One thread at a time.
//
// A socket's fd() is edge-triggered: it becomes readable when libzmq has something new to tell.
// So the rule is: read until there is nothing left (TakeMessage and TakeMonitorEvent remember
// that), wait in poll() on both descriptors, read again. Sending may swallow the edge, and so marks
// the socket as worth reading. `readable` and `monitor_readable` hold that knowledge; the owner
// sets them when poll() says so.
class ZmqSocket {
 public:
  enum class Role { kRouter, kDealer };
  // kLimitExceeded when the process has no descriptors left.
  static Result<std::unique_ptr<ZmqSocket>> Open(const ZmqContext& context, Role role,
                                                 const TransportOptions& options, bool ipv6);
  ~ZmqSocket();
  ZmqSocket(const ZmqSocket&) = delete;
  ZmqSocket& operator=(const ZmqSocket&) = delete;

  // 0 or the error number.
  int Bind(const std::string& endpoint);
  int Connect(const std::string& endpoint);
  std::string LastEndpoint() const;
  // How long the destructor of the context may wait for messages that are not on the wire yet.
  void SetLinger(int linger_ms);

  struct Received {
    Message message;
    std::string routing_id;    // kRouter only
    std::string peer_address;  // of a peer that is not in `known`
    int fd = -1;               // the connection's descriptor, a number to compare with MonitorEvent
    bool too_many_frames = false;
  };
  // False when nothing is there. Never waits.
  bool TakeMessage(Received* received);
  MonitorEvent TakeMonitorEvent();
  // `routing_id` is null for a dealer.
  SendResult Send(const std::string* routing_id, Message* message);

  int fd() const { return fd_; }
  int monitor_fd() const { return monitor_fd_; }

  bool readable = true;
  bool monitor_readable = true;

 private:
  ZmqSocket(Role role, void* socket) : role_(role), socket_(socket) {}
  Status StartMonitor(const ZmqContext& context);

  const Role role_;
  void* const socket_;
  void* monitor_ = nullptr;
  int fd_ = -1;
  int monitor_fd_ = -1;
};

// kLimitExceeded unless the process may open `count` more descriptors. libzmq aborts the process
// when it lacks one while it starts.
Status CheckDescriptorsLeft(int count);

}  // namespace emlio::transport
