// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "commands.h"
#include "console.h"
#include "emlio/base/hash128.h"
#include "emlio/loader/make_plan.h"
#include "interrupt.h"
#include "plan_report.h"
#include "record_source.h"
#include "text.h"

namespace emlio::tool {
namespace {

using nlohmann::ordered_json;

// A listing as JSON is held in memory, as text it is not.
constexpr uint64_t kMaxJsonSlots = 10'000'000;

// Answers the questions about one plan.
class Planner {
 public:
  Planner(const PlanCommand& command, const Report& report, const RecordSource& source,
          const plan::Plan& plan)
      : command_(command), report_(report), source_(source), plan_(plan) {}

  ordered_json ToJson() const;
  void PrintSummary() const;
  // Which record is in which slot.
  Status Check() const;
  Status List(ordered_json* batches) const;
  // In which slots one record is.
  Status FindRecord(ordered_json* record) const;

 private:
  uint32_t world_size() const { return command_.loader.world_size; }
  const std::string& shard_name(uint32_t shard) const {
    return source_.manifest().shards()[shard].name;
  }
  NumberRange ranks() const {
    if (command_.rank.has_value()) return {*command_.rank, uint64_t{*command_.rank} + 1};
    return {0, world_size()};
  }
  ordered_json BatchJson(uint64_t epoch, uint64_t step, uint32_t rank,
                         const plan::StepShare& share) const;

  const PlanCommand& command_;
  const Report& report_;
  const RecordSource& source_;
  const plan::Plan& plan_;
};

void Planner::PrintSummary() const {
  const dataset::Manifest& manifest = source_.manifest();
  fmt::print("{:<12}{}, {}, {}\n", "data set", FormatCount(manifest.shards().size(), "shard"),
             FormatCount(manifest.records(), "record"),
             FormatBytes(static_cast<double>(manifest.payload_bytes())));
  fmt::print("{:<12}{}\n", "digest", ToHex(manifest.digest()));
  fmt::print("{}", PlanText(plan_, world_size()));
}

ordered_json Planner::ToJson() const {
  const plan::PlanSpec& spec = plan_.spec();
  const uint64_t last = plan_.steps_per_epoch() - 1;
  auto ranks = ordered_json::array();
  // Shares differ by one record at most, so the first and the last rank tell them all.
  for (const uint64_t step : {uint64_t{0}, last}) {
    const plan::StepShare most = plan_.Share(step, 0, world_size());
    const plan::StepShare least = plan_.Share(step, world_size() - 1, world_size());
    ranks.push_back({{"step", step}, {"min", least.slots}, {"max", most.slots}});
  }
  auto shards = ordered_json::array();
  for (const dataset::ShardInfo& shard : source_.manifest().shards()) {
    shards.push_back({{"name", shard.name}, {"records", shard.records}});
  }
  const uint64_t slots = spec.global_batch * plan_.steps_per_epoch();
  const bool pads = spec.tail == plan::Tail::kPad;
  return {{"sources", command_.source.sources},
          {"dataset_digest", ToHex(source_.manifest().digest())},
          {"dataset_records", plan_.records()},
          {"plan_hash", ToHex(plan_.hash())},
          {"seed", spec.seed},
          {"shuffle", plan::ShuffleName(spec.sources[0].shuffle)},
          {"block_records", spec.sources[0].block_records},
          {"window_blocks", spec.sources[0].window_blocks},
          {"tail", plan::TailName(spec.tail)},
          {"global_batch_size", spec.global_batch},
          {"world_size", world_size()},
          {"steps_per_epoch", plan_.steps_per_epoch()},
          {"records_per_rank", std::move(ranks)},
          {"left_out", slots < plan_.records() ? plan_.records() - slots : 0},
          {"padded", pads && slots > plan_.records() ? slots - plan_.records() : 0},
          {"shard_list", std::move(shards)}};
}

ordered_json Planner::BatchJson(uint64_t epoch, uint64_t step, uint32_t rank,
                                const plan::StepShare& share) const {
  std::vector<uint64_t> numbers;
  plan_.Numbers(epoch, share, &numbers);
  std::vector<uint32_t> shards;
  std::vector<uint64_t> records, offsets;
  for (const uint64_t number : numbers) {
    const RecordPlace place = source_.Locate(number);
    shards.push_back(place.shard);
    records.push_back(place.record);
    if (!place.path.empty()) offsets.push_back(place.offset);
  }
  ordered_json json = {{"epoch", epoch},     {"step", step},     {"rank", rank},
                       {"numbers", numbers}, {"shards", shards}, {"records", records}};
  if (!offsets.empty()) json["offsets"] = offsets;
  json["padded"] = share.padded;
  return json;
}

// Whether what is asked for is there, before anything is printed.
Status Planner::Check() const {
  if (command_.steps.has_value() && command_.steps->begin >= plan_.steps_per_epoch()) {
    return InvalidArgument(fmt::format("--steps: an epoch has {}, from 0 on; there is no step {}",
                                       FormatCount(plan_.steps_per_epoch(), "step"),
                                       command_.steps->begin));
  }
  if (command_.record.empty()) return OkStatus();
  return source_.Find(command_.record).status().WithContext("--record");
}

Status Planner::List(ordered_json* batches) const {
  *batches = ordered_json::array();
  NumberRange steps = *command_.steps;
  steps.end = std::min(steps.end, plan_.steps_per_epoch());
  const bool as_json = !command_.json.empty();
  uint64_t json_slots = 0;
  const SlotLines lines(plan_, command_.epochs.end - 1, source_.local() != nullptr);
  if (report_.for_people()) fmt::print("\n{}", lines.Header());
  for (uint64_t epoch = command_.epochs.begin; epoch < command_.epochs.end; ++epoch) {
    for (uint64_t step = steps.begin; step < steps.end; ++step) {
      for (uint64_t rank = ranks().begin; rank < ranks().end; ++rank) {
        if (InterruptFlag::IsSet()) return Cancelled("interrupted by a signal");
        const auto rank32 = static_cast<uint32_t>(rank);
        const plan::StepShare share = plan_.Share(step, rank32, world_size());
        if (report_.for_people()) {
          for (const SlotRun& run : RunsOf(plan_, epoch, share)) {
            fmt::print("{}", lines.Line(epoch, step, rank32, run, source_.Locate(run.number).offset,
                                        shard_name(run.first.shard)));
          }
        }
        if (!as_json) continue;
        json_slots += share.slots;
        if (json_slots > kMaxJsonSlots) {
          return LimitExceeded(fmt::format("--json: more than {}; ask for fewer steps at a time",
                                           FormatCount(kMaxJsonSlots, "slot")));
        }
        batches->push_back(BatchJson(epoch, step, rank32, share));
      }
    }
  }
  return OkStatus();
}

Status Planner::FindRecord(ordered_json* record) const {
  EMLIO_ASSIGN_OR_RETURN(const uint64_t number, source_.Find(command_.record));
  const RecordPlace place = source_.Locate(number);
  *record = {{"number", number}, {"shard", shard_name(place.shard)}, {"record", place.record}};
  auto slots = ordered_json::array();
  Table table({{"epoch", true}, {"step", true}, {"rank", true}, {"slot", true}, {""}});
  for (uint64_t epoch = command_.epochs.begin; epoch < command_.epochs.end; ++epoch) {
    if (InterruptFlag::IsSet()) return Cancelled("interrupted by a signal");
    const auto found = plan_.SlotsOf(epoch, number, world_size());
    for (const plan::PlannedSlot& at : found) {
      table.AddRow({std::to_string(epoch), std::to_string(at.step), std::to_string(at.rank),
                    std::to_string(at.slot), at.padded ? "padded" : ""});
      slots.push_back({{"epoch", epoch},
                       {"step", at.step},
                       {"rank", at.rank},
                       {"slot", at.slot},
                       {"padded", at.padded}});
    }
    if (found.empty()) {
      table.AddRow({std::to_string(epoch), "-", "-", "-", "left out by tail drop"});
    }
  }
  (*record)["slots"] = std::move(slots);
  if (report_.for_people()) {
    fmt::print("\nrecord {} of shard {}, number {} of the data set\n{}", place.record,
               Printable(shard_name(place.shard)), number, table.Render(kAnyWidth));
  }
  return OkStatus();
}

}  // namespace

int RunPlan(const PlanCommand& command) {
  const Report report(command.json);
  if (const Status status = report.Check(); !status.ok()) return Fail(status);
  loader::LoaderOptions options = command.loader;
  options.rank = command.rank.value_or(0);
  if (const Status status = loader::CheckPlanOptions(options); !status.ok()) {
    return report.Finish(status, {});
  }
  const auto source = RecordSource::Open(command.source);
  if (!source.ok()) return report.Finish(source.status(), {});
  const auto plan = loader::MakePlan(options, (*source)->manifest());
  if (!plan.ok()) return report.Finish(plan.status(), {});

  const Planner planner(command, report, **source, *plan);
  if (const Status status = planner.Check(); !status.ok()) return report.Finish(status, {});
  ordered_json json = planner.ToJson();
  if (report.for_people()) planner.PrintSummary();
  Status status;
  if (command.steps.has_value()) status = planner.List(&json["batches"]);
  if (!command.record.empty()) status = planner.FindRecord(&json["record"]);
  return report.Finish(status, std::move(json));
}

}  // namespace emlio::tool
