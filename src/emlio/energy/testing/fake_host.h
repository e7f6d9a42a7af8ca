// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "emlio/base/clock.h"
#include "emlio/base/status.h"
#include "emlio/energy/meter.h"

namespace emlio::energy::testing {

// A root with a /sys and a /proc of its own, of a host as a test wants it.
class FakeHost {
 public:
  FakeHost() {
    std::string pattern = std::filesystem::temp_directory_path() / "emlio-energy-XXXXXX";
    root_ = std::string(mkdtemp(pattern.data())) + "/";
    host.root = root_;
    // No driver of the machine that runs the test.
    host.nvml_library = root_ + "no-nvml.so";
    host.rocm_library = root_ + "no-rocm.so";
  }
  ~FakeHost() {
    for (const FakeZone& zone : zones_) close(zone.fd);
    std::filesystem::remove_all(root_);
  }
  FakeHost(const FakeHost&) = delete;
  FakeHost& operator=(const FakeHost&) = delete;

  std::string Path(const std::string& path) const { return root_ + path; }
  void Write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;  // in place: sources keep files open
  }

  // A zone such as "intel-rapl:0:1" that draws `watts` from now on; its counter begins at
  // `start_uj`.
  void Zone(const std::string& zone, const std::string& name, double watts,
            uint64_t start_uj = 1'000'000, uint64_t range_uj = 262'143'328'850) {
    const std::string folder = "sys/class/powercap/" + zone + "/";
    Write(folder + "name", name + "\n");
    Write(folder + "max_energy_range_uj", std::to_string(range_uj) + "\n");
    const int fd = open(Path(folder + "energy_uj").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    EXPECT_GE(fd, 0) << zone;
    zones_.push_back({zone, fd, watts, static_cast<double>(start_uj), range_uj});
    Update();
  }
  // Two sockets: 50 W (35 in the cores) and 10 W of memory; 30 W (20) and 8 W.
  void TwoSockets() {
    Write("sys/class/powercap/intel-rapl/enabled", "1\n");
    Zone("intel-rapl:0", "package-0", 50, 11'000'000'000);
    Zone("intel-rapl:0:0", "core", 35, 71'000'000'000);
    Zone("intel-rapl:0:1", "dram", 10, 21'000'000'000, 65'712'999'613);
    Zone("intel-rapl:1", "package-1", 30, 52'000'000'000);
    Zone("intel-rapl:1:0", "core", 20, 81'000'000'000);
    Zone("intel-rapl:1:1", "dram", 8, 31'000'000'000, 65'712'999'613);
  }
  void SetWatts(const std::string& zone, double watts) {
    for (FakeZone& one : zones_) {
      if (one.zone == zone) one.watts = watts;
    }
  }
  // Time passes, and counters go on.
  void Advance(double seconds) {
    AdvanceUnwritten(seconds);
    Update();
  }
  // The same where nobody reads files, but asks Shown.
  void AdvanceUnwritten(double seconds) {
    clock.AdvanceNs(std::llround(seconds * 1e9));
    for (FakeZone& zone : zones_) zone.value_uj += zone.watts * seconds * 1e6;
  }
  // What the counter of the zone with that energy_uj file shows.
  Result<uint64_t> Shown(const std::string& path) const {
    for (const FakeZone& zone : zones_) {
      if (path.ends_with("/" + zone.zone + "/energy_uj")) return Shows(zone);
    }
    return NotFound(path);
  }

  Host host;
  ManualClock clock;

 private:
  struct FakeZone {
    std::string zone;
    int fd;  // open from the begin, as the kernel needs no right to move a counter
    double watts;
    double value_uj;
    uint64_t range_uj;
  };
  static uint64_t Shows(const FakeZone& zone) {
    return static_cast<uint64_t>(zone.value_uj) % zone.range_uj;
  }
  void Update() const {
    for (const FakeZone& zone : zones_) {
      const std::string text = std::to_string(Shows(zone)) + "\n";
      EXPECT_TRUE(pwrite(zone.fd, text.data(), text.size(), 0) > 0 &&
                  ftruncate(zone.fd, static_cast<off_t>(text.size())) == 0)
          << zone.zone;
    }
  }
  std::string root_;
  std::vector<FakeZone> zones_;
};

// While it exists, this thread has no right to read files that nobody may read, also when it is
// root's.
class OrdinaryUser {
 public:
  OrdinaryUser() {
    Call(SYS_capget, before_);
    __user_cap_data_struct without[2] = {before_[0], before_[1]};
    without[0].effective &= ~(1U << CAP_DAC_OVERRIDE | 1U << CAP_DAC_READ_SEARCH);
    Call(SYS_capset, without);
  }
  ~OrdinaryUser() { Call(SYS_capset, before_); }
  OrdinaryUser(const OrdinaryUser&) = delete;
  OrdinaryUser& operator=(const OrdinaryUser&) = delete;

 private:
  static void Call(long number, __user_cap_data_struct* data) {
    __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    EXPECT_EQ(syscall(number, &header, data), 0);
  }
  __user_cap_data_struct before_[2];
};

}  // namespace emlio::energy::testing
