// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <chrono>

#include "emlio/base/crc32c.h"
#include "emlio/base/endian.h"
#include "emlio/dataset/local_dataset.h"

namespace emlio::dataset {
namespace {

struct Range {
  const ShardData* data = nullptr;
  uint64_t offset = 0;
  uint64_t size = 0;
};

// False also where that cannot be found out so.
bool IsInMemory(const Range& range) {
  std::array<uint8_t, 1> byte;
  return range.data->ReadFromMemory(range.offset, byte) &&
         range.data->ReadFromMemory(range.offset + range.size - 1, byte);
}
std::chrono::nanoseconds AskFor(const Range& range) {
  const auto before = std::chrono::steady_clock::now();
  range.data->WillNeed(range.offset, range.size);
  return std::chrono::steady_clock::now() - before;
}

// Asking for what is in memory already costs the system little, but more than gathering a small
// record does: a few samples, and of each a few pages from its middle, tell how it is with the
// others. Asking for what has to be read takes several times as long as asking for it once more.
// One in a hundred samples looks so only because something else had the processor; two at once
// hardly ever.
bool ReadMissing(std::span<const Range> ranges) {
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

}  // namespace

void LocalDataset::ReadAhead(std::span<const RecordId> records) const {
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
      indexes_.Of(later.shard)->Prefetch(later.record);
    }
    const RecordId& record = records[i];
    const OpenedShard& shard = shards_[record.shard];
    const auto entry = indexes_.Of(record.shard)->Locate(record.record);
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

bool LocalDataset::FindInMemory(std::span<const GatherItem> items,
                                std::vector<StoredPiece>* pieces) const {
  for (const GatherItem& item : items) {
    const ShardData& data = shards_[item.shard].data;
    const auto entry = indexes_.Of(item.shard)->Locate(item.record);
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
      if (!data.ReadFromMemory(begin, byte) || !data.ReadFromMemory(begin + item.size - 1, byte)) {
        return false;
      }
    }
    pieces->push_back({data.descriptor(), payload + item.begin, item.size,
                       UnmaskCrc(LoadLe<uint32_t>(footer.data()))});
  }
  return true;
}

void LocalDataset::LetGo(std::span<const GatherItem> items) const {
  for (const GatherItem& item : items) {
    const uint64_t offset = Locate(item.shard, item.record).payload_offset;
    shards_[item.shard].data.WillNotNeed(offset + item.begin, item.size);
  }
}

}  // namespace emlio::dataset
