// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
//
// The floor over a network: EMLIO's work by plain sockets (benchmarks/loopback/raw_records.h), the
// two halves on two hosts. `serve` sends every record of some shards once an epoch, in full random
// order, to whoever asks for it. `read` connects all its streams at once; each says one request and
// from then on receives. Checksums of all records are verified, every record has to come once an
// epoch, and a batch is there when all its records are. At SIGINT `read` tells what has come, and
// ends with status 130.
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "../loopback/bench.h"
#include "../loopback/raw_records.h"

namespace emlio::bench {
namespace {

constexpr uint64_t kRequest = 0x3057415220544145;  // what this protocol's first message begins with

// What a stream says once, and what it is told before the chunks.
struct Request {
  uint64_t magic;
  uint64_t run;  // the same for all streams of a reader
};
struct Answer {
  uint32_t records_per_epoch;
  uint32_t epochs;
};

int Serve(const RawOptions& options, const std::string& address, uint16_t port) {
  RawSender sender(options);
  sender.Prepare();
  const int listener = Listen(address, &port);
  std::cout << "listening on " << address << ":" << port << std::endl;

  std::mutex mutex;
  std::map<uint64_t, std::shared_ptr<RawSender::Run>> runs;
  for (;;) {
    std::thread([&, fd = Accept(listener)] {
      Request request{};
      if (ReceiveAll(fd, &request, sizeof(request)) && request.magic == kRequest) {
        std::shared_ptr<RawSender::Run> run;
        {
          const std::lock_guard lock(mutex);
          std::shared_ptr<RawSender::Run>& known = runs[request.run];
          if (known == nullptr) known = std::make_shared<RawSender::Run>();
          run = known;
        }
        Answer answer{sender.records_per_epoch(), static_cast<uint32_t>(options.epochs)};
        iovec piece{&answer, sizeof(answer)};
        if (SendAll(fd, &piece, 1)) sender.Send(fd, run.get());
      }
      shutdown(fd, SHUT_WR);
      close(fd);
    }).detach();
  }
}

// Which records have come, and when batches were complete.
class Arrivals {
 public:
  explicit Arrivals(uint32_t batch_size) : batch_size_(batch_size) {}

  // Called by every stream; the first one counts.
  void Expect(const Answer& answer) {
    const std::lock_guard lock(mutex_);
    if (!came_.empty()) return;
    records_per_epoch_ = answer.records_per_epoch;
    epochs_ = answer.epochs;
    batches_per_epoch_ = (records_per_epoch_ + batch_size_ - 1) / batch_size_;
    came_ = std::vector<std::atomic<bool>>(size_t{records_per_epoch_} * epochs_);
    missing_ = std::vector<std::atomic<uint32_t>>(size_t{batches_per_epoch_} * epochs_);
    complete_s_ = std::vector<std::atomic<double>>(missing_.size());
    for (size_t i = 0; i < missing_.size(); ++i) {
      const uint32_t first = static_cast<uint32_t>(i % batches_per_epoch_) * batch_size_;
      missing_[i] = std::min(batch_size_, records_per_epoch_ - first);
    }
  }

  void Add(const ChunkHeader& chunk, std::span<const RecordHeader> records) {
    if (chunk.position + chunk.records > came_.size()) Die("more records than there are");
    for (size_t i = 0; i < records.size(); ++i) {
      const uint64_t position = chunk.position + i;
      const uint64_t epoch = position / records_per_epoch_;
      const uint32_t number = records[i].number;
      if (number >= records_per_epoch_ ||
          came_[epoch * records_per_epoch_ + number].exchange(true, std::memory_order_relaxed)) {
        Die("record " + std::to_string(number) + " came twice in epoch " + std::to_string(epoch));
      }
      const uint64_t batch =
          epoch * batches_per_epoch_ + position % records_per_epoch_ / batch_size_;
      if (missing_[batch].fetch_sub(1, std::memory_order_relaxed) == 1) {
        complete_s_[batch].store(NowSeconds(), std::memory_order_relaxed);
      }
    }
    records_.fetch_add(records.size(), std::memory_order_relaxed);
    payload_bytes_.fetch_add(chunk.payload_bytes, std::memory_order_relaxed);
  }

  // After all streams have ended; the clock started at `begin_s`.
  nlohmann::ordered_json Result(double begin_s) const {
    if (came_.empty() || records_ != came_.size()) {
      Die(std::to_string(records_) + " records came instead of " + std::to_string(came_.size()));
    }
    return SoFar(begin_s);
  }

  // At any time: whole epochs, complete batches, and all records that have come.
  nlohmann::ordered_json SoFar(double begin_s) const {
    const std::lock_guard lock(mutex_);
    std::vector<double> epoch_seconds;
    double before_s = begin_s;  // when the epoch before was complete
    double last_s = begin_s;
    uint64_t batches = 0;
    for (uint32_t epoch = 0; epoch < epochs_; ++epoch) {
      uint32_t complete = 0;
      for (uint32_t i = 0; i < batches_per_epoch_; ++i) {
        const double end_s =
            complete_s_[uint64_t{epoch} * batches_per_epoch_ + i].load(std::memory_order_relaxed);
        if (end_s == 0) continue;
        ++complete;
        last_s = std::max(last_s, end_s);  // those of two epochs may be complete in any order
      }
      batches += complete;
      if (complete < batches_per_epoch_ || epoch_seconds.size() < epoch) continue;
      epoch_seconds.push_back(last_s - before_s);
      before_s = last_s;
    }
    nlohmann::ordered_json result;
    result["records"] = records_.load();
    result["batches"] = batches;
    result["payload_bytes"] = payload_bytes_.load();
    result["seconds"] = last_s - begin_s;
    const double first_s = complete_s_.empty() ? 0 : complete_s_[0].load();
    result["first_batch_s"] = nullptr;
    if (first_s != 0) result["first_batch_s"] = first_s - begin_s;
    result["epoch_seconds"] = epoch_seconds;
    return result;
  }

 private:
  const uint32_t batch_size_;
  mutable std::mutex mutex_;  // of what Expect sets
  uint32_t records_per_epoch_ = 0;
  uint32_t epochs_ = 0;
  uint32_t batches_per_epoch_ = 0;
  std::vector<std::atomic<bool>> came_;          // by epoch and number
  std::vector<std::atomic<uint32_t>> missing_;   // records, by batch
  std::vector<std::atomic<double>> complete_s_;  // by batch; 0: it is not
  std::atomic<uint64_t> records_{0};
  std::atomic<uint64_t> payload_bytes_{0};
};

// Waits for SIGINT, which all threads have blocked, for as long as the process lives.
[[noreturn]] void TellAtInterrupt(const sigset_t& signals, const Arrivals& arrivals,
                                  double begin_s) {
  int number = 0;
  while (sigwait(&signals, &number) != 0) {
  }
  std::cout << arrivals.SoFar(begin_s).dump() << std::endl;
  _exit(128 + number);
}

int Read(const RawOptions& options, const std::string& address, uint16_t port,
         uint32_t batch_size) {
  sigset_t interrupt;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  pthread_sigmask(SIG_BLOCK, &interrupt, nullptr);
  std::vector<std::vector<uint8_t>> buffers;
  for (int i = 0; i < options.streams; ++i) buffers.push_back(FaultedBuffer(options.chunk_bytes));
  const Request request{kRequest,
                        (uint64_t{std::random_device()()} << 32) | std::random_device()()};
  Arrivals arrivals(batch_size);

  const double begin_s = NowSeconds();
  std::thread([&] { TellAtInterrupt(interrupt, arrivals, begin_s); }).detach();
  std::vector<std::thread> threads;
  for (std::vector<uint8_t>& buffer : buffers) {
    threads.emplace_back([&] {
      const int fd = Connect(address, port);
      Request said = request;
      iovec piece{&said, sizeof(said)};
      Answer answer{};
      if (!SendAll(fd, &piece, 1) || !ReceiveAll(fd, &answer, sizeof(answer))) {
        Die("the server closed a stream");
      }
      arrivals.Expect(answer);
      ReceiveRaw(fd, &buffer, [&](const ChunkHeader& chunk, std::span<const RecordHeader> records) {
        arrivals.Add(chunk, records);
      });
      close(fd);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::cout << arrivals.Result(begin_s).dump() << std::endl;
  _exit(0);  // the waiting thread refers to what is here
}

int Main(int argc, char** argv) {
  RawOptions options;
  options.first_chunk_bytes = 256 << 10;
  std::string address;
  uint16_t port = 0;
  uint32_t batch_size = 64;
  CLI::App app("Random TFRecord records from one host to another over plain TCP.");
  app.require_subcommand(1);
  CLI::App* serve = app.add_subcommand("serve", "sends every record once an epoch to each reader");
  CLI::App* read = app.add_subcommand("read", "receives and checks; prints one JSON object");
  for (CLI::App* command : {serve, read}) {
    command->add_option("--address", address, "IPv4 address of the server")->required();
    command->add_option("--port", port, "of the server; 0: any")->required();
    command->add_option("--streams", options.streams, "TCP connections of a reader")
        ->capture_default_str()
        ->check(CLI::Range(1, 256));
    command->add_option("--chunk-bytes", options.chunk_bytes, "payload of one send, at most")
        ->capture_default_str()
        ->check(CLI::Range(1u << 10, 1u << 30));
  }
  serve->add_option("shards", options.shards, "TFRecord files")
      ->required()
      ->check(CLI::ExistingFile);
  serve->add_option("--epochs", options.epochs, "passes over the records, each in another order")
      ->capture_default_str()
      ->check(CLI::Range(1, 10000));
  serve->add_option("--seed", options.seed, "of the order")->capture_default_str();
  read->add_option("--batch-size", batch_size, "records of a batch")
      ->capture_default_str()
      ->check(CLI::Range(1u, 1u << 20));
  CLI11_PARSE(app, argc, argv);
  return *serve ? Serve(options, address, port) : Read(options, address, port, batch_size);
}

}  // namespace
}  // namespace emlio::bench

int main(int argc, char** argv) { return emlio::bench::Main(argc, argv); }
