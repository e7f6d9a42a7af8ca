// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "emlio/base/file.h"
#include "emlio/base/status.h"

namespace emlio::tfrecord {

// What a file that is not TFRecord seems to be. FORMAT.md, "Files that are something else".
enum class Content { kUnknown, kGzip, kZlib, kZstd, kGitLfsPointer, kTar, kZip, kParquet, kHdf5 };
// With an article: "gzip data", "a Git-LFS pointer", "a tar archive"; "" for kUnknown.
std::string_view ContentName(Content content);

// So many bytes of a file's beginning, or all that it has, are enough to judge it.
inline constexpr size_t kContentHeadBytes = 512;

// Judges by the first bytes. REQUIRES: the file's first length checksum does not
// hold, since any bytes at all may be the start of a valid shard.
Content RecognizeContent(std::span<const uint8_t> head);

// Files beside shards by their names: indexes, texts, what is not finished. A folder, or a
// wildcard, never gives them as shards.
bool IsSidecarOrUnfinished(std::string_view name);

// True for a whole gzip file that holds nothing: what a writer leaves that compresses and never got
// a record. Such a file has no record, as an empty one.
Result<bool> IsEmptyGzip(const RandomAccessFile& file);

}  // namespace emlio::tfrecord
