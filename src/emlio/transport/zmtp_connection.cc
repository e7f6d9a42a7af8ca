// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/transport/zmtp_connection.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <utility>

namespace emlio::transport {
namespace {

// One connection does not hold up the others, nor its reader, for longer than this takes.
constexpr uint64_t kFlushBytes = uint64_t{4} << 20;
constexpr uint64_t kLowWaterBytes = uint64_t{256} << 10;
// Of what may be read in a turn.
constexpr size_t kPingCost = size_t{4} << 10;
constexpr size_t kCopyBytes = size_t{64} << 10;

// sendfile has no MSG_NOSIGNAL: writing to a connection that has ended raises SIGPIPE, unless it is
// blocked, and then it is left pending.
class SigpipeBlocked {
 public:
  SigpipeBlocked() {
    sigemptyset(&sigpipe_);
    sigaddset(&sigpipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &sigpipe_, &before_);
  }
  ~SigpipeBlocked() {
    if (sigismember(&before_, SIGPIPE) == 1) return;
    const timespec now{};
    while (sigtimedwait(&sigpipe_, nullptr, &now) < 0 && errno == EINTR) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t sigpipe_;
  sigset_t before_;
};

}  // namespace

ZmtpConnection::Outgoing::~Outgoing() {
  // The memory first: who is told may count on having it back.
  const SentCallback on_sent = message.on_sent;
  message = Message();
  if (on_sent.function != nullptr) on_sent.function(on_sent.context);
}

ZmtpConnection::ZmtpConnection(Descriptor fd, std::string_view own_type, std::string_view peer_type,
                               const TransportOptions& options,
                               ZmtpReader::AllocateFrame allocate_frame)
    : fd_(std::move(fd)),
      high_water_(static_cast<size_t>(std::max(1, options.high_water_messages))),
      reader_(peer_type, options.max_frame_bytes, std::move(allocate_frame)) {
  Enqueue(ZmtpOpening(own_type));
}

void ZmtpConnection::End(Status reason) {
  if (!ended_.ok()) return;
  ended_ = std::move(reason);
  queue_.clear();
  // The other end learns it now, whoever looks at this object later.
  ::shutdown(fd(), SHUT_RDWR);
}

// The other end takes nothing any more. What it said before may be there still, and how it ended.
void ZmtpConnection::StopSending() {
  can_send_ = false;
  queue_.clear();
  ::shutdown(fd(), SHUT_RDWR);
}

void ZmtpConnection::Enqueue(std::vector<uint8_t> bytes) {
  Outgoing& out = queue_.emplace_back();
  out.memory_bytes = bytes.size();
  out.message.header = Buffer::Of(std::move(bytes));
}

std::optional<Message> ZmtpConnection::Receive(size_t* budget_bytes) {
  may_have_more_ = true;
  while (ended_.ok()) {
    ZmtpReader::Next next = reader_.Take();
    switch (next.item) {
      case ZmtpReader::Item::kMessage:
        return std::move(next.message);
      case ZmtpReader::Item::kHandshake:
        continue;
      case ZmtpReader::Item::kPing:
        // A peer that asks without reading the answers gets no more of them.
        if (queue_.size() <= high_water_) Enqueue(ZmtpPong(next.context));
        *budget_bytes -= std::min(*budget_bytes, kPingCost);
        continue;
      case ZmtpReader::Item::kBad:
        End(reader_.status());
        return std::nullopt;
      case ZmtpReader::Item::kNothing:
        break;
    }
    if (*budget_bytes == 0) return std::nullopt;
    const std::span<uint8_t> space = reader_.Space();
    const ssize_t got = ::recv(fd(), space.data(), space.size(), MSG_DONTWAIT);
    if (got > 0) {
      reader_.Filled(static_cast<size_t>(got));
      received_bytes_ += static_cast<uint64_t>(got);
      *budget_bytes -= std::min(*budget_bytes, static_cast<size_t>(got));
      continue;
    }
    if (got == 0) {
      End(Unavailable("the connection was closed by the other end"));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      may_have_more_ = false;
      SetLowWater();
      return std::nullopt;
    } else if (errno != EINTR) {
      End(Unavailable(fmt::format("the connection was lost: {}", std::strerror(errno))));
    }
  }
  return std::nullopt;
}

// In the midst of a large frame every few packets would wake us for nothing. Never more than what
// is missing of it: what comes behind may take its time. And little at first: the kernel opens the
// window of a young connection by what is taken from it.
void ZmtpConnection::SetLowWater() {
  const uint64_t most = std::min(kLowWaterBytes, received_bytes_ / 64);
  const int wanted =
      static_cast<int>(std::max<uint64_t>(1, std::min(reader_.missing_bytes(), most)));
  if (wanted == low_water_) return;
  low_water_ = wanted;
  (void)::setsockopt(fd(), SOL_SOCKET, SO_RCVLOWAT, &wanted, sizeof(wanted));
}

SendResult ZmtpConnection::Send(Message* message) {
  if (!ended_.ok() || !can_send_) return SendResult::kGone;
  if (queue_.size() >= high_water_) return SendResult::kFull;
  Outgoing& out = queue_.emplace_back();
  out.message = std::exchange(*message, Message());
  uint64_t payload_bytes = out.message.payload.size();
  for (const FilePiece& piece : out.message.pieces) payload_bytes += piece.bytes;
  const bool has_payload = payload_bytes > 0;
  out.header_frame_bytes = static_cast<uint8_t>(
      EncodeZmtpFrameHeader(out.message.header.size(), has_payload, out.header_frame.data()));
  if (has_payload) {
    out.payload_frame_bytes =
        static_cast<uint8_t>(EncodeZmtpFrameHeader(payload_bytes, false, out.payload_frame.data()));
  }
  out.memory_bytes = out.header_frame_bytes + out.message.header.size() + out.payload_frame_bytes +
                     out.message.payload.size();
  if (queue_.size() == 1) Flush();
  // What was taken is taken: the end of the connection is told by itself.
  return SendResult::kSent;
}

bool ZmtpConnection::Flush() {
  uint64_t budget = kFlushBytes;
  bool has_sent = false;
  while (ended_.ok() && !queue_.empty() && budget > 0) {
    Outgoing& out = queue_.front();
    const bool has_pieces = !out.message.pieces.empty();
    if (SendMemory(&out, has_pieces, &budget) == Progress::kBlocked) break;
    if (has_pieces && SendPieces(&out, &budget) == Progress::kBlocked) break;
    queue_.pop_front();
    has_sent = true;
  }
  return has_sent;
}

ZmtpConnection::Progress ZmtpConnection::SendMemory(Outgoing* out, bool more_follows,
                                                    uint64_t* budget) {
  const std::array<std::span<uint8_t>, 4> parts = {
      std::span(out->header_frame.data(), out->header_frame_bytes),
      std::span(out->message.header.data(), out->message.header.size()),
      std::span(out->payload_frame.data(), out->payload_frame_bytes),
      std::span(out->message.payload.data(), out->message.payload.size())};
  while (out->sent_bytes < out->memory_bytes) {
    if (*budget == 0) return Progress::kBlocked;
    std::array<iovec, 4> vectors;
    size_t count = 0;
    uint64_t skip = out->sent_bytes;
    for (const std::span<uint8_t> part : parts) {
      if (skip >= part.size()) {
        skip -= part.size();
        continue;
      }
      vectors[count++] = {part.data() + skip, part.size() - skip};
      skip = 0;
    }
    msghdr message{};
    message.msg_iov = vectors.data();
    message.msg_iovlen = count;
    const int flags = MSG_NOSIGNAL | MSG_DONTWAIT | (more_follows ? MSG_MORE : 0);
    const ssize_t sent = ::sendmsg(fd(), &message, flags);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) StopSending();
      return Progress::kBlocked;
    }
    out->sent_bytes += static_cast<uint64_t>(sent);
    *budget -= std::min(*budget, static_cast<uint64_t>(sent));
  }
  return Progress::kDone;
}

// Straight from the page cache. A record goes out as it is now: were it written to between now and
// its checksum, the receiver would notice by that.
ZmtpConnection::Progress ZmtpConnection::SendPieces(Outgoing* out, uint64_t* budget) {
  const SigpipeBlocked no_sigpipe;
  while (out->piece < out->message.pieces.size()) {
    const FilePiece& piece = out->message.pieces[out->piece];
    const uint64_t left = piece.bytes - out->piece_sent;
    if (left == 0) {
      ++out->piece;
      out->piece_sent = 0;
      out->copies_piece = false;
      continue;
    }
    if (*budget == 0) return Progress::kBlocked;
    off_t from = static_cast<off_t>(piece.offset + out->piece_sent);
    const ssize_t sent = out->copies_piece ? SendCopy(piece.fd, from, left)
                                           : ::sendfile(fd(), piece.fd, &from, left);
    if (sent > 0) {
      out->piece_sent += static_cast<uint64_t>(sent);
      *budget -= std::min(*budget, static_cast<uint64_t>(sent));
    } else if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      return Progress::kBlocked;
    } else if (sent < 0 && errno == EINTR) {
      continue;
    } else if (!out->copies_piece) {
      // The file ends, cannot be read or cannot be sent, or the connection is lost: in two steps
      // one finds out which.
      out->copies_piece = true;
    } else {
      StopSending();
      return Progress::kBlocked;
    }
  }
  return Progress::kDone;
}

// As sendfile; zeros stand for what cannot be read, for the frame's size is said already.
ssize_t ZmtpConnection::SendCopy(int file, off_t from, uint64_t bytes) const {
  std::array<uint8_t, kCopyBytes> copy;
  const size_t wanted = std::min<uint64_t>(bytes, copy.size());
  ssize_t got = 0;
  do {
    got = ::pread(file, copy.data(), wanted, from);
  } while (got < 0 && errno == EINTR);
  if (got <= 0) {
    copy.fill(0);
    got = static_cast<ssize_t>(wanted);
  }
  return ::send(fd(), copy.data(), static_cast<size_t>(got), MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace emlio::transport
