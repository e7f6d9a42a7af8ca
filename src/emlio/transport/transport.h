// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "emlio/base/buffer.h"
#include "emlio/base/status.h"

// Moves opaque messages between a listener and those who dial it. Knows nothing of their meaning.
// Two implementations, "tcp://" over ZeroMQ and "inproc" inside one process, pass one conformance
// suite (transport_conformance.h).
namespace emlio::transport {

// Called once, when the transport holds the message no longer: its last byte went to the kernel,
// or the receiving side of an in-process transport took it, or it was dropped with its connection.
// May run on any thread; must not block, throw, or call the transport (but for Wake()).
struct SentCallback {
  void (*function)(void* context) = nullptr;
  void* context = nullptr;
};

// A part of an open file.
struct FilePiece {
  int fd = -1;  // stays open until on_sent
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// A header and an optional payload. On the wire: one frame, or two when the payload is not empty.
struct Message {
  Buffer header;
  Buffer payload;
  // Sending only, to a listener that sends_files(): with `payload` empty, the payload is what lies
  // there, one piece behind the other. It goes from the page cache to the network without a copy of
  // ours. What cannot be read any more arrives as zeros: pieces need a checksum at the other end.
  std::vector<FilePiece> pieces;
  SentCallback on_sent;  // sending only
};

enum class SendResult {
  kSent,  // the transport took the message
  kFull,  // the connection's high-water mark is reached; the message is untouched, try later
  kGone,  // the connection is lost; the message is untouched
};

// Names one connection for its whole life; never reused by the same listener or dialer.
using ConnectionId = uint64_t;

struct Event {
  enum class Kind {
    kConnected,  // dialer only: the connection stands and may be written to
    kMessage,
    kLost,  // no more messages will come from, or can go to, this connection
  };
  Kind kind = Kind::kMessage;
  ConnectionId connection = 0;
  Message message;  // kMessage
  Status reason;    // kLost: kUnavailable (refused, closed by the peer, reset), kNotFound (the name
                    // does not resolve), kTimeout (connect deadline), kLimitExceeded, kProtocol
};

// What the kernel knows of one connection, as seen from this end. Counters since its beginning.
struct LinkState {
  int64_t round_trip_us = 0;      // smoothed
  int64_t min_round_trip_us = 0;  // of the last minutes
  uint64_t acked_bytes = 0;       // that the other end has received
  int64_t busy_us = 0;            // with something to send
  int64_t window_limited_us = 0;  // of it: not the network but a buffer of an end was full
};

struct TransportOptions {
  int high_water_messages = 16;                   // per connection and direction
  uint64_t max_frame_bytes = uint64_t{64} << 20;  // a larger incoming frame ends its connection
};

// The accepting end. All methods but Wake must be called from one thread at a time. Its owner has
// to go on polling: what Send could not give the kernel at once goes out then.
class Listener {
 public:
  virtual ~Listener() = default;
  // "tcp://127.0.0.1:40123": with the port that was really bound.
  virtual const std::string& endpoint() const = 0;
  // Waits until something happens, a message that was waiting has been sent, Wake() is called or
  // the time is over; appends to `events` in order of arrival, at most about 64 at once. timeout_ms
  // < 0 waits for ever, 0 does not wait.
  virtual Status Poll(int timeout_ms, std::vector<Event>* events) = 0;
  // Never waits. Messages of one connection arrive whole and in order, or the connection is lost.
  virtual SendResult Send(ConnectionId to, Message* message) = 0;
  // Forgets the connection: later sends give kGone, its messages are dropped. (The TCP connection
  // itself may stay until the peer closes it.)
  virtual void Forget(ConnectionId connection) = 0;
  // Whether messages may have pieces of files.
  virtual bool sends_files() const { return false; }
  // Nothing for a connection that is gone, or where there is no network between.
  virtual std::optional<LinkState> StateOf(ConnectionId connection) const = 0;
  // Makes a Poll that is in progress, or else the next one, return. From any thread.
  virtual void Wake() = 0;
};

// The connecting end, with any number of connections. Same rules as for Listener.
class Dialer {
 public:
  virtual ~Dialer() = default;
  // Starts to connect; kConnected or kLost follows as an event, kLost at the latest after
  // connect_deadline_ms. kInvalidArgument for an address that cannot be parsed.
  virtual Result<ConnectionId> Dial(const std::string& endpoint, int connect_deadline_ms) = 0;
  virtual Status Poll(int timeout_ms, std::vector<Event>* events) = 0;
  virtual SendResult Send(ConnectionId to, Message* message) = 0;
  // Closes a connection at once; messages in flight are dropped and no event follows.
  virtual void Close(ConnectionId connection) = 0;
  // Known before kConnected, as soon as the other host has answered, at which Poll returns. Nothing
  // for a connection that is gone, or where there is no network between.
  virtual std::optional<LinkState> StateOf(ConnectionId connection) const = 0;
  virtual void Wake() = 0;
};

// ZeroMQ over TCP. `bind` is "host:port" ("127.0.0.1:0", "[::1]:5555", "*:5555"). An address in use
// is kUnavailable, naming it.
Result<std::unique_ptr<Listener>> ListenZmq(const std::string& bind, TransportOptions options);
Result<std::unique_ptr<Dialer>> DialZmq(TransportOptions options);

// In-process: the dialer reaches only this listener, by whatever endpoint text. Payload buffers are
// handed over, not copied; on_sent fires when the other side's Poll takes the message.
struct InprocPair {
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Dialer> dialer;
};
InprocPair MakeInproc(TransportOptions options);

}  // namespace emlio::transport
