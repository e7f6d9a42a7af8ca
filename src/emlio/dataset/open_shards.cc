// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/dataset/open_shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stop_token>
#include <thread>
#include <utility>

#include "emlio/base/log.h"
#include "emlio/base/mutex.h"
#include "emlio/base/thread.h"

namespace emlio::dataset {
namespace {

// Opens all, on several threads. Stops early when one cannot be opened; the outcome of the first in
// order that failed has the reason. kCancelled when it was interrupted.
Result<std::vector<OpenOutcome>> OpenAll(DatasetOptions options,
                                         const std::vector<FoundShard>& found) {
  if (options.index_directory.empty()) options.index_directory = DefaultIndexDirectory();
  uint64_t bytes = 0;
  for (const FoundShard& shard : found) bytes += shard.identity.size_bytes;
  ProgressReporter reporter(options.progress, found.size(), bytes);
  std::stop_source stop;
  const std::stop_token stopped = stop.get_token();

  std::vector<OpenOutcome> outcomes(found.size());
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  Mutex mu;
  CondVar one_ended;
  size_t ended = 0;
  const auto work = [&] {
    for (size_t i; !failed && !stopped.stop_requested() && (i = next++) < found.size();) {
      outcomes[i] = OpenShard(found[i], options, &reporter, stopped);
      if (!outcomes[i].status.ok()) failed = true;
    }
    MutexLock lock(mu);
    ++ended;
    one_ended.NotifyOne();
  };
  // Each waits for storage most of the time, one page of headers after the other.
  constexpr unsigned kLeastThreads = 8;
  const size_t wanted = options.index_threads > 0
                            ? static_cast<size_t>(options.index_threads)
                            : std::max(kLeastThreads, std::thread::hardware_concurrency());
  const auto threads = StartPool("emlio-index", static_cast<int>(std::min(wanted, found.size())),
                                 [&work](int, std::stop_token) { work(); });
  if (!threads.ok()) {  // there are none to be had
    work();
    return outcomes;
  }
  constexpr auto kAskEvery = std::chrono::milliseconds(50);
  const auto all_ended = [&] {
    MutexLock lock(mu);
    if (ended < threads->size()) {
      one_ended.WaitUntil(mu, std::chrono::steady_clock::now() + kAskEvery);
    }
    return ended == threads->size();
  };
  do {
    if (options.is_interrupted != nullptr && options.is_interrupted()) stop.request_stop();
  } while (!all_ended());
  if (stop.stop_requested()) return Cancelled("opening the shards was interrupted");
  return outcomes;
}

// A line for every shard that is not whole.
void LogDamage(const std::vector<OpenOutcome>& outcomes) {
  constexpr size_t kMaxWarnings = 20;
  size_t damaged = 0;
  for (const OpenOutcome& outcome : outcomes) {
    const tfrecord::Damage& damage = outcome.damage;
    if (damage.bad_records == 0 && damage.unreadable.ok()) continue;
    if (++damaged > kMaxWarnings) continue;
    if (damage.bad_records > 0) {
      LogWarning("{} (where the next record begins is known from an index; {} such records in all)",
                 damage.first_bad.message(), damage.bad_records);
    }
    if (!damage.unreadable.ok()) {
      const uint64_t bytes = outcome.shard->index.unreadable_bytes();
      LogWarning("{} ({} records can be read{})", damage.unreadable.message(),
                 outcome.shard->index.records(),
                 bytes == 0 ? "" : fmt::format(", {} bytes at the end are left out", bytes));
    }
  }
  if (damaged > kMaxWarnings) {
    LogWarning("{} more shards are damaged; 'emlio verify' lists all places",
               damaged - kMaxWarnings);
  }
}

// One line each, however many shards it is about.
void LogOutcomes(const std::vector<OpenOutcome>& outcomes) {
  size_t stale = 0, unsaved = 0, empty = 0;
  const OpenOutcome *first_stale = nullptr, *first_unsaved = nullptr, *first_empty = nullptr;
  const auto note = [](const OpenOutcome& outcome, size_t* count, const OpenOutcome** first) {
    if ((*count)++ == 0) *first = &outcome;
  };
  for (const OpenOutcome& outcome : outcomes) {
    if (!outcome.stale.empty()) note(outcome, &stale, &first_stale);
    if (!outcome.unsaved.ok()) note(outcome, &unsaved, &first_unsaved);
    if (outcome.shard->index.records() == 0) note(outcome, &empty, &first_empty);
  }
  if (stale > 0) {
    LogWarning("{} of {} shards were indexed again, for example {} (now {} records): {}", stale,
               outcomes.size(), first_stale->shard->path, first_stale->shard->index.records(),
               first_stale->stale);
  }
  if (unsaved > 0) {
    LogWarning(
        "{} of {} indexes cannot be kept and will be built again at every start: {}; choose "
        "another index directory",
        unsaved, outcomes.size(), first_unsaved->unsaved.message());
  }
  LogDamage(outcomes);
  if (empty > 0) {
    LogWarning("{} of {} shards have no record, for example {}", empty, outcomes.size(),
               first_empty->shard->path);
  }
}

}  // namespace

Result<std::vector<OpenedShard>> OpenShards(const DatasetOptions& options,
                                            const std::vector<FoundShard>& found) {
  EMLIO_ASSIGN_OR_RETURN(std::vector<OpenOutcome> outcomes, OpenAll(options, found));
  for (const OpenOutcome& outcome : outcomes) EMLIO_RETURN_IF_ERROR(outcome.status);
  LogOutcomes(outcomes);
  std::vector<OpenedShard> shards;
  shards.reserve(outcomes.size());
  for (OpenOutcome& outcome : outcomes) shards.push_back(*std::move(outcome.shard));
  return shards;
}

}  // namespace emlio::dataset
