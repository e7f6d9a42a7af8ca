// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_sinks/influx_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <numeric>

#include "emlio/energy/testing/store_file.h"
#include "emlio/energy_sinks/influx_answer.h"
#include "emlio/energy_sinks/testing/scripted_influx.h"

namespace emlio::energy_sinks {
namespace {

using energy::testing::SteadySamples;
using energy::testing::TickOf;
using energy::testing::TwoSocketsWithMemory;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ScriptedInflux;

constexpr int64_t kLongNs = 60 * kNsPerSecond;

class InfluxSinkTest : public ::testing::Test {
 protected:
  InfluxOptions Quick() const {
    InfluxOptions options;
    options.url = server_.Url();
    options.bucket = "energy";
    options.organisation = "lab";
    options.min_backoff_ns = 20 * kNsPerMs;
    options.max_backoff_ns = 100 * kNsPerMs;
    return options;
  }
  static std::unique_ptr<InfluxSink> Start(InfluxOptions options) {
    auto sink = InfluxSink::Start(std::move(options), "run", "node", TwoSocketsWithMemory());
    EXPECT_TRUE(sink.ok()) << sink.status().ToString();
    return sink.ok() ? std::move(*sink) : nullptr;
  }
  static void Append(InfluxSink& sink, int64_t from, int64_t to) {
    for (int64_t tick = from; tick < to; ++tick) {
      const auto samples = SteadySamples(4, tick);
      sink.Append(TickOf(tick, samples).wall_ns, samples);
    }
  }
  static int64_t SumOf(const std::map<std::string, int>& points) {
    return std::accumulate(points.begin(), points.end(), int64_t{0},
                           [](int64_t sum, const auto& point) { return sum + point.second; });
  }

  ScriptedInflux server_;
};

TEST_F(InfluxSinkTest, EveryVersionHasItsRouteItsUnitAndItsName) {
  struct Case {
    InfluxVersion version;
    std::string path;
    std::string unit;
    std::string authorization;
    std::string key;
    std::string value;
  };
  for (const Case& c :
       {Case{InfluxVersion::kV1, "/write", "u", "Basic bWU6c2VjcmV0", "db", "a b&c"},
        Case{InfluxVersion::kV2, "/api/v2/write", "us", "Token t0ken", "bucket", "energy"},
        Case{InfluxVersion::kV3, "/api/v3/write_lp", "microsecond", "Bearer t0ken", "db",
             "a b&c"}}) {
    InfluxOptions options = Quick();
    options.version = c.version;
    options.url += "/";
    options.database = "a b&c";
    options.user = "me";
    options.password = "secret";
    options.token = "t0ken";
    const auto sink = Start(options);
    Append(*sink, 0, 1);
    ASSERT_TRUE(sink->Flush(kLongNs).ok());
    const auto request = server_.requests().back();
    EXPECT_EQ(request.path, c.path);
    EXPECT_EQ(request.query.find("precision")->second, c.unit);
    EXPECT_EQ(request.query.find(c.key)->second, c.value);
    EXPECT_EQ(request.authorization, c.authorization);
    EXPECT_EQ(request.lines, 4U);
    EXPECT_EQ(sink->Report().points_sent, 4);
  }
}

TEST_F(InfluxSinkTest, OptionsThatCannotWorkAreRefused) {
  InfluxOptions options = Quick();
  options.bucket.clear();
  const auto start = [&] { return InfluxSink::Start(options, "r", "n", {}).status(); };
  EXPECT_EQ(start().code(), Code::kInvalidArgument);
  options.version = InfluxVersion::kV1;
  EXPECT_THAT(start().message(), HasSubstr("InfluxDB 1 needs a database"));
  options.version = InfluxVersion::kV3;
  EXPECT_EQ(start().code(), Code::kInvalidArgument);
  options.database = "db";
  options.url = "file:///etc/passwd";
  EXPECT_THAT(start().message(), HasSubstr("http://"));
}

TEST_F(InfluxSinkTest, ARequestHasAtMostSoManyLines) {
  InfluxOptions options = Quick();
  options.max_lines = 10;
  options.max_waiting_points = 1'000'000;
  const auto sink = Start(options);
  Append(*sink, 0, 500);
  ASSERT_TRUE(sink->Flush(kLongNs).ok());
  for (const auto& request : server_.requests()) EXPECT_LE(request.lines, 10U);
  EXPECT_EQ(server_.points().size(), 2000U);
  EXPECT_EQ(sink->Report().points_sent, 2000);
}

TEST_F(InfluxSinkTest, WhatIsThereAfterASecondIsSentWithoutBeingAsked) {
  const auto sink = Start(Quick());
  Append(*sink, 0, 3);
  server_.WaitForRequests(1);
  EXPECT_EQ(server_.requests().front().lines, 12U);
}

TEST_F(InfluxSinkTest, ErrorsThatPassAreTriedAgainAndReplaysChangeNothing) {
  // Half of the third request is kept although it fails.
  server_.Script({{.status = 503},
                  {.status = 429, .headers = {{"Retry-After", "1"}}},
                  {.status = 500, .takes = 6},
                  {.status = 408},
                  {.status = 204}});
  const auto sink = Start(Quick());
  Append(*sink, 0, 3);
  ASSERT_TRUE(sink->Flush(kLongNs).ok());
  const auto requests = server_.requests();
  ASSERT_EQ(requests.size(), 5U);
  EXPECT_GE(requests[2].at - requests[1].at, std::chrono::seconds(1));
  EXPECT_EQ(server_.points().size(), 12U);
  EXPECT_EQ(SumOf(server_.points()), 18);
  const energy::SinkReport report = sink->Report();
  EXPECT_EQ(report.points_sent, 12);
  EXPECT_EQ(report.points_refused, 0);
  EXPECT_EQ(report.points_dropped, 0);
  EXPECT_EQ(report.retries, 4);
  EXPECT_EQ(report.last_error, "");
}

TEST_F(InfluxSinkTest, WhatADatabaseRefusesIsNotSentAgainAndCounted) {
  server_.Script({{.status = 401, .body = R"({"code":"unauthorized","message":"no such token"})"}});
  const auto sink = Start(Quick());
  Append(*sink, 0, 2);
  ASSERT_TRUE(sink->Flush(kLongNs).ok());
  EXPECT_EQ(server_.requests().size(), 1U);
  EXPECT_EQ(sink->Report().points_refused, 8);
  EXPECT_EQ(sink->Report().last_error, "HTTP 401: no such token");
  Append(*sink, 2, 3);
  ASSERT_TRUE(sink->Flush(kLongNs).ok());
  EXPECT_EQ(sink->Report().points_sent, 4);
  EXPECT_EQ(sink->Report().last_error, "");
}

TEST_F(InfluxSinkTest, PartOfARequestThatIsRefusedIsCounted) {
  server_.Script({{.status = 400,
                   .body = R"({"error":"partial write: field type conflict: x dropped=3"})",
                   .takes = 5}});
  const auto sink = Start(Quick());
  Append(*sink, 0, 2);
  ASSERT_TRUE(sink->Flush(kLongNs).ok());
  EXPECT_EQ(sink->Report().points_refused, 3);
  EXPECT_EQ(sink->Report().points_sent, 5);
  EXPECT_EQ(server_.requests().size(), 1U);
}

TEST_F(InfluxSinkTest, ARequestThatIsTooLargeIsSentInPieces) {
  server_.Script({{.status = 413}, {.status = 413}});
  const auto sink = Start(Quick());
  Append(*sink, 0, 4);
  ASSERT_TRUE(sink->Flush(kLongNs).ok());
  std::vector<size_t> lines;
  for (const auto& request : server_.requests()) lines.push_back(request.lines);
  EXPECT_THAT(lines, ElementsAre(16, 8, 4, 4, 8));
  EXPECT_EQ(server_.points().size(), 16U);
  EXPECT_EQ(sink->Report().points_sent, 16);
}

TEST_F(InfluxSinkTest, ADatabaseThatHangsDelaysNobodyAndDropsAreCounted) {
  server_.Script({{.hang = true}});
  InfluxOptions options = Quick();
  options.timeout_ms = 300;
  options.max_lines = 20;
  options.max_waiting_points = 100;
  const auto sink = Start(options);
  Append(*sink, 0, 5);
  server_.WaitForRequests(1);
  const int64_t begin_ns = SystemClock().NowNs();
  Append(*sink, 5, 1005);
  EXPECT_LT(SystemClock().NowNs() - begin_ns, 10 * kNsPerSecond);  // a deadline against waiting
  ASSERT_TRUE(sink->Flush(kLongNs).ok());
  const energy::SinkReport report = sink->Report();
  EXPECT_GE(report.retries, 1);
  EXPECT_GT(report.points_dropped, 0);
  EXPECT_EQ(report.points_sent + report.points_dropped, 4020);
  EXPECT_EQ(static_cast<int64_t>(server_.points().size()), report.points_sent);
}

TEST_F(InfluxSinkTest, WithoutADatabaseTheEndIsNotDelayedForLong) {
  InfluxOptions options = Quick();
  options.url = "http://127.0.0.1:1";
  options.close_timeout_ns = 100 * kNsPerMs;
  auto sink = Start(options);
  Append(*sink, 0, 5);
  EXPECT_EQ(sink->Flush(200 * kNsPerMs).code(), Code::kTimeout);
  EXPECT_GT(sink->Report().retries, 0);
  EXPECT_THAT(sink->Report().last_error, HasSubstr("UNAVAILABLE"));
  sink.reset();
}

TEST_F(InfluxSinkTest, WhatWaitsWhenItEndsIsSentFirst) {
  auto sink = Start(Quick());
  Append(*sink, 0, 7);
  sink.reset();
  EXPECT_EQ(server_.points().size(), 28U);
}

TEST_F(InfluxSinkTest, WhatCouldNotBeDeliveredIsKnownOnceItIsClosed) {
  InfluxOptions options = Quick();
  options.url = "http://127.0.0.1:1";
  options.close_timeout_ns = 100 * kNsPerMs;
  const auto sink = Start(options);
  Append(*sink, 0, 5);
  sink->Close();
  EXPECT_EQ(sink->Report().points_dropped, 20);
  Append(*sink, 5, 6);
  sink->Close();
  EXPECT_EQ(sink->Report().points_dropped, 24);
  EXPECT_EQ(sink->Report().points_sent, 0);
  EXPECT_TRUE(sink->Flush(kLongNs).ok());  // nothing waits
}

TEST_F(InfluxSinkTest, SecretsAreInNoReport) {
  InfluxOptions options = Quick();
  options.version = InfluxVersion::kV1;
  options.database = "db";
  options.url.insert(7, "me:hush@");
  options.token = "t0ken";
  const auto sink = Start(options);
  EXPECT_EQ(sink->Report().target, server_.Url());
}

TEST_F(InfluxSinkTest, AnUnavailableDomainHasNoFieldButItsState) {
  auto domains = TwoSocketsWithMemory();
  domains[1].cause = "nobody may read it";
  auto sink = InfluxSink::Start(Quick(), "run", "node", domains);
  ASSERT_TRUE(sink.ok());
  (*sink)->Append(5'000, SteadySamples(4, 1));
  ASSERT_TRUE((*sink)->Flush(kLongNs).ok());
  const std::string point =
      "emlio_energy,domain=dram-0,in_total=yes,kind=dram,node=node,run=run,source=powercap 5";
  EXPECT_EQ(server_.FieldsOf(point), "state=\"unavailable\"");
}

TEST_F(InfluxSinkTest, AChildMadeByForkSendsNothing) {
  auto sink = Start(Quick());
  Append(*sink, 0, 1);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Append(*sink, 1, 2);
    const bool told = sink->Flush(1).code() == Code::kUnavailable;
    sink.reset();
    _exit(told ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  ASSERT_TRUE(sink->Flush(kLongNs).ok());
  EXPECT_EQ(server_.points().size(), 4U);
}

TEST(InfluxAnswerTest, EveryWayToSayThatPartWasRefusedIsUnderstood) {
  const auto refused = [](int status, std::string body) {
    HttpAnswer answer;
    answer.status = status;
    answer.body = std::move(body);
    return JudgeInfluxAnswer(answer, 100).refused;
  };
  // Version 1: two ways, and one that names lines without their number.
  EXPECT_EQ(refused(400, R"({"error":"partial write: points beyond retention policy dropped=7"})"),
            7);
  EXPECT_EQ(
      refused(
          400,
          R"({"error":"partial write: unable to parse 'a': x\nunable to parse 'b': y dropped=0"})"),
      2);
  EXPECT_EQ(refused(400, R"({"error":"unable to parse 'a'"})"), 100);
  // Version 2 refuses all.
  EXPECT_EQ(refused(400, R"({"code":"invalid","message":"unable to parse 'a'"})"), 100);
  // Version 3 lists them.
  EXPECT_EQ(
      refused(
          400,
          R"({"error":"partial write of line protocol occurred","data":[{"line_number":1},{"line_number":5}]})"),
      2);
  EXPECT_EQ(refused(404, "no such database"), 100);
  EXPECT_EQ(refused(422, "{"), 100);
  EXPECT_EQ(refused(204, ""), 0);
  EXPECT_EQ(refused(400, R"({"error":"partial write: x dropped=9999"})"), 100);
}

}  // namespace
}  // namespace emlio::energy_sinks
