// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
// Shards that are cut or have damaged length fields: what each policy makes of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emlio/dataset/dataset.h"
#include "emlio/dataset/known_offsets.h"
#include "emlio/tfrecord/test_util.h"

namespace emlio::dataset {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using tfrecord::HeaderOf;
using tfrecord::ReadBytes;
using tfrecord::Shard;
using tfrecord::TempDir;
using tfrecord::WriteBytes;

constexpr uint64_t kRecords = 100;
constexpr uint64_t kPayloadBytes = 84;
constexpr uint64_t kFramedBytes = 100;

std::string Payload(uint64_t record) {
  std::string payload = std::to_string(record);
  payload.resize(kPayloadBytes, '.');
  return payload;
}

// Shard s-0 is whole and s-1 is not; both had kRecords records.
class BadShardTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.name = "test";
    options_.patterns = {data_ + "/s-*"};
    options_.index_directory = dir_ / "cache";
    options_.on_bad_shard = BadShardPolicy::kKeepReadable;
    std::filesystem::create_directory(data_);
    std::vector<std::string> payloads;
    for (uint64_t r = 0; r < kRecords; ++r) payloads.push_back(Payload(r));
    whole_ = Shard(payloads);
    WriteBytes(data_ + "/s-0", whole_);
    WriteBytes(bad_, whole_);
  }
  void Damage(uint64_t record) {
    std::string bytes = ReadBytes(bad_);
    bytes[record * kFramedBytes] ^= 1;
    WriteBytes(bad_, bytes);
  }
  void Cut(uint64_t bytes) { WriteBytes(bad_, whole_.substr(0, bytes)); }
  // As DALI's tool writes it of the shard as it was.
  void WriteDaliIndex() {
    std::string text;
    for (uint64_t r = 0; r < kRecords; ++r) text += std::to_string(kFramedBytes * r) + " 100\n";
    WriteBytes(bad_ + ".idx", text);
  }

  // Opens; `log_` is what was logged.
  Result<std::unique_ptr<Dataset>> Open() {
    testing::internal::CaptureStderr();
    auto dataset = Dataset::Open(options_);
    log_ = testing::internal::GetCapturedStderr();
    return dataset;
  }
  Status StrictError() {
    options_.on_bad_shard = BadShardPolicy::kError;
    const Status status = Open().status();
    options_.on_bad_shard = BadShardPolicy::kKeepReadable;
    return status;
  }
  // Opens, and checks that s-1 has its first `records` records and no others.
  void ExpectReadable(uint64_t records, uint64_t unreadable_bytes) {
    const auto dataset = Open();
    ASSERT_TRUE(dataset.ok()) << dataset.status().ToString();
    const ShardInfo& shard = (*dataset)->manifest().shards()[1];
    ASSERT_EQ(shard.records, records);
    EXPECT_EQ(shard.unreadable_bytes, unreadable_bytes);
    EXPECT_EQ((*dataset)->manifest().records(), kRecords + records);
    for (uint64_t r = 0; r < records; ++r) {
      std::string payload(kPayloadBytes, '\0');
      GatherItem item;
      item.shard = 1;
      item.record = r;
      item.size = kPayloadBytes;
      item.to = reinterpret_cast<uint8_t*>(payload.data());
      ASSERT_TRUE((*dataset)->Gather({&item, 1}).ok()) << r;
      ASSERT_EQ(payload, Payload(r));
    }
  }

  const TempDir dir_;
  const std::string data_ = dir_ / "data";
  const std::string bad_ = data_ + "/s-1";
  std::string whole_;
  DatasetOptions options_;
  std::string log_;
};

TEST_F(BadShardTest, ACutShardIsAnErrorOrReadUpToTheCut) {
  for (const uint64_t cut : {9995u, 9904u, 9912u}) {  // in payload, header, and behind the header
    Cut(cut);
    const Status strict = StrictError();
    EXPECT_EQ(strict.code(), Code::kTruncated);
    EXPECT_THAT(strict.message(), HasSubstr("s-1, record 99 at offset 9900"));
    ExpectReadable(99, cut - 9900);
    EXPECT_THAT(log_, AllOf(HasSubstr("s-1, record 99 at offset 9900: truncated"),
                            HasSubstr("99 records can be read"),
                            HasSubstr(std::to_string(cut - 9900) + " bytes")));
  }
}

TEST_F(BadShardTest, ADamagedLengthIsAnErrorOrEndsTheShard) {
  Damage(40);
  const Status strict = StrictError();
  EXPECT_EQ(strict.code(), Code::kCorrupt);
  EXPECT_THAT(strict.message(), HasSubstr("s-1, record 40 at offset 4000: length checksum"));
  ExpectReadable(40, 6000);
  EXPECT_THAT(log_, HasSubstr("s-1, record 40 at offset 4000: length checksum"));
}

TEST_F(BadShardTest, TheSavedIndexOfADamagedShardWarnsAgainAndIsNothingForTheStrict) {
  Damage(40);
  ExpectReadable(40, 6000);
  options_.progress = [](const Progress&) { ADD_FAILURE() << "indexed again"; };
  ExpectReadable(40, 6000);
  EXPECT_THAT(log_, AllOf(HasSubstr("s-1, record 40 at offset 4000: length checksum"),
                          HasSubstr("6000 bytes")));
  options_.progress = nullptr;
  EXPECT_EQ(StrictError().code(), Code::kCorrupt);
  ExpectReadable(40, 6000);
  // Mended.
  WriteBytes(bad_, whole_);
  ExpectReadable(kRecords, 0);
}

TEST_F(BadShardTest, AnIndexForDaliGivesTheRecordsBehindADamagedLength) {
  WriteDaliIndex();
  Damage(40);
  EXPECT_EQ(StrictError().code(), Code::kCorrupt);
  const auto dataset = Open();
  ASSERT_TRUE(dataset.ok()) << dataset.status().ToString();
  const ShardInfo& shard = (*dataset)->manifest().shards()[1];
  EXPECT_TRUE(shard.HasContentsOf((*dataset)->manifest().shards()[0])) << "hosts agree";
  EXPECT_EQ(shard.unreadable_bytes, 0u);
  EXPECT_THAT(log_, AllOf(HasSubstr("s-1, record 40 at offset 4000: length checksum"),
                          HasSubstr("known from an index")));
}

TEST_F(BadShardTest, AnIndexOfACopyGivesTheRecordsBehindADamagedLength) {
  options_.index_beside = true;
  ASSERT_TRUE(Open().ok());
  // Another inode and another time, as when both are copied.
  std::filesystem::rename(bad_, dir_ / "before");
  WriteBytes(bad_, whole_);
  Damage(0);
  const auto dataset = Open();
  ASSERT_TRUE(dataset.ok()) << dataset.status().ToString();
  EXPECT_EQ((*dataset)->manifest().shards()[1].records, kRecords);
  EXPECT_THAT(log_, HasSubstr("record 0 at offset 0: length checksum"));
}

TEST_F(BadShardTest, ACutBetweenRecordsIsFoundWhereAnIndexBesideTheShardCountsMore) {
  WriteDaliIndex();
  Cut(9900);
  const Status strict = StrictError();
  EXPECT_EQ(strict.code(), Code::kTruncated);
  EXPECT_THAT(strict.message(), AllOf(HasSubstr("s-1 ends after 99 records at offset 9900"),
                                      HasSubstr("s-1.idx counts 100 records")));
  ExpectReadable(99, 0);
  EXPECT_THAT(log_, HasSubstr("s-1.idx counts 100 records"));
}

TEST_F(BadShardTest, ACutToNothingIsFoundToo) {
  WriteDaliIndex();
  Cut(0);
  EXPECT_EQ(StrictError().code(), Code::kTruncated);
  ExpectReadable(0, 0);
}

TEST_F(BadShardTest, WhatKeepReadableHasDoneChangesNothingForThoseWhoTakeDamageForAnError) {
  WriteDaliIndex();
  Damage(5);
  EXPECT_EQ(StrictError().code(), Code::kCorrupt);
  for (int again = 0; again < 2; ++again) {
    options_.on_bad_shard = BadShardPolicy::kKeepReadable;
    const auto dataset = Open();
    ASSERT_TRUE(dataset.ok()) << dataset.status().ToString();
    EXPECT_EQ((*dataset)->manifest().shards()[1].records, kRecords);
  }
  EXPECT_EQ(StrictError().code(), Code::kCorrupt);
}

TEST_F(BadShardTest, ACutBetweenRecordsIsFoundByOurOwnIndexToo) {
  options_.index_beside = true;
  ASSERT_TRUE(Open().ok());
  Cut(9900);
  EXPECT_THAT(StrictError().message(), HasSubstr("s-1.emlio-index counts 100 records"));
  for (int again = 0; again < 2; ++again) {
    ExpectReadable(99, 0);
    EXPECT_THAT(log_, HasSubstr("s-1.emlio-index counts 100 records"));
  }
  EXPECT_EQ(StrictError().code(), Code::kTruncated);
}

TEST_F(BadShardTest, RebuildingBelievesTheShard) {
  options_.index_beside = true;
  ASSERT_TRUE(Open().ok());
  WriteDaliIndex();
  Cut(9900);
  options_.on_bad_shard = BadShardPolicy::kError;
  options_.index_policy = IndexPolicy::kRebuild;
  ASSERT_TRUE(Open().ok());
  options_.index_policy = IndexPolicy::kUse;
  ExpectReadable(99, 0);
  EXPECT_THAT(log_, Not(HasSubstr("counts")));
}

TEST_F(BadShardTest, IndexesOfOtherFilesAreNoProofOfACut) {
  WriteBytes(bad_ + ".idx", "0 100\n100 200\n");
  options_.on_bad_shard = BadShardPolicy::kError;
  EXPECT_TRUE(Open().ok());
  EXPECT_THAT(log_, Not(HasSubstr("counts")));
}

TEST_F(BadShardTest, OtherFilesAreRefusedAndNoRecordAtAllIsAnError) {
  WriteBytes(bad_, "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
  EXPECT_EQ(Open().status().code(), Code::kCorrupt);
  WriteBytes(bad_, "no shard, or one without its beginning");
  ExpectReadable(0, 38);
  std::filesystem::remove(data_ + "/s-0");
  EXPECT_EQ(Open().status().code(), Code::kNotFound);
}

TEST_F(BadShardTest, ManyDamagedShardsAreNotALineEach) {
  for (int s = 2; s < 40; ++s) {
    WriteBytes(data_ + "/s-" + std::to_string(s), whole_.substr(0, 250));
  }
  ASSERT_TRUE(Open().ok());
  EXPECT_THAT(log_, HasSubstr("18 more shards are damaged"));
}

TEST_F(BadShardTest, PoliciesHaveNames) {
  EXPECT_EQ(*ParseBadShardPolicy("error"), BadShardPolicy::kError);
  EXPECT_EQ(*ParseBadShardPolicy("keep-readable"), BadShardPolicy::kKeepReadable);
  EXPECT_THAT(ParseBadShardPolicy("skip").status().message(), HasSubstr("'skip'"));
}

TEST(DaliOffsetsTest, OnlyRecordsThatFollowEachOtherAreAnIndex) {
  const TempDir dir;
  const std::string path = dir / "idx";
  WriteBytes(path, "0 16\n16 20\n36 99\n");
  const auto offsets = DaliOffsets::Read(path);
  ASSERT_TRUE(offsets.ok()) << offsets.status().ToString();
  ASSERT_EQ(offsets->records(), 3u);
  EXPECT_EQ(offsets->Locate(1)->offset, 16u);
  EXPECT_EQ(offsets->Locate(1)->payload_bytes, 4u);
  WriteBytes(path, "");
  EXPECT_EQ(DaliOffsets::Read(path)->records(), 0u);
  EXPECT_EQ(DaliOffsets::Read(dir / "none").status().code(), Code::kNotFound);
  for (const std::string other :
       {"0 15\n", "1 16\n", "0 16", "0 16\n17 16\n", "0 16\n16\n", "0  16\n", "0 16 \n", "-0 16\n",
        "0 16\r\n", "\n", "x", "0 18446744073709551616\n", "0 99999999999999999999999\n",
        "0 18446744073709551615\n18446744073709551615 16\n"}) {
    WriteBytes(path, other);
    EXPECT_EQ(DaliOffsets::Read(path).status().code(), Code::kCorrupt) << other;
  }
}

}  // namespace
}  // namespace emlio::dataset
