// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/tfrecord/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emlio/tfrecord/test_util.h"

namespace emlio::tfrecord {
namespace {

using ::testing::HasSubstr;

struct Outcome {
  std::vector<std::string> payloads;
  std::vector<Status> errors;
};

// Reads on behind bad payloads, as `emlio verify` does.
Outcome ReadAll(const RandomAccessFile& file, uint64_t max_record_bytes = kDefaultMaxRecordBytes) {
  Outcome outcome;
  auto reader = ShardReader::Open(&file, max_record_bytes);
  EXPECT_TRUE(reader.ok());
  std::span<const uint8_t> payload;
  for (uint64_t last_offset = ~uint64_t{0};;) {
    const auto more = (*reader)->Next(&payload);
    if (!more.ok()) {
      if ((*reader)->offset() == last_offset) return outcome;  // the same error once more
      last_offset = (*reader)->offset();
      outcome.errors.push_back(more.status());
    } else if (*more) {
      outcome.payloads.push_back(AsString(payload));
    } else {
      return outcome;
    }
  }
}

std::vector<std::string> Payloads() {
  std::string all_bytes(256, '\0');
  for (int i = 0; i < 256; ++i) all_bytes[i] = static_cast<char>(i);
  return {"first", "", all_bytes, std::string(3 << 20, 'b'), "", "last"};
}

TEST(ShardReader, ReturnsWhatWasWritten) {
  const auto payloads = Payloads();
  const MemoryFile file(Shard(payloads));
  const Outcome outcome = ReadAll(file);
  EXPECT_EQ(outcome.payloads, payloads);
  EXPECT_TRUE(outcome.errors.empty());
}

TEST(ShardReader, AnEmptyFileHasNoRecord) {
  EXPECT_TRUE(ReadAll(MemoryFile("")).payloads.empty());
  EXPECT_TRUE(ReadAll(MemoryFile("")).errors.empty());
}

TEST(ShardReader, FlippedPayloadBitNamesThePlaceAndTheRestIsRead) {
  std::vector<std::string> payloads;
  for (int i = 0; i < 100; ++i) payloads.push_back("record " + std::to_string(i));
  std::string bytes = Shard(payloads);
  const size_t offset = bytes.find("record 40") - kHeaderBytes;
  bytes[offset + kHeaderBytes + 3] ^= 0x10;
  const Outcome outcome = ReadAll(MemoryFile(bytes));
  EXPECT_EQ(outcome.payloads.size(), 99u);
  ASSERT_EQ(outcome.errors.size(), 1u);
  EXPECT_EQ(outcome.errors[0].code(), Code::kCorrupt);
  EXPECT_THAT(outcome.errors[0].message(),
              HasSubstr("shard memory.tfrecord, record 40 at offset " + std::to_string(offset)));
  EXPECT_THAT(outcome.errors[0].message(), HasSubstr("payload checksum"));
}

TEST(ShardReader, FlippedLengthBitIsFinal) {
  std::string bytes = Shard({"one", "two", "three"});
  bytes[19] ^= 1;
  const Outcome outcome = ReadAll(MemoryFile(bytes));
  EXPECT_EQ(outcome.payloads, std::vector<std::string>{"one"});
  ASSERT_EQ(outcome.errors.size(), 1u);
  EXPECT_EQ(outcome.errors[0].code(), Code::kCorrupt);
  EXPECT_THAT(outcome.errors[0].message(), HasSubstr("record 1 at offset 19: length checksum"));
}

TEST(ShardReader, EveryBitOfEveryRecordIsCovered) {
  const std::string good = Shard({"abc", "", "de"});
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bytes = good;
    bytes[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    EXPECT_EQ(ReadAll(MemoryFile(bytes)).errors.size(), 1u) << "bit " << bit;
  }
}

TEST(ShardReader, ACutAtAnyByteIsTruncatedUnlessBetweenRecords) {
  const std::string bytes = Shard({"abc", "", "defgh"});
  for (size_t size = 1; size < bytes.size(); ++size) {
    const Outcome outcome = ReadAll(MemoryFile(bytes.substr(0, size)));
    if (size == 19 || size == 35) {
      EXPECT_TRUE(outcome.errors.empty()) << size;
      continue;
    }
    ASSERT_EQ(outcome.errors.size(), 1u) << size;
    EXPECT_EQ(outcome.errors[0].code(), Code::kTruncated) << size;
    EXPECT_THAT(outcome.errors[0].message(), HasSubstr("truncated"));
  }
}

TEST(ShardReader, AbsurdLengthsAreRefusedBeforeAllocation) {
  for (uint64_t length : {uint64_t{1} << 31, uint64_t{1} << 40, (uint64_t{1} << 63) + 5,
                          ~uint64_t{0}, ~uint64_t{0} - 15}) {
    // Without any limit the size of the file is what protects.
    const Outcome unlimited = ReadAll(MemoryFile(HeaderOf(length) + "rest"), ~uint64_t{0});
    ASSERT_EQ(unlimited.errors.size(), 1u);
    EXPECT_EQ(unlimited.errors[0].code(), Code::kTruncated) << length;
    const Outcome limited = ReadAll(MemoryFile(HeaderOf(length) + "rest"));
    ASSERT_EQ(limited.errors.size(), 1u);
    EXPECT_EQ(limited.errors[0].code(), Code::kLimitExceeded) << length;
  }
}

TEST(ShardReader, ReadsARecordOf100MB) {
  std::string payload(100'000'000, '\0');
  for (size_t i = 0; i < payload.size(); i += 997) payload[i] = static_cast<char>(i);
  TempDir dir;
  auto writer = ShardWriter::Create(dir / "large");
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->Append(AsBytes(payload)).ok());
  ASSERT_TRUE((*writer)->Append(AsBytes("behind")).ok());
  ASSERT_TRUE((*writer)->Commit().ok());
  auto file = OpenForReading(dir / "large");
  ASSERT_TRUE(file.ok());
  const Outcome outcome = ReadAll(**file);
  ASSERT_EQ(outcome.payloads.size(), 2u);
  EXPECT_TRUE(outcome.payloads[0] == payload);
  EXPECT_EQ(outcome.payloads[1], "behind");
}

}  // namespace
}  // namespace emlio::tfrecord
