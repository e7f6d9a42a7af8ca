// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emlio/base/status.h"
#include "emlio/transport/descriptors.h"
#include "emlio/transport/transport.h"
#include "emlio/transport/zmtp.h"

namespace emlio::transport {

// One TCP connection that speaks ZMTP. One thread at a time.
class ZmtpConnection {
 public:
  // `fd` never blocks. Says our greeting with the first Flush. `own_type` and `peer_type` are
  // socket types.
  ZmtpConnection(Descriptor fd, std::string_view own_type, std::string_view peer_type,
                 const TransportOptions& options, ZmtpReader::AllocateFrame allocate_frame);
  ~ZmtpConnection() = default;  // closes; what was not sent counts as sent
  ZmtpConnection(const ZmtpConnection&) = delete;
  ZmtpConnection& operator=(const ZmtpConnection&) = delete;

  int fd() const { return fd_.get(); }
  bool is_open() const { return reader_.is_open(); }  // the handshake is over
  // Why the connection has ended; ok while it has not. kUnavailable: the other end closed it, or
  // the network did. kProtocol, kLimitExceeded: what it said. Once it has ended nothing is sent,
  // and nothing received.
  const Status& ended() const { return ended_; }

  // The next message that came. When none is left the kernel is asked for more, unless it has no
  // more or `budget_bytes`, which what was read is taken from, is used up: then nothing.
  std::optional<Message> Receive(size_t* budget_bytes);
  // Whether Receive has to be called again although epoll may say nothing: it was not, since
  // something came, called until it had nothing more because the kernel had nothing. A low-water
  // mark of before may then keep epoll silent about what is left.
  bool may_have_more() const { return ended_.ok() && may_have_more_; }

  // kFull: as many messages wait as may (options.high_water_messages).
  SendResult Send(Message* message);
  // Gives the kernel what it takes, at most about a chunk at once. True when it took the last byte
  // of a message.
  bool Flush();
  // Something waits for the kernel to take it.
  bool wants_to_write() const { return ended_.ok() && !queue_.empty(); }

 private:
  struct Outgoing {
    Outgoing() = default;
    Outgoing(const Outgoing&) = delete;
    ~Outgoing();  // tells on_sent

    // In this order: frame header, header, frame header, payload or pieces.
    std::array<uint8_t, kMaxZmtpFrameHeader> header_frame;
    uint8_t header_frame_bytes = 0;
    std::array<uint8_t, kMaxZmtpFrameHeader> payload_frame;
    uint8_t payload_frame_bytes = 0;
    Message message;
    uint64_t memory_bytes = 0;  // all but the pieces
    uint64_t sent_bytes = 0;    // of memory
    size_t piece = 0;           // the one that is being sent
    uint64_t piece_sent = 0;
    bool copies_piece = false;  // the system could not send it on
  };
  enum class Progress { kDone, kBlocked };

  void SetLowWater();
  void Enqueue(std::vector<uint8_t> bytes);
  Progress SendMemory(Outgoing* out, bool more_follows, uint64_t* budget);
  Progress SendPieces(Outgoing* out, uint64_t* budget);
  ssize_t SendCopy(int file, off_t from, uint64_t bytes) const;
  void StopSending();
  void End(Status reason);

  const Descriptor fd_;
  const size_t high_water_;
  ZmtpReader reader_;
  Status ended_;
  std::deque<Outgoing> queue_;
  bool can_send_ = true;
  bool may_have_more_ = false;
  uint64_t received_bytes_ = 0;
  int low_water_ = 1;  // the descriptor's SO_RCVLOWAT
};

}  // namespace emlio::transport
