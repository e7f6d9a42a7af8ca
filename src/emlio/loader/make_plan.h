// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "emlio/base/status.h"
#include "emlio/dataset/manifest.h"
#include "emlio/loader/loader.h"
#include "emlio/plan/plan.h"

namespace emlio::loader {

// Those options that decide about the plan, as far as they can be judged without the data:
// batch_size and global_batch_size, rank and world_size, the shuffle and its sizes.
// kInvalidArgument.
Status CheckPlanOptions(const LoaderOptions& options);

// The plan of a loader with these options over this data set, which may be the union of several
// sources. Sizes in bytes become records by the mean record of the manifest, so all ranks make the
// same of them. kInvalidArgument, as Plan::Create and Plan::CheckWorld have it; kLimitExceeded: a
// batch of one rank that no chunk could describe. REQUIRES: CheckPlanOptions is ok.
Result<plan::Plan> MakePlan(const LoaderOptions& options, const dataset::Manifest& manifest);

}  // namespace emlio::loader
