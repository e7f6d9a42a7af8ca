// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "emlio/base/file.h"
#include "emlio/base/status.h"

namespace emlio::tfrecord {

// What a file that is not TFRecord seems to be. FORMAT.md, "Files that are something else".
enum class Content { kUnknown, kGzip, kZlib, kZstd, kGitLfsPointer };

// Judges by the first bytes (64 are plenty). REQUIRES: the file's first length checksum does not
// hold, since any bytes at all may be the start of a valid shard.
Content RecognizeContent(std::span<const uint8_t> head);

// True for a whole gzip file that holds nothing: what a writer leaves that compresses and never got
// a record. Such a file has no record, as an empty one.
Result<bool> IsEmptyGzip(const RandomAccessFile& file);

}  // namespace emlio::tfrecord
