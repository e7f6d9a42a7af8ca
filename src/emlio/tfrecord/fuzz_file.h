// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "emlio/base/file.h"
#include "emlio/base/status.h"

namespace emlio::tfrecord {

// A fuzzer's input as a file. Fuzzers are built without gtest, which test_util.h needs.
class FuzzFile : public RandomAccessFile {
 public:
  explicit FuzzFile(std::string bytes) : bytes_(std::move(bytes)) {}
  const std::string& path() const override { return path_; }
  Result<FileIdentity> Identity() const override {
    FileIdentity identity;
    identity.size_bytes = bytes_.size();
    return identity;
  }
  Result<size_t> ReadAt(uint64_t offset, size_t size, void* to) const override {
    if (offset >= bytes_.size()) return size_t{0};
    return bytes_.copy(static_cast<char*>(to), size, offset);
  }
  void WillNeed(uint64_t, size_t) const override {}

 private:
  const std::string path_ = "fuzz";
  const std::string bytes_;
};

}  // namespace emlio::tfrecord
