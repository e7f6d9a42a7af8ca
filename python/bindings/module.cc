// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <nanobind/nanobind.h>

#include "bind_batch.h"
#include "bind_energy.h"
#include "bind_loader.h"
#include "errors.h"
#include "gil.h"

NB_MODULE(_core, m) {
  m.doc() = "The C++ part of EMLIO. Import emlio instead.";
  m.attr("__version__") = EMLIO_VERSION_STRING;
  // Objects that user code still holds when the interpreter ends are no fault of ours.
  nanobind::set_leak_warnings(false);
  m.def("end_waits", &emlio::python::EndWaits,
        "Ends all waits, for good: to be called when the interpreter ends.");
  emlio::python::BindErrors(m);
  emlio::python::BindBatch(m);
  emlio::python::BindEnergy(m);
  emlio::python::BindLoader(m);
}
