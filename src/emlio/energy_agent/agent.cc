// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_agent/agent.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "emlio/base/log.h"
#include "emlio/base/thread.h"
#include "emlio/energy/activity.h"
#include "emlio/energy/clock_state.h"
#include "emlio/energy/tick_codec.h"
#include "emlio/energy_agent/messages.h"
#include "emlio/transport/endpoint.h"
#include "emlio/transport/transport.h"

namespace emlio::energy_agent {
namespace {

using transport::ConnectionId;

constexpr int kIdlePollMs = 1000;
constexpr int kPendingPollMs = 10;  // while an answer waits for a sample
constexpr size_t kMaxRuns = 1024;
constexpr size_t kMaxClientWindows = 100'000;        // open at a time, of one connection
constexpr size_t kMaxClosedWindows = 10'000;         // of one connection that can be asked for
constexpr size_t kMaxPendingWindows = 10'000;        // of one connection that wait for an answer
constexpr size_t kMaxBacklog = 256;                  // answers that a client does not take
constexpr size_t kMaxWindowBytes = size_t{1} << 20;  // of a message, about
constexpr size_t kMaxTicksAMessage = 600;
constexpr size_t kMaxSamplesAMessage = size_t{1} << 14;
constexpr int64_t kBeforeRunNs = 2 * kNsPerSecond;  // counters that move seldom have moved by then
constexpr int64_t kForgetRunNs = 600 * kNsPerSecond;

}  // namespace

class Agent::Impl {
 public:
  Impl(std::shared_ptr<energy::Monitor> monitor, AgentOptions options,
       std::unique_ptr<transport::Listener> listener, uint16_t port)
      : monitor_(std::move(monitor)),
        options_(std::move(options)),
        listener_(std::move(listener)),
        port_(port) {}

  ~Impl() {
    stopping_ = true;
    listener_->Wake();
    thread_.Join();
  }

  Status StartThread() {
    EMLIO_ASSIGN_OR_RETURN(thread_,
                           Thread::Start("emlio-agent", [this](std::stop_token) { Run(); }));
    return OkStatus();
  }
  const std::string& endpoint() const { return listener_->endpoint(); }
  uint16_t port() const { return port_; }

 private:
  struct RunState {
    energy::WindowId window = 0;
    Started started;
    energy::Activity before;
    energy::Activity used;  // once it has stopped
    bool stopped = false;
    energy::Moment stopped_at;
    energy::ClockReading stopped_clock;
    int64_t end_ns = 0;
    ConnectionId client = 0;
    int64_t lost_ns = 0;  // when its client was lost; 0: it was not
  };
  struct ClosedWindow {
    uint64_t key = 0;  // the client's
    energy::WindowId id = 0;
    int64_t end_ns = 0;
  };
  struct Client {
    bool greeted = false;
    std::string agent;
    std::map<uint64_t, energy::WindowId> windows;  // open ones, by the client's key
    std::deque<ClosedWindow> closed;               // the latest of them, as they closed
    size_t pending_windows = 0;                    // of Impl::pending_windows_
    std::vector<transport::Message> backlog;
  };
  struct Pending {
    ConnectionId client;
    Look look;
  };
  struct PendingWindow {
    ConnectionId client;
    uint64_t nonce;
    energy::WindowId id;
    int64_t until_ns;  // when this has been sampled it is answered
  };

  void Run() {
    std::vector<transport::Event> events;
    while (!stopping_) {
      events.clear();
      const bool waits = !pending_.empty() || !pending_windows_.empty();
      if (const Status status = listener_->Poll(waits ? kPendingPollMs : kIdlePollMs, &events);
          !status.ok()) {
        LogError("the energy agent at {} ends: {}", endpoint(), status.ToString());
        return;
      }
      for (transport::Event& event : events) Handle(&event);
      AnswerPending();
      Forget();
      for (auto& [connection, client] : clients_) SendBacklog(connection, &client);
    }
  }

  void Handle(transport::Event* event) {
    const ConnectionId from = event->connection;
    if (event->kind == transport::Event::Kind::kLost) return Drop(from);
    if (event->kind != transport::Event::Kind::kMessage) return;
    auto message = Decode({event->message.header.data(), event->message.header.size()});
    Status status = message.status();
    if (status.ok() && event->message.payload.size() > 0) {
      status = ProtocolError("messages for an energy agent have one frame");
    }
    if (status.ok()) status = Answer(from, *message);
    if (status.ok()) return;
    LogWarning("energy agent: a client is given up: {}", status.ToString());
    Send(from, Error{status.code(), status.message(), ""});
    Drop(from);
    listener_->Forget(from);
  }

  Status Answer(ConnectionId from, const AnyMessage& message) {
    if (const auto* hello = std::get_if<Hello>(&message)) return OnHello(from, *hello);
    const auto client = clients_.find(from);
    if (client == clients_.end()) return ProtocolError("the first message is no Hello");
    if (const auto* probe = std::get_if<Probe>(&message)) {
      Send(from, Probed{probe->nonce, Now()});
    } else if (const auto* start = std::get_if<StartRun>(&message)) {
      OnStart(from, *start);
    } else if (const auto* look = std::get_if<Look>(&message)) {
      OnLook(from, *look);
    } else if (const auto* ticks = std::get_if<GetTicks>(&message)) {
      OnGetTicks(from, *ticks);
    } else if (const auto* window = std::get_if<Window>(&message)) {
      return OnWindow(&client->second, *window);
    } else if (const auto* wanted = std::get_if<GetWindow>(&message)) {
      return OnGetWindow(from, &client->second, *wanted);
    } else if (const auto* peer = std::get_if<Peer>(&message)) {
      if (options_.on_peer) options_.on_peer(*peer);
    } else {
      return ProtocolError("the message is one that only agents send");
    }
    return OkStatus();
  }

  Status OnHello(ConnectionId from, const Hello& hello) {
    if (hello.min_version > hello.max_version) {
      return ProtocolError(fmt::format("it speaks versions from {} to {}, which are none",
                                       hello.min_version, hello.max_version));
    }
    if (hello.min_version > kVersion || hello.max_version < kMinVersion) {
      return Unsupported(fmt::format("this agent speaks versions {} to {}, not {} to {}",
                                     kMinVersion, kVersion, hello.min_version, hello.max_version));
    }
    clients_[from].agent = hello.agent;
    Welcome welcome;
    welcome.version = std::min(kVersion, hello.max_version);
    welcome.node = monitor_->node();
    welcome.boot_id = options_.boot_id;
    welcome.role = options_.role;
    welcome.interval_ns = monitor_->interval_ns();
    welcome.domains = monitor_->domains();
    welcome.absent = monitor_->absent();
    welcome.facts = options_.facts;
    Send(from, welcome);
    return OkStatus();
  }

  void OnStart(ConnectionId from, const StartRun& start) {
    auto found = runs_.find(start.run);
    if (found == runs_.end()) {
      if (runs_.size() >= kMaxRuns) {
        return Send(from,
                    Error{Code::kLimitExceeded,
                          fmt::format("{} runs are measured here already", kMaxRuns), start.run});
      }
      RunState run;
      const int64_t now_ns = SystemClock().NowNs();
      const int64_t begin_ns = now_ns - std::clamp<int64_t>(start.ago_ns, 0, now_ns);
      energy::WindowLabel label;
      label.name = start.name;
      label.stage = start.stage;
      run.window = monitor_->OpenAt(std::move(label), begin_ns);
      run.before = monitor_->ReadActivity();
      run.started = {start.run, Now(), begin_ns, Clock()};
      found = runs_.emplace(start.run, std::move(run)).first;
    }
    found->second.client = from;
    found->second.lost_ns = 0;
    Send(from, found->second.started);
  }

  void OnLook(ConnectionId from, const Look& look) {
    const auto found = runs_.find(look.run);
    if (found == runs_.end()) return SendUnknownRun(from, look.run);
    RunState& run = found->second;
    if (look.stop && !run.stopped) {
      run.stopped = true;
      run.end_ns = SystemClock().NowNs();
      run.stopped_at = Now();
      run.stopped_clock = Clock();
      run.used = energy::Between(run.before, monitor_->ReadActivity());
      monitor_->CloseAt(run.window, run.end_ns);
    }
    pending_.push_back({from, look});
  }

  void AnswerPending() {
    std::erase_if(pending_, [this](const Pending& pending) { return TryAnswer(pending); });
    std::erase_if(pending_windows_,
                  [this](const PendingWindow& pending) { return TryAnswer(pending); });
  }

  // True when the answer was sent, or nobody waits for it any more.
  bool TryAnswer(const Pending& pending) {
    const auto found = runs_.find(pending.look.run);
    if (found == runs_.end() || !clients_.contains(pending.client)) return true;
    const RunState& run = found->second;
    const auto recorder = monitor_->recorder();
    if (recorder.ok() && run.stopped && (*recorder)->sampled_until_ns() < run.end_ns) return false;
    const auto report = monitor_->ReportSoFar(run.window);
    if (!report.ok()) {
      Send(pending.client, Error{report.status().code(), report.status().message(), found->first});
      return true;
    }
    Figures figures;
    figures.run = found->first;
    figures.at = run.stopped ? run.stopped_at : Now();
    figures.begin_ns = report->begin_ns;
    figures.end_ns = report->end_ns;
    figures.stopped = run.stopped;
    figures.energies = report->energies;
    figures.clock = run.stopped ? run.stopped_clock : Clock();
    if (const auto stats = monitor_->Stats(); stats.ok()) figures.stats = *stats;
    figures.proxies =
        run.stopped ? run.used : energy::Between(run.before, monitor_->ReadActivity());
    if (options_.sinks) figures.sinks = options_.sinks();
    if (!run.stopped && recorder.ok()) figures.watts = LatestWatts(**recorder);
    if (pending.look.stop) AddWindows(run, pending.look.after, &figures);
    Send(pending.client, figures);
    return true;
  }

  bool TryAnswer(const PendingWindow& pending) {
    const auto client = clients_.find(pending.client);
    if (client == clients_.end()) return true;
    const auto recorder = monitor_->recorder();
    if (recorder.ok() && (*recorder)->sampled_until_ns() < pending.until_ns) return false;
    --client->second.pending_windows;
    WindowFigures figures;
    figures.nonce = pending.nonce;
    if (auto report = monitor_->ReportSoFar(pending.id); report.ok()) {
      figures.found = true;
      figures.window = *std::move(report);
    }
    Send(pending.client, figures);
    return true;
  }

  Status OnGetWindow(ConnectionId from, Client* client, const GetWindow& wanted) {
    if (client->pending_windows >= kMaxPendingWindows) {
      return LimitExceeded("too many questions for energy windows wait for an answer");
    }
    PendingWindow pending{from, wanted.nonce, 0, 0};
    if (const auto open = client->windows.find(wanted.key); open != client->windows.end()) {
      pending.id = open->second;
      pending.until_ns = SystemClock().NowNs();
    } else if (const auto closed =
                   std::find_if(client->closed.rbegin(), client->closed.rend(),
                                [&](const ClosedWindow& one) { return one.key == wanted.key; });
               closed != client->closed.rend()) {
      pending.id = closed->id;
      pending.until_ns = closed->end_ns;
    }  // else no window has the id 0
    pending_windows_.push_back(pending);
    ++client->pending_windows;
    return OkStatus();
  }

  static std::vector<std::optional<double>> LatestWatts(const energy::Recorder& recorder) {
    const int64_t until_ns = recorder.sampled_until_ns();
    std::vector<std::optional<double>> watts;
    for (const energy::Energy& energy : recorder.Window(until_ns - kNsPerSecond, until_ns)) {
      watts.push_back(energy.joules);  // of one second
    }
    return watts;
  }

  void OnGetTicks(ConnectionId from, const GetTicks& wanted) {
    const auto found = runs_.find(wanted.run);
    if (found == runs_.end()) return SendUnknownRun(from, wanted.run);
    const RunState& run = found->second;
    Ticks ticks;
    ticks.run = wanted.run;
    const size_t domains = monitor_->domains().size();
    if (const auto recorder = monitor_->recorder();
        recorder.ok() && domains > 0 && domains <= energy::kMaxPackedDomains) {
      energy::TickBlock block(domains);
      const uint64_t first = wanted.from != 0
                                 ? wanted.from
                                 : (*recorder)->TickFrom(run.started.begin_ns - kBeforeRunNs);
      const size_t most = std::clamp<size_t>(kMaxSamplesAMessage / domains, 1, kMaxTicksAMessage);
      const auto range = (*recorder)->ReadTicks(
          first, most, [&](const energy::Moment& taken, std::span<const energy::Sample> samples) {
            if (ticks.last) return;
            block.Append({taken.monotonic_ns, taken.wall_ns, samples});
            // The first one behind the end is needed to tell where the end lies.
            ticks.last = run.stopped && taken.monotonic_ns >= run.end_ns;
          });
      ticks.first = range.begin;
      ticks.next = range.begin + block.size();
      if (block.size() > 0) ticks.data.bytes = energy::EncodeTicks(block, block.size());
      ticks.more = !ticks.last && block.size() == most;
    } else {
      ticks.last = true;  // there is nothing to be told
    }
    Send(from, ticks);
  }

  void SendUnknownRun(ConnectionId to, const std::string& run) {
    Send(to,
         Error{Code::kNotFound, "this agent does not know the run: was it started again?", run});
  }

  // The windows of this host that lie in the run, but for those that other runs are.
  void AddWindows(const RunState& run, uint64_t after, Figures* figures) {
    const auto windows = monitor_->ReportsAfter(after, SIZE_MAX);
    if (!windows.ok()) return;
    size_t bytes = 0;
    for (const energy::WindowReport& window : *windows) {
      const bool is_run = std::any_of(runs_.begin(), runs_.end(), [&](const auto& one) {
        return one.second.window == window.id;
      });
      if (is_run || window.end_ns < run.started.begin_ns || window.begin_ns > run.end_ns) continue;
      if (figures->windows.size() >= kMaxWindowsAMessage || bytes > kMaxWindowBytes) {
        figures->more = true;
        return;
      }
      for (const energy::Energy& energy : window.energies) {
        bytes += 200 + energy.cause.size() + energy.fix.size();
      }
      figures->windows.push_back(window);
    }
  }

  Status OnWindow(Client* client, const Window& window) {
    const auto found = client->windows.find(window.key);
    if (found == client->windows.end()) {
      if (client->windows.size() >= kMaxClientWindows) {
        return LimitExceeded("too many energy windows are open");
      }
      const energy::WindowId id = monitor_->OpenAt(window.label, window.begin_ns);
      if (window.end_ns == 0) {
        client->windows.emplace(window.key, id);
      } else {
        CloseWindow(client, window, id);
      }
    } else if (window.end_ns != 0) {
      CloseWindow(client, window, found->second);
      client->windows.erase(found);
    }
    return OkStatus();
  }

  void CloseWindow(Client* client, const Window& window, energy::WindowId id) {
    monitor_->CloseAt(id, window.end_ns, window.work);
    // Nobody samples what has not been yet: a client whose clock is wrong is answered, too.
    client->closed.push_back({window.key, id, std::min(window.end_ns, SystemClock().NowNs())});
    if (client->closed.size() > kMaxClosedWindows) client->closed.pop_front();
  }

  void Drop(ConnectionId connection) {
    const auto found = clients_.find(connection);
    if (found != clients_.end()) {
      for (const auto& [key, window] : found->second.windows) monitor_->Close(window);
      clients_.erase(found);
    }
    for (auto& [id, run] : runs_) {
      if (run.client == connection) run.lost_ns = SystemClock().NowNs();
    }
  }

  void Forget() {
    const int64_t before_ns = SystemClock().NowNs() - kForgetRunNs;
    std::erase_if(runs_, [&](const auto& one) {
      const bool old = one.second.lost_ns != 0 && one.second.lost_ns < before_ns;
      if (old) monitor_->Close(one.second.window);
      return old;
    });
  }

  void Send(ConnectionId to, const AnyMessage& message) {
    transport::Message out;
    out.header = Buffer::Of(Encode(message));
    const auto client = clients_.find(to);
    if (client == clients_.end()) {
      (void)listener_->Send(to, &out);  // a refusal
      return;
    }
    client->second.backlog.push_back(std::move(out));
    SendBacklog(to, &client->second);
  }

  void SendBacklog(ConnectionId to, Client* client) {
    size_t sent = 0;
    while (sent < client->backlog.size() &&
           listener_->Send(to, &client->backlog[sent]) != transport::SendResult::kFull) {
      ++sent;  // or its connection is gone, and the event follows
    }
    client->backlog.erase(client->backlog.begin(),
                          client->backlog.begin() + static_cast<ptrdiff_t>(sent));
    // Who asks without reading answers gets none.
    if (client->backlog.size() > kMaxBacklog) client->backlog.clear();
  }

  energy::Moment Now() const { return options_.clocks.read_moment(); }
  energy::ClockReading Clock() const {
    return options_.clocks.read_clock ? options_.clocks.read_clock() : energy::ReadClock();
  }

  const std::shared_ptr<energy::Monitor> monitor_;
  const AgentOptions options_;
  const std::unique_ptr<transport::Listener> listener_;
  const uint16_t port_;
  std::atomic<bool> stopping_{false};

  // Only on the agent's thread.
  std::map<ConnectionId, Client> clients_;
  std::map<std::string, RunState> runs_;
  std::vector<Pending> pending_;
  std::vector<PendingWindow> pending_windows_;

  Thread thread_;
};

Result<std::unique_ptr<Agent>> Agent::Start(std::shared_ptr<energy::Monitor> monitor,
                                            AgentOptions options) {
  if (!options.insecure && !transport::IsLoopback(options.bind)) {
    return PermissionDenied(
        fmt::format("an energy agent on {} can be asked by any host that reaches it: bind it to a "
                    "loopback address, or allow that (--insecure)",
                    options.bind));
  }
  if (options.boot_id.empty()) options.boot_id = energy::BootId(options.root);
  transport::TransportOptions transport_options;
  transport_options.max_frame_bytes = kMaxMessageBytes;
  EMLIO_ASSIGN_OR_RETURN(auto listener, transport::ListenZmq(options.bind, transport_options));
  const std::string_view bound_to = listener->endpoint();
  EMLIO_ASSIGN_OR_RETURN(const transport::HostPort bound,
                         transport::ParseHostPort(bound_to.substr(bound_to.find("://") + 3)));
  auto impl = std::make_unique<Impl>(std::move(monitor), std::move(options), std::move(listener),
                                     bound.port);
  EMLIO_RETURN_IF_ERROR(impl->StartThread());
  return std::unique_ptr<Agent>(new Agent(std::move(impl)));
}

Agent::Agent(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Agent::~Agent() = default;
const std::string& Agent::endpoint() const { return impl_->endpoint(); }
uint16_t Agent::port() const { return impl_->port(); }

}  // namespace emlio::energy_agent
