// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/dataset/open_shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "emlio/base/crc32c.h"
#include "emlio/base/file.h"
#include "emlio/dataset/known_offsets.h"
#include "emlio/tfrecord/content.h"
#include "emlio/tfrecord/record.h"

namespace emlio::dataset {
namespace {

using tfrecord::ShardIndex;

// What opening one shard needs, with the options of its data set.
class Opener {
 public:
  Opener(const DatasetOptions& options, ProgressReporter* reporter, const std::stop_token& stop)
      : options_(options), reporter_(reporter), stop_(stop) {}

  void Open(const FoundShard& found, OpenOutcome* outcome) const {
    auto data = ShardData::Open(found.path, options_.io, options_.max_descriptors > 0);
    if (!data.ok()) {
      outcome->status = data.status();
      return;
    }
    const FileIdentity identity = data->identity();
    auto index = LoadIndex(found.path, identity, outcome);
    const bool has_index = index.has_value();
    uint64_t untold_bytes = identity.size_bytes;
    if (!has_index) {
      auto built = BuildIndex(found.path, identity, &untold_bytes, &outcome->damage);
      if (!built.ok()) {
        outcome->status = built.status();
        return;
      }
      // One of a shard that was cut between two records, or that has a damaged length, would look
      // like one of a whole shard to those who take damage for an error.
      const bool looks_whole = outcome->damage.bad_records > 0 ||
                               (!outcome->damage.unreadable.ok() && built->unreadable_bytes() == 0);
      index = looks_whole ? *std::move(built)
                          : SaveIndex(found.path, *std::move(built), &outcome->unsaved);
      if (options_.index_policy != IndexPolicy::kUse) outcome->status = outcome->unsaved;
    }
    outcome->shard = OpenedShard{found.path, *std::move(data), *std::move(index)};
    reporter_->Opened(untold_bytes, !has_index);
  }

 private:
  // In the index directory; empty when there is none.
  std::string CachedIndexPath(const std::string& shard_path) const {
    std::error_code error;
    const auto real_path = std::filesystem::canonical(shard_path, error);
    if (error || options_.index_directory.empty()) return "";
    const std::string& name = real_path.native();
    return fmt::format("{}/{}{}", options_.index_directory, ToHex(Xxh3(name.data(), name.size())),
                       tfrecord::kIndexSuffix);
  }
  static std::string IndexPathBeside(const std::string& shard_path) {
    return shard_path + tfrecord::kIndexSuffix;
  }

  // Where a new one is kept; empty when there is no such place.
  std::string IndexPath(const std::string& shard_path) const {
    return options_.index_beside ? IndexPathBeside(shard_path) : CachedIndexPath(shard_path);
  }

  // Tables of up to 8 MiB, which takes about a millisecond each.
  static constexpr uint64_t kMaxCheckedRecords = uint64_t{1} << 20;

  // An index may have been left in either place, whatever the options say about new ones.
  std::optional<ShardIndex> LoadIndex(const std::string& shard_path, const FileIdentity& identity,
                                      OpenOutcome* outcome) const {
    std::vector<std::string> places;
    switch (options_.index_policy) {
      case IndexPolicy::kUse:
        places = {IndexPathBeside(shard_path), CachedIndexPath(shard_path)};
        break;
      case IndexPolicy::kEnsure:
        places = {IndexPath(shard_path)};
        break;
      case IndexPolicy::kRebuild:
        break;
    }
    for (const std::string& path : places) {
      if (path.empty()) continue;
      auto index = ShardIndex::Load(path, identity);
      Status status = index.status();
      if (status.ok() && (options_.index_policy == IndexPolicy::kEnsure ||
                          index->records() <= kMaxCheckedRecords)) {
        status = index->CheckTable();
      }
      // One that has a record over the limit is looked at anew: building names the record.
      if (status.ok() && index->max_record_bytes() <= options_.max_record_bytes &&
          (index->unreadable_bytes() == 0 ||
           FindDamageAgain(shard_path, *index, &outcome->damage))) {
        outcome->stale.clear();
        return *std::move(index);
      }
      if (!status.ok() && status.code() != Code::kNotFound) outcome->stale = status.message();
    }
    return std::nullopt;
  }

  // The index says that the shard's end cannot be read: what is wrong there? False when nothing is,
  // or when damage is an error: both are found out by indexing the shard again.
  bool FindDamageAgain(const std::string& shard_path, const ShardIndex& index,
                       tfrecord::Damage* damage) const {
    if (options_.on_bad_shard == BadShardPolicy::kError) return false;
    const auto file = OpenForReading(shard_path);
    if (!file.ok()) return false;
    const uint64_t file_bytes = index.shard_identity().size_bytes;
    const uint64_t offset = file_bytes - index.unreadable_bytes();
    std::array<uint8_t, tfrecord::kHeaderBytes> header;
    const auto read = (*file)->ReadAt(offset, header.size(), header.data());
    if (!read.ok()) return false;
    uint64_t payload_bytes = 0;
    damage->unreadable =
        tfrecord::HeaderChecker{**file, file_bytes, options_.max_record_bytes}.Check(
            index.records(), offset, {header.data(), *read}, &payload_bytes);
    return !damage->unreadable.ok();
  }

  // What indexes made earlier, of whatever state of the shard, know about it.
  class Known {
   public:
    void AddSaved(const std::string& index_path) {
      if (index_path.empty()) return;
      auto index = ShardIndex::LoadAny(index_path);
      if (index.ok() && index->CheckTable().ok()) {
        Add(std::make_unique<ShardIndex>(*std::move(index)), index_path);
      }
    }
    void AddDali(const std::string& index_path) {
      auto offsets = DaliOffsets::Read(index_path);
      if (offsets.ok()) Add(std::make_unique<DaliOffsets>(*std::move(offsets)), index_path);
    }
    std::span<const tfrecord::KnownOffsets* const> all() const { return pointers_; }
    const std::string& path(size_t i) const { return paths_[i]; }

   private:
    void Add(std::unique_ptr<tfrecord::KnownOffsets> known, const std::string& path) {
      pointers_.push_back(known.get());
      owned_.push_back(std::move(known));
      paths_.push_back(path);
    }
    std::vector<std::unique_ptr<tfrecord::KnownOffsets>> owned_;
    std::vector<const tfrecord::KnownOffsets*> pointers_;
    std::vector<std::string> paths_;
  };

  static constexpr char kDaliSuffix[] = ".idx";

  // kTruncated: what lies beside the shard knows of more records, and the shard ends where one of
  // them begins. An index elsewhere may be of a data set that was meant to be replaced.
  static Status CheckNotCut(const std::string& shard_path, const ShardIndex& built) {
    Known known;
    known.AddSaved(IndexPathBeside(shard_path));
    known.AddDali(shard_path + kDaliSuffix);
    for (size_t i = 0; i < known.all().size(); ++i) {
      const tfrecord::KnownOffsets& offsets = *known.all()[i];
      if (built.records() >= offsets.records()) continue;
      const auto next = offsets.Locate(built.records());
      if (!next.has_value() || next->offset != built.shard_identity().size_bytes) continue;
      return Truncated(
          fmt::format("shard {} ends after {} records at offset {}, but {} counts {} records: the "
                      "shard was cut "
                      "between two records; if it is right, run 'emlio index --rebuild'",
                      shard_path, built.records(), next->offset, known.path(i), offsets.records()));
    }
    return OkStatus();
  }

  Result<ShardIndex> BuildIndex(const std::string& shard_path, const FileIdentity& identity,
                                uint64_t* untold_bytes, tfrecord::Damage* damage) const {
    EMLIO_ASSIGN_OR_RETURN(const auto file, OpenForReading(shard_path));
    tfrecord::IndexOptions options;
    options.max_record_bytes = options_.max_record_bytes;
    options.stop = stop_;
    options.progress = [&](uint64_t bytes) {
      *untold_bytes -= std::min(bytes, *untold_bytes);
      reporter_->Indexed(bytes);
    };
    auto index = ShardIndex::Build(*file, options);
    if (!index.ok() && index.status().code() == Code::kUnsupported) {
      EMLIO_ASSIGN_OR_RETURN(const bool is_empty, tfrecord::IsEmptyGzip(*file));
      if (is_empty) index = ShardIndex(identity);
    }
    const bool keep_readable = options_.on_bad_shard == BadShardPolicy::kKeepReadable;
    if (index.ok() && options_.index_policy != IndexPolicy::kRebuild) {
      Status cut = CheckNotCut(shard_path, *index);
      if (!cut.ok() && !keep_readable) return cut;
      damage->unreadable = std::move(cut);
    } else if (!index.ok() && keep_readable) {
      Known known;
      known.AddSaved(IndexPathBeside(shard_path));
      known.AddSaved(CachedIndexPath(shard_path));
      known.AddDali(shard_path + kDaliSuffix);
      options.keep_readable = true;
      options.known = known.all();
      options.progress = nullptr;
      index = ShardIndex::Build(*file, options, damage);
    }
    if (index.ok() && index->shard_identity() != identity) {
      return ShardChanged(
          fmt::format("shard {} was replaced while it was opened: try again", shard_path));
    }
    return index;
  }

  // Returns the index to use: the saved one, which takes no memory, or the given one.
  ShardIndex SaveIndex(const std::string& shard_path, ShardIndex index, Status* unsaved) const {
    if (index.records() == 0) return index;
    const std::string path = IndexPath(shard_path);
    if (path.empty()) {
      *unsaved = NotFound("neither XDG_CACHE_HOME nor HOME is set");
      return index;
    }
    Status status = options_.index_beside ? OkStatus() : MakeDirectories(options_.index_directory);
    if (status.ok()) status = index.Save(path);
    if (!status.ok()) {
      *unsaved = std::move(status);
      return index;
    }
    auto saved = ShardIndex::Load(path, index.shard_identity());
    return saved.ok() ? *std::move(saved) : std::move(index);
  }

  const DatasetOptions& options_;
  ProgressReporter* const reporter_;
  const std::stop_token& stop_;
};

}  // namespace

std::string DefaultIndexDirectory() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return std::string(cache) + "/emlio/index";
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') return std::string(home) + "/.cache/emlio/index";
  return "";
}

OpenOutcome OpenShard(const FoundShard& found, const DatasetOptions& options,
                      ProgressReporter* reporter, const std::stop_token& stop) {
  OpenOutcome outcome;
  Opener(options, reporter, stop).Open(found, &outcome);
  return outcome;
}

}  // namespace emlio::dataset
