// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
//
// The least that moving bytes over TCP costs on this machine: one buffer, sent and received again
// and again over N connections. Nothing is read, gathered or checked.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <iostream>
#include <nlohmann/json.hpp>
#include <vector>

#include "bench.h"

namespace emlio::bench {
namespace {

int Main(int argc, char** argv) {
  uint64_t bytes = uint64_t{1} << 30;
  uint32_t buffer_bytes = 4 << 20;
  int streams = 4;
  CLI::App app("One buffer over plain TCP, again and again; prints one JSON object.");
  app.add_option("--bytes", bytes, "to send, all streams together")->capture_default_str();
  app.add_option("--buffer-bytes", buffer_bytes, "of one send and one receive call")
      ->capture_default_str()
      ->check(CLI::Range(1u << 10, 1u << 30));
  app.add_option("--streams", streams, "TCP connections")
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  CLI11_PARSE(app, argc, argv);

  std::atomic<int64_t> left{static_cast<int64_t>(bytes)};
  std::atomic<uint64_t> received{0};
  std::vector<std::vector<uint8_t>> buffers;
  const auto make_buffers = [&] {
    for (int i = 0; i < streams; ++i) buffers.push_back(FaultedBuffer(buffer_bytes));
  };
  Transfer transfer;
  transfer.streams = streams;
  transfer.prepare_server = make_buffers;
  transfer.prepare_client = make_buffers;
  transfer.serve = [&](int fd, int stream) {
    for (;;) {
      const int64_t before = left.fetch_sub(buffer_bytes, std::memory_order_relaxed);
      if (before <= 0) return;
      iovec piece{buffers[static_cast<size_t>(stream)].data(),
                  static_cast<size_t>(std::min<int64_t>(before, buffer_bytes))};
      if (!SendAll(fd, &piece, 1)) Die("the client closed a stream");
    }
  };
  transfer.receive = [&](int fd, int stream) {
    uint64_t total = 0;
    while (const size_t got =
               ReceiveSome(fd, buffers[static_cast<size_t>(stream)].data(), buffer_bytes)) {
      total += got;
    }
    received += total;
  };
  const TransferTimes times = Run(transfer);

  nlohmann::ordered_json result;
  result["payload_bytes"] = received.load();
  result["seconds"] = times.seconds;
  result["client_cpu_s"] = times.client_cpu_s;
  result["server_cpu_s"] = times.server_cpu_s;
  result["streams"] = streams;
  std::cout << result.dump() << "\n";
  return received.load() == bytes ? 0 : 1;
}

}  // namespace
}  // namespace emlio::bench

int main(int argc, char** argv) { return emlio::bench::Main(argc, argv); }
