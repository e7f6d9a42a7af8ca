// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/convert/synthetic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <set>

#include "emlio/base/endian.h"
#include "emlio/convert/test_util.h"
#include "emlio/example/example.h"

namespace emlio::convert {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SyntheticTest : public ConvertTest {
 protected:
  SyntheticOptions Options(uint64_t records, uint64_t record_bytes, uint64_t shards) {
    SyntheticOptions options;
    options.destination = Path("out");
    options.records = records;
    options.record_bytes = record_bytes;
    options.shards = shards;
    return options;
  }
};

TEST_F(SyntheticTest, RawRecordsBeginWithTheirNumberAndDiffer) {
  for (uint64_t record_bytes : {8, 9, 16, 1003}) {
    SyntheticOptions options = Options(10, record_bytes, 3);
    options.overwrite = true;
    const auto summary = SyntheticShards(options);
    ASSERT_TRUE(summary.ok()) << summary.status().ToString();
    EXPECT_EQ(summary->records, 10);
    EXPECT_EQ(summary->payload_bytes, 10 * record_bytes);
    const std::vector<std::string> records = AllRecordsOf("out");
    ASSERT_EQ(records.size(), 10);
    for (uint64_t id = 0; id < 10; ++id) {
      ASSERT_EQ(records[id].size(), record_bytes);
      EXPECT_EQ(LoadLe<uint64_t>(records[id].data()), id);
    }
    if (record_bytes >= 16) {
      EXPECT_NE(records[0].substr(8), records[1].substr(8));
    }
  }
}

TEST_F(SyntheticTest, EveryByteOfARecordLooksRandom) {
  ASSERT_TRUE(SyntheticShards(Options(4000, 8 + 21, 1)).ok());
  const std::vector<std::string> records = AllRecordsOf("out");
  for (size_t position = 8; position < 29; ++position) {
    std::set<char> values;
    for (const std::string& record : records) values.insert(record[position]);
    EXPECT_EQ(values.size(), 256) << position;
  }
}

TEST_F(SyntheticTest, ExamplesHoldNumberAndData) {
  SyntheticOptions options = Options(5, 100, 2);
  options.as_example = true;
  ASSERT_TRUE(SyntheticShards(options).ok());
  const std::vector<std::string> records = AllRecordsOf("out");
  ASSERT_EQ(records.size(), 5);
  for (int64_t id = 0; id < 5; ++id) {
    const auto example = example::ExampleView::Parse(AsBytes(records[id]));
    ASSERT_TRUE(example.ok()) << example.status().ToString();
    std::vector<int64_t> ids;
    std::vector<std::span<const uint8_t>> data;
    ASSERT_TRUE(example->Find("id")->ReadInt64(&ids).ok());
    ASSERT_TRUE(example->Find("data")->ReadBytes(&data).ok());
    EXPECT_THAT(ids, ElementsAre(id));
    ASSERT_EQ(data.size(), 1);
    EXPECT_EQ(data[0].size(), 100);
  }
}

TEST_F(SyntheticTest, ContentDependsOnSeedAndNotOnThreadsOrShards) {
  SyntheticOptions options = Options(100, 50, 7);
  options.threads = 1;
  ASSERT_TRUE(SyntheticShards(options).ok());
  const auto one_thread = FilesIn("out");

  options.destination = Path("again");
  options.threads = 5;
  ASSERT_TRUE(SyntheticShards(options).ok());
  EXPECT_EQ(FilesIn("again"), one_thread);

  options.destination = Path("one_shard");
  options.shards = 1;
  ASSERT_TRUE(SyntheticShards(options).ok());
  EXPECT_EQ(AllRecordsOf("one_shard"), AllRecordsOf("out"));

  options.destination = Path("other_seed");
  options.seed = 1;
  ASSERT_TRUE(SyntheticShards(options).ok());
  EXPECT_NE(AllRecordsOf("other_seed"), AllRecordsOf("out"));
}

TEST_F(SyntheticTest, SizesThatCannotWorkAreRefusedBeforeTheFolderIsMade) {
  const auto refused = [&](uint64_t records, uint64_t record_bytes, uint64_t shards, bool example) {
    SyntheticOptions options = Options(records, record_bytes, shards);
    options.as_example = example;
    const Status status = SyntheticShards(options).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_FALSE(std::filesystem::exists(Path("out")));
    return status.message();
  };
  EXPECT_THAT(refused(0, 10, 1, false), HasSubstr("at least one record"));
  EXPECT_THAT(refused(5, 10, 0, false), HasSubstr("1 to 5 shards"));
  EXPECT_THAT(refused(5, 10, 6, false), HasSubstr("1 to 5 shards"));
  EXPECT_THAT(refused(5, 7, 1, false), HasSubstr("7 bytes"));
  EXPECT_THAT(refused(5, (uint64_t{256} << 20) + 1, 1, false), HasSubstr("268435456"));
  EXPECT_THAT(refused(5, uint64_t{256} << 20, 1, true), HasSubstr("use 0 to"));
}

}  // namespace
}  // namespace emlio::convert
