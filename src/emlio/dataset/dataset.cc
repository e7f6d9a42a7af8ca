// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/dataset/dataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <optional>
#include <set>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>

#include "emlio/base/crc32c.h"
#include "emlio/base/endian.h"
#include "emlio/base/file.h"
#include "emlio/base/log.h"
#include "emlio/base/mutex.h"
#include "emlio/base/system_limits.h"
#include "emlio/base/thread.h"
#include "emlio/dataset/find_shards.h"
#include "emlio/dataset/known_offsets.h"
#include "emlio/tfrecord/content.h"
#include "emlio/tfrecord/index.h"
#include "emlio/tfrecord/record.h"

namespace emlio::dataset {
namespace {

using tfrecord::ShardIndex;

struct OpenedShard {
  std::string path;
  ShardData data;
  ShardIndex index;
};

// What opening one shard led to.
struct Outcome {
  Status status;
  std::optional<OpenedShard> shard;
  std::string stale;  // why a saved index was not used
  Status unsaved;     // why the new index is in memory only
  tfrecord::Damage damage;
};

// Adds up what the indexing threads do.
class ProgressReporter {
 public:
  ProgressReporter(const ProgressCallback& callback, uint64_t shards, uint64_t bytes)
      : callback_(callback) {
    progress_.shards_total = shards;
    progress_.bytes_total = bytes;
  }
  // Part of a shard was indexed.
  void Indexed(uint64_t bytes) EMLIO_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    progress_.bytes_done += bytes;
    indexing_ = true;
    if (callback_) callback_(progress_);
  }
  // A shard is open; `bytes` of it were not told by Indexed.
  void Opened(uint64_t bytes, bool was_indexed) EMLIO_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    progress_.bytes_done += bytes;
    ++progress_.shards_done;
    if (was_indexed) ++progress_.shards_indexed;
    indexing_ = indexing_ || was_indexed;
    if (callback_ && indexing_) callback_(progress_);
  }

 private:
  const ProgressCallback& callback_;
  Mutex mu_;
  Progress progress_ EMLIO_GUARDED_BY(mu_);
  bool indexing_ EMLIO_GUARDED_BY(mu_) = false;
};

// The default of DatasetOptions::index_directory; empty when the environment has no home.
std::string DefaultIndexDirectory() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return std::string(cache) + "/emlio/index";
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') return std::string(home) + "/.cache/emlio/index";
  return "";
}

// Opens shards with the options of one data set. Used by several threads at once.
class Opener {
 public:
  Opener(const DatasetOptions& options, ProgressReporter* reporter, std::stop_token stop)
      : options_(options),
        index_directory_(options.index_directory.empty() ? DefaultIndexDirectory()
                                                         : options.index_directory),
        reporter_(reporter),
        stop_(std::move(stop)) {}

  void Open(const FoundShard& found, Outcome* outcome) const {
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
    if (error || index_directory_.empty()) return "";
    const std::string& name = real_path.native();
    return fmt::format("{}/{}{}", index_directory_, ToHex(Xxh3(name.data(), name.size())),
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
                                      Outcome* outcome) const {
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
    Status status = options_.index_beside ? OkStatus() : MakeDirectories(index_directory_);
    if (status.ok()) status = index.Save(path);
    if (!status.ok()) {
      *unsaved = std::move(status);
      return index;
    }
    auto saved = ShardIndex::Load(path, index.shard_identity());
    return saved.ok() ? *std::move(saved) : std::move(index);
  }

  const DatasetOptions& options_;
  const std::string index_directory_;
  ProgressReporter* const reporter_;
  const std::stop_token stop_;
};

// Opens all, on several threads. Stops early when one cannot be opened; the outcome of the first in
// order that failed has the reason. kCancelled when it was interrupted.
Result<std::vector<Outcome>> OpenAll(const DatasetOptions& options,
                                     const std::vector<FoundShard>& found) {
  uint64_t bytes = 0;
  for (const FoundShard& shard : found) bytes += shard.identity.size_bytes;
  ProgressReporter reporter(options.progress, found.size(), bytes);
  std::stop_source stop;
  const Opener opener(options, &reporter, stop.get_token());

  std::vector<Outcome> outcomes(found.size());
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  Mutex mu;
  CondVar one_ended;
  size_t ended = 0;
  const auto work = [&] {
    for (size_t i; !failed && !stop.stop_requested() && (i = next++) < found.size();) {
      opener.Open(found[i], &outcomes[i]);
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
void LogDamage(const std::vector<Outcome>& outcomes) {
  constexpr size_t kMaxWarnings = 20;
  size_t damaged = 0;
  for (const Outcome& outcome : outcomes) {
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
void LogOutcomes(const std::vector<Outcome>& outcomes) {
  size_t stale = 0, unsaved = 0, empty = 0;
  const Outcome *first_stale = nullptr, *first_unsaved = nullptr, *first_empty = nullptr;
  const auto note = [](const Outcome& outcome, size_t* count, const Outcome** first) {
    if ((*count)++ == 0) *first = &outcome;
  };
  for (const Outcome& outcome : outcomes) {
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

class LocalDataset : public Dataset {
 public:
  LocalDataset(std::string name, Manifest manifest, std::vector<OpenedShard> shards, IoMode io,
               bool is_larger_than_memory)
      : name_(std::move(name)),
        manifest_(std::move(manifest)),
        shards_(std::move(shards)),
        io_(io),
        is_larger_than_memory_(is_larger_than_memory),
        indexes_(shards_.size()) {
    for (size_t i = 0; i < shards_.size(); ++i) indexes_[i] = &shards_[i].index;
  }

  const std::string& name() const override { return name_; }
  const Manifest& manifest() const override { return manifest_; }
  IoMode io() const override { return io_; }
  bool is_larger_than_memory() const override { return is_larger_than_memory_; }
  const std::string& path(uint32_t shard) const override { return shards_[shard].path; }

  RecordLocation Locate(uint32_t shard, uint64_t record) const override {
    const auto entry = indexes_[shard].load()->Locate(record);
    if (!entry.has_value()) return {};
    return {entry->offset + tfrecord::kHeaderBytes, entry->payload_bytes};
  }

  void Prefetch(uint32_t shard, uint64_t record) const override {
    indexes_[shard].load()->Prefetch(record);
  }

  void ReadAhead(std::span<const RecordId> records) const override {
    // About 1 MiB at a time, in which neighbours count as one.
    constexpr size_t kMaxRanges = 512;
    constexpr uint64_t kMaxBytes = uint64_t{1} << 20;
    std::array<Range, kMaxRanges> ranges;
    size_t count = 0;
    uint64_t bytes = 0;
    bool must_read = false;
    for (size_t i = 0; i < records.size(); ++i) {
      if (i + kPrefetchDistance < records.size()) {
        const RecordId& later = records[i + kPrefetchDistance];
        indexes_[later.shard].load()->Prefetch(later.record);
      }
      const RecordId& record = records[i];
      const OpenedShard& shard = shards_[record.shard];
      const auto entry = indexes_[record.shard].load()->Locate(record.record);
      if (!entry.has_value()) return;  // Gather reports it
      const uint64_t size = tfrecord::kHeaderBytes + entry->payload_bytes + tfrecord::kFooterBytes;
      if (count > 0 && ranges[count - 1].data == &shard.data &&
          ranges[count - 1].offset + ranges[count - 1].size == entry->offset) {
        ranges[count - 1].size += size;
      } else {
        if (count == kMaxRanges) {
          must_read |= ReadMissing({ranges.data(), count});
          count = 0;
          bytes = 0;
        }
        ranges[count++] = {&shard.data, entry->offset, size};
      }
      bytes += size;
      if (bytes >= kMaxBytes) {
        must_read |= ReadMissing({ranges.data(), count});
        count = 0;
        bytes = 0;
      }
    }
    must_read |= ReadMissing({ranges.data(), count});
    if (must_read) {
      calls_in_memory_ = 0;
    } else {
      ++calls_in_memory_;
    }
  }

  bool seems_in_memory() const override { return calls_in_memory_ >= 8; }

  using Dataset::Gather;
  using Dataset::VerifyRecord;

  Status Gather(std::span<GatherItem> items, BadItem* bad) const override {
    for (size_t at = 0; at < items.size(); at += kGatheredTogether) {
      const size_t count = std::min(kGatheredTogether, items.size() - at);
      Suspect suspect;
      Status status = GatherSome(items.subspan(at, count), &suspect);
      if (status.ok()) continue;
      Status reason;  // why the record is bad
      if (suspect.is_unread) {
        if (IsAsOpened(suspect.shard)) {
          reason = IoError("the system cannot read it, although the file has not changed");
        }
      } else if (suspect.index != nullptr) {
        status = Mend(suspect, status, &reason);
      }
      if (reason.ok()) return status;
      if (bad != nullptr) *bad = {at + suspect.position, reason};
      const GatherItem& item = items[at + suspect.position];
      return reason.WithContext(
          tfrecord::Place(shards_[item.shard].path, item.record,
                          Locate(item.shard, item.record).payload_offset - tfrecord::kHeaderBytes));
    }
    return OkStatus();
  }

  void LetGo(std::span<const GatherItem> items) const override {
    for (const GatherItem& item : items) {
      const uint64_t offset = Locate(item.shard, item.record).payload_offset;
      shards_[item.shard].data.WillNotNeed(offset + item.begin, item.size);
    }
  }

  bool FindInMemory(std::span<const GatherItem> items,
                    std::vector<StoredPiece>* pieces) const override {
    for (const GatherItem& item : items) {
      const ShardData& data = shards_[item.shard].data;
      const auto entry = indexes_[item.shard].load()->Locate(item.record);
      if (!entry.has_value() || item.size == 0 || item.size > entry->payload_bytes ||
          item.begin > entry->payload_bytes - item.size) {
        return false;
      }
      // What is around a record has to be read in any case, and tells whether its ends are in
      // memory.
      std::array<uint8_t, tfrecord::kHeaderBytes> header;
      std::array<uint8_t, tfrecord::kFooterBytes> footer;
      const uint64_t payload = entry->offset + tfrecord::kHeaderBytes;
      uint64_t payload_bytes = 0;
      if (!data.ReadFromMemory(entry->offset, header) ||
          !data.ReadFromMemory(payload + entry->payload_bytes, footer) ||
          !tfrecord::DecodeHeader(header.data(), &payload_bytes) ||
          payload_bytes != entry->payload_bytes) {
        return false;
      }
      if (item.size < payload_bytes) {
        std::array<uint8_t, 1> byte;
        const uint64_t begin = payload + item.begin;
        if (!data.ReadFromMemory(begin, byte) ||
            !data.ReadFromMemory(begin + item.size - 1, byte)) {
          return false;
        }
      }
      pieces->push_back({data.descriptor(), payload + item.begin, item.size,
                         UnmaskCrc(LoadLe<uint32_t>(footer.data()))});
    }
    return true;
  }

  Status CheckUnchanged(uint32_t shard) const override {
    const OpenedShard& opened = shards_[shard];
    // By its descriptor if it has one, which is cheaper, and sees what was done under another name.
    const auto now =
        opened.data.has_descriptor() ? opened.data.IdentityNow() : IdentityOf(opened.path);
    const FileIdentity& then = opened.data.identity();
    if (!now.ok() || now->inode != then.inode || now->device != then.device || *now == then) {
      return OkStatus();
    }
    return ShardChanged(
        fmt::format("shard {} was changed while it was open ({} bytes now, {} before); write new "
                    "files instead of changing them",
                    opened.path, now->size_bytes, then.size_bytes));
  }

  Status VerifyRecord(uint32_t shard, uint64_t record, BadItem* bad) const override {
    const OpenedShard& opened = shards_[shard];
    GatherItem item;
    item.shard = shard;
    item.record = record;
    const RecordLocation location = Locate(shard, record);
    std::vector<uint8_t> payload(location.payload_bytes);
    item.size = payload.size();
    item.to = payload.data();
    EMLIO_RETURN_IF_ERROR(Gather({&item, 1}, bad));
    const uint32_t computed = Crc32c(payload.data(), payload.size());
    if (computed == item.crc32c) return OkStatus();
    const uint64_t offset = location.payload_offset - tfrecord::kHeaderBytes;
    // A cut inside the last page reads as zeros: was the file changed, or is it damaged?
    if (Status status = CheckUnchanged(shard); !status.ok()) {
      return status.WithContext(tfrecord::Place(opened.path, record, offset));
    }
    if (bad != nullptr) {
      bad->reason = Corrupt("payload checksum does not match: damaged where it is stored");
    }
    return tfrecord::PayloadChecksumError(opened.path, record, offset, item.crc32c, computed);
  }

 private:
  struct Range {
    const ShardData* data = nullptr;
    uint64_t offset = 0;
    uint64_t size = 0;
  };

  // Asking for what is in memory already costs the system little, but more than gathering a small
  // record does: a few samples, and of each a few pages from its middle, tell how it is with the
  // others. Asking for what has to be read takes several times as long as asking for it once more.
  // One in a hundred samples looks so only because something else had the processor; two at once
  // hardly ever.
  static bool ReadMissing(std::span<const Range> ranges) {
    constexpr size_t kSamples = 8;
    constexpr uint64_t kSampleBytes = uint64_t{32} << 10;
    constexpr std::chrono::nanoseconds kNoise{1000};
    const size_t stride = std::max<size_t>(1, ranges.size() / kSamples);
    const int enough = ranges.size() > kSamples ? 2 : 1;
    int missing = 0;
    for (size_t i = 0; i < ranges.size() && missing < enough; i += stride) {
      Range sample = ranges[i];
      sample.size = std::min(sample.size, kSampleBytes);
      sample.offset += (ranges[i].size - sample.size) / 2;
      if (IsInMemory(sample)) continue;
      const auto first = AskFor(sample);
      if (first > 2 * AskFor(sample) + kNoise) ++missing;
    }
    if (missing < enough) return false;
    for (const Range& range : ranges) (void)AskFor(range);
    return true;
  }
  // False also where that cannot be found out so.
  static bool IsInMemory(const Range& range) {
    std::array<uint8_t, 1> byte;
    return range.data->ReadFromMemory(range.offset, byte) &&
           range.data->ReadFromMemory(range.offset + range.size - 1, byte);
  }
  static std::chrono::nanoseconds AskFor(const Range& range) {
    const auto before = std::chrono::steady_clock::now();
    range.data->WillNeed(range.offset, range.size);
    return std::chrono::steady_clock::now() - before;
  }

  // Copies of so many records share one guard; the scratch for them lies on the stack.
  static constexpr size_t kGatheredTogether = 64;
  static constexpr size_t kPrefetchDistance = 8;

  // What may be to blame for an error.
  struct Suspect {
    uint32_t shard = 0;
    size_t position = 0;                // of the item
    const ShardIndex* index = nullptr;  // whose entry does not lead to a record
    bool is_unread = false;             // the item
  };

  // Whether the file under the shard's name is the one that was opened, and was not changed.
  bool IsAsOpened(uint32_t shard) const {
    const auto now = IdentityOf(shards_[shard].path);
    return now.ok() && *now == shards_[shard].data.identity();
  }

  // After an error that one item or its index may be to blame for, `suspect` names them. REQUIRES:
  // at most kGatheredTogether items.
  Status GatherSome(std::span<GatherItem> items, Suspect* suspect) const {
    struct Framing {
      std::array<uint8_t, tfrecord::kHeaderBytes> header;
      std::array<uint8_t, tfrecord::kFooterBytes> footer;
    };
    std::array<Framing, kGatheredTogether> framings;
    std::array<ShardIndex::Entry, kGatheredTogether> entries;
    std::array<const ShardIndex*, kGatheredTogether> indexes;
    std::array<ShardData::Piece, 3 * kGatheredTogether> pieces;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i + kPrefetchDistance < items.size()) {
        const GatherItem& later = items[i + kPrefetchDistance];
        Prefetch(later.shard, later.record);
      }
      const GatherItem& item = items[i];
      const OpenedShard& shard = shards_[item.shard];
      indexes[i] = indexes_[item.shard].load();
      const auto entry = indexes[i]->Locate(item.record);
      if (!entry.has_value()) {
        *suspect = {.shard = item.shard, .position = i, .index = indexes[i]};
        return Corrupt(
            fmt::format("index {} of shard {} is damaged: its entry of record {} cannot "
                        "be; delete it and start again",
                        indexes[i]->path(), shard.path, item.record));
      }
      if (item.size > entry->payload_bytes || item.begin > entry->payload_bytes - item.size) {
        if (indexes[i] != &shard.index) return IndexMended(item.shard);  // planned with the old one
        return InvalidArgument(
            fmt::format("{}: {} bytes from {} are not inside the {} bytes of the record",
                        tfrecord::Place(shard.path, item.record, entry->offset), item.size,
                        item.begin, entry->payload_bytes));
      }
      entries[i] = *entry;
      // Inside the file: an index entry lies inside the shard as it was when it was opened.
      const uint64_t payload = entry->offset + tfrecord::kHeaderBytes;
      shard.data.Prefetch(payload, entry->payload_bytes + tfrecord::kFooterBytes);
      pieces[3 * i] = {&shard.data, entry->offset, framings[i].header.data(),
                       tfrecord::kHeaderBytes};
      pieces[3 * i + 1] = {&shard.data, payload + item.begin, item.to, item.size};
      pieces[3 * i + 2] = {&shard.data, payload + entry->payload_bytes, framings[i].footer.data(),
                           tfrecord::kFooterBytes};
    }
    if (!ShardData::Copy({pieces.data(), 3 * items.size()})) {
      // Find out which one it was, for the message.
      size_t lost = 0;
      while (lost + 1 < items.size() && ShardData::Copy({&pieces[3 * lost], 3})) ++lost;
      *suspect = {.shard = items[lost].shard, .position = lost, .is_unread = true};
      return Changed(items[lost], entries[lost], "the file became shorter or cannot be read");
    }
    for (size_t i = 0; i < items.size(); ++i) {
      uint64_t payload_bytes = 0;
      if (!tfrecord::DecodeHeader(framings[i].header.data(), &payload_bytes) ||
          payload_bytes != entries[i].payload_bytes) {
        *suspect = {.shard = items[i].shard, .position = i, .index = indexes[i]};
        return Changed(items[i], entries[i],
                       fmt::format("its header is no longer that of a record of {} bytes",
                                   entries[i].payload_bytes));
      }
      items[i].crc32c = UnmaskCrc(LoadLe<uint32_t>(framings[i].footer.data()));
    }
    return OkStatus();
  }

  // Finds out whether the index or the shard is damaged, which takes long, once a shard. The index:
  // it is replaced by one that is built anew, unless another thread has done it; always an error,
  // since what was planned with the damaged one cannot be used. The shard: `bad` says what is wrong
  // with the record. `reason` is what the suspicion rests on, and is returned when nothing was
  // found.
  Status Mend(const Suspect& suspect, const Status& reason, Status* bad) const
      EMLIO_EXCLUDES(mend_mu_) {
    MutexLock lock(mend_mu_);
    if (indexes_[suspect.shard] != suspect.index) return IndexMended(suspect.shard);
    const std::string& index_path = suspect.index->path();
    const OpenedShard& shard = shards_[suspect.shard];
    if (!IsAsOpened(suspect.shard)) return reason;
    const auto rotten = [&] {
      *bad = Corrupt("length checksum does not hold: damaged where it is stored");
      return reason;
    };
    // Nothing damages one in memory.
    if (index_path.empty() || rotten_.contains(suspect.shard)) return rotten();
    // One that was mended is not to blame.
    if (!suspected_.insert(suspect.shard).second) return reason;

    const auto file = OpenForReading(shard.path);
    if (!file.ok()) return reason;
    LogWarning("shard {} or its index {} is damaged: the shard is indexed again", shard.path,
               index_path);
    const ShardInfo& info = manifest_.shards()[suspect.shard];
    tfrecord::IndexOptions options;
    options.max_record_bytes = std::max<uint64_t>(info.max_record_bytes, 1);
    auto built = ShardIndex::Build(**file, options);
    if (!built.ok()) {
      if (suspect.index->CheckTable().ok()) {
        rotten_.insert(suspect.shard);
        return rotten();
      }
      return reason.WithContext(
          fmt::format("the shard cannot be indexed again ({})", built.status().message()));
    }
    if (const Status saved = built->Save(index_path); !saved.ok()) {
      LogWarning("the index is kept in memory: {}", saved.message());
    }
    if (built->fingerprint() != info.fingerprint || built->records() != info.records) {
      return ShardChanged(
          fmt::format("shard {} is not what index {} said; it was indexed again: start again",
                      shard.path, index_path));
    }
    auto loaded = ShardIndex::Load(index_path, built->shard_identity());
    const bool saved = loaded.ok() && loaded->CheckTable().ok();
    mended_.push_back(saved ? *std::move(loaded) : *std::move(built));
    indexes_[suspect.shard] = &mended_.back();
    return IndexMended(suspect.shard);
  }

  Status IndexMended(uint32_t shard) const {
    return ShardChanged(
        fmt::format("the index of shard {} was damaged while it was in use and has been built "
                    "again: begin the pass again",
                    shards_[shard].path));
  }

  Status Changed(const GatherItem& item, const ShardIndex::Entry& entry,
                 std::string_view how) const {
    return ShardChanged(fmt::format(
        "{}: the shard changed while it was open: {}; write new files instead of changing them",
        tfrecord::Place(shards_[item.shard].path, item.record, entry.offset), how));
  }

  const std::string name_;
  const Manifest manifest_;
  const std::vector<OpenedShard> shards_;  // in the order of the manifest
  const IoMode io_;
  const bool is_larger_than_memory_;
  mutable std::atomic<uint32_t> calls_in_memory_ = 0;  // of ReadAhead, since something was not
  // The index in use of each shard. One that was replaced stays: others may be reading it.
  mutable std::vector<std::atomic<const ShardIndex*>> indexes_;
  mutable Mutex mend_mu_;
  mutable std::set<uint32_t> suspected_ EMLIO_GUARDED_BY(mend_mu_);
  mutable std::set<uint32_t> rotten_ EMLIO_GUARDED_BY(mend_mu_);  // whose indexes are good
  mutable std::deque<ShardIndex> mended_ EMLIO_GUARDED_BY(mend_mu_);
};

bool IsLargerThanMemory(const std::vector<FoundShard>& found) {
  uint64_t bytes = 0;
  for (const FoundShard& shard : found) bytes += shard.identity.size_bytes;
  return bytes > UsableMemoryBytes() / 2;
}

// kUnsupported when a file system that shards lie on refuses to map them. Tries one file of each.
Status TryToMap(const std::vector<FoundShard>& found) {
  std::set<uint64_t> devices;
  for (const FoundShard& shard : found) {
    if (shard.identity.size_bytes == 0 || !devices.insert(shard.identity.device).second) continue;
    const auto mapped = MappedFile::Map(shard.path);
    // What else may be wrong, opening it says.
    if (mapped.status().code() == Code::kUnsupported) return mapped.status();
  }
  return OkStatus();
}

Status CheckOptions(const DatasetOptions& options) {
  if (options.name.empty() || options.name.size() > 255 ||
      options.name.find('/') != std::string::npos) {
    return InvalidArgument(
        fmt::format("'{}' cannot name a data set: 1 to 255 bytes without '/'", options.name));
  }
  if (options.patterns.empty()) {
    return InvalidArgument(fmt::format("data set '{}' has no file and no pattern", options.name));
  }
  if (options.max_record_bytes == 0 ||
      options.max_record_bytes > tfrecord::kHighestMaxRecordBytes) {
    return InvalidArgument(fmt::format("a largest record of {} bytes is not possible: 1 to {}",
                                       options.max_record_bytes, tfrecord::kHighestMaxRecordBytes));
  }
  return CheckThreadCount("index_threads", options.index_threads);
}

}  // namespace

Result<BadShardPolicy> ParseBadShardPolicy(std::string_view name) {
  for (const auto policy : {BadShardPolicy::kError, BadShardPolicy::kKeepReadable}) {
    if (name == BadShardPolicyName(policy)) return policy;
  }
  return InvalidArgument(
      fmt::format("on-bad-shard '{}': must be 'error' or 'keep-readable'", name));
}

std::string_view BadShardPolicyName(BadShardPolicy policy) {
  return policy == BadShardPolicy::kError ? "error" : "keep-readable";
}

Result<std::unique_ptr<Dataset>> Dataset::Open(DatasetOptions options) {
  EMLIO_RETURN_IF_ERROR(CheckOptions(options));
  const std::string context = fmt::format("data set '{}'", options.name);
  auto found = FindShards(options.patterns);
  if (!found.ok()) return found.status().WithContext(context);
  const bool is_larger_than_memory = IsLargerThanMemory(*found);
  // Every shard takes a descriptor when it is not mapped.
  if (options.io == IoMode::kAuto) {
    options.io = is_larger_than_memory && found->size() < MaxOpenFiles() / 2 ? IoMode::kPread
                                                                             : IoMode::kMmap;
    if (options.io == IoMode::kMmap) {
      if (const Status status = TryToMap(*found); !status.ok()) {
        LogInfo("{}: reading shards instead of mapping them: {}", context, status.message());
        options.io = IoMode::kPread;
      }
    }
  }
  if (found->size() > options.max_descriptors) options.max_descriptors = 0;
  auto opened = OpenAll(options, *found);
  if (!opened.ok()) return opened.status().WithContext(context);
  std::vector<Outcome> outcomes = *std::move(opened);
  for (const Outcome& outcome : outcomes) {
    if (!outcome.status.ok()) return outcome.status.WithContext(context);
  }
  LogOutcomes(outcomes);

  std::vector<ShardInfo> infos;
  std::vector<OpenedShard> shards;
  infos.reserve(outcomes.size());
  shards.reserve(outcomes.size());
  for (size_t i = 0; i < outcomes.size(); ++i) {
    const ShardIndex& index = outcomes[i].shard->index;
    infos.push_back({(*found)[i].name, index.records(), index.payload_bytes(),
                     index.max_record_bytes(), index.fingerprint(), index.unreadable_bytes()});
    shards.push_back(*std::move(outcomes[i].shard));
  }
  auto manifest = Manifest::Create(std::move(infos));
  if (!manifest.ok()) {
    return manifest.status().WithContext(
        fmt::format("{} ({})", context, fmt::join(options.patterns, ", ")));
  }
  return std::unique_ptr<Dataset>(std::make_unique<LocalDataset>(
      std::move(options.name), *std::move(manifest), std::move(shards), options.io,
      is_larger_than_memory && options.io == IoMode::kPread));
}

}  // namespace emlio::dataset
