// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "emlio/base/status.h"
#include "emlio/convert/shard_set.h"

namespace emlio::convert {

// Where an unfinished conversion lies inside its destination (STATE.md).
inline constexpr char kUnfinishedFolder[] = ".emlio-convert";
inline constexpr char kStateName[] = "state";  // in that folder

// MakeShardSet for writing.
Result<ShardSetSummary> WriteShards(const ShardSetOptions& options, const ShardSet& set,
                                    const ProgressFunction& progress);

}  // namespace emlio::convert
