// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "emlio/base/clock.h"
#include "emlio/base/endian.h"
#include "emlio/daemon/daemon.h"
#include "emlio/dataset/dataset.h"
#include "emlio/loader/loader.h"
#include "emlio/tfrecord/test_util.h"
#include "emlio/tfrecord/writer.h"
#include "emlio/transport/transport.h"
#include "fmt/format.h"

// The whole data path in one process: shards on disk, daemons, loaders, over TCP and in-process.
namespace emlio::loader {

// Record `id`: its number, then bytes that follow from it.
inline std::vector<uint8_t> Payload(uint64_t id, size_t size) {
  std::vector<uint8_t> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(id * 131 + i * 7 + (i >> 8));
  if (size >= 8) StoreLe<uint64_t>(bytes.data(), id);
  return bytes;
}

// A listener that sends no payload while it is shut: a storage host that is slow.
class GatedListener : public transport::Listener {
 public:
  explicit GatedListener(std::unique_ptr<transport::Listener> inner) : inner_(std::move(inner)) {}
  void Shut() { shut_ = true; }
  void Reopen() {
    shut_ = false;
    Wake();
  }

  const std::string& endpoint() const override { return inner_->endpoint(); }
  Status Poll(int timeout_ms, std::vector<transport::Event>* events) override {
    return inner_->Poll(timeout_ms, events);
  }
  transport::SendResult Send(transport::ConnectionId to, transport::Message* message) override {
    if (shut_ && message->payload.size() > 0) return transport::SendResult::kFull;
    return inner_->Send(to, message);
  }
  void Forget(transport::ConnectionId connection) override { inner_->Forget(connection); }
  std::optional<transport::LinkState> StateOf(transport::ConnectionId id) const override {
    return inner_->StateOf(id);
  }
  void Wake() override { inner_->Wake(); }

 private:
  const std::unique_ptr<transport::Listener> inner_;
  std::atomic<bool> shut_ = false;
};

class LoaderTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return directory_ / name; }

  // Shards <folder>/s-<first>.. with records numbered on from first_id, of sizes from size_of.
  void WriteShards(
      const std::string& folder, int first, int count, int records, uint64_t first_id,
      const std::function<size_t(uint64_t)>& size_of = [](uint64_t id) { return 16 + id % 50; }) {
    std::filesystem::create_directories(Path(folder));
    uint64_t id = first_id;
    for (int s = first; s < first + count; ++s) {
      auto writer = tfrecord::ShardWriter::Create(Path(fmt::format("{}/s-{:03}", folder, s)));
      ASSERT_TRUE(writer.ok()) << writer.status().ToString();
      for (int r = 0; r < records; ++r, ++id) {
        ASSERT_TRUE((*writer)->Append(Payload(id, size_of(id))).ok());
      }
      ASSERT_TRUE((*writer)->Commit().ok());
    }
  }

  dataset::DatasetOptions DatasetAt(const std::string& name, const std::string& folder) const {
    dataset::DatasetOptions options;
    options.name = name;
    options.patterns = {Path(folder) + "/s-*"};
    options.index_directory = Path("index");
    return options;
  }
  std::unique_ptr<daemon::Daemon> Serve(const std::string& folder,
                                        daemon::DaemonOptions options = {}) {
    options.datasets.push_back(DatasetAt("train", folder));
    auto daemon = daemon::Daemon::Start(std::move(options));
    EXPECT_TRUE(daemon.ok()) << daemon.status().ToString();
    return *std::move(daemon);
  }
  // Over TCP, too; the gate is alive as long as the daemon.
  std::unique_ptr<daemon::Daemon> ServeGated(const std::string& folder, GatedListener** gate) {
    auto listener = transport::ListenZmq("127.0.0.1:0", {});
    auto dataset = dataset::Dataset::Open(DatasetAt("train", folder));
    EXPECT_TRUE(listener.ok() && dataset.ok());
    auto gated = std::make_unique<GatedListener>(*std::move(listener));
    *gate = gated.get();
    auto daemon = daemon::Daemon::StartOn(std::move(gated), {*std::move(dataset)}, {});
    EXPECT_TRUE(daemon.ok()) << daemon.status().ToString();
    return *std::move(daemon);
  }
  // Shards of `records` records each, dealt out in turn to the folders "a" and "b".
  void WriteAlternating(
      int shards, int records,
      const std::function<size_t(uint64_t)>& size_of = [](uint64_t id) { return 16 + id % 50; }) {
    for (int shard = 0; shard < shards; ++shard) {
      WriteShards(shard % 2 == 0 ? "a" : "b", shard, 1, records,
                  static_cast<uint64_t>(shard) * records, size_of);
    }
  }
  // Waits until so many batches wait to be handed out.
  static void AwaitReady(const Loader& loader, uint64_t batches) {
    const int64_t deadline_ns = SystemClock().NowNs() + 20 * kNsPerSecond;
    while (loader.stats().ready_batches_now < batches) {
      ASSERT_LT(SystemClock().NowNs(), deadline_ns);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  LoaderOptions Options(std::vector<std::string> sources, uint64_t batch_size) const {
    LoaderOptions options;
    options.sources = std::move(sources);
    options.batch_size = batch_size;
    options.index_directory = Path("index");
    options.timeout_ms = 20'000;
    return options;
  }
  static std::unique_ptr<Loader> Open(LoaderOptions options) {
    auto loader = Loader::Open(std::move(options));
    EXPECT_TRUE(loader.ok()) << loader.status().ToString();
    return loader.ok() ? *std::move(loader) : nullptr;
  }

  struct Epoch {
    std::vector<uint64_t> ids;
    std::vector<uint64_t> valid_ids;  // padding left out
    std::vector<size_t> batch_sizes;
  };
  // One pass from a cursor; checks every byte of every record.
  static Epoch Read(
      Loader* loader, Cursor from,
      const std::function<size_t(uint64_t)>& size_of = [](uint64_t id) { return 16 + id % 50; }) {
    Epoch epoch;
    const Status started = loader->StartPass(from);
    EXPECT_TRUE(started.ok()) << started.ToString();
    uint64_t step = from.step;
    while (started.ok()) {
      auto batch = loader->Next();
      EXPECT_TRUE(batch.ok()) << batch.status().ToString();
      if (!batch.ok() || *batch == nullptr) break;
      EXPECT_EQ((*batch)->epoch(), from.epoch);
      EXPECT_EQ((*batch)->step(), step++);
      epoch.batch_sizes.push_back((*batch)->records().size());
      for (size_t i = 0; i < (*batch)->records().size(); ++i) {
        const auto record = (*batch)->records()[i];
        const uint64_t id = (*batch)->indices()[i];
        const std::vector<uint8_t> expected = Payload(id, size_of(id));
        EXPECT_TRUE(std::equal(record.begin(), record.end(), expected.begin(), expected.end()))
            << "record " << id;
        epoch.ids.push_back(id);
        if (i < (*batch)->valid_records()) epoch.valid_ids.push_back(id);
      }
    }
    return epoch;
  }
  static void ExpectEachOnce(std::vector<uint64_t> ids, uint64_t count) {
    std::sort(ids.begin(), ids.end());
    ASSERT_EQ(ids.size(), count);
    for (uint64_t i = 0; i < count; ++i) ASSERT_EQ(ids[i], i);
  }
  std::string Url(const daemon::Daemon& daemon, const std::string& name = "train") const {
    return daemon.endpoint() + "/" + name;
  }
  void FlipByte(const std::string& file, std::streamoff offset) const {
    std::fstream stream(Path(file), std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(offset);
    const char byte = static_cast<char>(stream.get() ^ 1);
    stream.seekp(offset);
    stream.put(byte);
  }

  const tfrecord::TempDir directory_;
};

// Reads the rest of an epoch from a position: its steps, in the order in which they come.
inline std::vector<uint64_t> RestOfEpoch(Loader* loader, const Cursor& from) {
  std::vector<uint64_t> steps;
  EXPECT_EQ(loader->StartPass(from), OkStatus());
  for (auto batch = loader->Next();; batch = loader->Next()) {
    EXPECT_TRUE(batch.ok()) << batch.status().ToString();
    if (!batch.ok() || *batch == nullptr) return steps;
    EXPECT_EQ((*batch)->epoch(), from.epoch);
    steps.push_back((*batch)->step());
  }
}

}  // namespace emlio::loader
