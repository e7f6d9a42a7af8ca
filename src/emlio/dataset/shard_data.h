// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "emlio/base/file.h"
#include "emlio/base/status.h"

namespace emlio::dataset {

// How records are read out of shard files; what comes out is the same.
enum class IoMode : uint8_t {
  kAuto,   // kMmap if the data set fits into half of the memory that the process may use and its
           // file systems let files be mapped, else kPread
  kMmap,   // copied from mappings: no system call for what is in the page cache, no descriptor
  kPread,  // read into buffers: the pages can be let go at once; a descriptor a shard
};

Result<IoMode> ParseIoMode(std::string_view name);  // "auto", "mmap", "pread"
std::string_view IoModeName(IoMode mode);

// The bytes of one open shard. The inode stays the one that was opened, whatever happens to its
// name. Const methods are thread-safe.
class ShardData {
 public:
  // REQUIRES: mode is not kAuto. With `wants_descriptor` it gets one with kMmap too, if it can.
  static Result<ShardData> Open(const std::string& path, IoMode mode,
                                bool wants_descriptor = false);

  const FileIdentity& identity() const { return identity_; }  // when it was opened
  bool has_descriptor() const { return readable_ != nullptr; }
  // REQUIRES: has_descriptor().
  Result<FileIdentity> IdentityNow() const { return readable_->Identity(); }
  int descriptor() const { return readable_ == nullptr ? -1 : readable_->descriptor(); }
  // Reads a few bytes only if that needs no waiting for storage. False if it does, without a
  // descriptor, and where the file system cannot tell.
  bool ReadFromMemory(uint64_t offset, std::span<uint8_t> to) const {
    return readable_ != nullptr && readable_->ReadFromMemory(offset, to);
  }

  // Tells the processor that a record that lies there will be copied soon.
  void Prefetch(uint64_t offset, uint64_t size) const;
  // Tells the system the same: it begins to read what is not in memory and returns. REQUIRES: the
  // range lies inside the file as it was when it was opened.
  void WillNeed(uint64_t offset, uint64_t size) const;
  // Tells it that the range will not be wanted again soon. Without effect on a mapping.
  void WillNotNeed(uint64_t offset, uint64_t size) const;

  struct Piece {
    const ShardData* from = nullptr;
    uint64_t offset = 0;
    uint8_t* to = nullptr;
    uint64_t size = 0;
  };
  // Copies all pieces. False when a file has become shorter or cannot be read (what was written by
  // then is unspecified). Neighbours that follow each other in a file are read together. REQUIRES:
  // all have the same mode; each lies inside its file as it was when it was opened.
  static bool Copy(std::span<const Piece> pieces);

 private:
  FileIdentity identity_;
  std::unique_ptr<MappedFile> mapped_;          // null with kPread
  std::unique_ptr<RandomAccessFile> readable_;  // may be null with kMmap
};

}  // namespace emlio::dataset
