// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_agent/link.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "emlio/base/clock.h"
#include "emlio/base/log.h"
#include "emlio/base/mutex.h"
#include "emlio/energy/epoch_observer.h"
#include "emlio/energy/recorder.h"
#include "emlio/energy_agent/messages.h"
#include "emlio/transport/transport.h"

namespace emlio::energy_agent {
namespace {

constexpr size_t kMaxWaiting = 100'000;  // messages, beside ends of windows that were told of
constexpr int kConnectTimeoutMs = 5000;
constexpr int64_t kFlushNs = 2 * kNsPerSecond;
constexpr int kPollMs = 1000;
// Of an agent that is stopped: it takes no samples. What it answers waits for a sample, too.
constexpr auto kAnswerTimeout = std::chrono::seconds(5);
constexpr int64_t kMaxIntervalNs = 60 * kNsPerSecond;

}  // namespace

class Link::Impl {
 public:
  explicit Impl(std::unique_ptr<transport::Dialer> dialer) : dialer_(std::move(dialer)) {}

  Status Connect(const std::string& endpoint) {
    endpoint_ = endpoint;
    EMLIO_ASSIGN_OR_RETURN(connection_, dialer_->Dial(endpoint, kConnectTimeoutMs));
    return OkStatus();
  }
  void Run() EMLIO_EXCLUDES(mu_);
  void RequestEnd() {
    quit_ = true;
    dialer_->Wake();
  }

  uint64_t Open(energy::WindowLabel label) EMLIO_EXCLUDES(mu_) {
    Window window;
    window.label = std::move(label);
    window.begin_ns = SystemClock().NowNs();
    const MutexLock lock(mu_);
    window.key = ++last_key_;
    const uint64_t key = window.key;
    const bool told = Enqueue(window);
    open_.push_back({std::move(window), told});
    return key;
  }

  void Close(uint64_t key, energy::WindowWork work) EMLIO_EXCLUDES(mu_) {
    if (key == 0) return;
    const int64_t now_ns = SystemClock().NowNs();
    const MutexLock lock(mu_);
    for (size_t i = open_.size(); i-- > 0;) {
      if (open_[i].window.key != key) continue;
      // The end is told with all of the window: labels are short, and its begin may have been
      // dropped. Where it was not, the agent must learn of the end.
      Window window = std::move(open_[i].window);
      const bool must = open_[i].told;
      open_.erase(open_.begin() + static_cast<ptrdiff_t>(i));
      window.end_ns = now_ns;
      window.work = work;
      Enqueue(std::move(window), must);
      return;
    }
  }

  Result<WindowOfHost> Energy(uint64_t key) EMLIO_EXCLUDES(mu_) {
    const MutexLock lock(mu_);
    auto until = std::chrono::steady_clock::now() + kAnswerTimeout;
    while (!welcomed_ && !lost_ && std::chrono::steady_clock::now() < until) {
      answered_.WaitUntil(mu_, until);
    }
    if (welcomed_ && version_ < kWindowFiguresVersion) {
      return Unsupported(
          fmt::format("who measures for this process ({}) is older than it, and tells nothing of "
                      "single windows: update emlio on this host",
                      endpoint_));
    }
    until =
        std::chrono::steady_clock::now() + kAnswerTimeout + std::chrono::nanoseconds(interval_ns_);
    const uint64_t nonce = ++last_nonce_;
    const auto answer = answers_.emplace(nonce, std::nullopt).first;
    const bool asked = welcomed_ && Enqueue(GetWindow{nonce, key});
    bool in_time = welcomed_;
    while (asked && !lost_ && !answer->second && in_time) {
      answered_.WaitUntil(mu_, until);
      in_time = std::chrono::steady_clock::now() < until;
    }
    const auto figures = std::move(answer->second);
    answers_.erase(answer);
    if (!figures && !in_time && !lost_) {
      return TimeoutError(fmt::format(
          "who measures for this process ({}) does not answer: is it stopped?", endpoint_));
    }
    if (!figures) {
      return Unavailable(fmt::format(
          "the energy of windows of this process is not recorded: the connection to {} is lost",
          endpoint_));
    }
    if (!figures->found) return NotFound("the energy window is not known, or forgotten");
    WindowOfHost measured{domains_, figures->window};
    measured.window.total = energy::TotalOf(measured.domains, measured.window.energies);
    return measured;
  }

  void Tell(AnyMessage message) EMLIO_EXCLUDES(mu_) {
    const MutexLock lock(mu_);
    Enqueue(std::move(message));
  }

 private:
  // True when the answer to a probe has come. Any error ends the connection.
  Result<bool> Take(const transport::Message& message) EMLIO_EXCLUDES(mu_) {
    auto decoded = Decode({message.header.data(), message.header.size()});
    if (!decoded.ok()) return decoded.status();
    if (std::holds_alternative<Probed>(*decoded)) return true;
    if (const auto* error = std::get_if<Error>(&*decoded)) {
      if (error->code == Code::kOk) return ProtocolError("the agent's Error has no code");
      return Status(error->code, error->text);
    }
    const MutexLock lock(mu_);
    if (auto* welcome = std::get_if<Welcome>(&*decoded)) {
      if (welcomed_) return ProtocolError("the agent sends a second Welcome");
      EMLIO_RETURN_IF_ERROR(CheckVersion(*welcome));
      welcomed_ = true;
      version_ = welcome->version;
      domains_ = std::move(welcome->domains);
      interval_ns_ = std::clamp<int64_t>(welcome->interval_ns, 0, kMaxIntervalNs);
      answered_.NotifyAll();
    }
    if (auto* figures = std::get_if<WindowFigures>(&*decoded)) {
      if (!welcomed_) return ProtocolError("the agent sends figures before its Welcome");
      const auto asked = answers_.find(figures->nonce);
      // As many as the domains, or it is an answer that nobody can use.
      figures->window.energies.resize(domains_.size());
      if (asked != answers_.end()) asked->second = std::move(*figures);
      answered_.NotifyAll();
    }
    return false;
  }
  struct OpenWindow {
    Window window;
    bool told = false;  // its begin is
  };

  // False when nobody will be told; not with `must`, while there is a connection.
  bool Enqueue(AnyMessage message, bool must = false) EMLIO_REQUIRES(mu_) {
    if (lost_) return false;
    if (waiting_.size() >= kMaxWaiting && !must) {
      if (!overflowed_) LogWarning("more energy windows than can be told of: some are left out");
      overflowed_ = true;
      return false;
    }
    waiting_.push_back(std::move(message));
    dialer_->Wake();
    return true;
  }

  const std::unique_ptr<transport::Dialer> dialer_;
  std::string endpoint_;  // set before the thread starts
  transport::ConnectionId connection_ = 0;
  std::atomic<bool> quit_{false};

  Mutex mu_;
  std::deque<AnyMessage> waiting_ EMLIO_GUARDED_BY(mu_);
  std::vector<OpenWindow> open_ EMLIO_GUARDED_BY(mu_);
  // A child made by fork has a link of its own: its windows are not taken for the parent's.
  uint64_t last_key_ EMLIO_GUARDED_BY(mu_) = static_cast<uint64_t>(getpid()) << 32;
  uint64_t last_nonce_ EMLIO_GUARDED_BY(mu_) = 0;
  std::map<uint64_t, std::optional<WindowFigures>> answers_ EMLIO_GUARDED_BY(mu_);
  CondVar answered_;
  bool welcomed_ EMLIO_GUARDED_BY(mu_) = false;
  uint32_t version_ EMLIO_GUARDED_BY(mu_) = 0;  // that the agent chose
  std::vector<energy::Domain> domains_ EMLIO_GUARDED_BY(mu_);
  int64_t interval_ns_ EMLIO_GUARDED_BY(mu_) = 0;  // of the agent's samples
  bool lost_ EMLIO_GUARDED_BY(mu_) = false;
  bool overflowed_ EMLIO_GUARDED_BY(mu_) = false;
};

void Link::Impl::Run() {
  std::vector<transport::Event> events;
  int64_t quit_by_ns = 0;
  bool connected = false;
  bool probed = false;  // the last question: its answer says that all before was taken
  while (true) {
    events.clear();
    Status status = dialer_->Poll(quit_by_ns == 0 ? kPollMs : 10, &events);
    for (const transport::Event& event : events) {
      if (event.kind == transport::Event::Kind::kConnected) {
        connected = true;
        Hello hello;
        hello.agent = "emlio";
        transport::Message out;
        out.header = Buffer::Of(Encode(hello));
        (void)dialer_->Send(connection_,
                            &out);  // the first message always has room
      }
      if (event.kind == transport::Event::Kind::kLost) status = event.reason;
      if (event.kind == transport::Event::Kind::kMessage) {
        const auto answered = Take(event.message);
        if (answered.ok() && *answered && probed) return;
        Status wrong = answered.status();
        if (wrong.ok() && *answered) wrong = ProtocolError("the agent answers what nobody asked");
        // Nothing of what comes behind it counts.
        if (!wrong.ok()) {
          if (status.ok()) status = std::move(wrong);
          break;
        }
      }
    }
    const MutexLock lock(mu_);
    if (!status.ok()) {
      LogWarning("energy windows of this process are not recorded from here on: {}: {}", endpoint_,
                 status.message());
      lost_ = true;
      answered_.NotifyAll();
      waiting_.clear();
      return;
    }
    while (connected && !waiting_.empty()) {
      transport::Message out;
      out.header = Buffer::Of(Encode(waiting_.front()));
      if (dialer_->Send(connection_, &out) != transport::SendResult::kSent) break;
      waiting_.pop_front();
    }
    if (!quit_) continue;
    if (quit_by_ns == 0) quit_by_ns = SystemClock().NowNs() + kFlushNs;
    if (SystemClock().NowNs() >= quit_by_ns) return;
    if (!connected || !waiting_.empty() || probed) continue;
    transport::Message out;
    out.header = Buffer::Of(Encode(Probe{}));
    probed = dialer_->Send(connection_, &out) == transport::SendResult::kSent;
  }
}

Result<std::shared_ptr<Link>> Link::Start(const std::string& endpoint) {
  EMLIO_ASSIGN_OR_RETURN(auto dialer, transport::DialZmq({}));
  auto impl = std::make_unique<Impl>(std::move(dialer));
  EMLIO_RETURN_IF_ERROR(impl->Connect(endpoint));
  auto link = std::shared_ptr<Link>(new Link(std::move(impl)));
  EMLIO_RETURN_IF_ERROR(link->impl_.Start("emlio-link"));
  return link;
}

std::shared_ptr<Link> Link::FromEnvironment() {
  const char* endpoint = std::getenv(kLinkVariable);
  if (endpoint == nullptr || *endpoint == '\0') return nullptr;
  auto link = Start(endpoint);
  if (link.ok()) return *std::move(link);
  LogWarning("energy windows of this process are not recorded (${}): {}", kLinkVariable,
             link.status().message());
  return nullptr;
}

Link::Link(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Link::~Link() = default;

uint64_t Link::Open(energy::WindowLabel label) {
  return impl_.in_child() ? 0 : impl_->Open(std::move(label));
}
void Link::Close(uint64_t number, energy::WindowWork work) {
  if (!impl_.in_child()) impl_->Close(number, work);
}

Result<WindowOfHost> Link::Energy(uint64_t number) {
  if (impl_.in_child()) return Unavailable("windows of a parent are not known in a fork of it");
  return impl_->Energy(number);
}

uint64_t Link::OnEpochBegin(const EpochInfo& info) { return Open(energy::LabelOf(info)); }
void Link::OnEpochEnd(uint64_t number, const EpochWork& work) {
  Close(number, {work.records, work.bytes});
}
void Link::OnEnergyAgent(std::string_view endpoint) {
  if (!impl_.in_child()) impl_->Tell(Peer{.endpoint = std::string(endpoint)});
}
void Link::OnUnmeasuredPeer(std::string_view endpoint, std::string_view boot_id) {
  if (impl_.in_child()) return;
  impl_->Tell(
      Peer{.unmeasured = true, .endpoint = std::string(endpoint), .boot_id = std::string(boot_id)});
}

}  // namespace emlio::energy_agent
