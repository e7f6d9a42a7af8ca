// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "interrupt.h"

#include <gtest/gtest.h>

#include <csignal>

namespace emlio::tool {
namespace {

TEST(SignalWaiterTest, HandsOutSignalsAndNotifications) {
  SignalWaiter signals;
  raise(SIGTERM);
  EXPECT_EQ(signals.Wait(), SIGTERM);
  signals.Notify();
  EXPECT_EQ(signals.Wait(), 0);
}

TEST(SignalWaiterTest, SignalsThatNobodyWaitedForEndWithIt) {
  {
    SignalWaiter signals;
    raise(SIGINT);
    raise(SIGTERM);
  }
  raise(SIGINT);  // and once more
  SUCCEED() << "the process lives";
}

}  // namespace
}  // namespace emlio::tool
