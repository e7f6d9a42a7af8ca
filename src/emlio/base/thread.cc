// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/base/thread.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <utility>

namespace emlio {

namespace {

// Asynchronous signals belong to the program's own threads (in Python: to the main thread), so ours
// are born with them blocked. Faults (SIGBUS, SIGSEGV, ...) stay deliverable.
class AsynchronousSignalsBlocked {
 public:
  AsynchronousSignalsBlocked() {
    sigset_t asynchronous;
    sigfillset(&asynchronous);
    for (int fault : {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS, SIGPROF}) {
      sigdelset(&asynchronous, fault);
    }
    pthread_sigmask(SIG_BLOCK, &asynchronous, &before_);
  }
  ~AsynchronousSignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  AsynchronousSignalsBlocked(const AsynchronousSignalsBlocked&) = delete;
  AsynchronousSignalsBlocked& operator=(const AsynchronousSignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

Thread::Thread(std::string name, std::function<void(std::stop_token)> body) {
  name.resize(std::min<size_t>(name.size(), 15));
  const AsynchronousSignalsBlocked inherited_mask;
  thread_ = std::jthread([name = std::move(name), body = std::move(body)](std::stop_token stop) {
    pthread_setname_np(pthread_self(), name.c_str());
    body(stop);
  });
}

}  // namespace emlio
