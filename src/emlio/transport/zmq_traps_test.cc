// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
//
// What libzmq and TCP do to the unwary, one test for each (README.md, "Traps").
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "emlio/transport/endpoint.h"
#include "emlio/transport/tcp_testing.h"
#include "emlio/transport/transport.h"
#include "emlio/transport/transport_testing.h"
#include "emlio/transport/zmtp_dialer.h"

namespace emlio::transport {
namespace {

using Kind = Event::Kind;
using testing::CountOf;
using testing::Find;
using testing::MakeMessage;
using testing::PollUntil;
using testing::PortOf;
using testing::TcpRelay;
using testing::TcpSocket;
using testing::Text;

std::unique_ptr<Listener> Listen(TransportOptions options = {}) {
  auto listener = ListenZmq("127.0.0.1:0", options);
  EXPECT_TRUE(listener.ok()) << listener.status().ToString();
  return listener.ok() ? *std::move(listener) : nullptr;
}
std::unique_ptr<Dialer> MakeDialer(TransportOptions options = {}) {
  auto dialer = DialZmq(options);
  EXPECT_TRUE(dialer.ok()) << dialer.status().ToString();
  return dialer.ok() ? *std::move(dialer) : nullptr;
}

// A dialer with one connection.
struct Client {
  std::unique_ptr<Dialer> dialer;
  ConnectionId id = 0;
  std::vector<Event> events;
  ConnectionId at_listener = 0;
};

// Connects and says hello.
Client ConnectTo(Listener* listener, std::vector<Event>* at_listener, const std::string& endpoint,
                 TransportOptions options = {}) {
  Client client;
  client.dialer = MakeDialer(options);
  const auto id = client.dialer->Dial(endpoint, 60'000);
  EXPECT_TRUE(id.ok());
  client.id = *id;
  EXPECT_TRUE(PollUntil(listener, at_listener, client.dialer.get(), &client.events,
                        [&] { return !client.events.empty(); }));
  EXPECT_EQ(client.events.front().kind, Kind::kConnected);
  Message hello = MakeMessage("hello");
  EXPECT_EQ(client.dialer->Send(client.id, &hello), SendResult::kSent);
  const size_t before = CountOf(*at_listener, Kind::kMessage);
  EXPECT_TRUE(PollUntil(listener, at_listener, client.dialer.get(), &client.events,
                        [&] { return CountOf(*at_listener, Kind::kMessage) > before; }));
  client.at_listener = at_listener->back().connection;
  client.events.clear();
  return client;
}

// A plain libzmq socket, to play a peer that is not ours.
class RawZmq {
 public:
  explicit RawZmq(int type) : context_(zmq_ctx_new()), socket_(zmq_socket(context_, type)) {
    Set(ZMQ_LINGER, 0);
    Set(ZMQ_RCVTIMEO, 60'000);
  }
  ~RawZmq() {
    zmq_close(socket_);
    zmq_ctx_term(context_);
  }
  void Set(int option, int value) { zmq_setsockopt(socket_, option, &value, sizeof(value)); }
  void* socket() { return socket_; }
  void Send(const std::vector<std::string>& frames) {
    for (size_t i = 0; i < frames.size(); ++i) {
      const int flags = i + 1 < frames.size() ? ZMQ_SNDMORE : 0;
      EXPECT_GE(zmq_send(socket_, frames[i].data(), frames[i].size(), flags), 0);
    }
  }
  std::string Receive() {
    char bytes[256];
    const int size = zmq_recv(socket_, bytes, sizeof(bytes), 0);
    return size < 0 ? "" : std::string(bytes, static_cast<size_t>(size));
  }

 private:
  void* const context_;
  void* const socket_;
};

// ZMTP by hand (https://rfc.zeromq.org/spec/23).
std::string ZmtpGreeting() {
  return std::string("\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL", 16) + std::string(48, '\0');
}
std::string ZmtpReady(const std::string& socket_type) {
  const std::string body = std::string("\5READY\x0bSocket-Type\0\0\0", 21) +
                           static_cast<char>(socket_type.size()) + socket_type;
  return std::string("\4") + static_cast<char>(body.size()) + body;
}

Event DialAndGetTheLoss(const std::string& endpoint, int deadline_ms,
                        TransportOptions options = {}) {
  auto dialer = MakeDialer(options);
  const auto id = dialer->Dial(endpoint, deadline_ms);
  EXPECT_TRUE(id.ok()) << id.status().ToString();
  std::vector<Event> events;
  EXPECT_TRUE(PollUntil(nullptr, nullptr, dialer.get(), &events, [&] { return !events.empty(); }));
  if (events.empty()) return {};
  EXPECT_EQ(events.front().kind, Kind::kLost);
  return std::move(events.front());
}

// --- A ROUTER without ZMQ_ROUTER_MANDATORY drops what a full or unknown peer should get. ---

TEST(ZmqTrapsTest, NothingIsDroppedForASlowPeerNorForTheOthers) {
  auto listener = Listen({.high_water_messages = 4});
  std::vector<Event> events;
  Client slow =
      ConnectTo(listener.get(), &events, listener->endpoint(), {.high_water_messages = 4});
  Client quick = ConnectTo(listener.get(), &events, listener->endpoint());
  int slow_taken = 0;
  int quick_taken = 0;
  bool slow_is_full = false;
  const std::string payload(100'000, 'x');
  // As long as the slow one takes something, and until the quick one got 200.
  ASSERT_TRUE(PollUntil(nullptr, nullptr, quick.dialer.get(), &quick.events, [&] {
    Message message = MakeMessage(std::to_string(slow_taken), payload);
    switch (listener->Send(slow.at_listener, &message)) {
      case SendResult::kSent:
        ++slow_taken;
        break;
      case SendResult::kFull:
        slow_is_full = true;
        break;
      case SendResult::kGone:
        ADD_FAILURE() << "the slow peer is still there";
    }
    message = MakeMessage(std::to_string(quick_taken), payload);
    if (quick_taken < 200 && listener->Send(quick.at_listener, &message) == SendResult::kSent) {
      ++quick_taken;
    }
    return slow_is_full && quick.events.size() == 200;
  }));
  ASSERT_TRUE(PollUntil(listener.get(), &events, slow.dialer.get(), &slow.events,
                        [&] { return slow.events.size() == static_cast<size_t>(slow_taken); }));
  for (const Client* client : {&slow, &quick}) {
    for (size_t i = 0; i < client->events.size(); ++i) {
      ASSERT_EQ(Text(client->events[i].message.header), std::to_string(i));
    }
  }
}

// --- A client that comes back is a stranger to a ROUTER. ---

TEST(ZmqTrapsTest, AReconnectedClientIsANewConnection) {
  auto listener = Listen();
  std::vector<Event> events;
  RawZmq client(ZMQ_DEALER);
  client.Set(ZMQ_RECONNECT_IVL, 10);
  TcpRelay first(PortOf(listener->endpoint()));
  ASSERT_EQ(zmq_connect(client.socket(), first.endpoint().c_str()), 0);
  client.Send({"one"});
  ASSERT_TRUE(
      PollUntil(listener.get(), &events, nullptr, nullptr, [&] { return !events.empty(); }));
  const ConnectionId old_id = events.front().connection;
  first.CutNow(TcpRelay::Cut::kFin);
  ASSERT_TRUE(PollUntil(listener.get(), &events, nullptr, nullptr,
                        [&] { return CountOf(events, Kind::kLost, old_id) == 1; }));
  ASSERT_EQ(zmq_connect(client.socket(), listener->endpoint().c_str()), 0);
  ASSERT_EQ(zmq_disconnect(client.socket(), first.endpoint().c_str()), 0);
  client.Send({"two"});
  ASSERT_TRUE(PollUntil(listener.get(), &events, nullptr, nullptr,
                        [&] { return CountOf(events, Kind::kMessage) == 2; }));
  const ConnectionId new_id = events.back().connection;
  EXPECT_NE(new_id, old_id);
  Message message = MakeMessage("lost");
  EXPECT_EQ(listener->Send(old_id, &message), SendResult::kGone);
  message = MakeMessage("found");
  EXPECT_EQ(listener->Send(new_id, &message), SendResult::kSent);
  EXPECT_EQ(client.Receive(), "found");
}

TEST(ZmqTrapsTest, AClientWithANameOfItsOwnIsANewConnectionToo) {
  auto listener = Listen();
  std::vector<Event> events;
  std::set<ConnectionId> ids;
  for (int i = 0; i < 3; ++i) {
    {
      RawZmq client(ZMQ_DEALER);
      zmq_setsockopt(client.socket(), ZMQ_ROUTING_ID, "me", 2);
      ASSERT_EQ(zmq_connect(client.socket(), listener->endpoint().c_str()), 0);
      client.Send({"hello"});
      ASSERT_TRUE(PollUntil(listener.get(), &events, nullptr, nullptr, [&] {
        return CountOf(events, Kind::kMessage) == static_cast<size_t>(i) + 1;
      }));
      EXPECT_TRUE(ids.insert(events.back().connection).second);
    }
    ASSERT_TRUE(PollUntil(listener.get(), &events, nullptr, nullptr, [&] {
      return CountOf(events, Kind::kLost) == static_cast<size_t>(i) + 1;
    }));
  }
}

TEST(ZmqTrapsTest, ASecondClientOfTheSameNameDoesNotDisturbTheFirst) {
  auto listener = Listen();
  std::vector<Event> events;
  RawZmq first(ZMQ_DEALER);
  RawZmq second(ZMQ_DEALER);
  size_t said = 0;
  for (RawZmq* client : {&first, &second}) {
    zmq_setsockopt(client->socket(), ZMQ_ROUTING_ID, "twin", 4);
    ASSERT_EQ(zmq_connect(client->socket(), listener->endpoint().c_str()), 0);
    client->Send({"hello"});
    ++said;
    ASSERT_TRUE(PollUntil(listener.get(), &events, nullptr, nullptr,
                          [&] { return events.size() == said; }));
  }
  EXPECT_NE(events[0].connection, events[1].connection);
  first.Send({"still here"});
  ASSERT_TRUE(
      PollUntil(listener.get(), &events, nullptr, nullptr, [&] { return events.size() == 3; }));
  EXPECT_EQ(events[2].connection, events[0].connection);
  EXPECT_EQ(CountOf(events, Kind::kLost), 0u);
  for (RawZmq* client : {&first, &second}) {
    Message answer = MakeMessage(client == &first ? "to the first" : "to the second");
    ASSERT_EQ(listener->Send(events[client == &first ? 0 : 1].connection, &answer),
              SendResult::kSent);
    EXPECT_EQ(client->Receive(), client == &first ? "to the first" : "to the second");
  }
}

// --- ZMTP heartbeats cut healthy links and abort the process. ---

TEST(ZmqTrapsTest, AStalledConsumerKeepsItsConnection) {
  auto listener = Listen({.high_water_messages = 4});
  std::vector<Event> events;
  Client client =
      ConnectTo(listener.get(), &events, listener->endpoint(), {.high_water_messages = 4});
  events.clear();
  int taken = 0;
  // The consumer is away for longer than any heartbeat one would choose; everything is full.
  bool is_full = false;
  const auto back = std::chrono::steady_clock::now() + std::chrono::milliseconds(1500);
  ASSERT_TRUE(PollUntil(listener.get(), &events, nullptr, nullptr, [&] {
    Message message = MakeMessage(std::to_string(taken), std::string(1 << 20, 'x'));
    const SendResult sent = listener->Send(client.at_listener, &message);
    is_full = sent == SendResult::kFull;
    taken += sent == SendResult::kSent ? 1 : 0;
    return is_full && std::chrono::steady_clock::now() > back;
  }));
  ASSERT_TRUE(PollUntil(listener.get(), &events, client.dialer.get(), &client.events,
                        [&] { return client.events.size() == static_cast<size_t>(taken); }));
  EXPECT_EQ(CountOf(client.events, Kind::kLost), 0u);
  EXPECT_TRUE(events.empty());
  Message message = MakeMessage("still here");
  EXPECT_EQ(client.dialer->Send(client.id, &message), SendResult::kSent);
  ASSERT_TRUE(PollUntil(listener.get(), &events, client.dialer.get(), &client.events,
                        [&] { return !events.empty(); }));
  EXPECT_EQ(events.front().connection, client.at_listener);
}

// --- libzmq tells nobody who was lost, and a stalled reader not even that. ---

TEST(ZmqTrapsTest, FinAndRstAreNoticedAtBothEndsWithoutSending) {
  for (const TcpRelay::Cut cut : {TcpRelay::Cut::kFin, TcpRelay::Cut::kRst}) {
    auto listener = Listen();
    std::vector<Event> events;
    TcpRelay relay(PortOf(listener->endpoint()));
    Client other = ConnectTo(listener.get(), &events, listener->endpoint());
    Client client = ConnectTo(listener.get(), &events, relay.endpoint());
    events.clear();
    relay.CutNow(cut);
    ASSERT_TRUE(PollUntil(listener.get(), &events, client.dialer.get(), &client.events,
                          [&] { return !events.empty() && !client.events.empty(); }));
    EXPECT_EQ(events.front().kind, Kind::kLost);
    EXPECT_EQ(events.front().connection, client.at_listener);
    EXPECT_EQ(events.front().reason.code(), Code::kUnavailable);
    EXPECT_NE(events.front().reason.message().find("127.0.0.1"), std::string::npos);
    EXPECT_EQ(client.events.front().kind, Kind::kLost);
    EXPECT_EQ(client.events.front().reason.code(), Code::kUnavailable);
    EXPECT_NE(client.events.front().reason.message().find(relay.endpoint()), std::string::npos);
    Message message = MakeMessage("m");
    EXPECT_EQ(listener->Send(client.at_listener, &message), SendResult::kGone);
    EXPECT_EQ(client.dialer->Send(client.id, &message), SendResult::kGone);
    EXPECT_EQ(listener->Send(other.at_listener, &message), SendResult::kSent);
  }
}

TEST(ZmqTrapsTest, WhatCameBeforeTheEndIsDeliveredHoweverLateItIsRead) {
  TcpSocket door = TcpSocket::ListenOnLoopback();
  auto dialer = MakeDialer();
  const auto id = dialer->Dial(door.endpoint(), 60'000);
  ASSERT_TRUE(id.ok());
  const TcpSocket server = door.Accept();
  std::vector<Event> events;
  ASSERT_TRUE(PollUntil(nullptr, nullptr, dialer.get(), &events,
                        [&] { return dialer->StateOf(*id).has_value(); }));
  ASSERT_TRUE(server.Send(ZmtpGreeting() + ZmtpReady("ROUTER")));
  // Messages may follow when the client's greeting and its READY have come.
  const std::string greeting = server.Receive(ZmtpGreeting().size() + 2);
  server.Receive(static_cast<uint8_t>(greeting.back()));
  ASSERT_TRUE(PollUntil(nullptr, nullptr, dialer.get(), &events, [&] { return !events.empty(); }));
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(server.Send(std::string("\0\1", 2) + std::to_string(i)));
  }
  ::shutdown(server.fd(), SHUT_WR);
  ASSERT_TRUE(PollUntil(nullptr, nullptr, dialer.get(), &events,
                        [&] { return CountOf(events, Kind::kLost) == 1; }));
  ASSERT_EQ(events.size(), 12u) << events.back().reason.ToString();
  EXPECT_EQ(events.front().kind, Kind::kConnected);
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(Text(events[i + 1].message.header), std::to_string(i));
  }
  EXPECT_EQ(events.back().kind, Kind::kLost);
}

// --- Frames. ---

TEST(ZmqTrapsTest, AFrameAboveTheLimitEndsItsConnectionOnly) {
  const TransportOptions small{.max_frame_bytes = 1 << 20};
  auto listener = Listen(small);
  std::vector<Event> events;
  Client good = ConnectTo(listener.get(), &events, listener->endpoint(), small);
  Client bad = ConnectTo(listener.get(), &events, listener->endpoint(), small);
  events.clear();
  Message message = MakeMessage("fits", std::string(1 << 20, 'x'));
  ASSERT_EQ(bad.dialer->Send(bad.id, &message), SendResult::kSent);
  message = MakeMessage("too big", std::string((1 << 20) + 1, 'x'));
  ASSERT_EQ(bad.dialer->Send(bad.id, &message), SendResult::kSent);
  ASSERT_TRUE(PollUntil(listener.get(), &events, bad.dialer.get(), &bad.events,
                        [&] { return CountOf(events, Kind::kLost) == 1 && !bad.events.empty(); }));
  EXPECT_EQ(events.front().kind, Kind::kMessage);
  EXPECT_EQ(events.back().connection, bad.at_listener);
  EXPECT_NE(events.back().reason.message().find("1048576"), std::string::npos);
  EXPECT_EQ(bad.events.front().kind, Kind::kLost);
  events.clear();

  // The other way the dialer knows which of the two it was.
  message = MakeMessage("too big", std::string((1 << 20) + 1, 'x'));
  ASSERT_EQ(listener->Send(good.at_listener, &message), SendResult::kSent);
  ASSERT_TRUE(PollUntil(listener.get(), &events, good.dialer.get(), &good.events,
                        [&] { return !good.events.empty(); }));
  EXPECT_EQ(good.events.front().kind, Kind::kLost);
  EXPECT_EQ(good.events.front().reason.code(), Code::kLimitExceeded);
}

TEST(ZmqTrapsTest, MoreThanTwoFramesAreAProtocolErrorAtEitherEnd) {
  auto listener = Listen();
  std::vector<Event> events;
  RawZmq client(ZMQ_DEALER);
  ASSERT_EQ(zmq_connect(client.socket(), listener->endpoint().c_str()), 0);
  client.Send({"a"});
  client.Send({"a", "b"});
  client.Send({"a", "b", "c"});
  client.Send({"a", "b"});
  ASSERT_TRUE(PollUntil(listener.get(), &events, nullptr, nullptr,
                        [&] { return CountOf(events, Kind::kLost) == 1; }));
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events.back().reason.code(), Code::kProtocol);
  Message message = MakeMessage("m");
  EXPECT_EQ(listener->Send(events.back().connection, &message), SendResult::kGone);

  RawZmq server(ZMQ_ROUTER);
  ASSERT_EQ(zmq_bind(server.socket(), "tcp://127.0.0.1:*"), 0);
  char endpoint[64] = "";
  size_t size = sizeof(endpoint);
  zmq_getsockopt(server.socket(), ZMQ_LAST_ENDPOINT, endpoint, &size);
  auto dialer = MakeDialer();
  const auto id = dialer->Dial(endpoint, 60'000);
  ASSERT_TRUE(id.ok());
  std::vector<Event> at_dialer;
  ASSERT_TRUE(
      PollUntil(nullptr, nullptr, dialer.get(), &at_dialer, [&] { return !at_dialer.empty(); }));
  message = MakeMessage("hello");
  ASSERT_EQ(dialer->Send(*id, &message), SendResult::kSent);
  server.Send({server.Receive(), "a", "b", "c"});
  ASSERT_TRUE(PollUntil(nullptr, nullptr, dialer.get(), &at_dialer,
                        [&] { return CountOf(at_dialer, Kind::kLost) == 1; }));
  EXPECT_EQ(at_dialer.back().reason.code(), Code::kProtocol);
  EXPECT_EQ(CountOf(at_dialer, Kind::kMessage), 0u);
}

TEST(ZmqTrapsTest, AnEmptyMessageIsAMessage) {
  testing::Counters counters;
  auto listener = Listen();
  std::vector<Event> events;
  Client client = ConnectTo(listener.get(), &events, listener->endpoint());
  events.clear();
  Message message;
  message.on_sent = counters.OnSent();
  ASSERT_EQ(client.dialer->Send(client.id, &message), SendResult::kSent);
  ASSERT_TRUE(PollUntil(listener.get(), &events, client.dialer.get(), &client.events,
                        [&] { return !events.empty() && counters.sent == 1; }));
  EXPECT_TRUE(events.front().message.header.empty());
  EXPECT_TRUE(events.front().message.payload.empty());
}

// --- A receive low-water mark keeps epoll silent about less. ---

// A large frame whose end comes late, and so much behind it that one turn does not take it all.
// What is left is less than the mark that the frame had.
std::string LateEnd(std::string* first) {
  constexpr size_t kLarge = 8 << 20;
  constexpr size_t kLate = 100'000;
  std::string frame = std::string("\2\0\0\0\0\0\x80\0\0", 9) + std::string(kLarge, 'x');
  *first = frame.substr(0, frame.size() - kLate);
  std::string rest = frame.substr(frame.size() - kLate);
  for (int i = 0; i < 40; ++i) {
    rest += std::string("\2\0\0\0\0\0\0\x10\0", 9) + std::string(4096, 'y');
  }
  return rest;
}

TEST(ZmqTrapsTest, NothingIsLeftWaitingBehindALargeFrameAtADialer) {
  TcpSocket door = TcpSocket::ListenOnLoopback();
  auto dialer = MakeDialer();
  ASSERT_TRUE(dialer->Dial(door.endpoint(), 60'000).ok());
  const TcpSocket server = door.Accept();
  std::string first;
  const std::string rest = LateEnd(&first);
  std::vector<Event> events;
  std::jthread sender([&] { server.Send(ZmtpGreeting() + ZmtpReady("ROUTER") + first); });
  // Everything that came was taken: the dialer waits for the rest of the frame.
  for (int quiet = 0; quiet < 20;) {
    const size_t before = events.size();
    ASSERT_TRUE(dialer->Poll(10, &events).ok());
    quiet = events.size() == before ? quiet + 1 : 0;
  }
  sender.join();
  ASSERT_TRUE(server.Send(rest));
  ASSERT_TRUE(PollUntil(nullptr, nullptr, dialer.get(), &events,
                        [&] { return CountOf(events, Kind::kMessage) == 41; }));
}

TEST(ZmqTrapsTest, NothingIsLeftWaitingBehindALargeFrameAtAListener) {
  auto listener = Listen();
  const TcpSocket client = TcpSocket::ConnectToLoopback(PortOf(listener->endpoint()));
  std::string first;
  const std::string rest = LateEnd(&first);
  std::vector<Event> events;
  std::jthread sender([&] { client.Send(ZmtpGreeting() + ZmtpReady("DEALER") + first); });
  for (int quiet = 0; quiet < 20; ++quiet) ASSERT_TRUE(listener->Poll(10, &events).ok());
  sender.join();
  ASSERT_TRUE(client.Send(rest));
  ASSERT_TRUE(PollUntil(listener.get(), &events, nullptr, nullptr,
                        [&] { return CountOf(events, Kind::kMessage) == 41; }));
}

// --- One client cannot keep a listener from the others. ---

TEST(ZmqTrapsTest, AFloodOfSmallMessagesKeepsNobodyElseOut) {
  auto listener = Listen();
  const TcpSocket flooder = TcpSocket::ConnectToLoopback(PortOf(listener->endpoint()));
  std::atomic<bool> stop = false;
  std::jthread flood([&] {
    std::string empty;
    for (int i = 0; i < 10'000; ++i) empty += std::string("\0\0", 2);
    bool going = flooder.Send(ZmtpGreeting() + ZmtpReady("DEALER"));
    while (going && !stop) going = flooder.Send(empty);
  });
  std::vector<Event> events;
  auto dialer = MakeDialer();
  const auto id = dialer->Dial(listener->endpoint(), 60'000);
  ASSERT_TRUE(id.ok());
  std::vector<Event> at_dialer;
  bool has_said = false;
  bool is_heard = false;
  const bool in_time = PollUntil(listener.get(), &events, dialer.get(), &at_dialer, [&] {
    for (const Event& event : events) is_heard |= Text(event.message.header) == "hello";
    events.clear();
    Message hello = MakeMessage("hello");
    has_said = has_said || dialer->Send(*id, &hello) == SendResult::kSent;
    return is_heard;
  });
  stop = true;
  listener.reset();
  EXPECT_TRUE(in_time);
}

// --- What the kernel knows of a connection. ---

TEST(ZmqTrapsTest, TheStateOfAConnectionIsKnownAtBothEnds) {
  auto listener = Listen();
  std::vector<Event> at_listener;
  Client client = ConnectTo(listener.get(), &at_listener, listener->endpoint());
  const auto here = client.dialer->StateOf(client.id);
  ASSERT_TRUE(here.has_value());
  EXPECT_GT(here->round_trip_us, 0);
  EXPECT_LT(here->round_trip_us, 60'000'000);
  EXPECT_GE(here->acked_bytes, 5u);  // the handshake's, at least
  const auto there = listener->StateOf(client.at_listener);
  ASSERT_TRUE(there.has_value());
  EXPECT_GT(there->min_round_trip_us, 0);
  EXPECT_LE(there->min_round_trip_us, 60'000'000);

  Message large = MakeMessage("header", testing::Pattern(1 << 20, 1));
  ASSERT_EQ(listener->Send(client.at_listener, &large), SendResult::kSent);
  EXPECT_TRUE(PollUntil(listener.get(), &at_listener, client.dialer.get(), &client.events,
                        [&] { return CountOf(client.events, Kind::kMessage) == 1; }));
  EXPECT_TRUE(PollUntil(listener.get(), &at_listener, nullptr, nullptr, [&] {
    return listener->StateOf(client.at_listener)->acked_bytes > (1u << 20);
  }));

  EXPECT_FALSE(client.dialer->StateOf(client.id + 1).has_value());
  EXPECT_FALSE(listener->StateOf(client.at_listener + 1).has_value());
  client.dialer->Close(client.id);
  EXPECT_FALSE(client.dialer->StateOf(client.id).has_value());
}

TEST(ZmqTrapsTest, TheStateIsKnownBeforeTheHandshakeIsOver) {
  // A peer that accepts and says nothing: the handshake never ends.
  const TcpSocket door = TcpSocket::ListenOnLoopback();
  auto dialer = MakeDialer();
  const auto id = dialer->Dial(door.endpoint(), 60'000);
  ASSERT_TRUE(id.ok());
  std::vector<Event> events;
  EXPECT_TRUE(PollUntil(nullptr, nullptr, dialer.get(), &events,
                        [&] { return dialer->StateOf(*id).has_value(); }));
  EXPECT_EQ(CountOf(events, Kind::kConnected), 0u);
  EXPECT_GT(dialer->StateOf(*id)->round_trip_us, 0);
}

// --- Endings of a dial are told apart, and name the address. ---

// A full backlog: the kernel drops every further SYN, as a black-holed network does.
class BlackHole {
 public:
  BlackHole() : door_(TcpSocket::ListenOnLoopback(0)) {
    for (int i = 0; i < 4; ++i) {
      fillers_.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      const sockaddr_in address = TcpSocket::Loopback(door_.port());
      (void)::connect(fillers_.back().fd(), reinterpret_cast<const sockaddr*>(&address),
                      sizeof(address));
    }
  }
  std::string endpoint() const { return door_.endpoint(); }

 private:
  const TcpSocket door_;
  std::vector<TcpSocket> fillers_;
};

std::string RefusedEndpoint() {
  const TcpSocket door = TcpSocket::ListenOnLoopback();
  return door.endpoint();
}

TEST(ZmqTrapsTest, ARefusedAddressIsUnavailable) {
  const std::string endpoint = RefusedEndpoint();
  const Event event = DialAndGetTheLoss(endpoint, 60'000);
  EXPECT_EQ(event.reason.code(), Code::kUnavailable);
  EXPECT_NE(event.reason.message().find(endpoint), std::string::npos);
}

TEST(ZmqTrapsTest, ANameThatDoesNotResolveIsNotFound) {
  const Event event = DialAndGetTheLoss("tcp://no-such-host.invalid:5555", 60'000);
  EXPECT_EQ(event.reason.code(), Code::kNotFound);
  EXPECT_NE(event.reason.message().find("no-such-host.invalid"), std::string::npos);
}

TEST(ZmqTrapsTest, AnAddressThatSwallowsEverythingIsATimeout) {
  const BlackHole hole;
  const Event event = DialAndGetTheLoss(hole.endpoint(), 300);
  EXPECT_EQ(event.reason.code(), Code::kTimeout);
  EXPECT_NE(event.reason.message().find(hole.endpoint()), std::string::npos);
  EXPECT_NE(event.reason.message().find("300 ms"), std::string::npos);
}

TEST(ZmqTrapsTest, APeerThatNeverSpeaksIsATimeout) {
  TcpSocket door = TcpSocket::ListenOnLoopback();
  const Event event = DialAndGetTheLoss(door.endpoint(), 300);
  EXPECT_EQ(event.reason.code(), Code::kTimeout);
}

TEST(ZmqTrapsTest, APeerThatSpeaksSomethingElseIsAProtocolError) {
  // The second would be taken for a frame of ZMTP 1.0, and the dialer for connected.
  for (const std::string& words :
       {std::string("HTTP/1.1 400 Bad Request\r\n\r\n"), std::string("\x01\x00\x05\x00hello", 9),
        std::string("SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n")}) {
    TcpSocket door = TcpSocket::ListenOnLoopback();
    std::jthread server([&] {
      const TcpSocket client = door.Accept();
      client.Send(words + std::string(100, ' '));
      client.AtEnd();
      client.Receive(1 << 20);
    });
    const Event event = DialAndGetTheLoss(door.endpoint(), 60'000);
    EXPECT_EQ(event.reason.code(), Code::kProtocol) << event.reason.ToString();
    EXPECT_NE(event.reason.message().find(door.endpoint()), std::string::npos);
  }
}

TEST(ZmqTrapsTest, ASocketOfTheWrongTypeIsAProtocolError) {
  TcpSocket door = TcpSocket::ListenOnLoopback();
  std::jthread server([&] {
    const TcpSocket client = door.Accept();
    client.Send(ZmtpGreeting() + ZmtpReady("PULL"));
    client.Receive(1 << 20);
  });
  const Event event = DialAndGetTheLoss(door.endpoint(), 60'000);
  EXPECT_EQ(event.reason.code(), Code::kProtocol) << event.reason.ToString();
}

TEST(ZmqTrapsTest, APeerThatHangsUpAtOnceIsUnavailable) {
  TcpSocket door = TcpSocket::ListenOnLoopback();
  std::jthread server([&] { door.Accept().Close(); });
  const Event event = DialAndGetTheLoss(door.endpoint(), 60'000);
  EXPECT_EQ(event.reason.code(), Code::kUnavailable) << event.reason.ToString();
}

TEST(ZmqTrapsTest, AnAddressThatCannotBeParsedIsRefusedAtOnce) {
  auto dialer = MakeDialer();
  for (const char* text : {"", "127.0.0.1:5", "tcp://127.0.0.1", "ipc:///tmp/x", "tcp://::1:5"}) {
    EXPECT_EQ(dialer->Dial(text, 1000).status().code(), Code::kInvalidArgument) << text;
  }
  for (const char* text : {"", "127.0.0.1", "127.0.0.1:x", "::1:5"}) {
    EXPECT_EQ(ListenZmq(text, {}).status().code(), Code::kInvalidArgument) << text;
  }
  EXPECT_EQ(ListenZmq("127.0.0.1:0", {.high_water_messages = 0}).status().code(),
            Code::kInvalidArgument);
}

// --- Addresses. ---

bool HasIpv6Loopback() { return ListenZmq("[::1]:0", {}).ok(); }

TEST(ZmqTrapsTest, Ipv6LiteralsWork) {
  if (!HasIpv6Loopback()) GTEST_SKIP() << "this kernel has no IPv6";
  auto listener = *ListenZmq("[::1]:0", {});
  EXPECT_EQ(listener->endpoint().find("tcp://[::1]:"), 0u);
  std::vector<Event> events;
  const Client client = ConnectTo(listener.get(), &events, listener->endpoint());
  EXPECT_NE(client.at_listener, 0u);
}

// Dials a name that has these addresses; the event that ends the attempts.
Event DialName(const std::vector<std::string>& endpoints, int deadline_ms, Listener* listener) {
  auto dialer = DialZmqWith({}, [endpoints](const HostPort& address) {
    EXPECT_EQ(address.host, "storage");
    EXPECT_EQ(address.port, 5555);
    std::vector<NumericAddress> found;
    for (const std::string& endpoint : endpoints) {
      const auto numeric = Resolve(*ParseDialEndpoint(endpoint), Lookup::kNumericOnly);
      EXPECT_TRUE(numeric.ok());
      found.push_back(numeric->front());
    }
    return Result<std::vector<NumericAddress>>(std::move(found));
  });
  EXPECT_TRUE(dialer.ok());
  EXPECT_TRUE((*dialer)->Dial("tcp://storage:5555", deadline_ms).ok());
  std::vector<Event> events;
  std::vector<Event> at_listener;
  EXPECT_TRUE(
      PollUntil(listener, &at_listener, dialer->get(), &events, [&] { return !events.empty(); }));
  EXPECT_EQ(events.size(), 1u);
  return events.empty() ? Event() : std::move(events.front());
}

// libzmq by itself tries the first address of a name only.
TEST(ZmqTrapsTest, EveryAddressOfANameIsTried) {
  auto listener = Listen();
  const std::string good = listener->endpoint();
  const std::string refused = RefusedEndpoint();
  const std::string refused_ipv6 = "tcp://[::1]:" + std::to_string(PortOf(refused));
  const BlackHole hole;
  for (const auto& endpoints : std::vector<std::vector<std::string>>{
           {good}, {good, refused}, {refused_ipv6, good}, {refused, refused_ipv6, good}}) {
    EXPECT_EQ(DialName(endpoints, 60'000, listener.get()).kind, Kind::kConnected);
  }
  // One that swallows everything leaves time for the next.
  EXPECT_EQ(DialName({hole.endpoint(), good}, 4'000, listener.get()).kind, Kind::kConnected);

  const Event all_refused = DialName({refused_ipv6, refused}, 60'000, listener.get());
  EXPECT_EQ(all_refused.kind, Kind::kLost);
  EXPECT_EQ(all_refused.reason.code(), Code::kUnavailable);
  EXPECT_NE(all_refused.reason.message().find(refused), std::string::npos);
  // Time enough to be refused by the first one also where that is told late.
  const Event swallowed = DialName({refused, hole.endpoint()}, 2'000, listener.get());
  EXPECT_EQ(swallowed.reason.code(), Code::kTimeout);
}

TEST(ZmqTrapsTest, ASlowNameServerIsATimeoutAndHoldsNothingUp) {
  std::atomic<bool> answer = false;
  std::atomic<bool> answered = false;
  auto dialer = DialZmqWith({}, [&](const HostPort& /*address*/) {
    while (!answer) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    answered = true;
    return Result<std::vector<NumericAddress>>(NotFound("too late"));
  });
  ASSERT_TRUE(dialer.ok());
  const auto slow = (*dialer)->Dial("tcp://storage:5555", 100);
  const auto refused = (*dialer)->Dial(RefusedEndpoint(), 60'000);
  ASSERT_TRUE(slow.ok() && refused.ok());
  std::vector<Event> events;
  ASSERT_TRUE(
      PollUntil(nullptr, nullptr, dialer->get(), &events, [&] { return events.size() == 2; }));
  // Both while nobody answers; which one first is up to who is late.
  for (const Event& event : events) {
    EXPECT_EQ(event.reason.code(), event.connection == *slow ? Code::kTimeout : Code::kUnavailable);
  }
  EXPECT_EQ(CountOf(events, Kind::kLost, *slow), 1u);
  EXPECT_EQ(CountOf(events, Kind::kLost, *refused), 1u);
  dialer = DialZmq({});  // the first one is destroyed while its lookup goes on
  answer = true;
  while (!answered) std::this_thread::yield();
}

TEST(ZmqTrapsTest, AListenerOnAllInterfacesIsReachable) {
  auto listener = ListenZmq("*:0", {});
  ASSERT_TRUE(listener.ok()) << listener.status().ToString();
  std::vector<Event> events;
  const Client client =
      ConnectTo(listener->get(), &events,
                "tcp://127.0.0.1:" + std::to_string(PortOf((*listener)->endpoint())));
  EXPECT_NE(client.at_listener, 0u);
}

TEST(ZmqTrapsTest, AnAddressInUseIsUnavailableAndNamed) {
  auto listener = Listen();
  const std::string address = listener->endpoint().substr(6);
  const auto second = ListenZmq(address, {});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), Code::kUnavailable);
  EXPECT_NE(second.status().message().find(address), std::string::npos);
}

TEST(ZmqTrapsTest, APortCanBeUsedAgainAtOnce) {
  auto listener = Listen();
  const std::string address = listener->endpoint().substr(6);
  for (int i = 0; i < 20; ++i) {
    std::vector<Event> events;
    Client client = ConnectTo(listener.get(), &events, "tcp://" + address);
    listener.reset();  // the server's side closes first: its port is in TIME_WAIT
    auto again = ListenZmq(address, {});
    ASSERT_TRUE(again.ok()) << again.status().ToString();
    listener = *std::move(again);
    ASSERT_TRUE(PollUntil(nullptr, nullptr, client.dialer.get(), &client.events,
                          [&] { return Find(client.events, Kind::kLost) != nullptr; }));
  }
}

// --- Strangers at the door. ---

TEST(ZmqTrapsTest, GarbageCostsItsOwnConnectionOnly) {
  auto listener = Listen();
  std::vector<Event> events;
  Client client = ConnectTo(listener.get(), &events, listener->endpoint());
  events.clear();
  const uint16_t port = PortOf(listener->endpoint());
  const std::string greeting = std::string("\xff\0\0\0\0\0\0\0\1\x7f", 10);
  const std::string zmtp3 = ZmtpGreeting();
  std::vector<std::string> words = {
      "GET / HTTP/1.1\r\nHost: x\r\n\r\n" + std::string(200, ' '),
      std::string(1000, '\0'),
      std::string(100, '\xff'),
      std::string("\x01\x00\x7e", 3) + std::string(200, 'x'),
      greeting + std::string("\1\5\0\0\0\5hello", 11),  // ZMTP 2.0
      greeting + std::string(200, 'x'),
      zmtp3 + std::string(300, 'x'),
      zmtp3 + std::string("\4\x26\5READY", 8) + std::string(40, '\xff'),
      zmtp3 + std::string("\6\xff\xff\xff\xff\xff\xff\xff\xff", 9) + std::string(100, 'x'),
  };
  for (uint32_t i = 0; i < 20; ++i) words.push_back(zmtp3 + testing::Pattern(500, i));
  for (const std::string& bytes : words) {
    TcpSocket stranger = TcpSocket::ConnectToLoopback(port);
    ASSERT_TRUE(stranger.valid());
    stranger.Send(bytes);
    ASSERT_TRUE(PollUntil(listener.get(), &events, nullptr, nullptr, [&] {
      pollfd ended{stranger.fd(), POLLIN, 0};
      char sink[1024];
      return ::poll(&ended, 1, 0) > 0 && ::recv(stranger.fd(), sink, sizeof(sink), 0) <= 0;
    })) << "the listener keeps a stranger";
  }
  // Half a handshake, then gone; every way of going.
  for (size_t cut = 0; cut < zmtp3.size(); cut += 5) {
    TcpSocket stranger = TcpSocket::ConnectToLoopback(port);
    stranger.Send(std::string_view(zmtp3).substr(0, cut));
    if (cut % 2 == 0) {
      stranger.Reset();
    } else {
      stranger.Close();
    }
  }
  EXPECT_TRUE(events.empty());
  Message message = MakeMessage("still here");
  ASSERT_EQ(client.dialer->Send(client.id, &message), SendResult::kSent);
  ASSERT_TRUE(PollUntil(listener.get(), &events, client.dialer.get(), &client.events,
                        [&] { return !events.empty(); }));
  EXPECT_EQ(events.front().connection, client.at_listener);
}

TEST(ZmqTrapsTest, AThousandConnectionsComeAndGo) {
  auto listener = Listen();
  std::vector<Event> events;
  Client client = ConnectTo(listener.get(), &events, listener->endpoint());
  events.clear();
  const uint16_t port = PortOf(listener->endpoint());
  for (int i = 0; i < 1000; ++i) {
    TcpSocket stranger = TcpSocket::ConnectToLoopback(port);
    ASSERT_TRUE(stranger.valid());
    if (i % 3 == 0) stranger.Reset();
    if (i % 50 == 0) {
      ASSERT_TRUE(listener->Poll(0, &events).ok());
    }
  }
  Message message = MakeMessage("still here");
  ASSERT_EQ(client.dialer->Send(client.id, &message), SendResult::kSent);
  ASSERT_TRUE(PollUntil(listener.get(), &events, client.dialer.get(), &client.events,
                        [&] { return !events.empty(); }));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events.front().connection, client.at_listener);
}

// Descriptor numbers are used again at once, and nobody polls meanwhile: each loss must still be
// told of the right connection, after its messages, and of no other.
TEST(ZmqTrapsTest, LossesAreNotMixedUpWhenDescriptorsAreUsedAgain) {
  testing::Counters counters;
  auto listener = Listen();
  std::vector<Event> events;
  Client stays = ConnectTo(listener.get(), &events, listener->endpoint());
  events.clear();
  constexpr size_t kVisitors = 60;
  for (size_t i = 0; i < kVisitors; ++i) {
    auto dialer = MakeDialer();
    const auto id = dialer->Dial(listener->endpoint(), 60'000);
    ASSERT_TRUE(id.ok());
    std::vector<Event> at_dialer;
    ASSERT_TRUE(PollUntil(listener.get(), &events, dialer.get(), &at_dialer,
                          [&] { return !at_dialer.empty(); }));
    ASSERT_EQ(at_dialer.front().kind, Kind::kConnected);
    Message message = counters.Make("visitor " + std::to_string(i), 1);
    ASSERT_EQ(dialer->Send(*id, &message), SendResult::kSent);
    ASSERT_TRUE(PollUntil(nullptr, nullptr, dialer.get(), &at_dialer,
                          [&] { return counters.sent == static_cast<int>(i) + 1; }));
    if (i % 10 == 9) {
      ASSERT_TRUE(listener->Poll(0, &events).ok());
    }
  }
  ASSERT_TRUE(PollUntil(listener.get(), &events, nullptr, nullptr,
                        [&] { return CountOf(events, Kind::kLost) >= kVisitors; }));
  std::set<ConnectionId> heard;
  std::set<ConnectionId> lost;
  for (const Event& event : events) {
    EXPECT_NE(event.connection, stays.at_listener);
    if (event.kind == Kind::kMessage) {
      EXPECT_TRUE(heard.insert(event.connection).second);
    } else {
      EXPECT_TRUE(heard.contains(event.connection));
      EXPECT_TRUE(lost.insert(event.connection).second);
    }
  }
  EXPECT_EQ(heard.size(), kVisitors);
  EXPECT_EQ(lost.size(), kVisitors);
  Message message = MakeMessage("still here");
  EXPECT_EQ(listener->Send(stays.at_listener, &message), SendResult::kSent);
  ASSERT_TRUE(PollUntil(listener.get(), &events, stays.dialer.get(), &stays.events,
                        [&] { return !stays.events.empty(); }));
  EXPECT_EQ(stays.events.front().kind, Kind::kMessage);
}

// Losses are told although another connection never leaves the listener a quiet moment.
TEST(ZmqTrapsTest, ALossIsToldWhileOthersAreBusy) {
  auto listener = Listen();
  std::vector<Event> events;
  Client busy = ConnectTo(listener.get(), &events, listener->endpoint());
  Client lost = ConnectTo(listener.get(), &events, listener->endpoint());
  events.clear();
  std::atomic<bool> stop = false;
  std::jthread flood([&] {
    std::vector<Event> ignored;
    while (!stop) {
      Message message = MakeMessage("flood");
      if (busy.dialer->Send(busy.id, &message) == SendResult::kFull) {
        EXPECT_TRUE(busy.dialer->Poll(1, &ignored).ok());
      }
    }
  });
  lost.dialer.reset();
  const bool told = PollUntil(listener.get(), &events, nullptr, nullptr, [&] {
    const bool done = CountOf(events, Kind::kLost, lost.at_listener) > 0;
    if (!done) events.clear();
    return done;
  });
  stop = true;
  EXPECT_TRUE(told);
}

// --- Descriptors run out: neither end stops serving. ---

// UBSan looks through a pipe whether an object is one, and takes it for none when it gets no pipe.
#if defined(__has_feature)
#if __has_feature(undefined_behavior_sanitizer)
#define EMLIO_SKIP_WHERE_DESCRIPTORS_ARE_NEEDED() \
  GTEST_SKIP() << "UBSan reports what is right without descriptors"
#endif
#endif
#ifndef EMLIO_SKIP_WHERE_DESCRIPTORS_ARE_NEEDED
#define EMLIO_SKIP_WHERE_DESCRIPTORS_ARE_NEEDED() static_cast<void>(0)
#endif

void LeaveDescriptors(rlim_t most) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = std::min(most, limit.rlim_max);
  setrlimit(RLIMIT_NOFILE, &limit);
}

[[noreturn]] void DialUntilNoDescriptorsAreLeft() {
  LeaveDescriptors(100);
  auto listener = Listen();
  auto dialer = MakeDialer();
  std::vector<Event> events;
  std::vector<Event> at_listener;
  for (int i = 0; i < 100; ++i) {
    if (!dialer->Dial(listener->endpoint(), 60'000).ok()) std::exit(1);
    if (!PollUntil(listener.get(), &at_listener, dialer.get(), &events,
                   [&] { return events.size() == static_cast<size_t>(i) + 1; })) {
      std::exit(2);
    }
  }
  // Those that the listener, which lacks them too, has turned away.
  const Event* turned_away = Find(events, Kind::kLost);
  if (turned_away == nullptr || turned_away->reason.code() == Code::kTimeout) std::exit(3);

  std::vector<TcpSocket> others;
  for (int fd = ::dup(0); fd >= 0; fd = ::dup(0)) others.emplace_back(fd);
  events.clear();
  if (!dialer->Dial(listener->endpoint(), 60'000).ok()) std::exit(4);
  if (!PollUntil(nullptr, nullptr, dialer.get(), &events, [&] { return !events.empty(); })) {
    std::exit(5);
  }
  if (events.front().reason.code() != Code::kLimitExceeded) std::exit(6);
  if (events.front().reason.message().find("ulimit -n") == std::string::npos) std::exit(7);
  const auto second = ListenZmq("127.0.0.1:0", {});
  if (second.ok() || second.status().code() != Code::kLimitExceeded) std::exit(8);
  if (DialZmq({}).status().code() != Code::kLimitExceeded) std::exit(9);

  others.clear();
  dialer.reset();
  dialer = MakeDialer();
  events.clear();
  if (!dialer->Dial(listener->endpoint(), 60'000).ok() ||
      !PollUntil(listener.get(), &at_listener, dialer.get(), &events,
                 [&] { return !events.empty(); }) ||
      events.front().kind != Kind::kConnected) {
    std::exit(10);
  }
  std::fputs("survived\n", stderr);
  std::exit(0);
}

[[noreturn]] void AcceptUntilNoDescriptorsAreLeft() {
  LeaveDescriptors(100);
  auto listener = Listen();
  auto dialer = MakeDialer();
  std::vector<Event> events;
  std::vector<Event> at_listener;
  std::vector<TcpSocket> strangers;
  const uint16_t port = PortOf(listener->endpoint());
  for (;;) {
    TcpSocket stranger = TcpSocket::ConnectToLoopback(port);
    if (!stranger.valid()) break;
    strangers.push_back(std::move(stranger));
    if (!listener->Poll(0, &at_listener).ok()) std::exit(1);
  }
  // For a while the listener's accept fails again and again.
  for (int i = 0; i < 20; ++i) {
    if (!listener->Poll(5, &at_listener).ok()) std::exit(2);
  }
  strangers.clear();
  // It goes on as soon as there are descriptors again.
  if (!PollUntil(listener.get(), &at_listener, dialer.get(), &events, [&] {
        if (CountOf(events, Kind::kConnected) > 0) return true;
        if (events.empty() || events.back().kind == Kind::kLost) {
          events.clear();
          events.emplace_back();  // one dial at a time
          return !dialer->Dial(listener->endpoint(), 10'000).ok();
        }
        return false;
      })) {
    std::exit(3);
  }
  if (CountOf(events, Kind::kConnected) == 0) std::exit(4);
  std::fputs("survived\n", stderr);
  std::exit(0);
}

TEST(ZmqTrapsDeathTest, DialingWithoutDescriptorsIsAnErrorThatNamesTheLimit) {
  EMLIO_SKIP_WHERE_DESCRIPTORS_ARE_NEEDED();
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(DialUntilNoDescriptorsAreLeft(), ::testing::ExitedWithCode(0), "survived");
}

TEST(ZmqTrapsDeathTest, AcceptingWithoutDescriptorsIsSurvived) {
  EMLIO_SKIP_WHERE_DESCRIPTORS_ARE_NEEDED();
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(AcceptUntilNoDescriptorsAreLeft(), ::testing::ExitedWithCode(0), "survived");
}

}  // namespace
}  // namespace emlio::transport
