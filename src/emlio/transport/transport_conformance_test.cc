// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/transport/transport_conformance.h"

namespace emlio::transport {
namespace {

testing::Ends MakeZmqEnds(TransportOptions options) {
  testing::Ends ends;
  auto listener = ListenZmq("127.0.0.1:0", options);
  EXPECT_TRUE(listener.ok()) << listener.status().ToString();
  auto dialer = DialZmq(options);
  EXPECT_TRUE(dialer.ok()) << dialer.status().ToString();
  if (!listener.ok() || !dialer.ok()) return ends;
  ends.endpoint = (*listener)->endpoint();
  ends.listener = *std::move(listener);
  ends.dialer = *std::move(dialer);
  return ends;
}

testing::Ends MakeInprocEnds(TransportOptions options) {
  InprocPair pair = MakeInproc(options);
  testing::Ends ends;
  ends.endpoint = "inproc";
  ends.listener = std::move(pair.listener);
  ends.dialer = std::move(pair.dialer);
  return ends;
}

constexpr TransportFactory kZmq = {"Zmq", &MakeZmqEnds, false};
constexpr TransportFactory kInproc = {"Inproc", &MakeInprocEnds, true};

INSTANTIATE_TEST_SUITE_P(Both, TransportConformanceTest, ::testing::Values(kZmq, kInproc),
                         [](const auto& param_info) { return param_info.param.name; });

TEST(InprocTest, HandsPayloadsOverWithoutCopying) {
  testing::Ends ends = MakeInprocEnds({});
  const auto id = ends.dialer->Dial("inproc", 0);
  ASSERT_TRUE(id.ok());
  Message message = testing::MakeMessage("h", "payload");
  const uint8_t* payload = message.payload.data();
  ASSERT_EQ(ends.dialer->Send(*id, &message), SendResult::kSent);
  ASSERT_TRUE(ends.listener->Poll(0, &ends.at_listener).ok());
  ASSERT_EQ(ends.at_listener.size(), 1u);
  EXPECT_EQ(ends.at_listener.front().message.payload.data(), payload);
}

TEST(InprocTest, OnSentFiresWhenTheOtherSideTakesTheMessage) {
  testing::Counters counters;
  testing::Ends ends = MakeInprocEnds({});
  const auto id = ends.dialer->Dial("inproc", 0);
  ASSERT_TRUE(id.ok());
  Message message = counters.Make("h", 10);
  ASSERT_EQ(ends.dialer->Send(*id, &message), SendResult::kSent);
  EXPECT_EQ(counters.sent, 0);
  ASSERT_TRUE(ends.listener->Poll(0, &ends.at_listener).ok());
  EXPECT_EQ(counters.sent, 1);
  EXPECT_EQ(counters.released, 0);  // the receiver has it now
}

}  // namespace
}  // namespace emlio::transport
