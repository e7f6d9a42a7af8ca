// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/dataset/dali_index.h"

#include <fmt/format.h>

#include <iterator>
#include <optional>
#include <string_view>

#include "emlio/base/file.h"
#include "emlio/base/log.h"
#include "emlio/tfrecord/record.h"

namespace emlio::dataset {
namespace {

constexpr size_t kPieceBytes = size_t{256} << 10;

// Hands out the text in pieces; the first error ends it.
template <typename Take>
Status ForEachPiece(const Dataset& dataset, uint32_t shard, Take take) {
  const uint64_t records = dataset.manifest().shards()[shard].records;
  fmt::memory_buffer piece;
  for (uint64_t record = 0; record < records; ++record) {
    const RecordLocation location = dataset.Locate(shard, record);
    fmt::format_to(std::back_inserter(piece), "{} {}\n",
                   location.payload_offset - tfrecord::kHeaderBytes,
                   location.payload_bytes + tfrecord::kFramingBytes);
    if (piece.size() < kPieceBytes && record + 1 < records) continue;
    EMLIO_RETURN_IF_ERROR(take(std::string_view(piece.data(), piece.size())));
    piece.clear();
  }
  return OkStatus();
}

// kNotFound: there is no such file. kCorrupt: it is another text.
Status Compare(const Dataset& dataset, uint32_t shard, const std::string& path) {
  EMLIO_ASSIGN_OR_RETURN(const auto file, OpenForReading(path));
  EMLIO_ASSIGN_OR_RETURN(const FileIdentity identity, file->Identity());
  const auto other = [&] {
    return Corrupt(fmt::format("{} was the index of something else", path));
  };
  uint64_t offset = 0;
  std::string there;
  EMLIO_RETURN_IF_ERROR(ForEachPiece(dataset, shard, [&](std::string_view piece) -> Status {
    there.resize(piece.size());
    EMLIO_ASSIGN_OR_RETURN(const size_t read, file->ReadAt(offset, there.size(), there.data()));
    offset += piece.size();
    return read == piece.size() && there == piece ? OkStatus() : other();
  }));
  return offset == identity.size_bytes ? OkStatus() : other();
}

}  // namespace

Result<bool> EnsureDaliIndex(const Dataset& dataset, uint32_t shard, const std::string& path) {
  const Status status = Compare(dataset, shard, path);
  if (status.ok()) return false;
  if (status.code() == Code::kCorrupt) {
    LogWarning("{} and is replaced by that of {}", status.message(), dataset.path(shard));
  } else if (status.code() != Code::kNotFound) {
    return status;
  }
  EMLIO_ASSIGN_OR_RETURN(const auto file, AtomicFile::Create(path));
  EMLIO_RETURN_IF_ERROR(ForEachPiece(dataset, shard, [&](std::string_view piece) {
    return file->Append(piece.data(), piece.size());
  }));
  EMLIO_RETURN_IF_ERROR(file->Commit());
  return true;
}

}  // namespace emlio::dataset
