// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
// Opening a data set and reading what is in it.
#include "emlio/dataset/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "emlio/base/crc32c.h"
#include "emlio/base/system_limits.h"
#include "emlio/dataset/dataset_testing.h"
#include "emlio/tfrecord/test_util.h"

namespace emlio::dataset {
namespace {

using ::testing::HasSubstr;
using std::string_literals::operator""s;
using tfrecord::HeaderOf;
using tfrecord::ReadBytes;
using tfrecord::Shard;
using tfrecord::WriteBytes;

TEST_F(DatasetTest, GathersEveryRecordOfEveryShard) {
  WriteShards(3, 500);
  const auto dataset = Open();
  ASSERT_TRUE(dataset.ok()) << dataset.status().ToString();
  EXPECT_EQ((*dataset)->name(), "test");
  EXPECT_EQ((*dataset)->path(1), ShardPath(1));
  const Manifest& manifest = (*dataset)->manifest();
  ASSERT_EQ(manifest.shards().size(), 3u);
  EXPECT_EQ(manifest.records(), 1500u);
  EXPECT_EQ(manifest.payload_bytes(), 150'000u);
  // All in one call, scattered over one buffer.
  std::string buffer(150'000, '\0');
  std::vector<GatherItem> items;
  for (uint32_t i = 0; i < 1500; ++i) {
    GatherItem item;
    item.shard = i % 3;
    item.record = i / 3;
    item.size = 100;
    item.to = reinterpret_cast<uint8_t*>(buffer.data()) + 100 * i;
    items.push_back(item);
  }
  ASSERT_TRUE((*dataset)->Gather(items).ok());
  for (int i = 0; i < 1500; ++i) {
    const std::string expected = Payload(i % 3, i / 3, 100);
    ASSERT_EQ(buffer.substr(100 * i, 100), expected) << i;
    ASSERT_EQ(items[i].crc32c, Crc32c(expected.data(), expected.size()));
  }
}

TEST_F(DatasetTest, EveryWayOfReadingGivesTheSameBytes) {
  WriteShards(3, 200, 1000);
  for (const IoMode io : {IoMode::kMmap, IoMode::kPread}) {
    options_.io = io;
    const auto dataset = Open();
    ASSERT_TRUE(dataset.ok()) << dataset.status().ToString();
    EXPECT_EQ((*dataset)->io(), io);
    std::vector<RecordId> records;
    for (uint32_t i = 0; i < 600; ++i) records.push_back({i * 7 % 3, i * 7 % 600 / 3});
    (*dataset)->ReadAhead(records);
    (*dataset)->ReadAhead({});
    std::string buffer(600'000, '\0');
    std::vector<GatherItem> items;
    for (uint32_t i = 0; i < 600; ++i) {
      GatherItem item;
      item.shard = records[i].shard;
      item.record = records[i].record;
      item.size = 1000;
      item.to = reinterpret_cast<uint8_t*>(buffer.data()) + 1000 * i;
      items.push_back(item);
    }
    for (int pass = 0; pass < 2; ++pass) {
      ASSERT_TRUE((*dataset)->Gather(items).ok());
      (*dataset)->LetGo(items);
      for (uint32_t i = 0; i < 600; ++i) {
        const std::string expected =
            Payload(static_cast<int>(records[i].shard), static_cast<int>(records[i].record), 1000);
        ASSERT_EQ(buffer.substr(1000 * i, 1000), expected) << i;
        ASSERT_EQ(items[i].crc32c, Crc32c(expected.data(), expected.size()));
      }
    }
  }
}

TEST_F(DatasetTest, OpeningEndsWhenItIsInterrupted) {
  WriteShards(20, 100);
  options_.is_interrupted = [] { return true; };
  EXPECT_EQ(Open().status().code(), Code::kCancelled);
  options_.is_interrupted = [] { return false; };
  EXPECT_TRUE(Open().ok());
}

TEST_F(DatasetTest, WhatFitsIntoMemoryIsMapped) {
  WriteShards(2, 10);
  const auto dataset = Open();
  ASSERT_TRUE(dataset.ok());
  EXPECT_EQ((*dataset)->io(), IoMode::kMmap);
  EXPECT_FALSE((*dataset)->is_larger_than_memory());
  // A sparse file, larger than any memory of this host.
  constexpr uint64_t kRecordBytes = uint64_t{1} << 31;
  uint64_t size = 0;
  {
    std::ofstream shard(ShardPath(1), std::ios::binary | std::ios::trunc);
    for (; size < UsableMemoryBytes(); size += kRecordBytes + tfrecord::kFramingBytes) {
      shard.seekp(static_cast<std::streamoff>(size));
      shard << HeaderOf(kRecordBytes);
    }
  }
  std::filesystem::resize_file(ShardPath(1), size);
  options_.max_record_bytes = kRecordBytes;
  const auto large = Open();
  ASSERT_TRUE(large.ok()) << large.status().ToString();
  EXPECT_EQ((*large)->io(), IoMode::kPread);
  EXPECT_TRUE((*large)->is_larger_than_memory());
}

TEST_F(DatasetTest, GathersPiecesAndRefusesWhatLiesOutside) {
  WriteShards(1, 2);
  const auto dataset = Open();
  ASSERT_TRUE(dataset.ok());
  const std::string whole = Payload(0, 1, 100);
  std::string piece(30, '\0');
  GatherItem item;
  item.record = 1;
  item.begin = 40;
  item.size = 30;
  item.to = reinterpret_cast<uint8_t*>(piece.data());
  ASSERT_TRUE((*dataset)->Gather({&item, 1}).ok());
  EXPECT_EQ(piece, whole.substr(40, 30));
  EXPECT_EQ(item.crc32c, Crc32c(whole.data(), whole.size())) << "of the whole record";
  for (uint64_t begin : {uint64_t{71}, ~uint64_t{0} - 10}) {
    item.begin = begin;
    EXPECT_EQ((*dataset)->Gather({&item, 1}).code(), Code::kInvalidArgument);
  }
}

TEST_F(DatasetTest, ZeroLengthAndLargeRecordsAndAnyBytesComeThrough) {
  std::string all_bytes(256, '\0');
  for (int i = 0; i < 256; ++i) all_bytes[i] = static_cast<char>(i);
  const std::vector<std::string> payloads = {"", all_bytes, std::string(100'000'000, 'L'), ""};
  WriteBytes(ShardPath(0), Shard(payloads));
  const auto dataset = Open();
  ASSERT_TRUE(dataset.ok()) << dataset.status().ToString();
  EXPECT_EQ((*dataset)->manifest().max_record_bytes(), 100'000'000u);
  for (size_t i = 0; i < payloads.size(); ++i) {
    const auto payload = Read(**dataset, 0, i);
    ASSERT_TRUE(payload.ok()) << payload.status().ToString();
    EXPECT_TRUE(*payload == payloads[i]) << i;
  }
}

TEST_F(DatasetTest, OddPathsWork) {
  std::filesystem::create_directory(data_ + "/dir [1] ключ");
  WriteBytes(data_ + "/dir [1] ключ/s [x]\xff", Shard({"one"}));
  for (const char* pattern : {"dir [1] ключ/s [x]\xff", "dir [1] ключ/*", "dir [1] ключ"}) {
    const auto dataset = Open({pattern});
    ASSERT_TRUE(dataset.ok()) << dataset.status().ToString();
    EXPECT_EQ((*dataset)->manifest().shards()[0].name, "s [x]\xff");
    EXPECT_EQ(*Read(**dataset, 0, 0), "one");
  }
  EXPECT_EQ(SavedIndexes().size(), 1u);
}

TEST_F(DatasetTest, ShardsAreNeverWritten) {
  WriteShards(1, 50);
  ASSERT_EQ(chmod(ShardPath(0).c_str(), 0444), 0);
  const std::string before = ReadBytes(ShardPath(0));
  const auto identity = IdentityOf(ShardPath(0));
  const auto dataset = Open();
  ASSERT_TRUE(dataset.ok());
  for (int i = 0; i < 50; ++i) EXPECT_EQ(*Read(**dataset, 0, i), Payload(0, i, 100));
  EXPECT_EQ(ReadBytes(ShardPath(0)), before);
  EXPECT_EQ(*IdentityOf(ShardPath(0)), *identity);
}

TEST_F(DatasetTest, NothingToReadIsAnErrorThatNamesThePatterns) {
  const auto missing = Open({"typo-*"});
  EXPECT_EQ(missing.status().code(), Code::kNotFound);
  EXPECT_THAT(missing.status().message(), HasSubstr("typo-*"));
  for (int i = 0; i < 4; ++i) WriteBytes(ShardPath(i), "");
  const auto empty = Open({"s-*", "s-1*"});
  EXPECT_EQ(empty.status().code(), Code::kNotFound);
  EXPECT_THAT(empty.status().message(), HasSubstr("s-*"));
  EXPECT_THAT(empty.status().message(), HasSubstr("s-1*"));
}

TEST_F(DatasetTest, EmptyShardsAmongOthersAreAWarning) {
  WriteShards(3, 10);
  WriteBytes(ShardPath(3), "");
  WriteBytes(ShardPath(4), "\x1f\x8b\x08\0\0\0\0\0\0\x03\x03\0\0\0\0\0\0\0\0\0"s);
  EXPECT_THAT(LogOfOpening(), HasSubstr("2 of 5 shards have no record"));
  const auto dataset = Open();
  ASSERT_TRUE(dataset.ok());
  EXPECT_EQ((*dataset)->manifest().records(), 30u);
  EXPECT_EQ((*dataset)->manifest().shards()[4].records, 0u);
}

TEST_F(DatasetTest, OtherFilesAreRefusedAtStart) {
  WriteShards(3, 10);
  const struct {
    std::string bytes;
    Code code;
    std::string says;
  } kCases[] = {
      {"version https://git-lfs.github.com/spec/v1\noid sha256:" + std::string(64, '0') +
           "\nsize 1073741824\n",
       Code::kCorrupt, "not a TFRecord file"},
      {HeaderOf((uint64_t{1} << 63) + 5) + "rest", Code::kLimitExceeded, "9223372036854775813"},
      {HeaderOf(1 << 20) + "rest", Code::kTruncated, "truncated"},
      {"\x1f\x8b\x08"s + std::string(100, 'z'), Code::kUnsupported, "gzip"},
      {Shard({"a", "b"}).substr(0, 20), Code::kTruncated, "record 1 at offset 17"},
  };
  for (const auto& c : kCases) {
    WriteBytes(ShardPath(1), c.bytes);
    const auto dataset = Open();
    EXPECT_EQ(dataset.status().code(), c.code) << dataset.status().ToString();
    EXPECT_THAT(dataset.status().message(), HasSubstr(c.says));
    EXPECT_THAT(dataset.status().message(), HasSubstr(ShardPath(1)));
  }
}

TEST_F(DatasetTest, NamesAreChecked) {
  WriteShards(1, 1);
  for (const std::string& name : {""s, "a/b"s, std::string(256, 'n')}) {
    DatasetOptions options;
    options.name = name;
    options.patterns = {ShardPath(0)};
    EXPECT_EQ(Dataset::Open(options).status().code(), Code::kInvalidArgument) << name;
  }
  DatasetOptions options;
  options.name = "ok";
  EXPECT_EQ(Dataset::Open(options).status().code(), Code::kInvalidArgument);
}

TEST_F(DatasetTest, ManyShardsNeedNoDescriptorEach) {
  WriteShards(600, 2);
  options_.index_threads = 4;
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  const auto before = descriptors();
  const auto dataset = Open();
  ASSERT_TRUE(dataset.ok()) << dataset.status().ToString();
  EXPECT_EQ(descriptors(), before);
  EXPECT_EQ((*dataset)->manifest().records(), 1200u);
}

}  // namespace
}  // namespace emlio::dataset
