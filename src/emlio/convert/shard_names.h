// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "emlio/base/status.h"

namespace emlio::convert {

// "<prefix>-<shard>-of-<shards>.tfrecord", both numbers with at least five digits and with equally
// many, so that the bytewise order is the order of the numbers.
std::string ShardName(std::string_view prefix, uint64_t shard, uint64_t shards);

// Whether a file's name is one that ShardName gives, for whatever prefix.
bool IsShardName(std::string_view name);

// The names of the files in a folder that would be read as shards of one data set when the folder
// is named, whatever they hold; sorted.
Result<std::vector<std::string>> ShardNamesIn(const std::string& folder);

}  // namespace emlio::convert
