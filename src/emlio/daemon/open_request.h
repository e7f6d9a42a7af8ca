// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "emlio/base/status.h"
#include "emlio/dataset/manifest.h"
#include "emlio/plan/plan.h"
#include "emlio/wire/messages.h"

namespace emlio::daemon {

// What an Open asks for, checked; the state of the daemon plays no part. Errors are those that
// PROTOCOL.md names for Open.

// Whether its numbers are possible at all.
Status CheckOpen(const wire::Open& open);

// For every shard of the merged manifest its position in this daemon's own, LocalRecords::kNotHere
// for those that are not assigned. kNotFound when an assigned one is not here.
Result<std::vector<uint32_t>> FindAssigned(const wire::Open& open, const dataset::Manifest& merged,
                                           const dataset::Manifest& own);

// The plan over the merged manifest. REQUIRES: CheckOpen is ok.
Result<plan::Plan> MakePlan(const wire::Open& open, const dataset::Manifest& merged);

}  // namespace emlio::daemon
