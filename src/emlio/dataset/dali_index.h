// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "emlio/base/status.h"
#include "emlio/dataset/dataset.h"

namespace emlio::dataset {

// DALI's TFRecord reader wants an index of each shard: a text with a line "<offset> <size>" for
// every record, in decimal, framing included. This makes sure that the file holds it, byte for byte
// what DALI's own tfrecord2idx writes: one that does is left alone, any other is replaced, with a
// warning. True when it was written. REQUIRES: opened with a policy that checks indexes whole.
// https://docs.nvidia.com/deeplearning/dali/user-guide/docs/examples/general/data_loading/dataloading_tfrecord.html
Result<bool> EnsureDaliIndex(const Dataset& dataset, uint32_t shard, const std::string& path);

}  // namespace emlio::dataset
