// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "bind_loader.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "bind_batch.h"
#include "bind_energy.h"
#include "emlio/base/hash128.h"
#include "emlio/base/mutex.h"
#include "emlio/example/feature_spec.h"
#include "emlio/loader/loader.h"
#include "errors.h"
#include "gil.h"

namespace nb = nanobind;

namespace emlio::python {
namespace {

// What loader::Loader leaves to its user and Python cannot be trusted with: calls from several
// threads, Close during a wait, signals, and life after a fork. All methods are called with the
// GIL; those that may block let go of it. The GIL is never taken while mutex_ is held.
class SharedLoader {
 public:
  explicit SharedLoader(std::unique_ptr<loader::Loader> loader)
      : pid_(getpid()),
        records_(loader->records()),
        steps_per_epoch_(loader->steps_per_epoch()),
        plan_hash_(ToHex(loader->plan().hash())),
        manifest_digest_(ToHex(loader->manifest().digest())),
        global_batch_size_(loader->plan().spec().global_batch),
        block_records_(loader->plan().spec().sources.front().block_records),
        window_blocks_(loader->plan().spec().sources.front().window_blocks),
        loader_(std::move(loader)) {}

  SharedLoader(const SharedLoader&) = delete;
  SharedLoader& operator=(const SharedLoader&) = delete;

  ~SharedLoader() { Close(); }

  void StartPass(uint64_t epoch, uint64_t step, const std::vector<uint64_t>& handed_out) {
    RaiseIfError(WithoutGil([&](loader::Loader& loader) {
      return loader.StartPass({.epoch = epoch, .step = step, .handed_out = handed_out},
                              &Interrupted);
    }));
  }

  // None after the last step of the epoch.
  nb::object Next() {
    Result<std::shared_ptr<const loader::Batch>> batch = std::shared_ptr<const loader::Batch>();
    RaiseIfError(WithoutGil([&](loader::Loader& loader) {
      batch = loader.Next(&Interrupted);
      return batch.status();
    }));
    if (*batch == nullptr) return nb::none();
    return WrapBatch(*std::move(batch));
  }

  // Ends a wait in another thread and lets go of everything. Idempotent. In a forked child, where
  // the loader's threads do not exist, there is nothing to stop: the memory stays as it is.
  void Close() {
    if (getpid() != pid_) {
      (void)loader_.release();
      (void)idle_.release();  // destroying it would wait for threads that are not there
      return;
    }
    closing_ = true;
    const GilReleased released;
    MutexLock lock(mutex_);
    // A signal handler that closes the loader its own thread waits in: the wait ends right after.
    if (user_ == std::this_thread::get_id()) return;
    while (user_ != std::thread::id()) idle_->Wait(mutex_);
    Destroy();
  }

  std::tuple<uint64_t, uint64_t, std::vector<uint64_t>> Cursor() {
    loader::Cursor cursor = Locked([](loader::Loader& loader) { return loader.cursor(); });
    return {cursor.epoch, cursor.step, std::move(cursor.handed_out)};
  }

  void SetBadRecords(uint64_t bad_records) {
    Locked([&](loader::Loader& loader) { loader.SetBadRecords(bad_records); });
  }

  nb::dict Stats() {
    loader::LoaderStats stats;
    {
      RaiseIfError(CheckProcess());
      MutexLock lock(mutex_);
      stats = loader_ != nullptr ? loader_->stats() : last_stats_;
    }
    nb::dict out;
    out["batches"] = stats.batches;
    out["records"] = stats.records;
    out["padded_records"] = stats.padded_records;
    out["payload_bytes"] = stats.payload_bytes;
    out["chunks"] = stats.chunks;
    out["duplicate_records"] = stats.duplicate_records;
    out["refilled_records"] = stats.refilled_records;
    out["bad_records"] = stats.bad_records;
    nb::dict bad_records_of_shard;
    for (const auto& [shard, count] : stats.bad_records_of_shard) {
      bad_records_of_shard[FileName(shard)] = count;
    }
    out["bad_records_of_shard"] = bad_records_of_shard;
    nb::dict unreadable_bytes_of_shard;
    for (const auto& [shard, bytes] : stats.unreadable_bytes_of_shard) {
      unreadable_bytes_of_shard[FileName(shard)] = bytes;
    }
    out["unreadable_bytes_of_shard"] = unreadable_bytes_of_shard;
    out["wait_s"] = Seconds(stats.wait_ns);
    out["elapsed_s"] = Seconds(stats.elapsed_ns);
    // A wait that ended without a batch is not in elapsed_ns.
    out["wait_share"] = stats.elapsed_ns > 0
                            ? std::min(1.0, static_cast<double>(stats.wait_ns) /
                                                static_cast<double>(stats.elapsed_ns))
                            : 0.0;
    out["time_to_first_batch_s"] = Seconds(stats.time_to_first_batch_ns);
    out["ready_batches_now"] = stats.ready_batches_now;
    out["ready_bytes_now"] = stats.ready_bytes_now;
    out["max_ready_bytes"] = stats.max_ready_bytes;
    return out;
  }

  nb::tuple Locate(uint64_t index) {
    if (index >= records_) {
      throw nb::index_error(
          ("record " + std::to_string(index) + " of a data set of " + std::to_string(records_))
              .c_str());
    }
    return Locked([&](loader::Loader& loader) {
      const plan::PlannedRecord place = loader.plan().Locate(index);
      return nb::make_tuple(FileName(loader.manifest().shards()[place.shard].name), place.record);
    });
  }

  uint64_t records() const { return records_; }
  uint64_t steps_per_epoch() const { return steps_per_epoch_; }
  const std::string& plan_hash() const { return plan_hash_; }
  const std::string& manifest_digest() const { return manifest_digest_; }
  uint64_t global_batch_size() const { return global_batch_size_; }
  uint32_t block_records() const { return block_records_; }
  uint32_t window_blocks() const { return window_blocks_; }

  // Called about every 100 ms by a thread that waits: true when the wait must end.
  static bool Interrupted() {
    if (InterpreterEnds() || (waiting_in_ != nullptr && waiting_in_->closing_)) return true;
    nb::gil_scoped_acquire gil;
    return PyErr_CheckSignals() != 0;
  }

 private:
  static double Seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

  Status CheckProcess() const {
    if (getpid() == pid_) return OkStatus();
    return Unsupported(
        "this loader was opened by another process (" + std::to_string(pid_) +
        ") and cannot be used after a fork: make a new Loader in this process, or, with a torch "
        "DataLoader, set num_workers=0");
  }

  static Status Closed() { return Cancelled("the loader is closed"); }

  // Runs `call` with the loader, for one thread at a time and without the GIL.
  template <typename Call>
  Status WithoutGil(Call call) {
    if (Status status = CheckProcess(); !status.ok()) return status;
    const GilReleased released;
    if (Status status = Enter(); !status.ok()) return status;
    SharedLoader* const outer = std::exchange(waiting_in_, this);
    Status status = call(*loader_);
    waiting_in_ = outer;
    Leave();
    // The reason for a cancelled wait that no signal has ended.
    if (status.code() == Code::kCancelled && (closing_ || InterpreterEnds())) return Closed();
    return status;
  }

  Status Enter() {
    const std::thread::id self = std::this_thread::get_id();
    while (true) {
      {
        MutexLock lock(mutex_);
        if (closing_ || InterpreterEnds()) return Closed();
        if (user_ == self) {
          return Unsupported("a signal handler cannot use the loader that it has interrupted");
        }
        if (user_ != std::thread::id()) {
          (void)idle_->WaitUntil(mutex_,
                                 std::chrono::steady_clock::now() + std::chrono::milliseconds(100));
        }
        if (user_ == std::thread::id() && !closing_) {
          user_ = self;
          return OkStatus();
        }
      }
      nb::gil_scoped_acquire gil;
      if (PyErr_CheckSignals() != 0) return Cancelled("interrupted");
    }
  }

  void Leave() {
    MutexLock lock(mutex_);
    user_ = std::thread::id();
    if (closing_) Destroy();
    idle_->NotifyAll();
  }

  void Destroy() EMLIO_REQUIRES(mutex_) {
    if (loader_ == nullptr) return;
    last_stats_ = loader_->stats();
    loader_.reset();
  }

  // Runs `call`, which is quick and thread-safe, with the loader.
  template <typename Call>
  std::invoke_result_t<Call, loader::Loader&> Locked(Call call) {
    RaiseIfError(CheckProcess());
    {
      MutexLock lock(mutex_);
      if (loader_ != nullptr) return call(*loader_);
    }
    Raise(Closed());
  }

  static thread_local SharedLoader* waiting_in_;

  // Constant after construction; they outlive Close.
  const pid_t pid_;
  const uint64_t records_;
  const uint64_t steps_per_epoch_;
  const std::string plan_hash_;
  const std::string manifest_digest_;
  const uint64_t global_batch_size_;
  const uint32_t block_records_;
  const uint32_t window_blocks_;

  std::atomic<bool> closing_ = false;
  Mutex mutex_;
  std::unique_ptr<CondVar> idle_ = std::make_unique<CondVar>();
  std::thread::id user_ EMLIO_GUARDED_BY(mutex_);  // the thread inside StartPass or Next
  loader::LoaderStats last_stats_ EMLIO_GUARDED_BY(mutex_);
  // Changed under mutex_, and only while no thread is inside: user_ may use it without the lock.
  std::unique_ptr<loader::Loader> loader_;
};

thread_local SharedLoader* SharedLoader::waiting_in_ = nullptr;

plan::ShuffleSize ParseSize(const char* option, const std::string& text) {
  Result<plan::ShuffleSize> size = plan::ParseShuffleSize(text);
  if (!size.ok()) Raise(size.status().WithContext(option));
  return *size;
}

void OpenLoader(SharedLoader* self, const std::vector<nb::bytes>& sources, uint64_t batch_size,
                uint64_t global_batch_size,
                const std::vector<std::pair<std::string, std::string>>& features,
                const std::string& shuffle, const std::string& shuffle_block,
                const std::string& shuffle_window, const std::string& tail, uint64_t seed,
                uint32_t rank, uint32_t world_size, const std::string& job, const std::string& name,
                uint64_t epochs, const std::string& order, uint32_t ready_window,
                uint32_t step_stride, uint32_t streams, uint64_t prefetch_bytes,
                uint64_t max_record_bytes, uint64_t max_bad_records, int64_t timeout_ms,
                const std::string& on_bad_shard, int workers) {
  loader::LoaderOptions options;
  for (const nb::bytes& source : sources)
    options.sources.emplace_back(source.c_str(), source.size());
  options.batch_size = batch_size;
  options.global_batch_size = global_batch_size;
  for (const auto& [feature, spec] : features) {
    options.features.push_back(ValueOrRaise(example::ParseFeatureSpec(feature, spec)));
  }
  options.shuffle = ValueOrRaise(plan::ParseShuffle(shuffle));
  if (!shuffle_block.empty()) {
    options.shuffle_block = ParseSize("shuffle_block", shuffle_block);
  }
  if (!shuffle_window.empty()) {
    options.shuffle_window = ParseSize("shuffle_window", shuffle_window);
  }
  options.tail = ValueOrRaise(plan::ParseTail(tail));
  options.seed = seed;
  options.rank = rank;
  options.world_size = world_size;
  options.job = job;
  options.name = name;
  options.epochs = epochs;
  options.order = ValueOrRaise(loader::ParseOrder(order));
  options.ready_window = ready_window;
  options.step_stride = step_stride;
  options.streams = streams;
  options.prefetch_bytes = prefetch_bytes;
  options.max_record_bytes = max_record_bytes;
  options.max_bad_records = max_bad_records;
  options.timeout_ms = timeout_ms;
  options.on_bad_shard = ValueOrRaise(dataset::ParseBadShardPolicy(on_bad_shard));
  options.worker_threads = workers;
  options.observer = EnergyObserver();
  Result<std::unique_ptr<loader::Loader>> opened = [&] {
    const GilReleased released;
    return loader::Loader::Open(std::move(options), &SharedLoader::Interrupted);
  }();
  new (self) SharedLoader(ValueOrRaise(std::move(opened)));
}

}  // namespace

void BindLoader(nb::module_& m) {
  nb::class_<SharedLoader>(m, "Loader",
                           "The C++ loader; emlio.Loader adds epochs, states and defaults.")
      .def("__init__", &OpenLoader, nb::kw_only(), nb::arg("sources"), nb::arg("batch_size"),
           nb::arg("global_batch_size"), nb::arg("features"), nb::arg("shuffle"),
           nb::arg("shuffle_block"), nb::arg("shuffle_window"), nb::arg("tail"), nb::arg("seed"),
           nb::arg("rank"), nb::arg("world_size"), nb::arg("job"), nb::arg("name"),
           nb::arg("epochs"), nb::arg("order"), nb::arg("ready_window"), nb::arg("step_stride"),
           nb::arg("streams"), nb::arg("prefetch_bytes"), nb::arg("max_record_bytes"),
           nb::arg("max_bad_records"), nb::arg("timeout_ms"), nb::arg("on_bad_shard"),
           nb::arg("workers"), "Opens every source. Blocks without the GIL.")
      .def("start_pass", &SharedLoader::StartPass, nb::arg("epoch"), nb::arg("step"),
           nb::arg("handed_out"),
           "Begins a pass with the steps of the epoch from `step` on, but for those handed out. "
           "Blocks without the GIL.")
      .def("next", &SharedLoader::Next,
           "The next batch of the pass, None after its last. Blocks without the GIL; signals are "
           "handled while it waits.")
      .def("close", &SharedLoader::Close, "Stops all threads, ends a wait; safe to call twice.")
      .def("cursor", &SharedLoader::Cursor,
           "(epoch, step, handed_out): the first step not handed out, and those behind it that "
           "were.")
      .def("set_bad_records", &SharedLoader::SetBadRecords, nb::arg("bad_records"),
           "What was left out before the state that is loaded.")
      .def("stats", &SharedLoader::Stats, "Counters since the loader was opened.")
      .def("locate", &SharedLoader::Locate, nb::arg("index"),
           "(shard name, record number in it) of a record number of the data set.")
      .def_prop_ro("records", &SharedLoader::records, "Records of the whole data set.")
      .def_prop_ro("steps_per_epoch", &SharedLoader::steps_per_epoch, "Batches of each rank.")
      .def_prop_ro("plan_hash", &SharedLoader::plan_hash, "Names what is read in which order.")
      .def_prop_ro("manifest_digest", &SharedLoader::manifest_digest,
                   "Names the data set's exact contents.")
      .def_prop_ro("global_batch_size", &SharedLoader::global_batch_size,
                   "Records of one step, over all ranks.")
      .def_prop_ro("block_records", &SharedLoader::block_records, "Records of a block, or 0.")
      .def_prop_ro("window_blocks", &SharedLoader::window_blocks, "Blocks of a window, or 0.");
}

}  // namespace emlio::python
