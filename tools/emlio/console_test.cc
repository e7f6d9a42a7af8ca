// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "console.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace emlio::tool {
namespace {

TEST(FormatTest, CountsHaveThousandsSeparators) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1000), "1,000");
  EXPECT_EQ(FormatCount(1281167), "1,281,167");
}

TEST(FormatTest, OneOfAKindIsNotMany) {
  EXPECT_EQ(FormatCount(0, "shard"), "0 shards");
  EXPECT_EQ(FormatCount(1, "bad place"), "1 bad place");
  EXPECT_EQ(FormatCount(2, "bad place"), "2 bad places");
  EXPECT_EQ(FormatCount(1, "batch"), "1 batch");
  EXPECT_EQ(FormatCount(1000, "batch"), "1,000 batches");
  EXPECT_EQ(FormatCount(3, "class"), "3 classes");
  EXPECT_EQ(FormatCount(3, "index"), "3 indexes");
  EXPECT_EQ(FormatCount(2, "epoch"), "2 epochs");
}

TEST(FormatTest, BytesHaveThreeDigitsAndDecimalUnits) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(999), "999 B");
  EXPECT_EQ(FormatBytes(999.6), "1.00 KB");
  EXPECT_EQ(FormatBytes(12340), "12.3 KB");
  EXPECT_EQ(FormatBytes(146.4e9), "146 GB");
  EXPECT_EQ(FormatBytes(9.996e6), "10.0 MB");
}

TEST(FormatTest, DurationsAreClockTimes) {
  EXPECT_EQ(FormatDuration(6.6), "0:07");
  EXPECT_EQ(FormatDuration(750), "12:30");
  EXPECT_EQ(FormatDuration(11100), "3:05:00");
}

TEST(ProgressTest, ShowsShareItemsRateAndTimeLeft) {
  const ProgressPoint half{
      .items_done = 3, .items_total = 12, .bytes_done = 500'000'000, .bytes_total = 1'000'000'000};
  EXPECT_EQ(RenderProgress("indexing", "shards", half, 10, 0),
            "indexing  [########--------]  50 %  3/12 shards  50.0 MB/s  0:10 left");
}

TEST(ProgressTest, FollowsItemsWhereNoByteTotalIsKnown) {
  const ProgressPoint quarter{.items_done = 25, .items_total = 100, .bytes_done = 1000};
  EXPECT_EQ(RenderProgress("pulling", "records", quarter, 1, 0),
            "pulling  [####------------]  25 %  25/100 records  1.00 KB/s  0:03 left");
}

TEST(ProgressTest, RateAndTimeLeftDoNotCountWhatWasDoneBefore) {
  const ProgressPoint half{.items_done = 6,
                           .items_total = 12,
                           .bytes_done = 500,
                           .bytes_total = 1000,
                           .items_kept = 5,
                           .bytes_kept = 400};
  EXPECT_EQ(RenderProgress("converting", "records", half, 10, 0),
            "converting  [########--------]  50 %  6/12 records  10 B/s  0:50 left");
  const ProgressPoint kept{.items_done = 6, .items_total = 12, .items_kept = 6};
  EXPECT_EQ(RenderProgress("converting", "records", kept, 10, 0),
            "converting  [########--------]  50 %  6/12 records");
}

TEST(ProgressTest, HasNoBarWhereNothingIsKnownAndKeepsToTheWidth) {
  EXPECT_EQ(RenderProgress("pulling", "records", {.items_done = 7}, 0, 0), "pulling  7 records");
  EXPECT_EQ(RenderProgress("pulling", "records", {.items_done = 7}, 0, 9), "pulling  ");
}

TEST(ExitCodeTest, TellsUsagePeerAndDataApart) {
  EXPECT_EQ(ExitCodeFor(OkStatus()), 0);
  EXPECT_EQ(ExitCodeFor(Corrupt("")), 1);
  EXPECT_EQ(ExitCodeFor(InvalidArgument("")), 2);
  EXPECT_EQ(ExitCodeFor(Unavailable("")), 3);
  EXPECT_EQ(ExitCodeFor(TimeoutError("")), 3);
}

TEST(ReportTest, FileHoldsTheObjectAndTheError) {
  const std::string path =
      testing::TempDir() + "emlio_report_" + std::to_string(getpid()) + ".json";
  const int exit_code = Report(path).Finish(Corrupt("shard a"), {{"records", 3}, {"name", "\xff"}});
  EXPECT_EQ(exit_code, kExitFailed);
  std::ifstream file(path);
  const auto read = nlohmann::json::parse(file);
  EXPECT_EQ(read["records"], 3);
  EXPECT_EQ(read["name"], "\xEF\xBF\xBD");
  EXPECT_EQ(read["error"]["code"], "CORRUPT");
  EXPECT_EQ(read["error"]["message"], "shard a");
  unlink(path.c_str());
}

TEST(ReportTest, ReportThatCannotBeWrittenIsAFailure) {
  EXPECT_EQ(Report("/nonexistent-directory/report.json").Finish(OkStatus(), {}), kExitFailed);
  EXPECT_EQ(Report("/dev/null").Finish(OkStatus(), {}), kExitOk);
}

}  // namespace
}  // namespace emlio::tool
