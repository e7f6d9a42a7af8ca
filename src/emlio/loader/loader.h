// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emlio/base/observer.h"
#include "emlio/base/status.h"
#include "emlio/dataset/dataset.h"
#include "emlio/dataset/manifest.h"
#include "emlio/example/columns.h"
#include "emlio/example/feature_spec.h"
#include "emlio/plan/plan.h"
#include "emlio/plan/shuffle_size.h"

namespace emlio::loader {

inline constexpr uint32_t kDefaultReadyWindow = 16;
inline constexpr uint32_t kMaxReadyWindow = 4096;

// When a complete batch is handed out. Which record is in which batch is the same in both.
enum class Order : uint8_t {
  kStep,   // in the order of steps
  kReady,  // as they become complete, inside a window; epochs are never mixed
};
std::string_view OrderName(Order order);  // "step", "ready"
Result<Order> ParseOrder(std::string_view name);

struct LoaderOptions {
  // Any mixture of "tcp://host:port/dataset" and local files, directories or glob patterns. All
  // local ones together are one source.
  std::vector<std::string> sources;
  // Records a step: per rank, or over all ranks. Exactly one of the two is set.
  uint64_t batch_size = 0;
  uint64_t global_batch_size = 0;
  // tf.train.Example features to parse into columns; empty: raw records only.
  std::vector<example::FeatureSpec> features;
  plan::Shuffle shuffle = plan::Shuffle::kNone;
  // Of Shuffle::kBlock alone. Bytes are turned into records by the mean record of all sources
  // together, so ranks that give the same sizes make the same plan. Not set: plan::
  // kDefaultShuffleBlock and kDefaultShuffleWindow.
  std::optional<plan::ShuffleSize> shuffle_block;
  std::optional<plan::ShuffleSize> shuffle_window;
  plan::Tail tail = plan::Tail::kKeep;
  uint64_t seed = 0;
  uint32_t rank = 0;
  uint32_t world_size = 1;
  // Common to all ranks of a training job, restarts included; empty: ranks are not compared.
  std::string job;
  // Tells the loaders of one job apart; empty: made of the data sets' names.
  std::string name;
  // Where training ends, if that is known: epochs 0 to epochs-1 are going to be read, in order, and
  // the next one is read ahead while this one ends. 0: not known, one pass at a time.
  uint64_t epochs = 0;
  Order order = Order::kStep;
  // With Order::kReady: how many steps behind the first one that was not handed out batches may be
  // handed out, itself included. 1 is Order::kStep. Smaller for batches of over 65536 records: the
  // window has no more than 2^20 records of this rank.
  uint32_t ready_window = kDefaultReadyWindow;
  // For processes that share the batches of one rank, each with a loader of its own: of every so
  // many steps this one reads one, from the step on at which StartPass begins.
  uint32_t step_stride = 1;
  uint32_t streams = 4;                           // data connections to each daemon
  uint64_t prefetch_bytes = uint64_t{256} << 20;  // received or on the way, not handed out
  uint64_t max_record_bytes = uint64_t{256} << 20;
  // Records that may be bad where they are stored, over all passes: they are left out of their
  // batches, which are that much shorter, and counted; one more is an error. 0: the first one is.
  uint64_t max_bad_records = 0;
  int64_t timeout_ms = 60'000;       // connecting, and waiting for a batch without any progress
  int64_t peer_silence_ms = 10'000;  // no byte and no pong from a daemon for so long: lost
  // Verifying and parsing; 0: the number of processors, at most 4. At most kMaxThreads.
  int worker_threads = 0;
  // Local sources only: see dataset::DatasetOptions.
  std::string index_directory;
  dataset::BadShardPolicy on_bad_shard = dataset::BadShardPolicy::kError;
  dataset::ProgressCallback index_progress;
  // Told of passes, and of daemons whose hosts measure their energy. May be null.
  std::shared_ptr<Observer> observer;
};

// The whole resumable state of a loader: the first step not handed out yet. A state taken after the
// last step of an epoch is (epoch + 1, 0). It may be gone on from in either Order.
struct Cursor {
  uint64_t epoch = 0;
  uint64_t step = 0;
  // Steps behind it that were handed out, of the same epoch; ascending. Not empty in
  // Order::kReady, and belongs to this rank alone then.
  std::vector<uint64_t> handed_out = {};
  friend bool operator==(const Cursor&, const Cursor&) = default;
};

// One step of one rank. Immutable; everything it hands out borrows from it.
class Batch {
 public:
  virtual ~Batch() = default;
  virtual uint64_t epoch() const = 0;
  virtual uint64_t step() const = 0;
  // So many of the records, the first ones, are this epoch's own; those behind them are padding
  // (plan::Tail::kPad): records that come once more. May be 0.
  virtual size_t valid_records() const = 0;
  // The records' payloads in slot order.
  virtual std::span<const std::span<const uint8_t>> records() const = 0;
  // For every record its number in manifest order, 0 to Loader::records()-1.
  virtual std::span<const uint64_t> indices() const = 0;
  // The records that the plan has in this batch, but that are bad where they are stored
  // (LoaderOptions::max_bad_records): in none of the other members.
  struct BadRecord {
    uint64_t index = 0;     // number in manifest order
    bool is_valid = false;  // not padding
    Status reason;          // names shard, record and offset
  };
  virtual std::span<const BadRecord> bad_records() const = 0;
  virtual uint64_t payload_bytes() const = 0;
  // One per requested feature, in the order of the options.
  virtual std::span<const example::Column> columns() const = 0;
};

// Counters since Open; they only grow.
struct LoaderStats {
  uint64_t batches = 0;  // handed out
  uint64_t records = 0;
  uint64_t padded_records = 0;  // of these: padding
  uint64_t payload_bytes = 0;
  uint64_t chunks = 0;             // received
  uint64_t duplicate_records = 0;  // dropped
  uint64_t refilled_records = 0;   // asked for again after a bad checksum
  uint64_t bad_records = 0;        // left out of batches handed out; and what SetBadRecords said
  std::map<std::string, uint64_t> bad_records_of_shard;  // of this loader's batches
  // Ends of shard files that are left out because they are damaged, wherever the shards lie; known
  // from Open on.
  std::map<std::string, uint64_t> unreadable_bytes_of_shard;
  int64_t wait_ns = 0;                 // summed time that Next() blocked
  int64_t elapsed_ns = 0;              // from the first StartPass to the last batch handed out
  int64_t time_to_first_batch_ns = 0;  // from the call of Open to the first batch; 0 = none yet
  uint64_t ready_batches_now = 0;
  uint64_t ready_bytes_now = 0;  // payload received and not handed out
  uint64_t max_ready_bytes = 0;
};

// Waits of a loader end early, with kCancelled, when such a function says so. It is called about
// every 100 ms by the thread that waits, without any lock; null: nobody asks.
using InterruptCheck = bool (*)();

// The receiving side: what a user holds. Open returns once every source has answered, the plan is
// agreed on and the connections stand. Next may be called from one thread at a time; the others are
// thread-safe. Destroying it closes the sessions and joins its threads within about a second,
// whatever the peers do; batches that were handed out stay valid.
class Loader {
 public:
  // kInvalidArgument for options that cannot work, kNotFound / kUnavailable / kTimeout naming the
  // source, kPlanMismatch when sources or ranks disagree, and what the daemons report.
  static Result<std::unique_ptr<Loader>> Open(LoaderOptions options,
                                              InterruptCheck interrupt_check = nullptr);
  ~Loader();

  uint64_t records() const;          // of the whole data set
  uint64_t steps_per_epoch() const;  // of every rank, whatever step_stride
  const dataset::Manifest& manifest() const;
  const plan::Plan& plan() const;

  // Begins a pass: what is handed out next are the steps of that epoch from the cursor's on, but
  // for those that were. Goes on with what was read ahead when that is what comes next; otherwise
  // what is on the way is dropped and the sessions are opened anew at this cursor. kInvalidArgument
  // for one that cannot be: it names steps that this epoch or stride does not have.
  Status StartPass(Cursor at, InterruptCheck interrupt_check = nullptr);
  // The next batch of the pass; nullptr after all steps of the epoch. Waits at most timeout_ms
  // of the options without any progress (kTimeout). After an error every further call gives the
  // same error until StartPass; only an interrupted wait loses nothing.
  Result<std::shared_ptr<const Batch>> Next(InterruptCheck interrupt_check = nullptr);
  // What was not handed out yet: where another pass goes on.
  Cursor cursor() const;
  // What was left out before, by a loader whose work this one goes on with: counts against
  // max_bad_records.
  void SetBadRecords(uint64_t bad_records);
  LoaderStats stats() const;

 private:
  class Impl;
  explicit Loader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace emlio::loader
