// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/base/buffer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <utility>
#include <vector>

#include "emlio/base/bounded_queue.h"
#include "emlio/base/thread.h"

namespace emlio {
namespace {

Buffer Counted(uint8_t* bytes, size_t size, int* releases) {
  return Buffer(bytes, size, [](void* context) { ++*static_cast<int*>(context); }, releases);
}

TEST(BufferTest, ReleasesExactlyOnce) {
  uint8_t bytes[4] = {1, 2, 3, 4};
  int releases = 0;
  {
    Buffer first = Counted(bytes, 4, &releases);
    Buffer second = std::move(first);
    EXPECT_TRUE(first.empty());
    EXPECT_EQ(first.data(), nullptr);
    EXPECT_EQ(second.data(), bytes);
    Buffer third;
    third = std::move(second);
    EXPECT_EQ(releases, 0);
    third.Reset();
    EXPECT_EQ(releases, 1);
    EXPECT_EQ(third.data(), nullptr);
    third.Reset();
  }
  EXPECT_EQ(releases, 1);
}

TEST(BufferTest, AssignmentReleasesWhatWasHeld) {
  uint8_t bytes[2] = {};
  int first_releases = 0;
  int second_releases = 0;
  Buffer buffer = Counted(bytes, 1, &first_releases);
  buffer = Counted(bytes + 1, 1, &second_releases);
  EXPECT_EQ(first_releases, 1);
  EXPECT_EQ(second_releases, 0);
  Buffer& self = buffer;
  buffer = std::move(self);
  EXPECT_EQ(second_releases, 0);
  EXPECT_EQ(buffer.data(), bytes + 1);
}

TEST(BufferTest, WithoutReleaseItBorrows) {
  uint8_t byte = 9;
  Buffer buffer(&byte, 1, nullptr, nullptr);
  EXPECT_EQ(*buffer.data(), 9);
}

TEST(BufferTest, CopyIsIndependent) {
  char text[] = "emlio";
  const Buffer copy = Buffer::CopyOf(text, 5);
  text[0] = 'x';
  ASSERT_EQ(copy.size(), 5u);
  EXPECT_EQ(std::memcmp(copy.data(), "emlio", 5), 0);
  EXPECT_TRUE(Buffer::CopyOf(nullptr, 0).empty());
}

TEST(BufferTest, TruncateHidesTheTail) {
  Buffer buffer = Buffer::Allocate(100);
  buffer.Truncate(3);
  EXPECT_EQ(buffer.size(), 3u);
}

TEST(BufferPoolTest, HandsOutTheSameMemoryAgain) {
  BufferPool pool(4096, 1);
  EXPECT_EQ(pool.buffer_bytes(), 4096u);
  const uint8_t* first = nullptr;
  {
    Buffer buffer = pool.Take();
    ASSERT_EQ(buffer.size(), 4096u);
    std::memset(buffer.data(), 1, buffer.size());
    buffer.Truncate(10);
    first = buffer.data();
  }
  const Buffer again = pool.Take();
  EXPECT_EQ(again.data(), first);
  EXPECT_EQ(again.size(), 4096u) << "a pooled buffer comes back whole";
}

TEST(BufferPoolTest, BuffersThatAreOutDoNotOverlap) {
  BufferPool pool(64, 2);
  std::vector<Buffer> out;
  std::set<const uint8_t*> addresses;
  for (int i = 0; i < 10; ++i) {
    out.push_back(pool.Take());
    std::memset(out.back().data(), i, 64);
    EXPECT_TRUE(addresses.insert(out.back().data()).second);
  }
  for (int i = 0; i < 10; ++i) EXPECT_EQ(out[i].data()[63], i);
}

TEST(BufferPoolTest, BuffersOutliveThePool) {
  auto pool = std::make_unique<BufferPool>(1024, 4);
  Buffer first = pool->Take();
  Buffer second = pool->Take();
  {
    Buffer idle = pool->Take();
  }
  pool.reset();
  // The sanitizers see a use after free here, and a leak at exit.
  std::memset(first.data(), 1, first.size());
  first.Reset();
  std::memset(second.data(), 2, second.size());
}

TEST(BufferPoolTest, IsSharedByThreads) {
  BoundedQueue<Buffer> queue(4);
  auto pool = std::make_unique<BufferPool>(256, 3);
  size_t wrong = 0;
  Thread consumer("consumer", [&](std::stop_token) {
    while (std::optional<Buffer> buffer = queue.Pop()) {
      const uint8_t first = buffer->data()[0];
      for (size_t i = 0; i < buffer->size(); ++i) wrong += buffer->data()[i] != first;
    }
  });
  for (int i = 0; i < 2000; ++i) {
    Buffer buffer = pool->Take();
    std::memset(buffer.data(), i, buffer.size());
    ASSERT_TRUE(queue.Push(std::move(buffer)));
  }
  pool.reset();  // while the last buffers are still on their way
  queue.Close();
  consumer.Join();
  EXPECT_EQ(wrong, 0u);
}

}  // namespace
}  // namespace emlio
