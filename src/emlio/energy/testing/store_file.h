// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "emlio/base/clock.h"
#include "emlio/energy/run.h"

namespace emlio::energy::testing {

// A folder that a test writes into.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = std::filesystem::temp_directory_path() / "emlio-store-XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string File(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Domains that draw power steadily, and a node that has them.
inline std::vector<Domain> TwoSocketsWithMemory() {
  std::vector<Domain> domains;
  for (const int socket : {0, 1}) {
    for (const DomainKind kind : {DomainKind::kPackage, DomainKind::kDram}) {
      Domain domain = MakeDomain(kind, "powercap", socket, -1);
      domain.range_units = 262'143'328'850;
      domain.refresh_ns = kNsPerMs;
      domain.in_total = true;
      domains.push_back(domain);
    }
  }
  return domains;
}

inline Run SomeRun(const std::string& id) {
  Run run;
  run.id = id;
  run.started_wall_ns = 1'800'000'000 * kNsPerSecond;
  run.command = {"python", "train.py", "--epochs=3"};
  run.configuration = R"({"batch":256})";
  run.labels = {{"purpose", "test"}};
  return run;
}

inline NodeInfo SomeNode(const std::string& name) {
  NodeInfo node;
  node.name = name;
  node.role = "compute";
  node.boot_id = "c0ffee";
  node.facts = R"({"cpu":"a CPU"})";
  node.interval_ns = 100 * kNsPerMs;
  node.domains = TwoSocketsWithMemory();
  return node;
}

inline constexpr int64_t kFirstTickNs = 5'000 * kNsPerSecond;
inline constexpr int64_t kWallMinusMonotonicNs = 1'799'995'000 * kNsPerSecond;

// The samples of tick `tick` at 100 ms, where domain i draws 10 (i + 1) watts.
inline std::vector<Sample> SteadySamples(size_t domains, int64_t tick) {
  std::vector<Sample> samples(domains);
  for (size_t i = 0; i < domains; ++i) {
    Sample& sample = samples[i];
    sample.time_ns = kFirstTickNs + tick * 100 * kNsPerMs + 2'000 * static_cast<int64_t>(i);
    sample.joules = static_cast<double>(tick) * static_cast<double>(i + 1);
    sample.state = tick == 0 ? SampleState::kFirst : SampleState::kMoved;
    sample.knot = true;
  }
  return samples;
}

inline Tick TickOf(int64_t tick, const std::vector<Sample>& samples) {
  const int64_t time_ns = kFirstTickNs + tick * 100 * kNsPerMs;
  return {time_ns, time_ns + kWallMinusMonotonicNs, samples};
}

}  // namespace emlio::energy::testing
