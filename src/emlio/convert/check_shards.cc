// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/convert/check_shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "emlio/base/file.h"
#include "emlio/base/mutex.h"
#include "emlio/convert/shard_names.h"
#include "emlio/convert/shard_pool.h"
#include "emlio/convert/write_shards.h"
#include "emlio/tfrecord/reader.h"

namespace emlio::convert {
namespace {

namespace fs = std::filesystem;

std::string PathIn(const ShardSetOptions& options, const std::string& name) {
  return (fs::path(options.destination) / name).string();
}

// Compares what it is given with what a shard holds.
class ComparingSink : public ShardSink {
 public:
  ComparingSink(std::string path, tfrecord::ShardReader* reader, Tally* tally, std::stop_token stop)
      : ShardSink(tally, std::move(stop)), path_(std::move(path)), reader_(reader) {}

  // To be called behind the last Append.
  Status End() {
    std::span<const uint8_t> there;
    EMLIO_ASSIGN_OR_RETURN(const bool more, reader_->Next(&there));
    if (!more) return OkStatus();
    return Corrupt(
        fmt::format("{}: the source has no such record, the shard should end here", Place()));
  }
  uint64_t records() const { return records_; }
  uint64_t payload_bytes() const { return payload_bytes_; }

 private:
  Status Take(std::span<const uint8_t> payload, std::string_view source) override {
    std::span<const uint8_t> there;
    EMLIO_ASSIGN_OR_RETURN(const bool more, reader_->Next(&there));
    if (!more) {
      return Corrupt(fmt::format("shard {} ends after {} records: the one made of {} is missing",
                                 path_, records_, source));
    }
    const auto [differs, expected] =
        std::mismatch(there.begin(), there.end(), payload.begin(), payload.end());
    if (differs != there.end() || expected != payload.end()) {
      return Corrupt(
          fmt::format("{}: is not what {} gives ({} bytes, should be {}; they differ from byte {} "
                      "on)",
                      Place(), source, there.size(), payload.size(), differs - there.begin()));
    }
    ++records_;
    payload_bytes_ += payload.size();
    return OkStatus();
  }

  std::string Place() const { return tfrecord::Place(path_, reader_->record(), reader_->offset()); }

  const std::string path_;
  tfrecord::ShardReader* const reader_;
  uint64_t records_ = 0;
  uint64_t payload_bytes_ = 0;
};

// The destination holds the files of the set and no other shards.
Status CheckNames(const ShardSetOptions& options, const ShardSet& set) {
  EMLIO_ASSIGN_OR_RETURN(const auto present, ShardNamesIn(options.destination));
  std::set<std::string> others(present.begin(), present.end());
  std::string missing;
  for (uint64_t i = 0; i < set.shards; ++i) {
    std::string name = set.Name(options, i);
    if (others.erase(name) == 0 && missing.empty()) missing = std::move(name);
  }
  if (!missing.empty()) {
    std::error_code error;
    std::string why;
    if (fs::exists(PathIn(options, kUnfinishedFolder), error)) {
      why = "; it holds an unfinished conversion: the same command without the check finishes it";
    } else if (!others.empty()) {
      why = fmt::format("; it holds {}: are these the options of the conversion?", *others.begin());
    }
    return NotFound(fmt::format("{} holds no shard {}{}", options.destination, missing, why));
  }
  if (!others.empty()) {
    return Corrupt(fmt::format("{} is not a shard that the source gives, but lies among them",
                               PathIn(options, *others.begin())));
  }
  for (const auto& [name, content] : set.files) {
    const std::string path = PathIn(options, name);
    const auto there = ReadWholeFile(path, content.size());
    if (there.ok() ? *there != content : there.status().code() == Code::kLimitExceeded) {
      return Corrupt(fmt::format("{} is not what the source gives", path));
    }
    EMLIO_RETURN_IF_ERROR(there.status());
  }
  return OkStatus();
}

}  // namespace

Result<ShardSetSummary> CheckShards(const ShardSetOptions& options, const ShardSet& set,
                                    const ProgressFunction& progress) {
  EMLIO_RETURN_IF_ERROR(CheckNames(options, set));
  Tally tally;
  struct {
    Mutex mu;
    ShardSetSummary summary EMLIO_GUARDED_BY(mu);
  } shared;
  const auto check = [&](uint64_t shard, const std::stop_token& stop) -> Status {
    const std::string path = PathIn(options, set.Name(options, shard));
    EMLIO_ASSIGN_OR_RETURN(const auto file, OpenForReading(path));
    EMLIO_ASSIGN_OR_RETURN(const FileIdentity identity, file->Identity());
    EMLIO_ASSIGN_OR_RETURN(const auto reader, tfrecord::ShardReader::Open(
                                                  file.get(), tfrecord::kHighestMaxRecordBytes));
    ComparingSink sink(path, reader.get(), &tally, stop);
    EMLIO_RETURN_IF_ERROR(set.fill(shard, &sink));
    EMLIO_RETURN_IF_ERROR(sink.End());
    MutexLock lock(shared.mu);
    ++shared.summary.shards;
    shared.summary.records += sink.records();
    shared.summary.payload_bytes += sink.payload_bytes();
    shared.summary.file_bytes += identity.size_bytes;
    return OkStatus();
  };
  const auto report = [&] {
    if (progress) progress(tally.Of(set.total));
  };
  EMLIO_RETURN_IF_ERROR(ForEachShard(options, set.shards, check, report));
  report();
  MutexLock lock(shared.mu);
  return shared.summary;
}

}  // namespace emlio::convert
