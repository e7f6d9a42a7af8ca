// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "emlio/energy_analysis/document.h"

namespace emlio::tool {

// A report as lines of at most `columns`; plots are left out. Every line ends with \n.
std::string DocumentText(const energy_analysis::Document& document, size_t columns);

}  // namespace emlio::tool
