// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/loader/loader.h"

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "emlio/base/bounded_queue.h"
#include "emlio/base/clock.h"
#include "emlio/base/crc32c.h"
#include "emlio/base/log.h"
#include "emlio/base/mutex.h"
#include "emlio/base/system_limits.h"
#include "emlio/base/thread.h"
#include "emlio/daemon/daemon.h"
#include "emlio/loader/batch.h"
#include "emlio/loader/make_plan.h"
#include "emlio/loader/source_client.h"
#include "emlio/loader/source_list.h"
#include "emlio/session/bitmap.h"
#include "emlio/session/stream_tuner.h"
#include "fmt/format.h"

namespace emlio::loader {
namespace {

constexpr auto kWaitSlice = std::chrono::milliseconds(100);
// Chunks between the receiving threads and the workers. Credit bounds their bytes.
constexpr size_t kWorkQueueChunks = 4096;
constexpr const char* kLocalName = "local";
constexpr uint32_t kLocalStreams = 4;
constexpr int64_t kMaxTimeoutMs = std::numeric_limits<int>::max();  // 24 days, and what poll takes

Status CheckOptions(const LoaderOptions& options) {
  EMLIO_RETURN_IF_ERROR(CheckPlanOptions(options));
  if (options.step_stride == 0 || options.step_stride > wire::kMaxStride) {
    return InvalidArgument(fmt::format("step_stride is {}; 1 to {} are possible",
                                       options.step_stride, wire::kMaxStride));
  }
  if (options.streams > wire::kMaxStreams) {
    return InvalidArgument(
        fmt::format("streams is {}; 1 to {} are possible", options.streams, wire::kMaxStreams));
  }
  if (options.prefetch_bytes > 0 && options.prefetch_bytes < (uint64_t{1} << 20)) {
    return InvalidArgument("prefetch_mb must be at least 1 (MiB)");
  }
  if (options.max_record_bytes == 0 || options.max_record_bytes > wire::kMaxRecordBytes) {
    return InvalidArgument(fmt::format("max_record_bytes is {}; 1 to {} are possible",
                                       options.max_record_bytes, wire::kMaxRecordBytes));
  }
  if (options.timeout_ms <= 0 || options.timeout_ms > kMaxTimeoutMs) {
    return InvalidArgument(fmt::format("the timeout is {} ms; 1 to {} are possible",
                                       options.timeout_ms, kMaxTimeoutMs));
  }
  if (options.ready_window == 0 || options.ready_window > kMaxReadyWindow) {
    return InvalidArgument(fmt::format("ready_window is {} steps; 1 to {} are possible",
                                       options.ready_window, kMaxReadyWindow));
  }
  EMLIO_RETURN_IF_ERROR(CheckThreadCount("workers", options.worker_threads));
  std::set<std::string> names;
  for (const example::FeatureSpec& feature : options.features) {
    if (!names.insert(feature.name).second) {
      return InvalidArgument(fmt::format("feature '{}' is asked for twice", feature.name));
    }
  }
  return OkStatus();
}

wire::OpenId RandomOpenId() {
  std::random_device device;  // 5 KB: thread-local, a Python extension would not load
  wire::OpenId id = 0;
  while (id == 0) id = (uint64_t{device()} << 32) | device();
  return id;
}

}  // namespace

std::string_view OrderName(Order order) { return order == Order::kStep ? "step" : "ready"; }

Result<Order> ParseOrder(std::string_view name) {
  for (const Order order : {Order::kStep, Order::kReady}) {
    if (name == OrderName(order)) return order;
  }
  return InvalidArgument(fmt::format("unknown order '{}'; there are step and ready", name));
}

class Loader::Impl : public SourceClient::Owner {
 public:
  explicit Impl(LoaderOptions options)
      : options_(std::move(options)),
        opened_at_ns_(SystemClock().NowNs()),
        epochs_(options_.observer),
        work_(kWorkQueueChunks) {}

  ~Impl() override {
    {
      // From here on no callback touches sources_.
      MutexLock lock(mu_);
      closing_ = true;
    }
    work_.Close();
    workers_.clear();
    sources_.clear();
  }

  Status Open(InterruptCheck interrupt_check) {
    EMLIO_RETURN_IF_ERROR(CheckOptions(options_));
    EMLIO_ASSIGN_OR_RETURN(const SourceList list, ParseSources(options_.sources));
    EMLIO_RETURN_IF_ERROR(Connect(list, interrupt_check));
    EMLIO_RETURN_IF_ERROR(AwaitManifests(interrupt_check));
    TellOfEnergyAgents();
    EMLIO_RETURN_IF_ERROR(MakePlan());
    AssignShards();
    return StartWorkers();
  }

  const dataset::Manifest& manifest() const { return *manifest_; }
  const plan::Plan& plan() const { return *plan_; }

  Status StartPass(Cursor at, InterruptCheck interrupt_check) EMLIO_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (!failure_.ok()) return failure_;
    if (at.step > plan_->steps_per_epoch()) {
      return InvalidArgument(
          fmt::format("step {} of an epoch of {}", at.step, plan_->steps_per_epoch()));
    }
    EMLIO_RETURN_IF_ERROR(CheckHandedOut(at));
    if (at.step == plan_->steps_per_epoch()) at = {at.epoch + 1, 0};
    if (started_at_ns_ == 0) started_at_ns_ = SystemClock().NowNs();
    pass_epoch_ = at.epoch;
    epochs_.EndAll(false);  // what a pass before this one left unread
    epochs_.At({EpochInfo::Side::kLoader, dataset_name(), at.epoch, options_.rank});
    const bool is_open =
        opening_ > 0 && pass_error_.ok() && (end_epoch_ == 0 || at.epoch < end_epoch_);
    if (is_open && at == CursorLocked()) return OkStatus();

    // Everything that is on its way belongs to an older opening from here on.
    ++opening_;
    ready_.clear();
    pass_error_ = OkStatus();
    awaiting_opened_ = 0;
    const uint64_t epochs = options_.epochs > at.epoch ? options_.epochs - at.epoch : uint64_t{1};
    end_epoch_ = at.epoch + epochs;
    std::vector<wire::OpenId> open_ids;
    for (size_t i = 0; i < sources_.size(); ++i) {
      open_ids.push_back(has_records_[i] ? RandomOpenId() : 0);
    }
    receiver_->Begin(at.epoch, at.step, epochs, open_ids, at.handed_out);
    for (size_t i = 0; i < sources_.size(); ++i) {
      if (!has_records_[i]) continue;
      ++awaiting_opened_;
      sources_[i]->Open(MakeOpen(i), manifest_);
    }
    // Refusals (a plan that other ranks do not share, say) belong here, not to the first batch.
    progress_ns_ = SystemClock().NowNs();
    while (awaiting_opened_ > 0 && failure_.ok() && pass_error_.ok()) {
      if (SystemClock().NowNs() - progress_ns_ > options_.timeout_ms * kNsPerMs) {
        return TimeoutError(
            fmt::format("no answer to Open within {} s", options_.timeout_ms / 1e3));
      }
      changed_.WaitUntil(mu_, std::chrono::steady_clock::now() + kWaitSlice);
      if (IsInterrupted(interrupt_check)) return Cancelled("interrupted while opening sessions");
    }
    return failure_.ok() ? pass_error_ : failure_;
  }

  Result<std::shared_ptr<const Batch>> Next(InterruptCheck interrupt_check) EMLIO_EXCLUDES(mu_) {
    const int64_t begin_ns = SystemClock().NowNs();
    bool waited = false;
    MutexLock lock(mu_);
    auto batch = NextLocked(interrupt_check, begin_ns, &waited);
    if (waited) stats_.wait_ns += SystemClock().NowNs() - begin_ns;
    return batch;
  }

  Cursor cursor() const EMLIO_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return CursorLocked();
  }

  void SetBadRecords(uint64_t bad_records) EMLIO_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    stats_.bad_records = bad_records;
  }

  LoaderStats stats() const EMLIO_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    LoaderStats stats = stats_;
    const session::ReceiverStats& received = receiver_->stats();
    stats.chunks = received.chunks;
    stats.duplicate_records = received.duplicate_records;
    stats.refilled_records = received.refilled_records;
    stats.max_ready_bytes = received.max_waiting_bytes;
    stats.ready_bytes_now = received.waiting_bytes;
    stats.ready_batches_now = ready_.size();
    return stats;
  }

 private:
  struct Work {
    size_t source = 0;
    transport::Message message;
  };

  Cursor CursorLocked() const EMLIO_REQUIRES(mu_) {
    return {receiver_->epoch(), receiver_->step(), receiver_->handed_out()};
  }

  Status CheckHandedOut(const Cursor& at) const EMLIO_REQUIRES(mu_) {
    uint64_t before = at.step;
    for (const uint64_t step : at.handed_out) {
      if (step <= before || step >= plan_->steps_per_epoch() ||
          (step - at.step) % options_.step_stride != 0) {
        return InvalidArgument(
            fmt::format("step {} cannot have been handed out beside step {}: the steps of a "
                        "position ascend behind the first one that was not, in an epoch of {}",
                        step, before, plan_->steps_per_epoch()));
      }
      before = step;
    }
    return receiver_->CheckHandedOut(at.step, at.handed_out);
  }

  Result<std::shared_ptr<const Batch>> NextLocked(bool (*interrupt_check)(), int64_t begin_ns,
                                                  bool* waited) EMLIO_REQUIRES(mu_) {
    if (opening_ == 0) return InvalidArgument("StartPass comes before Next");
    // Waiting for the consumer is not a lack of progress.
    progress_ns_ = std::max(progress_ns_, begin_ns);
    while (true) {
      if (receiver_->epoch() != pass_epoch_) {
        epochs_.EndAll(true);
        return std::shared_ptr<const Batch>();
      }
      // The lowest step first: nothing that was handed out is left in here.
      auto found = ready_.begin();
      if (found != ready_.end() && receiver_->MayHandOut(found->first.first, found->first.second)) {
        if (!found->second.ok()) {
          pass_error_ = found->second.status();
          return pass_error_;
        }
        std::shared_ptr<const Batch> batch = *found->second;
        if (Status status = CountBad(*batch); !status.ok()) {
          pass_error_ = std::move(status);
          return pass_error_;
        }
        ready_.erase(found);
        HandOut(*batch);
        return batch;
      }
      if (!failure_.ok() || !pass_error_.ok()) {
        return failure_.ok() ? pass_error_ : failure_;
      }
      const int64_t now_ns = SystemClock().NowNs();
      if (now_ns - progress_ns_ > options_.timeout_ms * kNsPerMs) {
        return TimeoutError(fmt::format(
            "epoch {} step {}: nothing came for {} s although the daemons answer; is their storage "
            "stuck?",
            receiver_->epoch(), receiver_->step(), options_.timeout_ms / 1e3));
      }
      *waited = true;
      changed_.WaitUntil(mu_, std::chrono::steady_clock::now() + kWaitSlice);
      if (IsInterrupted(interrupt_check)) {
        return Cancelled("interrupted while waiting for a batch");
      }
    }
  }

  // Records that are bad where they are stored, within what the user allows.
  Status CountBad(const Batch& batch) EMLIO_REQUIRES(mu_) {
    if (batch.bad_records().empty()) return OkStatus();
    constexpr uint64_t kMaxWarnings = 20;
    if (stats_.bad_records + batch.bad_records().size() > options_.max_bad_records) {
      return batch.bad_records().back().reason.WithContext(
          fmt::format("epoch {} step {}: more than {} bad records (max_bad_records), the last one",
                      batch.epoch(), batch.step(), options_.max_bad_records));
    }
    for (const Batch::BadRecord& bad : batch.bad_records()) {
      if (++stats_.bad_records <= kMaxWarnings) {
        LogWarning("epoch {} step {}: left out {}: {}", batch.epoch(), batch.step(),
                   CodeName(bad.reason.code()), bad.reason.message());
      }
      ++stats_.bad_records_of_shard[manifest_->shards()[plan_->Locate(bad.index).shard].name];
    }
    return OkStatus();
  }

  Status Connect(const SourceList& list, InterruptCheck interrupt_check) {
    transport::TransportOptions transport_options;
    transport_options.max_frame_bytes =
        std::max(wire::kMaxHeaderBytes, wire::kMaxChunkPayloadBytes);
    SourceClientOptions client_options;
    client_options.connect_timeout_ms = options_.timeout_ms;
    client_options.peer_silence_ms = options_.peer_silence_ms;
    sources_.reserve(list.remote.size() + 1);  // callbacks may come while it grows
    if (!list.local_patterns.empty()) {
      dataset::DatasetOptions dataset_options;
      dataset_options.name = kLocalName;
      dataset_options.patterns = list.local_patterns;
      dataset_options.max_record_bytes = options_.max_record_bytes;
      dataset_options.index_directory = options_.index_directory;
      dataset_options.on_bad_shard = options_.on_bad_shard;
      dataset_options.progress = options_.index_progress;
      dataset_options.is_interrupted = interrupt_check;
      EMLIO_ASSIGN_OR_RETURN(std::shared_ptr<const dataset::Dataset> dataset,
                             dataset::Dataset::Open(std::move(dataset_options)));
      transport::InprocPair pair = transport::MakeInproc(transport_options);
      EMLIO_ASSIGN_OR_RETURN(local_daemon_, daemon::Daemon::StartOn(std::move(pair.listener),
                                                                    {std::move(dataset)}, {}));
      client_options.endpoint = "inproc://local";
      client_options.dataset = kLocalName;
      // A stream has one chunk on its way: while it is checked here, others are gathered.
      client_options.streams = kLocalStreams;
      EMLIO_RETURN_IF_ERROR(AddSource(std::move(pair.dialer), client_options));
    }
    for (const SourceList::Remote& remote : list.remote) {
      client_options.endpoint = remote.endpoint;
      client_options.dataset = remote.dataset;
      client_options.streams = options_.streams;
      client_options.sharers = options_.step_stride;
      EMLIO_ASSIGN_OR_RETURN(auto dialer, transport::DialZmq(transport_options));
      EMLIO_RETURN_IF_ERROR(AddSource(std::move(dialer), client_options));
    }
    return OkStatus();
  }

  Status AddSource(std::unique_ptr<transport::Dialer> dialer, const SourceClientOptions& options) {
    sources_.push_back(
        std::make_unique<SourceClient>(sources_.size(), std::move(dialer), options, this));
    streams_.push_back(options.streams > 0 ? options.streams : session::kMaxAutoStreams);
    return sources_.back()->Start();
  }

  Status AwaitManifests(InterruptCheck interrupt_check) EMLIO_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    const int64_t deadline_ns = opened_at_ns_ + options_.timeout_ms * kNsPerMs;
    while (answered_.size() < sources_.size() && failure_.ok()) {
      if (SystemClock().NowNs() > deadline_ns) {
        std::string silent;
        for (size_t i = 0; i < sources_.size(); ++i) {
          if (answered_.contains(i)) continue;
          silent += (silent.empty() ? "" : ", ") + sources_[i]->name();
        }
        return TimeoutError(fmt::format("{} of {} sources did not answer within {} s: {}",
                                        sources_.size() - answered_.size(), sources_.size(),
                                        options_.timeout_ms / 1e3, silent));
      }
      changed_.WaitUntil(mu_, std::chrono::steady_clock::now() + kWaitSlice);
      if (IsInterrupted(interrupt_check)) return Cancelled("interrupted while connecting");
    }
    return failure_;
  }

  void TellOfEnergyAgents() const {
    if (options_.observer == nullptr) return;
    for (const auto& source : sources_) {
      // What this process reads itself is used on this host, and whoever measures it has it.
      const bool is_local = local_daemon_ != nullptr && source == sources_.front();
      if (const std::string agent = source->energy_agent(); !agent.empty()) {
        options_.observer->OnEnergyAgent(agent);
      } else if (!is_local) {
        options_.observer->OnUnmeasuredPeer(source->endpoint(), source->boot_id());
      }
    }
  }

  std::string_view dataset_name() const {
    const std::string_view name = sources_.front()->name();
    return name.substr(name.rfind('/') + 1);
  }

  // Asks the user's check, now and then, whether a wait shall end. Lets go of the lock meanwhile.
  bool IsInterrupted(InterruptCheck interrupt_check) EMLIO_REQUIRES(mu_) {
    if (interrupt_check == nullptr) return false;
    const int64_t now_ns = SystemClock().NowNs();
    if (now_ns - last_interrupt_check_ns_ < 50 * kNsPerMs) return false;
    last_interrupt_check_ns_ = now_ns;
    mu_.Unlock();
    const bool interrupted = interrupt_check();
    mu_.Lock();
    return interrupted;
  }

  Status MakePlan() {
    std::vector<dataset::Manifest> manifests;
    for (const auto& source : sources_) manifests.push_back(source->manifest());
    EMLIO_ASSIGN_OR_RETURN(dataset::Manifest merged, dataset::Manifest::Merge(manifests));
    if (merged.max_record_bytes() > options_.max_record_bytes) {
      return LimitExceeded(fmt::format(
          "the data set holds a record of {} bytes, more than max_record_mb allows ({} bytes)",
          merged.max_record_bytes(), options_.max_record_bytes));
    }
    manifest_ = std::make_shared<const dataset::Manifest>(std::move(merged));
    NoteUnreadable();
    EMLIO_ASSIGN_OR_RETURN(plan::Plan plan, loader::MakePlan(options_, *manifest_));
    plan_ = std::make_shared<const plan::Plan>(std::move(plan));
    return OkStatus();
  }

  // What daemons leave out is said here too: training data are missing.
  void NoteUnreadable() EMLIO_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    auto& of_shard = stats_.unreadable_bytes_of_shard;
    for (const dataset::ShardInfo& shard : manifest_->shards()) {
      if (shard.unreadable_bytes > 0) of_shard[shard.name] = shard.unreadable_bytes;
    }
    if (of_shard.empty()) return;
    LogWarning("{} of {} shards are damaged and {} bytes of them are left out, for example of {}",
               of_shard.size(), manifest_->shards().size(), manifest_->unreadable_bytes(),
               of_shard.begin()->first);
  }

  static uint64_t PartOf(uint64_t bytes, double share) {
    return std::max<uint64_t>(1, static_cast<uint64_t>(static_cast<double>(bytes) * share));
  }
  uint64_t LeastPrefetchBytes() const {
    if (options_.prefetch_bytes > 0) return options_.prefetch_bytes;
    return kLeastAutoPrefetchBytes / options_.step_stride;
  }
  uint64_t MostPrefetchBytes() const {
    if (options_.prefetch_bytes > 0) return options_.prefetch_bytes;
    const uint64_t most = std::min(kMostAutoPrefetchBytes, UsableMemoryBytes() / 8);
    return std::max(most / options_.step_stride, LeastPrefetchBytes());
  }

  // Every shard is read from the first source that holds it. A source gets a share of the prefetch
  // budget after the bytes that it sends.
  void AssignShards() EMLIO_EXCLUDES(mu_) {
    const auto& shards = manifest_->shards();
    std::vector<session::ReceiverSource> receiver_sources(sources_.size());
    std::vector<uint64_t> bytes(sources_.size(), 0);
    std::vector<uint64_t> records(sources_.size(), 0);
    for (size_t s = 0; s < shards.size(); ++s) {
      for (size_t i = 0; i < sources_.size(); ++i) {
        if (sources_[i]->manifest().Find(shards[s].name) < 0) continue;
        session::SetBit(&receiver_sources[i].assigned, s);
        bytes[i] += shards[s].payload_bytes + wire::kRecordOverheadBytes * shards[s].records;
        records[i] += shards[s].records;
        break;
      }
    }
    uint64_t total = 0;
    for (uint64_t b : bytes) total += b;
    for (size_t i = 0; i < sources_.size(); ++i) {
      if (sources_.size() == 1) receiver_sources[i].assigned.clear();
      const double share = total == 0 ? 1.0 : static_cast<double>(bytes[i]) / total;
      prefetch_.push_back(
          {PartOf(LeastPrefetchBytes(), share), PartOf(MostPrefetchBytes(), share)});
      receiver_sources[i].prefetch_bytes = prefetch_[i].least_bytes;
      receiver_sources[i].streams = streams_[i];
      has_records_.push_back(records[i] > 0);
    }
    session::ReceiverOptions receiver_options;
    receiver_options.rank = options_.rank;
    receiver_options.world_size = options_.world_size;
    receiver_options.max_record_bytes = options_.max_record_bytes;
    receiver_options.stride = options_.step_stride;
    if (options_.order == Order::kReady) {
      // So that a position can always be named in Open (see Receiver::CheckHandedOut), even when
      // the windows of several processes have moved apart.
      constexpr uint64_t kMaxWindowRecords = uint64_t{1} << 20;
      const uint64_t slots = plan_->Share(0, options_.rank, options_.world_size).slots;
      receiver_options.window_steps =
          std::clamp<uint64_t>(kMaxWindowRecords / slots, 1, options_.ready_window);
    }
    MutexLock lock(mu_);
    receiver_ =
        std::make_unique<session::Receiver>(plan_, std::move(receiver_sources), receiver_options);
  }

  Status StartWorkers() {
    const int threads = options_.worker_threads > 0
                            ? options_.worker_threads
                            : std::clamp<int>(std::thread::hardware_concurrency(), 1, 4);
    EMLIO_ASSIGN_OR_RETURN(workers_, StartPool("emlio-work", threads, [this](int, std::stop_token) {
                             while (std::optional<Work> work = work_.Pop()) {
                               Process(std::move(*work));
                             }
                           }));
    return OkStatus();
  }

  wire::Open MakeOpen(size_t source) const EMLIO_REQUIRES(mu_) {
    wire::Open open = receiver_->MakeOpen(source);
    const std::string& name = sources_[source]->name();
    open.dataset = name.substr(name.rfind('/') + 1);
    if (options_.world_size > 1) open.job = options_.job;
    open.loader = options_.name.empty() ? open.dataset : options_.name;
    wire::Open::Source wire_source;
    wire_source.manifest_digest = manifest_->digest();
    wire_source.shuffle = static_cast<uint8_t>(options_.shuffle);
    wire_source.block_records = plan_->spec().sources[0].block_records;
    wire_source.window_blocks = plan_->spec().sources[0].window_blocks;
    open.sources = {wire_source};
    open.seed = options_.seed;
    open.global_batch = plan_->spec().global_batch;
    open.tail = static_cast<uint8_t>(options_.tail);
    open.plan_hash = plan_->hash();
    return open;
  }

  // On a worker: check, place, and parse what has become complete.
  void Process(Work work) EMLIO_EXCLUDES(mu_) {
    Result<wire::AnyMessage> decoded =
        wire::Decode({work.message.header.data(), work.message.header.size()});
    if (!decoded.ok()) return Fail(work.source, decoded.status());
    const auto* chunk = std::get_if<wire::Chunk>(&*decoded);
    if (chunk == nullptr) {
      return Fail(work.source, ProtocolError("a payload came with a message that is no Chunk"));
    }
    if (Status status = wire::CheckChunk(*chunk, work.message.payload.size()); !status.ok()) {
      return Fail(work.source, status);
    }
    std::vector<uint8_t> good(chunk->slots.size(), 1);
    if (chunk->record_total == 0) {
      const uint8_t* data = work.message.payload.data();
      for (size_t i = 0; i < chunk->sizes.size(); ++i) {
        good[i] = Crc32c(data, chunk->sizes[i]) == chunk->crcs[i];
        data += chunk->sizes[i];
      }
    }
    auto payload = std::make_shared<const Buffer>(std::move(work.message.payload));

    std::vector<session::AssembledBatch> complete;
    uint64_t opening = 0;
    {
      MutexLock lock(mu_);
      const Status status = receiver_->OnChunk(work.source, *chunk, std::move(payload), good);
      if (!status.ok()) return FailLocked(work.source, status);
      progress_ns_ = SystemClock().NowNs();
      complete = TakeComplete();
      opening = opening_;
      FlushOutbox();
    }
    for (session::AssembledBatch& batch : complete) Deliver(std::move(batch), opening);
  }

  std::vector<session::AssembledBatch> TakeComplete() EMLIO_REQUIRES(mu_) {
    std::vector<session::AssembledBatch> complete;
    session::AssembledBatch batch;
    while (receiver_->TakeComplete(&batch)) complete.push_back(std::move(batch));
    return complete;
  }

  void Deliver(session::AssembledBatch assembled, uint64_t opening) EMLIO_EXCLUDES(mu_) {
    const std::pair<uint64_t, uint64_t> key{assembled.epoch, assembled.step};
    Status status;
    // Strict: a record that is bad where it is stored is an error, at its place in the order.
    if (!assembled.skipped.empty() && options_.max_bad_records == 0) {
      status = assembled.skipped.front().reason.WithContext(fmt::format(
          "epoch {} step {} slot {}", key.first, key.second, assembled.skipped.front().slot));
    }
    auto batch = std::make_shared<AssembledBatchView>(
        std::move(assembled), plan_, plan_->Share(key.second, options_.rank, options_.world_size));
    if (status.ok()) status = batch->Parse(options_.features, *manifest_);
    MutexLock lock(mu_);
    if (opening != opening_) return;
    if (status.ok()) {
      ready_.emplace(key, std::shared_ptr<const Batch>(std::move(batch)));
    } else {
      ready_.emplace(key, std::move(status));
    }
    changed_.NotifyAll();
  }

  void HandOut(const Batch& batch) EMLIO_REQUIRES(mu_) {
    receiver_->OnHandedOut(batch.epoch(), batch.step());
    FlushOutbox();
    ++stats_.batches;
    stats_.records += batch.records().size();
    stats_.padded_records += batch.records().size() - batch.valid_records();
    stats_.payload_bytes += batch.payload_bytes();
    epochs_.Add(batch.epoch(), batch.records().size(), batch.payload_bytes());
    const int64_t now_ns = SystemClock().NowNs();
    stats_.elapsed_ns = now_ns - started_at_ns_;
    if (stats_.time_to_first_batch_ns == 0) stats_.time_to_first_batch_ns = now_ns - opened_at_ns_;
  }

  void FlushOutbox() EMLIO_REQUIRES(mu_) {
    if (closing_ || !receiver_->has_outbox()) return;
    for (auto& [source, message] : receiver_->TakeOutbox()) {
      sources_[source]->Send(std::move(message));
    }
  }

  void Fail(size_t source, const Status& reason) EMLIO_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    FailLocked(source, reason);
  }
  // A source broke the rules: nothing that it says can be trusted any more.
  void FailLocked(size_t source, const Status& reason) EMLIO_REQUIRES(mu_) {
    if (!closing_ && failure_.ok()) failure_ = reason.WithContext(sources_[source]->name());
    changed_.NotifyAll();
  }

  // SourceClient::Owner, on the clients' threads.
  void OnChunk(size_t source, transport::Message message) override {
    work_.Push({source, std::move(message)});
  }
  void OnRate(size_t source, double bytes_per_s, int64_t round_trip_ns) override
      EMLIO_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (receiver_ == nullptr) return;
    // What is on the way, the way of the Grant that allows it, queues as long as that, and streams
    // that are slower than others.
    constexpr double kRoundTrips = 4;
    const double needed = kRoundTrips * bytes_per_s * static_cast<double>(round_trip_ns) / 1e9;
    receiver_->SetPrefetch(source,
                           std::clamp(static_cast<uint64_t>(needed), prefetch_[source].least_bytes,
                                      prefetch_[source].most_bytes));
    FlushOutbox();
  }
  void OnManifest(size_t source) override EMLIO_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    answered_.insert(source);
    changed_.NotifyAll();
  }
  void OnFailed(size_t, Status reason) override EMLIO_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (failure_.ok()) failure_ = std::move(reason);
    changed_.NotifyAll();
  }
  void OnMessage(size_t source, wire::AnyMessage message) override EMLIO_EXCLUDES(mu_) {
    std::vector<session::AssembledBatch> complete;
    uint64_t opening = 0;
    {
      MutexLock lock(mu_);
      if (closing_) return;
      Status status;
      if (const auto* opened = std::get_if<wire::Opened>(&message)) {
        if (!receiver_->IsCurrent(source, opened->open_id)) return;
        if (opened->plan_hash != plan_->hash()) {
          status = PlanMismatch("the daemon answers with another plan");
        }
        --awaiting_opened_;
      } else if (const auto* error = std::get_if<wire::Error>(&message)) {
        if (!receiver_->IsCurrent(source, error->open_id)) return;
        if (pass_error_.ok()) {
          pass_error_ = Status(error->code, error->message).WithContext(sources_[source]->name());
        }
      } else if (const auto* skip = std::get_if<wire::Skip>(&message)) {
        status = receiver_->OnSkip(source, *skip);
      } else if (const auto* end = std::get_if<wire::EpochEnd>(&message)) {
        status = receiver_->OnEpochEnd(source, *end);
      }
      if (!status.ok()) return FailLocked(source, status);
      progress_ns_ = SystemClock().NowNs();
      complete = TakeComplete();
      opening = opening_;
      FlushOutbox();
      changed_.NotifyAll();
    }
    for (session::AssembledBatch& batch : complete) Deliver(std::move(batch), opening);
  }

  const LoaderOptions options_;
  const int64_t opened_at_ns_;

  // Set by Open, constant afterwards.
  std::shared_ptr<const dataset::Manifest> manifest_;
  std::shared_ptr<const plan::Plan> plan_;
  std::vector<uint32_t> streams_;  // by source: how many there may be
  struct Prefetch {
    uint64_t least_bytes = 0;
    uint64_t most_bytes = 0;
  };
  std::vector<Prefetch> prefetch_;  // by source
  std::vector<bool> has_records_;   // by source: whether a session is opened with it

  mutable Mutex mu_;
  CondVar changed_;
  std::set<size_t> answered_ EMLIO_GUARDED_BY(mu_);  // sources whose manifests are here
  std::unique_ptr<session::Receiver> receiver_ EMLIO_GUARDED_BY(mu_);
  // Complete and parsed, by (epoch, step): the batch, or why there is none.
  std::map<std::pair<uint64_t, uint64_t>, Result<std::shared_ptr<const Batch>>> ready_
      EMLIO_GUARDED_BY(mu_);
  bool closing_ EMLIO_GUARDED_BY(mu_) = false;
  uint64_t opening_ EMLIO_GUARDED_BY(mu_) = 0;  // counts Begin; 0: no pass yet
  size_t awaiting_opened_ EMLIO_GUARDED_BY(mu_) = 0;
  uint64_t pass_epoch_ EMLIO_GUARDED_BY(mu_) = 0;
  uint64_t end_epoch_ EMLIO_GUARDED_BY(mu_) = 0;  // first epoch that the opening does not cover
  Status failure_ EMLIO_GUARDED_BY(mu_);          // for good
  Status pass_error_ EMLIO_GUARDED_BY(mu_);       // until the next pass
  int64_t started_at_ns_ EMLIO_GUARDED_BY(mu_) = 0;
  int64_t progress_ns_ EMLIO_GUARDED_BY(mu_) = 0;
  int64_t last_interrupt_check_ns_ EMLIO_GUARDED_BY(mu_) = 0;
  LoaderStats stats_ EMLIO_GUARDED_BY(mu_);
  EpochWatch epochs_ EMLIO_GUARDED_BY(mu_);

  BoundedQueue<Work> work_;
  std::unique_ptr<daemon::Daemon> local_daemon_;
  std::vector<std::unique_ptr<SourceClient>> sources_;
  std::vector<Thread> workers_;
};

Result<std::unique_ptr<Loader>> Loader::Open(LoaderOptions options,
                                             InterruptCheck interrupt_check) {
  auto impl = std::make_unique<Impl>(std::move(options));
  EMLIO_RETURN_IF_ERROR(impl->Open(interrupt_check));
  return std::unique_ptr<Loader>(new Loader(std::move(impl)));
}

Loader::Loader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Loader::~Loader() = default;

uint64_t Loader::records() const { return impl_->plan().records(); }
uint64_t Loader::steps_per_epoch() const { return impl_->plan().steps_per_epoch(); }
const dataset::Manifest& Loader::manifest() const { return impl_->manifest(); }
const plan::Plan& Loader::plan() const { return impl_->plan(); }
Status Loader::StartPass(Cursor at, InterruptCheck interrupt_check) {
  return impl_->StartPass(at, interrupt_check);
}
Result<std::shared_ptr<const Batch>> Loader::Next(InterruptCheck interrupt_check) {
  return impl_->Next(interrupt_check);
}
void Loader::SetBadRecords(uint64_t bad_records) { impl_->SetBadRecords(bad_records); }
Cursor Loader::cursor() const { return impl_->cursor(); }
LoaderStats Loader::stats() const { return impl_->stats(); }

}  // namespace emlio::loader
