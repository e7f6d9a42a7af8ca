// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
// Shards that change, or rot, while a data set is open.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <stop_token>
#include <string>
#include <vector>

#include "emlio/base/thread.h"
#include "emlio/dataset/dataset.h"
#include "emlio/dataset/dataset_testing.h"
#include "emlio/tfrecord/test_util.h"

namespace emlio::dataset {
namespace {

using ::testing::HasSubstr;
using tfrecord::HeaderOf;
using tfrecord::ReadBytes;
using tfrecord::Shard;
using tfrecord::WriteBytes;

TEST_F(DatasetTest, RenamedAndReplacedFilesDoNotMatterOnceOpen) {
  WriteShards(1, 10);
  const auto dataset = Open();
  ASSERT_TRUE(dataset.ok());
  std::filesystem::rename(ShardPath(0), data_ + "/elsewhere");
  WriteBytes(ShardPath(0), "something else");
  EXPECT_EQ(*Read(**dataset, 0, 7), Payload(0, 7, 100));
  EXPECT_TRUE((*dataset)->VerifyRecord(0, 7).ok());
}

TEST_F(DatasetTest, AShardCutWhileItIsReadWithoutAMappingIsReportedToo) {
  WriteShards(2, 100, 1000);
  options_.io = IoMode::kPread;
  const auto dataset = Open();
  ASSERT_TRUE(dataset.ok());
  std::filesystem::resize_file(ShardPath(0), 50'000);
  const auto cut = Read(**dataset, 0, 99);
  EXPECT_EQ(cut.status().code(), Code::kShardChanged);
  EXPECT_TRUE(Read(**dataset, 0, 10).ok());
  EXPECT_TRUE(Read(**dataset, 1, 99).ok());
}

TEST_F(DatasetTest, AShardCutWhileOpenIsReportedAndOthersGoOn) {
  WriteShards(2, 1000, 1000);
  const auto dataset = Open();
  ASSERT_TRUE(dataset.ok());
  ASSERT_EQ(truncate(ShardPath(0).c_str(), 4096), 0);
  EXPECT_EQ(*Read(**dataset, 0, 2), Payload(0, 2, 1000));
  const auto lost = Read(**dataset, 0, 500);
  EXPECT_EQ(lost.status().code(), Code::kShardChanged);
  EXPECT_THAT(lost.status().message(), HasSubstr("shard " + ShardPath(0) + ", record 500"));
  EXPECT_EQ((*dataset)->VerifyRecord(0, 500).code(), Code::kShardChanged);
  EXPECT_EQ(*Read(**dataset, 1, 500), Payload(1, 500, 1000));
  // Among others in one call the message still names the right one.
  std::string buffer(3000, '\0');
  std::vector<GatherItem> items(3);
  for (size_t i = 0; i < 3; ++i) {
    items[i].shard = i == 1 ? 0 : 1;
    items[i].record = 700 + i;
    items[i].size = 1000;
    items[i].to = reinterpret_cast<uint8_t*>(buffer.data()) + 1000 * i;
  }
  EXPECT_THAT((*dataset)->Gather(items).message(), HasSubstr("record 701"));
}

TEST_F(DatasetTest, AShardCutInsideTheLastPageIsFoundByTheChecksum) {
  WriteShards(1, 30, 100);
  const auto dataset = Open();
  ASSERT_TRUE(dataset.ok());
  // The page stays, its end reads as zeros.
  ASSERT_EQ(truncate(ShardPath(0).c_str(), 20 * 116 + 50), 0);
  EXPECT_EQ((*dataset)->VerifyRecord(0, 20).code(), Code::kShardChanged);
  EXPECT_EQ(Read(**dataset, 0, 25).status().code(), Code::kShardChanged) << "no header";
}

TEST_F(DatasetTest, AShardRewrittenInPlaceIsNotTheOneThatWasOpened) {
  WriteShards(2, 10);
  const auto dataset = Open();
  ASSERT_TRUE(dataset.ok());
  EXPECT_TRUE((*dataset)->CheckUnchanged(0).ok());
  const std::string other = ReadBytes(ShardPath(1));
  std::fstream(ShardPath(0), std::ios::in | std::ios::out | std::ios::binary) << other << "more";
  const Status changed = (*dataset)->CheckUnchanged(0);
  EXPECT_EQ(changed.code(), Code::kShardChanged);
  EXPECT_THAT(changed.message(), HasSubstr(ShardPath(0)));
  EXPECT_TRUE((*dataset)->CheckUnchanged(1).ok());
  // A new file under the name is another matter.
  std::filesystem::remove(ShardPath(1));
  EXPECT_TRUE((*dataset)->CheckUnchanged(1).ok());
  WriteBytes(ShardPath(1), "new");
  EXPECT_TRUE((*dataset)->CheckUnchanged(1).ok());
}

TEST_F(DatasetTest, OverwrittenHeadersAreFoundWhenGathering) {
  WriteShards(1, 10);
  const auto dataset = Open();
  ASSERT_TRUE(dataset.ok());
  std::fstream file(ShardPath(0), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(3 * 116);
  file << HeaderOf(50);
  file.close();
  // Times of change are no finer than a tick of the system's clock.
  std::filesystem::last_write_time(
      ShardPath(0), std::filesystem::file_time_type::clock::now() + std::chrono::seconds(1));
  const auto changed = Read(**dataset, 0, 3);
  EXPECT_EQ(changed.status().code(), Code::kShardChanged);
  EXPECT_THAT(changed.status().message(), HasSubstr("record 3 at offset 348"));
  EXPECT_TRUE(Read(**dataset, 0, 4).ok());
}

TEST_F(DatasetTest, VerifyRecordNamesAFlippedBit) {
  WriteShards(1, 10);
  std::string bytes = ReadBytes(ShardPath(0));
  bytes[4 * 116 + 12 + 50] ^= 4;
  WriteBytes(ShardPath(0), bytes);
  const auto dataset = Open();
  ASSERT_TRUE(dataset.ok()) << "payloads are not read when indexing";
  for (int i = 0; i < 10; ++i) {
    const Status status = (*dataset)->VerifyRecord(0, i);
    EXPECT_EQ(status.code(), i == 4 ? Code::kCorrupt : Code::kOk);
    if (i == 4) {
      EXPECT_THAT(status.message(), HasSubstr("shard " + ShardPath(0) +
                                              ", record 4 at offset 464: payload checksum"));
    }
  }
}

// Writes without moving the time of change, like a failing disk.
void Rot(const std::string& path, size_t byte) {
  const auto time = std::filesystem::last_write_time(path);
  std::string bytes = ReadBytes(path);
  bytes[byte] ^= 1;
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary) << bytes;
  std::filesystem::last_write_time(path, time);
}

TEST_F(DatasetTest, AShardThatRotsIsNotTakenForADamagedIndex) {
  WriteShards(1, 10);
  ASSERT_TRUE(Open().ok());
  const auto dataset = Open();
  ASSERT_TRUE(dataset.ok());
  Rot(ShardPath(0), 3 * 116);  // the length of record 3
  for (int again = 0; again < 2; ++again) {
    const auto lost = Read(**dataset, 0, 3);
    EXPECT_EQ(lost.status().code(), Code::kCorrupt);
    EXPECT_THAT(lost.status().message(), HasSubstr("record 3 at offset 348: length checksum"));
    EXPECT_EQ(*Read(**dataset, 0, 4), Payload(0, 4, 100)) << "the offsets are still good";
  }
}

TEST_F(DatasetTest, ARottenRecordIsTheOnlyOneThatIsLost) {
  WriteShards(2, 200);
  for (const IoMode io : {IoMode::kMmap, IoMode::kPread}) {
    options_.io = io;
    ASSERT_TRUE(Open().ok());
    const auto dataset = Open();
    ASSERT_TRUE(dataset.ok());
    for (const uint64_t record : {70, 150}) Rot(ShardPath(1), record * 116 + 9);
    std::string buffer(20'000, '\0');
    std::vector<GatherItem> items;
    for (uint32_t i = 0; i < 200; ++i) {
      GatherItem item;
      item.shard = 1;
      item.record = i;
      item.size = 100;
      item.to = reinterpret_cast<uint8_t*>(buffer.data()) + 100 * i;
      items.push_back(item);
    }
    for (const uint64_t record : {70, 150}) {
      BadItem bad;
      const Status status = (*dataset)->Gather(items, &bad);
      EXPECT_EQ(status.code(), Code::kCorrupt);
      EXPECT_THAT(status.message(), HasSubstr(ShardPath(1) + ", record " + std::to_string(record)));
      EXPECT_EQ(bad.reason.code(), Code::kCorrupt);
      EXPECT_THAT(bad.reason.message(), HasSubstr("length checksum"));
      ASSERT_EQ(items[bad.position].record, record);
      items.erase(items.begin() + static_cast<std::ptrdiff_t>(bad.position));
      BadItem verified;
      EXPECT_EQ((*dataset)->VerifyRecord(1, record, &verified).code(), Code::kCorrupt);
      EXPECT_EQ(verified.reason, bad.reason);
    }
    BadItem none;
    EXPECT_TRUE((*dataset)->Gather(items, &none).ok());
    EXPECT_TRUE(none.reason.ok());
    for (const uint64_t record : {70, 150}) Rot(ShardPath(1), record * 116 + 9);
  }
}

TEST_F(DatasetTest, AShardRewrittenUnderAnIndexThatStillFitsIsReportedOnce) {
  const std::string before = Shard({"aaa", "bbbb", "ccccc"});
  WriteBytes(ShardPath(0), before);
  ASSERT_TRUE(Open().ok());
  const auto dataset = Open();
  ASSERT_TRUE(dataset.ok());
  const auto time = std::filesystem::last_write_time(ShardPath(0));
  std::fstream(ShardPath(0), std::ios::in | std::ios::out | std::ios::binary)
      << Shard({"aaa", "ccccc", "bbbb"});
  std::filesystem::last_write_time(ShardPath(0), time);
  const auto changed = Read(**dataset, 0, 1);
  EXPECT_EQ(changed.status().code(), Code::kShardChanged);
  EXPECT_THAT(changed.status().message(), HasSubstr(SavedIndexes().at(0)));
  const auto again = Open();
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*Read(**again, 0, 1), "ccccc");
}

TEST_F(DatasetTest, ThreadsGatherAtOnceWhileAShardIsCut) {
  WriteShards(2, 2000, 500);
  const auto dataset = Open();
  ASSERT_TRUE(dataset.ok());
  std::atomic<int> wrong{0};
  std::atomic<bool> cut{false};
  std::vector<Thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back("gather", [&, t](std::stop_token) {
      std::string buffer(500, '\0');
      for (int i = 0; i < 4000; ++i) {
        GatherItem item;
        item.shard = t % 2;
        item.record = i % 2000;
        item.size = 500;
        item.to = reinterpret_cast<uint8_t*>(buffer.data());
        const Status status = (*dataset)->Gather({&item, 1});
        const bool may_fail = item.shard == 0 && cut;
        if (status.ok() ? (!may_fail && buffer != Payload(t % 2, i % 2000, 500))
                        : (item.shard == 1 || status.code() != Code::kShardChanged)) {
          ++wrong;
        }
        if (t == 0 && i == 1000) {
          cut = true;
          if (truncate(ShardPath(0).c_str(), 0) != 0) ++wrong;
        }
      }
    });
  }
  for (Thread& thread : threads) thread.Join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace emlio::dataset
