// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "emlio/base/file.h"
#include "emlio/base/status.h"
#include "emlio/tfrecord/record.h"

namespace emlio::tfrecord {

// Reads a shard from its first record to its last and checks both checksums of each. One thread at
// a time. Memory: one buffer of 1 MiB, or of the largest record if that is larger.
class ShardReader {
 public:
  // Borrows `file`. Its size is taken now: what is appended later is not read.
  static Result<std::unique_ptr<ShardReader>> Open(
      const RandomAccessFile* file, uint64_t max_record_bytes = kDefaultMaxRecordBytes);

  // Sets `payload` to the next record's bytes, valid until the next call. False at the clean end.
  // After kCorrupt of a payload ("payload checksum") the next call goes on with the record behind
  // it; every other error is final and comes again.
  Result<bool> Next(std::span<const uint8_t>* payload);

  // Number and header offset of the record that the last Next was about.
  uint64_t record() const { return record_; }
  uint64_t offset() const { return offset_; }

 private:
  ShardReader(const RandomAccessFile* file, uint64_t file_bytes, uint64_t max_record_bytes)
      : checker_{*file, file_bytes, max_record_bytes} {}
  // Makes bytes [from, from + size) of the file, or as many as there are, available.
  Result<std::span<const uint8_t>> Fetch(uint64_t from, size_t size);

  const HeaderChecker checker_;
  std::vector<uint8_t> buffer_;
  uint64_t buffer_offset_ = 0;  // where in the file the buffer's first byte lies
  size_t buffered_bytes_ = 0;
  uint64_t record_ = 0;
  uint64_t offset_ = 0;
  uint64_t next_record_ = 0;
  uint64_t next_offset_ = 0;
};

}  // namespace emlio::tfrecord
