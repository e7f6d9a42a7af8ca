// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
// Records that are bad, daemons that go away, and interrupts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "emlio/base/endian.h"
#include "emlio/daemon/daemon.h"
#include "emlio/loader/loader.h"
#include "emlio/loader/loader_testing.h"

namespace emlio::loader {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

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

}  // namespace
}  // namespace emlio::loader
