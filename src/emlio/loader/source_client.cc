// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/loader/source_client.h"

#include <algorithm>
#include <utility>

#include "emlio/base/clock.h"
#include "emlio/base/log.h"
#include "fmt/format.h"

#ifndef EMLIO_VERSION_STRING
#define EMLIO_VERSION_STRING "unknown"
#endif

namespace emlio::loader {
namespace {

constexpr int kPollMs = 500;
constexpr int64_t kMeasureNs = 250 * kNsPerMs;
constexpr int64_t kMeasureRoundTrips = 4;
constexpr int64_t kPingIntervalNs = 2 * kNsPerSecond;
constexpr int64_t kJoinRefusedNs = 2 * kNsPerSecond;
// A Join follows its Open by this part of a round trip, where that is long enough to tell.
constexpr int64_t kJoinDelayPart = 8;
constexpr int64_t kMinJoinDelayNs = kNsPerMs / 2;
constexpr size_t kMaxBacklog = 65536;

transport::Message ToMessage(const wire::AnyMessage& message) {
  transport::Message out;
  out.header = Buffer::Of(wire::Encode(message));
  return out;
}

}  // namespace

SourceClient::SourceClient(size_t index, std::unique_ptr<transport::Dialer> dialer,
                           SourceClientOptions options, Owner* owner)
    : index_(index),
      options_(std::move(options)),
      name_(options_.endpoint + "/" + options_.dataset),
      owner_(owner),
      dialer_(std::move(dialer)),
      dialing_(options_.sharers) {}

Status SourceClient::Start() {
  EMLIO_ASSIGN_OR_RETURN(thread_, Thread::Start(fmt::format("emlio-recv-{}", index_),
                                                [this](std::stop_token stop) { Run(stop); }));
  return OkStatus();
}

SourceClient::~SourceClient() {
  thread_.RequestStop();
  dialer_->Wake();
  thread_.Join();
}

void SourceClient::Open(wire::Open open, std::shared_ptr<const dataset::Manifest> merged) {
  {
    MutexLock lock(mu_);
    commands_.push_back({std::move(open), std::move(merged)});
  }
  dialer_->Wake();
}

void SourceClient::Send(wire::AnyMessage message) {
  {
    MutexLock lock(mu_);
    commands_.push_back({std::move(message), nullptr});
  }
  dialer_->Wake();
}

void SourceClient::Run(std::stop_token stop) {
  Status status = Connect();
  std::vector<transport::Event> events;
  while (status.ok() && !stop.stop_requested()) {
    events.clear();
    status = dialer_->Poll(PollMs(), &events);
    const int64_t now_ns = SystemClock().NowNs();
    // Silence is judged only when nothing waits to be read: a stall of our own is not the peer's.
    if (!events.empty()) last_heard_ns_ = now_ns;
    for (transport::Event& event : events) {
      if (status.ok()) status = Handle(std::move(event));
    }
    if (status.ok()) status = TakeCommands();
    if (status.ok()) status = DialByDistance();
    if (status.ok() && !opened_ && join_at_ns_ > 0 && now_ns >= join_at_ns_) status = JoinStreams();
    if (status.ok()) status = Measure(now_ns);
    while (status.ok() && !backlog_.empty() &&
           dialer_->Send(control_, &backlog_.front()) == transport::SendResult::kSent) {
      backlog_.pop_front();
    }
    if (status.ok()) status = CheckLiveness(now_ns);
  }
  if (!status.ok()) owner_->OnFailed(index_, status.WithContext(name_));
}

Status SourceClient::Connect() {
  const int deadline_ms = static_cast<int>(options_.connect_timeout_ms);
  last_heard_ns_ = SystemClock().NowNs();
  EMLIO_ASSIGN_OR_RETURN(control_, dialer_->Dial(options_.endpoint, deadline_ms));
  // These data connections are made at once, so that the first epoch finds them standing.
  return DialStreams(options_.streams > 0 ? options_.streams : dialing_.first());
}

// The other host has answered: how far away it is, and so how many connections that takes, is known
// before the first of them stands.
Status SourceClient::DialByDistance() {
  if (dialing_.round_trip_ns() > 0) return OkStatus();
  const int64_t round_trip_ns = RoundTripNs();
  if (round_trip_ns == 0) return OkStatus();
  const uint32_t wanted = dialing_.OnConnected(round_trip_ns);
  return options_.streams > 0 ? OkStatus() : DialStreams(wanted);
}

// Makes data connections until there are so many.
Status SourceClient::DialStreams(uint32_t count) {
  while (streams_.size() < count) {
    EMLIO_ASSIGN_OR_RETURN(
        const transport::ConnectionId connection,
        dialer_->Dial(options_.endpoint, static_cast<int>(options_.connect_timeout_ms)));
    stream_of_[connection] = streams_.size();
    streams_.emplace_back().connection = connection;
  }
  return OkStatus();
}

int64_t SourceClient::RoundTripNs() const {
  const auto state = dialer_->StateOf(control_);
  return state.has_value() ? state->min_round_trip_us * 1000 : 0;
}

int SourceClient::PollMs() const {
  const int64_t left_ns = join_at_ns_ - SystemClock().NowNs();
  if (opened_ || left_ns <= 0) return kPollMs;  // who connects later joins then
  return static_cast<int>(std::min<int64_t>((left_ns + kNsPerMs - 1) / kNsPerMs, kPollMs));
}

// More connections when those that stand are full, and the owner's share of the measuring.
Status SourceClient::Measure(int64_t now_ns) {
  const int64_t elapsed_ns = now_ns - measured_at_ns_;
  if (elapsed_ns < std::max(kMeasureNs, kMeasureRoundTrips * dialing_.round_trip_ns())) {
    return OkStatus();
  }
  const uint64_t bytes = std::exchange(measured_bytes_, 0);
  const bool is_first = measured_at_ns_ == 0;
  measured_at_ns_ = now_ns;
  if (is_first || bytes == 0) return OkStatus();
  const auto connected = static_cast<uint32_t>(std::count_if(
      streams_.begin(), streams_.end(), [](const Stream& stream) { return stream.connected; }));
  const uint32_t wanted = dialing_.OnBytes(bytes, elapsed_ns, RoundTripNs(), connected);
  owner_->OnRate(index_, dialing_.bytes_per_s(), dialing_.round_trip_ns());
  return options_.streams > 0 ? OkStatus() : DialStreams(wanted);
}

Status SourceClient::Handle(transport::Event event) {
  const auto stream = stream_of_.find(event.connection);
  const bool is_control = event.connection == control_;
  if (!is_control && stream == stream_of_.end()) return OkStatus();
  switch (event.kind) {
    case transport::Event::Kind::kLost:
      return event.reason.WithContext(
          is_control ? std::string("the control connection was lost")
                     : fmt::format("data connection {} was lost", stream->second));
    case transport::Event::Kind::kConnected:
      if (!is_control) {
        streams_[stream->second].connected = true;
        return JoinStreams();
      }
      control_connected_ = true;
      last_ping_ns_ = SystemClock().NowNs();
      EMLIO_RETURN_IF_ERROR(SendControl(wire::Hello{.agent = "emlio/" EMLIO_VERSION_STRING}));
      // Not waiting for Welcome saves a round trip; a daemon that refuses says so.
      return SendControl(wire::Describe{options_.dataset});
    case transport::Event::Kind::kMessage:
      break;
  }
  if (!is_control && !event.message.payload.empty()) {
    measured_bytes_ += event.message.payload.size();
    owner_->OnChunk(index_, std::move(event.message));
    return OkStatus();
  }
  EMLIO_ASSIGN_OR_RETURN(wire::AnyMessage message,
                         wire::Decode({event.message.header.data(), event.message.header.size()}));
  if (std::holds_alternative<wire::Chunk>(message)) {  // of empty records
    owner_->OnChunk(index_, std::move(event.message));
    return OkStatus();
  }
  const auto* error = std::get_if<wire::Error>(&message);
  if (!is_control && error != nullptr && error->open_id == open_.open_id) {
    return OnJoinRefused(&streams_[stream->second], *error);
  }
  return HandleControl(std::move(message));
}

std::string SourceClient::energy_agent() const {
  if (energy_port_ == 0) return "";
  // The host by the name under which it was reached.
  return fmt::format("{}:{}", options_.endpoint.substr(0, options_.endpoint.rfind(':')),
                     energy_port_);
}

Status SourceClient::HandleControl(wire::AnyMessage message) {
  if (const auto* welcome = std::get_if<wire::Welcome>(&message)) {
    if (welcome->version != wire::kProtocolVersion) {
      return Unsupported(fmt::format("the daemon chose protocol version {}, this is version {}",
                                     welcome->version, wire::kProtocolVersion));
    }
    energy_port_ = welcome->energy_port;
    boot_id_ = welcome->boot_id;
    return OkStatus();
  }
  if (const auto* page = std::get_if<wire::ManifestPage>(&message)) {
    if (described_) return ProtocolError("the daemon sent a manifest that was not asked for");
    EMLIO_ASSIGN_OR_RETURN(const bool whole, assembler_.Add(*page));
    if (!whole) return OkStatus();
    described_ = true;
    manifest_ = assembler_.Take();
    owner_->OnManifest(index_);
    return OkStatus();
  }
  if (const auto* need = std::get_if<wire::NeedManifest>(&message)) {
    if (need->open_id != open_.open_id) return OkStatus();
    if (merged_ == nullptr) return ProtocolError("the daemon asked for its manifest twice");
    for (uint32_t page = 0; page < daemon::ManifestPageCount(*merged_); ++page) {
      EMLIO_RETURN_IF_ERROR(
          SendControl(daemon::MakeManifestPage(options_.dataset, *merged_, page)));
    }
    merged_.reset();
    return SendControl(open_);
  }
  if (const auto* opened = std::get_if<wire::Opened>(&message)) {
    if (opened->open_id != open_.open_id) return OkStatus();
    opened_ = true;
    EMLIO_RETURN_IF_ERROR(JoinStreams());
    owner_->OnMessage(index_, std::move(message));
    return OkStatus();
  }
  if (const auto* error = std::get_if<wire::Error>(&message)) {
    if (error->open_id == 0) return Status(error->code, error->message);
    if (error->open_id == open_.open_id) owner_->OnMessage(index_, std::move(message));
    return OkStatus();
  }
  if (std::holds_alternative<wire::Skip>(message) ||
      std::holds_alternative<wire::EpochEnd>(message)) {
    owner_->OnMessage(index_, std::move(message));
    return OkStatus();
  }
  if (const auto* ping = std::get_if<wire::Ping>(&message)) {
    return SendControl(wire::Pong{ping->nonce});
  }
  if (std::holds_alternative<wire::Pong>(message)) return OkStatus();
  return ProtocolError("the daemon sent a message that only receivers send");
}

Status SourceClient::TakeCommands() {
  std::vector<Command> commands;
  {
    MutexLock lock(mu_);
    commands.swap(commands_);
  }
  for (Command& command : commands) {
    if (auto* open = std::get_if<wire::Open>(&command.message)) {
      if (open_.open_id != 0) EMLIO_RETURN_IF_ERROR(SendControl(wire::Close{open_.open_id}));
      open_ = std::move(*open);
      opened_ = false;
      merged_ = std::move(command.merged);
      EMLIO_RETURN_IF_ERROR(SendControl(open_));
      // Not waiting for Opened saves a round trip. The other connection's message may overtake
      // Open nevertheless, and is then sent once more.
      const int64_t delay_ns = dialing_.round_trip_ns() / kJoinDelayPart;
      join_at_ns_ = delay_ns >= kMinJoinDelayNs ? SystemClock().NowNs() + delay_ns : 0;
    } else {
      EMLIO_RETURN_IF_ERROR(SendControl(command.message));
    }
  }
  return OkStatus();
}

// Binds every connection that stands to the newest session, once that is open or should be.
Status SourceClient::JoinStreams() {
  const bool is_early = !opened_;
  if (is_early && (join_at_ns_ == 0 || SystemClock().NowNs() < join_at_ns_)) return OkStatus();
  for (size_t i = 0; i < streams_.size(); ++i) {
    Stream& stream = streams_[i];
    if (!stream.connected || stream.joined == open_.open_id) continue;
    wire::Join join;
    join.open_id = open_.open_id;
    join.stream = static_cast<uint32_t>(i);
    transport::Message message = ToMessage(join);
    if (dialer_->Send(stream.connection, &message) != transport::SendResult::kSent) {
      return Unavailable(fmt::format("cannot write to data connection {}", i));
    }
    stream.joined = open_.open_id;
    stream.joined_early = is_early;
  }
  return OkStatus();
}

Status SourceClient::OnJoinRefused(Stream* stream, const wire::Error& error) {
  if (stream->joined_early && error.code == Code::kNotFound) {
    stream->joined = 0;
    if (!opened_) join_at_ns_ = 0;  // too early it was, for all
    return JoinStreams();
  }
  join_refused_ = error;
  join_refused_at_ns_ = SystemClock().NowNs();
  return OkStatus();
}

Status SourceClient::SendControl(const wire::AnyMessage& message) {
  if (backlog_.size() >= kMaxBacklog) {
    return Unavailable("the daemon does not read its control connection");
  }
  backlog_.push_back(ToMessage(message));
  while (!backlog_.empty() &&
         dialer_->Send(control_, &backlog_.front()) == transport::SendResult::kSent) {
    backlog_.pop_front();
  }
  return OkStatus();
}

Status SourceClient::CheckLiveness(int64_t now_ns) {
  if (!control_connected_) return OkStatus();  // the dialer has a deadline for that
  if (join_refused_.open_id != 0 && join_refused_.open_id == open_.open_id &&
      now_ns - join_refused_at_ns_ > kJoinRefusedNs) {
    owner_->OnMessage(index_, std::exchange(join_refused_, {}));
  }
  if (now_ns - last_heard_ns_ > options_.peer_silence_ms * kNsPerMs) {
    return Unavailable(fmt::format("no sign of life for {:.1f} s; is the daemon's host up?",
                                   (now_ns - last_heard_ns_) / 1e9));
  }
  if (now_ns - last_ping_ns_ >= kPingIntervalNs) {
    last_ping_ns_ = now_ns;
    return SendControl(wire::Ping{++pings_});
  }
  return OkStatus();
}

}  // namespace emlio::loader
