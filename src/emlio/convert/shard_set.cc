// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/convert/shard_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "emlio/base/file.h"
#include "emlio/base/mutex.h"
#include "emlio/base/thread.h"
#include "emlio/tfrecord/index.h"

namespace emlio::convert {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".tfrecord";
constexpr std::chrono::milliseconds kProgressInterval{100};

std::string ShardName(const std::string& prefix, uint64_t shard, uint64_t shards) {
  // As many digits as the count needs, so that the bytewise order is the order of the numbers.
  const size_t digits = std::max<size_t>(5, fmt::formatted_size("{}", shards));
  return fmt::format("{}-{:0{}}-of-{:0{}}{}", prefix, shard, digits, shards, digits, kSuffix);
}

std::string PathOf(const ShardSetOptions& options, const std::string& name) {
  return (fs::path(options.destination) / name).string();
}

// Takes "-" or "-of-" and at least five digits off the end of `text`.
bool TakeNumber(std::string_view before, std::string_view* text) {
  const size_t last = text->find_last_not_of("0123456789");
  if (last == std::string_view::npos || text->size() - last - 1 < 5) return false;
  text->remove_suffix(text->size() - last - 1);
  if (!text->ends_with(before)) return false;
  text->remove_suffix(before.size());
  return true;
}

bool IsShardName(std::string_view name) {
  if (!name.ends_with(kSuffix)) return false;
  name.remove_suffix(kSuffix.size());
  return TakeNumber("-of-", &name) && TakeNumber("-", &name) && !name.empty();
}

// Names of the shards, of any set, in the destination; sorted.
Result<std::vector<std::string>> ShardsIn(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (IsShardName(name)) names.push_back(std::move(name));
  }
  if (error) return ErrnoStatus(error.value(), fmt::format("cannot list {}", folder));
  std::sort(names.begin(), names.end());
  return names;
}

Status RemoveFile(const std::string& path) {
  std::error_code error;
  fs::remove(path, error);  // a file that is gone already is no error
  if (error) return ErrnoStatus(error.value(), fmt::format("cannot remove {}", path));
  return OkStatus();
}

// One conversion: the workers' common state. The thread that made it waits and reports progress.
class Conversion {
 public:
  Conversion(const ShardSetOptions& options, uint64_t shards, const FillShard& fill)
      : options_(options), shards_(shards), fill_(fill) {}

  Result<ShardSetSummary> Run(const Progress& total, const ProgressFunction& progress);

 private:
  void Work(const std::stop_token& stop) EMLIO_EXCLUDES(mu_);
  Status WriteShard(uint64_t shard, const std::stop_token& stop) EMLIO_EXCLUDES(mu_);
  void Fail(Status status) EMLIO_EXCLUDES(mu_);

  const ShardSetOptions& options_;
  const uint64_t shards_;
  const FillShard& fill_;
  Tally tally_;

  Mutex mu_;
  CondVar worker_ended_;
  uint64_t running_workers_ EMLIO_GUARDED_BY(mu_) = 0;
  uint64_t next_shard_ EMLIO_GUARDED_BY(mu_) = 0;
  bool gave_up_ EMLIO_GUARDED_BY(mu_) = false;
  Status status_ EMLIO_GUARDED_BY(mu_);  // of the first failure
  ShardSetSummary summary_ EMLIO_GUARDED_BY(mu_);
  std::vector<std::string> finished_ EMLIO_GUARDED_BY(mu_);  // paths
  std::stop_source stop_;
};

void Conversion::Fail(Status status) {
  MutexLock lock(mu_);
  if (!gave_up_) status_ = std::move(status);
  gave_up_ = true;
  stop_.request_stop();
}

Status Conversion::WriteShard(uint64_t shard, const std::stop_token& stop) {
  const std::string path = PathOf(options_, ShardName(options_.prefix, shard, shards_));
  EMLIO_ASSIGN_OR_RETURN(auto writer, tfrecord::ShardWriter::Create(path));
  ShardSink sink(writer.get(), &tally_, stop);
  EMLIO_RETURN_IF_ERROR(fill_(shard, &sink));
  EMLIO_RETURN_IF_ERROR(writer->Commit());
  MutexLock lock(mu_);
  finished_.push_back(path);
  ++summary_.shards;
  summary_.records += writer->records();
  summary_.payload_bytes += writer->payload_bytes();
  summary_.file_bytes += writer->file_bytes();
  return OkStatus();
}

void Conversion::Work(const std::stop_token& stop) {
  while (true) {
    uint64_t shard;
    {
      MutexLock lock(mu_);
      if (gave_up_ || next_shard_ == shards_) {
        --running_workers_;
        worker_ended_.NotifyAll();
        return;
      }
      shard = next_shard_++;
    }
    if (Status status = WriteShard(shard, stop); !status.ok()) Fail(std::move(status));
  }
}

Result<ShardSetSummary> Conversion::Run(const Progress& total, const ProgressFunction& progress) {
  const auto report = [&] {
    Progress now = total;
    now.records_done = tally_.records.load(std::memory_order_relaxed);
    now.bytes_done = tally_.bytes.load(std::memory_order_relaxed);
    if (progress) progress(now);
  };

  const uint64_t wanted = options_.threads > 0 ? static_cast<uint64_t>(options_.threads)
                                               : std::thread::hardware_concurrency();
  const uint64_t count = std::clamp<uint64_t>(wanted, 1, shards_);
  {
    MutexLock lock(mu_);
    running_workers_ = count;
  }
  EMLIO_ASSIGN_OR_RETURN(std::vector<Thread> workers,
                         StartPool("convert", static_cast<int>(count),
                                   [this](int, std::stop_token) { Work(stop_.get_token()); }));
  if (workers.size() < count) {
    MutexLock lock(mu_);
    running_workers_ -= count - workers.size();
  }
  while (true) {
    {
      MutexLock lock(mu_);
      const auto deadline = std::chrono::steady_clock::now() + kProgressInterval;
      while (running_workers_ > 0 && worker_ended_.WaitUntil(mu_, deadline)) {
      }
      if (running_workers_ == 0) break;
    }
    report();
    if (options_.stop.stop_requested()) Fail(Cancelled("the conversion was interrupted"));
  }
  for (Thread& worker : workers) worker.Join();

  MutexLock lock(mu_);
  if (gave_up_) {
    // What cannot be removed is complete and valid in itself; the first failure matters more.
    for (const std::string& path : finished_) (void)RemoveFile(path);
    return status_;
  }
  report();
  return summary_;
}

}  // namespace

Status ShardSink::Append(std::span<const uint8_t> payload, uint64_t source_bytes) {
  if (stop_.stop_requested()) return Cancelled("the conversion was given up");
  EMLIO_RETURN_IF_ERROR(writer_->Append(payload));
  tally_->records.fetch_add(1, std::memory_order_relaxed);
  tally_->bytes.fetch_add(source_bytes, std::memory_order_relaxed);
  return OkStatus();
}

Status CheckDestination(const ShardSetOptions& options) {
  const std::string& prefix = options.prefix;
  if (prefix.empty() || prefix.front() == '.' || prefix.size() > 200 ||
      prefix.find_first_of(std::string_view("/\n\0", 3)) != std::string::npos) {
    return InvalidArgument(
        fmt::format("prefix '{}' cannot begin a shard's file name: use 1 to 200 characters, no '/' "
                    "and no '.' in front",
                    prefix));
  }
  if (options.destination.empty()) return InvalidArgument("no destination folder was given");
  EMLIO_RETURN_IF_ERROR(CheckThreadCount("threads", options.threads));
  EMLIO_RETURN_IF_ERROR(MakeDirectories(options.destination));
  if (options.overwrite) return OkStatus();
  EMLIO_ASSIGN_OR_RETURN(const auto present, ShardsIn(options.destination));
  if (!present.empty()) {
    return InvalidArgument(
        fmt::format("{} holds {} shard{} already ({}{}), which would be read together with the new "
                    "ones: choose "
                    "another folder, or replace them with the overwrite option",
                    options.destination, present.size(), present.size() == 1 ? "" : "s", present[0],
                    present.size() == 1 ? "" : ", ..."));
  }
  return OkStatus();
}

Status CheckShardCount(uint64_t shards, uint64_t records) {
  const uint64_t most = std::min(kMaxShards, records);
  if (shards >= 1 && shards <= most) return OkStatus();
  return InvalidArgument(
      fmt::format("{} records cannot fill {} shards: use 1 to {} shards", records, shards, most));
}

Result<ShardSetSummary> WriteShardSet(const ShardSetOptions& options, uint64_t shards,
                                      const FillShard& fill, const Progress& total,
                                      const ProgressFunction& progress) {
  EMLIO_ASSIGN_OR_RETURN(const auto present, ShardsIn(options.destination));
  Conversion conversion(options, shards, fill);
  EMLIO_ASSIGN_OR_RETURN(const ShardSetSummary summary, conversion.Run(total, progress));
  std::vector<std::string> names;
  names.reserve(shards);
  for (uint64_t i = 0; i < shards; ++i) names.push_back(ShardName(options.prefix, i, shards));
  for (const std::string& name : present) {
    if (std::binary_search(names.begin(), names.end(), name)) continue;
    EMLIO_RETURN_IF_ERROR(RemoveFile(PathOf(options, name)));
    EMLIO_RETURN_IF_ERROR(RemoveFile(PathOf(options, name + tfrecord::kIndexSuffix)));
  }
  return summary;
}

}  // namespace emlio::convert
