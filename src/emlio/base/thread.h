// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>

#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "emlio/base/status.h"

namespace emlio {

// The most threads that an option may ask for: far more than any machine can use, and few enough
// that asking for them by mistake harms nobody.
inline constexpr int kMaxThreads = 1024;

// Asynchronous signals belong to the program's own threads (in Python: to the main thread), so ours
// are born with them blocked: while one of these objects exists, in the thread that made it, so are
// those that a library starts. Faults (SIGBUS, SIGSEGV, ...) are not.
class AsynchronousSignalsBlocked {
 public:
  AsynchronousSignalsBlocked();
  ~AsynchronousSignalsBlocked();
  AsynchronousSignalsBlocked(const AsynchronousSignalsBlocked&) = delete;
  AsynchronousSignalsBlocked& operator=(const AsynchronousSignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

// A thread with a name (at most 15 characters, shown by top and gdb), an owner, a stop token and a
// join. The destructor asks it to stop and joins. An exception that leaves the body ends the
// process: bodies return, they do not throw.
class Thread {
 public:
  Thread() = default;
  // kIo when the system has no thread left: a limit on processes, or memory.
  static Result<Thread> Start(std::string name, std::function<void(std::stop_token)> body);
  // The same where nothing else can be done about it: throws std::system_error.
  Thread(std::string name, std::function<void(std::stop_token)> body);
  Thread(Thread&&) = default;
  Thread& operator=(Thread&&) = default;

  void RequestStop() { thread_.request_stop(); }
  void Join() {
    if (thread_.joinable()) thread_.join();
  }
  bool joinable() const { return thread_.joinable(); }
  // From here on nobody waits for it: the body owns all that it uses.
  void Detach() { thread_.detach(); }

 private:
  std::jthread thread_;
};

// Threads "<name>-0" to "<name>-<count - 1>", each running `body` with its number, that share work
// which fewer of them can do as well. So fewer are enough when the system has no more, with a
// warning; an error, that of Thread::Start, when there is none. REQUIRES: count >= 1.
Result<std::vector<Thread>> StartPool(std::string_view name, int count,
                                      std::function<void(int number, std::stop_token)> body);

// 0 to kMaxThreads, where 0 lets the program choose; else kInvalidArgument, with `what` for the
// option's name.
Status CheckThreadCount(std::string_view what, int count);

// Whether the system would give `count` more threads now; else the error of Thread::Start. For what
// is done by libraries that end the process without.
Status CheckThreadsLeft(int count);

}  // namespace emlio
