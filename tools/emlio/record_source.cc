// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "record_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "console.h"
#include "emlio/base/crc32c.h"
#include "emlio/loader/loader.h"
#include "emlio/tfrecord/record.h"
#include "interrupt.h"
#include "text.h"

namespace emlio::tool {
namespace {

constexpr std::string_view kRemote = "://";

class LocalSource : public RecordSource {
 public:
  explicit LocalSource(std::unique_ptr<dataset::Dataset> dataset) : dataset_(std::move(dataset)) {
    NumberRecords();
  }
  const dataset::Manifest& manifest() const override { return dataset_->manifest(); }
  const dataset::Dataset* local() const override { return dataset_.get(); }

  Result<std::span<const uint8_t>> Read(uint64_t number) override {
    const RecordPlace place = Locate(number);
    payload_.resize(dataset_->Locate(place.shard, place.record).payload_bytes);
    dataset::GatherItem item;
    item.shard = place.shard;
    item.record = place.record;
    item.size = payload_.size();
    item.to = payload_.data();
    EMLIO_RETURN_IF_ERROR(dataset_->Gather({&item, 1}));
    if (Crc32c(payload_.data(), payload_.size()) != item.crc32c) {
      // Reads it again, and says what is wrong.
      EMLIO_RETURN_IF_ERROR(dataset_->VerifyRecord(place.shard, place.record));
      return ShardChanged(tfrecord::Place(place.path, place.record, place.offset) +
                          ": the record changed while it was read");
    }
    return std::span<const uint8_t>(payload_);
  }

 private:
  const std::unique_ptr<dataset::Dataset> dataset_;
  std::vector<uint8_t> payload_;
};

// Batches of one record in the order of the data set, so that a step is a record's number.
class LoaderSource : public RecordSource {
 public:
  explicit LoaderSource(std::unique_ptr<loader::Loader> loader) : loader_(std::move(loader)) {
    NumberRecords();
  }
  const dataset::Manifest& manifest() const override { return loader_->manifest(); }
  const dataset::Dataset* local() const override { return nullptr; }

  Result<std::span<const uint8_t>> Read(uint64_t number) override {
    const loader::Cursor at{.epoch = 0, .step = number};
    // A pass that is at the end of the epoch has its cursor in the next one.
    if (!started_ || loader_->cursor() != at) {
      EMLIO_RETURN_IF_ERROR(loader_->StartPass(at, &InterruptFlag::IsSet));
      started_ = true;
    }
    EMLIO_ASSIGN_OR_RETURN(batch_, loader_->Next(&InterruptFlag::IsSet));
    return batch_->records()[0];
  }

 private:
  const std::unique_ptr<loader::Loader> loader_;
  std::shared_ptr<const loader::Batch> batch_;
  bool started_ = false;
};

Result<std::unique_ptr<RecordSource>> OpenLocal(const RecordSourceOptions& options,
                                                dataset::ProgressCallback progress) {
  dataset::DatasetOptions dataset_options;
  dataset_options.name = "local";
  dataset_options.patterns = options.sources;
  dataset_options.index_directory = options.index_directory;
  dataset_options.max_record_bytes = options.max_record_bytes;
  dataset_options.on_bad_shard = options.on_bad_shard;
  dataset_options.progress = std::move(progress);
  dataset_options.is_interrupted = &InterruptFlag::IsSet;
  EMLIO_ASSIGN_OR_RETURN(auto dataset, dataset::Dataset::Open(std::move(dataset_options)));
  return std::unique_ptr<RecordSource>(std::make_unique<LocalSource>(std::move(dataset)));
}

Result<std::unique_ptr<RecordSource>> OpenLoader(const RecordSourceOptions& options,
                                                 dataset::ProgressCallback progress) {
  loader::LoaderOptions loader_options;
  loader_options.sources = options.sources;
  loader_options.batch_size = 1;
  loader_options.streams = 1;
  loader_options.prefetch_bytes = uint64_t{8} << 20;  // few records may be wanted
  loader_options.max_record_bytes = options.max_record_bytes;
  loader_options.on_bad_shard = options.on_bad_shard;
  loader_options.timeout_ms = options.timeout_ms;
  loader_options.worker_threads = 1;
  loader_options.index_directory = options.index_directory;
  loader_options.index_progress = std::move(progress);
  EMLIO_ASSIGN_OR_RETURN(auto loader,
                         loader::Loader::Open(std::move(loader_options), &InterruptFlag::IsSet));
  return std::unique_ptr<RecordSource>(std::make_unique<LoaderSource>(std::move(loader)));
}

bool IsOrEndsIn(std::string_view path, std::string_view end) {
  return path == end || (path.size() > end.size() && path.ends_with(end) &&
                         path[path.size() - end.size() - 1] == '/');
}

bool ParseNumber(std::string_view text, uint64_t* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

Result<std::unique_ptr<RecordSource>> RecordSource::Open(const RecordSourceOptions& options) {
  ProgressBar bar("indexing", "shards");
  const dataset::ProgressCallback progress = [&bar](const dataset::Progress& done) {
    bar.Update({.items_done = done.shards_done,
                .items_total = done.shards_total,
                .bytes_done = done.bytes_done,
                .bytes_total = done.bytes_total});
  };
  const bool is_local = std::none_of(
      options.sources.begin(), options.sources.end(),
      [](const std::string& source) { return source.find(kRemote) != std::string::npos; });
  return is_local ? OpenLocal(options, progress) : OpenLoader(options, progress);
}

std::string UnreadableText(const dataset::Manifest& manifest) {
  const auto damaged =
      std::count_if(manifest.shards().begin(), manifest.shards().end(),
                    [](const dataset::ShardInfo& shard) { return shard.unreadable_bytes > 0; });
  if (damaged == 0) return "";
  return fmt::format(", {} of {} left out",
                     FormatBytes(static_cast<double>(manifest.unreadable_bytes())),
                     FormatCount(static_cast<uint64_t>(damaged), "damaged shard"));
}

void RecordSource::NumberRecords() {
  uint64_t first = 0;
  for (const dataset::ShardInfo& shard : manifest().shards()) {
    first_records_.push_back(first);
    first += shard.records;
  }
  first_records_.push_back(first);
}

RecordPlace RecordSource::Locate(uint64_t number) const {
  const auto behind = std::upper_bound(first_records_.begin(), first_records_.end(), number);
  RecordPlace place;
  place.shard = static_cast<uint32_t>(behind - first_records_.begin() - 1);
  place.record = number - first_records_[place.shard];
  if (local() != nullptr) {
    place.path = local()->path(place.shard);
    place.offset =
        local()->Locate(place.shard, place.record).payload_offset - tfrecord::kHeaderBytes;
  }
  return place;
}

Result<uint64_t> RecordSource::Find(std::string_view record) const {
  const size_t colon = record.rfind(':');
  const std::string_view digits =
      colon == std::string_view::npos ? record : record.substr(colon + 1);
  uint64_t number = 0;
  if (!ParseNumber(digits, &number) || colon == 0) {
    return InvalidArgument(
        fmt::format("'{}' names no record: write its number in the data set, 0 to {}, or SHARD:N",
                    Printable(record), manifest().records() - 1));
  }
  if (colon == std::string_view::npos) {
    if (number < manifest().records()) return number;
    return InvalidArgument(fmt::format("there is no record {}: the data set has {}, 0 to {}",
                                       number, manifest().records(), manifest().records() - 1));
  }

  const std::string_view name = record.substr(0, colon);
  std::vector<uint32_t> exact, ending;
  for (uint32_t i = 0; i < manifest().shards().size(); ++i) {
    const std::string_view shard = manifest().shards()[i].name;
    const std::string_view path =
        local() == nullptr ? std::string_view() : std::string_view(local()->path(i));
    if (shard == name || path == name) exact.push_back(i);
    if (IsOrEndsIn(shard, name) || IsOrEndsIn(path, name)) ending.push_back(i);
  }
  const std::vector<uint32_t>& found = exact.empty() ? ending : exact;
  const std::string_view shown = manifest().shards()[found.empty() ? 0 : found[0]].name;
  if (found.empty()) {
    return InvalidArgument(fmt::format("no shard is called '{}'; the first of {} is '{}'",
                                       Printable(name), manifest().shards().size(),
                                       Printable(shown)));
  }
  if (found.size() > 1) {
    return InvalidArgument(fmt::format("{} shards are called '{}'; give the whole name, as in '{}'",
                                       found.size(), Printable(name), Printable(shown)));
  }
  const uint64_t records = manifest().shards()[found[0]].records;
  if (number >= records) {
    return InvalidArgument(fmt::format("there is no record {} in shard '{}': it has {}, from 0 on",
                                       number, Printable(shown), records));
  }
  return first_records_[found[0]] + number;
}

}  // namespace emlio::tool
