// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_agent/agent.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "emlio/base/mutex.h"
#include "emlio/base/thread.h"
#include "emlio/energy/testing/live_host.h"
#include "emlio/energy/tick_codec.h"
#include "emlio/energy_agent/link.h"
#include "emlio/energy_agent/messages.h"
#include "emlio/energy_agent/testing/scripted_agent.h"
#include "emlio/transport/transport.h"

namespace emlio::energy_agent {
namespace {

using energy::testing::kTwoSocketsWatts;
using energy::testing::LiveHost;
using testing::ScriptedAgent;

constexpr auto kDeadline = std::chrono::seconds(30);  // against hangs only

void Sleep(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

std::shared_ptr<energy::Monitor> StartMonitor(const LiveHost& host,
                                              int64_t interval_ns = 20 * kNsPerMs) {
  energy::MonitorOptions options;
  options.host = host.host();
  options.interval_ns = interval_ns;
  auto monitor = energy::Monitor::Start(std::move(options));
  EXPECT_TRUE(monitor.ok()) << monitor.status().ToString();
  return *std::move(monitor);
}

// A client that knows nothing but messages.
class Client {
 public:
  explicit Client(const std::string& endpoint) {
    dialer_ = *transport::DialZmq({});
    connection_ = *dialer_->Dial(endpoint, 5000);
    const auto until = std::chrono::steady_clock::now() + kDeadline;
    while (!connected_ && std::chrono::steady_clock::now() < until) Poll();
    EXPECT_TRUE(connected_);
  }
  void Send(const AnyMessage& message) { SendBytes(Encode(message)); }
  void SendBytes(std::vector<uint8_t> bytes) {
    transport::Message out;
    out.header = Buffer::Of(std::move(bytes));
    const auto until = std::chrono::steady_clock::now() + kDeadline;
    auto sent = dialer_->Send(connection_, &out);
    while (sent == transport::SendResult::kFull && std::chrono::steady_clock::now() < until) {
      Poll();
      sent = dialer_->Send(connection_, &out);
    }
    EXPECT_EQ(sent, transport::SendResult::kSent);
  }
  // The next message, which has to be of that type.
  template <typename M>
  M Receive() {
    const auto until = std::chrono::steady_clock::now() + kDeadline;
    while (received_.empty() && std::chrono::steady_clock::now() < until) Poll();
    if (received_.empty()) {
      ADD_FAILURE() << "nothing came";
      return {};
    }
    const AnyMessage message = received_.front();
    received_.erase(received_.begin());
    if (const auto* found = std::get_if<M>(&message)) return *found;
    ADD_FAILURE() << "another message came: " << message.index();
    return {};
  }
  // The same, those of a window passed over.
  template <typename M>
  M ReceiveFirst() {
    const auto until = std::chrono::steady_clock::now() + kDeadline;
    do {
      if (received_.empty()) Poll();
      std::erase_if(received_, [](const AnyMessage& message) {
        return std::holds_alternative<WindowFigures>(message);
      });
    } while (received_.empty() && std::chrono::steady_clock::now() < until);
    return Receive<M>();
  }
  template <typename M>
  M Ask(const AnyMessage& question) {
    Send(question);
    return Receive<M>();
  }

 private:
  void Poll() {
    std::vector<transport::Event> events;
    ASSERT_TRUE(dialer_->Poll(50, &events).ok());
    for (const transport::Event& event : events) {
      if (event.kind == transport::Event::Kind::kConnected) connected_ = true;
      if (event.kind != transport::Event::Kind::kMessage) continue;
      auto message = Decode({event.message.header.data(), event.message.header.size()});
      ASSERT_TRUE(message.ok()) << message.status().ToString();
      received_.push_back(*std::move(message));
    }
  }
  std::unique_ptr<transport::Dialer> dialer_;
  transport::ConnectionId connection_ = 0;
  bool connected_ = false;
  std::vector<AnyMessage> received_;
};

TEST(AgentTest, TheTicksOfARunReachFromBeforeItsBeginToBehindItsEnd) {
  LiveHost host;
  const auto monitor = StartMonitor(host);
  auto agent = Agent::Start(monitor, {});
  ASSERT_TRUE(agent.ok()) << agent.status().ToString();
  Client client((*agent)->endpoint());
  const size_t domains = client.Ask<Welcome>(Hello{}).domains.size();
  EXPECT_EQ(client.Ask<Error>(GetTicks{"run", 0}).code, Code::kNotFound);
  host.AwaitReadings(10);
  const auto started = client.Ask<Started>(StartRun{"run", 0, "job", ""});
  host.AwaitReadings(15);
  energy::TickBlock block(domains);
  std::vector<int64_t> times;
  uint64_t next = 0;
  const auto take = [&] {
    const auto ticks = client.Ask<Ticks>(GetTicks{"run", next});
    if (!ticks.data.bytes.empty()) {
      ASSERT_TRUE(energy::DecodeTicks(ticks.data.bytes, &block).ok());
      EXPECT_EQ(ticks.next - ticks.first, block.size());
      for (size_t i = 0; i < block.size(); ++i) times.push_back(block.At(i).monotonic_ns);
    }
    if (next != 0) {
      EXPECT_EQ(ticks.first, next);
    }
    next = ticks.next;
    EXPECT_FALSE(ticks.more);
    if (!ticks.last) Sleep(10);
    next = ticks.last ? 0 : next;
  };
  take();
  EXPECT_NE(next, 0U) << "the run goes on";
  const auto figures = client.Ask<Figures>(Look{"run", false, 0});
  ASSERT_EQ(figures.watts.size(), domains);
  const auto stopped = client.Ask<Figures>(Look{"run", true, 0});
  EXPECT_TRUE(stopped.watts.empty());
  while (next != 0 && !HasFailure()) take();
  ASSERT_GT(times.size(), 10U);
  EXPECT_LT(times.front(), started.begin_ns);
  EXPECT_GE(times.back(), stopped.end_ns);
  EXPECT_LT(times[times.size() - 2], stopped.end_ns) << "and not any longer";
  EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
}

TEST(AgentTest, ARunFromStartToStopHasTheEnergyOfItsTime) {
  LiveHost host;
  const auto monitor = StartMonitor(host);
  AgentOptions options;
  options.role = "storage";
  options.boot_id = "boot";
  auto agent = Agent::Start(monitor, options);
  ASSERT_TRUE(agent.ok()) << agent.status().ToString();
  Client client((*agent)->endpoint());
  const auto welcome = client.Ask<Welcome>(Hello{});
  EXPECT_EQ(welcome.role, "storage");
  EXPECT_EQ(welcome.boot_id, "boot");
  EXPECT_EQ(welcome.domains.size(), monitor->domains().size());
  EXPECT_EQ(client.Ask<Probed>(Probe{5}).nonce, 5U);

  const auto started = client.Ask<Started>(StartRun{"run-1", 0, "job", "R"});
  EXPECT_EQ(started.run, "run-1");
  host.AwaitReadings(15);
  const energy::WindowId epoch = monitor->Open({"serve", "", 3, 0});
  host.AwaitReadings(15);
  monitor->Close(epoch, {.records = 5, .bytes = 500});
  const auto so_far = client.Ask<Figures>(Look{"run-1", false, 0});
  EXPECT_FALSE(so_far.stopped);
  host.AwaitReadings(15);
  const auto figures = client.Ask<Figures>(Look{"run-1", true, 0});
  EXPECT_TRUE(figures.stopped);
  const energy::Total total = energy::TotalOf(welcome.domains, figures.energies);
  ASSERT_TRUE(total.joules);
  EXPECT_NEAR(*total.joules / (static_cast<double>(figures.end_ns - figures.begin_ns) * 1e-9),
              kTwoSocketsWatts, 0.05 * kTwoSocketsWatts);
  ASSERT_EQ(figures.windows.size(), 1U);
  EXPECT_EQ(figures.windows[0].label.epoch, 3);
  EXPECT_EQ(figures.windows[0].work.bytes, 500U);
  // The same answer again, and the same start.
  EXPECT_EQ(client.Ask<Figures>(Look{"run-1", true, 0}).end_ns, figures.end_ns);
  EXPECT_EQ(client.Ask<Started>(StartRun{"run-1", 0, "job", "R"}).begin_ns, started.begin_ns);
}

TEST(AgentTest, ARunMayBeginInThePast) {
  LiveHost host;
  const auto monitor = StartMonitor(host);
  auto agent = Agent::Start(monitor, {});
  ASSERT_TRUE(agent.ok());
  Sleep(500);
  host.AwaitReadings(15);
  Client client((*agent)->endpoint());
  const auto welcome = client.Ask<Welcome>(Hello{});
  client.Ask<Started>(StartRun{"run", 400 * kNsPerMs, "", ""});
  Sleep(200);
  host.AwaitReadings(15);
  const auto figures = client.Ask<Figures>(Look{"run", true, 0});
  EXPECT_GE(figures.end_ns - figures.begin_ns, 600 * kNsPerMs);
  EXPECT_TRUE(energy::TotalOf(welcome.domains, figures.energies).joules);
  // Before its samples nothing is known, and that is said.
  client.Ask<Started>(StartRun{"old", 3600 * kNsPerSecond, "", ""});
  const auto old = client.Ask<Figures>(Look{"old", true, 0});
  EXPECT_FALSE(energy::TotalOf(welcome.domains, old.energies).joules);
  EXPECT_EQ(old.energies[0].state, energy::State::kGap);
}

TEST(AgentTest, WhoBreaksTheRulesLosesTheConnectionAndNobodyElseDoes) {
  LiveHost host;
  auto agent = Agent::Start(StartMonitor(host), {});
  ASSERT_TRUE(agent.ok());
  Client good((*agent)->endpoint());
  good.Ask<Welcome>(Hello{});
  {
    Client bad((*agent)->endpoint());
    EXPECT_EQ(bad.Ask<Error>(Probe{1}).code, Code::kProtocol) << "no Hello";
  }
  {
    Client bad((*agent)->endpoint());
    bad.SendBytes({0xff, 0x00});
    EXPECT_EQ(bad.Receive<Error>().code, Code::kProtocol);
  }
  {
    Client future((*agent)->endpoint());
    EXPECT_EQ(future.Ask<Error>(Hello{7, 9, "future"}).code, Code::kUnsupported);
  }
  for (const auto& [most, chosen] : {std::pair{1U, 1U}, {kVersion, kVersion}, {9U, kVersion}}) {
    Client other((*agent)->endpoint());
    EXPECT_EQ(other.Ask<Welcome>(Hello{1, most, "other"}).version, chosen) << most;
  }
  EXPECT_EQ(good.Ask<Error>(Look{"never", false, 0}).code, Code::kNotFound);
  EXPECT_EQ(good.Ask<Probed>(Probe{2}).nonce, 2U);
}

TEST(AgentTest, WindowsAreForgottenInTheOrderInWhichTheyClosed) {
  LiveHost host;
  const auto monitor = StartMonitor(host);
  auto agent = Agent::Start(monitor, {});
  ASSERT_TRUE(agent.ok());
  Client client((*agent)->endpoint());
  client.Ask<Welcome>(Hello{});
  Window outer{1, {"outer", "", -1, -1}, SystemClock().NowNs(), 0, {}};
  client.Send(outer);
  for (uint64_t key = 2; key <= 10'001; ++key) {
    const int64_t now_ns = SystemClock().NowNs();
    client.Send(Window{key, {"inner", "", -1, -1}, now_ns - kNsPerMs, now_ns, {}});
  }
  outer.end_ns = SystemClock().NowNs();
  client.Send(outer);
  EXPECT_TRUE(client.Ask<WindowFigures>(GetWindow{1, 1}).found);
  EXPECT_FALSE(client.Ask<WindowFigures>(GetWindow{2, 2}).found) << "the first to close";
  EXPECT_TRUE(client.Ask<WindowFigures>(GetWindow{3, 3}).found);
}

TEST(AgentTest, QuestionsOfOneClientTakeNothingFromAnother) {
  LiveHost host;
  // Answers wait for a sample: there is none for so long.
  const auto monitor = StartMonitor(host, 60 * kNsPerSecond);
  auto agent = Agent::Start(monitor, {});
  ASSERT_TRUE(agent.ok());
  const auto is_answered = [](Client* client) {
    client->Send(Probe{7});
    return client->ReceiveFirst<Probed>().nonce == 7;
  };
  Client many((*agent)->endpoint());
  Client one((*agent)->endpoint());
  for (Client* client : {&many, &one}) {
    client->Ask<Welcome>(Hello{});
    client->Send(Window{1, {"open", "", -1, -1}, SystemClock().NowNs(), 0, {}});
  }
  for (uint64_t nonce = 1; nonce <= 10'000; ++nonce) many.Send(GetWindow{nonce, 1});
  ASSERT_TRUE(is_answered(&many));
  one.Send(GetWindow{1, 1});
  EXPECT_TRUE(is_answered(&one));
}

TEST(AgentTest, BeyondLoopbackItListensOnlyWhenAllowed) {
  LiveHost host;
  AgentOptions options;
  options.bind = "0.0.0.0:0";
  const auto refused = Agent::Start(StartMonitor(host), options);
  EXPECT_EQ(refused.status().code(), Code::kPermissionDenied);
  options.insecure = true;
  const auto allowed = Agent::Start(StartMonitor(host), options);
  ASSERT_TRUE(allowed.ok());
  EXPECT_NE((*allowed)->port(), 0);
}

TEST(LinkTest, WindowsAndPeersOfAProcessReachTheAgentOfItsHost) {
  LiveHost host;
  const auto monitor = StartMonitor(host);
  Mutex mu;
  std::vector<std::string> peers;
  AgentOptions options;
  options.on_peer = [&](const Peer& peer) {
    const MutexLock lock(mu);
    peers.push_back(fmt::format("{} {} {}", peer.endpoint, peer.unmeasured, peer.boot_id));
  };
  auto agent = Agent::Start(monitor, options);
  ASSERT_TRUE(agent.ok());
  {
    auto link = Link::Start((*agent)->endpoint());
    ASSERT_TRUE(link.ok());
    (*link)->OnEnergyAgent("tcp://storage:7");
    (*link)->OnUnmeasuredPeer("tcp://other:6", "b");
    const uint64_t read = (*link)->Open({"read", "R", 1, 0});
    EpochInfo info;
    info.epoch = 1;
    const uint64_t epoch = (*link)->OnEpochBegin(info);
    host.AwaitReadings(15);
    (*link)->Close(read);
    (*link)->OnEpochEnd(epoch, {.records = 3, .bytes = 30, .complete = true});
    (*link)->Open({"left open", "", -1, -1});
    const pid_t child = fork();
    if (child == 0) {
      const bool none = (*link)->Open({"child", "", -1, -1}) == 0;
      link->reset();
      _exit(none ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  const auto until = std::chrono::steady_clock::now() + kDeadline;
  std::vector<energy::WindowReport> windows;
  while (windows.size() < 3 && std::chrono::steady_clock::now() < until) {
    Sleep(20);
    windows = *monitor->Reports();
  }
  ASSERT_EQ(windows.size(), 3U);
  EXPECT_EQ(windows[0].label.name, "read");
  EXPECT_TRUE(windows[0].total.joules);
  EXPECT_EQ(windows[1].label.name, "epoch");
  EXPECT_EQ(windows[1].work.records, 3U);
  EXPECT_EQ(windows[2].label.name, "left open") << "its connection's end ended it";
  const MutexLock lock(mu);
  EXPECT_THAT(peers, ::testing::ElementsAre("tcp://storage:7 false ", "tcp://other:6 true b"));
}

TEST(LinkTest, AProcessLearnsWhatItsHostUsedInItsWindows) {
  LiveHost host;
  const auto monitor = StartMonitor(host);
  auto agent = Agent::Start(monitor, {});
  ASSERT_TRUE(agent.ok());
  auto link = *Link::Start((*agent)->endpoint());
  const uint64_t outer = link->Open({"outer", "", -1, -1});
  const uint64_t inner = link->Open({"inner", "R", 4, 2});
  host.AwaitReadings(20);
  link->Close(inner, {.records = 7, .bytes = 70});
  const auto measured = link->Energy(inner);
  ASSERT_TRUE(measured.ok()) << measured.status().ToString();
  EXPECT_EQ(measured->domains.size(), monitor->domains().size());
  EXPECT_EQ(measured->window.label.name, "inner");
  EXPECT_EQ(measured->window.label.epoch, 4);
  EXPECT_EQ(measured->window.work.records, 7U);
  EXPECT_FALSE(measured->window.cut);
  const auto watts = [](const energy::WindowReport& window) {
    return window.total.joules.value_or(0) /
           (static_cast<double>(window.end_ns - window.begin_ns) * 1e-9);
  };
  EXPECT_NEAR(watts(measured->window), kTwoSocketsWatts, 0.05 * kTwoSocketsWatts);
  // One that is open: until now. From several threads at once, and again when it has ended.
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const auto so_far = link->Energy(outer);
      ASSERT_TRUE(so_far.ok());
      EXPECT_TRUE(so_far->window.cut);
      EXPECT_TRUE(so_far->window.total.joules);
    });
  }
  for (std::thread& thread : threads) thread.join();
  link->Close(outer);
  EXPECT_FALSE(link->Energy(outer)->window.cut);
  EXPECT_EQ(link->Energy(inner)->window.total.joules, measured->window.total.joules);
  EXPECT_EQ(link->Energy(12345).status().code(), Code::kNotFound);
  agent->reset();
  EXPECT_EQ(link->Energy(inner).status().code(), Code::kUnavailable);
}

TEST(LinkTest, AnAgentThatDoesNotAnswerIsATimeoutAndNotNothing) {
  const ScriptedAgent agent([](const AnyMessage& message) -> std::vector<AnyMessage> {
    if (!std::holds_alternative<Hello>(message)) return {};
    Welcome welcome;
    welcome.interval_ns = 100 * kNsPerMs;
    return {welcome};
  });
  auto link = *Link::Start(agent.endpoint());
  const auto asked_at = std::chrono::steady_clock::now();
  EXPECT_EQ(link->Energy(link->Open({"read", "", -1, -1})).status().code(), Code::kTimeout);
  EXPECT_LT(std::chrono::steady_clock::now() - asked_at, kDeadline);
}

TEST(LinkTest, DomainsAreToldOnce) {
  Welcome welcome;
  welcome.domains = {energy::MakeDomain(energy::DomainKind::kPackage, "powercap", 0, -1)};
  for (const size_t welcomes : {1, 2}) {
    const ScriptedAgent agent([&](const AnyMessage& message) -> std::vector<AnyMessage> {
      if (std::holds_alternative<Hello>(message)) {
        return std::vector<AnyMessage>(welcomes, welcome);
      }
      const auto* wanted = std::get_if<GetWindow>(&message);
      if (wanted == nullptr) return {};
      return {WindowFigures{wanted->nonce, true, {}}};
    });
    auto link = *Link::Start(agent.endpoint());
    const Code expected = welcomes == 1 ? Code::kOk : Code::kUnavailable;
    EXPECT_EQ(link->Energy(link->Open({"read", "", -1, -1})).status().code(), expected);
  }
}

// Whoever breaks the rules is not believed, whatever else comes with it in one batch.
TEST(LinkTest, FiguresBeforeTheWelcomeOrBehindASecondOneAreNotTaken) {
  for (const bool first : {true, false}) {
    const ScriptedAgent agent([first](const AnyMessage& message) -> std::vector<AnyMessage> {
      if (std::holds_alternative<Hello>(message)) {
        if (first) return {WindowFigures{1, true, {}}, Welcome{}};
        return {Welcome{}};
      }
      const auto* wanted = std::get_if<GetWindow>(&message);
      if (wanted == nullptr) return {};
      return {Welcome{}, WindowFigures{wanted->nonce, true, {}}};
    });
    auto link = *Link::Start(agent.endpoint());
    EXPECT_EQ(link->Energy(link->Open({"read", "", -1, -1})).status().code(), Code::kUnavailable);
  }
}

TEST(LinkTest, AnAgentOfAnEarlierVersionIsToldOfWindowsAndNotAskedForThem) {
  Mutex mu;
  size_t windows = 0;
  bool asked = false;
  const ScriptedAgent agent([&](const AnyMessage& message) -> std::vector<AnyMessage> {
    const MutexLock lock(mu);
    if (std::holds_alternative<Window>(message)) ++windows;
    asked |= std::holds_alternative<GetWindow>(message);
    if (!std::holds_alternative<Hello>(message)) return {};
    Welcome welcome;
    welcome.version = 1;
    return {welcome};
  });
  {
    auto link = *Link::Start(agent.endpoint());
    const uint64_t window = link->Open({"read", "", -1, -1});
    const auto energy = link->Energy(window);
    EXPECT_EQ(energy.status().code(), Code::kUnsupported);
    EXPECT_THAT(energy.status().message(), ::testing::HasSubstr("update emlio"));
    link->Close(window);
  }
  const MutexLock lock(mu);
  EXPECT_EQ(windows, 2U) << "its begin and its end";
  EXPECT_FALSE(asked);
}

// Nothing is taken while it is held: as an agent that is stopped.
TEST(LinkTest, TheEndOfAWindowThatWasToldOfHasAlwaysRoom) {
  Mutex mu;
  std::map<uint64_t, std::pair<int, int>> windows;  // begins and ends
  {
    Mutex held;
    std::unique_ptr<MutexLock> hold = std::make_unique<MutexLock>(held);
    const ScriptedAgent agent([&](const AnyMessage& message) -> std::vector<AnyMessage> {
      const MutexLock wait(held);
      const MutexLock lock(mu);
      if (const auto* window = std::get_if<Window>(&message)) {
        auto& [begins, ends] = windows[window->key];
        ++(window->end_ns == 0 ? begins : ends);
      }
      if (!std::holds_alternative<Hello>(message)) return {};
      return {Welcome{}};
    });
    auto link = *Link::Start(agent.endpoint());
    const uint64_t outer = link->Open({"outer", "", -1, -1});
    for (int i = 0; i < 150'000; ++i) link->Close(link->Open({"inner", "", -1, -1}));
    link->Close(outer);
    hold.reset();
    const auto until = std::chrono::steady_clock::now() + kDeadline;
    const auto told = [&] {
      const MutexLock lock(mu);
      return windows[outer].second == 1;
    };
    while (!told() && std::chrono::steady_clock::now() < until) Sleep(20);
    EXPECT_TRUE(told());
  }
  const MutexLock lock(mu);
  EXPECT_LT(windows.size(), 150'001U) << "there was no room for all";
  for (const auto& [key, seen] : windows) {
    ASSERT_FALSE(seen.first == 1 && seen.second == 0) << key << " has no end";
  }
}

TEST(LinkTest, AnAnswerThatNobodyAskedForAndOneThatIsNoneEndTheConnection) {
  Welcome many;
  many.domains.resize(5000);  // more than a message may have
  const AnyMessage wrong[] = {Probed{7, {}}, many, Error{Code::kLimitExceeded, "no more", ""},
                              Error{Code::kOk, "all is well", ""}};
  for (const AnyMessage& answer : wrong) {
    const ScriptedAgent agent([&](const AnyMessage& message) -> std::vector<AnyMessage> {
      if (!std::holds_alternative<Hello>(message)) return {};
      return {Welcome{}, answer};
    });
    auto link = *Link::Start(agent.endpoint());
    const uint64_t window = link->Open({"read", "", -1, -1});
    const auto energy = link->Energy(window);
    EXPECT_EQ(energy.status().code(), Code::kUnavailable) << answer.index() << ": no timeout";
    EXPECT_THAT(energy.status().message(), ::testing::HasSubstr(agent.endpoint()));
  }
}

TEST(LinkTest, AnAgentThatChoosesAVersionNobodySpeaksIsLeft) {
  const ScriptedAgent agent([](const AnyMessage& message) -> std::vector<AnyMessage> {
    if (!std::holds_alternative<Hello>(message)) return {};
    Welcome welcome;
    welcome.version = kVersion + 1;
    return {welcome};
  });
  auto link = *Link::Start(agent.endpoint());
  EXPECT_EQ(link->Energy(link->Open({"read", "", -1, -1})).status().code(), Code::kUnavailable);
}

TEST(LinkTest, WithoutAnAgentTheProcessGoesOn) {
  auto link = Link::Start("tcp://127.0.0.1:1");
  ASSERT_TRUE(link.ok());
  const uint64_t window = (*link)->Open({"read", "", -1, -1});
  (*link)->Close(window);
  EXPECT_EQ((*link)->Energy(window).status().code(), Code::kUnavailable);
}

}  // namespace
}  // namespace emlio::energy_agent
