// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/base/thread.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <system_error>
#include <utility>

#include "emlio/base/log.h"

namespace emlio {

AsynchronousSignalsBlocked::AsynchronousSignalsBlocked() {
  sigset_t asynchronous;
  sigfillset(&asynchronous);
  // Faults stay deliverable.
  for (int fault : {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS, SIGPROF}) {
    sigdelset(&asynchronous, fault);
  }
  pthread_sigmask(SIG_BLOCK, &asynchronous, &before_);
}

AsynchronousSignalsBlocked::~AsynchronousSignalsBlocked() {
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

Thread::Thread(std::string name, std::function<void(std::stop_token)> body) {
  name.resize(std::min<size_t>(name.size(), 15));
  const AsynchronousSignalsBlocked inherited_mask;
  thread_ = std::jthread([name = std::move(name), body = std::move(body)](std::stop_token stop) {
    pthread_setname_np(pthread_self(), name.c_str());
    body(stop);
  });
}

Result<Thread> Thread::Start(std::string name, std::function<void(std::stop_token)> body) {
  const std::string what = fmt::format(
      "cannot start thread {}: use fewer threads, or raise the limit on processes (ulimit -u) or "
      "on memory",
      name);
  try {
    return Thread(std::move(name), std::move(body));
  } catch (const std::system_error& error) {
    return ErrnoStatus(error.code().value(), what);
  }
}

Result<std::vector<Thread>> StartPool(std::string_view name, int count,
                                      std::function<void(int, std::stop_token)> body) {
  std::vector<Thread> pool;
  for (int number = 0; number < count; ++number) {
    auto thread = Thread::Start(fmt::format("{}-{}", name, number),
                                [body, number](std::stop_token stop) { body(number, stop); });
    if (!thread.ok()) {
      if (pool.empty()) return thread.status();
      LogWarning("going on with {} of {} threads: {}", pool.size(), count,
                 thread.status().message());
      break;
    }
    pool.push_back(*std::move(thread));
  }
  return pool;
}

Status CheckThreadCount(std::string_view what, int count) {
  if (count >= 0 && count <= kMaxThreads) return OkStatus();
  return InvalidArgument(fmt::format("{} is {}; 0 (as many as fit this host) to {} are possible",
                                     what, count, kMaxThreads));
}

Status CheckThreadsLeft(int count) {
  std::atomic<bool> enough = false;  // until then all of them live: they count together
  std::vector<Thread> threads;
  Status status;
  while (status.ok() && static_cast<int>(threads.size()) < count) {
    auto thread = Thread::Start("emlio-probe", [&](std::stop_token) { enough.wait(false); });
    status = thread.status();
    if (thread.ok()) threads.push_back(*std::move(thread));
  }
  enough = true;
  enough.notify_all();
  return status;
}

}  // namespace emlio
