// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "interrupt.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace emlio::tool {
namespace {

// One signal may come twice: `timeout` and terminals send it to a process and to its group.
constexpr int64_t kOneSignalNs = 1'000'000'000;

std::atomic<int> flagged_signal{0};
std::atomic<int64_t> flagged_at_ns{0};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free,
              "used in a signal handler");

// May be called in a signal handler, unlike SystemClock().
int64_t NowNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

void SetFlag(int signal_number) {
  const int64_t now_ns = NowNs();
  if (flagged_signal == 0) {
    flagged_at_ns = now_ns;
    flagged_signal = signal_number;
  } else if (signal_number != flagged_signal || now_ns - flagged_at_ns >= kOneSignalNs) {
    std::signal(signal_number, SIG_DFL);
    std::raise(signal_number);
  }
}

// No file descriptor or no memory for one at start-up: nothing sensible can be done without.
void CheckSystemCall(bool worked, const char* what) {
  if (worked) return;
  std::perror(what);
  std::abort();
}

}  // namespace

InterruptFlag::InterruptFlag() {
  flagged_signal = 0;
  struct sigaction action{};
  action.sa_handler = &SetFlag;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &int_before_);
  sigaction(SIGTERM, &action, &term_before_);
}

InterruptFlag::~InterruptFlag() {
  // What a signal has asked for is being done: that it comes again must not change the exit code.
  if (IsSet()) return;
  sigaction(SIGINT, &int_before_, nullptr);
  sigaction(SIGTERM, &term_before_, nullptr);
}

int InterruptFlag::signal_number() { return flagged_signal; }

SignalWaiter::SignalWaiter() {
  sigset_t wanted;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGINT);
  sigaddset(&wanted, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &wanted, &before_);
  signal_fd_ = signalfd(-1, &wanted, SFD_CLOEXEC);
  CheckSystemCall(signal_fd_ >= 0, "signalfd");
  notify_fd_ = eventfd(0, EFD_CLOEXEC);
  CheckSystemCall(notify_fd_ >= 0, "eventfd");
}

SignalWaiter::~SignalWaiter() {
  // One that came and that nobody waited for counts as well.
  signalfd_siginfo info{};
  pollfd event{signal_fd_, POLLIN, 0};
  while (poll(&event, 1, 0) > 0 && read(signal_fd_, &info, sizeof info) == sizeof info) {
    last_signal_ = static_cast<int>(info.ssi_signo);
  }
  close(signal_fd_);
  close(notify_fd_);
  // A signal that comes again must not end a process that has done what it asked for.
  if (last_signal_ == 0) pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

int SignalWaiter::Wait() {
  for (;;) {
    pollfd events[] = {{signal_fd_, POLLIN, 0}, {notify_fd_, POLLIN, 0}};
    if (poll(events, 2, -1) < 0) {
      CheckSystemCall(errno == EINTR, "poll");
      continue;
    }
    signalfd_siginfo info{};
    if ((events[0].revents & POLLIN) != 0 && read(signal_fd_, &info, sizeof info) == sizeof info) {
      const int signal_number = static_cast<int>(info.ssi_signo);
      const int64_t now_ns = NowNs();
      if (signal_number == last_signal_ && now_ns - last_at_ns_ < kOneSignalNs) continue;
      last_signal_ = signal_number;
      last_at_ns_ = now_ns;
      return signal_number;
    }
    if ((events[1].revents & POLLIN) != 0) return 0;
  }
}

void SignalWaiter::Notify() {
  const uint64_t one = 1;
  // Cannot fail: the counter would have to reach 2^64 - 1.
  [[maybe_unused]] const ssize_t written = write(notify_fd_, &one, sizeof one);
}

}  // namespace emlio::tool
