// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <signal.h>
#include <ucontext.h>

#include <atomic>
#include <cstring>

#include "emlio/base/file.h"

// A mapped file that is truncated turns reads into SIGBUS. The copy below runs with a jump buffer
// armed, and the handler jumps back only for faults inside the range that is being copied on this
// very thread; all others go to whoever had the signal before.

namespace emlio {
namespace {

struct Guard {
  sigjmp_buf jump;
  const uint8_t* begin = nullptr;
  const uint8_t* end = nullptr;
};

// Initial-exec TLS: reading it inside a signal handler must not allocate.
thread_local Guard* volatile active_guard __attribute__((tls_model("initial-exec"))) = nullptr;
struct sigaction previous_action;

void OnSigbus(int signal_number, siginfo_t* info, void* context) {
  Guard* guard = active_guard;
  const auto* address = static_cast<const uint8_t*>(info->si_addr);
  if (guard != nullptr && address >= guard->begin && address < guard->end) {
    // siglongjmp restores no mask here (savemask 0 below saves a system call a copy), so the one of
    // before the fault comes from the interrupted context; else the next fault would be fatal.
    pthread_sigmask(SIG_SETMASK, &static_cast<const ucontext_t*>(context)->uc_sigmask, nullptr);
    siglongjmp(guard->jump, 1);
  }
  if ((previous_action.sa_flags & SA_SIGINFO) != 0) {
    previous_action.sa_sigaction(signal_number, info, context);
  } else if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN) {
    previous_action.sa_handler(signal_number);
  } else {
    // Back to the default: returning repeats the access, which now ends the process as it should.
    struct sigaction fallback = {};
    fallback.sa_handler = SIG_DFL;
    sigaction(SIGBUS, &fallback, nullptr);
  }
}

bool InstallHandler() {
  struct sigaction action = {};
  action.sa_sigaction = &OnSigbus;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  return sigaction(SIGBUS, &action, &previous_action) == 0;
}

}  // namespace

bool GuardedCopy(std::span<const CopyRange> ranges) {
  static const bool installed = InstallHandler();
  (void)installed;
  Guard guard;
  if (sigsetjmp(guard.jump, /*savemask=*/0) != 0) {
    active_guard = nullptr;
    return false;
  }
  active_guard = &guard;
  for (const CopyRange& range : ranges) {
    if (range.size == 0) continue;  // its pointers may be null
    guard.begin = range.from;
    guard.end = range.from + range.size;
    // The handler runs on this thread: a compiler barrier is all that is needed between them.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    std::memcpy(range.to, range.from, range.size);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  active_guard = nullptr;
  return true;
}

}  // namespace emlio
