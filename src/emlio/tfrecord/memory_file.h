// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "emlio/base/file.h"
#include "emlio/base/status.h"

namespace emlio::tfrecord {

// A file in memory, for tests and fuzzers. Counts what is read.
class MemoryFile : public RandomAccessFile {
 public:
  explicit MemoryFile(std::string bytes) : bytes_(std::move(bytes)) {}
  const std::string& path() const override { return path_; }
  Result<FileIdentity> Identity() const override {
    FileIdentity identity;
    identity.size_bytes = bytes_.size();
    return identity;
  }
  Result<size_t> ReadAt(uint64_t offset, size_t size, void* to) const override {
    ++reads;
    if (offset >= bytes_.size()) return size_t{0};
    const size_t count = std::min<size_t>(size, bytes_.size() - offset);
    if (count > 0) std::memcpy(to, bytes_.data() + offset, count);
    read_bytes += count;
    return count;
  }
  void WillNeed(uint64_t, size_t) const override {}

  mutable size_t reads = 0;
  mutable size_t read_bytes = 0;

 private:
  const std::string path_ = "memory.tfrecord";
  const std::string bytes_;
};

}  // namespace emlio::tfrecord
