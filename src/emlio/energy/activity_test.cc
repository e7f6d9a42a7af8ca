// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy/activity.h"

#include <gtest/gtest.h>

#include "emlio/energy/testing/fake_host.h"

namespace emlio::energy {
namespace {

constexpr char kNetDev[] =
    "Inter-|   Receive                                                |  Transmit\n"
    " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop\n"
    "    lo: 999 9 0 0 0 0 0 0 999 9 0 0 0 0 0 0\n"
    "  eth0:1000 9 0 0 0 0 0 0 200 9 0 0 0 0 0 0\n"
    "  eth1: 30 9 0 0 0 0 0 0 4 9 0 0 0 0 0 0\n";
constexpr char kDiskStats[] =
    "   8       0 sda 10 0 8 5 20 0 16 5 0 0 0\n"
    "   8       1 sda1 10 0 8 5 20 0 16 5 0 0 0\n"
    " 253       0 dm-0 10 0 8 5 20 0 16 5 0 0 0\n";

TEST(ActivityTest, CountsInterfacesButLoopbackAndWholeDevices) {
  testing::FakeHost host;
  host.Write("proc/stat", "cpu  100 0 100 1000 50 0 0 0 0 0\n");
  host.Write("proc/net/dev", kNetDev);
  host.Write("proc/diskstats", kDiskStats);
  host.Write("sys/block/sda/device/model", "x");
  host.Write("sys/block/dm-0/dm/name", "x");
  const Activity before = ReadActivity(host.host.root);
  EXPECT_DOUBLE_EQ(*before.cpu_seconds, 2.0);
  EXPECT_EQ(before.network_received_bytes, 1030U);
  EXPECT_EQ(before.network_sent_bytes, 204U);
  EXPECT_EQ(before.storage_read_bytes, 8U * 512);
  EXPECT_EQ(before.storage_written_bytes, 16U * 512);
  host.Write("proc/stat", "cpu  300 0 100 1000 50 0 0 0 0 0\n");
  const Activity used = Between(before, ReadActivity(host.host.root));
  EXPECT_DOUBLE_EQ(*used.cpu_seconds, 2.0);
  EXPECT_EQ(used.network_sent_bytes, 0U);
}

TEST(ActivityTest, WhatTheKernelDoesNotTellIsNotZero) {
  testing::FakeHost host;
  const Activity none = ReadActivity(host.host.root);
  EXPECT_FALSE(none.cpu_seconds || none.network_received_bytes || none.storage_read_bytes);
  Activity more;
  more.network_sent_bytes = 5;
  EXPECT_FALSE(Between(none, more).network_sent_bytes);
  Activity less;
  less.network_sent_bytes = 4;
  EXPECT_FALSE(Between(more, less).network_sent_bytes) << "a counter that fell was set back";
}

TEST(ActivityTest, TextOfAnotherFormGivesNothing) {
  EXPECT_FALSE(ParseNetDev(""));
  EXPECT_FALSE(ParseNetDev("eth0: 1 2 3\n"));
  EXPECT_FALSE(ParseNetDev("eth0: x 9 0 0 0 0 0 0 200 9\n"));
  EXPECT_FALSE(ParseDiskStats("8 0 sda 1\n", [](std::string_view) { return true; }));
  EXPECT_FALSE(ParseDiskStats("", [](std::string_view) { return true; }));
}

}  // namespace
}  // namespace emlio::energy
