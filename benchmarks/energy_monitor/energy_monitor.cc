// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
//
// What measuring costs: the share of one core that the monitor uses at 100 ms, and how long opening
// and closing a window takes, on a host with 12 CPU domains (files that stand in for powercap) and
// 8 GPUs (a library that stands in for NVML). Prints one JSON object.
//   energy_monitor_benchmark [--quick]
#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "emlio/base/clock.h"
#include "emlio/energy/monitor.h"

namespace {

using namespace emlio;

constexpr int kCpuDomains = 12;  // six packages, each with memory
constexpr int kGpus = 8;
constexpr int kThreads = 4;  // that open windows at the same time

void Write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

// A host whose counters stand still: reading them costs what it costs.
std::string MakeHost() {
  std::string pattern = std::filesystem::temp_directory_path() / "energy-monitor-XXXXXX";
  const std::filesystem::path root = mkdtemp(pattern.data());
  for (int socket = 0; socket < kCpuDomains / 2; ++socket) {
    const auto zone = root / fmt::format("sys/class/powercap/intel-rapl:{:x}", socket);
    const auto memory = root / fmt::format("sys/class/powercap/intel-rapl:{:x}:0", socket);
    Write(zone / "name", fmt::format("package-{}\n", socket));
    Write(memory / "name", "dram\n");
    for (const auto& folder : {zone, memory}) {
      Write(folder / "max_energy_range_uj", "262143328850\n");
      Write(folder / "energy_uj", "123456789\n");
    }
  }
  Write(root / "proc/cpuinfo", "vendor_id\t: GenuineIntel\nflags\t\t: fpu\n");
  std::string gpus;
  for (int gpu = 0; gpu < kGpus; ++gpu) {
    gpus += fmt::format("uuid=GPU-{} watts=300 refresh_ms=100 busy=50\n", gpu);
  }
  Write(root / "gpus", gpus);
  setenv("EMLIO_STUB_NVML", (root / "gpus").c_str(), 1);
  return root.string() + "/";
}

nlohmann::ordered_json Percentiles(std::vector<int64_t> ns) {
  std::sort(ns.begin(), ns.end());
  const auto at = [&](double share) {
    return static_cast<double>(
               ns[static_cast<size_t>(share * static_cast<double>(ns.size() - 1))]) *
           1e-3;
  };
  return {{"windows", ns.size()},
          {"p50_us", at(0.5)},
          {"p99_us", at(0.99)},
          {"p999_us", at(0.999)},
          {"max_us", at(1)}};
}

// Opening and closing, as one figure, from several threads while the monitor samples.
nlohmann::ordered_json Windows(energy::Monitor& monitor, int threads, int count, int pause_us) {
  std::vector<std::vector<int64_t>> all(static_cast<size_t>(threads));
  std::vector<std::thread> pool;
  for (std::vector<int64_t>& mine : all) {
    pool.emplace_back([&] {
      for (int i = 0; i < count; ++i) {
        energy::WindowLabel label;
        label.name = "a window with a name of usual length";
        label.stage = "R+P";
        label.epoch = i;
        const int64_t begin_ns = SystemClock().NowNs();
        const energy::WindowId id = monitor.Open(std::move(label));
        const int64_t opened_ns = SystemClock().NowNs();
        monitor.Close(id, {.records = 1, .bytes = 1});
        mine.push_back(SystemClock().NowNs() - opened_ns + (opened_ns - begin_ns));
        if (pause_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(pause_us));
      }
    });
  }
  for (std::thread& thread : pool) thread.join();
  std::vector<int64_t> together;
  for (const std::vector<int64_t>& mine : all) {
    together.insert(together.end(), mine.begin(), mine.end());
  }
  return Percentiles(std::move(together));
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::strcmp(argv[1], "--quick") == 0;
  const std::string root = MakeHost();
  energy::MonitorOptions options;
  options.host.root = root;
  options.host.nvml_library = ENERGY_MONITOR_NVML;
  options.update_check = energy::UpdateCheck::kNone;
  auto started = energy::Monitor::Start(std::move(options));
  if (!started.ok()) {
    std::fprintf(stderr, "%s\n", started.status().ToString().c_str());
    return 1;
  }
  energy::Monitor& monitor = **started;
  std::this_thread::sleep_for(std::chrono::seconds(quick ? 5 : 30));
  const auto idle = monitor.Stats();
  nlohmann::ordered_json json;
  json["domains"] = monitor.domains().size();
  json["gpus"] = kGpus;
  json["interval_ms"] = 100;
  json["seconds"] = static_cast<double>(idle->elapsed_ns) * 1e-9;
  json["ticks"] = idle->ticks;
  json["cpu_percent_of_one_core"] =
      100 * static_cast<double>(idle->cpu_ns) / static_cast<double>(idle->elapsed_ns);
  json["late_p99_ms"] = static_cast<double>(idle->late_p99_ns) * 1e-6;
  // One thread, as a training loop has it, at ten thousand windows a second at most; and several at
  // once.
  json["windows_one_thread"] = Windows(monitor, 1, quick ? 5'000 : 20'000, 100);
  json["windows_four_threads"] = Windows(monitor, kThreads, quick ? 2'000 : 5'000, 100);
  monitor.Stop();
  std::printf("%s\n", json.dump(2).c_str());
  std::filesystem::remove_all(root);
  return 0;
}
