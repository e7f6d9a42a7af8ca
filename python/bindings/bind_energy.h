// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "emlio/base/observer.h"

namespace emlio::python {

// Adds EnergyRun and the functions of windows to the module. REQUIRES: BindErrors was called.
void BindEnergy(nanobind::module_& m);

// Who is told of the epochs of this process's loaders: the energy run that is going on, if any.
std::shared_ptr<Observer> EnergyObserver();

}  // namespace emlio::python
