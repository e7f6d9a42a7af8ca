// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "commands.h"
#include "console.h"
#include "emlio/base/clock.h"
#include "emlio/base/file.h"
#include "emlio/base/mutex.h"
#include "emlio/base/thread.h"
#include "emlio/dataset/find_shards.h"
#include "emlio/tfrecord/content.h"
#include "emlio/tfrecord/reader.h"
#include "interrupt.h"

namespace emlio::tool {
namespace {

constexpr size_t kMaxListedPlaces = 100;
constexpr std::string_view kUnreadable = "unreadable";
constexpr uint64_t kProgressBytes = uint64_t{4} << 20;

// A place where a shard is not as it should be.
struct BadPlace {
  size_t shard = 0;  // position in the list of shards
  uint64_t record = 0;
  uint64_t offset = 0;  // of the record's header
  // From there to the end of the file, where the next record cannot be found.
  uint64_t unreadable_bytes = 0;
  std::string_view kind;
  Status status;

  friend bool operator<(const BadPlace& a, const BadPlace& b) {
    return std::tie(a.shard, a.record) < std::tie(b.shard, b.record);
  }
};

constexpr std::string_view kPayloadChecksum = "payload checksum";

// What a reader's error is about. Of its checksum errors, the one whose header still holds is about
// the payload.
std::string_view KindOf(const Status& status, const RandomAccessFile& file, uint64_t offset) {
  switch (status.code()) {
    case Code::kCorrupt: {
      uint8_t header[tfrecord::kHeaderBytes];
      uint64_t payload_bytes = 0;
      const auto got = file.ReadAt(offset, sizeof header, header);
      const bool length_holds =
          got.ok() && *got == sizeof header && tfrecord::DecodeHeader(header, &payload_bytes);
      return length_holds ? kPayloadChecksum : "length checksum";
    }
    case Code::kTruncated:
      return "truncated";
    case Code::kLimitExceeded:
      return "record too large";
    case Code::kUnsupported:
      return "compressed";
    default:
      return kUnreadable;
  }
}

// Reads shards on several threads and collects what is wrong.
class Verifier {
 public:
  Verifier(std::vector<dataset::FoundShard> shards, uint64_t max_record_bytes)
      : shards_(std::move(shards)), max_record_bytes_(max_record_bytes) {
    for (const dataset::FoundShard& shard : shards_) bytes_total_ += shard.identity.size_bytes;
  }

  // Returns when all shards are read, or a signal came.
  Status Run(int threads);

  uint64_t records() const { return records_; }
  uint64_t payload_bytes() const { return payload_bytes_; }
  const std::vector<dataset::FoundShard>& shards() const { return shards_; }
  uint64_t bad_count() EMLIO_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return bad_count_;
  }
  uint64_t bad_shards() EMLIO_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return bad_shards_.size();
  }
  // The first kMaxListedPlaces in order of shard and record.
  std::vector<BadPlace> bad_places() EMLIO_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return {bad_.begin(), bad_.end()};
  }

 private:
  void VerifyShards();
  void VerifyShard(size_t shard);
  void Covered(uint64_t bytes);
  void Report(BadPlace place) EMLIO_EXCLUDES(mu_);

  const std::vector<dataset::FoundShard> shards_;
  const uint64_t max_record_bytes_;
  uint64_t bytes_total_ = 0;
  ProgressBar bar_{"verifying", "shards"};
  std::atomic<size_t> next_shard_{0};
  std::atomic<uint64_t> shards_done_{0};
  std::atomic<uint64_t> bytes_done_{0};
  std::atomic<uint64_t> records_{0};
  std::atomic<uint64_t> payload_bytes_{0};
  Mutex mu_;
  uint64_t bad_count_ EMLIO_GUARDED_BY(mu_) = 0;
  std::set<size_t> bad_shards_ EMLIO_GUARDED_BY(mu_);
  std::set<BadPlace> bad_ EMLIO_GUARDED_BY(mu_);
};

Status Verifier::Run(int threads) {
  auto workers = StartPool("verify", threads, [this](int, std::stop_token) { VerifyShards(); });
  if (workers.ok()) {
    for (Thread& worker : *workers) worker.Join();
  }
  bar_.Finish();
  return workers.status();
}

void Verifier::VerifyShards() {
  for (size_t shard; (shard = next_shard_++) < shards_.size() && !InterruptFlag::IsSet();) {
    VerifyShard(shard);
    ++shards_done_;
  }
}

void Verifier::VerifyShard(size_t shard) {
  const auto file = OpenForReading(shards_[shard].path);
  if (!file.ok()) return Report({.shard = shard, .kind = kUnreadable, .status = file.status()});
  const auto reader = tfrecord::ShardReader::Open(file->get(), max_record_bytes_);
  if (!reader.ok()) return Report({.shard = shard, .kind = kUnreadable, .status = reader.status()});
  uint64_t covered_bytes = 0;
  while (!InterruptFlag::IsSet()) {
    std::span<const uint8_t> payload;
    const auto more = (*reader)->Next(&payload);
    if (!more.ok()) {
      const uint64_t offset = (*reader)->offset();
      const std::string_view kind = KindOf(more.status(), **file, offset);
      // An index counts a gzip file of nothing as an empty shard, with a warning.
      if (more.status().code() == Code::kUnsupported) {
        const auto empty = tfrecord::IsEmptyGzip(**file);
        if (empty.ok() && *empty) break;
      }
      const uint64_t file_bytes = shards_[shard].identity.size_bytes;
      const bool goes_on = kind == kPayloadChecksum;
      Report({.shard = shard,
              .record = (*reader)->record(),
              .offset = offset,
              .unreadable_bytes = goes_on ? 0 : file_bytes - std::min(offset, file_bytes),
              .kind = kind,
              .status = more.status()});
      if (goes_on) continue;
      break;  // where the next record begins is not known
    }
    if (!*more) break;
    ++records_;
    payload_bytes_ += payload.size();
    const uint64_t end = (*reader)->offset() + payload.size() + tfrecord::kFramingBytes;
    if (end - covered_bytes >= kProgressBytes) Covered(end - std::exchange(covered_bytes, end));
  }
  const uint64_t file_bytes = shards_[shard].identity.size_bytes;
  if (file_bytes > covered_bytes) Covered(file_bytes - covered_bytes);
}

void Verifier::Covered(uint64_t bytes) {
  bytes_done_ += bytes;
  bar_.Update({.items_done = shards_done_,
               .items_total = shards_.size(),
               .bytes_done = bytes_done_,
               .bytes_total = bytes_total_});
}

void Verifier::Report(BadPlace place) {
  MutexLock lock(mu_);
  ++bad_count_;
  bad_shards_.insert(place.shard);
  bad_.insert(std::move(place));
  if (bad_.size() > kMaxListedPlaces) bad_.erase(std::prev(bad_.end()));
}

nlohmann::ordered_json ToJson(Verifier& verifier, double seconds) {
  auto places = nlohmann::ordered_json::array();
  for (const BadPlace& place : verifier.bad_places()) {
    const dataset::FoundShard& shard = verifier.shards()[place.shard];
    places.push_back({{"shard", shard.name},
                      {"path", shard.path},
                      {"record", place.record},
                      {"offset", place.offset},
                      {"unreadable_bytes", place.unreadable_bytes},
                      {"kind", place.kind},
                      {"code", CodeName(place.status.code())},
                      {"message", place.status.message()}});
  }
  return {{"shards", verifier.shards().size()},
          {"records", verifier.records()},
          {"payload_bytes", verifier.payload_bytes()},
          {"seconds", seconds},
          {"bad_places", verifier.bad_count()},
          {"bad_shards", verifier.bad_shards()},
          {"places", std::move(places)}};
}

void Print(Verifier& verifier, double seconds) {
  for (const BadPlace& place : verifier.bad_places()) {
    fmt::print("BAD  {}", place.status.message());  // begins with the place
    if (place.unreadable_bytes > 0) {
      fmt::print(" ({} bytes up to the end of the file were not checked)", place.unreadable_bytes);
    }
    fmt::print("\n");
  }
  if (verifier.bad_count() > kMaxListedPlaces) {
    fmt::print("BAD  ... and {}\n",
               FormatCount(verifier.bad_count() - kMaxListedPlaces, "more place"));
  }
  const auto bytes = static_cast<double>(verifier.payload_bytes());
  fmt::print("{}, {}, {}, {:.2f} s\n", FormatCount(verifier.shards().size(), "shard"),
             FormatCount(verifier.records(), "good record"), FormatBytes(bytes), seconds);
}

Status Verdict(Verifier& verifier, const VerifyCommand& command) {
  if (InterruptFlag::IsSet()) return Cancelled("interrupted by a signal; the rest was not read");
  if (verifier.bad_count() > 0) {
    return Corrupt(fmt::format("{} in {} of {}", FormatCount(verifier.bad_count(), "bad place"),
                               FormatCount(verifier.bad_shards()),
                               FormatCount(verifier.shards().size(), "shard")));
  }
  if (verifier.records() == 0) {
    return NotFound(fmt::format("no record in any shard of {}", fmt::join(command.patterns, ", ")));
  }
  return OkStatus();
}

}  // namespace

int RunVerify(const VerifyCommand& command) {
  const tool::Report report(command.json);
  if (const Status status = report.Check(); !status.ok()) return Fail(status);
  auto shards = dataset::FindShards(command.patterns);
  if (!shards.ok()) return report.Finish(shards.status(), {});

  const size_t processors = std::max(1u, std::thread::hardware_concurrency());
  const size_t wanted = command.jobs > 0 ? static_cast<size_t>(command.jobs) : processors;
  const int threads = static_cast<int>(std::min(wanted, shards->size()));
  const int64_t begin_ns = SystemClock().NowNs();
  Verifier verifier(*std::move(shards), command.max_record_bytes);
  if (const Status status = verifier.Run(threads); !status.ok()) return report.Finish(status, {});
  const double seconds = static_cast<double>(SystemClock().NowNs() - begin_ns) / kNsPerSecond;

  if (report.for_people()) Print(verifier, seconds);
  return report.Finish(Verdict(verifier, command), ToJson(verifier, seconds));
}

}  // namespace emlio::tool
