// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "emlio/base/file.h"
#include "emlio/base/status.h"

namespace emlio::convert {

enum class Compression {
  kGzip,  // RFC 1952: one member, or several one behind the other
  kZlib,  // RFC 1950
};
std::string_view CompressionName(Compression compression);

// Decompresses a file from its beginning to its end. One thread at a time. Memory: less than 1 MiB,
// whatever the file holds and however large it becomes. All checksums are verified, though what
// lies in front of a bad one may have been handed out by then.
class Inflater {
 public:
  // Borrows `file`.
  Inflater(const RandomAccessFile* file, Compression compression);
  ~Inflater();
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // Reads up to `to.size()` bytes; fewer only at the end. Every error is final and comes again:
  // kTruncated, the file ends inside the compressed data; kCorrupt, data that cannot be, a checksum
  // that does not hold, or bytes behind the end; both without the file's name. Or why the file
  // could not be read.
  Result<size_t> Read(std::span<uint8_t> to);

  // So many bytes of the file are done with.
  uint64_t file_offset() const;

 private:
  struct Stream;

  // Makes at least `least` bytes of input available, or as many as the file still has.
  Status FillInput(size_t least);
  // Behind the end of a member: begins the next one, if there is one.
  Status EndMember();
  Status Advance(std::span<uint8_t> to, size_t* done);
  Status Damage(Code code, std::string_view what) const;

  const RandomAccessFile& file_;
  const Compression compression_;
  const std::unique_ptr<Stream> stream_;
  std::vector<uint8_t> input_;
  uint64_t next_read_ = 0;  // offset in the file
  bool at_file_end_ = false;
  bool at_end_ = false;
  Status failure_;  // the first
};

}  // namespace emlio::convert
