// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "emlio/base/status.h"
#include "emlio/dataset/dataset.h"
#include "emlio/dataset/find_shards.h"
#include "emlio/dataset/open_shard.h"

// All shards of a data set at once. Private to the module.
namespace emlio::dataset {

// Opens all, on several threads, and warns of what is not as it should be. The error of the first
// in order that cannot be opened; kCancelled when it was interrupted.
Result<std::vector<OpenedShard>> OpenShards(const DatasetOptions& options,
                                            const std::vector<FoundShard>& found);

}  // namespace emlio::dataset
