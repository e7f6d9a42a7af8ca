// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/dataset/shard_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace emlio::dataset {
namespace {

// Pieces that are copied under one guard, or in one system call.
constexpr size_t kTogether = 192;

}  // namespace

Result<IoMode> ParseIoMode(std::string_view name) {
  for (const IoMode mode : {IoMode::kAuto, IoMode::kMmap, IoMode::kPread}) {
    if (name == IoModeName(mode)) return mode;
  }
  return InvalidArgument(fmt::format("io '{}': must be 'auto', 'mmap' or 'pread'", name));
}

std::string_view IoModeName(IoMode mode) {
  switch (mode) {
    case IoMode::kAuto:
      return "auto";
    case IoMode::kMmap:
      return "mmap";
    case IoMode::kPread:
      return "pread";
  }
  return "unknown";
}

Result<ShardData> ShardData::Open(const std::string& path, IoMode mode, bool wants_descriptor) {
  ShardData data;
  if (mode == IoMode::kMmap) {
    auto mapped = MappedFile::Map(path);
    if (mapped.status().code() == Code::kUnsupported) {
      return Unsupported(mapped.status().message() + "; use io 'pread', or 'auto'");
    }
    EMLIO_ASSIGN_OR_RETURN(data.mapped_, std::move(mapped));
    data.identity_ = data.mapped_->identity();
    if (wants_descriptor) {
      auto readable = OpenForReading(path);
      const auto identity = readable.ok() ? (*readable)->Identity() : readable.status();
      // The name may be another file's by now.
      if (identity.ok() && *identity == data.identity_) data.readable_ = *std::move(readable);
    }
  } else {
    EMLIO_ASSIGN_OR_RETURN(data.readable_, OpenForReading(path));
    EMLIO_ASSIGN_OR_RETURN(data.identity_, data.readable_->Identity());
  }
  return data;
}

void ShardData::Prefetch(uint64_t offset, uint64_t size) const {
  if (mapped_ == nullptr) return;
  // Random records are cache and TLB misses; the processor finds the rest of a long one by itself.
  constexpr uint64_t kPrefetchBytes = 512;
  const uint8_t* at = mapped_->data() + offset;
  const uint64_t near_bytes = std::min(size, kPrefetchBytes);
  for (uint64_t line = 0; line < near_bytes; line += 64) __builtin_prefetch(at + line);
  __builtin_prefetch(at + size - 1);
}

void ShardData::WillNeed(uint64_t offset, uint64_t size) const {
  if (mapped_ != nullptr) {
    mapped_->WillNeed(offset, size);
  } else {
    readable_->WillNeed(offset, size);
  }
}

void ShardData::WillNotNeed(uint64_t offset, uint64_t size) const {
  if (mapped_ == nullptr) readable_->WillNotNeed(offset, size);
}

bool ShardData::Copy(std::span<const Piece> pieces) {
  std::array<CopyRange, kTogether> ranges;
  std::array<std::span<uint8_t>, kTogether> parts;
  while (!pieces.empty()) {
    const ShardData& from = *pieces.front().from;
    size_t count = 0;
    if (from.mapped_ != nullptr) {
      for (; count < std::min(kTogether, pieces.size()); ++count) {
        const Piece& piece = pieces[count];
        ranges[count] = {piece.from->mapped_->data() + piece.offset, piece.to, piece.size};
      }
      if (!GuardedCopy({ranges.data(), count})) return false;
    } else {
      uint64_t size = 0;
      for (; count < std::min(kTogether, pieces.size()); ++count) {
        const Piece& piece = pieces[count];
        if (piece.from != &from || piece.offset != pieces.front().offset + size) break;
        parts[count] = {piece.to, piece.size};
        size += piece.size;
      }
      const Result<uint64_t> read =
          from.readable_->ReadInto(pieces.front().offset, {parts.data(), count});
      if (!read.ok() || *read != size) return false;
    }
    pieces = pieces.subspan(count);
  }
  return true;
}

}  // namespace emlio::dataset
