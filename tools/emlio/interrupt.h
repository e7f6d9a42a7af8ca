// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>

#include <cstdint>

#include "console.h"
#include "emlio/base/status.h"

// SIGINT and SIGTERM. EMLIO's own threads are born with them blocked (base/thread.h), so they reach
// the main thread, which alone uses what is here. Before one of these objects exists both keep
// their default: they end the process. A signal that comes again within a second counts once:
// `timeout`, for one, sends it to the process and to its group. Once one has come the process is
// about to end, so that their effect stays what it is here when the objects are gone.
namespace emlio::tool {

// While one exists, the first signal only sets a flag, for a loop that can end by itself; the
// second has its default effect again. One at a time: main has one for every command but `serve`.
class InterruptFlag {
 public:
  InterruptFlag();
  ~InterruptFlag();
  InterruptFlag(const InterruptFlag&) = delete;
  InterruptFlag& operator=(const InterruptFlag&) = delete;

  // The signal that came, or 0. Static, because Loader::Next takes a plain function.
  static int signal_number();
  static bool IsSet() { return signal_number() != 0; }
  // What a command exits with: 128 plus the signal that came, else `exit_code`.
  static int ExitCode(int exit_code) {
    return IsSet() ? kExitSignalled + signal_number() : exit_code;
  }

 private:
  struct sigaction int_before_{};
  struct sigaction term_before_{};
};

// Takes both signals as events: from its creation on they are blocked and Wait hands them out.
class SignalWaiter {
 public:
  SignalWaiter();
  ~SignalWaiter();
  SignalWaiter(const SignalWaiter&) = delete;
  SignalWaiter& operator=(const SignalWaiter&) = delete;

  // Blocks until a signal comes (its number) or Notify was called (0).
  int Wait();
  // From any thread.
  void Notify();

 private:
  sigset_t before_;
  int signal_fd_ = -1;
  int notify_fd_ = -1;
  int last_signal_ = 0;  // handed out last, and when
  int64_t last_at_ns_ = 0;
};

}  // namespace emlio::tool
