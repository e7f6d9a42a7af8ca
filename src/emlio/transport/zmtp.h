// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "emlio/base/buffer.h"
#include "emlio/base/status.h"
#include "emlio/transport/transport.h"

// ZeroMQ's protocol on a TCP connection, ZMTP 3.1 (https://rfc.zeromq.org/spec/37), with the NULL
// mechanism: bytes in, messages out, and the other way. No sockets here. Older versions of the
// protocol and other mechanisms are refused.
namespace emlio::transport {

// What an end says first: greeting and READY in one piece, for neither has to wait for the other's.
std::vector<uint8_t> ZmtpOpening(std::string_view socket_type);

// What goes before the bytes of a frame. At most kMaxZmtpFrameHeader bytes are written to `to`;
// returns how many.
inline constexpr size_t kMaxZmtpFrameHeader = 9;
size_t EncodeZmtpFrameHeader(uint64_t frame_bytes, bool more, uint8_t* to);

// The answer to a PING.
std::vector<uint8_t> ZmtpPong(std::span<const uint8_t> context);

// Reads what the other end says. Not thread-safe.
//
// Memory: what a peer says in its handshake and in commands is bounded by kMaxCommandBytes, frames
// by `max_frame_bytes`, a message by two frames. A frame's memory comes from `allocate_frame`. If
// that gives less than the whole frame needs, it grows with what has really come.
class ZmtpReader {
 public:
  static constexpr size_t kMaxCommandBytes = 4096;

  // Memory for a frame of so many bytes, or for its beginning; not empty unless the frame is.
  using AllocateFrame = std::function<Buffer(uint64_t frame_bytes)>;

  // `peer_type` is the socket type that the other end must have ("DEALER").
  ZmtpReader(std::string_view peer_type, uint64_t max_frame_bytes, AllocateFrame allocate_frame)
      : peer_type_(peer_type),
        max_frame_bytes_(max_frame_bytes),
        allocate_frame_(std::move(allocate_frame)),
        input_(kInputBytes) {}

  // Where the next bytes are to be put; never empty. REQUIRES: Take said kNothing, or was not
  // called yet. Valid until the next call of anything.
  std::span<uint8_t> Space();
  // That many bytes were put there.
  void Filled(size_t bytes);

  enum class Item {
    kNothing,    // all that came is used up
    kHandshake,  // the other end is what it should be; once, before anything below
    kMessage,    // `message` was set
    kPing,       // `context` was set; to be answered with ZmtpPong
    kBad,        // status() says why; the connection must end and nothing more will be read
  };
  struct Next {
    Item item = Item::kNothing;
    Message message;
    std::vector<uint8_t> context;
  };
  Next Take();

  // Of the frame that is being received; 0 between frames.
  uint64_t missing_bytes() const { return in_frame_ ? frame_bytes_ - have_bytes_ : 0; }
  bool is_open() const { return state_ == State::kTraffic; }
  // kProtocol, or kLimitExceeded for a frame that is too large.
  const Status& status() const { return status_; }

 private:
  enum class State { kGreeting, kReady, kTraffic, kBad };
  static constexpr size_t kInputBytes = size_t{16} << 10;

  Next Bad(Status status);
  Next TakeGreeting();
  Next TakeCommand(std::span<const uint8_t> body);
  bool BeginFrame();
  void Grow();

  const std::string peer_type_;
  const uint64_t max_frame_bytes_;
  const AllocateFrame allocate_frame_;
  State state_ = State::kGreeting;
  Status status_;

  std::vector<uint8_t> input_;  // [begin_, end_) came and is not used yet
  size_t begin_ = 0;
  size_t end_ = 0;

  // The frame that is being received, if any.
  bool in_frame_ = false;
  uint8_t flags_ = 0;
  uint64_t frame_bytes_ = 0;
  Buffer frame_;             // size() is what it has room for, which may be more
  uint64_t have_bytes_ = 0;  // of the frame

  bool has_header_ = false;  // the first frame of a message of two
  Buffer header_;
};

}  // namespace emlio::transport
