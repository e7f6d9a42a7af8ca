// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
//
// Cost of a record's place in the plan: Plan::Records over 10^9 records in 1,000 shards of unequal
// size, full shuffle and blocks, one thread. Prints one JSON object.
#include <time.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "emlio/plan/plan.h"

namespace {

constexpr uint64_t kRecords = 1'000'000'000;
constexpr uint32_t kShards = 1000;
constexpr uint32_t kBatch = 256;
constexpr uint64_t kSteps = 20'000;
constexpr int kRepeats = 7;

// CPU time, so that other work on the machine does not count.
double CpuSeconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

nlohmann::json Measure(const char* metric, emlio::plan::PlanSpec::Source source) {
  emlio::plan::PlanSpec spec;
  for (uint32_t i = 0; i < kShards / 2; ++i) {
    source.shard_records.push_back(kRecords / kShards + i);
    source.shard_records.push_back(kRecords / kShards - i);
  }
  spec.sources = {source};
  spec.global_batch = kBatch;
  const emlio::Result<emlio::plan::Plan> plan = emlio::plan::Plan::Create(std::move(spec));
  if (!plan.ok()) {
    std::fprintf(stderr, "%s\n", plan.status().ToString().c_str());
    std::exit(1);
  }

  std::vector<emlio::plan::PlannedRecord> records;
  std::vector<double> us_per_record;
  uint64_t checksum = 0;                                // keeps the work from being optimised away
  for (int repeat = -1; repeat < kRepeats; ++repeat) {  // the first one only warms up
    const double begin_s = CpuSeconds();
    for (uint64_t step = 0; step < kSteps; ++step) {
      plan->Records(static_cast<uint64_t>(repeat + 1), plan->Share(step, 0, 1), &records);
      checksum += records.back().record;
    }
    const double us = (CpuSeconds() - begin_s) * 1e6 / (static_cast<double>(kSteps) * kBatch);
    if (repeat >= 0) us_per_record.push_back(us);
  }

  double mean = 0;
  for (double us : us_per_record) mean += us / kRepeats;
  double variance = 0;
  for (double us : us_per_record) variance += (us - mean) * (us - mean) / (kRepeats - 1);
  return {{"metric", metric},
          {"value", mean},
          {"unit", "us"},
          {"n", kRepeats},
          {"sd", std::sqrt(variance)},
          {"settings",
           {{"records", kRecords},
            {"shards", kShards},
            {"batch", kBatch},
            {"steps", kSteps},
            {"block_records", source.block_records},
            {"window_blocks", source.window_blocks},
            {"clock", "thread CPU time"},
            {"checksum", checksum}}}};
}

}  // namespace

int main() {
  emlio::plan::PlanSpec::Source full;
  full.shuffle = emlio::plan::Shuffle::kFull;
  emlio::plan::PlanSpec::Source block;
  block.shuffle = emlio::plan::Shuffle::kBlock;
  block.block_records = 10;
  block.window_blocks = 64;
  const nlohmann::json report = {
      {"environment",
       {{"compiler", __VERSION__}, {"cpus", std::thread::hardware_concurrency()}, {"threads", 1}}},
      {"results",
       {Measure("plan_us_per_record_full", full), Measure("plan_us_per_record_block", block)}}};
  std::printf("%s\n", report.dump(1).c_str());
  return 0;
}
