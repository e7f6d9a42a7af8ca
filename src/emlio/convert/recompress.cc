// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/convert/recompress.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "emlio/base/file.h"
#include "emlio/base/hash128.h"
#include "emlio/base/log.h"
#include "emlio/convert/compressed_shard.h"
#include "emlio/convert/inflater.h"
#include "emlio/convert/write_shards.h"
#include "emlio/tfrecord/content.h"
#include "emlio/tfrecord/reader.h"

namespace emlio::convert {
namespace {

namespace fs = std::filesystem;

struct Source {
  std::string path;
  std::string name;  // of the plain shard
  FileIdentity identity;
  std::optional<Compression> compression;  // not set: as plain as it is going to be
};

std::string PlainName(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  for (const std::string_view ending : {".gz", ".gzip", ".zz", ".zlib"}) {
    if (name.size() > ending.size() && name.ends_with(ending)) {
      return name.substr(0, name.size() - ending.size());
    }
  }
  return name;
}

// What a file that begins so is compressed with. A plain shard may begin with any bytes, but then
// its first header holds.
std::optional<Compression> CompressionOf(std::span<const uint8_t> head) {
  uint64_t payload_bytes = 0;
  if (head.size() >= tfrecord::kHeaderBytes &&
      tfrecord::DecodeHeader(head.data(), &payload_bytes)) {
    return std::nullopt;
  }
  switch (tfrecord::RecognizeContent(head)) {
    case tfrecord::Content::kGzip:
      return Compression::kGzip;
    case tfrecord::Content::kZlib:
      return Compression::kZlib;
    default:
      return std::nullopt;  // reading it says what it is
  }
}

Result<std::vector<Source>> LookAtSources(const RecompressOptions& options) {
  if (options.sources.empty()) return InvalidArgument("no shard was given");
  if (options.sources.size() > kMaxShards) {
    return InvalidArgument(
        fmt::format("{} shards: at most {} at a time", options.sources.size(), kMaxShards));
  }
  std::vector<Source> sources;
  std::map<std::string, std::string> paths;  // by name
  for (const std::string& path : options.sources) {
    if (options.stop.stop_requested()) return Cancelled("the conversion was interrupted");
    Source source;
    source.path = path;
    source.name = PlainName(path);
    const auto [there, is_new] = paths.emplace(source.name, path);
    if (!is_new) {
      return InvalidArgument(
          fmt::format("{} and {} would both become {}: convert them into different folders",
                      there->second, path, source.name));
    }
    if (source.name.starts_with('.') || source.name == kStateName ||
        tfrecord::IsSidecarOrUnfinished(source.name)) {
      return InvalidArgument(fmt::format(
          "{} would become a shard named {}, which cannot be: rename it", path, source.name));
    }
    std::error_code error;  // a destination that does not exist is no source's folder
    if (fs::equivalent(fs::absolute(path).parent_path(), options.destination, error)) {
      return InvalidArgument(
          fmt::format("{} lies in the destination {}: choose another folder, or both would be read "
                      "as one data set",
                      path, options.destination));
    }
    EMLIO_ASSIGN_OR_RETURN(const auto file, OpenForReading(path));
    EMLIO_ASSIGN_OR_RETURN(source.identity, file->Identity());
    std::array<uint8_t, tfrecord::kContentHeadBytes> head;
    EMLIO_ASSIGN_OR_RETURN(const size_t head_bytes, file->ReadAt(0, head.size(), head.data()));
    source.compression = CompressionOf(std::span(head).first(head_bytes));
    sources.push_back(std::move(source));
  }
  std::sort(sources.begin(), sources.end(),
            [](const Source& a, const Source& b) { return a.name < b.name; });
  return sources;
}

// Appends all records. `Reader` is one of the two shard readers; `position` tells how much of the
// file it is done with.
template <typename Reader, typename Position>
Status AppendAll(Reader* reader, const std::string& path, Position position, ShardSink* sink) {
  uint64_t counted_bytes = 0;
  std::span<const uint8_t> payload;
  while (true) {
    EMLIO_ASSIGN_OR_RETURN(const bool more, reader->Next(&payload));
    if (!more) return OkStatus();
    const uint64_t now_bytes = position();
    EMLIO_RETURN_IF_ERROR(sink->Append(payload, now_bytes - counted_bytes, path));
    counted_bytes = now_bytes;
  }
}

Status Fill(const Source& source, uint64_t max_record_bytes, ShardSink* sink) {
  EMLIO_ASSIGN_OR_RETURN(const auto file, OpenForReading(source.path));
  Status status;
  if (source.compression.has_value()) {
    CompressedShardReader reader(file.get(), *source.compression, max_record_bytes);
    status = AppendAll(&reader, source.path, [&] { return reader.file_offset(); }, sink);
  } else {
    EMLIO_ASSIGN_OR_RETURN(const auto reader,
                           tfrecord::ShardReader::Open(file.get(), max_record_bytes));
    status = AppendAll(reader.get(), source.path, [&] { return reader->offset(); }, sink);
  }
  // An explanation for any error, and an error where there was none.
  EMLIO_ASSIGN_OR_RETURN(const FileIdentity identity, file->Identity());
  if (identity != source.identity && status.code() != Code::kCancelled) {
    return ShardChanged(
        fmt::format("shard {} was changed while it was converted: wait until it is "
                    "written",
                    source.path));
  }
  return status;
}

Hash128 HashOf(const Source& source) {
  Xxh3Stream hash;
  const uint64_t path_bytes = source.path.size();
  hash.Update(&path_bytes, sizeof(path_bytes));
  hash.Update(source.path.data(), source.path.size());
  hash.Update(&source.identity.size_bytes, sizeof(source.identity.size_bytes));
  hash.Update(&source.identity.mtime_ns, sizeof(source.identity.mtime_ns));
  return hash.Digest();
}

}  // namespace

Result<RecompressSummary> RecompressShards(const RecompressOptions& options,
                                           const ProgressFunction& progress) {
  EMLIO_RETURN_IF_ERROR(CheckDestination(options));
  EMLIO_ASSIGN_OR_RETURN(const std::vector<Source> sources, LookAtSources(options));
  RecompressSummary summary;
  ShardSet set;
  set.options = {{"conversion", "recompress/1"}};
  set.shards = sources.size();
  for (const Source& source : sources) {
    set.names.push_back(source.name);
    summary.source_bytes += source.identity.size_bytes;
    uint64_t& kind = !source.compression.has_value()             ? summary.plain
                     : *source.compression == Compression::kGzip ? summary.gzip
                                                                 : summary.zlib;
    ++kind;
  }
  if (summary.plain == sources.size()) LogWarning("no shard is compressed: all are only copied");
  set.total.bytes_total = summary.source_bytes;
  set.source = [&](uint64_t shard) { return HashOf(sources[shard]); };
  set.fill = [&](uint64_t shard, ShardSink* sink) {
    return Fill(sources[shard], options.max_record_bytes, sink);
  };
  EMLIO_ASSIGN_OR_RETURN(static_cast<ShardSetSummary&>(summary),
                         MakeShardSet(options, set, progress));
  return summary;
}

}  // namespace emlio::convert
