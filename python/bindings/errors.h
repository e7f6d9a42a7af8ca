// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

#include <string_view>
#include <utility>

#include "emlio/base/status.h"

namespace emlio::python {

// Adds Error and one exception class for every Code but kOk to the module. REQUIRES: called once,
// before any other function here.
void BindErrors(nanobind::module_& m);

// The name of a file, or a text that may hold some, as os.fsdecode gives it: file names are bytes
// and need not be UTF-8, and os.fsencode gives them back.
nanobind::str FileName(std::string_view bytes);

// Raises `status` as the exception class of its code. REQUIRES: !status.ok(), the GIL is held. An
// error that Python has raised already (a signal handler during a wait) goes before it.
[[noreturn]] void Raise(const Status& status);

inline void RaiseIfError(const Status& status) {
  if (!status.ok()) Raise(status);
}

template <typename T>
T ValueOrRaise(Result<T> result) {
  if (!result.ok()) Raise(result.status());
  return *std::move(result);
}

}  // namespace emlio::python
