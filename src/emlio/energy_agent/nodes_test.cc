// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
// Runs over several nodes, each of them a process with counters and a clock of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "emlio/base/clock.h"
#include "emlio/base/mutex.h"
#include "emlio/energy/testing/live_host.h"
#include "emlio/energy_agent/messages.h"
#include "emlio/energy_agent/node_set.h"
#include "emlio/energy_agent/testing/scripted_agent.h"

namespace emlio::energy_agent {
namespace {

using energy::testing::kTwoSocketsWatts;
using testing::ScriptedAgent;

constexpr auto kDeadline = std::chrono::seconds(30);  // against hangs only
constexpr double kClose = 0.15;
constexpr int64_t kIntervalNs = 50 * kNsPerMs;  // of node_process.cc

void Sleep(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

class NodeProcess {
 public:
  NodeProcess(const std::string& name, const std::string& counters = "two-sockets",
              int64_t offset_ms = 0, bool synchronised = true) {
    int in[2];
    int out[2];
    EXPECT_EQ(pipe2(in, O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(out, O_CLOEXEC), 0);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, out[1], STDOUT_FILENO);
    std::vector<std::string> words = {EMLIO_ENERGY_NODE, name, counters, std::to_string(offset_ms),
                                      synchronised ? "yes" : "no"};
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    EXPECT_EQ(posix_spawn(&pid_, argv[0], &files, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&files);
    close(in[0]);
    close(out[1]);
    input_ = in[1];
    char byte = 0;
    while (read(out[0], &byte, 1) == 1 && byte != '\n') endpoint_ += byte;
    close(out[0]);
    EXPECT_NE(endpoint_, "") << "the node did not start";
  }
  ~NodeProcess() {
    if (input_ >= 0) close(input_);
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
  }
  void Kill() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  const std::string& endpoint() const { return endpoint_; }

 private:
  pid_t pid_ = -1;
  int input_ = -1;
  std::string endpoint_;
};

NodeSetOptions Options() {
  NodeSetOptions options;
  options.run_id = "run";
  options.silence_ms = 2000;
  return options;
}

std::unique_ptr<NodeSet> Nodes(const std::vector<const NodeProcess*>& nodes,
                               NodeSetOptions options = Options()) {
  auto set = NodeSet::Start(std::move(options));
  EXPECT_TRUE(set.ok()) << set.status().ToString();
  for (const NodeProcess* node : nodes) (*set)->Add(node->endpoint());
  return *std::move(set);
}

double Seconds(const energy::WindowReport& run) {
  return static_cast<double>(run.end_ns - run.begin_ns) * 1e-9;
}

TEST(NodesTest, EveryNodeIsInTheTotal) {
  const NodeProcess a("a");
  const NodeProcess b("b");
  const NodeProcess c("c");
  auto set = Nodes({&a, &b, &c});
  const auto started = set->Begin();
  ASSERT_EQ(started.size(), 3U);
  for (const NodeReport& node : started) EXPECT_TRUE(node.started.has_value()) << node.cause;
  ASSERT_TRUE(SpreadNs(std::nullopt, started, false).has_value());
  EXPECT_LT(*SpreadNs(std::nullopt, started, false), kNsPerSecond);
  Sleep(1500);
  const auto nodes = set->End();
  energy::Total own;
  own.state = energy::State::kMeasured;
  own.joules = 10;
  const RunTotal total = TotalOf("here", &own, nodes);
  ASSERT_TRUE(total.complete);
  double expected = 10;
  for (const NodeReport& node : nodes) {
    EXPECT_EQ(node.state, NodeState::kWhole) << node.cause;
    EXPECT_FALSE(node.joined_late);
    EXPECT_EQ(node.role, "storage");
    EXPECT_GE(Seconds(node.run), 1.5);
    EXPECT_TRUE(node.stopped && node.start_clock && node.stop_clock);
    expected += kTwoSocketsWatts * Seconds(node.run);
  }
  EXPECT_NEAR(*total.joules, expected, kClose * expected);
  EXPECT_THAT(total.nodes, ::testing::ElementsAre("here", "a", "b", "c"));
  EXPECT_TRUE(SpreadNs(energy::ReadMoment(), nodes, true).has_value());
}

TEST(NodesTest, TheSamplesOfEveryNodeComeInWhole) {
  const NodeProcess a("a");
  const NodeProcess b("b");
  const NodeProcess again("a");  // a second agent of the first host
  NodeSetOptions options = Options();
  options.ticks = true;
  auto set = Nodes({&a, &b, &again}, options);
  set->Begin();
  std::map<std::string, std::vector<int64_t>> times;
  const auto take = [&] {
    for (const NodeTicks& ticks : set->TakeTicks()) {
      EXPECT_EQ(ticks.lost, 0U);
      for (size_t i = 0; i < ticks.ticks.size(); ++i) {
        times[ticks.endpoint].push_back(ticks.ticks.At(i).monotonic_ns);
      }
    }
  };
  Sleep(1000);
  std::vector<NodeReport> live;
  const auto until = std::chrono::steady_clock::now() + kDeadline;
  do {
    Sleep(50);
    take();
    live = set->Snapshot();
  } while ((times.size() < 2 || live[1].watts.empty()) && std::chrono::steady_clock::now() < until);
  EXPECT_EQ(times.size(), 2U) << "some have come already, of each host";
  EXPECT_EQ(live[1].watts.size(), live[1].domains.size());
  const auto nodes = set->End();
  take();
  ASSERT_EQ(nodes.size(), 3U);
  EXPECT_EQ(nodes[2].state, NodeState::kSameHost) << nodes[2].cause;
  EXPECT_FALSE(times.contains(nodes[2].endpoint)) << "of one host they are wanted once";
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(nodes[i].state, NodeState::kWhole) << nodes[i].cause;
    const std::vector<int64_t>& mine = times[nodes[i].endpoint];
    ASSERT_GT(mine.size(), 10U);
    EXPECT_LT(mine.front(), nodes[i].run.begin_ns);
    EXPECT_GE(mine.back(), nodes[i].run.end_ns);
    EXPECT_TRUE(std::is_sorted(mine.begin(), mine.end()));
    EXPECT_GT(nodes[i].domains[0].max_watts, 0);
  }
}

TEST(NodesTest, AClockThatIsOffIsFoundWithABoundAndJudged) {
  const NodeProcess exact("exact");
  const NodeProcess half("half", "two-sockets", 35);
  const NodeProcess ahead("ahead", "two-sockets", 400);
  const NodeProcess behind("behind", "two-sockets", -5000, false);
  auto set = Nodes({&exact, &half, &ahead, &behind});
  const auto started = set->Begin();
  const auto nodes = set->End();
  ASSERT_EQ(nodes.size(), 4U);
  const int64_t offsets_ms[] = {0, 35, 400, -5000};
  for (size_t i = 0; i < nodes.size(); ++i) {
    ASSERT_TRUE(nodes[i].offset) << nodes[i].cause;
    EXPECT_LE(std::abs(nodes[i].offset->offset_ns - offsets_ms[i] * kNsPerMs),
              nodes[i].offset->bound_ns)
        << "the true offset lies within the bound";
    EXPECT_EQ(nodes[i].interval_ns, kIntervalNs);
  }
  EXPECT_EQ(nodes[1].clock,
            energy::JudgeClock(nodes[1].offset->offset_ns, nodes[1].offset->bound_ns, kIntervalNs));
  EXPECT_EQ(nodes[2].clock, energy::ClockState::kRefused);
  EXPECT_EQ(nodes[3].clock, energy::ClockState::kRefused);
  EXPECT_TRUE(nodes[2].stop_clock->synchronised);
  EXPECT_FALSE(nodes[3].stop_clock->synchronised) << "said, not assumed";
  // Offsets are taken off before moments are compared.
  EXPECT_LT(*SpreadNs(std::nullopt, started, false), 2 * kNsPerSecond);
}

TEST(NodesTest, ANodeThatDiesMakesTheTotalIncompleteAndNotSmaller) {
  const NodeProcess a("a");
  NodeProcess b("b");
  auto set = Nodes({&a, &b});
  set->Begin();
  Sleep(300);
  b.Kill();
  Sleep(300);
  const auto nodes = set->End();
  EXPECT_EQ(nodes[0].state, NodeState::kWhole) << nodes[0].cause;
  EXPECT_EQ(nodes[1].state, NodeState::kLost);
  EXPECT_NE(nodes[1].cause, "");
  const RunTotal total = TotalOf("", nullptr, nodes);
  EXPECT_FALSE(total.complete);
  EXPECT_FALSE(total.joules);
  ASSERT_EQ(total.missing.size(), 1U);
  EXPECT_EQ(total.missing[0].first, "b");
}

TEST(NodesTest, ANodeWithoutCountersMakesTheTotalIncomplete) {
  const NodeProcess a("a");
  const NodeProcess bare("bare", "none");
  auto set = Nodes({&a, &bare});
  set->Begin();
  Sleep(200);
  const auto nodes = set->End();
  EXPECT_EQ(nodes[1].state, NodeState::kWhole) << "its answer is whole: it has no counters";
  for (const energy::Energy& energy : nodes[1].run.energies) {
    EXPECT_FALSE(energy.joules);
    EXPECT_NE(energy.cause, "");
  }
  const RunTotal total = TotalOf("", nullptr, nodes);
  EXPECT_FALSE(total.joules);
  ASSERT_EQ(total.missing.size(), 1U);
  EXPECT_EQ(total.missing[0].first, "bare");
}

TEST(NodesTest, ANodeThatCannotBeReachedIsNamed) {
  NodeSetOptions options = Options();
  options.connect_timeout_ms = 500;
  const NodeProcess a("a");
  auto set = Nodes({&a}, std::move(options));
  set->Add("127.0.0.1:1");
  set->Begin();
  Sleep(100);
  const auto nodes = set->End();
  EXPECT_EQ(nodes[0].state, NodeState::kWhole) << nodes[0].cause;
  EXPECT_EQ(nodes[1].state, NodeState::kUnreachable);
  EXPECT_NE(nodes[1].cause, "");
  EXPECT_FALSE(TotalOf("", nullptr, nodes).joules);
}

TEST(NodesTest, AHostThatNobodyMeasuresMakesTheTotalIncomplete) {
  const NodeProcess one("one");
  NodeSetOptions options;
  options.run_id = "run";
  options.boot_id = "here";
  auto nodes = NodeSet::Start(std::move(options));
  ASSERT_TRUE(nodes.ok());
  (*nodes)->AddUnmeasured("tcp://early:7777", "boot of early");  // before its host's agent is known
  (*nodes)->Add(one.endpoint());
  ASSERT_EQ((*nodes)->Begin().size(), 2U);
  (*nodes)->AddUnmeasured("tcp://dark:7777", "");
  (*nodes)->AddUnmeasured("tcp://dark:7777", "");
  (*nodes)->AddUnmeasured("tcp://here:7777", "here");
  std::string boot_of_one;
  for (const NodeReport& node : (*nodes)->Snapshot()) {
    if (node.node == "one") boot_of_one = node.boot_id;
  }
  (*nodes)->AddUnmeasured("tcp://one:7777", boot_of_one);
  Sleep(300);
  const std::vector<NodeReport> ended = (*nodes)->End();
  ASSERT_EQ(ended.size(), 5U);
  EXPECT_EQ(ended[0].state, NodeState::kUnreachable);
  EXPECT_EQ(ended[1].state, NodeState::kWhole) << ended[1].cause;
  EXPECT_EQ(ended[2].state, NodeState::kUnreachable);
  EXPECT_TRUE(ended[2].joined_late);
  EXPECT_EQ(ended[3].state, NodeState::kSameHost) << "the coordinator's";
  EXPECT_EQ(ended[4].state, NodeState::kSameHost) << "that of an agent";
  energy::Total own;
  own.joules = 1;
  own.state = energy::State::kMeasured;
  const RunTotal total = TotalOf("here", &own, ended);
  EXPECT_FALSE(total.complete);
  EXPECT_FALSE(total.joules);
  ASSERT_EQ(total.missing.size(), 2U);
  EXPECT_EQ(total.missing[0].first, "tcp://early:7777");
  EXPECT_EQ(total.missing[1].first, "tcp://dark:7777");
  EXPECT_THAT(total.missing[1].second, ::testing::HasSubstr("fix: start 'emlio serve'"));
}

TEST(NodesTest, ANodeFoundLateHasTheEnergyFromTheBeginOn) {
  const NodeProcess a("a");
  const NodeProcess late("late");
  Sleep(1000);  // it has samples of the time before
  auto set = Nodes({&a});
  set->Begin();
  Sleep(1000);
  const int64_t found_ns = SystemClock().NowNs();
  set->Add(late.endpoint());
  set->Add(late.endpoint());
  Sleep(700);
  const auto nodes = set->End();
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_TRUE(nodes[1].joined_late);
  EXPECT_EQ(nodes[1].state, NodeState::kWhole) << nodes[1].cause;
  EXPECT_LT(nodes[1].run.begin_ns, found_ns);
  EXPECT_GT(nodes[1].run.end_ns, found_ns);
  EXPECT_TRUE(TotalOf("", nullptr, nodes).joules);
}

TEST(NodesTest, OneHostCountsOnceHoweverManyAgentsItHas) {
  const NodeProcess a("a");
  const NodeProcess same("a");
  NodeSetOptions options = Options();
  auto set = Nodes({&a, &same}, options);
  set->Begin();
  Sleep(500);
  const auto nodes = set->End();
  EXPECT_EQ(nodes[0].state, NodeState::kWhole) << nodes[0].cause;
  EXPECT_EQ(nodes[1].state, NodeState::kSameHost);
  const RunTotal total = TotalOf("", nullptr, nodes);
  ASSERT_TRUE(total.joules);
  EXPECT_EQ(*total.joules, *nodes[0].run.total.joules);
  // The coordinator's own host is no second one either.
  options.boot_id = "boot-of-a";
  options.run_id = "other";
  auto own = Nodes({&a}, options);
  own->Begin();
  EXPECT_EQ(own->End()[0].state, NodeState::kSameHost);
}

TEST(NodesTest, AnAgentThatEndsEarlyTakesNothingAwayFromAHostThatSomebodyMeasures) {
  const NodeProcess a("a");
  NodeProcess same("a");
  NodeProcess here("here");
  NodeSetOptions options = Options();
  options.boot_id = "boot-of-here";
  auto set = Nodes({&same, &a, &here}, options);
  set->Begin();
  Sleep(300);
  same.Kill();
  here.Kill();
  Sleep(300);
  const auto nodes = set->End();
  EXPECT_EQ(nodes[0].state, NodeState::kSameHost);
  EXPECT_FALSE(nodes[0].stopped);
  EXPECT_EQ(nodes[1].state, NodeState::kWhole) << nodes[1].cause;
  EXPECT_EQ(nodes[2].state, NodeState::kSameHost);
  const RunTotal total = TotalOf("", nullptr, nodes);
  ASSERT_TRUE(total.joules);
  EXPECT_EQ(*total.joules, *nodes[1].run.total.joules);
}

energy::Domain Package(const std::string& id) {
  energy::Domain domain = energy::MakeDomain(energy::DomainKind::kPackage, "powercap", 0, -1);
  domain.id = id;
  domain.in_total = true;
  return domain;
}

// An agent that follows the rules until a test has it stopped and started again: at its second
// answer to GetTicks, or at the second one after the run's end. By then all before was taken, for
// one question is asked at a time.
class RestartedAgent {
 public:
  struct Then {
    bool after_the_end = false;  // when it ends
    bool anew = true;            // another agent comes, else the connection alone was lost
    std::vector<energy::Domain> domains = {Package("p")};
    Code refuses = Code::kOk;  // to start the run
    std::string run = {};      // of the refusal
  };
  explicit RestartedAgent(Then then)
      : then_(std::move(then)), agent_([this](const AnyMessage& message) { return To(message); }) {}

  const std::string& endpoint() const { return agent_.endpoint(); }
  int starts() const EMLIO_EXCLUDES(mu_) {
    const MutexLock lock(mu_);
    return starts_;
  }
  int stops() const EMLIO_EXCLUDES(mu_) {
    const MutexLock lock(mu_);
    return stops_;
  }
  int asked_for_ticks_since() const EMLIO_EXCLUDES(mu_) {
    const MutexLock lock(mu_);
    return restarted_ ? asked_ : 0;
  }

 private:
  std::vector<AnyMessage> To(const AnyMessage& message) EMLIO_EXCLUDES(mu_) {
    const MutexLock lock(mu_);
    if (std::holds_alternative<Hello>(message)) {
      Welcome welcome;
      welcome.boot_id = "boot";
      welcome.node = "scripted";
      welcome.domains = restarted_ ? then_.domains : std::vector{Package("p"), Package("q")};
      domains_ = welcome.domains.size();
      return {welcome};
    }
    if (std::holds_alternative<StartRun>(message)) {
      ++starts_;
      if (restarted_ && then_.refuses != Code::kOk) {
        return {Error{then_.refuses, "no more", then_.run}};
      }
      Started started;
      started.run = "run";
      started.at.monotonic_ns = restarted_ && then_.anew ? 2 : 1;
      return {started};
    }
    if (const auto* look = std::get_if<Look>(&message)) {
      if (look->stop) ++stops_;
      if (look->stop && then_.after_the_end) asked_ = 0;
      Figures figures;
      figures.run = "run";
      figures.stopped = look->stop;
      figures.energies.resize(domains_);
      for (energy::Energy& energy : figures.energies) {
        energy.joules = 5;
        energy.state = energy::State::kMeasured;
      }
      return {figures};
    }
    if (!std::holds_alternative<GetTicks>(message)) return {};
    ++asked_;
    if (!restarted_ && asked_ == 2 && (stops_ > 0 || !then_.after_the_end)) {
      restarted_ = true;
      asked_ = 0;
      agent_.Drop();
    }
    Ticks ticks;
    ticks.run = "run";
    ticks.last = restarted_ && !then_.anew;
    return {ticks};
  }

  const Then then_;
  mutable Mutex mu_;
  bool restarted_ EMLIO_GUARDED_BY(mu_) = false;
  size_t domains_ EMLIO_GUARDED_BY(mu_) = 0;
  int starts_ EMLIO_GUARDED_BY(mu_) = 0;
  int stops_ EMLIO_GUARDED_BY(mu_) = 0;
  int asked_ EMLIO_GUARDED_BY(mu_) = 0;  // for ticks, since the end or the restart
  ScriptedAgent agent_;                  // calls the above
};

NodeReport RunOver(const RestartedAgent& agent, bool restarts_before_the_end) {
  NodeSetOptions options = Options();
  options.ticks = true;
  auto set = Nodes({}, std::move(options));
  set->Add(agent.endpoint());
  set->Begin();
  const auto until = std::chrono::steady_clock::now() + kDeadline;
  while (restarts_before_the_end && agent.starts() < 2 &&
         std::chrono::steady_clock::now() < until) {
    Sleep(5);
  }
  return set->End()[0];
}

TEST(NodesTest, AnAgentThatWasStartedAnewIsAskedForNoTicks) {
  RestartedAgent agent({.domains = {Package("r")}});
  const NodeReport node = RunOver(agent, true);
  EXPECT_EQ(agent.starts(), 2);
  EXPECT_EQ(node.state, NodeState::kWhole) << node.cause;
  EXPECT_EQ(node.started->monotonic_ns, 1) << "the moment of the barrier stays";
  EXPECT_EQ(agent.asked_for_ticks_since(), 0);
  ASSERT_EQ(node.domains.size(), 1U);
  EXPECT_EQ(node.domains[0].id, "r");
  EXPECT_EQ(node.run.energies.size(), 1U);
}

TEST(NodesTest, FromANodeThatHasToldItsFiguresNothingIsTakenAway) {
  const RestartedAgent::Then thens[] = {
      {.after_the_end = true, .anew = false, .domains = {Package("p"), Package("q")}},
      {.after_the_end = true, .domains = {Package("r")}},
      {.after_the_end = true, .domains = {Package("q"), Package("p")}},
      {.after_the_end = true, .refuses = Code::kUnsupported},
      {.after_the_end = true, .refuses = Code::kLimitExceeded, .run = "run"}};
  for (const RestartedAgent::Then& then : thens) {
    RestartedAgent agent(then);
    const NodeReport node = RunOver(agent, false);
    EXPECT_EQ(node.state, NodeState::kWhole) << node.cause;
    EXPECT_EQ(agent.stops(), 1) << "it was asked once";
    EXPECT_EQ(node.run.total.joules, 10);
    ASSERT_EQ(node.domains.size(), 2U);
    EXPECT_EQ(node.domains[0].id, "p");
    EXPECT_EQ(node.run.energies.size(), 2U);
  }
}

TEST(NodesTest, WhoeverBreaksTheRulesOfAWelcomeIsRefused) {
  for (const bool twice : {true, false}) {
    const ScriptedAgent agent([twice](const AnyMessage& message) -> std::vector<AnyMessage> {
      if (!std::holds_alternative<Hello>(message)) return {};
      if (twice) return {Welcome{}, Welcome{}};
      return {Started{}, Welcome{}};
    });
    auto set = Nodes({});
    set->Add(agent.endpoint());
    const auto nodes = set->Begin();
    EXPECT_EQ(nodes[0].state, NodeState::kRefused);
    EXPECT_THAT(nodes[0].cause, ::testing::HasSubstr("Welcome"));
  }
}

}  // namespace
}  // namespace emlio::energy_agent
