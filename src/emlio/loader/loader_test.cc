// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
// The whole data path in one process: shards on disk, daemons, loaders, over TCP and in-process.
#include "emlio/loader/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "emlio/base/clock.h"
#include "emlio/base/endian.h"
#include "emlio/daemon/daemon.h"
#include "emlio/loader/source_list.h"
#include "emlio/tfrecord/writer.h"
#include "emlio/transport/transport.h"
#include "fmt/format.h"

namespace emlio::loader {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Record `id`: its number, then bytes that follow from it.
std::vector<uint8_t> Payload(uint64_t id, size_t size) {
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
  LoaderTest() {
    std::string pattern = std::filesystem::temp_directory_path() / "emlio-loader-XXXXXX";
    directory_ = mkdtemp(pattern.data());
  }
  ~LoaderTest() override { std::filesystem::remove_all(directory_); }

  std::string Path(const std::string& name) const { return directory_ + "/" + name; }

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

  std::string directory_;
};

TEST_F(LoaderTest, EveryRecordOnceInManifestOrderWithoutShuffle) {
  WriteShards("d", 0, 4, 25, 0);
  auto daemon = Serve("d");
  auto loader = Open(Options({Url(*daemon)}, 8));
  ASSERT_NE(loader, nullptr);
  EXPECT_EQ(loader->records(), 100u);
  EXPECT_EQ(loader->steps_per_epoch(), 13u);
  const Epoch epoch = Read(loader.get(), {0, 0});
  EXPECT_EQ(epoch.batch_sizes.size(), 13u);
  EXPECT_EQ(epoch.batch_sizes.back(), 4u);
  EXPECT_TRUE(std::is_sorted(epoch.ids.begin(), epoch.ids.end()));
  ExpectEachOnce(epoch.ids, 100);
}

TEST_F(LoaderTest, LocalAndRemoteGiveTheSameBatches) {
  WriteShards("d", 0, 5, 40, 0);
  auto daemon = Serve("d");
  LoaderOptions options = Options({Url(*daemon)}, 16);
  options.shuffle = plan::Shuffle::kFull;
  options.seed = 42;
  auto remote = Open(options);
  options.sources = {Path("d") + "/s-*"};
  auto local = Open(options);
  for (uint64_t epoch = 0; epoch < 3; ++epoch) {
    const Epoch r = Read(remote.get(), {epoch, 0});
    const Epoch l = Read(local.get(), {epoch, 0});
    EXPECT_EQ(r.ids, l.ids);
    EXPECT_FALSE(std::is_sorted(r.ids.begin(), r.ids.end()));
    ExpectEachOnce(r.ids, 200);
  }
}

TEST_F(LoaderTest, SeveralDaemonsAndLocalPathsMakeOneDataSet) {
  WriteShards("a", 0, 2, 30, 0);
  WriteShards("b", 2, 3, 30, 60);
  WriteShards("c", 5, 1, 30, 150);
  auto a = Serve("a");
  auto b = Serve("b");
  LoaderOptions options = Options({Url(*b), Path("c") + "/s-*", Url(*a)}, 7);
  options.shuffle = plan::Shuffle::kFull;
  auto loader = Open(options);
  ASSERT_NE(loader, nullptr);
  EXPECT_EQ(loader->records(), 180u);
  ExpectEachOnce(Read(loader.get(), {0, 0}).ids, 180);
  ExpectEachOnce(Read(loader.get(), {1, 0}).ids, 180);
}

TEST_F(LoaderTest, SameShardNameWithOtherContentsIsAPlanMismatch) {
  WriteShards("a", 0, 1, 30, 0);
  WriteShards("b", 0, 1, 30, 500);
  auto a = Serve("a");
  auto b = Serve("b");
  auto loader = Loader::Open(Options({Url(*a), Url(*b)}, 7));
  ASSERT_FALSE(loader.ok());
  EXPECT_EQ(loader.status().code(), Code::kPlanMismatch);
  EXPECT_THAT(loader.status().message(), HasSubstr("s-000"));
}

TEST_F(LoaderTest, RanksShareAnEpochWhateverTheWorldSize) {
  WriteShards("d", 0, 3, 111, 0);
  auto daemon = Serve("d");
  std::vector<uint64_t> reference;
  for (uint32_t world : {1u, 2u, 5u}) {
    std::vector<Epoch> ranks;
    for (uint32_t rank = 0; rank < world; ++rank) {
      LoaderOptions options = Options({Url(*daemon)}, 0);
      options.global_batch_size = 10;
      options.tail = plan::Tail::kDrop;
      options.shuffle = plan::Shuffle::kFull;
      options.rank = rank;
      options.world_size = world;
      options.job = fmt::format("job-{}", world);
      auto loader = Open(options);
      ASSERT_NE(loader, nullptr);
      ranks.push_back(Read(loader.get(), {0, 0}));
      EXPECT_EQ(ranks.back().batch_sizes.size(), 33u);
    }
    // Deal the global batches together again.
    std::vector<uint64_t> global;
    std::vector<size_t> next(world, 0);
    for (size_t step = 0; step < 33; ++step) {
      for (uint32_t rank = 0; rank < world; ++rank) {
        for (size_t i = 0; i < ranks[rank].batch_sizes[step]; ++i) {
          global.push_back(ranks[rank].ids[next[rank]++]);
        }
      }
    }
    if (reference.empty()) reference = global;
    EXPECT_EQ(global, reference) << "world size " << world;
  }
  EXPECT_EQ(std::set<uint64_t>(reference.begin(), reference.end()).size(), 330u);
}

TEST_F(LoaderTest, ResumesAtAnyStep) {
  WriteShards("d", 0, 2, 64, 0);
  auto daemon = Serve("d");
  LoaderOptions options = Options({Url(*daemon)}, 2);
  options.shuffle = plan::Shuffle::kFull;
  auto loader = Open(options);
  const Epoch whole = Read(loader.get(), {3, 0});
  for (uint64_t step : {0u, 1u, 61u, 63u}) {
    auto resumed = Open(options);
    const Epoch rest = Read(resumed.get(), {3, step});
    EXPECT_EQ(rest.ids, std::vector<uint64_t>(whole.ids.begin() + 2 * step, whole.ids.end()));
    EXPECT_EQ(resumed->cursor(), (Cursor{4, 0}));
  }
  // The very end of an epoch is the beginning of the next one.
  ASSERT_TRUE(loader->StartPass({3, 64}).ok());
  auto batch = loader->Next();
  ASSERT_TRUE(batch.ok() && *batch != nullptr);
  EXPECT_EQ((*batch)->epoch(), 4u);
}

TEST_F(LoaderTest, LoadersWithAStrideShareTheStepsOfARank) {
  WriteShards("d", 0, 2, 50, 0);
  auto daemon = Serve("d");
  LoaderOptions options = Options({Url(*daemon)}, 8);
  options.shuffle = plan::Shuffle::kFull;
  options.epochs = 2;
  auto whole_loader = Open(options);
  options.step_stride = 3;
  for (const uint64_t start : {0u, 4u}) {
    std::vector<std::vector<uint64_t>> batches(13);
    for (uint64_t first = start; first < start + 3; ++first) {
      auto loader = Open(options);
      ASSERT_NE(loader, nullptr);
      EXPECT_EQ(loader->steps_per_epoch(), 13u);
      ASSERT_TRUE(loader->StartPass({0, first}).ok());
      for (uint64_t step = first; step < 13; step += 3) {
        auto batch = loader->Next();
        ASSERT_TRUE(batch.ok() && *batch != nullptr);
        EXPECT_EQ((*batch)->step(), step);
        batches[step].assign((*batch)->indices().begin(), (*batch)->indices().end());
      }
      EXPECT_EQ(*loader->Next(), nullptr);
      EXPECT_EQ(loader->cursor(), (Cursor{1, first % 3}));
      // The next epoch, of which another step may come first.
      ASSERT_TRUE(loader->StartPass({1, (first + 1) % 3}).ok());
      auto batch = loader->Next();
      ASSERT_TRUE(batch.ok() && *batch != nullptr);
      EXPECT_EQ((*batch)->step(), (first + 1) % 3);
    }
    std::vector<uint64_t> ids;
    for (const auto& batch : batches) ids.insert(ids.end(), batch.begin(), batch.end());
    EXPECT_EQ(ids, Read(whole_loader.get(), {0, start}).ids);
  }
}

constexpr std::array kShuffles = {plan::Shuffle::kNone, plan::Shuffle::kFull,
                                  plan::Shuffle::kBlock};
constexpr std::array kTails = {plan::Tail::kDrop, plan::Tail::kKeep, plan::Tail::kPad};

TEST_F(LoaderTest, EveryShuffleAndTailYieldsAsManyBatchesAsItSaysFromAnyStep) {
  WriteShards("d", 0, 2, 17, 0);
  auto daemon = Serve("d");
  for (const plan::Shuffle shuffle : kShuffles) {
    for (const plan::Tail tail : kTails) {
      SCOPED_TRACE(fmt::format("{} {}", plan::ShuffleName(shuffle), plan::TailName(tail)));
      LoaderOptions options = Options({Url(*daemon)}, 8);
      options.shuffle = shuffle;
      options.tail = tail;
      if (shuffle == plan::Shuffle::kBlock) {
        options.shuffle_block = {{.amount = 3}};
        options.shuffle_window = {{.amount = 12}};
      }
      auto loader = Open(options);
      ASSERT_NE(loader, nullptr);
      EXPECT_EQ(loader->steps_per_epoch(), tail == plan::Tail::kDrop ? 4u : 5u);
      const Epoch whole = Read(loader.get(), {1, 0});
      EXPECT_EQ(whole.batch_sizes.size(), loader->steps_per_epoch());
      EXPECT_EQ(whole.batch_sizes.back(), tail == plan::Tail::kKeep ? 2u : 8u);
      EXPECT_EQ(std::set<uint64_t>(whole.valid_ids.begin(), whole.valid_ids.end()).size(),
                whole.valid_ids.size());
      EXPECT_EQ(whole.valid_ids.size(), tail == plan::Tail::kDrop ? 32u : 34u);
      EXPECT_EQ(loader->stats().padded_records, tail == plan::Tail::kPad ? 6u : 0u);
      for (uint64_t step = 0; step < loader->steps_per_epoch(); ++step) {
        const Epoch rest = Read(loader.get(), {1, step});
        EXPECT_EQ(rest.ids, std::vector<uint64_t>(whole.ids.begin() + 8 * step, whole.ids.end()));
        EXPECT_EQ(rest.batch_sizes.size(), loader->steps_per_epoch() - step);
      }
    }
  }
}

TEST_F(LoaderTest, RanksGetEquallyManyBatchesAndTheirValidRecordsAreAllRecordsOnce) {
  WriteShards("d", 0, 2, 5, 0);
  WriteShards("e", 0, 4, 25, 0);
  struct Case {
    const char* folder;
    uint64_t records;
    uint32_t world_size;
    size_t batches;  // with padding
  };
  // The last of 4 ranks has one record of its own and two that pad.
  for (const Case& c : {Case{"d", 10, 4, 1}, Case{"e", 100, 7, 5}}) {
    auto daemon = Serve(c.folder);
    for (const plan::Shuffle shuffle : kShuffles) {
      std::vector<uint64_t> valid;
      for (uint32_t rank = 0; rank < c.world_size; ++rank) {
        LoaderOptions options = Options({Url(*daemon)}, 3);
        options.shuffle = shuffle;
        options.tail = plan::Tail::kPad;
        options.rank = rank;
        options.world_size = c.world_size;
        auto loader = Open(options);
        ASSERT_NE(loader, nullptr);
        const Epoch epoch = Read(loader.get(), {0, 0});
        EXPECT_EQ(epoch.batch_sizes, std::vector<size_t>(c.batches, 3));
        valid.insert(valid.end(), epoch.valid_ids.begin(), epoch.valid_ids.end());
      }
      ExpectEachOnce(valid, c.records);
    }
  }
}

TEST_F(LoaderTest, BlocksComeFromAllSourcesTogether) {
  WriteShards("a", 0, 2, 30, 0, [](uint64_t) { return 1000; });
  WriteShards("b", 2, 3, 30, 60, [](uint64_t) { return 100; });
  const auto size_of = [](uint64_t id) -> size_t { return id < 60 ? 1000 : 100; };
  auto a = Serve("a");
  auto b = Serve("b");
  LoaderOptions options = Options({Url(*b), Url(*a)}, 7);
  options.shuffle = plan::Shuffle::kBlock;
  options.shuffle_block = {{.amount = 5000, .is_bytes = true}};
  options.shuffle_window = {{.amount = 20'000, .is_bytes = true}};
  auto loader = Open(options);
  ASSERT_NE(loader, nullptr);
  // The mean of 60 records of 1,000 + 16 bytes and 90 of 100 + 16 is 476.
  EXPECT_EQ(loader->plan().spec().sources[0].block_records, 10u);
  EXPECT_EQ(loader->plan().spec().sources[0].window_blocks, 5u);
  const Epoch first = Read(loader.get(), {0, 0}, size_of);
  const Epoch second = Read(loader.get(), {1, 0}, size_of);
  ExpectEachOnce(first.ids, 150);
  ExpectEachOnce(second.ids, 150);
  EXPECT_NE(first.ids, second.ids);

  // Other ends of the same data make the same plan.
  options.sources = {Path("a") + "/s-*", Url(*b)};
  auto other = Open(options);
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(other->plan().hash(), loader->plan().hash());
  EXPECT_EQ(Read(other.get(), {0, 0}, size_of).ids, first.ids);
}

TEST_F(LoaderTest, AnAbandonedPassLeavesNothingBehind) {
  WriteShards("d", 0, 2, 100, 0);
  auto daemon = Serve("d");
  auto loader = Open(Options({Url(*daemon)}, 4));
  for (uint64_t epoch = 0; epoch < 20; ++epoch) {
    ASSERT_TRUE(loader->StartPass({epoch, 0}).ok());
    auto batch = loader->Next();
    ASSERT_TRUE(batch.ok());
    EXPECT_EQ((*batch)->indices()[0], 0u);
  }
  ExpectEachOnce(Read(loader.get(), {20, 0}).ids, 200);
}

TEST_F(LoaderTest, KnownEpochsAreReadAheadInOneSession) {
  WriteShards("d", 0, 2, 50, 0);
  auto daemon = Serve("d");
  LoaderOptions options = Options({Url(*daemon)}, 8);
  options.epochs = 5;
  options.shuffle = plan::Shuffle::kFull;
  auto loader = Open(options);
  std::set<std::vector<uint64_t>> orders;
  for (uint64_t epoch = 0; epoch < 5; ++epoch) {
    const Epoch read = Read(loader.get(), {epoch, 0});
    ExpectEachOnce(read.ids, 100);
    orders.insert(read.ids);
  }
  EXPECT_EQ(orders.size(), 5u);
  EXPECT_EQ(daemon->stats().sessions_opened, 1u);
}

TEST_F(LoaderTest, IndependentLoadersShareADaemon) {
  WriteShards("d", 0, 2, 50, 0);
  auto daemon = Serve("d");
  auto first = Open(Options({Url(*daemon)}, 3));
  auto second = Open(Options({Url(*daemon)}, 5));
  ASSERT_TRUE(first->StartPass({0, 0}).ok());
  ASSERT_TRUE(second->StartPass({0, 0}).ok());
  std::vector<uint64_t> ids;
  for (int i = 0; i < 10; ++i) {
    auto a = first->Next();
    auto b = second->Next();
    ASSERT_TRUE(a.ok() && b.ok());
    EXPECT_EQ((*a)->records().size(), 3u);
    ids.insert(ids.end(), (*b)->indices().begin(), (*b)->indices().end());
  }
  first.reset();
  while (true) {
    auto b = second->Next();
    ASSERT_TRUE(b.ok());
    if (*b == nullptr) break;
    ids.insert(ids.end(), (*b)->indices().begin(), (*b)->indices().end());
  }
  ExpectEachOnce(ids, 100);
}

TEST_F(LoaderTest, BatchesOutliveTheLoader) {
  WriteShards("d", 0, 1, 40, 0);
  auto daemon = Serve("d");
  std::vector<std::shared_ptr<const Batch>> kept;
  for (const std::string& source : {Url(*daemon), Path("d") + "/s-*"}) {
    auto loader = Open(Options({source}, 10));
    ASSERT_TRUE(loader->StartPass({0, 0}).ok());
    for (int i = 0; i < 4; ++i) kept.push_back(*loader->Next());
  }
  daemon.reset();
  for (const auto& batch : kept) {
    for (size_t i = 0; i < batch->records().size(); ++i) {
      const uint64_t id = batch->indices()[i];
      const auto expected = Payload(id, 16 + id % 50);
      const auto record = batch->records()[i];
      EXPECT_TRUE(std::equal(record.begin(), record.end(), expected.begin(), expected.end()));
    }
  }
}

TEST_F(LoaderTest, LargeRecordsComeInPiecesAndEmptyOnesCount) {
  const auto size_of = [](uint64_t id) -> size_t {
    if (id % 4 == 0) return 0;
    return id % 4 == 1 ? 10'000'000 + id : 100;
  };
  WriteShards("d", 0, 2, 6, 0, size_of);
  auto daemon = Serve("d");
  LoaderOptions options = Options({Url(*daemon)}, 4);
  options.prefetch_bytes = 1 << 20;  // less than a record
  auto loader = Open(options);
  ExpectEachOnce(Read(loader.get(), {0, 0}, size_of).ids, 12);
  options.sources = {Path("d") + "/s-*"};
  auto local = Open(options);
  ExpectEachOnce(Read(local.get(), {0, 0}, size_of).ids, 12);
}

TEST_F(LoaderTest, WhatWaitsStaysBelowTheBudgetPlusABatch) {
  const auto size_of = [](uint64_t) -> size_t { return 100'000; };
  WriteShards("d", 0, 2, 200, 0, size_of);
  auto daemon = Serve("d");
  LoaderOptions options = Options({Url(*daemon)}, 8);
  options.prefetch_bytes = 4 << 20;
  auto loader = Open(options);
  ASSERT_TRUE(loader->StartPass({0, 0}).ok());
  ASSERT_TRUE(loader->Next().ok());
  // Whatever the daemon may send arrives while nobody takes batches.
  uint64_t chunks = 0;
  for (int quiet = 0; quiet < 10;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const uint64_t now = loader->stats().chunks;
    quiet = now == chunks ? quiet + 1 : 0;
    chunks = now;
  }
  EXPECT_LE(loader->stats().max_ready_bytes, options.prefetch_bytes + 800'000);
  EXPECT_LT(daemon->stats().records_sent, 400u);
  size_t batches = 1;
  while (*loader->Next() != nullptr) ++batches;
  EXPECT_EQ(batches, 50u);
  EXPECT_LE(loader->stats().max_ready_bytes, options.prefetch_bytes + 800'000);
}

TEST_F(LoaderTest, ABadPayloadIsAnErrorThatNamesItsPlace) {
  const auto size_of = [](uint64_t) -> size_t { return 84; };  // 100 bytes with its frame
  WriteShards("d", 0, 8, 100, 0, size_of);
  FlipByte("d/s-003", 40 * 100 + 12 + 5);
  auto daemon = Serve("d");
  LoaderOptions options = Options({Url(*daemon)}, 10);
  auto loader = Open(options);
  ASSERT_TRUE(loader->StartPass({0, 0}).ok());
  Status status;
  size_t batches = 0;
  while (true) {
    auto batch = loader->Next();
    if (!batch.ok()) {
      status = batch.status();
      break;
    }
    ASSERT_NE(*batch, nullptr);
    ++batches;
  }
  EXPECT_EQ(batches, 34u);  // records 0 to 339 came; 340 is shard 3, record 40
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("s-003"), HasSubstr("record 40"),
                                      HasSubstr("offset 4000"), HasSubstr("payload checksum")));
  EXPECT_EQ(loader->Next().status(), status);
  // Only this pass has ended.
  ASSERT_TRUE(loader->StartPass({0, 50}).ok());
  ASSERT_TRUE(loader->Next().ok());
}

// Flips a bit in the payload of a record; all before it in its shard have the same size.
void FlipPayloadBit(const std::string& path, uint64_t record, uint64_t record_bytes) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  const auto offset = static_cast<std::streamoff>(record * (record_bytes + 16) + 12 + 20);
  file.seekg(offset);
  const char byte = static_cast<char>(file.get() ^ 4);
  file.seekp(offset);
  file.put(byte);
}

TEST_F(LoaderTest, BadRecordsWithinTheBudgetAreLeftOutAndCounted) {
  const auto size_of = [](uint64_t) { return size_t{84}; };
  WriteShards("data", 0, 4, 100, 0, size_of);
  FlipPayloadBit(Path("data/s-001"), 7, 84);
  FlipPayloadBit(Path("data/s-003"), 40, 84);
  auto daemon = Serve("data");
  for (const std::string& source : {daemon->endpoint() + "/train", Path("data/s-*")}) {
    LoaderOptions options = Options({source}, 16);
    options.max_bad_records = 2;
    options.shuffle = plan::Shuffle::kFull;
    auto loader = Open(options);
    ASSERT_TRUE(loader->StartPass({0, 0}).ok());
    std::set<uint64_t> ids;
    std::vector<uint64_t> bad;
    size_t batches = 0;
    for (auto batch = loader->Next();; batch = loader->Next()) {
      ASSERT_TRUE(batch.ok()) << batch.status().ToString();
      if (*batch == nullptr) break;
      ++batches;
      ASSERT_EQ((*batch)->records().size(), (*batch)->indices().size());
      EXPECT_EQ((*batch)->records().size() + (*batch)->bad_records().size(), 16u);
      EXPECT_EQ((*batch)->valid_records(), (*batch)->records().size());
      for (size_t i = 0; i < (*batch)->records().size(); ++i) {
        const uint64_t id = LoadLe<uint64_t>((*batch)->records()[i].data());
        EXPECT_EQ(id, (*batch)->indices()[i]);
        ids.insert(id);
      }
      for (const Batch::BadRecord& record : (*batch)->bad_records()) {
        bad.push_back(record.index);
        EXPECT_TRUE(record.is_valid);
        EXPECT_THAT(record.reason.message(), HasSubstr("payload checksum"));
      }
    }
    EXPECT_EQ(batches, 25u);
    EXPECT_EQ(ids.size(), 398u);
    EXPECT_THAT(bad, ::testing::UnorderedElementsAre(107, 340));
    EXPECT_EQ(loader->stats().bad_records, 2u);
    EXPECT_THAT(loader->stats().bad_records_of_shard,
                ::testing::ElementsAre(std::pair<const std::string, uint64_t>("s-001", 1),
                                       std::pair<const std::string, uint64_t>("s-003", 1)));
    // The budget is for all passes.
    ASSERT_TRUE(loader->StartPass({1, 0}).ok());
    Status status;
    while (status.ok()) status = loader->Next().status();
    EXPECT_EQ(status.code(), Code::kCorrupt);
    EXPECT_THAT(status.message(), AllOf(HasSubstr("more than 2 bad records"), HasSubstr("s-00")));
    EXPECT_EQ(loader->stats().bad_records, 2u);
  }
}

TEST_F(LoaderTest, WhatWasLeftOutBeforeCountsAgainstTheBudget) {
  const auto size_of = [](uint64_t) { return size_t{84}; };
  WriteShards("data", 0, 1, 100, 0, size_of);
  FlipPayloadBit(Path("data/s-000"), 50, 84);
  LoaderOptions options = Options({Path("data/s-*")}, 10);
  options.max_bad_records = 3;
  auto loader = Open(options);
  loader->SetBadRecords(3);
  ASSERT_TRUE(loader->StartPass({0, 0}).ok());
  for (int step = 0; step < 5; ++step) ASSERT_TRUE(loader->Next().ok());
  EXPECT_EQ(loader->Next().status().code(), Code::kCorrupt);
  loader->SetBadRecords(2);
  ASSERT_TRUE(loader->StartPass({0, 5}).ok());
  const auto batch = loader->Next();
  ASSERT_TRUE(batch.ok()) << batch.status().ToString();
  EXPECT_EQ((*batch)->records().size(), 9u);
  EXPECT_EQ(loader->stats().bad_records, 3u);
}

TEST_F(LoaderTest, ABatchMayLoseAllOfItsRecords) {
  const auto size_of = [](uint64_t) { return size_t{84}; };
  WriteShards("data", 0, 1, 4, 0, size_of);
  for (uint64_t record : {2, 3}) FlipPayloadBit(Path("data/s-000"), record, 84);
  LoaderOptions options = Options({Path("data/s-*")}, 2);
  options.max_bad_records = 10;
  auto loader = Open(options);
  ASSERT_TRUE(loader->StartPass({0, 0}).ok());
  EXPECT_EQ((*loader->Next())->records().size(), 2u);
  EXPECT_EQ((*loader->Next())->records().size(), 0u);
  EXPECT_EQ(*loader->Next(), nullptr);
}

TEST_F(LoaderTest, AShardThatShrinksEndsItsReadersOnly) {
  const auto size_of = [](uint64_t) -> size_t { return 50'000; };
  WriteShards("d", 0, 4, 50, 0, size_of);
  WriteShards("other", 0, 1, 50, 0, size_of);
  daemon::DaemonOptions daemon_options;
  daemon_options.datasets.push_back(DatasetAt("other", "other"));
  auto daemon = Serve("d", daemon_options);
  std::filesystem::resize_file(Path("d/s-002"), 100'000);
  LoaderOptions options = Options({Url(*daemon)}, 10);
  options.prefetch_bytes = 1 << 20;
  auto loader = Open(options);
  ASSERT_TRUE(loader->StartPass({0, 0}).ok());
  Status status;
  while (status.ok()) {
    auto batch = loader->Next();
    status = batch.status();
    ASSERT_TRUE(!batch.ok() || *batch != nullptr);
  }
  EXPECT_EQ(status.code(), Code::kShardChanged) << status.ToString();
  EXPECT_THAT(status.message(), HasSubstr("s-002"));
  options.sources = {Url(*daemon, "other")};
  auto other = Open(options);
  ExpectEachOnce(Read(other.get(), {0, 0}, size_of).ids, 50);
}

TEST_F(LoaderTest, RanksOfAJobThatDisagreeAreRefused) {
  WriteShards("d", 0, 1, 100, 0);
  auto daemon = Serve("d");
  LoaderOptions options = Options({Url(*daemon)}, 5);
  options.world_size = 2;
  options.job = "job";
  auto first = Open(options);
  ASSERT_TRUE(first->StartPass({0, 0}).ok());
  options.rank = 1;
  options.seed = 7;
  auto second = Open(options);
  const Status refused = second->StartPass({0, 0});
  EXPECT_EQ(refused.code(), Code::kPlanMismatch) << refused.ToString();
  EXPECT_THAT(refused.message(), HasSubstr("job"));
  options.name = "validation";
  auto third = Open(options);
  EXPECT_TRUE(third->StartPass({0, 0}).ok());
}

TEST_F(LoaderTest, UnknownDataSetNamesThoseThatThereAre) {
  WriteShards("d", 0, 1, 10, 0);
  auto daemon = Serve("d");
  auto loader = Loader::Open(Options({Url(*daemon, "trian")}, 5));
  ASSERT_FALSE(loader.ok());
  EXPECT_EQ(loader.status().code(), Code::kNotFound);
  EXPECT_THAT(loader.status().message(), AllOf(HasSubstr("trian"), HasSubstr("train")));
}

TEST_F(LoaderTest, NobodyListeningIsUnavailableAndNamesTheAddress) {
  WriteShards("d", 0, 1, 10, 0);
  auto daemon = Serve("d");
  const std::string url = Url(*daemon);
  daemon.reset();
  auto loader = Loader::Open(Options({url}, 5));
  ASSERT_FALSE(loader.ok());
  EXPECT_EQ(loader.status().code(), Code::kUnavailable) << loader.status().ToString();
  EXPECT_THAT(loader.status().message(), HasSubstr(url));
}

TEST_F(LoaderTest, ALostDaemonIsUnavailable) {
  const auto size_of = [](uint64_t) -> size_t { return 100'000; };
  WriteShards("d", 0, 2, 200, 0, size_of);
  auto daemon = Serve("d");
  LoaderOptions options = Options({Url(*daemon)}, 8);
  options.prefetch_bytes = 4 << 20;
  auto loader = Open(options);
  ASSERT_TRUE(loader->StartPass({0, 0}).ok());
  ASSERT_TRUE(loader->Next().ok());
  daemon.reset();
  Status status;
  while (status.ok()) status = loader->Next().status();
  EXPECT_EQ(status.code(), Code::kUnavailable) << status.ToString();
  EXPECT_EQ(loader->StartPass({1, 0}).code(), Code::kUnavailable);
}

TEST_F(LoaderTest, ShutdownLetsRunningSessionsFinish) {
  WriteShards("d", 0, 2, 50, 0);
  auto daemon = Serve("d");
  auto loader = Open(Options({Url(*daemon)}, 4));
  ASSERT_TRUE(loader->StartPass({0, 0}).ok());
  ASSERT_TRUE(loader->Next().ok());
  Status shutdown = InternalError("not run");
  std::thread stopper([&] { shutdown = daemon->Shutdown(20'000); });
  size_t batches = 1;
  while (*loader->Next() != nullptr) ++batches;
  EXPECT_EQ(batches, 25u);
  loader.reset();
  stopper.join();
  EXPECT_TRUE(shutdown.ok()) << shutdown.ToString();
}

TEST_F(LoaderTest, ShutdownTellsThoseThatItCutsOff) {
  const auto size_of = [](uint64_t) -> size_t { return 100'000; };
  WriteShards("d", 0, 2, 200, 0, size_of);
  auto daemon = Serve("d");
  LoaderOptions options = Options({Url(*daemon)}, 8);
  options.prefetch_bytes = 1 << 20;
  auto loader = Open(options);
  ASSERT_TRUE(loader->StartPass({0, 0}).ok());
  ASSERT_TRUE(loader->Next().ok());
  EXPECT_EQ(daemon->Shutdown(1).code(), Code::kTimeout);
  Status status;
  while (status.ok()) status = loader->Next().status();
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("shutting down"));
}

TEST_F(LoaderTest, AnInterruptEndsTheWaitAndLosesNothing) {
  WriteShards("d", 0, 1, 20, 0);
  auto daemon = Serve("d");
  auto loader = Open(Options({Url(*daemon)}, 4));
  ASSERT_TRUE(loader->StartPass({0, 0}).ok());
  size_t ids = 0;
  while (true) {
    auto batch = loader->Next([] { return true; });
    if (!batch.ok()) {
      EXPECT_EQ(batch.status().code(), Code::kCancelled);
      continue;
    }
    if (*batch == nullptr) break;
    ids += (*batch)->records().size();
  }
  EXPECT_EQ(ids, 20u);
}

TEST_F(LoaderTest, InOrderReadyBatchesGoOnBesideASourceThatIsBlocked) {
  WriteAlternating(6, 10);
  GatedListener* gate = nullptr;
  auto a = ServeGated("a", &gate);
  auto b = Serve("b");
  LoaderOptions options = Options({Url(*a), Url(*b)}, 5);  // steps 0, 1, 4, 5, 8, 9 are of a
  options.order = Order::kReady;
  options.ready_window = 8;
  auto loader = Open(options);
  ASSERT_NE(loader, nullptr);
  EXPECT_EQ(loader->steps_per_epoch(), 12u);
  gate->Shut();
  ASSERT_TRUE(loader->StartPass({0, 0}).ok());
  AwaitReady(*loader, 6);
  for (const uint64_t step : {2, 3, 6, 7}) {
    auto batch = loader->Next();
    ASSERT_TRUE(batch.ok()) << batch.status().ToString();
    EXPECT_EQ((*batch)->step(), step);
  }
  // Steps 10 and 11 are complete, too, but too far from step 0.
  EXPECT_EQ(loader->stats().ready_batches_now, 2u);
  EXPECT_EQ(loader->Next([] { return true; }).status().code(), Code::kCancelled);
  EXPECT_EQ(loader->cursor(), (Cursor{0, 0, {2, 3, 6, 7}}));
  gate->Reopen();
  std::vector<uint64_t> steps;
  for (auto batch = loader->Next();; batch = loader->Next()) {
    ASSERT_TRUE(batch.ok()) << batch.status().ToString();
    if (*batch == nullptr) break;
    steps.push_back((*batch)->step());
  }
  EXPECT_THAT(steps, ::testing::UnorderedElementsAre(0, 1, 4, 5, 8, 9, 10, 11));
  EXPECT_EQ(loader->cursor(), (Cursor{1, 0}));
}

TEST_F(LoaderTest, InOrderReadyWithNothingSlowTheOrderIsThatOfSteps) {
  WriteShards("d", 0, 4, 25, 0);
  LoaderOptions options = Options({Path("d") + "/s-*"}, 8);
  options.order = Order::kReady;
  auto loader = Open(options);
  ASSERT_TRUE(loader->StartPass({0, 0}).ok());
  AwaitReady(*loader, 13);
  for (uint64_t step = 0; step < 13; ++step) {
    auto batch = loader->Next();
    ASSERT_TRUE(batch.ok() && *batch != nullptr);
    EXPECT_EQ((*batch)->step(), step);
  }
}

// Reads the rest of an epoch from a position: its steps, in the order in which they come.
std::vector<uint64_t> RestOfEpoch(Loader* loader, const Cursor& from) {
  std::vector<uint64_t> steps;
  EXPECT_EQ(loader->StartPass(from), OkStatus());
  for (auto batch = loader->Next();; batch = loader->Next()) {
    EXPECT_TRUE(batch.ok()) << batch.status().ToString();
    if (!batch.ok() || *batch == nullptr) return steps;
    EXPECT_EQ((*batch)->epoch(), from.epoch);
    steps.push_back((*batch)->step());
  }
}

TEST_F(LoaderTest, EveryPositionOfAnEpochInOrderReadyIsExactForEveryOrderAndWindow) {
  WriteAlternating(6, 10);
  GatedListener* gate = nullptr;
  auto a = ServeGated("a", &gate);
  auto b = Serve("b");
  LoaderOptions options = Options({Url(*a), Url(*b)}, 5);
  options.order = Order::kReady;
  options.ready_window = 8;
  auto loader = Open(options);
  options.ready_window = 3;
  auto narrow = Open(options);
  options.order = Order::kStep;
  auto in_order = Open(options);
  options.sources = {Path("a") + "/s-*", Path("b") + "/s-*"};
  auto local = Open(options);

  gate->Shut();
  ASSERT_TRUE(loader->StartPass({3, 0}).ok());
  AwaitReady(*loader, 6);
  std::set<uint64_t> left;
  for (uint64_t step = 0; step < 12; ++step) left.insert(step);
  std::vector<Cursor> positions;
  while (true) {
    // What a position must be follows from what is left.
    const Cursor position = loader->cursor();
    if (left.empty()) {
      EXPECT_EQ(position, (Cursor{4, 0}));
      break;
    }
    Cursor expected{3, *left.begin()};
    for (uint64_t step = *left.begin(); step < 12; ++step) {
      if (!left.contains(step)) expected.handed_out.push_back(step);
    }
    EXPECT_EQ(position, expected);
    positions.push_back(position);
    if (positions.size() == 5) gate->Reopen();
    auto batch = loader->Next();
    ASSERT_TRUE(batch.ok() && *batch != nullptr);
    ASSERT_EQ(left.erase((*batch)->step()), 1u);
  }
  EXPECT_THAT(positions[4].handed_out, ::testing::ElementsAre(2, 3, 6, 7));

  for (const Cursor& position : positions) {
    std::vector<uint64_t> rest;
    for (uint64_t step = position.step; step < 12; ++step) {
      if (std::find(position.handed_out.begin(), position.handed_out.end(), step) ==
          position.handed_out.end()) {
        rest.push_back(step);
      }
    }
    const uint64_t sent = a->stats().records_sent + b->stats().records_sent;
    EXPECT_EQ(RestOfEpoch(in_order.get(), position), rest);
    // What was handed out is not sent again.
    EXPECT_EQ(a->stats().records_sent + b->stats().records_sent - sent, rest.size() * 5);
    EXPECT_EQ(RestOfEpoch(local.get(), position), rest);
    EXPECT_THAT(RestOfEpoch(narrow.get(), position), ::testing::UnorderedElementsAreArray(rest));
    EXPECT_EQ(narrow->cursor(), (Cursor{4, 0}));
  }
}

TEST_F(LoaderTest, InOrderReadyEpochsThatAreReadAheadAreNotMixed) {
  WriteAlternating(4, 10);
  GatedListener* gate = nullptr;
  auto a = ServeGated("a", &gate);
  auto b = Serve("b");
  LoaderOptions options = Options({Url(*a), Url(*b)}, 10);  // steps 0 and 2 are of a
  options.order = Order::kReady;
  options.epochs = 3;
  auto loader = Open(options);
  gate->Shut();
  ASSERT_TRUE(loader->StartPass({0, 0}).ok());
  AwaitReady(*loader, 6);  // two steps of each epoch
  EXPECT_EQ((*loader->Next())->step(), 1u);
  EXPECT_EQ((*loader->Next())->step(), 3u);
  EXPECT_EQ(loader->Next([] { return true; }).status().code(), Code::kCancelled);
  gate->Reopen();
  std::vector<uint64_t> steps;
  for (auto batch = *loader->Next(); batch != nullptr; batch = *loader->Next()) {
    EXPECT_EQ(batch->epoch(), 0u);
    steps.push_back(batch->step());
  }
  EXPECT_THAT(steps, ::testing::UnorderedElementsAre(0, 2));
  for (uint64_t epoch = 1; epoch < 3; ++epoch) {
    EXPECT_THAT(RestOfEpoch(loader.get(), {epoch, 0}), ::testing::UnorderedElementsAre(0, 1, 2, 3));
  }
  EXPECT_EQ(b->stats().sessions_opened, 1u);
}

TEST_F(LoaderTest, InOrderReadyWhatWaitsStaysBelowTheBudgetPlusABatch) {
  const auto size_of = [](uint64_t) -> size_t { return 100'000; };
  WriteAlternating(20, 10, size_of);
  GatedListener* gate = nullptr;
  auto a = ServeGated("a", &gate);
  auto b = Serve("b");
  LoaderOptions options = Options({Url(*a), Url(*b)}, 10);  // every other step is of a
  options.prefetch_bytes = 4 << 20;
  options.order = Order::kReady;
  options.ready_window = 20;
  auto loader = Open(options);
  gate->Shut();
  ASSERT_TRUE(loader->StartPass({0, 0}).ok());
  // All 10 MB of b come through a budget of 2 MiB, although step 0 does not.
  std::set<uint64_t> steps;
  for (size_t batches = 0; batches < 20; ++batches) {
    if (batches == 10) gate->Reopen();
    auto batch = loader->Next();
    ASSERT_TRUE(batch.ok()) << batch.status().ToString();
    EXPECT_EQ((*batch)->step() % 2, batches < 10 ? 1u : 0u);
    EXPECT_TRUE(steps.insert((*batch)->step()).second);
  }
  EXPECT_EQ(*loader->Next(), nullptr);
  EXPECT_LE(loader->stats().max_ready_bytes, options.prefetch_bytes + 1'000'000);
}

TEST_F(LoaderTest, InOrderReadyTheWindowOfAStrideIsThatOfTheRank) {
  WriteAlternating(6, 10);
  GatedListener* gate = nullptr;
  auto a = ServeGated("a", &gate);
  auto b = Serve("b");
  LoaderOptions options = Options({Url(*a), Url(*b)}, 5);  // steps 0, 1, 4, 5, 8, 9 are of a
  options.order = Order::kReady;
  options.ready_window = 6;
  options.step_stride = 2;
  auto loader = Open(options);
  gate->Shut();
  ASSERT_TRUE(loader->StartPass({0, 1}).ok());
  AwaitReady(*loader, 3);  // 3, 7, 11
  EXPECT_EQ((*loader->Next())->step(), 3u);
  EXPECT_EQ(loader->Next([] { return true; }).status().code(), Code::kCancelled);
  const Cursor position = loader->cursor();
  EXPECT_EQ(position, (Cursor{0, 1, {3}}));
  gate->Reopen();
  auto resumed = Open(options);
  EXPECT_THAT(RestOfEpoch(resumed.get(), position),
              ::testing::UnorderedElementsAre(1, 5, 7, 9, 11));
}

TEST_F(LoaderTest, PositionsThatCannotBeAreRefused) {
  WriteShards("d", 0, 1, 100, 0);
  LoaderOptions options = Options({Path("d") + "/s-*"}, 10);
  auto loader = Open(options);
  options.step_stride = 2;
  auto strided = Open(options);
  for (const Cursor& position :
       {Cursor{0, 3, {3}}, Cursor{0, 3, {2}}, Cursor{0, 3, {5, 5}}, Cursor{0, 3, {6, 5}},
        Cursor{0, 3, {10}}, Cursor{0, 10, {11}}, Cursor{0, 11}}) {
    EXPECT_EQ(loader->StartPass(position).code(), Code::kInvalidArgument);
  }
  EXPECT_EQ(strided->StartPass({0, 3, {6}}).code(), Code::kInvalidArgument);
  EXPECT_THAT(RestOfEpoch(strided.get(), {0, 3, {5}}), ::testing::ElementsAre(3, 7, 9));
  EXPECT_THAT(RestOfEpoch(loader.get(), {0, 7, {9}}), ::testing::ElementsAre(7, 8));
}

TEST_F(LoaderTest, OptionsThatCannotWorkAreRefused) {
  WriteShards("d", 0, 1, 10, 0);
  const std::string local = Path("d") + "/s-*";
  const auto code = [&](const std::function<void(LoaderOptions*)>& change) {
    LoaderOptions options = Options({local}, 2);
    change(&options);
    return Loader::Open(std::move(options)).status().code();
  };
  EXPECT_EQ(code([](LoaderOptions* o) { o->batch_size = 0; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](LoaderOptions* o) { o->global_batch_size = 4; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](LoaderOptions* o) { o->rank = 1; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](LoaderOptions* o) { o->world_size = 0; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](LoaderOptions* o) { o->streams = 257; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](LoaderOptions* o) { o->step_stride = 0; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](LoaderOptions* o) { o->ready_window = 0; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](LoaderOptions* o) { o->ready_window = 4097; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](LoaderOptions* o) { o->sources.clear(); }), Code::kInvalidArgument);
  EXPECT_EQ(code([](LoaderOptions* o) { o->sources = {"http://x/y"}; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](LoaderOptions* o) { o->sources = {"tcp://x:1"}; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](LoaderOptions* o) { o->sources = {"/nowhere/*"}; }), Code::kNotFound);
  EXPECT_EQ(code([](LoaderOptions* o) { o->features.resize(2); }), Code::kInvalidArgument);
  EXPECT_EQ(code([](LoaderOptions* o) { o->max_record_bytes = 10; }), Code::kLimitExceeded);
  EXPECT_EQ(code([](LoaderOptions* o) { o->shuffle_window = {{.amount = 5}}; }),
            Code::kInvalidArgument);
  EXPECT_EQ(code([](LoaderOptions* o) {
              o->shuffle = plan::Shuffle::kBlock;
              o->shuffle_block = plan::ShuffleSize{};
            }),
            Code::kInvalidArgument);
  EXPECT_EQ(code([](LoaderOptions* o) {
              o->shuffle = plan::Shuffle::kBlock;
              o->shuffle_block = {{.amount = 6}};
              o->shuffle_window = {{.amount = 5}};
            }),
            Code::kInvalidArgument);
  EXPECT_EQ(code([](LoaderOptions* o) {
              o->batch_size = 11;
              o->tail = plan::Tail::kDrop;
            }),
            Code::kInvalidArgument);
}

TEST_F(LoaderTest, ABatchOfMillionsOfRecordsIsRefusedBeforeItIsPlanned) {
  WriteShards("d", 0, 1, (1 << 22) + 1, 0, [](uint64_t) -> size_t { return 0; });
  auto loader = Loader::Open(Options({Path("d") + "/s-*"}, uint64_t{1} << 30));
  ASSERT_FALSE(loader.ok());
  EXPECT_EQ(loader.status().code(), Code::kLimitExceeded);
}

TEST_F(LoaderTest, ADaemonListensOnLoopbackOnly) {
  WriteShards("d", 0, 1, 10, 0);
  daemon::DaemonOptions options;
  options.bind = "0.0.0.0:0";
  options.datasets.push_back(DatasetAt("train", "d"));
  EXPECT_EQ(daemon::Daemon::Start(options).status().code(), Code::kPermissionDenied);
  options.bind = "127.example.com:0";  // a name, whatever it looks like
  EXPECT_EQ(daemon::Daemon::Start(options).status().code(), Code::kPermissionDenied);
  options.bind = "0.0.0.0:0";
  options.insecure = true;
  EXPECT_TRUE(daemon::Daemon::Start(options).ok());
  options.bind = "127.0.0.1:0";
  options.roots = {Path("d")};
  EXPECT_TRUE(daemon::Daemon::Start(options).ok());
  std::filesystem::create_directories(Path("elsewhere"));
  options.roots = {Path("elsewhere")};
  EXPECT_EQ(daemon::Daemon::Start(options).status().code(), Code::kPermissionDenied);
}

TEST(SourceListTest, TellsRemoteFromLocal) {
  auto list = ParseSources({"tcp://[::1]:5/a", "/data/x*", "tcp://host:77/b"});
  ASSERT_TRUE(list.ok());
  ASSERT_EQ(list->remote.size(), 2u);
  EXPECT_EQ(list->remote[0].endpoint, "tcp://[::1]:5");
  EXPECT_EQ(list->remote[1].dataset, "b");
  EXPECT_EQ(list->local_patterns, std::vector<std::string>{"/data/x*"});
  for (const char* bad : {"tcp://host/a", "tcp://[::1]/a", "tcp://host:1/a/b", "tcp:///a", ""}) {
    EXPECT_EQ(ParseSources({bad}).status().code(), Code::kInvalidArgument) << bad;
  }
}

}  // namespace
}  // namespace emlio::loader
