// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/convert/shard_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "emlio/base/file.h"
#include "emlio/tfrecord/content.h"

namespace emlio::convert {
namespace {

constexpr std::string_view kSuffix = ".tfrecord";
constexpr size_t kLeastDigits = 5;

// Takes `before` and a number behind it off the end of `text`.
bool TakeNumber(std::string_view before, std::string_view* text) {
  const size_t last = text->find_last_not_of("0123456789");
  if (last == std::string_view::npos || text->size() - last - 1 < kLeastDigits) return false;
  text->remove_suffix(text->size() - last - 1);
  if (!text->ends_with(before)) return false;
  text->remove_suffix(before.size());
  return true;
}

}  // namespace

std::string ShardName(std::string_view prefix, uint64_t shard, uint64_t shards) {
  const size_t digits = std::max(kLeastDigits, fmt::formatted_size("{}", shards));
  return fmt::format("{}-{:0{}}-of-{:0{}}{}", prefix, shard, digits, shards, digits, kSuffix);
}

bool IsShardName(std::string_view name) {
  if (!name.ends_with(kSuffix)) return false;
  name.remove_suffix(kSuffix.size());
  return TakeNumber("-of-", &name) && TakeNumber("-", &name) && !name.empty();
}

Result<std::vector<std::string>> ShardNamesIn(const std::string& folder) {
  EMLIO_ASSIGN_OR_RETURN(std::vector<std::string> present, NamesInDirectory(folder));
  std::erase_if(present, [&](const std::string& name) {
    std::error_code error;
    return name.starts_with('.') || tfrecord::IsSidecarOrUnfinished(name) ||
           !std::filesystem::is_regular_file(std::filesystem::path(folder) / name, error);
  });
  return present;
}

}  // namespace emlio::convert
