// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/dataset/survey.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "emlio/base/file.h"
#include "emlio/dataset/find_shards.h"
#include "emlio/tfrecord/content.h"
#include "emlio/tfrecord/record.h"

namespace emlio::dataset {
namespace {

constexpr size_t kFirstBytes = 16;

std::string_view WhatBeginsWith(std::span<const uint8_t> head) {
  if (head.empty()) return "empty";
  uint64_t ignored = 0;
  if (head.size() >= tfrecord::kHeaderBytes && tfrecord::DecodeHeader(head.data(), &ignored)) {
    return "TFRecord";
  }
  const std::string_view name = tfrecord::ContentName(tfrecord::RecognizeContent(head));
  return name.empty() ? "something else" : name;
}

}  // namespace

Result<std::vector<FileKind>> SurveyFiles(std::span<const std::string> patterns) {
  EMLIO_ASSIGN_OR_RETURN(const std::vector<FoundShard> found, FindShards(patterns));
  std::vector<FileKind> kinds;
  for (const FoundShard& shard : found) {
    std::array<uint8_t, tfrecord::kContentHeadBytes> head;
    size_t head_bytes = 0;
    std::string_view what = "unreadable";
    if (const auto file = OpenForReading(shard.path); file.ok()) {
      if (const auto read = (*file)->ReadAt(0, head.size(), head.data()); read.ok()) {
        head_bytes = *read;
        what = WhatBeginsWith({head.data(), head_bytes});
      }
    }
    auto kind = std::find_if(kinds.begin(), kinds.end(),
                             [&](const FileKind& known) { return known.what == what; });
    if (kind == kinds.end()) {
      const auto* begin = reinterpret_cast<const char*>(head.data());
      kind = kinds.insert(kinds.end(),
                          {.what = std::string(what),
                           .first_path = shard.path,
                           .first_bytes = std::string(begin, std::min(head_bytes, kFirstBytes))});
    }
    ++kind->files;
  }
  std::sort(kinds.begin(), kinds.end(), [](const FileKind& a, const FileKind& b) {
    return a.files != b.files ? a.files > b.files : a.first_path < b.first_path;
  });
  return kinds;
}

}  // namespace emlio::dataset
