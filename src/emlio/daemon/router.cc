// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/daemon/router.h"

#include <algorithm>
#include <random>
#include <type_traits>

#include "emlio/base/log.h"
#include "emlio/base/system_limits.h"
#include "emlio/daemon/local_records.h"
#include "emlio/daemon/open_request.h"
#include "emlio/plan/plan.h"
#include "fmt/format.h"

#ifndef EMLIO_VERSION_STRING
#define EMLIO_VERSION_STRING "unknown"
#endif

namespace emlio::daemon {
namespace {

using transport::ConnectionId;

constexpr int kPollMs = 500;
// Chunks of a stream that are read or wait to be taken by the kernel. One is enough, for the
// kernel's own send buffer bridges the moment until the next one is there, and few chunks on their
// way stay in the processor's cache from the gathering copy to the kernel's (decisions/0006).
constexpr int kMaxUnsentPerStream = 1;
constexpr uint64_t kMaxMergedBytes = uint64_t{128} << 20;
constexpr uint64_t kMaxMergedManifestBytes = uint64_t{64} << 20;
// Records of this size on average are sent from the page cache. Smaller ones cost less when they
// are copied together: every piece is a call of the system.
constexpr uint64_t kMinSentRecordBytes = uint64_t{16} << 10;
// How long plans are searched before the network is looked at again.
constexpr int64_t kSearchNs = 1 * kNsPerMs;
// The same for chunks, which may go out at once for as long as there is credit.
constexpr int64_t kScheduleNs = 2 * kNsPerMs;
constexpr uint32_t kMinChunkBytes = 4096;
// How often connections are looked at to decide how many are used; seldomer with many sessions.
constexpr int64_t kTuningNs = 20 * kNsPerMs;
constexpr int64_t kTuningNsASession = 1 * kNsPerMs;
// How long the last Errors of a shutdown get to reach the network.
constexpr int64_t kFarewellNs = 200 * kNsPerMs;

Hash128 RandomId() {
  std::random_device device;
  Hash128 id;
  for (uint8_t& byte : id) byte = static_cast<uint8_t>(device());
  return id;
}

}  // namespace

// One data connection of a session. `unsent` (messages that the network has not taken yet, those in
// the backlog included) is shared with the messages.
struct Router::Stream {
  ConnectionId connection = 0;  // 0: not joined, or lost
  int gathering = 0;
  std::shared_ptr<std::atomic<int>> unsent = std::make_shared<std::atomic<int>>(0);
  std::deque<transport::Message> backlog;

  int busy() const { return gathering + *unsent; }
  // Of the connection's own: what a connection that was replaced still holds is not counted here.
  void Bind(ConnectionId to) {
    DropBacklog();
    connection = to;
    unsent = std::make_shared<std::atomic<int>>(0);
  }
  // What cannot be sent any more counts as sent.
  void DropBacklog() {
    for (transport::Message& message : backlog) message.on_sent.function(message.on_sent.context);
    backlog.clear();
  }
};

struct Router::Session {
  Session(uint64_t send_window_bytes, uint32_t streams_in_use,
          const std::shared_ptr<Observer>& observer)
      : tuner(send_window_bytes, streams_in_use), epochs(observer) {}

  wire::Open open;
  ConnectionId control = 0;
  std::shared_ptr<const plan::Plan> plan;
  std::unique_ptr<LocalRecords> records;
  std::unique_ptr<session::Sender> sender;
  std::vector<Stream> streams;
  session::StreamTuner tuner;
  bool let_go = false;            // of what was read
  bool is_searching = false;      // for its next record
  uint32_t chunks_in_memory = 0;  // given out while all seemed to be there: see ReadAheadOf
  // Payload bytes submitted and not sent yet; shared with the messages.
  std::shared_ptr<std::atomic<uint64_t>> held = std::make_shared<std::atomic<uint64_t>>(0);
  uint64_t epochs_counted = 0;
  uint64_t resent_counted = 0;
  EpochWatch epochs;
};

Router::Router(std::unique_ptr<transport::Listener> listener,
               std::map<std::string, std::shared_ptr<const dataset::Dataset>> datasets,
               const DaemonOptions& options)
    : options_(options),
      datasets_(std::move(datasets)),
      listener_(std::move(listener)),
      endpoint_(listener_->endpoint()),
      run_id_(RandomId()),
      budget_(std::make_shared<SendBudget>(listener_.get())),
      merged_(kMaxMergedBytes, kMaxMergedManifestBytes),
      send_window_bytes_(TcpSendWindowBytes()) {
  if (options_.read_ahead_bytes > 0) read_ahead_ = std::make_unique<ReadAhead>();
  gather_ = std::make_unique<GatherPool>(options_.gather_threads, options_.max_chunk_bytes,
                                         options_.send_buffer_bytes,
                                         [budget = budget_] { budget->Wake(); });
}

Router::~Router() {
  gather_.reset();
  budget_->Detach();
}

void Router::Stop(int64_t deadline_ns) {
  int64_t expected = stop_deadline_ns_;
  // A second call may only shorten the first.
  while ((expected < 0 || deadline_ns < expected) &&
         !stop_deadline_ns_.compare_exchange_weak(expected, deadline_ns)) {
  }
  budget_->Wake();
}

DaemonStats Router::stats() const {
  MutexLock lock(stats_mu_);
  DaemonStats stats = stats_;
  stats.send_buffer_bytes_now = budget_->bytes();
  return stats;
}

Status Router::Run() {
  budget_->RunsOnThisThread();
  std::vector<transport::Event> events;
  int64_t next_silence_check_ns = 0;
  int64_t farewell_ns = -1;
  bool has_more_to_do = false;
  while (true) {
    events.clear();
    const int poll_ms = farewell_ns >= 0 || stop_deadline_ns_ >= 0 ? 10 : kPollMs;
    EMLIO_RETURN_IF_ERROR(listener_->Poll(has_more_to_do ? 0 : poll_ms, &events));
    for (transport::Event& event : events) Handle(std::move(event));
    for (auto& task : gather_->TakeDone()) SendDone(std::move(task));
    RetryBacklogs();
    const int64_t now_ns = SystemClock().NowNs();
    if (now_ns >= next_silence_check_ns) {
      next_silence_check_ns = now_ns + kNsPerSecond;
      CheckSilence(now_ns);
      ForgetLingering(now_ns);
    }
    has_more_to_do = Schedule();
    if (now_ns >= next_tuning_ns_) TuneStreams(now_ns);
    if (stop_deadline_ns_ < 0) continue;
    if (farewell_ns < 0 && (sessions_.empty() || now_ns >= stop_deadline_ns_)) {
      all_ended_ = sessions_.empty();
      while (!sessions_.empty()) {
        EndSession(sessions_.begin()->first,
                   Unavailable(fmt::format("the daemon at {} is shutting down", endpoint_)));
      }
      farewell_ns = now_ns + (all_ended_ ? 0 : kFarewellNs);
    }
    if (farewell_ns >= 0 && now_ns >= farewell_ns) return OkStatus();
  }
}

void Router::Handle(transport::Event event) {
  if (event.kind == transport::Event::Kind::kLost) return OnLost(event.connection);
  if (event.kind != transport::Event::Kind::kMessage) return;
  const ConnectionId from = event.connection;
  const auto control = controls_.find(from);
  if (control != controls_.end()) control->second->last_heard_ns = SystemClock().NowNs();

  Result<wire::AnyMessage> message =
      wire::Decode({event.message.header.data(), event.message.header.size()});
  if (!message.ok()) {
    {
      MutexLock lock(stats_mu_);
      ++stats_.protocol_errors;
    }
    SendTo(from, wire::Error{0, message.status().code(), message.status().message()});
    return;
  }
  // A connection keeps its role.
  const auto* hello = std::get_if<wire::Hello>(&*message);
  const auto* join = std::get_if<wire::Join>(&*message);
  if (control == controls_.end()) {
    if (join != nullptr) return OnJoin(from, *join);
    if (hello != nullptr && data_.count(from) == 0) return OnHello(from, *hello);
    SendTo(from, wire::Error{0, Code::kProtocol,
                             data_.count(from) == 0
                                 ? "the first message of a connection must be Hello or Join"
                                 : "on a data connection a receiver sends nothing but Join"});
    return;
  }
  if (hello != nullptr || join != nullptr) {
    control->second->Send(wire::Error{
        0, Code::kProtocol, "a control connection says Hello once, and cannot become a stream"});
    return;
  }
  HandleControl(control->second.get(), *message);
}

void Router::HandleControl(ControlConnection* control, const wire::AnyMessage& message) {
  // Messages of a session that is gone, or of another connection's, are dropped: they crossed.
  const auto own_session = [&](wire::OpenId open_id) -> std::shared_ptr<Session> {
    const auto found = sessions_.find(open_id);
    if (found == sessions_.end() || found->second->control != control->connection()) return nullptr;
    return found->second;
  };
  const auto settle = [&](Session* session, const Status& status) {
    if (!status.ok()) return EndSession(session->open.open_id, status);
    FlushOutbox(session);
  };
  if (const auto* describe = std::get_if<wire::Describe>(&message)) {
    OnDescribe(control, *describe);
  } else if (const auto* page = std::get_if<wire::ManifestPage>(&message)) {
    const Status status = merged_.Add(control->connection(), *page);
    if (!status.ok()) control->Send(wire::Error{0, status.code(), status.message()});
  } else if (const auto* open = std::get_if<wire::Open>(&message)) {
    OnOpen(control, *open);
  } else if (const auto* grant = std::get_if<wire::Grant>(&message)) {
    if (auto session = own_session(grant->open_id)) {
      settle(session.get(), session->sender->OnGrant(*grant));
    }
  } else if (const auto* fill = std::get_if<wire::Fill>(&message)) {
    if (auto session = own_session(fill->open_id)) {
      settle(session.get(), session->sender->OnFill(*fill));
    }
  } else if (const auto* ping = std::get_if<wire::Ping>(&message)) {
    control->Send(wire::Pong{ping->nonce});
  } else if (const auto* close = std::get_if<wire::Close>(&message)) {
    if (own_session(close->open_id)) EndSession(close->open_id, OkStatus());
  } else if (const auto* error = std::get_if<wire::Error>(&message)) {
    LogWarning("receiver {} gave up: {}: {}", control->agent, CodeName(error->code),
               error->message);
    if (own_session(error->open_id)) EndSession(error->open_id, OkStatus());
  } else if (!std::holds_alternative<wire::Pong>(message)) {
    control->Send(
        wire::Error{0, Code::kProtocol, "a message that only daemons send came from a receiver"});
  }
}

void Router::OnHello(ConnectionId from, const wire::Hello& hello) {
  if (hello.min_version > wire::kProtocolVersion || hello.max_version < wire::kProtocolVersion) {
    SendTo(from,
           wire::Error{0, Code::kUnsupported,
                       fmt::format("this daemon speaks protocol version {}, the receiver {} "
                                   "to {}; install matching releases",
                                   wire::kProtocolVersion, hello.min_version, hello.max_version)});
    return;
  }
  auto& control = controls_[from];
  control = std::make_unique<ControlConnection>(listener_.get(), from);
  control->agent = hello.agent.empty() ? "without a name" : hello.agent;
  control->last_heard_ns = SystemClock().NowNs();
  wire::Welcome welcome;
  welcome.agent = "emlio/" EMLIO_VERSION_STRING;
  welcome.run_id = run_id_;
  for (const auto& [name, dataset] : datasets_) welcome.datasets.push_back(name);
  welcome.energy_port = options_.energy_port;
  welcome.boot_id = options_.boot_id;
  control->Send(welcome);
}

void Router::OnDescribe(ControlConnection* control, const wire::Describe& describe) {
  const auto found = datasets_.find(describe.dataset);
  if (found == datasets_.end()) {
    std::string names;
    for (const auto& [name, dataset] : datasets_) names += (names.empty() ? "" : ", ") + name;
    control->Send(wire::Error{
        0, Code::kNotFound,
        fmt::format("no data set '{}' at {}; there are: {}", describe.dataset, endpoint_, names)});
    return;
  }
  control->SendManifest(found->second);
}

void Router::OnOpen(ControlConnection* control, const wire::Open& open) {
  bool need_manifest = false;
  Result<std::shared_ptr<Session>> session = OpenSession(control, open, &need_manifest);
  if (need_manifest) {
    merged_.Expect(control->connection(), open.sources.front().manifest_digest);
    control->Send(wire::NeedManifest{open.open_id, open.sources.front().manifest_digest});
    return;
  }
  if (!session.ok()) {
    LogWarning("refused to open {} for {}: {}", open.dataset, control->agent,
               session.status().ToString());
    control->Send(wire::Error{open.open_id, session.status().code(), session.status().message()});
    return;
  }
  LogInfo("session {:016x}: {} rank {}/{} from epoch {} step {}, {} streams", open.open_id,
          open.dataset, open.rank, open.world_size, open.epoch, open.step, open.streams);
  sessions_[open.open_id] = *session;
  {
    MutexLock lock(stats_mu_);
    ++stats_.sessions_opened;
    stats_.sessions_now = sessions_.size();
  }
  wire::Opened opened;
  opened.open_id = open.open_id;
  opened.steps_per_epoch = (*session)->plan->steps_per_epoch();
  opened.plan_hash = (*session)->plan->hash();
  control->Send(opened);
}

Result<std::shared_ptr<Router::Session>> Router::OpenSession(ControlConnection* control,
                                                             const wire::Open& open,
                                                             bool* need_manifest) {
  if (stop_deadline_ns_ >= 0) {
    return Unavailable(fmt::format("the daemon at {} is shutting down", endpoint_));
  }
  if (open.open_id == 0 || sessions_.count(open.open_id) != 0) {
    return ProtocolError("Open needs an open_id that is not 0 and was not used before");
  }
  if (sessions_.size() >= options_.max_sessions) {
    return LimitExceeded(fmt::format("the daemon at {} has {} open sessions, its limit", endpoint_,
                                     sessions_.size()));
  }
  const auto found = datasets_.find(open.dataset);
  if (found == datasets_.end()) {
    return NotFound(fmt::format("no data set '{}' at {}", open.dataset, endpoint_));
  }
  const dataset::Dataset& dataset = *found->second;
  EMLIO_RETURN_IF_ERROR(CheckOpen(open));

  // The merged manifest: our own, or one that a receiver has sent before.
  const dataset::Manifest* manifest = nullptr;
  std::shared_ptr<const dataset::Manifest> held;
  const Hash128& digest = open.sources.front().manifest_digest;
  if (digest == dataset.manifest().digest()) {
    manifest = &dataset.manifest();
  } else {
    held = merged_.Find(digest);
    manifest = held.get();
  }
  if (manifest == nullptr) {
    *need_manifest = true;
    return InternalError("the merged manifest is not known");
  }

  auto local_shards = FindAssigned(open, *manifest, dataset.manifest());
  if (!local_shards.ok()) {
    return local_shards.status().WithContext(fmt::format("the daemon at {}", endpoint_));
  }
  EMLIO_ASSIGN_OR_RETURN(plan::Plan plan, MakePlan(open, *manifest));
  const bool compare = !open.job.empty() || open.plan_hash != Hash128{};
  if (compare && plan.hash() != open.plan_hash) {
    return PlanMismatch(
        fmt::format("the receiver's plan {} is not the daemon's {}; they run "
                    "different releases",
                    ToHex(open.plan_hash), ToHex(plan.hash())));
  }
  if (!open.job.empty()) {
    const auto job = jobs_.find({open.job, open.loader});
    if (job != jobs_.end() && job->second.first != plan.hash()) {
      return PlanMismatch(fmt::format(
          "rank {} of job '{}' asks loader '{}' for another plan than the ranks before it: data "
          "set, seed, shuffle, global batch and tail must agree; give loaders that are meant to "
          "differ different names",
          open.rank, open.job, open.loader));
    }
  }

  auto session =
      std::make_shared<Session>(send_window_bytes_, control->streams_in_use, options_.observer);
  session->open = open;
  session->control = control->connection();
  session->plan = std::make_shared<const plan::Plan>(std::move(plan));
  session->records = std::make_unique<LocalRecords>(found->second, *std::move(local_shards));
  session::SenderOptions sender_options;
  sender_options.max_chunk_bytes =
      std::clamp(open.max_chunk_bytes, kMinChunkBytes, options_.max_chunk_bytes);
  sender_options.first_chunk_bytes = options_.first_chunk_bytes;
  session->sender =
      std::make_unique<session::Sender>(open, session->plan, *session->records, sender_options);
  session->streams = std::vector<Stream>(open.streams);
  // In stored order other sessions may follow closely; single records in random order are not met
  // again before the epoch is over.
  session->let_go = dataset.is_larger_than_memory() &&
                    session->plan->spec().sources[0].shuffle == plan::Shuffle::kFull;
  if (!open.job.empty()) {
    auto& job = jobs_[{open.job, open.loader}];
    job.first = session->plan->hash();
    ++job.second;
  }
  return session;
}

void Router::OnJoin(ConnectionId from, const wire::Join& join) {
  const auto found = sessions_.find(join.open_id);
  if (found == sessions_.end()) {
    // Usual when a receiver has opened anew meanwhile; it drops what names an older opening.
    SendTo(from, wire::Error{join.open_id, Code::kNotFound, "Join of a session that is not open"});
    return;
  }
  Session* session = found->second.get();
  const Status status = session->sender->OnJoin(join);
  if (!status.ok()) return EndSession(join.open_id, status);
  // The connection may have served another stream, the stream another connection.
  Unbind(from);
  Stream& stream = session->streams[join.stream];
  if (stream.connection != 0) data_.erase(stream.connection);
  stream.Bind(from);
  data_[from] = {join.open_id, join.stream};
}

void Router::Unbind(ConnectionId data_connection) {
  const auto data = data_.find(data_connection);
  if (data == data_.end()) return;
  const auto [open_id, stream_number] = data->second;
  data_.erase(data);
  const auto found = sessions_.find(open_id);
  if (found != sessions_.end()) found->second->streams[stream_number].Bind(0);
}

void Router::OnLost(ConnectionId connection) {
  if (controls_.count(connection) != 0) return DropControl(connection);
  Unbind(connection);
}

void Router::DropControl(ConnectionId connection) {
  controls_.erase(connection);
  merged_.Forget(connection);
  std::vector<wire::OpenId> orphans;
  for (const auto& [open_id, session] : sessions_) {
    if (session->control == connection) orphans.push_back(open_id);
  }
  for (wire::OpenId open_id : orphans) EndSession(open_id, OkStatus());
}

void Router::CheckSilence(int64_t now_ns) {
  std::vector<ConnectionId> silent;
  for (const auto& [connection, control] : controls_) {
    if (now_ns - control->last_heard_ns > options_.peer_silence_ms * kNsPerMs) {
      silent.push_back(connection);
    }
  }
  for (ConnectionId connection : silent) {
    LogWarning("receiver {} was silent for {} s and is given up", controls_[connection]->agent,
               options_.peer_silence_ms / 1000);
    DropControl(connection);
    listener_->Forget(connection);
  }
}

// A connection whose session has ended and that is not read holds a chunk of the send buffer: it
// gets some time, and is given up then, unless it serves another session.
void Router::ForgetLingering(int64_t now_ns) {
  for (auto one = lingering_.begin(); one != lingering_.end();) {
    const auto& [connection, lingering] = *one;
    const bool has_sent = *lingering.unsent == 0;
    const bool is_over = has_sent || data_.count(connection) != 0;
    if (!is_over && now_ns < lingering.deadline_ns) {
      ++one;
      continue;
    }
    if (!is_over) listener_->Forget(connection);
    one = lingering_.erase(one);
  }
}

// Ends a session; unless the reason is ok, its receiver is told.
void Router::EndSession(wire::OpenId open_id, const Status& reason) {
  const auto found = sessions_.find(open_id);
  if (found == sessions_.end()) return;
  const std::shared_ptr<Session> session = found->second;
  sessions_.erase(found);
  session->epochs.EndAll(false);
  for (Stream& stream : session->streams) {
    stream.DropBacklog();
    if (stream.connection == 0) continue;
    data_.erase(stream.connection);
    if (*stream.unsent > 0) {
      lingering_[stream.connection] = {stream.unsent,
                                       SystemClock().NowNs() + options_.peer_silence_ms * kNsPerMs};
    }
  }
  if (!session->open.job.empty()) {
    const auto job = jobs_.find({session->open.job, session->open.loader});
    if (job != jobs_.end() && --job->second.second == 0) jobs_.erase(job);
  }
  {
    MutexLock lock(stats_mu_);
    stats_.sessions_now = sessions_.size();
    if (reason.code() == Code::kProtocol) ++stats_.protocol_errors;
  }
  if (reason.ok()) {
    LogInfo("session {:016x} closed", open_id);
    return;
  }
  LogWarning("session {:016x} ends: {}", open_id, reason.ToString());
  const auto control = controls_.find(session->control);
  if (control != controls_.end()) {
    control->second->Send(wire::Error{open_id, reason.code(), reason.message()});
  }
}

// The session whose turn it is, and moves the turn on. REQUIRES: there is one.
std::shared_ptr<Router::Session> Router::NextSession(wire::OpenId* turn) const {
  auto found = sessions_.lower_bound(*turn);
  if (found == sessions_.end()) found = sessions_.begin();
  *turn = found->first + 1;
  return found->second;
}

// Gives every session in turn one chunk to gather, until none can use another. Those whose records
// have to be searched for in the plan come last and share a moment of their own, so that however
// many they are they delay nobody. True when some have to search on.
bool Router::Schedule() {
  using NextResult = session::Sender::NextResult;
  const size_t active_sessions =
      std::count_if(sessions_.begin(), sessions_.end(),
                    [](const auto& entry) { return *entry.second->held > 0; });
  const int64_t schedule_until_ns = SystemClock().NowNs() + kScheduleNs;
  size_t searching = 0;
  for (bool progress = true; progress;) {
    if (SystemClock().NowNs() >= schedule_until_ns) return true;
    progress = false;
    searching = 0;
    for (size_t i = sessions_.size(); i > 0; --i) {
      const std::shared_ptr<Session> session = NextSession(&next_turn_);
      if (!session->is_searching) {
        const NextResult result = ScheduleOne(session, active_sessions);
        progress = result == NextResult::kChunk || progress;
        session->is_searching = result == NextResult::kBusy;
        FlushOutbox(session.get());
      }
      searching += session->is_searching ? 1 : 0;
    }
  }
  if (searching == 0) return false;
  const int64_t search_until_ns = SystemClock().NowNs() + kSearchNs;
  for (size_t i = sessions_.size(); i > 0 && searching > 0; --i) {
    const std::shared_ptr<Session> session = NextSession(&next_search_);
    if (!session->is_searching) continue;
    session->is_searching = ScheduleOne(session, active_sessions) == NextResult::kBusy;
    FlushOutbox(session.get());
    searching -= session->is_searching ? 0 : 1;
    if (SystemClock().NowNs() >= search_until_ns) break;
  }
  return searching > 0;
}

// Whether the session may hold one more chunk. The first half of the send buffer is shared out
// among the active sessions, as if there were one more; the second half keeps one chunk for each,
// so that receivers that do not read hold up nobody else.
bool Router::MayGather(const Session& session, size_t active_sessions) const {
  const uint64_t total = budget_->bytes() + gathering_bytes_;
  const uint64_t held = *session.held;
  if (held == 0) return total < options_.send_buffer_bytes;
  const uint64_t shared = options_.send_buffer_bytes / 2;
  return total < shared && held < shared / (active_sessions + 1);
}

session::Sender::NextResult Router::ScheduleOne(const std::shared_ptr<Session>& session,
                                                size_t active_sessions) {
  using NextResult = session::Sender::NextResult;
  // The least busy one of the streams in use, so that all these are kept full.
  int best = -1;
  int best_busy = kMaxUnsentPerStream;
  uint32_t left = session->tuner.in_use();
  for (size_t i = 0; i < session->streams.size() && left > 0; ++i) {
    const Stream& stream = session->streams[i];
    if (stream.connection == 0) continue;
    --left;
    const int busy = stream.busy();
    if (busy < best_busy) {
      best = static_cast<int>(i);
      best_busy = busy;
    }
  }
  if (best < 0 || !MayGather(*session, active_sessions)) return NextResult::kBlocked;
  session->sender->SetReadAhead(
      std::min(options_.read_ahead_bytes, options_.total_read_ahead_bytes / sessions_.size()));
  auto task = std::make_unique<GatherTask>();
  const NextResult result = session->sender->Next(&task->job);
  if (read_ahead_ != nullptr) ReadAheadOf(session.get());
  if (result != NextResult::kChunk) return result;
  session->epochs.At({EpochInfo::Side::kDaemon, session->open.dataset, task->job.header.epoch,
                      session->open.rank});
  task->session = session;
  task->stream = static_cast<uint32_t>(best);
  task->dataset = session->records->dataset();
  task->let_go = session->let_go;
  for (const plan::PlannedRecord& record : task->job.records) {
    task->local_shards.push_back(session->records->local_shard(record.shard));
  }
  ++session->streams[best].gathering;
  gathering_bytes_ += task->job.payload_bytes;
  *session->held += task->job.payload_bytes;
  if (MaySendFiles(*session, task->job) && FindInMemory(task.get(), &gather_scratch_)) {
    SendDone(std::move(task));
  } else {
    gather_->Submit(std::move(task));
  }
  return NextResult::kChunk;
}

// Whether a chunk may go from the page cache to the network without a copy. What is let go of has
// to be copied before, and what is verified is read in any case. What turns out to be unreadable
// while it is sent arrives with a wrong checksum, and is asked for again to be verified.
bool Router::MaySendFiles(const Session& session, const session::ChunkJob& job) const {
  return listener_->sends_files() && !session.let_go && !job.verify &&
         job.payload_bytes >= kMinSentRecordBytes * job.records.size();
}

// Lets each session decide how many of its streams it uses, by what the kernel says of them. Where
// there is no network between it uses all.
void Router::TuneStreams(int64_t now_ns) {
  for (auto& [open_id, session] : sessions_) {
    if (now_ns < session->tuner.next_update_ns()) continue;
    link_scratch_.clear();
    for (const Stream& stream : session->streams) {
      if (stream.connection == 0) continue;
      const auto state = listener_->StateOf(stream.connection);
      if (!state.has_value()) continue;
      link_scratch_.push_back({state->acked_bytes, state->busy_us, state->window_limited_us,
                               state->round_trip_us, state->min_round_trip_us});
    }
    const uint32_t before = session->tuner.in_use();
    session->tuner.Update(now_ns, link_scratch_);
    if (session->tuner.in_use() == before) continue;
    LogInfo("session {:016x}: {} of {} streams are used", open_id,
            std::min<size_t>(session->tuner.in_use(), link_scratch_.size()), link_scratch_.size());
    if (const auto control = controls_.find(session->control); control != controls_.end()) {
      control->second->streams_in_use = session->tuner.in_use();
    }
  }
  next_tuning_ns_ =
      now_ns + std::max<int64_t>(kTuningNs, kTuningNsASession * std::ssize(sessions_));
}

void Router::ReadAheadOf(Session* session) {
  // Where all seems to be in memory, only every so many chunks a look whether it still is.
  constexpr uint32_t kLookEvery = 16;
  const bool seems_in_memory = session->records->dataset()->seems_in_memory();
  if (seems_in_memory && ++session->chunks_in_memory % kLookEvery != 0) return;
  ahead_scratch_.clear();
  session->sender->TakeReadAhead(&ahead_scratch_);
  // What came since the last look is a sample more than large enough.
  constexpr size_t kSample = 4096;
  if (seems_in_memory && ahead_scratch_.size() > kSample) {
    ahead_scratch_.erase(ahead_scratch_.begin(), ahead_scratch_.end() - kSample);
  }
  if (ahead_scratch_.empty()) return;
  std::vector<dataset::RecordId> records;
  records.reserve(ahead_scratch_.size());
  for (const plan::PlannedRecord& record : ahead_scratch_) {
    records.push_back({session->records->local_shard(record.shard), record.record});
  }
  read_ahead_->Submit(session->records->dataset(), std::move(records));
}

void Router::SendDone(std::unique_ptr<GatherTask> task) {
  auto* session = static_cast<Session*>(task->session.get());
  --session->streams[task->stream].gathering;
  gathering_bytes_ -= task->job.payload_bytes;
  *session->held -= task->job.payload_bytes;
  const auto found = sessions_.find(session->open.open_id);
  if (found == sessions_.end() || found->second.get() != session) return;  // ended meanwhile

  if (!task->status.ok()) {
    if (task->bad.reason.ok()) return EndSession(session->open.open_id, task->status);
    CountBadRecord(task->status);
    session->sender->OnBadRecord(task->job, task->bad.position, task->bad.reason);
    return FlushOutbox(session);
  }

  uint32_t target = task->stream;
  if (session->streams[target].connection == 0) {
    // Its connection was lost while the chunk was read: another stream takes it.
    for (target = 0; target < session->streams.size(); ++target) {
      if (session->streams[target].connection != 0) break;
    }
    if (target == session->streams.size()) {
      // The session lives as long as its control connection: a stream may be joined again.
      return session->sender->TakeBack(task->job);
    }
  }
  Stream& stream = session->streams[target];
  wire::Chunk& header = task->job.header;
  session->sender->Assign(target, &task->job);
  std::vector<uint8_t> encoded;
  wire::EncodeChunk(header, &encoded);

  struct Sent {
    std::shared_ptr<SendBudget> budget;
    std::shared_ptr<std::atomic<int>> unsent;
    std::shared_ptr<std::atomic<uint64_t>> held;
    uint64_t bytes;
    std::shared_ptr<const dataset::Dataset> dataset;  // whose descriptors the pieces are
  };
  transport::Message message;
  message.header = Buffer::Of(std::move(encoded));
  message.payload = std::move(task->payload);
  message.pieces = std::move(task->pieces);
  // Pieces of files are not in a buffer of ours.
  const uint64_t held_bytes = message.payload.size();
  message.on_sent.function = [](void* context) {
    const std::unique_ptr<Sent> sent(static_cast<Sent*>(context));
    --*sent->unsent;
    *sent->held -= sent->bytes;
    sent->budget->Release(sent->bytes);
  };
  message.on_sent.context =
      new Sent{budget_, stream.unsent, session->held, held_bytes, task->dataset};
  ++*stream.unsent;
  *session->held += held_bytes;
  budget_->Add(held_bytes);
  {
    MutexLock lock(stats_mu_);
    ++stats_.chunks_sent;
    stats_.records_sent += header.slots.size();
    stats_.payload_bytes_sent += task->job.payload_bytes;
    stats_.records_resent += session->sender->records_resent() - session->resent_counted;
    session->resent_counted = session->sender->records_resent();
  }
  session->epochs.Add(header.epoch, header.slots.size(), task->job.payload_bytes);
  stream.backlog.push_back(std::move(message));
  SendBacklog(&stream);
  FlushOutbox(session);
}

void Router::CountBadRecord(const Status& what) {
  constexpr uint64_t kMaxWarnings = 20;
  uint64_t count = 0;
  {
    MutexLock lock(stats_mu_);
    count = ++stats_.records_skipped;
  }
  if (count <= kMaxWarnings) LogWarning("a record is left out: {}", what.ToString());
}

void Router::SendBacklog(Stream* stream) {
  while (!stream->backlog.empty()) {
    switch (listener_->Send(stream->connection, &stream->backlog.front())) {
      case transport::SendResult::kSent:
        stream->backlog.pop_front();
        break;
      case transport::SendResult::kFull:
        return;
      case transport::SendResult::kGone:
        // The event follows, and ends or moves the stream.
        stream->DropBacklog();
        return;
    }
  }
}

void Router::RetryBacklogs() {
  for (auto& [open_id, session] : sessions_) {
    for (Stream& stream : session->streams) SendBacklog(&stream);
  }
  std::vector<ConnectionId> overfull;
  for (auto& [connection, control] : controls_) {
    control->SendBacklog();
    if (control->is_overfull()) overfull.push_back(connection);
  }
  for (ConnectionId connection : overfull) {
    LogWarning("receiver {} asks without reading the answers and is given up",
               controls_[connection]->agent);
    DropControl(connection);
    listener_->Forget(connection);
  }
}

// The control messages that the session's sender has for its receiver.
void Router::FlushOutbox(Session* session) {
  std::vector<wire::AnyMessage> messages = session->sender->TakeOutbox();
  if (session->sender->epochs_ended() > session->epochs_counted) {
    MutexLock lock(stats_mu_);
    stats_.epochs_ended += session->sender->epochs_ended() - session->epochs_counted;
    session->epochs_counted = session->sender->epochs_ended();
    session->epochs.EndBefore(session->open.epoch + session->epochs_counted);
  }
  if (messages.empty()) return;
  const auto control = controls_.find(session->control);
  if (control == controls_.end()) return;
  for (wire::AnyMessage& message : messages) control->second->Send(message);
}

// Best effort, for connections that have no role.
void Router::SendTo(ConnectionId to, const wire::AnyMessage& message) {
  transport::Message out;
  out.header = Buffer::Of(wire::Encode(message));
  (void)listener_->Send(to, &out);
}

}  // namespace emlio::daemon
