// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/convert/recompress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "emlio/convert/compress_testing.h"
#include "emlio/convert/test_util.h"
#include "emlio/tfrecord/test_util.h"

namespace emlio::convert {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Gzip(const std::vector<std::string>& records) {
  return Compress(tfrecord::Shard(records), Compression::kGzip);
}

class RecompressTest : public ConvertTest {
 protected:
  RecompressOptions Options(const std::vector<std::string>& sources) {
    RecompressOptions options;
    options.destination = Path("out");
    options.threads = 1;  // in order
    for (const std::string& source : sources) options.sources.push_back(Path(source));
    return options;
  }
};

TEST_F(RecompressTest, EverySourceBecomesAPlainShardOfItsName) {
  const std::vector<std::string> records = {"one", "", std::string(100'000, 'x')};
  Write("in/a.tfrecord.gz", Gzip(records));
  Write("in/b.tfrecord", Compress(tfrecord::Shard({"two"}), Compression::kZlib));
  Write("in/c-00000-of-00001.zz", Compress("", Compression::kZlib));
  Write("in/d.tfrecord", tfrecord::Shard({"three"}));
  Write("in/e", "");
  const auto summary = RecompressShards(Options(
      {"in/e", "in/a.tfrecord.gz", "in/b.tfrecord", "in/c-00000-of-00001.zz", "in/d.tfrecord"}));
  ASSERT_TRUE(summary.ok()) << summary.status().ToString();
  EXPECT_THAT(NamesIn("out"),
              ElementsAre("a.tfrecord", "b.tfrecord", "c-00000-of-00001", "d.tfrecord", "e"));
  EXPECT_EQ(ReadFile(Path("out/a.tfrecord")), tfrecord::Shard(records));
  EXPECT_EQ(ReadFile(Path("out/b.tfrecord")), tfrecord::Shard({"two"}));
  EXPECT_EQ(ReadFile(Path("out/c-00000-of-00001")), "");
  EXPECT_EQ(ReadFile(Path("out/d.tfrecord")), tfrecord::Shard({"three"}));
  EXPECT_EQ(summary->shards, 5);
  EXPECT_EQ(summary->records, 5);
  EXPECT_EQ(summary->gzip, 1);
  EXPECT_EQ(summary->zlib, 2);
  EXPECT_EQ(summary->plain, 2);
}

TEST_F(RecompressTest, GoesOnWithWhatIsFinished) {
  Write("in/a.gz", Gzip({"a"}));
  Write("in/b.gz", Gzip({"b"}).substr(0, 20));
  Write("in/c.gz", Gzip({"c"}));
  const RecompressOptions options = Options({"in/a.gz", "in/b.gz", "in/c.gz"});
  const Status status = RecompressShards(options).status();
  EXPECT_EQ(status.code(), Code::kTruncated);
  EXPECT_THAT(status.message(), HasSubstr("in/b.gz (decompressed), record 0 at offset 0"));
  EXPECT_THAT(status.message(), HasSubstr("1 of 3 shards are finished and kept"));
  EXPECT_THAT(NamesIn("out"), IsEmpty());

  Write("in/b.gz", Gzip({"b", "b"}));
  const auto summary = RecompressShards(options);
  ASSERT_TRUE(summary.ok()) << summary.status().ToString();
  EXPECT_EQ(summary->kept_shards, 1);
  EXPECT_EQ(summary->records, 4);
  EXPECT_THAT(NamesIn("out"), ElementsAre("a", "b", "c"));
}

TEST_F(RecompressTest, CheckingComparesEveryByteWithTheSource) {
  Write("in/a.gz", Gzip({"a", "b"}));
  Write("in/b.gz", Gzip({"c"}));
  RecompressOptions options = Options({"in/a.gz", "in/b.gz"});
  ASSERT_TRUE(RecompressShards(options).ok());
  options.check = true;
  const auto summary = RecompressShards(options);
  ASSERT_TRUE(summary.ok()) << summary.status().ToString();
  EXPECT_EQ(summary->records, 3);

  Write("out/a", tfrecord::Shard({"a", "B"}));
  Status status = RecompressShards(options).status();
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(status.message(), HasSubstr("record 1 at offset 17: is not what "));
  EXPECT_THAT(status.message(), HasSubstr("in/a.gz gives"));

  std::filesystem::remove(Path("out/a"));
  EXPECT_EQ(RecompressShards(options).status().code(), Code::kNotFound);
}

TEST_F(RecompressTest, ShardsThatAreThereAreReplacedOnlyWhenAskedFor) {
  Write("in/a.gz", Gzip({"new"}));
  Write("out/a", tfrecord::Shard({"old"}));
  RecompressOptions options = Options({"in/a.gz"});
  EXPECT_EQ(RecompressShards(options).status().code(), Code::kInvalidArgument);
  options.overwrite = true;
  ASSERT_TRUE(RecompressShards(options).ok());
  EXPECT_EQ(ReadFile(Path("out/a")), tfrecord::Shard({"new"}));
}

TEST_F(RecompressTest, SourcesThatCannotAllBecomeShardsAreRefused) {
  Write("in/a.gz", Gzip({"a"}));
  Write("in/a", tfrecord::Shard({"a"}));
  Status status = RecompressShards(Options({"in/a", "in/a.gz"})).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("would both become a"));

  Write("in/state.gz", Gzip({"a"}));
  EXPECT_EQ(RecompressShards(Options({"in/state.gz"})).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(RecompressShards(Options({})).status().code(), Code::kInvalidArgument);
}

TEST_F(RecompressTest, TheFolderOfASourceIsNoDestination) {
  Write("out/a.tfrecord", Gzip({"a"}));
  const Status status = RecompressShards(Options({"out/a.tfrecord"})).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("choose another folder"));
  EXPECT_EQ(ReadFile(Path("out/a.tfrecord")), Gzip({"a"}));
}

TEST_F(RecompressTest, OtherFilesAreNamedForWhatTheyAre) {
  Write("in/a", "\x28\xb5\x2f\xfd and so on");
  const Status status = RecompressShards(Options({"in/a"})).status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("zstd"));
}

TEST_F(RecompressTest, TheLimitOfARecordHoldsForPlainAndCompressedOnes) {
  const std::string large = tfrecord::Shard({std::string(1000, 'x')});
  for (const std::string& content : {large, Compress(large, Compression::kGzip)}) {
    Write("in/a", content);
    RecompressOptions options = Options({"in/a"});
    options.max_record_bytes = 999;
    const Status status = RecompressShards(options).status();
    EXPECT_EQ(status.code(), Code::kLimitExceeded);
    EXPECT_THAT(status.message(), HasSubstr("record 0 at offset 0"));
  }
}

}  // namespace
}  // namespace emlio::convert
