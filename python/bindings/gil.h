// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

namespace emlio::python {

// Lets go of the GIL while it lives. Use it instead of nanobind's own: while the interpreter shuts
// down, Python ends every thread that asks for the GIL by unwinding it, which C++ destructors turn
// into an abort. So EndWaits, called before that, brings home all threads that are in here.
class GilReleased {
 public:
  GilReleased() = default;
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;

 private:
  struct Counted {
    Counted();
    ~Counted();
  };
  const Counted counted_;  // before the GIL is let go, and after it is taken again
  const nanobind::gil_scoped_release release_;
};

// Whether the interpreter is about to end: waits must end, and none may begin. Needs no GIL.
bool InterpreterEnds();

// From here on InterpreterEnds; returns when no other thread is without the GIL in our code, after
// at most five seconds. To be called by atexit. REQUIRES: the GIL is held.
void EndWaits();

}  // namespace emlio::python
