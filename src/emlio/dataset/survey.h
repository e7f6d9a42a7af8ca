// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "emlio/base/status.h"

namespace emlio::dataset {

// Files that seem to be the same.
struct FileKind {
  std::string what;  // "TFRecord", "empty", "gzip data", "a tar archive", "something else", ...
  uint64_t files = 0;
  std::string first_path;   // in order of shard name
  std::string first_bytes;  // of that file, a few; none when it is empty
};

// What the files are that the patterns name (see DatasetOptions), judged by the first bytes of each
// and nothing else: for explaining why Dataset::Open failed. The most frequent kind comes first.
// Errors are those of finding files; one that cannot be read is of the kind "unreadable".
Result<std::vector<FileKind>> SurveyFiles(std::span<const std::string> patterns);

}  // namespace emlio::dataset
