// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "emlio/base/status.h"

namespace emlio::tool {

// What a shell says of a command that cannot be run.
inline constexpr int kExitNotExecutable = 126;
inline constexpr int kExitNotFound = 127;

// At the start of main, before anything is opened: a write to a pipe that nobody reads any more is
// an error that is told (EPIPE), not the end of this process, and what is opened later never gets
// the number of a standard stream that whoever started this process closed: it would be written to.
void PrepareStandardStreams();

// A command that runs beside what this process does. Once it runs, SIGINT and SIGTERM do not end
// this process: they end the command, which they are passed on to unless it has got them
// itself: from the terminal, or from a sender that told the whole process group, as timeout(1)
// does. That shows by the sender being the leader of the group and ignoring the signal, which would
// have ended it, too; who tells a group in another way makes the command get it twice. One at a
// time, on the main thread; the signals are blocked from its creation on, so it is made before
// other threads are.
class ChildProcess {
 public:
  ChildProcess();
  // Does not wait for the command: Wait does.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // Runs `argv`, found in $PATH, with this process's files and environment, and the signals that
  // this process began with; `output_to_stderr`: what it writes on standard output goes to standard
  // error. A signal that came before there was a command ends this process instead. kNotFound,
  // kPermissionDenied or kIo. Once.
  Status Start(const std::vector<std::string>& argv, bool output_to_stderr);
  // Until the command ended (true) or so much time passed; < 0: any.
  bool Wait(int timeout_ms);

  pid_t pid() const { return pid_; }
  // Of the command that ended: its exit code, or 128 plus the signal that ended it.
  int exit_code() const { return exit_code_; }
  // What it and its children used.
  double cpu_seconds() const { return cpu_seconds_; }

 private:
  sigset_t before_;
  int signal_fd_ = -1;
  pid_t pid_ = -1;
  bool ended_ = false;
  int exit_code_ = 0;
  double cpu_seconds_ = 0;
};

}  // namespace emlio::tool
