// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/convert/compressed_shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "emlio/convert/compress_testing.h"
#include "emlio/tfrecord/test_util.h"

namespace emlio::convert {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using tfrecord::MemoryFile;

constexpr uint64_t kMaxRecordBytes = uint64_t{8} << 20;

struct Outcome {
  std::vector<std::string> records;
  Status status;
};

Outcome Read(const std::string& compressed, Compression compression,
             uint64_t max_record_bytes = kMaxRecordBytes) {
  const MemoryFile file(compressed);
  CompressedShardReader reader(&file, compression, max_record_bytes);
  Outcome outcome;
  std::span<const uint8_t> payload;
  while (true) {
    const auto more = reader.Next(&payload);
    if (!more.ok()) {
      outcome.status = more.status();
      EXPECT_EQ(reader.Next(&payload).status(), more.status());
      return outcome;
    }
    if (!*more) {
      EXPECT_EQ(reader.file_offset(), compressed.size());
      return outcome;
    }
    outcome.records.push_back(tfrecord::AsString(payload));
  }
}

// Text that compresses badly, so that there is something to cut.
std::string Noise(size_t bytes) {
  std::string noise(bytes, '\0');
  uint32_t state = 1;
  for (char& c : noise) c = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  return noise;
}

class CompressedShardTest : public ::testing::TestWithParam<Compression> {};
INSTANTIATE_TEST_SUITE_P(Both, CompressedShardTest,
                         ::testing::Values(Compression::kGzip, Compression::kZlib),
                         [](const auto& tested) {
                           return std::string(CompressionName(tested.param));
                         });

TEST_P(CompressedShardTest, GivesTheRecordsThatWereCompressed) {
  const std::vector<std::string> records = {"a", "", Noise(3 << 20), std::string(5 << 20, 'x'),
                                            "end"};
  const Outcome outcome = Read(Compress(tfrecord::Shard(records), GetParam()), GetParam());
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  EXPECT_TRUE(outcome.records == records);
}

TEST_P(CompressedShardTest, OfNothingIsAShardWithoutRecords) {
  const Outcome outcome = Read(Compress("", GetParam()), GetParam());
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  EXPECT_TRUE(outcome.records.empty());
}

TEST_P(CompressedShardTest, ACutAtAnyByteIsTruncated) {
  const std::string whole = Compress(tfrecord::Shard({"first", Noise(300), "last"}), GetParam());
  for (size_t size = 0; size < whole.size(); ++size) {
    const Outcome outcome = Read(whole.substr(0, size), GetParam());
    ASSERT_EQ(outcome.status.code(), Code::kTruncated) << size << outcome.status.ToString();
    ASSERT_THAT(outcome.status.message(),
                HasSubstr("shard memory.tfrecord (decompressed), record "));
    ASSERT_THAT(outcome.status.message(), HasSubstr("at byte " + std::to_string(size)));
  }
}

TEST_P(CompressedShardTest, DamageNeverGivesOtherRecords) {
  // No noise: it would be stored as it is, behind bits that mean nothing.
  const std::vector<std::string> records = {"first", std::string(30, 'x'), "a little text, a text"};
  const std::string whole = Compress(tfrecord::Shard(records), GetParam());
  int unnoticed = 0;
  // Behind the header of ten bytes, in which gzip keeps time, system and such.
  for (size_t at = GetParam() == Compression::kGzip ? 10 : 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    const Outcome outcome = Read(damaged, GetParam());
    if (!outcome.status.ok()) continue;
    ASSERT_EQ(outcome.records, records) << at;
    ++unnoticed;
  }
  EXPECT_LE(unnoticed, 1);  // bits that fill up the last byte in front of the checksum
}

TEST_P(CompressedShardTest, BytesBehindTheEndAreAnError) {
  const std::string whole = Compress(tfrecord::Shard({"first"}), GetParam());
  for (const std::string& more : {std::string(1, '\0'), std::string("\x1f"), std::string(512, '\0'),
                                  std::string("more"), tfrecord::Shard({"second"})}) {
    const Outcome outcome = Read(whole + more, GetParam());
    EXPECT_EQ(outcome.status.code(), Code::kCorrupt) << outcome.status.ToString();
    EXPECT_THAT(outcome.status.message(),
                HasSubstr("at byte " + std::to_string(whole.size()) +
                          " of the file: bytes that do not belong to it follow its end"));
    EXPECT_THAT(outcome.records, ElementsAre("first"));
  }
}

TEST_P(CompressedShardTest, DamagedRecordsAreNamedByTheirPlace) {
  const std::string good = tfrecord::Shard({"first"});
  std::string bad_payload = good + tfrecord::Shard({"second"});
  bad_payload.back() ^= 1;
  Outcome outcome = Read(Compress(bad_payload, GetParam()), GetParam());
  EXPECT_EQ(outcome.status.code(), Code::kCorrupt);
  EXPECT_THAT(outcome.status.message(),
              HasSubstr("shard memory.tfrecord (decompressed), record 1 at offset 21: payload "
                        "checksum does not hold"));

  std::string bad_length = good + tfrecord::Shard({"second"});
  bad_length[good.size()] ^= 1;
  outcome = Read(Compress(bad_length, GetParam()), GetParam());
  EXPECT_EQ(outcome.status.code(), Code::kCorrupt);
  EXPECT_THAT(outcome.status.message(), HasSubstr("record 1 at offset 21: length checksum"));

  for (const size_t left : {5, 12, 20}) {
    outcome =
        Read(Compress(good + tfrecord::Shard({"second"}).substr(0, left), GetParam()), GetParam());
    EXPECT_EQ(outcome.status.code(), Code::kTruncated);
    EXPECT_THAT(outcome.status.message(), HasSubstr("record 1 at offset 21: truncated inside"));
  }
}

TEST_P(CompressedShardTest, SomethingElseThatWasCompressedIsNamed) {
  std::string tar(1024, 'a');
  tar.replace(257, 5, "ustar");
  EXPECT_THAT(Read(Compress(tar, GetParam()), GetParam()).status.message(),
              HasSubstr("not a TFRecord file was compressed but a tar archive"));
  const std::string twice = Compress(Compress(tfrecord::Shard({"a"}), GetParam()), GetParam());
  EXPECT_THAT(Read(twice, GetParam()).status.message(),
              HasSubstr(std::string("but ") + std::string(CompressionName(GetParam())) + " data"));
  for (const std::string text : {"some text that is long enough", "short"}) {
    EXPECT_THAT(Read(Compress(text, GetParam()), GetParam()).status.message(),
                HasSubstr("this is not a compressed TFRecord file, or it is damaged"));
  }
}

TEST_P(CompressedShardTest, ARecordOverTheLimitIsRefusedBeforeItIsRead) {
  const std::string bomb =
      Compress(tfrecord::HeaderOf(uint64_t{1} << 40) + std::string(64 << 20, '\0'), GetParam());
  const MemoryFile file(bomb);
  CompressedShardReader reader(&file, GetParam(), kMaxRecordBytes);
  std::span<const uint8_t> payload;
  const auto more = reader.Next(&payload);
  EXPECT_EQ(more.status().code(), Code::kLimitExceeded) << more.status().ToString();
  EXPECT_THAT(more.status().message(), HasSubstr("claims 1099511627776 bytes, more than the limit "
                                                 "of 8388608 bytes"));
}

TEST(GzipMembers, AreReadAsOneShardWhereverTheyWereCut) {
  const std::vector<std::string> records = {"first", "", "third"};
  const std::string plain = tfrecord::Shard(records);
  for (size_t cut = 0; cut <= plain.size(); ++cut) {
    const Outcome outcome = Read(Compress(plain.substr(0, cut), Compression::kGzip) +
                                     Compress(plain.substr(cut), Compression::kGzip),
                                 Compression::kGzip);
    ASSERT_TRUE(outcome.status.ok()) << cut << outcome.status.ToString();
    ASSERT_EQ(outcome.records, records);
  }
}

TEST(GzipMembers, ManySmallOnesCrossTheEndOfTheInputBuffer) {
  std::string compressed;
  std::vector<std::string> records;
  for (int i = 0; compressed.size() < (600 << 10); ++i) {
    records.push_back(Noise(static_cast<size_t>(i % 97)));
    compressed += Compress(tfrecord::Shard({records.back()}), Compression::kGzip);
  }
  const Outcome outcome = Read(compressed, Compression::kGzip);
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  EXPECT_TRUE(outcome.records == records);
}

}  // namespace
}  // namespace emlio::convert
