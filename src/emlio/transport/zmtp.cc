// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/transport/zmtp.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace emlio::transport {
namespace {

constexpr size_t kGreetingBytes = 64;
constexpr size_t kVersionAt = 10;
constexpr size_t kMechanismAt = 12;
constexpr std::string_view kMechanism{"NULL\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20};
constexpr uint8_t kMore = 1;
constexpr uint8_t kLong = 2;
constexpr uint8_t kCommand = 4;
constexpr size_t kMaxPingContextBytes = 16;

uint64_t LoadBe(std::span<const uint8_t> bytes) {
  uint64_t value = 0;
  for (const uint8_t byte : bytes) value = value << 8 | byte;
  return value;
}

void Append(std::vector<uint8_t>* to, std::string_view text) {
  to->insert(to->end(), text.begin(), text.end());
}

void AppendProperty(std::vector<uint8_t>* to, std::string_view name, std::string_view value) {
  to->push_back(static_cast<uint8_t>(name.size()));
  Append(to, name);
  for (int shift = 24; shift >= 0; shift -= 8) {
    to->push_back(static_cast<uint8_t>(value.size() >> shift));
  }
  Append(to, value);
}

std::vector<uint8_t> Command(std::string_view name, std::span<const uint8_t> rest) {
  const size_t size = 1 + name.size() + rest.size();
  std::vector<uint8_t> bytes = {kCommand, static_cast<uint8_t>(size),
                                static_cast<uint8_t>(name.size())};
  Append(&bytes, name);
  bytes.insert(bytes.end(), rest.begin(), rest.end());
  return bytes;
}

// The properties of a READY. False when they cannot be read.
bool ReadProperties(std::span<const uint8_t> body, std::string* socket_type) {
  while (!body.empty()) {
    const size_t name_bytes = body[0];
    if (body.size() < 1 + name_bytes + 4) return false;
    const std::string name(body.begin() + 1, body.begin() + 1 + static_cast<long>(name_bytes));
    body = body.subspan(1 + name_bytes);
    const uint64_t value_bytes = LoadBe(body.first(4));
    if (body.size() - 4 < value_bytes) return false;
    body = body.subspan(4);
    const auto value = body.first(value_bytes);
    // Names are compared without regard to case (RFC 37).
    constexpr std::string_view kSocketType = "socket-type";
    if (std::equal(name.begin(), name.end(), kSocketType.begin(), kSocketType.end(),
                   [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a | 0x20 : a) == b; })) {
      socket_type->assign(value.begin(), value.end());
    }
    body = body.subspan(value_bytes);
  }
  return true;
}

}  // namespace

std::vector<uint8_t> ZmtpOpening(std::string_view socket_type) {
  std::vector<uint8_t> bytes(kGreetingBytes, 0);
  bytes[0] = 0xff;
  bytes[9] = 0x7f;
  bytes[kVersionAt] = 3;
  bytes[kVersionAt + 1] = 1;
  std::memcpy(bytes.data() + kMechanismAt, kMechanism.data(), kMechanism.size());
  std::vector<uint8_t> properties;
  AppendProperty(&properties, "Socket-Type", socket_type);
  AppendProperty(&properties, "Identity", "");
  const std::vector<uint8_t> ready = Command("READY", properties);
  bytes.insert(bytes.end(), ready.begin(), ready.end());
  return bytes;
}

size_t EncodeZmtpFrameHeader(uint64_t frame_bytes, bool more, uint8_t* to) {
  const uint8_t flags = more ? kMore : 0;
  if (frame_bytes <= 255) {
    to[0] = flags;
    to[1] = static_cast<uint8_t>(frame_bytes);
    return 2;
  }
  to[0] = flags | kLong;
  for (int i = 0; i < 8; ++i) to[1 + i] = static_cast<uint8_t>(frame_bytes >> (56 - 8 * i));
  return kMaxZmtpFrameHeader;
}

std::vector<uint8_t> ZmtpPong(std::span<const uint8_t> context) { return Command("PONG", context); }

std::span<uint8_t> ZmtpReader::Space() {
  // A frame's bytes go straight to where they will be used.
  if (in_frame_ && begin_ == end_ && have_bytes_ < frame_bytes_) {
    if (have_bytes_ == frame_.size()) Grow();
    return {frame_.data() + have_bytes_,
            std::min<uint64_t>(frame_.size(), frame_bytes_) - have_bytes_};
  }
  if (begin_ > 0) {
    std::memmove(input_.data(), input_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  return {input_.data() + end_, input_.size() - end_};
}

void ZmtpReader::Filled(size_t bytes) {
  if (in_frame_ && begin_ == end_ && have_bytes_ < frame_bytes_) {
    have_bytes_ += bytes;
  } else {
    end_ += bytes;
  }
}

void ZmtpReader::Grow() {
  Buffer larger = Buffer::Allocate(std::min<uint64_t>(frame_bytes_, 2 * frame_.size()));
  std::memcpy(larger.data(), frame_.data(), have_bytes_);
  frame_ = std::move(larger);
}

ZmtpReader::Next ZmtpReader::Bad(Status status) {
  state_ = State::kBad;
  status_ = std::move(status);
  begin_ = end_ = 0;
  in_frame_ = false;
  frame_.Reset();
  header_.Reset();
  Next next;
  next.item = Item::kBad;
  return next;
}

ZmtpReader::Next ZmtpReader::TakeGreeting() {
  const std::span<const uint8_t> came{input_.data() + begin_, end_ - begin_};
  // As early as possible: what speaks something else may never say 64 bytes.
  const bool is_signed =
      (came.empty() || came[0] == 0xff) && (came.size() <= 9 || (came[9] & 1) == 1);
  if (!is_signed) return Bad(ProtocolError("it does not speak ZeroMQ's protocol"));
  if (came.size() > kVersionAt && came[kVersionAt] < 3) {
    return Bad(ProtocolError("it speaks a version of ZeroMQ's protocol before 3.0"));
  }
  if (came.size() < kGreetingBytes) return {};
  if (std::memcmp(came.data() + kMechanismAt, kMechanism.data(), kMechanism.size()) != 0) {
    return Bad(ProtocolError("it wants another security mechanism of ZeroMQ's than NULL"));
  }
  begin_ += kGreetingBytes;
  state_ = State::kReady;
  return {};
}

// Reads the header of a frame and makes room for the frame. False when more has to come, and when
// the header is bad.
bool ZmtpReader::BeginFrame() {
  const std::span<const uint8_t> came{input_.data() + begin_, end_ - begin_};
  if (came.empty()) return false;
  flags_ = came[0];
  const bool is_command = (flags_ & kCommand) != 0;
  if ((flags_ & ~(kMore | kLong | kCommand)) != 0 || (is_command && (flags_ & kMore) != 0)) {
    Bad(ProtocolError(fmt::format("a frame has flags 0x{:02x}, which ZMTP does not know", flags_)));
    return false;
  }
  const size_t size_bytes = (flags_ & kLong) != 0 ? 8 : 1;
  if (came.size() < 1 + size_bytes) return false;
  frame_bytes_ = LoadBe(came.subspan(1, size_bytes));
  if (state_ == State::kReady && !is_command) {
    Bad(ProtocolError("a message came before the handshake was over"));
    return false;
  }
  const uint64_t limit = is_command ? kMaxCommandBytes : max_frame_bytes_;
  if (frame_bytes_ > limit) {
    Bad(LimitExceeded(
        fmt::format("a frame of {} bytes is larger than {} bytes", frame_bytes_, limit)));
    return false;
  }
  begin_ += 1 + size_bytes;
  in_frame_ = true;
  have_bytes_ = 0;
  frame_ = allocate_frame_(frame_bytes_);
  return true;
}

ZmtpReader::Next ZmtpReader::TakeCommand(std::span<const uint8_t> body) {
  const size_t name_bytes = body.empty() ? 0 : body[0];
  if (name_bytes == 0 || body.size() < 1 + name_bytes) {
    return Bad(ProtocolError("a command of ZMTP has no name"));
  }
  const std::string_view name(reinterpret_cast<const char*>(body.data()) + 1, name_bytes);
  const std::span<const uint8_t> rest = body.subspan(1 + name_bytes);
  Next next;
  if (state_ == State::kReady) {
    std::string socket_type;
    if (name != "READY" || !ReadProperties(rest, &socket_type)) {
      return Bad(ProtocolError("the handshake of ZMTP cannot be read"));
    }
    if (socket_type != peer_type_) {
      return Bad(ProtocolError(fmt::format("the other end is not a {} socket", peer_type_)));
    }
    state_ = State::kTraffic;
    next.item = Item::kHandshake;
    return next;
  }
  if (name == "PING") {
    if (rest.size() < 2 || rest.size() > 2 + kMaxPingContextBytes) {
      return Bad(ProtocolError("a PING of ZMTP cannot be read"));
    }
    next.item = Item::kPing;
    next.context.assign(rest.begin() + 2, rest.end());
    return next;
  }
  if (name == "PONG") return next;
  return Bad(ProtocolError("a command of ZMTP came that means nothing here"));
}

ZmtpReader::Next ZmtpReader::Take() {
  for (;;) {
    if (state_ == State::kBad) {
      Next next;
      next.item = Item::kBad;
      return next;
    }
    if (state_ == State::kGreeting) {
      Next next = TakeGreeting();
      if (state_ == State::kReady) continue;
      return next;
    }
    if (!in_frame_ && !BeginFrame()) {
      if (state_ == State::kBad) continue;
      return {};
    }
    while (have_bytes_ < frame_bytes_ && begin_ < end_) {
      if (have_bytes_ == frame_.size()) Grow();
      const size_t room = std::min<uint64_t>(frame_.size(), frame_bytes_) - have_bytes_;
      const size_t bytes = std::min(room, end_ - begin_);
      std::memcpy(frame_.data() + have_bytes_, input_.data() + begin_, bytes);
      begin_ += bytes;
      have_bytes_ += bytes;
    }
    if (have_bytes_ < frame_bytes_) return {};

    in_frame_ = false;
    Buffer frame = std::move(frame_);
    frame.Truncate(frame_bytes_);
    if ((flags_ & kCommand) != 0) {
      Next next = TakeCommand({frame.data(), frame.size()});
      if (next.item == Item::kNothing) continue;
      return next;
    }
    const bool more = (flags_ & kMore) != 0;
    if (has_header_ && more) {
      return Bad(ProtocolError("a message of more than two frames came"));
    }
    if (more) {
      has_header_ = true;
      header_ = std::move(frame);
      continue;
    }
    Next next;
    next.item = Item::kMessage;
    if (has_header_) {
      has_header_ = false;
      next.message.header = std::move(header_);
      next.message.payload = std::move(frame);
    } else {
      next.message.header = std::move(frame);
    }
    return next;
  }
}

}  // namespace emlio::transport
