// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/base/bounded_queue.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "emlio/base/thread.h"

namespace emlio {
namespace {

TEST(BoundedQueueTest, FirstInFirstOut) {
  BoundedQueue<int> queue(3);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(queue.Push(i));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(queue.Pop(), i);
  EXPECT_EQ(queue.TryPop(), std::nullopt);
}

TEST(BoundedQueueTest, TryPushKeepsTheItemOfTheCallerWhenFullOrClosed) {
  BoundedQueue<std::unique_ptr<int>> queue(1);
  auto first = std::make_unique<int>(1);
  EXPECT_TRUE(queue.TryPush(std::move(first)));
  auto second = std::make_unique<int>(2);
  EXPECT_FALSE(queue.TryPush(std::move(second)));
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(**queue.Pop(), 1);
  queue.Close();
  EXPECT_FALSE(queue.TryPush(std::move(second)));
  ASSERT_NE(second, nullptr);
}

TEST(BoundedQueueTest, AfterCloseWhatIsLeftComesOutAndThenTheEnd) {
  BoundedQueue<int> queue(4);
  queue.Push(1);
  queue.Push(2);
  queue.Close();
  queue.Close();
  EXPECT_FALSE(queue.Push(3));
  EXPECT_EQ(queue.Pop(), 1);
  EXPECT_EQ(queue.TryPop(), 2);
  EXPECT_EQ(queue.Pop(), std::nullopt);
  EXPECT_EQ(queue.Pop(), std::nullopt);
}

// In the next two tests Close may come before the other thread waits, or after: both must end.
TEST(BoundedQueueTest, CloseWakesAPopThatWaits) {
  BoundedQueue<int> queue(1);
  std::optional<int> popped = 7;
  Thread consumer("consumer", [&](std::stop_token) { popped = queue.Pop(); });
  queue.Close();
  consumer.Join();
  EXPECT_EQ(popped, std::nullopt);
}

TEST(BoundedQueueTest, CloseWakesAPushThatWaitsAndDropsItsItem) {
  BoundedQueue<int> queue(1);
  queue.Push(1);
  bool pushed = true;
  Thread producer("producer", [&](std::stop_token) { pushed = queue.Push(2); });
  queue.Close();
  producer.Join();
  EXPECT_FALSE(pushed);
  EXPECT_EQ(queue.Pop(), 1);
  EXPECT_EQ(queue.Pop(), std::nullopt);
}

TEST(BoundedQueueTest, CountsWhatPassedAndNeverHoldsMoreThanItsCapacity) {
  BoundedQueue<int> queue(2);
  Thread producer("producer", [&](std::stop_token) {
    for (int i = 0; i < 1000; ++i) queue.Push(i);
    queue.Close();
  });
  int expected = 0;
  while (const std::optional<int> item = queue.Pop()) EXPECT_EQ(*item, expected++);
  EXPECT_EQ(expected, 1000);
  const QueueStats stats = queue.stats();
  EXPECT_EQ(stats.pushed, 1000u);
  EXPECT_EQ(stats.popped, 1000u);
  EXPECT_EQ(stats.size, 0u);
  EXPECT_GE(stats.max_size, 1u);
  EXPECT_LE(stats.max_size, 2u);
}

TEST(BoundedQueueTest, TellsASlowConsumerFromASlowProducer) {
  const auto hold_back = [] {
    const auto begin = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(20)) {
      std::this_thread::yield();
    }
  };
  {
    BoundedQueue<int> queue(1);
    Thread producer("producer", [&](std::stop_token) {
      while (queue.Push(0)) {
      }
    });
    while (queue.stats().push_wait_ns == 0) {  // a deadline is set by the test runner
      hold_back();
      queue.Pop();
    }
    queue.Close();
  }
  {
    BoundedQueue<int> queue(1);
    Thread consumer("consumer", [&](std::stop_token) {
      while (queue.Pop()) {
      }
    });
    while (queue.stats().pop_wait_ns == 0) {
      hold_back();
      queue.Push(0);
    }
    queue.Close();
  }
  BoundedQueue<int> unhurried(1);
  unhurried.Push(0);
  unhurried.Pop();
  EXPECT_EQ(unhurried.stats().push_wait_ns, 0u);
  EXPECT_EQ(unhurried.stats().pop_wait_ns, 0u);
}

TEST(BoundedQueueTest, ManyThreadsLoseAndRepeatNothing) {
  constexpr int kProducers = 3;
  constexpr int kConsumers = 3;
  constexpr int kItems = 5000;
  BoundedQueue<int> queue(8);
  std::vector<std::vector<int>> taken(kConsumers);
  std::vector<Thread> consumers;
  for (int c = 0; c < kConsumers; ++c) {
    consumers.emplace_back("consumer", [&queue, mine = &taken[c]](std::stop_token) {
      while (const std::optional<int> item = queue.Pop()) mine->push_back(*item);
    });
  }
  {
    std::vector<Thread> producers;
    for (int p = 0; p < kProducers; ++p) {
      producers.emplace_back("producer", [&queue, p](std::stop_token) {
        for (int i = 0; i < kItems; ++i) queue.Push(p * kItems + i);
      });
    }
    for (Thread& producer : producers) producer.Join();
  }
  queue.Close();
  for (Thread& consumer : consumers) consumer.Join();
  std::set<int> seen;
  for (const std::vector<int>& items : taken) {
    std::vector<int> last(kProducers, -1);
    for (int item : items) {
      EXPECT_TRUE(seen.insert(item).second) << item;
      EXPECT_GT(item, last[item / kItems]) << "one producer's items came out of order";
      last[item / kItems] = item;
    }
  }
  EXPECT_EQ(seen.size(), static_cast<size_t>(kProducers * kItems));
}

}  // namespace
}  // namespace emlio
