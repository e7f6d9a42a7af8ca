// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_sinks/prometheus_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include "emlio/energy/testing/store_file.h"

namespace emlio::energy_sinks {
namespace {

using energy::testing::SteadySamples;
using energy::testing::TwoSocketsWithMemory;
using ::testing::HasSubstr;

TEST(PrometheusSinkTest, TheLatestTickIsServed) {
  PrometheusOptions options;
  options.sinks = [] {
    return std::vector<energy::SinkReport>{{"influx", "http://db", 9, 0, 0, 0, ""}};
  };
  const auto sink = PrometheusSink::Start(options, "n", TwoSocketsWithMemory());
  ASSERT_TRUE(sink.ok()) << sink.status().ToString();
  httplib::Client client("127.0.0.1", (*sink)->port());
  const auto text = [&] {
    const auto answer = client.Get("/metrics");
    EXPECT_TRUE(answer);
    EXPECT_EQ(answer->status, 200);
    EXPECT_THAT(answer->get_header_value("Content-Type"), HasSubstr("version=0.0.4"));
    return answer->body;
  };
  EXPECT_THAT(text(), HasSubstr("emlio_energy_source_info{"));
  for (const int64_t tick : {10, 20}) {
    (*sink)->Update(SteadySamples(4, tick));
    EXPECT_THAT(text(), HasSubstr("domain=\"package-0\",kind=\"package\",source=\"powercap\","
                                  "device=\"\"} " +
                                  std::to_string(tick) + "\n"));
  }
  EXPECT_THAT(text(), HasSubstr("emlio_energy_sink_points_total{"));
  EXPECT_EQ(client.Get("/")->status, 200);
  EXPECT_EQ(client.Get("/etc/passwd")->status, 404);
}

TEST(PrometheusSinkTest, APortThatIsTakenIsAnError) {
  const auto first = PrometheusSink::Start({}, "n", {});
  ASSERT_TRUE(first.ok());
  PrometheusOptions options;
  options.port = (*first)->port();
  const auto second = PrometheusSink::Start(options, "n", {});
  EXPECT_EQ(second.status().code(), Code::kUnavailable);
  EXPECT_THAT(second.status().message(), HasSubstr(std::to_string(options.port)));
}

TEST(PrometheusSinkTest, ItMayEndAtOnce) {
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(PrometheusSink::Start({}, "n", {}).ok());
}

}  // namespace
}  // namespace emlio::energy_sinks
