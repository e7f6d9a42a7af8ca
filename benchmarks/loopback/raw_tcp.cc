// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
//
// The yardstick for EMLIO's transfer over loopback: the same work by plain sockets (raw_records.h).
// What it leaves out is what EMLIO adds: batches, order, resuming, credit, several clients.
#include <CLI/CLI.hpp>
#include <atomic>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "bench.h"
#include "raw_records.h"

namespace emlio::bench {
namespace {

struct Counts {
  std::atomic<uint64_t> records{0};
  std::atomic<uint64_t> payload_bytes{0};
  std::atomic<uint64_t> chunks{0};
};

int Main(int argc, char** argv) {
  RawOptions options;
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
  options.first_chunk_bytes = options.chunk_bytes;

  RawSender sender(options);
  RawSender::Run run;
  std::vector<std::vector<uint8_t>> buffers;
  Counts counts;
  Transfer transfer;
  transfer.streams = options.streams;
  transfer.prepare_server = [&] { sender.Prepare(); };
  transfer.serve = [&](int fd, int) {
    if (!sender.Send(fd, &run)) Die("the client closed a stream");
  };
  transfer.prepare_client = [&] {
    for (int i = 0; i < options.streams; ++i) {
      buffers.push_back(FaultedBuffer(options.chunk_bytes));
    }
  };
  transfer.receive = [&](int fd, int stream) {
    ReceiveRaw(fd, &buffers[static_cast<size_t>(stream)],
               [&](const ChunkHeader& chunk, std::span<const RecordHeader>) {
                 counts.records += chunk.records;
                 counts.payload_bytes += chunk.payload_bytes;
                 ++counts.chunks;
               });
  };
  const TransferTimes times = Run(transfer);

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
