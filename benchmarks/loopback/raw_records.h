// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <vector>

// The work of EMLIO's transfer by plain sockets, with nothing that serves any other purpose: the
// two halves of the yardstick `raw_tcp`, for streams that are connected already. Records of mapped
// TFRecord shards, in full random order, are gathered into faulted buffers and sent; the receiver
// checks the CRC-32C of every record. Made as quick as we could: the index and the order of all
// epochs are ready before anything is sent, streams take chunks from one counter so that none
// idles, and each keeps its buffer, which stays in the processor's cache.
namespace emlio::bench {

struct RawOptions {
  std::vector<std::string> shards;
  int streams = 4;
  int epochs = 1;
  uint64_t seed = 0;
  uint32_t chunk_bytes = 4 << 20;        // payload gathered for one send
  uint32_t first_chunk_bytes = 4 << 20;  // chunks double from here, so that streams start together
};

// A chunk on the wire: ChunkHeader, a RecordHeader for each record, the payloads one after another.
struct ChunkHeader {
  uint64_t position;  // of the first record, in the order of all epochs
  uint32_t records;
  uint32_t payload_bytes;
};
struct RecordHeader {
  uint32_t size;
  uint32_t crc32c;
  uint32_t number;  // in the data set
};

// The records of all epochs, cut into chunks.
class RawSender {
 public:
  // The chunks of one transfer that no stream has taken yet.
  class Run {
    friend class RawSender;
    std::atomic<size_t> next_chunk_{0};
  };

  explicit RawSender(const RawOptions& options) : options_(options) {}

  // Maps and indexes the shards, fixes the order, makes a buffer for each stream.
  void Prepare();

  // Sends chunks of `run` until there are none left; false when the other end has closed. Any
  // number of threads at a time, each with a stream of its own.
  bool Send(int fd, Run* run);

  uint32_t records_per_epoch() const { return records_per_epoch_; }

 private:
  struct Record {
    const uint8_t* payload;
    uint32_t size;
    uint32_t crc32c;
    uint32_t number;
  };
  void AppendRecords(const std::string& path, std::vector<Record>* records);
  static void Prefetch(const Record* record, const Record* end);

  const RawOptions options_;
  uint32_t records_per_epoch_ = 0;
  std::vector<Record> order_;         // all epochs
  std::vector<size_t> chunk_begins_;  // indexes into order_, and its end
  std::mutex mutex_;
  std::vector<std::vector<uint8_t>> idle_buffers_;  // GUARDED_BY(mutex_)
};

// Receives until the sender closes, into `buffer`, which grows where a chunk needs it. `arrived` is
// called for each chunk whose records have the checksums that they should have; anything else ends
// the process.
void ReceiveRaw(
    int fd, std::vector<uint8_t>* buffer,
    const std::function<void(const ChunkHeader&, std::span<const RecordHeader>)>& arrived);

}  // namespace emlio::bench
