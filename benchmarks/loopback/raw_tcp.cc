// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
//
// The yardstick for EMLIO's transfer: the same work by plain sockets, with nothing that serves any
// other purpose. Records of mapped TFRecord shards, in full random order, are gathered into faulted
// buffers and sent over N TCP connections; the client receives into faulted buffers and checks the
// CRC-32C of every record. Made as quick as we could: the index and the order of all epochs are
// ready before the clock starts, streams take chunks from one counter so that none idles, and each
// keeps its buffer, which stays in the processor's cache. What it leaves out is what EMLIO adds:
// batches, order, resuming, credit, several clients.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "bench.h"
#include "emlio/base/crc32c.h"
#include "emlio/base/endian.h"

namespace emlio::bench {
namespace {

struct Options {
  std::vector<std::string> shards;
  int streams = 4;
  int epochs = 1;
  uint64_t seed = 0;
  uint32_t chunk_bytes = 4 << 20;
};

struct Record {
  const uint8_t* payload;
  uint32_t size;
  uint32_t crc32c;
};

// A chunk on the wire: ChunkHeader, a RecordHeader for each record, the payloads one after another.
struct ChunkHeader {
  uint32_t records;
  uint32_t payload_bytes;
};
struct RecordHeader {
  uint32_t size;
  uint32_t crc32c;
};

// The records of one shard, which stays mapped for the life of the process.
void AppendRecords(const std::string& path, std::vector<Record>* records) {
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
    records->push_back(
        {payload, static_cast<uint32_t>(length), UnmaskCrc(LoadLe<uint32_t>(payload + length))});
    at += 16 + length;
  }
}

class Server {
 public:
  explicit Server(const Options& options) : options_(options) {}

  void Prepare() {
    std::vector<Record> records;
    for (const std::string& shard : options_.shards) AppendRecords(shard, &records);
    std::mt19937_64 random(options_.seed);
    for (int epoch = 0; epoch < options_.epochs; ++epoch) {
      std::shuffle(records.begin(), records.end(), random);
      order_.insert(order_.end(), records.begin(), records.end());
    }
    chunk_begins_.push_back(0);
    size_t bytes = 0;
    for (size_t i = 0; i < order_.size(); ++i) {
      if (bytes > 0 && bytes + order_[i].size > options_.chunk_bytes) {
        chunk_begins_.push_back(i);
        bytes = 0;
      }
      bytes += order_[i].size;
    }
    chunk_begins_.push_back(order_.size());
    for (int i = 0; i < options_.streams; ++i) {
      buffers_.push_back(FaultedBuffer(options_.chunk_bytes));
    }
  }

  void Serve(int fd, int stream) {
    std::vector<uint8_t>& buffer = buffers_[static_cast<size_t>(stream)];
    std::vector<uint8_t> header;
    for (;;) {
      const size_t chunk = next_chunk_.fetch_add(1, std::memory_order_relaxed);
      if (chunk + 1 >= chunk_begins_.size()) return;
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
        StoreLe(head, RecordHeader{record->size, record->crc32c});
        head += sizeof(RecordHeader);
      }
      StoreLe(header.data(),
              ChunkHeader{static_cast<uint32_t>(end - begin), static_cast<uint32_t>(bytes)});
      iovec pieces[] = {{header.data(), header.size()}, {buffer.data(), bytes}};
      if (!SendAll(fd, pieces, 2)) Die("the client closed a stream");
    }
  }

 private:
  // Small records lie where no hardware prefetcher looks: their first lines are asked for a few
  // records ahead.
  static void Prefetch(const Record* record, const Record* end) {
    constexpr int kAhead = 8;
    constexpr uint32_t kBytes = 1024;
    if (end - record <= kAhead) return;
    const Record& next = record[kAhead];
    for (uint32_t at = 0; at < std::min(next.size, kBytes); at += 64) {
      __builtin_prefetch(next.payload + at);
    }
  }

  const Options& options_;
  std::vector<Record> order_;         // all epochs
  std::vector<size_t> chunk_begins_;  // indexes into order_, and its end
  std::vector<std::vector<uint8_t>> buffers_;
  std::atomic<size_t> next_chunk_{0};
};

struct Counts {
  std::atomic<uint64_t> records{0};
  std::atomic<uint64_t> payload_bytes{0};
  std::atomic<uint64_t> chunks{0};
};

class Client {
 public:
  explicit Client(const Options& options) : options_(options) {}

  void Prepare() {
    for (int i = 0; i < options_.streams; ++i) {
      buffers_.push_back(FaultedBuffer(options_.chunk_bytes));
    }
  }

  void Receive(int fd, int stream) {
    std::vector<uint8_t>& buffer = buffers_[static_cast<size_t>(stream)];
    std::vector<RecordHeader> headers;
    uint64_t records = 0;
    uint64_t payload_bytes = 0;
    uint64_t chunks = 0;
    ChunkHeader chunk{};
    while (ReceiveAll(fd, &chunk, sizeof(chunk))) {
      headers.resize(chunk.records);
      if (chunk.payload_bytes > buffer.size()) buffer.resize(chunk.payload_bytes);
      if (!ReceiveAll(fd, headers.data(), headers.size() * sizeof(RecordHeader)) ||
          !ReceiveAll(fd, buffer.data(), chunk.payload_bytes)) {
        Die("a stream ended inside a chunk");
      }
      const uint8_t* payload = buffer.data();
      for (const RecordHeader& record : headers) {
        if (Crc32c(payload, record.size) != record.crc32c) {
          Die("a record arrived with a wrong checksum");
        }
        payload += record.size;
      }
      records += chunk.records;
      payload_bytes += chunk.payload_bytes;
      ++chunks;
    }
    counts_.records += records;
    counts_.payload_bytes += payload_bytes;
    counts_.chunks += chunks;
  }

  const Counts& counts() const { return counts_; }

 private:
  const Options& options_;
  std::vector<std::vector<uint8_t>> buffers_;
  Counts counts_;
};

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Random TFRecord records over plain TCP, CRC-32C checked; prints one JSON object.");
  app.add_option("shards", options.shards, "TFRecord files")->required()->check(CLI::ExistingFile);
  app.add_option("--streams", options.streams, "TCP connections")
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  app.add_option("--epochs", options.epochs, "passes over the records, each in another order")
      ->capture_default_str()
      ->check(CLI::Range(1, 10000));
  app.add_option("--seed", options.seed, "of the order")->capture_default_str();
  app.add_option("--chunk-bytes", options.chunk_bytes, "payload gathered for one send")
      ->capture_default_str()
      ->check(CLI::Range(1u << 10, 1u << 30));
  CLI11_PARSE(app, argc, argv);

  Server server(options);
  Client client(options);
  Transfer transfer;
  transfer.streams = options.streams;
  transfer.prepare_server = [&] { server.Prepare(); };
  transfer.serve = [&](int fd, int stream) { server.Serve(fd, stream); };
  transfer.prepare_client = [&] { client.Prepare(); };
  transfer.receive = [&](int fd, int stream) { client.Receive(fd, stream); };
  const TransferTimes times = Run(transfer);

  const Counts& counts = client.counts();
  nlohmann::ordered_json result;
  result["records"] = counts.records.load();
  result["chunks"] = counts.chunks.load();
  result["payload_bytes"] = counts.payload_bytes.load();
  result["seconds"] = times.seconds;
  result["client_cpu_s"] = times.client_cpu_s;
  result["server_cpu_s"] = times.server_cpu_s;
  result["streams"] = options.streams;
  std::cout << result.dump() << "\n";
  return 0;
}

}  // namespace
}  // namespace emlio::bench

int main(int argc, char** argv) { return emlio::bench::Main(argc, argv); }
