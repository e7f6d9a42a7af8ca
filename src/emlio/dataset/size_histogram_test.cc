// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/dataset/size_histogram.h"

#include <gtest/gtest.h>

#include <tuple>

#include "emlio/tfrecord/test_util.h"

namespace emlio::dataset {
namespace {

std::vector<std::tuple<uint64_t, uint64_t, uint64_t>> BinsOf(const SizeHistogram& sizes) {
  std::vector<std::tuple<uint64_t, uint64_t, uint64_t>> bins;
  for (const auto& bin : sizes.bins()) bins.emplace_back(bin.from, bin.to, bin.records);
  return bins;
}
using Bins = std::vector<std::tuple<uint64_t, uint64_t, uint64_t>>;

TEST(SizeHistogramTest, BinsArePowersOfTwoWithoutGaps) {
  SizeHistogram sizes;
  EXPECT_EQ(BinsOf(sizes), Bins());
  for (const uint64_t bytes : {0, 1, 4, 7, 8}) sizes.Add(bytes);
  EXPECT_EQ(BinsOf(sizes), (Bins{{0, 1, 1}, {1, 2, 1}, {2, 4, 0}, {4, 8, 2}, {8, 16, 1}}));
  EXPECT_EQ(sizes.records(), 5u);
  EXPECT_EQ(sizes.bytes(), 20u);
  EXPECT_EQ(sizes.smallest(), 0u);
  EXPECT_EQ(sizes.largest(), 8u);
}

TEST(SizeHistogramTest, TheLargestRecordHasABin) {
  SizeHistogram sizes;
  sizes.Add(0xffffffff);
  EXPECT_EQ(BinsOf(sizes), (Bins{{uint64_t{1} << 31, uint64_t{1} << 32, 1}}));
}

class RecordSizesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // 7 records of 1, 2, 4, ... bytes over 3 shards, one of them empty.
    std::vector<std::string> payloads;
    for (int i = 0; i < 7; ++i) payloads.emplace_back(size_t{1} << i, 'x');
    tfrecord::WriteBytes(dir_ / "a", tfrecord::Shard({payloads.begin(), payloads.begin() + 3}));
    tfrecord::WriteBytes(dir_ / "b", "");
    tfrecord::WriteBytes(dir_ / "c", tfrecord::Shard({payloads.begin() + 3, payloads.end()}));
    DatasetOptions options;
    options.name = "test";
    options.patterns = {dir_ / "*"};
    options.index_directory = index_.path();
    auto opened = Dataset::Open(options);
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    dataset_ = *std::move(opened);
  }

  const tfrecord::TempDir dir_, index_;
  std::unique_ptr<Dataset> dataset_;
};

TEST_F(RecordSizesTest, CountsEveryRecordWhereThatIsAllowed) {
  for (const uint64_t most : {7, 8, 1000}) {
    const SizeHistogram sizes = RecordSizes(*dataset_, most);
    EXPECT_EQ(sizes.records(), 7u);
    EXPECT_EQ(sizes.bytes(), 127u);
  }
}

TEST_F(RecordSizesTest, CountsEveryNthRecordOtherwiseAcrossShards) {
  const SizeHistogram every_second = RecordSizes(*dataset_, 6);
  EXPECT_EQ(every_second.records(), 4u);
  EXPECT_EQ(every_second.bytes(), 1u + 4 + 16 + 64);
  const SizeHistogram every_fourth = RecordSizes(*dataset_, 2);
  EXPECT_EQ(every_fourth.records(), 2u);
  EXPECT_EQ(every_fourth.bytes(), 1u + 16);
  EXPECT_EQ(RecordSizes(*dataset_, 1).records(), 1u);
}

}  // namespace
}  // namespace emlio::dataset
