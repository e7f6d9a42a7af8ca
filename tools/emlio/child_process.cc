// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>

#include "emlio/base/clock.h"

namespace emlio::tool {
namespace {

bool ignored_pipes_before = false;

// When the sender's next system calls are over: it may tell this process first.
constexpr auto kToldAll = std::chrono::milliseconds(20);

bool Ignores(pid_t process, int number) {
  constexpr std::string_view kKey = "SigIgn:";
  std::ifstream status(fmt::format("/proc/{}/status", process));
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(kKey)) continue;
    const uint64_t mask = std::strtoull(line.c_str() + kKey.size(), nullptr, 16);
    return ((mask >> (number - 1)) & 1) != 0;
  }
  return false;
}

// Whether the child has got the signal from whom this process has it.
bool WasToldToo(const signalfd_siginfo& info, pid_t child) {
  if (info.ssi_code == SI_KERNEL) return true;  // the terminal
  const auto sender = static_cast<pid_t>(info.ssi_pid);
  if (info.ssi_code != SI_USER || sender != getpgrp() || getpgid(child) != sender) return false;
  std::this_thread::sleep_for(kToldAll);
  return Ignores(sender, static_cast<int>(info.ssi_signo));
}

sigset_t Wanted() {
  sigset_t wanted;
  sigemptyset(&wanted);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&wanted, number);
  return wanted;
}

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

}  // namespace

void PrepareStandardStreams() {
  struct sigaction ignore{};
  struct sigaction before{};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &before);
  ignored_pipes_before = before.sa_handler == SIG_IGN;
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    // The wrong way round, so that using it stays the error that it was. open() takes the lowest
    // free number, which is this one. Without /dev/null nothing is won, and nothing lost.
    (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

ChildProcess::ChildProcess() {
  const sigset_t wanted = Wanted();
  // What the program began with: an earlier one has left its signals blocked.
  static const sigset_t began_with = [] {
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, nullptr, &mask);
    return mask;
  }();
  before_ = began_with;
  pthread_sigmask(SIG_BLOCK, &wanted, nullptr);
  signal_fd_ = signalfd(-1, &wanted, SFD_CLOEXEC);
}

ChildProcess::~ChildProcess() {
  // The signals stay blocked: the command has had them, and this process has its results to write.
  if (signal_fd_ >= 0) close(signal_fd_);
}

Status ChildProcess::Start(const std::vector<std::string>& argv, bool output_to_stderr) {
  if (signal_fd_ < 0) return IoError("no file descriptor is left for signals (signalfd)");
  // Who told this process to end before there was a command told nobody else: that ends it here.
  const sigset_t wanted = Wanted();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  pthread_sigmask(SIG_BLOCK, &wanted, nullptr);
  std::vector<char*> words;
  words.reserve(argv.size() + 1);
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigmask(&attributes, &before_);
  sigset_t defaults;  // an ignored signal would stay ignored: `yes | head` would not end
  sigemptyset(&defaults);
  if (!ignored_pipes_before) sigaddset(&defaults, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  if (output_to_stderr) {
    posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
  }
  const int error = posix_spawnp(&pid_, words[0], &files, &attributes, words.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) return ErrnoStatus(error, fmt::format("the command '{}'", argv[0]));
  return OkStatus();
}

bool ChildProcess::Wait(int timeout_ms) {
  const int64_t deadline_ns = SystemClock().NowNs() + timeout_ms * kNsPerMs;
  while (!ended_) {
    int status = 0;
    rusage used{};
    // Before waiting: its end may have been told together with that of another child.
    if (wait4(pid_, &status, WNOHANG, &used) == pid_) {
      ended_ = true;
      exit_code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      cpu_seconds_ = Seconds(used.ru_utime) + Seconds(used.ru_stime);
      break;
    }
    int left_ms = -1;
    if (timeout_ms >= 0) {
      const int64_t left_ns = deadline_ns - SystemClock().NowNs();
      if (left_ns <= 0) return false;
      left_ms = static_cast<int>(left_ns / kNsPerMs) + 1;
    }
    pollfd event{signal_fd_, POLLIN, 0};
    signalfd_siginfo info{};
    if (poll(&event, 1, left_ms) <= 0 || read(signal_fd_, &info, sizeof info) != sizeof info) {
      continue;
    }
    const auto number = static_cast<int>(info.ssi_signo);
    if (number != SIGCHLD && !WasToldToo(info, pid_)) kill(pid_, number);
  }
  return true;
}

}  // namespace emlio::tool
