// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

namespace emlio::python {

// Adds Loader to the module. REQUIRES: BindErrors and BindBatch were called.
void BindLoader(nanobind::module_& m);

}  // namespace emlio::python
