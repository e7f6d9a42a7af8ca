// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/transport/endpoint.h"

#include <gtest/gtest.h>

namespace emlio::transport {
namespace {

TEST(EndpointTest, ParsesNamesAndBothFamilies) {
  const auto name = ParseHostPort("storage-1.example:5555");
  ASSERT_TRUE(name.ok());
  EXPECT_EQ(name->host, "storage-1.example");
  EXPECT_EQ(name->port, 5555);
  const auto ipv6 = ParseHostPort("[fe80::1%lo]:65535");
  ASSERT_TRUE(ipv6.ok());
  EXPECT_EQ(ipv6->host, "fe80::1%lo");
  EXPECT_EQ(ipv6->port, 65535);
  const auto any = ParseHostPort("*:0");
  ASSERT_TRUE(any.ok());
  EXPECT_EQ(any->host, "*");
}

TEST(EndpointTest, RefusesWhatIsNoAddressAndShowsIt) {
  for (const char* text : {"", "host", ":5", "host:", "host:65536", "host:-1", "host:+1", "host:1x",
                           "host: 1", "::1:5555", "[::1]5555", "a b:1", "host/x:1", "[::1:5"}) {
    const auto address = ParseHostPort(text);
    ASSERT_FALSE(address.ok()) << text;
    EXPECT_EQ(address.status().code(), Code::kInvalidArgument) << text;
    EXPECT_NE(address.status().message().find(text), std::string::npos) << text;
  }
}

TEST(EndpointTest, OnlyTcpWithAPortCanBeDialled) {
  EXPECT_TRUE(ParseDialEndpoint("tcp://h:1").ok());
  for (const char* text : {"h:1", "ipc://h:1", "tcp://h:0", "tcp://*:1", "tcp://h", "tcp://"}) {
    EXPECT_EQ(ParseDialEndpoint(text).status().code(), Code::kInvalidArgument) << text;
  }
}

TEST(EndpointTest, NumericAddressesNeedNoNameServer) {
  const auto ipv4 = Resolve({"127.0.0.1", 7}, Lookup::kNumericOnly);
  ASSERT_TRUE(ipv4.ok());
  ASSERT_EQ(ipv4->size(), 1u);
  EXPECT_EQ(ipv4->front().endpoint, "tcp://127.0.0.1:7");
  EXPECT_FALSE(ipv4->front().ipv6);
  const auto ipv6 = Resolve({"::1", 7}, Lookup::kNumericOnly);
  ASSERT_TRUE(ipv6.ok());
  EXPECT_EQ(ipv6->front().endpoint, "tcp://[::1]:7");
  EXPECT_TRUE(ipv6->front().ipv6);
  EXPECT_EQ(Resolve({"localhost", 7}, Lookup::kNumericOnly).status().code(), Code::kNotFound);
}

TEST(EndpointTest, UnknownNameIsNotFoundAndNamed) {
  const auto result = Resolve({"no-such-host.invalid", 7}, Lookup::kNames);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), Code::kNotFound);
  EXPECT_NE(result.status().message().find("no-such-host.invalid"), std::string::npos);
}

}  // namespace
}  // namespace emlio::transport
