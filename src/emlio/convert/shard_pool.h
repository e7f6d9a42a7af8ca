// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>

#include "emlio/base/status.h"
#include "emlio/convert/shard_set.h"

namespace emlio::convert {

// Calls `work` for every shard of a set, on several threads, and `report` on the caller's thread
// about ten times a second. Returns the first error; after it, or when options.stop wants it, the
// token that `work` gets is stopped and no further shard is begun.
Status ForEachShard(const ShardSetOptions& options, uint64_t shards,
                    const std::function<Status(uint64_t shard, const std::stop_token& stop)>& work,
                    const std::function<void()>& report);

}  // namespace emlio::convert
