// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_agent/node_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "emlio/base/log.h"
#include "emlio/base/mutex.h"
#include "emlio/base/nanoseconds.h"
#include "emlio/base/thread.h"
#include "emlio/energy_agent/messages.h"
#include "emlio/transport/transport.h"

namespace emlio::energy_agent {
namespace {

using transport::ConnectionId;

constexpr int kPollMs = 50;
constexpr int64_t kAskNs = kNsPerSecond;        // how often a node is probed and looked at
constexpr int64_t kAskAtEndNs = 20 * kNsPerMs;  // for the tick behind the end
constexpr int kFirstProbes = 8;
constexpr int64_t kRedialNs = kNsPerSecond;
constexpr int64_t kLastDialsNs = 3 * kNsPerSecond;  // at the end, to one that was lost
constexpr size_t kMaxWaitingTicks = 6000;           // of a node
constexpr char kProgram[] = "emlio";
constexpr char kNoAgent[] =
    "data came from this host, and its daemon measures no energy; fix: start 'emlio serve' there "
    "without --no-energy, or 'emlio energy agent' there and name it with --node";

}  // namespace

std::string_view NodeStateName(NodeState state) {
  switch (state) {
    case NodeState::kWhole:
      return "whole";
    case NodeState::kSameHost:
      return "same_host";
    case NodeState::kLost:
      return "lost";
    case NodeState::kUnreachable:
      return "unreachable";
    case NodeState::kRefused:
      return "refused";
  }
  return "refused";
}

class NodeSet::Impl {
 public:
  Impl(NodeSetOptions options, std::unique_ptr<transport::Dialer> dialer)
      : options_(std::move(options)), dialer_(std::move(dialer)) {}

  ~Impl() {
    quit_ = true;
    dialer_->Wake();
    thread_.Join();
  }

  Status StartThread() {
    EMLIO_ASSIGN_OR_RETURN(thread_,
                           Thread::Start("emlio-nodes", [this](std::stop_token) { Run(); }));
    return OkStatus();
  }

  void Add(std::string_view endpoint) EMLIO_EXCLUDES(mu_) {
    std::string text(endpoint);
    if (!text.starts_with("tcp://")) text = "tcp://" + text;
    {
      const MutexLock lock(mu_);
      for (const Node& node : nodes_) {
        if (node.report.endpoint == text) return;
      }
      Node node;
      node.report.endpoint = std::move(text);
      nodes_.push_back(std::move(node));
    }
    dialer_->Wake();
  }

  void AddUnmeasured(std::string_view endpoint, std::string_view boot_id) EMLIO_EXCLUDES(mu_) {
    const MutexLock lock(mu_);
    for (const Node& node : nodes_) {
      if (node.report.endpoint == endpoint) return;
    }
    Node node;
    node.has_agent = false;
    node.failed = true;
    node.report.endpoint = endpoint;
    node.report.boot_id = boot_id;
    node.report.role = "storage";
    node.report.joined_late = passed_;
    node.report.cause = kNoAgent;
    nodes_.push_back(std::move(node));
  }

  std::vector<NodeReport> Begin() EMLIO_EXCLUDES(mu_) {
    const MutexLock lock(mu_);
    // First all have to be there, so that then all can be asked at once.
    const int64_t deadline_ns = NowNs() + options_.connect_timeout_ms * kNsPerMs;
    const auto wait_for = [&](auto settled) EMLIO_REQUIRES(mu_) {
      while (!std::all_of(nodes_.begin(), nodes_.end(), settled) && NowNs() < deadline_ns) {
        changed_.WaitUntil(mu_, SteadyTime(deadline_ns));
      }
    };
    wait_for([](const Node& node) { return node.failed || node.probes >= kFirstProbes; });
    began_ns_ = NowNs();
    dialer_->Wake();
    wait_for([](const Node& node) {
      return node.failed || node.probes < kFirstProbes || node.report.started.has_value();
    });
    passed_ = true;
    return Reports();
  }

  std::vector<NodeReport> End() EMLIO_EXCLUDES(mu_) {
    const MutexLock lock(mu_);
    const int64_t deadline_ns = NowNs() + options_.stop_timeout_ms * kNsPerMs;
    if (began_ns_ == 0) began_ns_ = NowNs();
    ending_ = true;
    ending_ns_ = NowNs();
    dialer_->Wake();
    while (!std::all_of(nodes_.begin(), nodes_.end(), [](const Node& node) {
      return node.done || node.failed;
    }) && NowNs() < deadline_ns) {
      changed_.WaitUntil(mu_, SteadyTime(deadline_ns));
    }
    for (Node& node : nodes_) {
      if (node.done || node.failed || node.told) continue;
      node.report.state = node.report.node.empty() ? NodeState::kUnreachable : NodeState::kLost;
      if (node.report.cause.empty()) {
        node.report.cause =
            fmt::format("it did not tell its figures within {} s", options_.stop_timeout_ms / 1000);
      }
    }
    return Reports();
  }

  std::vector<NodeReport> Snapshot() const EMLIO_EXCLUDES(mu_) {
    const MutexLock lock(mu_);
    return Reports();
  }

  std::vector<NodeTicks> TakeTicks() EMLIO_EXCLUDES(mu_) {
    const MutexLock lock(mu_);
    std::vector<NodeTicks> taken;
    for (Node& node : nodes_) {
      for (energy::TickBlock& block : node.blocks) {
        taken.push_back(
            {node.report.endpoint, std::move(block), std::exchange(node.ticks_lost, 0)});
      }
      node.blocks.clear();
      node.waiting_ticks = 0;
    }
    return taken;
  }

 private:
  struct Node {
    NodeReport report;
    bool has_agent = true;
    ConnectionId connection = 0;  // 0: none
    bool connected = false;
    bool greeted = false;
    bool started_here = false;  // on this connection
    bool asked_to_start = false;
    bool asked_to_stop = false;
    bool told = false;  // all of its figures
    bool done = false;
    bool failed = false;  // for good
    // Its ticks.
    uint64_t next_tick = 0;  // the number of the one that is wanted next; 0: the first one
    bool asked_for_ticks = false;
    bool all_ticks = false;  // there are no others of the run
    int64_t ticks_asked_ns = 0;
    bool more_ticks = false;  // can be had at once
    std::deque<energy::TickBlock> blocks;
    size_t waiting_ticks = 0;
    uint64_t ticks_lost = 0;  // in front of the next block
    int probes = 0;           // answered
    int64_t dialled_ns = 0;
    int64_t heard_ns = 0;
    int64_t asked_ns = 0;
    std::map<uint64_t, energy::Moment> probing;  // by nonce: when it was sent
  };

  int64_t NowNs() const { return SystemClock().NowNs(); }
  energy::Moment Moment() const { return options_.clocks.read_moment(); }

  std::vector<NodeReport> Reports() const EMLIO_REQUIRES(mu_) {
    std::vector<NodeReport> reports;
    std::set<std::string> measured;  // hosts whose figures somebody has
    if (!options_.boot_id.empty()) measured.insert(options_.boot_id);
    for (const Node& node : nodes_) {
      reports.push_back(node.report);
      NodeReport& report = reports.back();
      if (report.state != NodeState::kWhole || report.boot_id.empty()) continue;
      if (!measured.insert(report.boot_id).second) report.state = NodeState::kSameHost;
    }
    // An agent that ended early takes nothing away where another one has its host.
    for (NodeReport& report : reports) {
      if (report.state == NodeState::kLost && measured.count(report.boot_id) > 0) {
        report.state = NodeState::kSameHost;
      }
    }
    // A daemon without an agent on a host that has another one: what is to be said of the host is
    // said of that.
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].has_agent || !IsKnownHost(nodes_[i])) continue;
      reports[i].state = NodeState::kSameHost;
      reports[i].cause.clear();
    }
    return reports;
  }

  // This host, which whoever asks measures by itself.
  bool IsHere(const Node& node) const {
    return !node.report.boot_id.empty() && node.report.boot_id == options_.boot_id;
  }

  void Run() EMLIO_EXCLUDES(mu_) {
    std::vector<transport::Event> events;
    while (!quit_) {
      events.clear();
      const Status status = dialer_->Poll(kPollMs, &events);
      const MutexLock lock(mu_);
      if (!status.ok()) {
        for (Node& node : nodes_) Give(&node, NodeState::kLost, status.ToString());
        changed_.NotifyAll();
        return;
      }
      for (transport::Event& event : events) Handle(&event);
      for (Node& node : nodes_) Advance(&node);
      changed_.NotifyAll();
    }
  }

  Node* Find(ConnectionId connection) EMLIO_REQUIRES(mu_) {
    for (Node& node : nodes_) {
      if (node.connection == connection && connection != 0) return &node;
    }
    return nullptr;
  }

  // What this node has to be asked now.
  void Advance(Node* node) EMLIO_REQUIRES(mu_) {
    if (node->failed || node->done) return;
    const int64_t now_ns = NowNs();
    if (ending_ && !node->connected && (IsHere(*node) || now_ns - ending_ns_ > kLastDialsNs)) {
      node->failed = true;  // it is not going to come back, or not needed
      return;
    }
    if (node->connection == 0) {
      if (node->dialled_ns != 0 && now_ns - node->dialled_ns < kRedialNs) return;
      return Dial(node);
    }
    if (!node->connected) return;
    if (now_ns - node->heard_ns > options_.silence_ms * kNsPerMs) {
      dialer_->Close(node->connection);
      return Lose(node, fmt::format("its agent was silent for {} s", options_.silence_ms / 1000));
    }
    if (!node->greeted) return;
    if (began_ns_ != 0 && !node->asked_to_start && node->probes > 0) {
      node->asked_to_start = true;
      Send(node, StartRun{options_.run_id, now_ns - began_ns_, options_.name, options_.stage});
    }
    if (ending_ && node->started_here && !node->asked_to_stop && !node->told) {
      node->asked_to_stop = true;
      node->report.windows.clear();
      Send(node, Look{options_.run_id, true, 0});
    }
    if (now_ns - node->asked_ns >= kAskNs && node->probes >= kFirstProbes) {
      node->asked_ns = now_ns;
      SendProbe(node);
      if (node->started_here && !ending_) Send(node, Look{options_.run_id, false, 0});
    }
    AskForTicks(node, now_ns);
  }

  void AskForTicks(Node* node, int64_t now_ns) EMLIO_REQUIRES(mu_) {
    if (!options_.ticks || !node->started_here || node->asked_for_ticks || node->all_ticks) return;
    if (node->waiting_ticks >= kMaxWaitingTicks) return;
    const int64_t waited_ns = now_ns - node->ticks_asked_ns;
    const bool due = node->more_ticks || waited_ns >= (ending_ ? kAskAtEndNs : kAskNs);
    if (!due) return;
    // Those of a host that is measured already are there.
    if (IsKnownHost(*node)) {
      node->all_ticks = true;
      node->done = node->told;
      return;
    }
    node->asked_for_ticks = true;
    node->ticks_asked_ns = now_ns;
    Send(node, GetTicks{options_.run_id, node->next_tick});
  }

  // Whether the coordinator, or the agent of a node before this one, is on the same host. For a
  // node without an agent all others are before it.
  bool IsKnownHost(const Node& node) const EMLIO_REQUIRES(mu_) {
    const std::string& boot = node.report.boot_id;
    if (boot.empty()) return false;
    if (boot == options_.boot_id) return true;
    for (const Node& other : nodes_) {
      if (&other == &node && node.has_agent) return false;
      if (other.has_agent && other.report.boot_id == boot) return true;
    }
    return false;
  }

  void Dial(Node* node) EMLIO_REQUIRES(mu_) {
    node->dialled_ns = NowNs();
    const auto connection =
        dialer_->Dial(node->report.endpoint, static_cast<int>(options_.connect_timeout_ms));
    if (!connection.ok()) {
      return Give(node, NodeState::kUnreachable, connection.status().message());
    }
    node->connection = *connection;
    node->connected = node->greeted = node->started_here = false;
    node->asked_to_start = node->asked_to_stop = false;
    node->asked_for_ticks = false;
    node->probes = 0;
    node->probing.clear();
  }

  // The connection is gone; it is dialled again.
  void Lose(Node* node, std::string why) EMLIO_REQUIRES(mu_) {
    node->connection = 0;
    node->connected = false;
    if (node->told) return;  // there are its ticks to come, which no figure waits for
    node->report.state = node->report.node.empty() ? NodeState::kUnreachable : NodeState::kLost;
    node->report.cause = std::move(why);
  }

  void Give(Node* node, NodeState state, std::string why) EMLIO_REQUIRES(mu_) {
    node->failed = true;
    if (node->told) return;
    node->report.state = state;
    node->report.cause = std::move(why);
  }

  void Handle(transport::Event* event) EMLIO_REQUIRES(mu_) {
    Node* const node = Find(event->connection);
    if (node == nullptr) return;
    switch (event->kind) {
      case transport::Event::Kind::kConnected: {
        node->connected = true;
        node->heard_ns = NowNs();
        Hello hello;
        hello.agent = kProgram;
        return Send(node, hello);
      }
      case transport::Event::Kind::kLost:
        return Lose(node, event->reason.message());
      case transport::Event::Kind::kMessage:
        break;
    }
    node->heard_ns = NowNs();
    const auto message = Decode({event->message.header.data(), event->message.header.size()});
    Status status = message.status();
    if (status.ok()) status = Answer(node, *message);
    if (status.ok()) return;
    dialer_->Close(node->connection);
    node->connection = 0;
    Give(node, NodeState::kRefused, status.ToString());
  }

  Status Answer(Node* node, const AnyMessage& message) EMLIO_REQUIRES(mu_) {
    NodeReport& report = node->report;
    const auto* welcome = std::get_if<Welcome>(&message);
    const auto* error = std::get_if<Error>(&message);
    if (error == nullptr && (welcome != nullptr) == node->greeted) {
      return ProtocolError(node->greeted ? "the agent sends a second Welcome"
                                         : "the agent's first message is no Welcome");
    }
    if (welcome != nullptr) {
      EMLIO_RETURN_IF_ERROR(CheckVersion(*welcome));
      node->greeted = true;
      SendProbe(node);
      // Its figures are of the domains that it told before them.
      if (node->told) return OkStatus();
      ForgetFigures(&report);
      report.node = welcome->node;
      report.boot_id = welcome->boot_id;
      report.role = welcome->role;
      report.interval_ns = welcome->interval_ns;
      report.domains = welcome->domains;
      report.absent = welcome->absent;
      report.facts = welcome->facts;
    } else if (const auto* probed = std::get_if<Probed>(&message)) {
      OnProbed(node, *probed);
    } else if (const auto* started = std::get_if<Started>(&message)) {
      OnStarted(node, *started);
    } else if (const auto* figures = std::get_if<Figures>(&message)) {
      return OnFigures(node, *figures);
    } else if (const auto* ticks = std::get_if<Ticks>(&message)) {
      return OnTicks(node, *ticks);
    } else if (error != nullptr) {
      if (error->code == Code::kUnsupported || error->run.empty()) {
        return Status(error->code, error->text);
      }
      Give(node, NodeState::kRefused, error->text);
    } else {
      return ProtocolError("the message is one that only clients send");
    }
    return OkStatus();
  }

  // What was told so far is of the domains of an earlier Welcome.
  static void ForgetFigures(NodeReport* report) {
    report->run.energies.clear();
    report->run.total = {};
    report->watts.clear();
    report->windows.clear();
  }

  void OnStarted(Node* node, const Started& started) EMLIO_REQUIRES(mu_) {
    NodeReport& report = node->report;
    if (started.run != options_.run_id) return;
    node->started_here = true;
    if (!report.started) {
      report.joined_late = passed_;
      report.started = started.at;
      report.start_clock = started.clock;
    } else if (*report.started != started.at) {
      // Not the agent that was there. Its samples begin anew and are no sequel of the others; of
      // the run it has a gap.
      node->all_ticks = true;
      node->done = node->told;
    }
    if (node->told) return;
    report.run.begin_ns = started.begin_ns;
    report.state = NodeState::kLost;  // until it has told its figures
    report.cause.clear();
  }

  void OnProbed(Node* node, const Probed& probed) EMLIO_REQUIRES(mu_) {
    const auto sent = node->probing.find(probed.nonce);
    if (sent == node->probing.end()) return;
    const energy::Moment before = sent->second;
    const energy::Moment after = Moment();
    node->probing.erase(sent);
    energy::ClockOffset offset;
    offset.at = after;
    // The round trip is of the monotonic clock, which nobody sets meanwhile.
    const int64_t trip_ns = after.monotonic_ns - before.monotonic_ns;
    offset.offset_ns = probed.at.wall_ns - (before.wall_ns + trip_ns / 2);
    offset.bound_ns = trip_ns / 2 + probed.at.apart_ns;
    auto& best = node->report.offset;
    if (!best || offset.bound_ns <= best->bound_ns) best = offset;
    node->report.clock =
        energy::JudgeClock(best->offset_ns, best->bound_ns, node->report.interval_ns);
    if (++node->probes < kFirstProbes) SendProbe(node);
  }

  Status OnFigures(Node* node, const Figures& figures) EMLIO_REQUIRES(mu_) {
    NodeReport& report = node->report;
    if (figures.run != options_.run_id) return OkStatus();
    if (figures.energies.size() != report.domains.size()) {
      return ProtocolError("its figures are of other domains than it told");
    }
    report.run.begin_ns = figures.begin_ns;
    report.run.end_ns = figures.end_ns;
    report.run.energies = figures.energies;
    report.run.total = energy::TotalOf(report.domains, figures.energies);
    report.stats = figures.stats;
    report.proxies = figures.proxies;
    report.sinks = figures.sinks;
    if (figures.watts.size() <= report.domains.size()) report.watts = figures.watts;
    if (!figures.stopped) return OkStatus();
    report.stopped = figures.at;
    report.stop_clock = figures.clock;
    for (const energy::WindowReport& window : figures.windows) {
      if (window.energies.size() != report.domains.size()) {
        return ProtocolError("a window of its is of other domains than it told");
      }
      report.windows.push_back(window);
      report.windows.back().total = energy::TotalOf(report.domains, window.energies);
    }
    if (figures.more && !figures.windows.empty()) {
      Send(node, Look{options_.run_id, true, figures.windows.back().id});
      return OkStatus();
    }
    report.state = NodeState::kWhole;
    report.cause.clear();
    node->told = true;
    node->done = !options_.ticks || node->all_ticks;
    return OkStatus();
  }

  Status OnTicks(Node* node, const Ticks& ticks) EMLIO_REQUIRES(mu_) {
    if (ticks.run != options_.run_id || !node->asked_for_ticks) return OkStatus();
    node->asked_for_ticks = false;
    if (!ticks.data.bytes.empty()) {
      energy::TickBlock block(node->report.domains.size());
      if (const Status status = energy::DecodeTicks(ticks.data.bytes, &block); !status.ok()) {
        return ProtocolError(status.message());
      }
      if (ticks.first < node->next_tick || ticks.next < ticks.first ||
          ticks.next - ticks.first != block.size()) {
        return ProtocolError("its ticks are others than it was asked for");
      }
      if (node->next_tick != 0) node->ticks_lost += ticks.first - node->next_tick;
      node->next_tick = ticks.next;
      node->waiting_ticks += block.size();
      node->blocks.push_back(std::move(block));
    }
    node->more_ticks = ticks.more;
    node->all_ticks = ticks.last;
    node->done = node->told && node->all_ticks;
    return OkStatus();
  }

  void SendProbe(Node* node) EMLIO_REQUIRES(mu_) {
    const uint64_t nonce = ++nonce_;
    if (node->probing.size() > 64) node->probing.clear();
    node->probing[nonce] = Moment();
    Send(node, Probe{nonce});
  }

  void Send(Node* node, const AnyMessage& message) EMLIO_REQUIRES(mu_) {
    transport::Message out;
    out.header = Buffer::Of(Encode(message));
    // One that does not take its few messages any more is silent, too.
    (void)dialer_->Send(node->connection, &out);
  }

  const NodeSetOptions options_;
  const std::unique_ptr<transport::Dialer> dialer_;
  std::atomic<bool> quit_{false};

  mutable Mutex mu_;
  CondVar changed_;
  std::deque<Node> nodes_ EMLIO_GUARDED_BY(mu_);
  int64_t began_ns_ EMLIO_GUARDED_BY(mu_) = 0;
  bool passed_ EMLIO_GUARDED_BY(mu_) = false;  // the barrier
  bool ending_ EMLIO_GUARDED_BY(mu_) = false;
  int64_t ending_ns_ EMLIO_GUARDED_BY(mu_) = 0;
  uint64_t nonce_ EMLIO_GUARDED_BY(mu_) = 0;

  Thread thread_;
};

Result<std::unique_ptr<NodeSet>> NodeSet::Start(NodeSetOptions options) {
  transport::TransportOptions transport_options;
  transport_options.max_frame_bytes = kMaxMessageBytes;
  EMLIO_ASSIGN_OR_RETURN(auto dialer, transport::DialZmq(transport_options));
  auto impl = std::make_unique<Impl>(std::move(options), std::move(dialer));
  EMLIO_RETURN_IF_ERROR(impl->StartThread());
  return std::unique_ptr<NodeSet>(new NodeSet(std::move(impl)));
}

NodeSet::NodeSet(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
NodeSet::~NodeSet() = default;
void NodeSet::Add(std::string_view endpoint) { impl_->Add(endpoint); }
void NodeSet::AddUnmeasured(std::string_view endpoint, std::string_view boot_id) {
  impl_->AddUnmeasured(endpoint, boot_id);
}
std::vector<NodeReport> NodeSet::Begin() { return impl_->Begin(); }
std::vector<NodeReport> NodeSet::End() { return impl_->End(); }
std::vector<NodeReport> NodeSet::Snapshot() const { return impl_->Snapshot(); }
std::vector<NodeTicks> NodeSet::TakeTicks() { return impl_->TakeTicks(); }

RunTotal TotalOf(const std::string& own_name, const energy::Total* own,
                 const std::vector<NodeReport>& nodes) {
  RunTotal run;
  run.state = energy::State::kMeasured;
  double joules = 0;
  const auto add = [&](const std::string& name, const energy::Total& total) {
    run.state = std::max(run.state, total.state);
    if (!total.joules) {
      std::string domains;
      for (const std::string& id : total.missing) domains += (domains.empty() ? "" : ", ") + id;
      run.missing.emplace_back(name, fmt::format("no joules of {}", domains));
      return;
    }
    joules += *total.joules;
    run.uncertainty_joules += total.uncertainty_joules;
    run.nodes.push_back(name);
  };
  if (own != nullptr) add(own_name, *own);
  for (const NodeReport& node : nodes) {
    const std::string& name = node.node.empty() ? node.endpoint : node.node;
    if (node.state == NodeState::kSameHost) continue;
    if (node.state == NodeState::kWhole) {
      add(name, node.run.total);
    } else {
      run.state = std::max(run.state, energy::State::kUnavailable);
      run.missing.emplace_back(name, fmt::format("{}: {}", NodeStateName(node.state), node.cause));
    }
  }
  run.complete = run.missing.empty() && !run.nodes.empty();
  if (run.complete) run.joules = joules;
  return run;
}

std::optional<int64_t> SpreadNs(const std::optional<energy::Moment>& own,
                                const std::vector<NodeReport>& nodes, bool stop) {
  std::vector<int64_t> walls;
  if (own) walls.push_back(own->wall_ns);
  for (const NodeReport& node : nodes) {
    const auto& at = stop ? node.stopped : node.started;
    if (node.joined_late && !stop) continue;
    if (at && node.offset) walls.push_back(at->wall_ns - node.offset->offset_ns);
  }
  if (walls.size() < 2) return std::nullopt;
  const auto [least, most] = std::minmax_element(walls.begin(), walls.end());
  return *most - *least;
}

}  // namespace emlio::energy_agent
