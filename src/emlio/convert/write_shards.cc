// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/convert/write_shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "emlio/base/file.h"
#include "emlio/base/log.h"
#include "emlio/base/mutex.h"
#include "emlio/convert/shard_names.h"
#include "emlio/convert/shard_pool.h"
#include "emlio/tfrecord/index.h"
#include "emlio/tfrecord/reader.h"
#include "emlio/tfrecord/record.h"
#include "emlio/tfrecord/writer.h"

namespace emlio::convert {
namespace {

namespace fs = std::filesystem;

// A few small shards harm nobody; from so many on it is their number that costs.
constexpr uint64_t kManyShards = 32;
constexpr uint64_t kSmallShardBytes = uint64_t{16} << 20;
constexpr uint64_t kLargeShardBytes = uint64_t{4} << 30;

void Advise(const ShardSet& set) {
  const uint64_t bytes = set.total.bytes_total;
  const uint64_t each = bytes / set.shards;
  const bool small = set.shards > kManyShards && each < kSmallShardBytes;
  if (bytes == 0 || (!small && each <= kLargeShardBytes)) return;
  const uint64_t better = RecommendedShards(bytes, set.total.records_total);
  LogWarning("{} shards of about {:.1f} MiB are {}; {} of about {:.0f} MiB would be better",
             set.shards, static_cast<double>(each) / (1 << 20),
             small ? "small: each costs an open file and an index"
                   : "large: each is copied, or made again, as a whole",
             better, static_cast<double>(bytes / better) / (1 << 20));
}

class WritingSink : public ShardSink {
 public:
  WritingSink(tfrecord::ShardWriter* writer, Tally* tally, std::stop_token stop)
      : ShardSink(tally, std::move(stop)), writer_(writer) {}

 private:
  Status Take(std::span<const uint8_t> payload, std::string_view /*source*/) override {
    return writer_->Append(payload);
  }

  tfrecord::ShardWriter* const writer_;
};

// One conversion.
class Conversion {
 public:
  Conversion(const ShardSetOptions& options, const ShardSet& set)
      : options_(options), set_(set), folder_(PathIn(options.destination, kUnfinishedFolder)) {}

  Result<ShardSetSummary> Run(const ProgressFunction& progress);

 private:
  static std::string PathIn(const std::string& folder, std::string_view name) {
    return (fs::path(folder) / name).string();
  }
  std::string Name(uint64_t shard) const { return set_.Name(options_, shard); }

  // Finds out what is there, takes the unfinished folder and clears it of what is of no use.
  Status Begin();
  Status CheckState(const ConversionState& state) const;
  // Whether shards that are not this conversion's are in the way.
  Status CheckPresent() const;
  Status ClearFolder() const;
  // A shard that an earlier run has finished and that is still good.
  bool Keep(uint64_t shard) EMLIO_EXCLUDES(mu_);
  Status Write(uint64_t shard, const std::stop_token& stop) EMLIO_EXCLUDES(mu_);
  void Count(const FinishedShard& shard) EMLIO_REQUIRES(mu_);
  // Puts everything in its place.
  Status Install();
  // What is kept after `reason` ended the conversion, as a part of its message.
  Status GiveUp(const Status& reason) EMLIO_EXCLUDES(mu_);

  const ShardSetOptions& options_;
  const ShardSet& set_;
  const std::string folder_;
  Tally tally_;

  // Set by Begin.
  std::vector<std::string> present_;  // shards in the destination
  std::unique_ptr<DirectoryLock> lock_;
  std::map<uint64_t, FinishedShard> candidates_;  // of an earlier run
  bool was_complete_ = false;

  Mutex mu_;
  std::unique_ptr<AppendFile> state_ EMLIO_GUARDED_BY(mu_);
  ShardSetSummary summary_ EMLIO_GUARDED_BY(mu_);
};

Result<ShardSetSummary> Conversion::Run(const ProgressFunction& progress) {
  EMLIO_RETURN_IF_ERROR(Begin());
  Advise(set_);
  const auto work = [this](uint64_t shard, const std::stop_token& stop) {
    return Keep(shard) ? OkStatus() : Write(shard, stop);
  };
  const auto report = [&] {
    if (progress) progress(tally_.Of(set_.total));
  };
  if (const Status status = ForEachShard(options_, set_.shards, work, report); !status.ok()) {
    return GiveUp(status);
  }
  report();
  if (const Status status = Install(); !status.ok()) return GiveUp(status);
  MutexLock lock(mu_);
  return summary_;
}

Status Conversion::Begin() {
  EMLIO_RETURN_IF_ERROR(MakeDirectories(options_.destination));
  EMLIO_ASSIGN_OR_RETURN(present_, ShardNamesIn(options_.destination));
  std::error_code error;
  if (!fs::exists(folder_, error)) EMLIO_RETURN_IF_ERROR(CheckPresent());
  EMLIO_RETURN_IF_ERROR(MakeDirectories(folder_));
  EMLIO_ASSIGN_OR_RETURN(lock_, DirectoryLock::Take(folder_));

  const std::string state_path = PathIn(folder_, kStateName);
  const auto text = ReadWholeFile(state_path, kMaxStateBytes);
  if (!text.ok() && text.status().code() != Code::kNotFound) return text.status();
  auto state = ParseState(text.ok() ? *text : std::string());
  if (state.ok()) {
    if (const Status status = CheckState(*state); !status.ok()) {
      if (!options_.overwrite) return status;
      state = ConversionState();
    }
  } else {
    if (text.ok()) LogWarning("{}: {}; beginning anew", state_path, state.status().message());
    state = ConversionState();
  }
  was_complete_ = state->complete;
  EMLIO_RETURN_IF_ERROR(CheckPresent());

  std::string known = StateHead(set_.options);
  for (const auto& [shard, finished] : state->shards) {
    if (shard >= set_.shards || finished.source != set_.source(shard)) continue;
    candidates_.emplace(shard, finished);
    known += StateLine(shard, finished);
  }
  if (was_complete_) known += StateEnd();
  EMLIO_RETURN_IF_ERROR(ClearFolder());
  EMLIO_ASSIGN_OR_RETURN(const auto file, AtomicFile::Create(state_path));
  EMLIO_RETURN_IF_ERROR(file->Append(known.data(), known.size()));
  EMLIO_RETURN_IF_ERROR(file->Commit());
  MutexLock lock(mu_);
  EMLIO_ASSIGN_OR_RETURN(state_, AppendFile::Open(state_path));
  return OkStatus();
}

Status Conversion::CheckState(const ConversionState& state) const {
  if (state.options == set_.options) return OkStatus();
  const std::map<std::string, std::string> here(set_.options.begin(), set_.options.end());
  const std::map<std::string, std::string> there(state.options.begin(), state.options.end());
  std::string difference = "other options";
  for (const auto& [name, value] : set_.options) {
    const auto other = there.find(name);
    if (other == there.end() || other->second == value) continue;
    difference = fmt::format("{} {} instead of {}", name, other->second, value);
    break;
  }
  return InvalidArgument(
      fmt::format("{} holds an unfinished conversion with {}: finish it with the options that it "
                  "was begun with, choose another folder, or drop it with the overwrite option",
                  options_.destination, difference));
}

Status Conversion::CheckPresent() const {
  std::set<std::string> others(present_.begin(), present_.end());
  // Once all was finished, what lies in the destination may be of this very conversion.
  for (uint64_t i = 0; (was_complete_ || options_.overwrite) && i < set_.shards; ++i) {
    others.erase(Name(i));
  }
  if (options_.overwrite) {
    // Nothing is removed that may be something else.
    const auto other = std::find_if_not(others.begin(), others.end(), IsShardName);
    if (other == others.end()) return OkStatus();
    return InvalidArgument(
        fmt::format("{} holds {}, which would be read together with the new shards: move it away, "
                    "or choose another folder",
                    options_.destination, *other));
  }
  if (others.empty()) return OkStatus();
  return InvalidArgument(
      fmt::format("{} holds {} shard{} already ({}{}), which would be read together with the new "
                  "ones: choose another folder, or replace them with the overwrite option",
                  options_.destination, others.size(), others.size() == 1 ? "" : "s",
                  *others.begin(), others.size() == 1 ? "" : ", ..."));
}

Status Conversion::ClearFolder() const {
  std::set<std::string> kept = {kStateName};
  for (const auto& [shard, finished] : candidates_) kept.insert(Name(shard));
  for (const auto& [name, content] : set_.files) kept.insert(name);
  EMLIO_ASSIGN_OR_RETURN(const auto names, NamesInDirectory(folder_));
  for (const std::string& name : names) {
    if (!kept.contains(name)) EMLIO_RETURN_IF_ERROR(RemoveFile(PathIn(folder_, name)));
  }
  return OkStatus();
}

bool Conversion::Keep(uint64_t shard) {
  const auto found = candidates_.find(shard);
  if (found == candidates_.end()) return false;
  const FinishedShard& finished = found->second;
  const auto holds = [&](const std::string& folder) {
    const auto file = OpenForReading(PathIn(folder, Name(shard)));
    if (!file.ok()) return false;
    tfrecord::IndexOptions options;
    options.max_record_bytes = tfrecord::kHighestMaxRecordBytes;
    const auto index = tfrecord::ShardIndex::Build(**file, options);
    if (!index.ok() || index->records() != finished.records ||
        index->payload_bytes() != finished.payload_bytes ||
        index->fingerprint() != finished.fingerprint) {
      return false;
    }
    // The fingerprint is over stored checksums: whether the payloads still have them is another
    // question.
    const auto reader = tfrecord::ShardReader::Open(file->get(), tfrecord::kHighestMaxRecordBytes);
    if (!reader.ok()) return false;
    std::span<const uint8_t> payload;
    Result<bool> more = true;
    while (more.ok() && *more) more = (*reader)->Next(&payload);
    return more.ok();
  };
  if (!holds(folder_) && !(was_complete_ && holds(options_.destination))) return false;
  tally_.records += finished.records;
  tally_.bytes += finished.source_bytes;
  tally_.records_kept += finished.records;
  tally_.bytes_kept += finished.source_bytes;
  MutexLock lock(mu_);
  Count(finished);
  ++summary_.kept_shards;
  return true;
}

Status Conversion::Write(uint64_t shard, const std::stop_token& stop) {
  EMLIO_ASSIGN_OR_RETURN(const auto writer,
                         tfrecord::ShardWriter::Create(PathIn(folder_, Name(shard))));
  WritingSink sink(writer.get(), &tally_, stop);
  EMLIO_RETURN_IF_ERROR(set_.fill(shard, &sink));
  EMLIO_RETURN_IF_ERROR(writer->Commit());
  const FinishedShard finished = {.source = set_.source(shard),
                                  .records = writer->records(),
                                  .payload_bytes = writer->payload_bytes(),
                                  .source_bytes = sink.source_bytes(),
                                  .fingerprint = writer->fingerprint()};
  MutexLock lock(mu_);
  EMLIO_RETURN_IF_ERROR(state_->Append(StateLine(shard, finished)));
  Count(finished);
  return OkStatus();
}

void Conversion::Count(const FinishedShard& shard) {
  ++summary_.shards;
  summary_.records += shard.records;
  summary_.payload_bytes += shard.payload_bytes;
  summary_.file_bytes += shard.payload_bytes + tfrecord::kFramingBytes * shard.records;
}

Status Conversion::Install() {
  std::vector<std::string> names;
  for (const auto& [name, content] : set_.files) {
    EMLIO_ASSIGN_OR_RETURN(const auto file, AtomicFile::Create(PathIn(folder_, name)));
    EMLIO_RETURN_IF_ERROR(file->Append(content.data(), content.size()));
    EMLIO_RETURN_IF_ERROR(file->Commit());
    names.push_back(name);
  }
  {
    MutexLock lock(mu_);
    if (!was_complete_) EMLIO_RETURN_IF_ERROR(state_->Append(StateEnd()));
  }
  for (uint64_t i = 0; i < set_.shards; ++i) names.push_back(Name(i));

  // From here on the new set is safe. What it replaces goes first: nobody shall see two sets mixed.
  const std::set<std::string> new_names(names.begin(), names.end());
  for (const std::string& name : present_) {
    const std::string path = PathIn(options_.destination, name);
    if (!new_names.contains(name)) EMLIO_RETURN_IF_ERROR(RemoveFile(path));
    EMLIO_RETURN_IF_ERROR(RemoveFile(path + tfrecord::kIndexSuffix));
    EMLIO_RETURN_IF_ERROR(RemoveFile(path + ".idx"));  // DALI's
  }
  for (const std::string& name : names) {
    std::error_code error;
    const std::string from = PathIn(folder_, name);
    if (!fs::exists(from, error)) continue;  // moved by an earlier run
    EMLIO_RETURN_IF_ERROR(MoveFile(from, PathIn(options_.destination, name)));
  }
  EMLIO_RETURN_IF_ERROR(SyncDirectory(options_.destination));
  std::error_code error;
  fs::remove_all(folder_, error);
  if (error) return ErrnoStatus(error.value(), fmt::format("cannot remove {}", folder_));
  return OkStatus();
}

Status Conversion::GiveUp(const Status& reason) {
  MutexLock lock(mu_);
  if (summary_.shards == 0) {
    std::error_code error;
    fs::remove_all(folder_, error);  // there is nothing in it; the reason matters more
    return reason;
  }
  return {reason.code(),
          fmt::format("{}; {} of {} shards are finished and kept in {}: the same command goes on "
                      "with them",
                      reason.message(), summary_.shards, set_.shards, folder_)};
}

}  // namespace

Result<ShardSetSummary> WriteShards(const ShardSetOptions& options, const ShardSet& set,
                                    const ProgressFunction& progress) {
  return Conversion(options, set).Run(progress);
}

}  // namespace emlio::convert
