// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/dataset/shard_data.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "emlio/tfrecord/test_util.h"

namespace emlio::dataset {
namespace {

using tfrecord::TempDir;
using tfrecord::WriteBytes;

class ShardDataTest : public ::testing::TestWithParam<IoMode> {
 protected:
  ShardDataTest() {
    for (int64_t i = 0; i < 100'000; ++i) bytes_ += static_cast<char>('a' + i * i % 23);
    WriteBytes(path_, bytes_);
  }
  const TempDir dir_;
  const std::string path_ = dir_ / "shard";
  std::string bytes_;
};

uint8_t* At(std::string* to, size_t offset) {
  return reinterpret_cast<uint8_t*>(to->data()) + offset;
}

TEST_P(ShardDataTest, CopiesPiecesWhereverTheyLie) {
  const auto data = ShardData::Open(path_, GetParam());
  ASSERT_TRUE(data.ok());
  EXPECT_EQ(data->identity().size_bytes, 100'000u);
  std::string out(10'000, '\0');
  std::string expected(10'000, '\0');
  std::vector<ShardData::Piece> pieces;
  // Runs of neighbours, jumps back and forth, empty ones; more than go into one call.
  uint64_t offset = 77;
  for (size_t i = 0; i < 500; ++i) {
    if (i % 7 == 3) offset = (offset * 31 + i) % 90'000;
    const size_t size = i % 20;
    pieces.push_back({&*data, offset, At(&out, 20 * i), size});
    expected.replace(20 * i, size, bytes_.substr(offset, size));
    offset += size;
  }
  EXPECT_TRUE(ShardData::Copy(pieces));
  EXPECT_EQ(out, expected);
  EXPECT_TRUE(ShardData::Copy({}));
}

TEST_P(ShardDataTest, CopiesFromSeveralFilesAtOnce) {
  WriteBytes(dir_ / "other", std::string(5000, 'z'));
  const auto data = ShardData::Open(path_, GetParam());
  const auto other = ShardData::Open(dir_ / "other", GetParam());
  ASSERT_TRUE(data.ok() && other.ok());
  std::string out(30, '\0');
  const std::vector<ShardData::Piece> pieces = {{&*data, 10, At(&out, 0), 10},
                                                {&*other, 20, At(&out, 10), 10},
                                                {&*data, 20, At(&out, 20), 10}};
  EXPECT_TRUE(ShardData::Copy(pieces));
  EXPECT_EQ(out, bytes_.substr(10, 10) + std::string(10, 'z') + bytes_.substr(20, 10));
}

TEST_P(ShardDataTest, AFileThatBecameShorterIsNoticed) {
  const auto data = ShardData::Open(path_, GetParam());
  ASSERT_TRUE(data.ok());
  std::filesystem::resize_file(path_, 50'000);
  std::string out(100, '\0');
  EXPECT_TRUE(ShardData::Copy(std::vector<ShardData::Piece>{{&*data, 100, At(&out, 0), 100}}));
  EXPECT_FALSE(ShardData::Copy(std::vector<ShardData::Piece>{{&*data, 99'000, At(&out, 0), 100}}));
}

TEST_P(ShardDataTest, HintsChangeNothing) {
  const auto data = ShardData::Open(path_, GetParam());
  ASSERT_TRUE(data.ok());
  std::string out(100'000, '\0');
  for (int i = 0; i < 2; ++i) {
    data->WillNeed(12'345, 60'000);
    data->WillNeed(0, 100'000);
    data->Prefetch(99'000, 1000);
    EXPECT_TRUE(ShardData::Copy(std::vector<ShardData::Piece>{{&*data, 0, At(&out, 0), 100'000}}));
    EXPECT_EQ(out, bytes_);
    data->WillNotNeed(5000, 90'000);
  }
}

TEST_P(ShardDataTest, TheInodeStaysTheOneThatWasOpened) {
  const auto data = ShardData::Open(path_, GetParam());
  ASSERT_TRUE(data.ok());
  std::filesystem::remove(path_);
  WriteBytes(path_, std::string(100'000, 'x'));
  std::string out(10, '\0');
  EXPECT_TRUE(ShardData::Copy(std::vector<ShardData::Piece>{{&*data, 500, At(&out, 0), 10}}));
  EXPECT_EQ(out, bytes_.substr(500, 10));
}

INSTANTIATE_TEST_SUITE_P(Modes, ShardDataTest, ::testing::Values(IoMode::kMmap, IoMode::kPread),
                         [](const auto& mode) { return std::string(IoModeName(mode.param)); });

TEST(IoModeTest, NamesAreParsedBack) {
  for (const IoMode mode : {IoMode::kAuto, IoMode::kMmap, IoMode::kPread}) {
    const auto parsed = ParseIoMode(IoModeName(mode));
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(*parsed, mode);
  }
  EXPECT_EQ(ParseIoMode("direct").status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace emlio::dataset
