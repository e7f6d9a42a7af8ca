// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "raw_records.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "bench.h"
#include "emlio/base/crc32c.h"
#include "emlio/base/endian.h"

namespace emlio::bench {

// The records of one shard, which stays mapped for the life of the process.
void RawSender::AppendRecords(const std::string& path, std::vector<Record>* records) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat info{};
  if (fd < 0 || fstat(fd, &info) != 0) DieErrno(path);
  const size_t size = static_cast<size_t>(info.st_size);
  void* map = mmap(nullptr, size, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (map == MAP_FAILED) DieErrno(path);
  close(fd);
  const uint8_t* data = static_cast<const uint8_t*>(map);
  for (size_t at = 0; at < size;) {
    if (size - at < 16 || UnmaskCrc(LoadLe<uint32_t>(data + at + 8)) != Crc32c(data + at, 8)) {
      Die(path + ": not a TFRecord file");
    }
    const uint64_t length = LoadLe<uint64_t>(data + at);
    if (length > size - at - 16 || length > UINT32_MAX) Die(path + ": truncated or too large");
    const uint8_t* payload = data + at + 12;
    records->push_back({payload, static_cast<uint32_t>(length),
                        UnmaskCrc(LoadLe<uint32_t>(payload + length)),
                        static_cast<uint32_t>(records->size())});
    at += 16 + length;
  }
}

void RawSender::Prepare() {
  std::vector<Record> records;
  for (const std::string& shard : options_.shards) AppendRecords(shard, &records);
  records_per_epoch_ = static_cast<uint32_t>(records.size());
  std::mt19937_64 random(options_.seed);
  for (int epoch = 0; epoch < options_.epochs; ++epoch) {
    std::shuffle(records.begin(), records.end(), random);
    order_.insert(order_.end(), records.begin(), records.end());
  }
  uint32_t limit = std::min(options_.first_chunk_bytes, options_.chunk_bytes);
  chunk_begins_.push_back(0);
  size_t bytes = 0;
  for (size_t i = 0; i < order_.size(); ++i) {
    if (bytes > 0 && bytes + order_[i].size > limit) {
      chunk_begins_.push_back(i);
      bytes = 0;
      limit = limit > options_.chunk_bytes / 2 ? options_.chunk_bytes : 2 * limit;
    }
    bytes += order_[i].size;
  }
  chunk_begins_.push_back(order_.size());
  for (int i = 0; i < options_.streams; ++i) {
    idle_buffers_.push_back(FaultedBuffer(options_.chunk_bytes));
  }
}

// Small records lie where no hardware prefetcher looks: their first lines are asked for a few
// records ahead.
void RawSender::Prefetch(const Record* record, const Record* end) {
  constexpr int kAhead = 8;
  constexpr uint32_t kBytes = 1024;
  if (end - record <= kAhead) return;
  const Record& next = record[kAhead];
  for (uint32_t at = 0; at < std::min(next.size, kBytes); at += 64) {
    __builtin_prefetch(next.payload + at);
  }
}

bool RawSender::Send(int fd, Run* run) {
  std::vector<uint8_t> buffer;
  {
    const std::lock_guard lock(mutex_);
    if (!idle_buffers_.empty()) {
      buffer.swap(idle_buffers_.back());
      idle_buffers_.pop_back();
    }
  }
  std::vector<uint8_t> header;
  bool is_open = true;
  while (is_open) {
    const size_t chunk = run->next_chunk_.fetch_add(1, std::memory_order_relaxed);
    if (chunk + 1 >= chunk_begins_.size()) break;
    const Record* begin = order_.data() + chunk_begins_[chunk];
    const Record* end = order_.data() + chunk_begins_[chunk + 1];
    header.resize(sizeof(ChunkHeader) + sizeof(RecordHeader) * static_cast<size_t>(end - begin));
    uint8_t* head = header.data() + sizeof(ChunkHeader);
    size_t bytes = 0;
    for (const Record* record = begin; record != end; ++record) {
      if (bytes + record->size > buffer.size()) buffer.resize(bytes + record->size);
      Prefetch(record, end);
      std::memcpy(buffer.data() + bytes, record->payload, record->size);
      bytes += record->size;
      StoreLe(head, RecordHeader{record->size, record->crc32c, record->number});
      head += sizeof(RecordHeader);
    }
    StoreLe(header.data(), ChunkHeader{chunk_begins_[chunk], static_cast<uint32_t>(end - begin),
                                       static_cast<uint32_t>(bytes)});
    iovec pieces[] = {{header.data(), header.size()}, {buffer.data(), bytes}};
    is_open = SendAll(fd, pieces, 2);
  }
  const std::lock_guard lock(mutex_);
  idle_buffers_.push_back(std::move(buffer));
  return is_open;
}

void ReceiveRaw(
    int fd, std::vector<uint8_t>* buffer,
    const std::function<void(const ChunkHeader&, std::span<const RecordHeader>)>& arrived) {
  std::vector<RecordHeader> headers;
  ChunkHeader chunk{};
  while (ReceiveAll(fd, &chunk, sizeof(chunk))) {
    headers.resize(chunk.records);
    if (chunk.payload_bytes > buffer->size()) buffer->resize(chunk.payload_bytes);
    if (!ReceiveAll(fd, headers.data(), headers.size() * sizeof(RecordHeader)) ||
        !ReceiveAll(fd, buffer->data(), chunk.payload_bytes)) {
      Die("a stream ended inside a chunk");
    }
    const uint8_t* payload = buffer->data();
    for (const RecordHeader& record : headers) {
      if (Crc32c(payload, record.size) != record.crc32c) {
        Die("a record arrived with a wrong checksum");
      }
      payload += record.size;
    }
    arrived(chunk, headers);
  }
}

}  // namespace emlio::bench
