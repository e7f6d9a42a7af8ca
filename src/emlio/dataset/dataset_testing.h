// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "emlio/base/crc32c.h"
#include "emlio/dataset/dataset.h"
#include "emlio/tfrecord/test_util.h"

// A small data set of known records, for tests.
namespace emlio::dataset {

inline std::string Payload(int shard, int record, size_t size) {
  std::string payload = std::to_string(shard) + ":" + std::to_string(record);
  payload.resize(size, static_cast<char>('a' + record % 26));
  return payload;
}

class DatasetTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directory(data_); }

  // shards(k, n) of size bytes each, named s-0, s-1, ...
  void WriteShards(int shards, int records, size_t size = 100) {
    for (int s = 0; s < shards; ++s) {
      std::vector<std::string> payloads;
      for (int r = 0; r < records; ++r) payloads.push_back(Payload(s, r, size));
      tfrecord::WriteBytes(ShardPath(s), tfrecord::Shard(payloads));
    }
  }
  std::string ShardPath(int shard) const { return data_ + "/s-" + std::to_string(shard); }

  Result<std::unique_ptr<Dataset>> Open(std::vector<std::string> patterns = {"s-*"}) {
    DatasetOptions options = options_;
    options.name = "test";
    if (options.index_directory.empty()) options.index_directory = cache_;
    for (const auto& pattern : patterns) options.patterns.push_back(data_ + "/" + pattern);
    return Dataset::Open(options);
  }
  // Opens, and returns what was logged.
  std::string LogOfOpening(const std::vector<std::string>& patterns = {"s-*"}) {
    testing::internal::CaptureStderr();
    EXPECT_TRUE(Open(patterns).ok());
    return testing::internal::GetCapturedStderr();
  }
  std::vector<std::string> SavedIndexes() const {
    std::vector<std::string> paths;
    if (!std::filesystem::exists(cache_)) return paths;
    for (const auto& entry : std::filesystem::directory_iterator(cache_)) {
      paths.push_back(entry.path().string());
    }
    return paths;
  }
  static Result<std::string> Read(const Dataset& dataset, uint32_t shard, uint64_t record) {
    std::string payload(dataset.Locate(shard, record).payload_bytes, '\0');
    GatherItem item;
    item.shard = shard;
    item.record = record;
    item.size = payload.size();
    item.to = reinterpret_cast<uint8_t*>(payload.data());
    EMLIO_RETURN_IF_ERROR(dataset.Gather({&item, 1}));
    EXPECT_EQ(item.crc32c, Crc32c(payload.data(), payload.size()));
    return payload;
  }

  const tfrecord::TempDir dir_;
  const std::string data_ = dir_ / "data";
  const std::string cache_ = dir_ / "cache/index";
  DatasetOptions options_;
};

}  // namespace emlio::dataset
