// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "emlio/loader/loader.h"

namespace emlio::python {

// Adds Batch, BytesColumn and Ragged to the module.
void BindBatch(nanobind::module_& m);

// The Python object of a batch. Everything it hands out (arrays, columns) borrows the batch's
// memory and keeps the batch alive. REQUIRES: batch is not null, the GIL is held.
nanobind::object WrapBatch(std::shared_ptr<const loader::Batch> batch);

}  // namespace emlio::python
