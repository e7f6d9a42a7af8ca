// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "plan_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "console.h"
#include "emlio/base/hash128.h"
#include "text.h"

namespace emlio::tool {
namespace {

constexpr size_t kRankWidth = 5;
constexpr size_t kOffsetWidth = 13;

std::string RunText(uint64_t first, uint32_t count) {
  return count == 1 ? std::to_string(first) : fmt::format("{}-{}", first, first + count - 1);
}

// Room for a run of numbers up to `last`.
size_t RunWidth(uint64_t last, size_t title) {
  return std::max(title, 2 * std::to_string(last).size() + 1);
}

// "16" or "16 to 17": the sizes of the ranks' batches in one step.
std::string SharesText(const plan::Plan& plan, uint64_t step, uint32_t world_size) {
  const uint32_t most = plan.Share(step, 0, world_size).slots;
  const uint32_t least = plan.Share(step, world_size - 1, world_size).slots;
  return most == least ? FormatCount(most)
                       : fmt::format("{} to {}", FormatCount(least), FormatCount(most));
}

std::string ShuffleText(const plan::PlanSpec& spec) {
  const plan::PlanSpec::Source& source = spec.sources[0];
  if (source.shuffle == plan::Shuffle::kNone) return "none: the records come as they are stored";
  std::string text = fmt::format("{}, seed {}", plan::ShuffleName(source.shuffle), spec.seed);
  if (source.shuffle == plan::Shuffle::kBlock) {
    text +=
        fmt::format(", blocks of {} in windows of {}", FormatCount(source.block_records, "record"),
                    FormatCount(source.window_blocks, "block"));
  }
  return text;
}

std::string TailText(const plan::Plan& plan) {
  const plan::PlanSpec& spec = plan.spec();
  const std::string_view name = plan::TailName(spec.tail);
  const uint64_t left = plan.records() % spec.global_batch;
  if (left == 0) return fmt::format("{}: the records divide evenly", name);
  switch (spec.tail) {
    case plan::Tail::kDrop:
      return fmt::format(
          "{}: {} of {} left out{}", name, FormatCount(left), FormatCount(plan.records(), "record"),
          spec.sources[0].shuffle == plan::Shuffle::kNone ? ", the last ones of every epoch"
                                                          : ", other ones in every epoch");
    case plan::Tail::kKeep:
      return fmt::format("{}: the last step has {} instead of {}", name,
                         FormatCount(left, "record"), FormatCount(spec.global_batch));
    case plan::Tail::kPad:
      return fmt::format("{}: {} of the last step repeat records of the epoch", name,
                         FormatCount(spec.global_batch - left, "slot"));
  }
  return std::string(name);
}

}  // namespace

std::string PlanText(const plan::Plan& plan, uint32_t world_size) {
  const plan::PlanSpec& spec = plan.spec();
  const uint64_t last = plan.steps_per_epoch() - 1;
  const std::string shares = SharesText(plan, 0, world_size);
  const std::string in_last = SharesText(plan, last, world_size);
  std::string text;
  const auto add = [&](std::string_view title, const std::string& line) {
    text += fmt::format("{:<12}{}\n", title, line);
  };
  add("shuffle", ShuffleText(spec));
  add("an epoch",
      fmt::format("{} of {} over {}", FormatCount(plan.steps_per_epoch(), "step"),
                  FormatCount(spec.global_batch, "record"), FormatCount(world_size, "rank")));
  add("a rank", fmt::format("{} records a step{}", shares,
                            in_last == shares ? "" : fmt::format(", {} in the last", in_last)));
  add("tail", TailText(plan));
  add("plan hash", ToHex(plan.hash()));
  return text;
}

std::vector<SlotRun> RunsOf(const plan::Plan& plan, uint64_t epoch, const plan::StepShare& share) {
  std::vector<uint64_t> numbers;
  plan.Numbers(epoch, share, &numbers);
  std::vector<SlotRun> runs;
  for (uint32_t slot = 0; slot < share.slots; ++slot) {
    const plan::PlannedRecord record = plan.Locate(numbers[slot]);
    const bool padded = slot >= share.slots - share.padded;
    if (!runs.empty()) {
      SlotRun& run = runs.back();
      if (numbers[slot] == run.number + run.slots && record.shard == run.first.shard &&
          padded == run.padded) {
        ++run.slots;
        continue;
      }
    }
    runs.push_back(
        {.slot = slot, .slots = 1, .number = numbers[slot], .first = record, .padded = padded});
  }
  return runs;
}

SlotLines::SlotLines(const plan::Plan& plan, uint64_t last_epoch, bool has_offsets)
    : has_offsets_(has_offsets),
      epoch_width_(std::max<size_t>(5, std::to_string(last_epoch).size())),
      step_width_(std::max<size_t>(4, std::to_string(plan.steps_per_epoch() - 1).size())),
      slot_width_(RunWidth(plan.Share(0, 0, 1).slots - 1, 4)),
      number_width_(RunWidth(plan.records() - 1, 6)) {}

std::string SlotLines::Header() const {
  return fmt::format("{:>{}}  {:>{}}  {:>{}}  {:>{}}  {:>{}}  {:>{}}{}  shard\n", "epoch",
                     epoch_width_, "step", step_width_, "rank", kRankWidth, "slot", slot_width_,
                     "number", number_width_, "record", number_width_,
                     has_offsets_ ? fmt::format("  {:>{}}", "offset", kOffsetWidth) : "");
}

std::string SlotLines::Line(uint64_t epoch, uint64_t step, uint32_t rank, const SlotRun& run,
                            uint64_t offset, const std::string& shard) const {
  return fmt::format("{:>{}}  {:>{}}  {:>{}}  {:>{}}  {:>{}}  {:>{}}{}  {}{}\n", epoch,
                     epoch_width_, step, step_width_, rank, kRankWidth,
                     RunText(run.slot, run.slots), slot_width_, RunText(run.number, run.slots),
                     number_width_, RunText(run.first.record, run.slots), number_width_,
                     has_offsets_ ? fmt::format("  {:>{}}", offset, kOffsetWidth) : "",
                     Printable(shard), run.padded ? " (padded)" : "");
}

}  // namespace emlio::tool
