// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "emlio/energy/run_store.h"
#include "emlio/energy/testing/store_file.h"

namespace emlio::energy_analysis::testing {

// One node of a run that is written into a store: two sockets with memory by default.
struct RecordedNode {
  std::string name = "node1";
  std::string role = "compute";
  std::vector<energy::Domain> domains = energy::testing::TwoSocketsWithMemory();
  // Watts of a domain at a time since the start.
  std::function<double(size_t domain, double seconds)> watts = [](size_t domain, double) {
    return 10.0 * static_cast<double>(domain + 1);
  };
  std::string facts = "{}";
  std::vector<energy::WindowRecord> windows = {};  // times since its start
  std::vector<energy::ClockOffset> offsets = {};   // to other nodes
  double silent_from_seconds = 1e9;                // readings fail from then on
};

struct RecordedRun {
  std::string id = "run";
  double seconds = 10;
  std::map<std::string, std::string> labels = {};
  std::string configuration = "{}";
  int exit_status = 0;
  std::vector<RecordedNode> nodes = {RecordedNode{}};
  std::vector<energy::WindowRecord> windows = {};  // of the first node; times since its start
  int64_t start_wall_ns = 1'800'000'000 * kNsPerSecond;
};

// A storage node and a compute node of four CPUs each, whose packages draw these watts.
inline RecordedRun RunOfTwoNodes(const std::string& id, double seconds, double compute_watts,
                                 double storage_watts, double wavering) {
  RecordedRun run{.id = id, .seconds = seconds, .nodes = {}};
  for (const auto& [name, role, watts] :
       {std::tuple{"gpu1", "compute", compute_watts}, {"store1", "storage", storage_watts}}) {
    energy::WindowRecord whole;
    whole.id = "run";
    whole.end_ns = std::llround(seconds * 1e9);
    whole.proxies.cpu_seconds = 0.01 * seconds;
    RecordedNode node{.name = name, .role = role, .facts = R"({"cpus": 4})", .windows = {whole}};
    // The two packages; memory draws 5 W a socket whatever is done.
    node.watts = [=](size_t domain, double since) {
      return domain % 2 == 1 ? 5 : watts / 2 + wavering * std::sin(since * 1.7);
    };
    run.nodes.push_back(std::move(node));
  }
  energy::ClockOffset offset;
  offset.peer = "gpu1";
  offset.offset_ns = 200'000;
  offset.bound_ns = 50'000;
  run.nodes[1].offsets = {offset};
  return run;
}

inline void Record(energy::RunStore* store, const RecordedRun& recorded) {
  energy::Run run;
  run.id = recorded.id;
  run.started_wall_ns = recorded.start_wall_ns;
  run.labels = recorded.labels;
  run.configuration = recorded.configuration;
  ASSERT_TRUE(store->BeginRun(run).ok());
  constexpr int64_t kIntervalNs = 100 * kNsPerMs;
  const auto ticks = static_cast<int64_t>(recorded.seconds * 10 + 0.5);
  for (size_t n = 0; n < recorded.nodes.size(); ++n) {
    const RecordedNode& node = recorded.nodes[n];
    // Every node has a monotonic clock of its own.
    const int64_t start_ns = (1000 + 77 * static_cast<int64_t>(n)) * kNsPerSecond;
    energy::NodeInfo info = energy::testing::SomeNode(node.name);
    info.role = node.role;
    info.domains = node.domains;
    info.facts = node.facts;
    info.offsets = node.offsets;
    info.interval_ns = kIntervalNs;
    info.start_barrier = energy::Moment{start_ns, recorded.start_wall_ns, 0};
    const int64_t length_ns = ticks * kIntervalNs;
    info.stop_barrier = energy::Moment{start_ns + length_ns, recorded.start_wall_ns + length_ns, 0};
    info.sampler.ticks = ticks + 1;
    info.sampler.cpu_ns = length_ns / 1000;
    info.sampler.elapsed_ns = length_ns;
    const auto id = store->AddNode(run.id, info);
    ASSERT_TRUE(id.ok()) << id.status().message();
    std::vector<energy::Sample> samples(node.domains.size());
    for (int64_t tick = 0; tick <= ticks; ++tick) {
      const int64_t since_ns = tick * kIntervalNs;
      for (size_t d = 0; d < samples.size(); ++d) {
        energy::Sample& sample = samples[d];
        if (static_cast<double>(since_ns) * 1e-9 > node.silent_from_seconds) {
          sample.knot = false;
          sample.state = energy::SampleState::kMissing;
          continue;
        }
        sample.time_ns = start_ns + since_ns;
        sample.knot = true;
        sample.state = tick == 0 ? energy::SampleState::kFirst : energy::SampleState::kMoved;
        if (tick > 0) {
          sample.joules += 0.1 * node.watts(d, static_cast<double>(since_ns) * 1e-9 - 0.05);
        }
      }
      store->AppendTick(*id, {start_ns + since_ns, recorded.start_wall_ns + since_ns, samples});
      if (tick % 2000 == 1999) {
        ASSERT_TRUE(store->Flush(10 * kNsPerSecond).ok());
      }
    }
    std::vector<energy::WindowRecord> windows = node.windows;
    if (n == 0) windows.insert(windows.end(), recorded.windows.begin(), recorded.windows.end());
    for (energy::WindowRecord& window : windows) {
      window.begin_wall_ns = recorded.start_wall_ns + window.begin_ns;
      window.begin_ns += start_ns;
      window.end_ns += start_ns;
      store->AppendWindow(*id, std::move(window));
    }
  }
  ASSERT_TRUE(
      store->EndRun(run.id, recorded.start_wall_ns + ticks * kIntervalNs, recorded.exit_status)
          .ok());
  ASSERT_TRUE(store->Flush(10 * kNsPerSecond).ok());
}

// A store in a folder of its own, and a reader of it.
class RecordedStore {
 public:
  RecordedStore() {
    auto store = energy::RunStore::Open(path());
    EXPECT_TRUE(store.ok()) << store.status().message();
    if (store.ok()) store_ = *std::move(store);
  }
  std::string path() const { return folder_.File("runs.emlio"); }
  energy::RunStore* store() { return store_.get(); }
  energy::RunReader* reader() {
    if (reader_ == nullptr) {
      auto reader = energy::RunReader::Open(path());
      EXPECT_TRUE(reader.ok()) << reader.status().message();
      if (reader.ok()) reader_ = *std::move(reader);
    }
    return reader_.get();
  }

 private:
  energy::testing::TemporaryFolder folder_;
  std::unique_ptr<energy::RunStore> store_;
  std::unique_ptr<energy::RunReader> reader_;
};

}  // namespace emlio::energy_analysis::testing
