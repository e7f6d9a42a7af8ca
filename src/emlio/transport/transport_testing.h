// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "emlio/transport/transport.h"

// Helpers of the transport tests.
namespace emlio::transport::testing {

// Against hangs only; far beyond what anything takes.
inline constexpr auto kDeadline = std::chrono::seconds(60);

// Both ends of a transport and what each has reported. Polled from one thread.
struct Ends {
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Dialer> dialer;
  std::string endpoint;
  std::vector<Event> at_listener;
  std::vector<Event> at_dialer;
};

// Polls whichever end exists and is wanted until `done`. False when the deadline passed.
inline bool PollUntil(Listener* listener, std::vector<Event>* at_listener, Dialer* dialer,
                      std::vector<Event>* at_dialer, const std::function<bool()>& done) {
  const auto deadline = std::chrono::steady_clock::now() + kDeadline;
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    if (listener != nullptr && !listener->Poll(dialer == nullptr ? 5 : 1, at_listener).ok()) {
      return false;
    }
    if (dialer != nullptr && !dialer->Poll(listener == nullptr ? 5 : 1, at_dialer).ok()) {
      return false;
    }
  }
  return true;
}
inline bool PollBothUntil(Ends* ends, const std::function<bool()>& done) {
  return PollUntil(ends->listener.get(), &ends->at_listener, ends->dialer.get(), &ends->at_dialer,
                   done);
}

inline size_t CountOf(const std::vector<Event>& events, Event::Kind kind) {
  size_t count = 0;
  for (const Event& event : events) count += event.kind == kind ? 1 : 0;
  return count;
}
inline size_t CountOf(const std::vector<Event>& events, Event::Kind kind, ConnectionId from) {
  size_t count = 0;
  for (const Event& event : events) {
    count += event.kind == kind && event.connection == from ? 1 : 0;
  }
  return count;
}
// The first event of that kind, or null.
inline const Event* Find(const std::vector<Event>& events, Event::Kind kind) {
  for (const Event& event : events) {
    if (event.kind == kind) return &event;
  }
  return nullptr;
}

inline std::string Text(const Buffer& buffer) {
  return std::string(reinterpret_cast<const char*>(buffer.data()), buffer.size());
}
inline Message MakeMessage(std::string_view header, std::string_view payload = "") {
  Message message;
  message.header = Buffer::CopyOf(header.data(), header.size());
  if (!payload.empty()) message.payload = Buffer::CopyOf(payload.data(), payload.size());
  return message;
}
// Bytes that differ from place to place, so that a shifted or torn frame is noticed.
inline std::string Pattern(size_t size, uint32_t seed) {
  std::string bytes(size, '\0');
  uint32_t state = seed * 2654435761u + 1;
  for (char& byte : bytes) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<char>(state >> 24);
  }
  return bytes;
}

// Counts on_sent calls and released buffers. Must outlive the messages it makes.
struct Counters {
  std::atomic<int> sent{0};
  std::atomic<int> released{0};

  SentCallback OnSent() {
    return {[](void* self) { ++static_cast<Counters*>(self)->sent; }, this};
  }
  // A message with a payload of `size` bytes that counts in both.
  Message Make(std::string_view header, size_t size) {
    Message message = MakeMessage(header);
    struct Owned {
      Counters* counters;
      std::string bytes;
    };
    auto* owned = new Owned{this, std::string(size, 'p')};
    message.payload = Buffer(
        owned->bytes.data(), size,
        [](void* context) {
          auto* self = static_cast<Owned*>(context);
          ++self->counters->released;
          delete self;
        },
        owned);
    message.on_sent = OnSent();
    return message;
  }
};

// Sends with as many tries as it takes; both ends are polled meanwhile.
template <typename End>
inline bool SendAlways(Ends* ends, End* from, ConnectionId to, Message message) {
  SendResult result = SendResult::kFull;
  const bool in_time = PollBothUntil(ends, [&] {
    result = from->Send(to, &message);
    return result != SendResult::kFull;
  });
  return in_time && result == SendResult::kSent;
}

}  // namespace emlio::transport::testing
