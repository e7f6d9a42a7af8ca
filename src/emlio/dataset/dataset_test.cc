// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/dataset/dataset.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <fstream>

#include "emlio/base/system_limits.h"
#include "emlio/base/thread.h"
#include "emlio/dataset/dali_index.h"
#include "emlio/tfrecord/index.h"
#include "emlio/tfrecord/test_util.h"

namespace emlio::dataset {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using tfrecord::Framed;
using tfrecord::HeaderOf;
using tfrecord::ReadBytes;
using tfrecord::Shard;
using tfrecord::TempDir;
using tfrecord::WriteBytes;
using std::string_literals::operator""s;

std::string Payload(int shard, int record, size_t size) {
  std::string payload = std::to_string(shard) + ":" + std::to_string(record);
  payload.resize(size, static_cast<char>('a' + record % 26));
  return payload;
}

class DatasetTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directory(data_); }

  // shards(k, n) of size bytes each, named s-0, s-1, ...
  void WriteShards(int shards, int records, size_t size = 100) {
    for (int s = 0; s < shards; ++s) {
      std::vector<std::string> payloads;
      for (int r = 0; r < records; ++r) payloads.push_back(Payload(s, r, size));
      WriteBytes(ShardPath(s), Shard(payloads));
    }
  }
  std::string ShardPath(int shard) const { return data_ + "/s-" + std::to_string(shard); }

  Result<std::unique_ptr<Dataset>> Open(std::vector<std::string> patterns = {"s-*"}) {
    DatasetOptions options = options_;
    options.name = "test";
    if (options.index_directory.empty()) options.index_directory = cache_;
    for (const auto& pattern : patterns) options.patterns.push_back(data_ + "/" + pattern);
    return Dataset::Open(options);
  }
  // Opens, and returns what was logged.
  std::string LogOfOpening(const std::vector<std::string>& patterns = {"s-*"}) {
    testing::internal::CaptureStderr();
    EXPECT_TRUE(Open(patterns).ok());
    return testing::internal::GetCapturedStderr();
  }
  std::vector<std::string> SavedIndexes() const {
    std::vector<std::string> paths;
    if (!std::filesystem::exists(cache_)) return paths;
    for (const auto& entry : std::filesystem::directory_iterator(cache_)) {
      paths.push_back(entry.path().string());
    }
    return paths;
  }
  static Result<std::string> Read(const Dataset& dataset, uint32_t shard, uint64_t record) {
    std::string payload(dataset.Locate(shard, record).payload_bytes, '\0');
    GatherItem item;
    item.shard = shard;
    item.record = record;
    item.size = payload.size();
    item.to = reinterpret_cast<uint8_t*>(payload.data());
    EMLIO_RETURN_IF_ERROR(dataset.Gather({&item, 1}));
    EXPECT_EQ(item.crc32c, Crc32c(payload.data(), payload.size()));
    return payload;
  }

  const TempDir dir_;
  const std::string data_ = dir_ / "data";
  const std::string cache_ = dir_ / "cache/index";
  DatasetOptions options_;
};

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

TEST_F(DatasetTest, FindsRecordsInMemoryWhereTheyLie) {
  WriteShards(2, 10, 5000);
  options_.max_descriptors = 10;
  for (const IoMode io : {IoMode::kMmap, IoMode::kPread}) {
    options_.io = io;
    const auto dataset = Open();
    ASSERT_TRUE(dataset.ok());
    std::vector<GatherItem> items(2);
    items[0].shard = 1;
    items[0].record = 7;
    items[0].size = 5000;
    items[1].record = 2;
    items[1].begin = 1000;
    items[1].size = 300;
    std::vector<StoredPiece> pieces;
    ASSERT_TRUE((*dataset)->FindInMemory(items, &pieces));
    ASSERT_EQ(pieces.size(), 2u);
    for (size_t i = 0; i < items.size(); ++i) {
      const std::string whole =
          Payload(static_cast<int>(items[i].shard), static_cast<int>(items[i].record), 5000);
      std::string stored(pieces[i].size, '\0');
      EXPECT_EQ(::pread(pieces[i].descriptor, stored.data(), stored.size(),
                        static_cast<off_t>(pieces[i].offset)),
                static_cast<ssize_t>(items[i].size));
      EXPECT_EQ(stored, whole.substr(items[i].begin, items[i].size));
      EXPECT_EQ(pieces[i].crc32c, Crc32c(whole.data(), whole.size()));
    }
    // What Gather refuses is not found.
    items[1].size = 4001;
    EXPECT_FALSE((*dataset)->FindInMemory(items, &pieces));
  }
  options_.io = IoMode::kMmap;
  options_.max_descriptors = 1;
  std::vector<GatherItem> one(1);
  one[0].size = 5000;
  std::vector<StoredPiece> pieces;
  EXPECT_FALSE((*Open())->FindInMemory(one, &pieces)) << "without a descriptor";
}

TEST_F(DatasetTest, WhatIsNotInMemoryIsNotFoundThere) {
  WriteShards(1, 200, 50'000);
  options_.max_descriptors = 10;
  const auto dataset = Open();
  ASSERT_TRUE(dataset.ok());
  std::vector<GatherItem> item(1);
  item[0].record = 150;
  item[0].size = 50'000;
  std::vector<StoredPiece> pieces;
  ASSERT_TRUE((*dataset)->FindInMemory(item, &pieces));
  // Thrown out of the page cache, where it is one that can be thrown out of (not tmpfs).
  const int fd = ::open(ShardPath(0).c_str(), O_RDONLY | O_CLOEXEC);
  ::fsync(fd);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  char byte = 0;
  const iovec part{&byte, 1};
  const bool is_out = ::preadv2(fd, &part, 1, 150 * 50'016 + 25'000, RWF_NOWAIT) < 0;
  ::close(fd);
  if (!is_out) GTEST_SKIP() << "this file system keeps its files in memory";
  EXPECT_FALSE((*dataset)->FindInMemory(item, &pieces));
  EXPECT_TRUE(Read(**dataset, 0, 150).ok());
}

TEST_F(DatasetTest, AnOverwrittenHeaderIsNotFoundInMemory) {
  WriteShards(1, 10);
  options_.max_descriptors = 10;
  const auto dataset = Open();
  ASSERT_TRUE(dataset.ok());
  std::fstream file(ShardPath(0), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(3 * 116);
  file << HeaderOf(50);
  file.close();
  std::vector<GatherItem> item(1);
  item[0].size = 100;
  std::vector<StoredPiece> pieces;
  item[0].record = 3;
  EXPECT_FALSE((*dataset)->FindInMemory(item, &pieces));
  item[0].record = 4;
  EXPECT_TRUE((*dataset)->FindInMemory(item, &pieces));
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
