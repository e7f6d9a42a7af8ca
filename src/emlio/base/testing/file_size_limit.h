// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

namespace emlio {

// A full disk, in a form that needs no disk: while it exists this process can make no file longer
// than that. Writes beyond fail with EFBIG and send no signal. What a test prints may go to a
// file too, and would be lost: print, and expect, after it.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    struct sigaction ignore{};
    ignore.sa_handler = SIG_IGN;
    EXPECT_EQ(sigaction(SIGXFSZ, &ignore, &action_), 0);
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &limit_), 0);
    rlimit small = limit_;
    small.rlim_cur = bytes;
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  }
  ~FileSizeLimit() {
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit_), 0);
    EXPECT_EQ(sigaction(SIGXFSZ, &action_, nullptr), 0);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  struct sigaction action_{};
  rlimit limit_{};
};

}  // namespace emlio
