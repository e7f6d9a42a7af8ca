// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace emlio::wanlab {
namespace {

using ::testing::HasSubstr;

std::string ConfigWith(const std::string& direction) {
  return R"({"nodes":["a","b"],"control":"/tmp/c","links":[{"storage":0,"compute":1,)"
         R"("storage_address":"10.77.0.1","compute_address":"10.77.0.2","to_compute":)" +
         direction + "}]}";
}

TEST(ConfigTest, FieldsOfADirectionAreRead) {
  const Result<Config> config = ParseConfig(ConfigWith(
      R"({"delay_ms":15.5,"jitter_ms":2,"rate_mbit":5000,"loss_percent":0.1,)"
      R"("reorder_percent":1,"reorder_by_ms":3,"queue_packets":100,"cut":true,"stalled":true})"));
  ASSERT_TRUE(config.ok()) << config.status().message();
  const WantedDirection& wanted = config->links[0].directions[kToCompute];
  EXPECT_EQ(wanted.settings.delay_ns, 15'500'000);
  EXPECT_EQ(wanted.settings.jitter_ns, 2'000'000);
  EXPECT_EQ(wanted.settings.rate_bits_per_s, 5'000'000'000);
  EXPECT_DOUBLE_EQ(wanted.settings.loss, 0.001);
  EXPECT_DOUBLE_EQ(wanted.settings.reorder, 0.01);
  EXPECT_EQ(wanted.settings.reorder_by_ns, 3'000'000);
  EXPECT_EQ(wanted.settings.queue_packets, 100);
  EXPECT_FALSE(wanted.queue_is_automatic);
  EXPECT_TRUE(wanted.settings.cut);
  EXPECT_TRUE(wanted.settings.stalled);
  EXPECT_EQ(config->links[0].directions[kToStorage].settings.delay_ns, 0);
}

TEST(ConfigTest, WhatCannotBeIsRefusedByName) {
  for (const auto& [direction, message] : {
           std::pair(R"({"delay_ms":-1})", "delay_ms"),
           std::pair(R"({"delay_ms":"5"})", "delay_ms"),
           std::pair(R"({"delay_ms":1e9})", "delay_ms"),
           std::pair(R"({"delay_ms":1,"jitter_ms":2})", "jitter_ms"),
           std::pair(R"({"loss_percent":101})", "loss_percent"),
           std::pair(R"({"rate_mbit":0.001})", "rate_mbit"),
           std::pair(R"({"queue_bytes":0})", "queue_bytes"),
           std::pair(R"({"queue_packets":1.5})", "whole number"),
           std::pair(R"({"cut":1})", "cut"),
           std::pair(R"({"delay":1})", "unknown field \"delay\""),
           std::pair(R"([])", "not a JSON object"),
       }) {
    const Result<Config> config = ParseConfig(ConfigWith(direction));
    ASSERT_FALSE(config.ok()) << direction;
    EXPECT_EQ(config.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(config.status().message(), HasSubstr(message));
    EXPECT_THAT(config.status().message(), HasSubstr("link 0: to_compute"));
  }
}

TEST(ConfigTest, ALinkNeedsTwoNodesThatExist) {
  std::string text = ConfigWith("{}");
  text.replace(text.find("\"compute\":1"), 11, "\"compute\":2");
  EXPECT_THAT(ParseConfig(text).status().message(), HasSubstr("\"compute\""));
  EXPECT_FALSE(ParseConfig(R"({"nodes":["a"],"links":[{}],"control":"c"})").ok());
  EXPECT_FALSE(ParseConfig(R"({"nodes":[],"links":[],"control":"c"})").ok());
  EXPECT_FALSE(ParseConfig(R"({"nodes":["a"],"links":[]})").ok());
}

TEST(ConfigTest, TextThatIsTooLongIsRefusedUnread) {
  EXPECT_EQ(ParseConfig(std::string(kMaxConfigBytes + 1, '[')).status().code(),
            Code::kLimitExceeded);
  EXPECT_EQ(ParseCommand(std::string(kMaxCommandBytes + 1, '[')).status().code(),
            Code::kLimitExceeded);
}

TEST(CommandTest, NamesLinkAndDirection) {
  const Result<Command> all = ParseCommand(R"({"set":{"delay_ms":1}})");
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->kind, Command::kSet);
  EXPECT_EQ(all->link, std::nullopt);
  EXPECT_EQ(all->direction, std::nullopt);
  const Result<Command> one =
      ParseCommand(R"({"set":{"cut":true},"link":2,"direction":"to_storage"})");
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(one->link, 2);
  EXPECT_EQ(one->direction, kToStorage);
  EXPECT_EQ(ParseCommand(R"({"statistics":true})")->kind, Command::kStatistics);
  EXPECT_EQ(ParseCommand(R"({"stop":true})")->kind, Command::kStop);
  for (const char* text : {"", "{}", "[]", R"({"set":1})", R"({"stop":true,"statistics":true})",
                           R"({"stop":true,"direction":"up"})", R"({"stop":true,"link":-1})"}) {
    EXPECT_FALSE(ParseCommand(text).ok()) << text;
  }
}

TEST(ApplyTest, OtherFieldsStayAndAFailureChangesNothing) {
  WantedDirection wanted;
  ASSERT_TRUE(Apply(R"({"delay_ms":10,"rate_mbit":100})", &wanted).ok());
  ASSERT_TRUE(Apply(R"({"loss_percent":1})", &wanted).ok());
  EXPECT_EQ(wanted.settings.delay_ns, 10'000'000);
  EXPECT_EQ(wanted.settings.rate_bits_per_s, 100'000'000);
  EXPECT_FALSE(Apply(R"({"delay_ms":20,"jitter_ms":21})", &wanted).ok());
  EXPECT_EQ(wanted.settings.delay_ns, 10'000'000);
}

TEST(ResolveTest, AnAutomaticQueueHoldsARoundTrip) {
  WantedDirection wanted;
  WantedDirection opposite;
  ASSERT_TRUE(Apply(R"({"delay_ms":20,"rate_mbit":1000})", &wanted).ok());
  ASSERT_TRUE(Apply(R"({"delay_ms":10})", &opposite).ok());
  EXPECT_EQ(Resolve(wanted, opposite).queue_bytes, 125'000 * 30);
  EXPECT_EQ(Resolve(opposite, wanted).queue_bytes, 0);  // without a rate nothing waits
  ASSERT_TRUE(Apply(R"({"rate_mbit":1})", &wanted).ok());
  EXPECT_EQ(Resolve(wanted, opposite).queue_bytes, kMinQueueBytes);
  ASSERT_TRUE(Apply(R"({"queue_bytes":5000})", &wanted).ok());
  EXPECT_EQ(Resolve(wanted, opposite).queue_bytes, 5000);
  ASSERT_TRUE(Apply(R"({"queue_packets":50})", &wanted).ok());
  EXPECT_EQ(Resolve(wanted, opposite).queue_bytes, 5000);
  ASSERT_TRUE(Apply(R"({"queue_bytes":null,"queue_packets":null})", &wanted).ok());
  EXPECT_EQ(Resolve(wanted, opposite).queue_bytes, kMinQueueBytes);
}

}  // namespace
}  // namespace emlio::wanlab
