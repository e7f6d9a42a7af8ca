// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/base/system_limits.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace emlio {
namespace {

namespace fs = std::filesystem;

class SystemLimitsTest : public ::testing::Test {
 protected:
  SystemLimitsTest() {
    std::string pattern = fs::temp_directory_path() / "emlio-limits-XXXXXX";
    root_ = std::string(mkdtemp(pattern.data())) + "/";
  }
  ~SystemLimitsTest() override { fs::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  std::string root_;
};

TEST_F(SystemLimitsTest, WithoutAGroupItIsTheMemoryOfTheHost) {
  const uint64_t host = UsableMemoryBytes(root_);
  EXPECT_GT(host, uint64_t{16} << 20);
  Write("proc/self/cgroup", "0::/user.slice\n");
  Write("sys/fs/cgroup/user.slice/memory.max", "max\n");
  EXPECT_EQ(UsableMemoryBytes(root_), host);
}

TEST_F(SystemLimitsTest, TheLowestLimitOnTheWayToTheRootCounts) {
  Write("proc/self/cgroup", "0::/a/b/c\n");
  Write("sys/fs/cgroup/a/b/c/memory.max", "9000000\n");
  Write("sys/fs/cgroup/a/memory.max", "5000000\n");
  EXPECT_EQ(UsableMemoryBytes(root_), 5000000u);
}

TEST_F(SystemLimitsTest, InAContainerTheMountedRootIsTheGroup) {
  Write("proc/self/cgroup", "0::/docker/0123\n");
  Write("sys/fs/cgroup/memory.max", "7000000\n");
  EXPECT_EQ(UsableMemoryBytes(root_), 7000000u);
}

TEST_F(SystemLimitsTest, Version1HasItsOwnFile) {
  Write("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/jobs/7\n");
  Write("sys/fs/cgroup/memory/jobs/7/memory.limit_in_bytes", "268435456\n");
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(UsableMemoryBytes(root_), 268435456u);
}

TEST_F(SystemLimitsTest, AConnectionsWindowIsMostOfTheLargestSendBuffer) {
  const uint64_t by_default = TcpSendWindowBytes(root_);
  EXPECT_GT(by_default, 3'300'000u);
  EXPECT_LT(by_default, 3'600'000u);
  Write("proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t4194304\n");
  EXPECT_EQ(TcpSendWindowBytes(root_), by_default);
  Write("proc/sys/net/ipv4/tcp_wmem", "4096 16384 67108864\n");
  EXPECT_GT(TcpSendWindowBytes(root_), 15 * by_default);
}

TEST_F(SystemLimitsTest, DescriptorsCanBeRaisedToTheHardLimit) {
  const uint64_t before = MaxOpenFiles();
  RaiseMaxOpenFiles();
  EXPECT_GE(MaxOpenFiles(), before);
}

}  // namespace
}  // namespace emlio
