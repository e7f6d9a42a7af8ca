// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "emlio/base/status.h"
#include "emlio/convert/shard_set.h"

namespace emlio::convert {

// MakeShardSet for checking.
Result<ShardSetSummary> CheckShards(const ShardSetOptions& options, const ShardSet& set,
                                    const ProgressFunction& progress);

}  // namespace emlio::convert
