// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
// Indexes of shards: where they are kept, and when they are built again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "emlio/dataset/dali_index.h"
#include "emlio/dataset/dataset.h"
#include "emlio/dataset/dataset_testing.h"
#include "emlio/tfrecord/test_util.h"

namespace emlio::dataset {
namespace {

using ::testing::HasSubstr;
using std::string_literals::operator""s;
using tfrecord::ReadBytes;
using tfrecord::Shard;
using tfrecord::WriteBytes;

TEST_F(DatasetTest, SecondOpeningUsesSavedIndexes) {
  WriteShards(4, 10);
  std::vector<Progress> calls;
  options_.progress = [&](const Progress& progress) { calls.push_back(progress); };
  const auto first = Open();
  ASSERT_TRUE(first.ok());
  ASSERT_FALSE(calls.empty());
  EXPECT_EQ(calls.back().shards_done, 4u);
  EXPECT_EQ(calls.back().shards_total, 4u);
  EXPECT_EQ(calls.back().bytes_done, 4u * 10 * 116);
  EXPECT_EQ(calls.back().bytes_total, 4u * 10 * 116);
  EXPECT_EQ(SavedIndexes().size(), 4u);

  calls.clear();
  const auto second = Open();
  ASSERT_TRUE(second.ok());
  EXPECT_TRUE(calls.empty()) << "nothing was built";
  EXPECT_EQ((*first)->manifest().digest(), (*second)->manifest().digest());
  EXPECT_EQ(*Read(**second, 3, 9), Payload(3, 9, 100));
  EXPECT_EQ(LogOfOpening(), "");
}

TEST_F(DatasetTest, IndexesBesideTheShardsAreWrittenOnRequestAndAlwaysRead) {
  WriteShards(2, 10);
  options_.index_beside = true;
  ASSERT_TRUE(Open({"*"}).ok());
  EXPECT_TRUE(std::filesystem::exists(ShardPath(0) + ".emlio-index"));
  EXPECT_TRUE(SavedIndexes().empty());
  options_.index_beside = false;
  bool built = false;
  options_.progress = [&](const Progress&) { built = true; };
  const auto dataset = Open({"*"});
  ASSERT_TRUE(dataset.ok());
  EXPECT_EQ((*dataset)->manifest().shards().size(), 2u) << "an index is no shard";
  EXPECT_FALSE(built);
}

TEST_F(DatasetTest, AReplacedShardIsIndexedAgainWithAWarning) {
  WriteShards(2, 10);
  ASSERT_TRUE(Open().ok());
  std::filesystem::resize_file(ShardPath(1), 9 * 116);  // between two records
  const std::string log = LogOfOpening();
  EXPECT_THAT(log, HasSubstr("1 of 2 shards were indexed again"));
  EXPECT_THAT(log, HasSubstr("(now 9 records)"));
  EXPECT_THAT(log, HasSubstr("10 records"));
  const auto dataset = Open();
  EXPECT_EQ((*dataset)->manifest().records(), 19u);
}

TEST_F(DatasetTest, DamagedForeignAndSwappedIndexesAreBuiltAgain) {
  WriteShards(2, 10);
  const auto first = Open();
  ASSERT_TRUE(first.ok());
  auto indexes = SavedIndexes();
  ASSERT_EQ(indexes.size(), 2u);
  const std::string good[2] = {ReadBytes(indexes[0]), ReadBytes(indexes[1])};
  const std::pair<std::string, std::string> cases[] = {
      {"", ""},
      {"no index at all", good[1]},
      {good[1], good[0]},
      {good[0].substr(0, 100), good[1].substr(0, 96)},
      {good[0] + good[1], good[1]}};
  for (const auto& [a, b] : cases) {
    WriteBytes(indexes[0], a);
    WriteBytes(indexes[1], b);
    EXPECT_THAT(LogOfOpening(), HasSubstr("indexed again"));
    const auto dataset = Open();
    ASSERT_TRUE(dataset.ok()) << dataset.status().ToString();
    EXPECT_EQ((*dataset)->manifest().digest(), (*first)->manifest().digest());
    EXPECT_EQ(ReadBytes(indexes[0]), good[0]);
    EXPECT_EQ(ReadBytes(indexes[1]), good[1]);
  }
}

TEST_F(DatasetTest, AnIndexDirectoryThatCannotBeWrittenIsAWarning) {
  WriteShards(2, 10);
  WriteBytes(dir_ / "file", "in the way");
  for (const std::string& directory : {dir_ / "file", std::string("/proc/emlio")}) {
    options_.index_directory = directory;
    const std::string log = LogOfOpening();
    EXPECT_THAT(log, HasSubstr("2 of 2 indexes cannot be kept"));
    const auto dataset = Open();
    ASSERT_TRUE(dataset.ok());
    EXPECT_EQ(*Read(**dataset, 1, 3), Payload(1, 3, 100));
  }
}

TEST_F(DatasetTest, ALowerLimitHoldsForIndexedShardsToo) {
  WriteShards(1, 10);
  ASSERT_TRUE(Open().ok());
  options_.max_record_bytes = 99;
  const auto dataset = Open();
  EXPECT_EQ(dataset.status().code(), Code::kLimitExceeded);
  EXPECT_THAT(dataset.status().message(), HasSubstr("record 0 at offset 0"));
  options_.max_record_bytes = uint64_t{1} << 32;
  EXPECT_EQ(Open().status().code(), Code::kInvalidArgument);
}

// A piece of a record as a sender would ask for it, whatever Locate says.
Status GatherPiece(const Dataset& dataset, uint64_t record, std::string* to, uint32_t* crc) {
  GatherItem item;
  item.record = record;
  item.size = to->size();
  item.to = reinterpret_cast<uint8_t*>(to->data());
  EMLIO_RETURN_IF_ERROR(dataset.Gather({&item, 1}));
  *crc = item.crc32c;
  return OkStatus();
}

TEST_F(DatasetTest, AnIndexDamagedWhileInUseIsMended) {
  WriteShards(1, 10'000, 10);
  ASSERT_TRUE(Open().ok());
  const auto dataset = Open();
  ASSERT_TRUE(dataset.ok());
  const std::string index = SavedIndexes().at(0);
  const std::string good = ReadBytes(index);
  ASSERT_EQ(truncate(index.c_str(), 0), 0);
  EXPECT_EQ((*dataset)->Locate(0, 9000).payload_bytes, 0u);
  // Planned as a record of no bytes.
  std::string nothing;
  uint32_t crc = 0;
  testing::internal::CaptureStderr();
  const Status planned = GatherPiece(**dataset, 9000, &nothing, &crc);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr(index));
  EXPECT_EQ(planned.code(), Code::kShardChanged);
  EXPECT_THAT(planned.message(), HasSubstr("begin the pass again"));
  EXPECT_EQ(*Read(**dataset, 0, 9000), Payload(0, 9000, 10));
  EXPECT_EQ(ReadBytes(index), good);
}

TEST_F(DatasetTest, EntriesThatAreWrongButPossibleAreFoundAtTheStart) {
  WriteBytes(ShardPath(0), Shard({std::string(100, 'a'), std::string(50, 'b'), "c"}));
  ASSERT_TRUE(Open().ok());
  const std::string index = SavedIndexes().at(0);
  const std::string good = ReadBytes(index);
  std::string bad = good;
  bad[96 + 8] -= 30;  // where record 1 begins: 0 becomes shorter, 1 longer
  WriteBytes(index, bad);
  const auto dataset = Open();
  ASSERT_TRUE(dataset.ok());
  EXPECT_EQ(*Read(**dataset, 0, 0), std::string(100, 'a'));
  EXPECT_EQ(*Read(**dataset, 0, 1), std::string(50, 'b'));
  EXPECT_EQ(ReadBytes(index), good);
}

TEST_F(DatasetTest, EntriesThatBecomeWrongButPossibleAreMended) {
  WriteBytes(ShardPath(0), Shard({std::string(100, 'a'), std::string(50, 'b'), "c"}));
  ASSERT_TRUE(Open().ok());
  const std::string index = SavedIndexes().at(0);
  const std::string good = ReadBytes(index);
  const auto dataset = Open();
  ASSERT_TRUE(dataset.ok());
  std::string bad = good;
  bad[96 + 8] -= 30;
  std::fstream(index, std::ios::in | std::ios::out | std::ios::binary) << bad;
  EXPECT_EQ((*dataset)->Locate(0, 1).payload_bytes, 80u);
  std::string planned(80, 'x');
  uint32_t crc = 0;
  EXPECT_EQ(GatherPiece(**dataset, 1, &planned, &crc).code(), Code::kShardChanged);
  // What else was planned with the damaged one.
  EXPECT_EQ(GatherPiece(**dataset, 1, &planned, &crc).code(), Code::kShardChanged);
  EXPECT_EQ(*Read(**dataset, 0, 0), std::string(100, 'a'));
  EXPECT_EQ(*Read(**dataset, 0, 1), std::string(50, 'b'));
  EXPECT_TRUE((*dataset)->VerifyRecord(0, 1).ok());
  EXPECT_EQ(ReadBytes(index), good);
}

TEST_F(DatasetTest, AMendedIndexThatCannotBeWrittenStaysInMemory) {
  WriteShards(1, 10);
  options_.index_beside = true;
  ASSERT_TRUE(Open().ok());
  const std::string index = ShardPath(0) + ".emlio-index";
  const auto dataset = Open();
  ASSERT_TRUE(dataset.ok());
  ASSERT_EQ(truncate(index.c_str(), 0), 0);
  std::filesystem::remove(index);
  std::filesystem::create_directory(index);  // in the way
  testing::internal::CaptureStderr();
  std::string nothing;
  uint32_t crc = 0;
  EXPECT_EQ(GatherPiece(**dataset, 7, &nothing, &crc).code(), Code::kShardChanged);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("kept in memory"));
  EXPECT_EQ(*Read(**dataset, 0, 7), Payload(0, 7, 100));
}

TEST_F(DatasetTest, EnsuringIndexesChecksTablesAndCountsWhatWasBuilt) {
  WriteShards(3, 10);
  uint64_t built = 0;
  options_.progress = [&](const Progress& progress) { built = progress.shards_indexed; };
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(built, 3u);
  const auto built_by = [&](IndexPolicy policy) {
    built = 0;
    options_.index_policy = policy;
    EXPECT_TRUE(Open().ok());
    return built;
  };
  EXPECT_EQ(built_by(IndexPolicy::kEnsure), 0u);
  const std::string index = SavedIndexes().at(1);
  const std::string good = ReadBytes(index);
  std::string bad = good;
  bad[96 + 8 * 5] ^= 1;
  WriteBytes(index, bad);
  testing::internal::CaptureStderr();
  EXPECT_EQ(built_by(IndexPolicy::kEnsure), 1u);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr(index));
  EXPECT_EQ(ReadBytes(index), good);
  EXPECT_EQ(built_by(IndexPolicy::kRebuild), 3u);
  EXPECT_EQ(ReadBytes(index), good);
  options_.index_beside = true;
  EXPECT_EQ(built_by(IndexPolicy::kEnsure), 3u) << "those elsewhere do not count";
  EXPECT_EQ(built_by(IndexPolicy::kUse), 0u);
}

TEST_F(DatasetTest, EnsuringIndexesThatCannotBeWrittenIsAnError) {
  WriteShards(2, 10);
  WriteBytes(dir_ / "file", "in the way");
  for (const std::string& directory : {dir_ / "file", std::string("/proc/emlio")}) {
    options_.index_directory = directory;
    for (const IndexPolicy policy : {IndexPolicy::kEnsure, IndexPolicy::kRebuild}) {
      options_.index_policy = policy;
      const auto dataset = Open();
      EXPECT_FALSE(dataset.ok());
      EXPECT_NE(dataset.status().code(), Code::kInvalidArgument);
      EXPECT_THAT(dataset.status().message(), HasSubstr(directory));
    }
  }
}

TEST_F(DatasetTest, DaliIndexesAreWrittenWhereTheyAreNotRightAlready) {
  WriteBytes(ShardPath(0), Shard({"hello", "", std::string(100, 'x')}));
  WriteBytes(ShardPath(1), "");
  const auto dataset = Open();
  ASSERT_TRUE(dataset.ok());
  const std::string path = dir_ / "s-0.idx";
  const std::string good = "0 21\n21 16\n37 116\n";
  EXPECT_TRUE(*EnsureDaliIndex(**dataset, 0, path));
  EXPECT_EQ(ReadBytes(path), good);
  EXPECT_FALSE(*EnsureDaliIndex(**dataset, 0, path));
  for (const std::string& other :
       {""s, "0 21\n21 16\n37 117\n"s, good.substr(0, 11), good + "153 16\n", "0 21\r\n"s}) {
    WriteBytes(path, other);
    testing::internal::CaptureStderr();
    EXPECT_TRUE(*EnsureDaliIndex(**dataset, 0, path));
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr(path));
    EXPECT_EQ(ReadBytes(path), good);
  }
  EXPECT_TRUE(*EnsureDaliIndex(**dataset, 1, dir_ / "s-1.idx"));
  EXPECT_EQ(ReadBytes(dir_ / "s-1.idx"), "");
  EXPECT_THAT(EnsureDaliIndex(**dataset, 0, "/proc/nope/a.idx").status().message(),
              HasSubstr("/proc/nope"));
}

TEST_F(DatasetTest, LongDaliIndexesComeInPieces) {
  WriteShards(1, 50'000, 1);
  const auto dataset = Open();
  ASSERT_TRUE(dataset.ok());
  std::string expected;
  for (int i = 0; i < 50'000; ++i) expected += std::to_string(17 * i) + " 17\n";
  EXPECT_TRUE(*EnsureDaliIndex(**dataset, 0, dir_ / "idx"));
  EXPECT_EQ(ReadBytes(dir_ / "idx"), expected);
  EXPECT_FALSE(*EnsureDaliIndex(**dataset, 0, dir_ / "idx"));
}

}  // namespace
}  // namespace emlio::dataset
