// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
// Records that are sent from memory, where they lie.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>
#include <string>
#include <vector>

#include "emlio/base/crc32c.h"
#include "emlio/dataset/dataset.h"
#include "emlio/dataset/dataset_testing.h"
#include "emlio/tfrecord/test_util.h"

namespace emlio::dataset {
namespace {

using tfrecord::HeaderOf;

TEST_F(DatasetTest, FindsRecordsInMemoryWhereTheyLie) {
  WriteShards(2, 10, 5000);
  options_.max_descriptors = 10;
  for (const IoMode io : {IoMode::kMmap, IoMode::kPread}) {
    options_.io = io;
    const auto dataset = Open();
    ASSERT_TRUE(dataset.ok());
    std::vector<GatherItem> items(2);
    items[0].shard = 1;
    items[0].record = 7;
    items[0].size = 5000;
    items[1].record = 2;
    items[1].begin = 1000;
    items[1].size = 300;
    std::vector<StoredPiece> pieces;
    ASSERT_TRUE((*dataset)->FindInMemory(items, &pieces));
    ASSERT_EQ(pieces.size(), 2u);
    for (size_t i = 0; i < items.size(); ++i) {
      const std::string whole =
          Payload(static_cast<int>(items[i].shard), static_cast<int>(items[i].record), 5000);
      std::string stored(pieces[i].size, '\0');
      EXPECT_EQ(::pread(pieces[i].descriptor, stored.data(), stored.size(),
                        static_cast<off_t>(pieces[i].offset)),
                static_cast<ssize_t>(items[i].size));
      EXPECT_EQ(stored, whole.substr(items[i].begin, items[i].size));
      EXPECT_EQ(pieces[i].crc32c, Crc32c(whole.data(), whole.size()));
    }
    // What Gather refuses is not found.
    items[1].size = 4001;
    EXPECT_FALSE((*dataset)->FindInMemory(items, &pieces));
  }
  options_.io = IoMode::kMmap;
  options_.max_descriptors = 1;
  std::vector<GatherItem> one(1);
  one[0].size = 5000;
  std::vector<StoredPiece> pieces;
  EXPECT_FALSE((*Open())->FindInMemory(one, &pieces)) << "without a descriptor";
}

TEST_F(DatasetTest, WhatIsNotInMemoryIsNotFoundThere) {
  WriteShards(1, 200, 50'000);
  options_.max_descriptors = 10;
  const auto dataset = Open();
  ASSERT_TRUE(dataset.ok());
  std::vector<GatherItem> item(1);
  item[0].record = 150;
  item[0].size = 50'000;
  std::vector<StoredPiece> pieces;
  ASSERT_TRUE((*dataset)->FindInMemory(item, &pieces));
  // Thrown out of the page cache, where it is one that can be thrown out of (not tmpfs).
  const int fd = ::open(ShardPath(0).c_str(), O_RDONLY | O_CLOEXEC);
  ::fsync(fd);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  char byte = 0;
  const iovec part{&byte, 1};
  const bool is_out = ::preadv2(fd, &part, 1, 150 * 50'016 + 25'000, RWF_NOWAIT) < 0;
  ::close(fd);
  if (!is_out) GTEST_SKIP() << "this file system keeps its files in memory";
  EXPECT_FALSE((*dataset)->FindInMemory(item, &pieces));
  EXPECT_TRUE(Read(**dataset, 0, 150).ok());
}

TEST_F(DatasetTest, AnOverwrittenHeaderIsNotFoundInMemory) {
  WriteShards(1, 10);
  options_.max_descriptors = 10;
  const auto dataset = Open();
  ASSERT_TRUE(dataset.ok());
  std::fstream file(ShardPath(0), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(3 * 116);
  file << HeaderOf(50);
  file.close();
  std::vector<GatherItem> item(1);
  item[0].size = 100;
  std::vector<StoredPiece> pieces;
  item[0].record = 3;
  EXPECT_FALSE((*dataset)->FindInMemory(item, &pieces));
  item[0].record = 4;
  EXPECT_TRUE((*dataset)->FindInMemory(item, &pieces));
}

}  // namespace
}  // namespace emlio::dataset
