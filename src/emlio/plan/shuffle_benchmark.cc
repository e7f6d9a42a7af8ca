// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
//
// How random the shuffles are where it matters to training: what shares a batch, of data that lie
// class by class. As many records and classes as ImageNet has, 110 KB a record. Prints a table.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "emlio/plan/plan.h"

namespace emlio::plan {
namespace {

constexpr uint64_t kRecords = 1'281'167;
constexpr uint64_t kClasses = 1000;  // class c has the records [c, c + 1) * kRecords / kClasses
constexpr uint64_t kRecordBytes = 110'000 + 16;
constexpr uint64_t kBatch = 256;
constexpr uint64_t kEpochs = 5;

struct Row {
  const char* name;
  Shuffle shuffle;
  uint64_t block_mib;
  uint64_t window_mib;
};
constexpr Row kRows[] = {
    {"`none`", Shuffle::kNone, 0, 0},
    {"`block` 1 MiB, 16 MiB", Shuffle::kBlock, 1, 16},
    {"`block` 1 MiB, 64 MiB", Shuffle::kBlock, 1, 64},
    {"`block` 4 MiB, 64 MiB", Shuffle::kBlock, 4, 64},
    {"`block` 1 MiB, 256 MiB", Shuffle::kBlock, 1, 256},
    {"`block` 4 MiB, 256 MiB", Shuffle::kBlock, 4, 256},
    {"`block` 1 MiB, 1 GiB", Shuffle::kBlock, 1, 1024},
    {"`block` 4 MiB, 1 GiB", Shuffle::kBlock, 4, 1024},
    {"`full`", Shuffle::kFull, 0, 0},
};

Plan MakePlan(const Row& row) {
  PlanSpec spec;
  PlanSpec::Source& source = spec.sources.emplace_back();
  source.shard_records = {kRecords};
  source.shuffle = row.shuffle;
  if (row.shuffle == Shuffle::kBlock) {
    source.block_records = static_cast<uint32_t>((row.block_mib << 20) / kRecordBytes);
    source.window_blocks =
        static_cast<uint32_t>((row.window_mib << 20) / kRecordBytes / source.block_records);
  }
  spec.global_batch = kBatch;
  spec.tail = Tail::kDrop;
  Result<Plan> plan = Plan::Create(std::move(spec));
  if (!plan.ok()) {
    std::fprintf(stderr, "%s\n", plan.status().ToString().c_str());
    std::exit(1);
  }
  return *std::move(plan);
}

void Measure(const Row& row) {
  const Plan plan = MakePlan(row);
  const PlanSpec::Source& source = plan.spec().sources[0];
  double classes = 0, neighbours = 0;
  std::vector<uint64_t> step_of(kRecords);
  std::vector<uint64_t> numbers;
  for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    std::fill(step_of.begin(), step_of.end(), ~uint64_t{0});
    for (uint64_t step = 0; step < plan.steps_per_epoch(); ++step) {
      plan.Numbers(epoch, plan.Share(step, 0, 1), &numbers);
      for (uint64_t& number : numbers) {
        step_of[number] = step;
        number = number * kClasses / kRecords;
      }
      std::sort(numbers.begin(), numbers.end());
      classes += std::unique(numbers.begin(), numbers.end()) - numbers.begin();
    }
    for (uint64_t i = 0; i + 1 < kRecords; ++i) neighbours += step_of[i] == step_of[i + 1];
  }
  std::printf("| %s | %u | %u | %.1f | %.3g %% |\n", row.name, source.block_records,
              source.window_blocks, classes / (kEpochs * plan.steps_per_epoch()),
              100 * neighbours / (kEpochs * (kRecords - 1)));
}

}  // namespace
}  // namespace emlio::plan

int main() {
  std::printf(
      "| shuffle: block, window | B | V | classes in a batch of 256 | neighbours that share a "
      "batch "
      "|\n|---|---:|---:|---:|---:|\n");
  for (const auto& row : emlio::plan::kRows) emlio::plan::Measure(row);
  return 0;
}
