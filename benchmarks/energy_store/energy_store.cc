// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
// What the store of energy runs costs: while samples are taken, and when they are read. One step a
// call; prints one JSON object.
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "emlio/base/clock.h"
#include "emlio/energy/run_store.h"
#include "emlio/energy/sqlite.h"
#include "emlio/energy/tick_codec.h"

namespace {

using namespace emlio;
using namespace emlio::energy;
using nlohmann::ordered_json;

constexpr int64_t kTickNs = 100 * kNsPerMs;
constexpr size_t kChunkTicks = 600;
constexpr int64_t kFirstNs = 1'000 * kNsPerSecond;  // of each host's clock

template <typename T>
T OrDie(Result<T> result) {
  if (result.ok()) return std::move(*result);
  std::fprintf(stderr, "energy_store: %s\n", result.status().ToString().c_str());
  std::exit(1);
}
void OrDie(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "energy_store: %s\n", status.ToString().c_str());
  std::exit(1);
}

double Seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }
double CpuSeconds() {
  rusage used;
  getrusage(RUSAGE_SELF, &used);
  const auto of = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return of(used.ru_utime) + of(used.ru_stime);
}
int64_t MaxRssBytes() {
  rusage used;
  getrusage(RUSAGE_SELF, &used);
  return used.ru_maxrss * 1024;
}
int64_t FileBytes(const std::string& path) {
  int64_t bytes = 0;
  for (const char* const suffix : {"", "-wal"}) {
    struct stat facts = {};
    if (stat((path + suffix).c_str(), &facts) == 0) bytes += facts.st_size;
  }
  return bytes;
}

// A host's samples: every domain draws a power that changes by a few per cent from tick to tick,
// and is read some microseconds behind the one before it.
class Host {
 public:
  Host(size_t domains, uint32_t seed) : samples_(domains), random_(seed) {}

  Tick Next() {
    time_ns_ += kTickNs + static_cast<int64_t>(random_() % 100'000) - 50'000;
    for (size_t i = 0; i < samples_.size(); ++i) {
      Sample& sample = samples_[i];
      sample.time_ns =
          time_ns_ + static_cast<int64_t>(i) * 3'000 + static_cast<int64_t>(random_() % 2'000);
      sample.joules +=
          5.0 * static_cast<double>(i + 1) * (1 + static_cast<double>(random_() % 1000) * 1e-4);
      sample.state = SampleState::kMoved;
      sample.knot = true;
    }
    return {time_ns_,
            time_ns_ + 1'800'000'000 * kNsPerSecond + static_cast<int64_t>(random_() % 200),
            samples_};
  }

 private:
  std::vector<Sample> samples_;
  std::minstd_rand random_;
  int64_t time_ns_ = kFirstNs;
};

NodeInfo SomeNode(const std::string& name, size_t domains) {
  NodeInfo node;
  node.name = name;
  node.interval_ns = kTickNs;
  for (size_t i = 0; i < domains; ++i) {
    Domain domain = MakeDomain(i % 2 == 0 ? DomainKind::kPackage : DomainKind::kDram, "perf",
                               static_cast<int>(i / 2), -1);
    domain.in_total = true;
    domain.plausible_watts = 1e6;
    domain.refresh_ns = kNsPerMs;
    node.domains.push_back(domain);
  }
  return node;
}

std::unique_ptr<RunStore> NewRun(const std::string& path) {
  auto store = OrDie(RunStore::Open(path));
  Run run;
  run.id = "run";
  OrDie(store->BeginRun(run));
  return store;
}

// What a node says of its epochs: six of equal length. Their joules are of no use here.
void AddEpochs(RunStore* store, int64_t node, int64_t ticks, size_t domains) {
  constexpr int64_t kEpochs = 6;
  const int64_t length_ns = ticks * kTickNs / kEpochs;
  for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    WindowRecord window;
    window.id = std::to_string(node) + "/" + std::to_string(epoch);
    window.name = "epoch";
    window.epoch = epoch;
    window.begin_ns = kFirstNs + epoch * length_ns;
    window.end_ns = window.begin_ns + length_ns;
    Energy energy;
    energy.state = State::kMeasured;
    energy.joules = 1000;
    window.energies.assign(domains, energy);
    window.total.state = State::kMeasured;
    window.total.joules = 1000.0 * static_cast<double>(domains);
    store->AppendWindow(node, std::move(window));
  }
}

// A store as many agents leave it behind: packed rows, written at once instead of in an hour.
ordered_json Fill(const std::string& path, int nodes, int64_t ticks, size_t domains) {
  std::vector<int64_t> ids;
  {
    const auto store = NewRun(path);
    for (int i = 0; i < nodes; ++i) {
      ids.push_back(OrDie(store->AddNode("run", SomeNode("node-" + std::to_string(i), domains))));
      AddEpochs(store.get(), ids.back(), ticks, domains);
      if (i % 500 == 499) OrDie(store->Flush(kNsPerSecond * 60));
    }
    OrDie(store->EndRun("run", 1'800'001'000 * kNsPerSecond + ticks * kTickNs, 0));
    OrDie(store->Flush(kNsPerSecond * 60));
  }
  const int64_t begin_ns = SystemClock().NowNs();
  Sqlite database = OrDie(Sqlite::Open(path, Sqlite::Mode::kWrite));
  Statement insert = OrDie(database.Prepare("INSERT INTO samples VALUES (?, ?, ?, ?, ?)"));
  int64_t packed_bytes = 0;
  for (int i = 0; i < nodes; ++i) {
    Host host(domains, static_cast<uint32_t>(i + 1));
    OrDie(database.Execute("BEGIN"));
    TickBlock block(domains);
    for (int64_t tick = 0; tick < ticks; ++tick) {
      block.Append(host.Next());
      if (block.size() < kChunkTicks && tick + 1 < ticks) continue;
      const std::string data = EncodeTicks(block, block.size());
      packed_bytes += static_cast<int64_t>(data.size());
      OrDie(insert.Run(ids[static_cast<size_t>(i)], block.At(0).monotonic_ns,
                       block.At(block.size() - 1).monotonic_ns, block.size(), Blob{data}));
      block.Shrink(0);
    }
    OrDie(database.Execute("COMMIT"));
  }
  return {{"nodes", nodes},
          {"ticks", nodes * ticks},
          {"domains", domains},
          {"seconds", Seconds(SystemClock().NowNs() - begin_ns)},
          {"packed_bytes", packed_bytes},
          {"file_bytes", FileBytes(path)}};
}

// What a report needs of samples: each node's joules with their uncertainty, and its power over
// time in a thousand steps with the largest and smallest power in each.
ordered_json ReportRun(const std::string& path) {
  constexpr size_t kSteps = 1000;
  struct Step {
    double joules = 0;
    double most_watts = 0;
    double least_watts = 1e30;
  };
  const int64_t begin_ns = SystemClock().NowNs();
  const double begin_cpu = CpuSeconds();
  const auto reader = OrDie(RunReader::Open(path));
  const std::vector<StoredNode> nodes = OrDie(reader->Nodes(OrDie(reader->FindRun("")).id));
  const double listed_s = Seconds(SystemClock().NowNs() - begin_ns);
  int64_t ticks = 0;
  double joules = 0;
  double uncertainty = 0;
  double curve = 0;
  for (const StoredNode& node : nodes) {
    const auto energies = OrDie(reader->EnergyBetween(node, node.first_tick_ns, node.last_tick_ns));
    const Total total = TotalOf(node.info.domains, energies);
    joules += total.joules.value_or(0);
    uncertainty += total.uncertainty_joules;
    std::vector<Step> steps(kSteps);
    double before = -1;
    int64_t before_ns = 0;
    const int64_t length_ns = node.last_tick_ns - node.first_tick_ns + 1;
    OrDie(
        reader->ForEachTick(node.id, node.first_tick_ns, node.last_tick_ns, [&](const Tick& tick) {
          double sum = 0;
          for (size_t i = 0; i < tick.samples.size(); ++i) {
            if (node.info.domains[i].in_total) sum += tick.samples[i].joules;
          }
          if (before >= 0) {
            Step& step = steps[static_cast<size_t>((tick.monotonic_ns - node.first_tick_ns) *
                                                   static_cast<int64_t>(kSteps) / length_ns)];
            const double watts = (sum - before) / Seconds(tick.monotonic_ns - before_ns);
            step.joules += sum - before;
            step.most_watts = std::max(step.most_watts, watts);
            step.least_watts = std::min(step.least_watts, watts);
          }
          before = sum;
          before_ns = tick.monotonic_ns;
          ++ticks;
          return OkStatus();
        }));
    for (const Step& step : steps) curve += step.joules;
  }
  return {{"seconds", Seconds(SystemClock().NowNs() - begin_ns)},
          {"cpu_s", CpuSeconds() - begin_cpu},
          {"list_nodes_s", listed_s},
          {"nodes", nodes.size()},
          {"ticks", ticks},
          {"joules", joules},
          {"uncertainty_joules", uncertainty},
          {"curve_joules", curve},
          {"max_rss_bytes", MaxRssBytes()}};
}

// The store beside a sampler at 100 ms.
ordered_json Live(const std::string& path, size_t domains, double seconds) {
  auto store = NewRun(path);
  const int64_t node = OrDie(store->AddNode("run", SomeNode("node", domains)));
  Host host(domains, 1);
  std::vector<int64_t> append_ns;
  const auto begin = std::chrono::steady_clock::now();
  const int64_t count = static_cast<int64_t>(seconds * 10);
  int64_t append_cpu_ns = 0;
  for (int64_t i = 0; i < count; ++i) {
    std::this_thread::sleep_until(begin + std::chrono::milliseconds(100 * (i + 1)));
    const Tick tick = host.Next();
    timespec cpu_begin;
    timespec cpu_end;
    const int64_t begin_ns = SystemClock().NowNs();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu_begin);
    store->AppendTick(node, tick);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu_end);
    append_ns.push_back(SystemClock().NowNs() - begin_ns);
    append_cpu_ns +=
        (cpu_end.tv_sec - cpu_begin.tv_sec) * kNsPerSecond + cpu_end.tv_nsec - cpu_begin.tv_nsec;
  }
  OrDie(store->Flush(kNsPerSecond * 60));
  const RunStoreStats stats = store->Stats();
  std::sort(append_ns.begin(), append_ns.end());
  return {{"domains", domains},
          {"seconds", seconds},
          {"ticks", stats.ticks_written},
          {"ticks_dropped", stats.ticks_dropped},
          {"store_cpu_percent", 100 * Seconds(stats.cpu_ns) / seconds},
          {"append_cpu_percent", 100 * Seconds(append_cpu_ns) / seconds},
          {"append_p50_us", static_cast<double>(append_ns[append_ns.size() / 2]) * 1e-3},
          {"append_p99_us", static_cast<double>(append_ns[append_ns.size() * 99 / 100]) * 1e-3}};
}

// Other ways to lay out the same samples: what each costs to write, a transaction a tick, and to
// read, and how much room it takes.
ordered_json Layout(const std::string& path, const std::string& layout, int64_t ticks,
                    size_t domains) {
  Sqlite database = OrDie(Sqlite::Open(path, Sqlite::Mode::kCreate));
  OrDie(database.Execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL"));
  const bool rows = layout == "row_a_sample";
  OrDie(database.Execute(
      rows ? "CREATE TABLE samples (node_id INTEGER, time_ns INTEGER, domain INTEGER, wall_ns "
             "INTEGER, "
             "sample_ns INTEGER, energy_uj INTEGER, spread_uj INTEGER, void_ns INTEGER, wraps "
             "INTEGER, "
             "resets INTEGER, gaps INTEGER, stalls INTEGER, ambiguous INTEGER, flags INTEGER, "
             "PRIMARY KEY (node_id, time_ns, domain)) WITHOUT ROWID"
           : "CREATE TABLE samples (node_id INTEGER NOT NULL, first_ns INTEGER NOT NULL, last_ns "
             "INTEGER "
             "NOT NULL, ticks INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (node_id, "
             "first_ns)) "
             "WITHOUT ROWID"));
  Statement insert = OrDie(database.Prepare(
      rows ? "INSERT INTO samples VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
           : "INSERT INTO samples VALUES (1, ?, ?, ?, ?)"));
  Statement remove =
      OrDie(database.Prepare("DELETE FROM samples WHERE node_id = 1 AND " +
                             std::string(rows ? "time_ns" : "first_ns") + " BETWEEN ? AND ?"));
  Host host(domains, 1);
  TickBlock block(domains);
  double cpu = CpuSeconds();
  for (int64_t i = 0; i < ticks; ++i) {
    const Tick tick = host.Next();
    OrDie(database.Execute("BEGIN IMMEDIATE"));
    if (rows) {
      for (size_t d = 0; d < domains; ++d) {
        const Sample& s = tick.samples[d];
        OrDie(insert.Run(
            tick.monotonic_ns, d, tick.wall_ns, s.time_ns, static_cast<int64_t>(s.joules * 1e6),
            static_cast<int64_t>(s.spread_joules * 1e6), s.void_ns, s.wraps, s.resets, s.gaps,
            s.stalls, s.ambiguous, static_cast<int64_t>(s.state) + 8 * s.knot));
      }
    } else {
      TickBlock one(domains);
      one.Append(tick);
      OrDie(insert.Run(tick.monotonic_ns, tick.monotonic_ns, 1, Blob{EncodeTicks(one, 1)}));
    }
    OrDie(database.Execute("COMMIT"));
    if (layout != "packed") continue;
    block.Append(tick);
    if (block.size() < kChunkTicks) continue;
    const int64_t first_ns = block.At(0).monotonic_ns;
    OrDie(database.Execute("BEGIN IMMEDIATE"));
    OrDie(remove.Run(first_ns, tick.monotonic_ns));
    OrDie(insert.Run(first_ns, tick.monotonic_ns, block.size(),
                     Blob{EncodeTicks(block, block.size())}));
    OrDie(database.Execute("COMMIT"));
    block.Shrink(0);
  }
  const double write_cpu = CpuSeconds() - cpu;
  OrDie(database.Execute("PRAGMA wal_checkpoint(TRUNCATE)"));
  const int64_t begin_ns = SystemClock().NowNs();
  double joules = 0;
  int64_t read = 0;
  Statement all = OrDie(database.Prepare(
      rows ? "SELECT time_ns, domain, wall_ns, sample_ns, energy_uj, spread_uj, void_ns, wraps, "
             "resets, gaps, "
             "stalls, ambiguous, flags FROM samples WHERE node_id = 1 ORDER BY time_ns, domain"
           : "SELECT data FROM samples WHERE node_id = 1 ORDER BY first_ns"));
  while (OrDie(all.Next())) {
    if (rows) {
      for (int column = 0; column < 13; ++column) joules += static_cast<double>(all.Int(column));
      ++read;
      continue;
    }
    OrDie(DecodeTicks(all.Bytes(0), &block));
    for (size_t i = 0; i < block.size(); ++i) {
      for (const Sample& sample : block.At(i).samples) joules += sample.joules;
    }
    read += static_cast<int64_t>(block.size() * domains);
  }
  const double read_s = Seconds(SystemClock().NowNs() - begin_ns);
  return {{"layout", layout},
          {"ticks", ticks},
          {"domains", domains},
          {"write_cpu_us_per_tick", write_cpu * 1e6 / static_cast<double>(ticks)},
          {"read_ns_per_sample", read_s * 1e9 / static_cast<double>(read)},
          {"bytes_per_sample", static_cast<double>(FileBytes(path)) / static_cast<double>(read)},
          {"checksum", joules}};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("What the store of energy runs costs");
  std::string path;
  int nodes = 1000;
  int64_t ticks = 36'000;
  size_t domains = 4;
  double seconds = 30;
  std::string layout = "packed";
  app.require_subcommand(1);
  const auto add = [&](const char* name, const char* help) {
    CLI::App* const sub = app.add_subcommand(name, help);
    sub->add_option("store", path, "A file; new, but for report")->required();
    sub->add_option("--nodes", nodes);
    sub->add_option("--ticks", ticks, "Of each node");
    sub->add_option("--domains", domains, "Of each node");
    sub->add_option("--seconds", seconds);
    sub->add_option("--layout", layout, "row_a_sample, row_a_tick or packed");
    return sub;
  };
  const std::vector<std::pair<CLI::App*, std::function<ordered_json()>>> steps = {
      {add("fill", "Make a store of an hour of many nodes"),
       [&] { return Fill(path, nodes, ticks, domains); }},
      {add("report", "Read all of it, as a report does"), [&] { return ReportRun(path); }},
      {add("live", "Write beside a sampler"), [&] { return Live(path, domains, seconds); }},
      {add("layout", "Write and read one way to lay samples out"),
       [&] { return Layout(path, layout, ticks, domains); }}};
  CLI11_PARSE(app, argc, argv);
  for (const auto& [sub, step] : steps) {
    if (sub->parsed()) std::printf("%s\n", step().dump().c_str());
  }
  return 0;
}
