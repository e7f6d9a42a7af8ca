// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "emlio/base/file.h"
#include "emlio/base/status.h"
#include "emlio/convert/inflater.h"
#include "emlio/tfrecord/record.h"

namespace emlio::convert {

// tfrecord::ShardReader for a shard that is compressed as a whole, as TensorFlow writes it with
// TFRecordOptions("GZIP") or ("ZLIB"). One thread at a time. Memory: 1 MiB and the largest record,
// which is refused above `max_record_bytes` and takes room only as its bytes come.
class CompressedShardReader {
 public:
  // Borrows `file`.
  CompressedShardReader(const RandomAccessFile* file, Compression compression,
                        uint64_t max_record_bytes);

  // Sets `payload` to the next record's bytes, valid until the next call. False at the clean end.
  // Every error is final and comes again. Offsets in messages are those of headers in the
  // decompressed data. Errors as tfrecord::HeaderChecker and Inflater have them.
  Result<bool> Next(std::span<const uint8_t>* payload);

  // Number of the record that the last Next was about, and where its header lies in the
  // decompressed data.
  uint64_t record() const { return record_; }
  uint64_t offset() const { return offset_; }
  // So many bytes of the compressed file are done with.
  uint64_t file_offset() const { return inflater_.file_offset(); }

 private:
  // Appends up to `size` decompressed bytes to `*to`; fewer only at the end.
  Status Take(uint64_t size, std::vector<uint8_t>* to);
  // Makes some decompressed bytes available, unless there are no more.
  Status FillWindow();
  Result<bool> ReadRecord(std::span<const uint8_t>* payload);
  Status ExplainFirstHeader() const;
  std::string Place() const { return tfrecord::Place(name_, record_, offset_); }

  Inflater inflater_;
  const uint64_t max_record_bytes_;
  const std::string name_;
  std::vector<uint8_t> window_;  // decompressed: [window_begin_, window_end_) is not yet taken
  size_t window_begin_ = 0;
  size_t window_end_ = 0;
  bool at_end_ = false;
  std::vector<uint8_t> header_;
  std::vector<uint8_t> body_;
  uint64_t record_ = 0;
  uint64_t offset_ = 0;
  uint64_t next_record_ = 0;
  uint64_t next_offset_ = 0;
  Status failure_;
};

}  // namespace emlio::convert
