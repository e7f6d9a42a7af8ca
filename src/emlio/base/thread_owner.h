// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include "emlio/base/status.h"
#include "emlio/base/thread.h"

namespace emlio {

// A thread and the state that it shares with its maker. State has `void Run()`, the thread's body,
// and `void RequestEnd()`, after which Run returns soon; both may be called at the same time.
//
// A child made by fork has a copy of the state and no thread, which may have held the state's locks
// at that moment. Whoever owns one asks in_child() first, everywhere, and touches nothing then; the
// destructor leaves everything as it is there.
template <typename State>
class ThreadOwner {
 public:
  explicit ThreadOwner(std::unique_ptr<State> state) : state_(std::move(state)), pid_(getpid()) {}
  ~ThreadOwner() {
    if (in_child()) {
      // It can be neither joined nor detached nor woken: it is in the other process.
      new Thread(std::move(thread_));
      (void)state_.release();
      return;
    }
    if (!thread_.joinable()) return;
    state_->RequestEnd();
    thread_.Join();
  }
  ThreadOwner(const ThreadOwner&) = delete;
  ThreadOwner& operator=(const ThreadOwner&) = delete;

  // At most once. The error of Thread::Start.
  Status Start(std::string name) {
    State* const state = state_.get();
    EMLIO_ASSIGN_OR_RETURN(
        thread_, Thread::Start(std::move(name), [state](std::stop_token) { state->Run(); }));
    return OkStatus();
  }
  bool started() const { return thread_.joinable(); }
  bool in_child() const { return getpid() != pid_; }
  pid_t pid() const { return pid_; }  // of the process that has the thread

  State& operator*() const { return *state_; }
  State* operator->() const { return state_.get(); }

 private:
  std::unique_ptr<State> state_;
  const pid_t pid_;
  Thread thread_;
};

}  // namespace emlio
