// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "emlio/base/file.h"
#include "emlio/base/status.h"
#include "emlio/tfrecord/fingerprint.h"

namespace emlio::tfrecord {

// Writes one shard, which appears whole at Commit or not at all. One thread at a time. After an
// error the writer is of no more use: destroy it.
class ShardWriter {
 public:
  // kNotFound when the directory is missing.
  static Result<std::unique_ptr<ShardWriter>> Create(const std::string& path);

  // Any bytes, none included.
  Status Append(std::span<const uint8_t> payload);
  // Syncs the file and gives it its name.
  Status Commit() { return file_->Commit(); }

  uint64_t records() const { return records_; }
  uint64_t payload_bytes() const { return payload_bytes_; }
  uint64_t file_bytes() const { return file_->written_bytes(); }
  // Of what was appended so far: what an index of the shard will have.
  Hash128 fingerprint() { return fingerprinter_.Digest(); }

 private:
  explicit ShardWriter(std::unique_ptr<AtomicFile> file) : file_(std::move(file)) {}

  const std::unique_ptr<AtomicFile> file_;
  Fingerprinter fingerprinter_;
  uint64_t records_ = 0;
  uint64_t payload_bytes_ = 0;
};

}  // namespace emlio::tfrecord
