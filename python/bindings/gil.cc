// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "gil.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace emlio::python {
namespace {

std::atomic<bool> g_interpreter_ends = false;
std::atomic<int> g_inside = 0;  // GilReleased objects that live
thread_local int t_inside = 0;  // of these, the calling thread's

// A forked child has only the thread that forked.
[[maybe_unused]] const int g_registered =
    pthread_atfork(nullptr, nullptr, [] { g_inside = t_inside; });

}  // namespace

GilReleased::Counted::Counted() {
  ++t_inside;
  ++g_inside;
}

GilReleased::Counted::~Counted() {
  --g_inside;
  --t_inside;
}

bool InterpreterEnds() { return g_interpreter_ends; }

void EndWaits() {
  g_interpreter_ends = true;
  const int own = t_inside;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  const nanobind::gil_scoped_release release;
  while (g_inside > own && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace emlio::python
