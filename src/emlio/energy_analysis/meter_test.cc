// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "emlio/energy_analysis/meter_comparison.h"
#include "emlio/energy_analysis/meter_series.h"

namespace emlio::energy_analysis {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kBegin = 1'780'000'000 * kNsPerSecond;  // 2026-05-28T20:26:40Z

std::vector<MeterReading> Parse(std::string_view text, MeterFormat format,
                                MeterSeriesOptions options = {}) {
  options.format = format;
  auto series = ParseMeterSeries(text, options);
  EXPECT_TRUE(series.ok()) << series.status().message();
  return series.ok() ? *std::move(series) : std::vector<MeterReading>{};
}
std::string Refusal(std::string_view text, MeterFormat format) {
  return ParseMeterSeries(text, {.format = format}).status().message();
}

TEST(WallTimeTest, AllWaysToWriteOneMoment) {
  for (const char* text :
       {"1780000000", "1780000000.0", "1780000000000", "1780000000000000", "1780000000000000000",
        "2026-05-28T20:26:40Z", "2026-05-28 20:26:40", "2026-05-28T20:26:40.000+00:00",
        "2026-05-28T22:26:40+02:00", "2026-05-28T14:56:40-0530"}) {
    EXPECT_EQ(ParseWallTime(text), kBegin) << text;
  }
  EXPECT_EQ(ParseWallTime("2026-05-28T20:26:40.25Z"), kBegin + kNsPerSecond / 4);
}

TEST(WallTimeTest, OtherTextIsNoTime) {
  for (const char* text :
       {"", "time", "-5", "2026-13-28T20:26:40Z", "2026-02-30T20:26:40Z", "2026-05-28T25:26:40Z",
        "2026-05-28T20:26:40 or so", "nan", "1e300", "2026-05-28T20:26:40.Z"}) {
    EXPECT_FALSE(ParseWallTime(text)) << text;
  }
}

TEST(MeterSeriesTest, CsvWithAndWithoutAHeader) {
  const auto bare = Parse("1780000001,101\n1780000000,100.5\n", MeterFormat::kCsv);
  ASSERT_EQ(bare.size(), 2u);
  EXPECT_EQ(bare[0].wall_ns, kBegin);  // sorted
  EXPECT_DOUBLE_EQ(bare[0].watts, 100.5);
  const auto pdu = Parse(
      "# exported\n\"Outlet\";\"Timestamp\";\"Active Power (kW)\"\r\n"
      "3;\"2026-05-28 20:26:40\";0.1005\r\n",
      MeterFormat::kCsv);
  ASSERT_EQ(pdu.size(), 1u);
  EXPECT_EQ(pdu[0].wall_ns, kBegin);
  EXPECT_DOUBLE_EQ(pdu[0].watts, 100.5);
  const auto named = Parse("when\tamps\tp\n1780000000\t3\t1005\n", MeterFormat::kCsv,
                           {.time_column = "when", .watts_column = "p", .scale = 0.1});
  ASSERT_EQ(named.size(), 1u);
  EXPECT_DOUBLE_EQ(named[0].watts, 100.5);
  EXPECT_EQ(Parse("1780000000 100\n1780000001 100\n", MeterFormat::kCsv).size(), 2u);
}

TEST(MeterSeriesTest, WhatIsNoReadingIsNamedByItsLine) {
  EXPECT_THAT(Refusal("time,watts\n1780000000,100\nsoon,100\n", MeterFormat::kCsv),
              HasSubstr("line 3: no time"));
  EXPECT_THAT(Refusal("time,watts\n1780000000,N/A\n", MeterFormat::kCsv),
              HasSubstr("line 2: no figure of power"));
  EXPECT_THAT(Refusal("time,watts\n1780000000,-3\n", MeterFormat::kCsv), HasSubstr("-3 W cannot"));
  EXPECT_THAT(Refusal("time,watts\n1780000000\n", MeterFormat::kCsv), HasSubstr("line 2"));
  EXPECT_THAT(Refusal("time,volts\n1780000000,3\n", MeterFormat::kCsv), HasSubstr("\"watts\""));
  EXPECT_THAT(Refusal("", MeterFormat::kCsv), HasSubstr("no reading"));
  EXPECT_THAT(Refusal(std::string(100'000, 'x'), MeterFormat::kCsv), HasSubstr("longer than"));
}

TEST(MeterSeriesTest, IpmitoolPrintsPowerAndTime) {
  const auto series = Parse(
      "    Instantaneous power reading:                   212 Watts\n"
      "    Minimum during sampling period:                 10 Watts\n"
      "    Average power reading over sample period:      200 Watts\n"
      "    IPMI timestamp:                           Thu May 28 20:26:40 2026\n"
      "    Sampling period:                          00000001 Seconds.\n"
      "    Power reading state is:                   activated\n\n"
      "    Instantaneous power reading:                   215 Watts\n"
      "    IPMI timestamp:                           Thu May 28 20:26:41 2026\n",
      MeterFormat::kIpmi);
  ASSERT_EQ(series.size(), 2u);
  EXPECT_EQ(series[0].wall_ns, kBegin);
  EXPECT_DOUBLE_EQ(series[0].watts, 212);
  EXPECT_EQ(series[1].wall_ns, kBegin + kNsPerSecond);
  EXPECT_THAT(Refusal("Instantaneous power reading: 3 Watts\nIPMI timestamp: yesterday\n",
                      MeterFormat::kIpmi),
              HasSubstr("line 2: no time"));
  EXPECT_THAT(Refusal("Instantaneous power reading: none\n", MeterFormat::kIpmi),
              HasSubstr("line 1: no figure"));
}

TEST(MeterSeriesTest, RedfishReportsSensorsAndPowerResources) {
  const auto report = Parse(
      R"({"MetricValues": [
        {"MetricId": "InletTemp", "MetricValue": "24", "Timestamp": "2026-05-28T20:26:40Z"},
        {"MetricId": "SystemPowerConsumption", "MetricValue": "212",
         "Timestamp": "2026-05-28T20:26:40Z"},
        {"MetricId": "SystemPowerConsumption", "MetricValue": "213",
         "Timestamp": "2026-05-28T20:26:41Z"}]})",
      MeterFormat::kRedfish);
  ASSERT_EQ(report.size(), 2u);
  EXPECT_EQ(report[0].wall_ns, kBegin);
  EXPECT_DOUBLE_EQ(report[1].watts, 213);
  const auto lines = Parse(
      "{\"time\": 1780000000, \"PowerControl\": [{\"PowerConsumedWatts\": 344}]}\n"
      "{\"time\": 1780000001, \"PowerWatts\": {\"Reading\": 345.5}}\n"
      "{\"ReadingTime\": \"2026-05-28T20:26:42Z\", \"Reading\": 346, \"ReadingUnits\": \"W\"}\n",
      MeterFormat::kRedfish);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_DOUBLE_EQ(lines[1].watts, 345.5);
  EXPECT_EQ(lines[2].wall_ns, kBegin + 2 * kNsPerSecond);
  EXPECT_THAT(Refusal("{\"PowerWatts\": {\"Reading\": 5}}", MeterFormat::kRedfish),
              HasSubstr("no time"));
  EXPECT_THAT(Refusal("{", MeterFormat::kRedfish), HasSubstr("no JSON"));
  EXPECT_THAT(Refusal("{}", MeterFormat::kRedfish), HasSubstr("no reading"));
  EXPECT_THAT(Refusal(std::string(100'000, '['), MeterFormat::kRedfish), HasSubstr("no JSON"));
}

// A host at three levels for six minutes each; its meter sees the losses of a power supply,
// averages over three seconds and is `lag_ns` late.
struct Bench {
  std::vector<MeterLevel> levels;
  std::vector<MeterReading> meter;

  explicit Bench(int64_t lag_ns, double level_seconds = 360) {
    std::mt19937_64 random(5);
    std::normal_distribution<double> noise(0, 1);
    int64_t now_ns = kBegin;
    std::vector<double> truth;
    for (const auto& [name, watts] : std::vector<std::pair<std::string, double>>{
             {"idle", 60}, {"load 1", 150}, {"load 2", 300}}) {
      MeterLevel level{.name = name, .series = {}};
      for (int second = 0; second < level_seconds; ++second, now_ns += kNsPerSecond) {
        const double own = watts + noise(random);
        level.series.push_back({now_ns, now_ns + kNsPerSecond, own});
        truth.push_back(35 + 1.12 * own);
      }
      levels.push_back(level);
    }
    for (size_t i = 3; i <= truth.size(); ++i) {
      const double watts = (truth[i - 1] + truth[i - 2] + truth[i - 3]) / 3 + 0.3 * noise(random);
      const auto reading_ns = kBegin + static_cast<int64_t>(i) * kNsPerSecond + lag_ns;
      meter.push_back({reading_ns, watts});
    }
  }
};

TEST(MeterComparisonTest, SlopeOffsetAndErrorsAreRecovered) {
  const Bench bench(4 * kNsPerSecond);
  const auto comparison = CompareWithMeter(bench.levels, bench.meter);
  ASSERT_TRUE(comparison.ok()) << comparison.status().message();
  // Late by what it was told and by the middle of its own averaging.
  EXPECT_NEAR(static_cast<double>(comparison->lag_ns) * 1e-9, 5.5, 1.1);
  EXPECT_NEAR(comparison->slope.value, 1.12, 0.01);
  EXPECT_NEAR(comparison->offset_watts.value, 35, 2);
  EXPECT_GT(comparison->correlation, 0.99);
  ASSERT_EQ(comparison->levels.size(), 3u);
  EXPECT_GE(comparison->levels[0].spans, 5u);
  EXPECT_NEAR(comparison->levels[0].error_percent.value, (60 / 102.2 - 1) * 100, 0.7);
  EXPECT_NEAR(comparison->levels[2].error_percent.value, (300 / 371.0 - 1) * 100, 0.7);
  EXPECT_THAT(MeterComparisonText(*comparison), HasSubstr("error at idle -41"));
}

TEST(MeterComparisonTest, TooLittleIsRefused) {
  const Bench bench(0);
  EXPECT_THAT(CompareWithMeter(std::span(bench.levels).first(2), bench.meter).status().message(),
              HasSubstr("2 levels of load, at least 3"));
  const Bench brief(0, 200);
  EXPECT_THAT(CompareWithMeter(brief.levels, brief.meter).status().message(),
              HasSubstr("level idle: "));
  auto holes = bench.meter;
  std::erase_if(holes, [](const MeterReading& reading) {
    const int64_t second = (reading.wall_ns - kBegin) / kNsPerSecond;
    return second > 800 && second < 1000;
  });
  EXPECT_THAT(CompareWithMeter(bench.levels, holes).status().message(),
              HasSubstr("level load 2: "));
}

TEST(MeterComparisonTest, LevelsAreAtRestAndAtLoadsThatDiffer) {
  const Bench bench(0);
  auto levels = bench.levels;
  std::swap(levels[0], levels[1]);
  EXPECT_THAT(CompareWithMeter(levels, bench.meter).status().message(),
              HasSubstr("level idle drew less than load 1"));
  levels = {bench.levels[0], bench.levels[1], bench.levels[1]};
  levels[2].name = "the same";
  EXPECT_THAT(CompareWithMeter(levels, bench.meter).status().message(),
              HasSubstr("levels load 1 and the same drew 150 W and 150 W, less than 5 % apart"));
}

TEST(MeterComparisonTest, ASeriesOfAnotherTimeIsRefused) {
  const Bench bench(3600 * kNsPerSecond);
  EXPECT_THAT(CompareWithMeter(bench.levels, bench.meter).status().message(),
              HasSubstr("no time in common"));
}

}  // namespace
}  // namespace emlio::energy_analysis
