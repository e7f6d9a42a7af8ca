// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/tfrecord/record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emlio/tfrecord/content.h"
#include "emlio/tfrecord/test_util.h"

namespace emlio::tfrecord {
namespace {

using ::testing::HasSubstr;
using std::string_literals::operator""s;

Status CheckFirst(const std::string& bytes, uint64_t max_record_bytes = kDefaultMaxRecordBytes) {
  const MemoryFile file(bytes);
  uint64_t payload_bytes = 0;
  return HeaderChecker{file, bytes.size(), max_record_bytes}.Check(
      0, 0, AsBytes(std::string_view(bytes).substr(0, kHeaderBytes)), &payload_bytes);
}

TEST(Record, FramingHasTheBytesOfTheFormatDocument) {
  TempDir dir;
  auto writer = ShardWriter::Create(dir / "a.tfrecord");
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->Append(AsBytes("hello")).ok());
  ASSERT_TRUE((*writer)->Append({}).ok());
  EXPECT_FALSE(std::filesystem::exists(dir / "a.tfrecord")) << "it appears at Commit";
  ASSERT_TRUE((*writer)->Commit().ok());
  EXPECT_EQ((*writer)->records(), 2u);
  EXPECT_EQ((*writer)->payload_bytes(), 5u);
  EXPECT_EQ((*writer)->file_bytes(), 37u);
  EXPECT_EQ(ReadBytes(dir / "a.tfrecord"),
            "\x05\0\0\0\0\0\0\0\xea\xb2\x04\x3ehello\xbb\x1f\x1c\x19"s
            "\0\0\0\0\0\0\0\0\x29\x03\x98\x07\xd8\xea\x82\xa2"s);
}

TEST(Record, AWriterThatIsNotCommittedLeavesNothing) {
  TempDir dir;
  {
    auto writer = ShardWriter::Create(dir / "a.tfrecord");
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE((*writer)->Append(AsBytes(std::string(3 << 20, 'x'))).ok());
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
  EXPECT_EQ(ShardWriter::Create(dir / "no/such/a.tfrecord").status().code(), Code::kNotFound);
}

TEST(Record, BoundsCheckDoesNotOverflow) {
  constexpr uint64_t kMax = ~uint64_t{0};
  EXPECT_TRUE(FitsAt(16, 0, 0));
  EXPECT_FALSE(FitsAt(15, 0, 0));
  EXPECT_TRUE(FitsAt(100, 50, 34));
  EXPECT_FALSE(FitsAt(100, 50, 35));
  EXPECT_FALSE(FitsAt(100, 101, 0));
  for (uint64_t payload_bytes : {kMax, kMax - 11, kMax - 15, kMax - 16, (uint64_t{1} << 63) + 5}) {
    EXPECT_FALSE(FitsAt(100, 50, payload_bytes)) << payload_bytes;
  }
  EXPECT_FALSE(FitsAt(100, kMax, 0));
}

TEST(Record, LimitErrorGivesBothNumbers) {
  const Status status = CheckFirst(HeaderOf((uint64_t{1} << 63) + 5));
  EXPECT_EQ(status.code(), Code::kLimitExceeded);
  EXPECT_THAT(status.message(), HasSubstr("9223372036854775813"));
  EXPECT_THAT(status.message(), HasSubstr("268435456"));
  EXPECT_EQ(CheckFirst(Framed("12345"), 5).code(), Code::kOk);
  EXPECT_EQ(CheckFirst(Framed("12345"), 4).code(), Code::kLimitExceeded);
}

TEST(Record, OtherFilesAreRecognisedByContent) {
  const std::string rest(200, 'x');
  const struct {
    std::string head;
    Code code;
    std::string says;
  } kCases[] = {
      {"\x1f\x8b\x08\0"s, Code::kUnsupported, "gzip"},
      {"\x78\x9c"s, Code::kUnsupported, "zlib"},
      {"\x78\x01"s, Code::kUnsupported, "zlib"},
      {"\x28\xb5\x2f\xfd"s, Code::kUnsupported, "zstd"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:00", Code::kCorrupt, "Git-LFS"},
      {"PK\x03\x04", Code::kCorrupt, "a zip archive"},
      {"PAR1", Code::kCorrupt, "a Parquet file"},
      {"\x89HDF\r\n\x1a\n", Code::kCorrupt, "an HDF5 file"},
      {"0001.jpg" + std::string(249, '\0') + "ustar\00000", Code::kCorrupt, "a tar archive"},
      {"\x89PNG\r\n", Code::kCorrupt, "not a TFRecord file"},
  };
  for (const auto& c : kCases) {
    const Status status = CheckFirst(c.head + rest);
    EXPECT_EQ(status.code(), c.code) << c.says;
    EXPECT_THAT(status.message(), HasSubstr(c.says));
    EXPECT_THAT(status.message(), HasSubstr("memory.tfrecord"));
  }
  // Too short for a header, and still compressed.
  EXPECT_EQ(CheckFirst("\x78\x9c\x03\0\0\0\0\x01"s).code(), Code::kUnsupported);
  EXPECT_EQ(CheckFirst("short").code(), Code::kTruncated);
}

TEST(Record, AValidLengthThatLooksCompressedIsARecord) {
  // 0x8b1f = 35,615 bytes: the file begins with gzip's magic, and is TFRecord.
  const std::string shard = Framed(std::string(0x8b1f, 'x'));
  ASSERT_EQ(shard.substr(0, 2), "\x1f\x8b");
  EXPECT_TRUE(CheckFirst(shard).ok());
}

TEST(Record, AGzipOfNothingIsToldFromOtherGzip) {
  const std::string header = "\x1f\x8b\x08\0\0\0\0\0\0\x03"s;
  const std::string nothing = "\x03\0\0\0\0\0\0\0\0\0"s;
  const std::string named = "\x1f\x8b\x08\x08\0\0\0\0\0\x03"s + "a.tfrecord\0"s;
  const auto is_empty = [](const std::string& bytes) {
    const auto result = IsEmptyGzip(MemoryFile(bytes));
    return result.ok() && *result;
  };
  EXPECT_TRUE(is_empty(header + nothing));
  EXPECT_TRUE(is_empty(named + nothing));
  EXPECT_TRUE(is_empty(header + "\x01\0\0\xff\xff\0\0\0\0\0\0\0\0"s));
  // gzip of "a": printf a | gzip -n.
  EXPECT_FALSE(is_empty(header + "\x4b\x04\0\x43\xbe\xb7\xe8\x01\0\0\0"s));
  // Members behind each other, the last one empty.
  EXPECT_FALSE(is_empty(header + "\x4b\x04\0\x43\xbe\xb7\xe8\x01\0\0\0"s + header + nothing));
  const std::string whole = named + nothing;
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(is_empty(whole.substr(0, size))) << size;
  }
  // An extra field that claims more than there is.
  EXPECT_FALSE(is_empty("\x1f\x8b\x08\x04\0\0\0\0\0\x03\xff\xff\0\0"s));
}

}  // namespace
}  // namespace emlio::tfrecord
