// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "emlio/transport/transport.h"
#include "emlio/transport/transport_testing.h"

// What every transport must do. A transport gets all tests by one line:
//   INSTANTIATE_TEST_SUITE_P(Mine, TransportConformanceTest, ::testing::Values(my_factory), Name);
// Include this in one source of a test program only.
namespace emlio::transport {

struct TransportFactory {
  const char* name;
  testing::Ends (*make)(TransportOptions);
  // on_sent means that the other side's Poll took the message, not just that it left.
  bool sent_when_taken;
};
inline void PrintTo(const TransportFactory& factory, std::ostream* out) { *out << factory.name; }

class TransportConformanceTest : public ::testing::TestWithParam<TransportFactory> {
 protected:
  using Kind = Event::Kind;

  void Make(TransportOptions options = {}) {
    ends_ = GetParam().make(options);
    ASSERT_NE(ends_.listener, nullptr);
    ASSERT_NE(ends_.dialer, nullptr);
  }
  // A connection that stands; 0 on failure.
  ConnectionId Dial() {
    const auto id = ends_.dialer->Dial(ends_.endpoint, 30'000);
    EXPECT_TRUE(id.ok()) << id.status().ToString();
    if (!id.ok()) return 0;
    const bool connected = testing::PollBothUntil(
        &ends_, [&] { return testing::CountOf(ends_.at_dialer, Kind::kConnected, *id) > 0; });
    EXPECT_TRUE(connected);
    return *id;
  }
  // Dials and says hello; {dialer's id, listener's id}.
  std::pair<ConnectionId, ConnectionId> Connect() {
    const ConnectionId id = Dial();
    const size_t before = testing::CountOf(ends_.at_listener, Kind::kMessage);
    EXPECT_TRUE(testing::SendAlways(&ends_, ends_.dialer.get(), id, testing::MakeMessage("hello")));
    const bool heard = testing::PollBothUntil(
        &ends_, [&] { return testing::CountOf(ends_.at_listener, Kind::kMessage) > before; });
    EXPECT_TRUE(heard);
    if (!heard) return {id, 0};
    const ConnectionId at_listener = ends_.at_listener.back().connection;
    return {id, at_listener};
  }

  testing::Counters counters_;  // outlives the messages that count in it
  testing::Ends ends_;
};

TEST_P(TransportConformanceTest, RoundTripsEveryShape) {
  Make();
  const auto [at_dialer, at_listener] = Connect();
  ends_.at_listener.clear();
  ends_.at_dialer.clear();
  uint32_t seed = 0;
  for (const size_t header_size : {1u, 32u, 33u, 34u, 512u, 513u, 9000u}) {
    for (const size_t payload_size : {0u, 1u, 33u, 8192u, 100'000u, 1u << 20}) {
      const std::string header = testing::Pattern(header_size, ++seed);
      const std::string payload = testing::Pattern(payload_size, ++seed);
      ASSERT_TRUE(testing::SendAlways(&ends_, ends_.dialer.get(), at_dialer,
                                      testing::MakeMessage(header, payload)));
      ASSERT_TRUE(testing::SendAlways(&ends_, ends_.listener.get(), at_listener,
                                      testing::MakeMessage(header, payload)));
      ASSERT_TRUE(testing::PollBothUntil(
          &ends_, [&] { return ends_.at_listener.size() == 1 && ends_.at_dialer.size() == 1; }));
      for (std::vector<Event>* events : {&ends_.at_listener, &ends_.at_dialer}) {
        ASSERT_EQ(events->front().kind, Kind::kMessage);
        EXPECT_EQ(testing::Text(events->front().message.header), header);
        EXPECT_EQ(testing::Text(events->front().message.payload), payload);
        events->clear();
      }
    }
  }
}

TEST_P(TransportConformanceTest, CarriesFramesOf32Megabytes) {
  Make();
  const auto [at_dialer, at_listener] = Connect();
  ends_.at_dialer.clear();
  const std::string payload = testing::Pattern(32u << 20, 5);
  ASSERT_TRUE(testing::SendAlways(&ends_, ends_.listener.get(), at_listener,
                                  testing::MakeMessage("big", payload)));
  ASSERT_TRUE(testing::PollBothUntil(&ends_, [&] { return !ends_.at_dialer.empty(); }));
  ASSERT_EQ(ends_.at_dialer.front().kind, Kind::kMessage);
  EXPECT_TRUE(testing::Text(ends_.at_dialer.front().message.payload) == payload);
}

TEST_P(TransportConformanceTest, KeepsTheOrderOfEveryConnectionAndLosesNothing) {
  Make({.high_water_messages = 4});
  constexpr int kConnections = 3;
  constexpr int kMessages = 500;
  std::vector<std::pair<ConnectionId, ConnectionId>> ids;
  for (int i = 0; i < kConnections; ++i) ids.push_back(Connect());
  ends_.at_listener.clear();
  ends_.at_dialer.clear();
  for (int i = 0; i < kMessages; ++i) {
    for (const auto& [at_dialer, at_listener] : ids) {
      const std::string payload(i % 7 == 0 ? 50'000 : i % 3, 'x');
      ASSERT_TRUE(testing::SendAlways(&ends_, ends_.dialer.get(), at_dialer,
                                      testing::MakeMessage(std::to_string(i), payload)));
      ASSERT_TRUE(testing::SendAlways(&ends_, ends_.listener.get(), at_listener,
                                      testing::MakeMessage(std::to_string(i), payload)));
    }
  }
  const size_t all = static_cast<size_t>(kConnections) * kMessages;
  ASSERT_TRUE(testing::PollBothUntil(
      &ends_, [&] { return ends_.at_listener.size() >= all && ends_.at_dialer.size() >= all; }));
  for (const std::vector<Event>* events : {&ends_.at_listener, &ends_.at_dialer}) {
    std::map<ConnectionId, int> next;
    for (const Event& event : *events) {
      ASSERT_EQ(event.kind, Kind::kMessage);
      ASSERT_EQ(testing::Text(event.message.header), std::to_string(next[event.connection]++));
    }
    EXPECT_EQ(next.size(), static_cast<size_t>(kConnections));
  }
}

TEST_P(TransportConformanceTest, PollGivesAtMostSixtyFourEventsAtOnceAndNoneGetsLost) {
  Make({.high_water_messages = 200});
  const auto [at_dialer, at_listener] = Connect();
  ends_.at_dialer.clear();
  for (int i = 0; i < 150; ++i) {
    Message message = testing::MakeMessage("m");
    ASSERT_EQ(ends_.listener->Send(at_listener, &message), SendResult::kSent);
  }
  size_t largest = 0;
  ASSERT_TRUE(testing::PollUntil(nullptr, nullptr, ends_.dialer.get(), &ends_.at_dialer, [&] {
    std::vector<Event> some;
    EXPECT_TRUE(ends_.dialer->Poll(0, &some).ok());
    largest = std::max(largest, some.size());
    for (Event& event : some) ends_.at_dialer.push_back(std::move(event));
    return ends_.at_dialer.size() >= 150;
  }));
  EXPECT_EQ(ends_.at_dialer.size(), 150u);
  EXPECT_LE(largest, 64u);
}

TEST_P(TransportConformanceTest, OnSentFiresOnceForEveryMessageThatArrived) {
  Make();
  const auto [at_dialer, at_listener] = Connect();
  ends_.at_dialer.clear();
  ends_.at_listener.clear();
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(testing::SendAlways(&ends_, ends_.listener.get(), at_listener,
                                    counters_.Make("h", 1 + static_cast<size_t>(i) * 1000)));
    Message header_only = testing::MakeMessage("h");
    header_only.on_sent = counters_.OnSent();
    ASSERT_TRUE(testing::SendAlways(&ends_, ends_.dialer.get(), at_dialer, std::move(header_only)));
  }
  ASSERT_TRUE(testing::PollBothUntil(&ends_, [&] {
    return ends_.at_dialer.size() == 100 && ends_.at_listener.size() == 100 &&
           counters_.sent == 200;
  }));
  ends_.at_dialer.clear();
  ends_.at_listener.clear();
  ASSERT_TRUE(testing::PollBothUntil(&ends_, [&] { return counters_.released == 100; }));
  ends_ = {};
  EXPECT_EQ(counters_.sent, 200);
  EXPECT_EQ(counters_.released, 100);
}

TEST_P(TransportConformanceTest, ARefusedMessageIsUntouched) {
  Make({.high_water_messages = 2});
  const auto [at_dialer, at_listener] = Connect();
  int taken = 0;
  SendResult result = SendResult::kSent;
  for (int tries = 0; tries < 10'000 && result == SendResult::kSent; ++tries) {
    Message message = counters_.Make("header", 256 << 10);
    const uint8_t* payload = message.payload.data();
    result = ends_.listener->Send(at_listener, &message);
    if (result == SendResult::kSent) {
      ++taken;
      EXPECT_TRUE(message.header.empty());
    } else {
      EXPECT_EQ(testing::Text(message.header), "header");
      EXPECT_EQ(message.payload.data(), payload);
      EXPECT_EQ(message.payload.size(), 256u << 10);
      EXPECT_NE(message.on_sent.function, nullptr);
    }
  }
  ASSERT_EQ(result, SendResult::kFull);
  ASSERT_GE(taken, 2);
  Message nowhere = counters_.Make("header", 10);
  EXPECT_EQ(ends_.listener->Send(at_listener + 1000, &nowhere), SendResult::kGone);
  EXPECT_EQ(testing::Text(nowhere.header), "header");
  EXPECT_EQ(ends_.dialer->Send(at_dialer + 1000, &nowhere), SendResult::kGone);
  EXPECT_EQ(nowhere.payload.size(), 10u);
  nowhere = Message();
  ends_ = {};
  EXPECT_EQ(counters_.sent, taken);
  EXPECT_EQ(counters_.released, taken + 2);
}

TEST_P(TransportConformanceTest, DialersMessagesAreRefusedToo) {
  Make({.high_water_messages = 2});
  const ConnectionId id = Dial();
  int taken = 0;
  SendResult result = SendResult::kSent;
  while (taken < 10'000 && result == SendResult::kSent) {
    // A header too large to be copied, so that it has to be handed back.
    Message message = counters_.Make(std::string(2000, 'h'), 256 << 10);
    result = ends_.dialer->Send(id, &message);
    if (result == SendResult::kSent) {
      ++taken;
    } else {
      EXPECT_EQ(testing::Text(message.header), std::string(2000, 'h'));
      EXPECT_EQ(message.payload.size(), 256u << 10);
    }
  }
  ASSERT_EQ(result, SendResult::kFull);
  ends_.at_listener.clear();
  ASSERT_TRUE(testing::PollBothUntil(
      &ends_, [&] { return ends_.at_listener.size() == static_cast<size_t>(taken); }));
}

TEST_P(TransportConformanceTest, AFullConnectionHoldsUpNoOther) {
  Make({.high_water_messages = 4});
  const auto a = Connect();
  const auto b = Connect();
  ends_.at_dialer.clear();
  // The dialer does not poll. A is filled, then B takes as many all the same.
  std::map<ConnectionId, int> taken;
  for (const ConnectionId to : {a.second, b.second}) {
    for (int tries = 0; tries < 10'000; ++tries) {
      Message message =
          testing::MakeMessage(std::to_string(taken[to]), std::string(256 << 10, 'x'));
      if (ends_.listener->Send(to, &message) != SendResult::kSent) break;
      ++taken[to];
    }
    EXPECT_GE(taken[to], 4);
  }
  const size_t all = static_cast<size_t>(taken[a.second] + taken[b.second]);
  ASSERT_TRUE(testing::PollBothUntil(&ends_, [&] { return ends_.at_dialer.size() >= all; }));
  std::map<ConnectionId, int> next;
  for (const Event& event : ends_.at_dialer) {
    ASSERT_EQ(testing::Text(event.message.header), std::to_string(next[event.connection]++));
  }
  EXPECT_EQ(next[a.first], taken[a.second]);
  EXPECT_EQ(next[b.first], taken[b.second]);
  // And A takes messages again.
  EXPECT_TRUE(
      testing::SendAlways(&ends_, ends_.listener.get(), a.second, testing::MakeMessage("again")));
}

TEST_P(TransportConformanceTest, PollReturnsWhenAFullConnectionHasRoomAgain) {
  Make({.high_water_messages = 2});
  const auto [at_dialer, at_listener] = Connect();
  for (int tries = 0; tries < 10'000; ++tries) {
    Message message = testing::MakeMessage("m", std::string(256 << 10, 'x'));
    if (ends_.listener->Send(at_listener, &message) == SendResult::kFull) break;
  }
  Message last = testing::MakeMessage("last");
  bool sent = false;
  bool received = false;
  std::jthread sender([&, to = at_listener] {
    std::vector<Event> events;
    // Waits for ever: the transport has to say when trying again is worth it.
    while (!sent && ends_.listener->Poll(-1, &events).ok()) {
      sent = ends_.listener->Send(to, &last) == SendResult::kSent;
    }
  });
  received = testing::PollUntil(nullptr, nullptr, ends_.dialer.get(), &ends_.at_dialer, [&] {
    return !ends_.at_dialer.empty() && ends_.at_dialer.back().kind == Kind::kMessage &&
           testing::Text(ends_.at_dialer.back().message.header) == "last";
  });
  sender.join();
  EXPECT_TRUE(sent);
  EXPECT_TRUE(received);
}

TEST_P(TransportConformanceTest, ListenerNoticesACloseAndGetsEverythingSentBefore) {
  Make({.high_water_messages = 100});
  const auto [at_dialer, at_listener] = Connect();
  ends_.at_listener.clear();
  for (int i = 0; i < 20; ++i) {
    Message message = counters_.Make(std::to_string(i), 20'000);
    ASSERT_EQ(ends_.dialer->Send(at_dialer, &message), SendResult::kSent);
  }
  if (!GetParam().sent_when_taken) {
    ASSERT_TRUE(testing::PollUntil(nullptr, nullptr, ends_.dialer.get(), &ends_.at_dialer,
                                   [&] { return counters_.sent == 20; }));
  }
  ends_.dialer->Close(at_dialer);
  ASSERT_TRUE(testing::PollBothUntil(
      &ends_, [&] { return testing::CountOf(ends_.at_listener, Kind::kLost) > 0; }));
  ASSERT_EQ(ends_.at_listener.size(), 21u);
  for (int i = 0; i < 20; ++i) {
    const auto at = static_cast<size_t>(i);
    EXPECT_EQ(testing::Text(ends_.at_listener[at].message.header), std::to_string(i));
  }
  EXPECT_EQ(ends_.at_listener.back().kind, Kind::kLost);
  EXPECT_EQ(ends_.at_listener.back().connection, at_listener);
  EXPECT_EQ(ends_.at_listener.back().reason.code(), Code::kUnavailable);
  Message late = testing::MakeMessage("late");
  EXPECT_EQ(ends_.listener->Send(at_listener, &late), SendResult::kGone);
  EXPECT_EQ(ends_.dialer->Send(at_dialer, &late), SendResult::kGone);
  EXPECT_EQ(counters_.sent, 20);
}

TEST_P(TransportConformanceTest, DialerNoticesTheEndOfTheListenerAndGetsEverythingSentBefore) {
  Make({.high_water_messages = 100});
  const auto [at_dialer, at_listener] = Connect();
  ends_.at_dialer.clear();
  for (int i = 0; i < 20; ++i) {
    Message message = counters_.Make(std::to_string(i), 20'000);
    ASSERT_EQ(ends_.listener->Send(at_listener, &message), SendResult::kSent);
  }
  if (!GetParam().sent_when_taken) {
    ASSERT_TRUE(testing::PollUntil(ends_.listener.get(), &ends_.at_listener, nullptr, nullptr,
                                   [&] { return counters_.sent == 20; }));
  }
  ends_.listener.reset();
  ASSERT_TRUE(testing::PollBothUntil(
      &ends_, [&] { return testing::CountOf(ends_.at_dialer, Kind::kLost) > 0; }));
  ASSERT_EQ(ends_.at_dialer.size(), 21u);
  for (int i = 0; i < 20; ++i) {
    const auto at = static_cast<size_t>(i);
    EXPECT_EQ(testing::Text(ends_.at_dialer[at].message.header), std::to_string(i));
  }
  EXPECT_EQ(ends_.at_dialer.back().connection, at_dialer);
  EXPECT_EQ(ends_.at_dialer.back().reason.code(), Code::kUnavailable);
  Message late = testing::MakeMessage("late");
  EXPECT_EQ(ends_.dialer->Send(at_dialer, &late), SendResult::kGone);
  EXPECT_EQ(counters_.sent, 20);
}

TEST_P(TransportConformanceTest, DialingWhereNobodyListensIsLost) {
  Make();
  ends_.listener.reset();
  const auto id = ends_.dialer->Dial(ends_.endpoint, 30'000);
  ASSERT_TRUE(id.ok());
  ASSERT_TRUE(testing::PollBothUntil(&ends_, [&] { return !ends_.at_dialer.empty(); }));
  EXPECT_EQ(ends_.at_dialer.front().kind, Kind::kLost);
  EXPECT_EQ(ends_.at_dialer.front().connection, *id);
  EXPECT_EQ(ends_.at_dialer.front().reason.code(), Code::kUnavailable);
}

TEST_P(TransportConformanceTest, NothingFollowsAClose) {
  Make();
  const auto a = Connect();
  const auto b = Connect();
  ends_.at_dialer.clear();
  for (const ConnectionId to : {a.second, b.second}) {
    Message message = testing::MakeMessage("m");
    ASSERT_EQ(ends_.listener->Send(to, &message), SendResult::kSent);
  }
  ends_.dialer->Close(a.first);
  ends_.listener->Forget(b.second);
  Message more = testing::MakeMessage("more");
  EXPECT_EQ(ends_.listener->Send(b.second, &more), SendResult::kGone);
  ASSERT_TRUE(testing::PollBothUntil(&ends_, [&] { return !ends_.at_dialer.empty(); }));
  ends_.listener.reset();
  ASSERT_TRUE(testing::PollBothUntil(
      &ends_, [&] { return testing::CountOf(ends_.at_dialer, Kind::kLost, b.first) == 1; }));
  EXPECT_EQ(testing::CountOf(ends_.at_dialer, Kind::kMessage, b.first), 1u);
  for (const Event& event : ends_.at_dialer) EXPECT_EQ(event.connection, b.first);
}

TEST_P(TransportConformanceTest, AForgottenConnectionIsHeardNoMore) {
  Make();
  const auto a = Connect();
  const auto b = Connect();
  ends_.at_listener.clear();
  ends_.listener->Forget(a.second);
  Message message = testing::MakeMessage("from a");
  const SendResult result = ends_.dialer->Send(a.first, &message);
  EXPECT_NE(result, SendResult::kFull);
  message = testing::MakeMessage("from b");
  ASSERT_EQ(ends_.dialer->Send(b.first, &message), SendResult::kSent);
  ASSERT_TRUE(testing::PollBothUntil(
      &ends_, [&] { return testing::CountOf(ends_.at_listener, Kind::kMessage, b.second) == 1; }));
  ends_.dialer->Close(a.first);
  ends_.dialer->Close(b.first);
  ASSERT_TRUE(testing::PollBothUntil(
      &ends_, [&] { return testing::CountOf(ends_.at_listener, Kind::kLost, b.second) == 1; }));
  for (const Event& event : ends_.at_listener) EXPECT_EQ(event.connection, b.second);
}

TEST_P(TransportConformanceTest, ConnectionIdsAreNeverUsedAgain) {
  Make();
  std::set<ConnectionId> at_dialer;
  std::set<ConnectionId> at_listener;
  for (int i = 0; i < 20; ++i) {
    const auto [dialer_id, listener_id] = Connect();
    EXPECT_TRUE(at_dialer.insert(dialer_id).second);
    EXPECT_TRUE(at_listener.insert(listener_id).second);
    ends_.dialer->Close(dialer_id);
    ASSERT_TRUE(testing::PollBothUntil(&ends_, [&, id = listener_id] {
      return testing::CountOf(ends_.at_listener, Kind::kLost, id) == 1;
    }));
  }
}

TEST_P(TransportConformanceTest, ServesManyConnectionsAtOnce) {
  Make();
  constexpr size_t kConnections = 100;
  std::vector<ConnectionId> ids;
  for (size_t i = 0; i < kConnections; ++i) {
    const auto id = ends_.dialer->Dial(ends_.endpoint, 30'000);
    ASSERT_TRUE(id.ok()) << id.status().ToString();
    ids.push_back(*id);
  }
  ASSERT_TRUE(testing::PollBothUntil(
      &ends_, [&] { return testing::CountOf(ends_.at_dialer, Kind::kConnected) == kConnections; }));
  ends_.at_dialer.clear();
  for (const ConnectionId id : ids) {
    Message message = testing::MakeMessage(std::to_string(id));
    ASSERT_EQ(ends_.dialer->Send(id, &message), SendResult::kSent);
  }
  ASSERT_TRUE(
      testing::PollBothUntil(&ends_, [&] { return ends_.at_listener.size() == kConnections; }));
  for (Event& event : ends_.at_listener) {  // each gets its own words back
    ASSERT_EQ(ends_.listener->Send(event.connection, &event.message), SendResult::kSent);
  }
  ASSERT_TRUE(
      testing::PollBothUntil(&ends_, [&] { return ends_.at_dialer.size() == kConnections; }));
  for (const Event& event : ends_.at_dialer) {
    EXPECT_EQ(testing::Text(event.message.header), std::to_string(event.connection));
  }
  ends_.at_listener.clear();
  ends_.dialer.reset();
  ASSERT_TRUE(testing::PollBothUntil(
      &ends_, [&] { return testing::CountOf(ends_.at_listener, Kind::kLost) == kConnections; }));
}

TEST_P(TransportConformanceTest, PollComesBackAfterItsTime) {
  Make();
  std::vector<Event> events;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(ends_.listener->Poll(0, &events).ok());
  EXPECT_TRUE(ends_.dialer->Poll(0, &events).ok());
  EXPECT_TRUE(ends_.listener->Poll(30, &events).ok());
  EXPECT_TRUE(ends_.dialer->Poll(30, &events).ok());
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(60));
  EXPECT_TRUE(events.empty());
}

TEST_P(TransportConformanceTest, WakeEndsThePollInProgressOrTheNextOne) {
  Make();
  std::vector<Event> events;
  for (int i = 0; i < 100; ++i) ends_.listener->Wake();
  EXPECT_TRUE(ends_.listener->Poll(-1, &events).ok());
  ends_.dialer->Wake();
  EXPECT_TRUE(ends_.dialer->Poll(-1, &events).ok());
  for (int i = 0; i < 200; ++i) {
    std::jthread waker([&] {
      ends_.listener->Wake();
      ends_.dialer->Wake();
    });
    EXPECT_TRUE(ends_.listener->Poll(-1, &events).ok());
    EXPECT_TRUE(ends_.dialer->Poll(-1, &events).ok());
  }
  EXPECT_TRUE(events.empty());
}

// One of the wakers may find the flag already set: its wake must not get lost all the same.
TEST_P(TransportConformanceTest, NoWakeIsLostAmongMany) {
  Make();
  constexpr int kWakers = 3;
  constexpr int kRounds = 3000;
  std::atomic<int> work = 0;
  std::vector<std::jthread> wakers;
  for (int i = 0; i < kWakers; ++i) {
    wakers.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        ++work;
        ends_.listener->Wake();
      }
    });
  }
  std::vector<Event> events;
  int done = 0;
  while (done < kWakers * kRounds) {
    ASSERT_TRUE(ends_.listener->Poll(-1, &events).ok());
    done += work.exchange(0);
  }
}

TEST_P(TransportConformanceTest, CanBeDestroyedWithMessagesUnderWay) {
  int taken = 0;
  for (const bool listener_first : {true, false}) {
    Make({.high_water_messages = 4});
    const auto [at_dialer, at_listener] = Connect();
    for (int tries = 0; tries < 10'000; ++tries) {
      Message message = counters_.Make("m", 256 << 10);
      if (ends_.listener->Send(at_listener, &message) != SendResult::kSent) break;
      ++taken;
    }
    for (int tries = 0; tries < 10'000; ++tries) {
      Message message = counters_.Make("m", 256 << 10);
      if (ends_.dialer->Send(at_dialer, &message) != SendResult::kSent) break;
      ++taken;
    }
    ASSERT_TRUE(ends_.dialer->Dial(ends_.endpoint, 30'000).ok());
    if (listener_first) {
      ends_.listener.reset();
      ends_.dialer.reset();
    } else {
      ends_.dialer.reset();
      ends_.listener.reset();
    }
    ends_ = {};
  }
  EXPECT_GE(taken, 8);
  EXPECT_EQ(counters_.sent, taken);
}

TEST_P(TransportConformanceTest, MessagesOutliveTheTransport) {
  Make();
  const auto [at_dialer, at_listener] = Connect();
  ends_.at_dialer.clear();
  const std::string payload = testing::Pattern(300'000, 9);
  ASSERT_TRUE(testing::SendAlways(&ends_, ends_.listener.get(), at_listener,
                                  testing::MakeMessage("kept", payload)));
  ASSERT_TRUE(testing::PollBothUntil(&ends_, [&] { return !ends_.at_dialer.empty(); }));
  std::vector<Event> kept = std::move(ends_.at_dialer);
  ends_ = {};
  std::jthread elsewhere([&] {
    EXPECT_EQ(testing::Text(kept.front().message.header), "kept");
    EXPECT_TRUE(testing::Text(kept.front().message.payload) == payload);
    kept.clear();
  });
}

// The way the daemon and the loader use it: a thread at each end, credit by on_sent and Wake.
TEST_P(TransportConformanceTest, StreamsBetweenTwoThreads) {
  Make({.high_water_messages = 8});
  constexpr int kMessages = 2000;
  const auto [at_dialer, at_listener] = Connect();
  ends_.at_dialer.clear();
  struct Sender {
    Listener* listener;
    std::atomic<int> done{0};
  } sender{ends_.listener.get()};
  const SentCallback on_sent{[](void* context) {
                               auto* self = static_cast<Sender*>(context);
                               ++self->done;
                               self->listener->Wake();
                             },
                             &sender};
  std::jthread sending([&, to = at_listener] {
    std::vector<Event> events;
    for (int next = 0; next < kMessages || sender.done < kMessages;) {
      if (next < kMessages) {
        Message message = testing::MakeMessage(
            std::to_string(next), std::string(static_cast<size_t>(next % 50) * 997, 'x'));
        message.on_sent = on_sent;
        const SendResult result = ends_.listener->Send(to, &message);
        ASSERT_NE(result, SendResult::kGone);
        if (result == SendResult::kSent) {
          ++next;
          continue;
        }
      }
      ASSERT_TRUE(ends_.listener->Poll(-1, &events).ok());
    }
  });
  EXPECT_TRUE(testing::PollUntil(nullptr, nullptr, ends_.dialer.get(), &ends_.at_dialer,
                                 [&] { return ends_.at_dialer.size() >= kMessages; }));
  sending.join();
  for (int i = 0; i < kMessages; ++i) {
    ASSERT_EQ(testing::Text(ends_.at_dialer[static_cast<size_t>(i)].message.header),
              std::to_string(i));
  }
  EXPECT_EQ(sender.done, kMessages);
}

}  // namespace emlio::transport
