// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/convert/shard_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "emlio/convert/test_util.h"

namespace emlio::convert {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ShardSetTest : public ConvertTest {
 protected:
  ShardSetOptions Options(const std::string& prefix = "a") {
    ShardSetOptions options;
    options.destination = Path("out");
    options.prefix = prefix;
    options.threads = 3;
    return options;
  }

  // Every shard holds two records that name it.
  static Status Fill(uint64_t shard, ShardSink* sink) {
    const std::string payload = "shard " + std::to_string(shard);
    EMLIO_RETURN_IF_ERROR(sink->Append(AsBytes(payload), 1));
    return sink->Append(AsBytes(payload), 1);
  }

  static Result<ShardSetSummary> WriteSet(const ShardSetOptions& options, uint64_t shards,
                                          const FillShard& fill = Fill,
                                          const ProgressFunction& progress = {}) {
    EMLIO_RETURN_IF_ERROR(CheckDestination(options));
    return WriteShardSet(options, shards, fill, {.records_total = 2 * shards}, progress);
  }
};

TEST_F(ShardSetTest, EveryShardHasItsNameAndItsRecords) {
  const auto summary = WriteSet(Options(), 3);
  ASSERT_TRUE(summary.ok()) << summary.status().ToString();
  EXPECT_THAT(NamesIn("out"), ElementsAre("a-00000-of-00003.tfrecord", "a-00001-of-00003.tfrecord",
                                          "a-00002-of-00003.tfrecord"));
  EXPECT_THAT(RecordsOf("out/a-00001-of-00003.tfrecord"), ElementsAre("shard 1", "shard 1"));
  EXPECT_EQ(summary->shards, 3);
  EXPECT_EQ(summary->records, 6);
  EXPECT_EQ(summary->payload_bytes, 6 * 7);
  EXPECT_EQ(summary->file_bytes, 6 * (7 + 16));
}

TEST_F(ShardSetTest, AFolderThatHoldsShardsIsRefusedAndLeftAlone) {
  ASSERT_TRUE(WriteSet(Options("old"), 2).ok());
  const auto before = FilesIn("out");
  for (const char* prefix : {"old", "new"}) {
    const Status status = WriteSet(Options(prefix), 2).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("old-00000-of-00002.tfrecord"));
    EXPECT_THAT(status.message(), HasSubstr("overwrite"));
  }
  EXPECT_EQ(FilesIn("out"), before);
}

TEST_F(ShardSetTest, OverwriteReplacesOtherSetsAndTheirIndexesAndNothingElse) {
  ASSERT_TRUE(WriteSet(Options("old"), 4).ok());
  Write("out/old-00000-of-00004.tfrecord.emlio-index", "index");
  for (const char* other : {"notes.txt", "mine.tfrecord", "x-1-of-2.tfrecord"}) {
    Write(std::string("out/") + other, "keep");
  }
  ShardSetOptions options = Options("new");
  options.overwrite = true;
  ASSERT_TRUE(WriteSet(options, 1).ok());
  EXPECT_THAT(NamesIn("out"), ElementsAre("mine.tfrecord", "new-00000-of-00001.tfrecord",
                                          "notes.txt", "x-1-of-2.tfrecord"));
}

TEST_F(ShardSetTest, AFailureLeavesNoShardOfTheNewSetAndAllOfTheOld) {
  ASSERT_TRUE(WriteSet(Options("old"), 2).ok());
  const auto before = FilesIn("out");
  ShardSetOptions options = Options("new");
  options.overwrite = true;
  const auto fail_late = [](uint64_t shard, ShardSink* sink) {
    EMLIO_RETURN_IF_ERROR(Fill(shard, sink));
    return shard == 15 ? Corrupt("shard 15 cannot be made") : OkStatus();
  };
  const Status status = WriteSet(options, 20, fail_late).status();
  EXPECT_EQ(status, Corrupt("shard 15 cannot be made"));
  EXPECT_EQ(FilesIn("out"), before);
}

TEST_F(ShardSetTest, StoppingCancelsAndLeavesNothing) {
  std::stop_source stop;
  ShardSetOptions options = Options();
  options.stop = stop.get_token();
  // Records without end: only the cancellation can end it.
  const auto endless = [](uint64_t, ShardSink* sink) {
    while (true) EMLIO_RETURN_IF_ERROR(sink->Append(AsBytes("x"), 1));
  };
  const Status status = WriteSet(options, 4, endless, [&](const Progress& now) {
                          if (now.records_done > 0) stop.request_stop();
                        }).status();
  EXPECT_EQ(status.code(), Code::kCancelled);
  EXPECT_THAT(NamesIn("out"), IsEmpty());
}

TEST_F(ShardSetTest, ProgressComesFromTheCallersThreadAndEndsAtTheTotals) {
  std::set<std::thread::id> threads;
  Progress last;
  ASSERT_TRUE(WriteSet(Options(), 5, Fill, [&](const Progress& now) {
                threads.insert(std::this_thread::get_id());
                EXPECT_GE(now.records_done, last.records_done);
                last = now;
              }).ok());
  EXPECT_THAT(threads, ElementsAre(std::this_thread::get_id()));
  EXPECT_EQ(last.records_done, 10);
  EXPECT_EQ(last.records_total, 10);
  EXPECT_EQ(last.bytes_done, 10);
}

TEST_F(ShardSetTest, PrefixesThatMakeNoFileNameAreRefused) {
  for (const std::string& prefix : {std::string(), std::string("../x"), std::string(".x"),
                                    std::string("a\nb"), std::string(201, 'x')}) {
    EXPECT_EQ(CheckDestination(Options(prefix)).code(), Code::kInvalidArgument) << prefix;
  }
}

TEST_F(ShardSetTest, ADestinationThatIsAFileIsAnError) {
  Write("out", "a file");
  EXPECT_FALSE(WriteSet(Options(), 1).ok());
  EXPECT_EQ(ReadFile(Path("out")), "a file");
}

TEST(FirstRecordTest, SplitsEvenlyWithoutGapsAtAnySize) {
  for (uint64_t records : {uint64_t{10}, uint64_t{11}, ~uint64_t{0}}) {
    for (uint64_t shards : {1, 3, 10}) {
      EXPECT_EQ(FirstRecord(0, shards, records), 0);
      EXPECT_EQ(FirstRecord(shards, shards, records), records);
      for (uint64_t i = 0; i < shards; ++i) {
        const uint64_t size = FirstRecord(i + 1, shards, records) - FirstRecord(i, shards, records);
        EXPECT_GE(size, records / shards);
        EXPECT_LE(size - records / shards, 1);
      }
    }
  }
}

}  // namespace
}  // namespace emlio::convert
