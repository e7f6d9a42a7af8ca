// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/base/thread_owner.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>

#include "emlio/base/mutex.h"

namespace emlio {
namespace {

struct Counted {
  explicit Counted(int* counter) : destroyed(counter) {}
  ~Counted() { ++*destroyed; }

  void Run() EMLIO_EXCLUDES(mu) {
    const MutexLock lock(mu);
    running = true;
    changed.NotifyAll();
    while (!stop) changed.Wait(mu);
  }
  void RequestEnd() EMLIO_EXCLUDES(mu) {
    const MutexLock lock(mu);
    stop = true;
    changed.NotifyAll();
  }
  void WaitUntilRunning() EMLIO_EXCLUDES(mu) {
    const MutexLock lock(mu);
    while (!running) changed.Wait(mu);
  }

  int* const destroyed;
  Mutex mu;
  CondVar changed;
  bool running EMLIO_GUARDED_BY(mu) = false;
  bool stop EMLIO_GUARDED_BY(mu) = false;
};

TEST(ThreadOwnerTest, TheThreadIsAskedToEndAndJoined) {
  int destroyed = 0;
  {
    ThreadOwner<Counted> owner(std::make_unique<Counted>(&destroyed));
    EXPECT_FALSE(owner.started());
    ASSERT_TRUE(owner.Start("counted").ok());
    owner->WaitUntilRunning();
    EXPECT_TRUE(owner.started());
    EXPECT_FALSE(owner.in_child());
  }
  EXPECT_EQ(destroyed, 1);
}

TEST(ThreadOwnerTest, WithoutAThreadTheStateIsDestroyedAllTheSame) {
  int destroyed = 0;
  {
    const ThreadOwner<Counted> owner(std::make_unique<Counted>(&destroyed));
  }
  EXPECT_EQ(destroyed, 1);
}

TEST(ThreadOwnerTest, AChildMadeByForkTouchesNothing) {
  int destroyed = 0;
  auto owner = std::make_unique<ThreadOwner<Counted>>(std::make_unique<Counted>(&destroyed));
  ASSERT_TRUE(owner->Start("counted").ok());
  (*owner)->WaitUntilRunning();
  pid_t child = 0;
  {
    // Held while the child is made, as the thread might hold it: there nobody lets go of it.
    const MutexLock lock((*owner)->mu);
    child = fork();
    if (child == 0) {
      const bool knows = owner->in_child() && owner->pid() == getppid();
      owner.reset();
      _exit(knows && destroyed == 0 ? 0 : 1);
    }
  }
  ASSERT_GT(child, 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  owner.reset();
  EXPECT_EQ(destroyed, 1);
}

}  // namespace
}  // namespace emlio
