// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_analysis/stages.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <random>
#include <utility>

#include "emlio/energy_analysis/baseline.h"

namespace emlio::energy_analysis {
namespace {

constexpr std::array<std::string_view, kStages> kStageNames = {"read", "preprocess", "train"};
constexpr std::array<Stage, kStages> kAll = {Stage::kRead, Stage::kPreprocess, Stage::kTrain};
constexpr size_t kSets = size_t{1} << kStages;  // the empty one among them
constexpr double kPacedWithin = 0.05;

// A factor for each set.
using Contrast = std::array<double, kSets>;

struct Arm {
  std::vector<double> joules;
  std::vector<double> seconds;
  std::vector<double> watts;
};

class Analysis {
 public:
  Analysis(std::span<const StageRun> runs, const LadderOptions& options) : options_(options) {
    for (const StageRun& run : runs) {
      Arm& arm = arms_[run.set.bits() % kSets];
      arm.joules.push_back(run.joules);
      arm.seconds.push_back(run.seconds);
      arm.watts.push_back(run.seconds > 0 ? run.joules / run.seconds : 0);
    }
  }

  Status Check(std::span<const StageSet> sets) const {
    std::vector<std::string> lacking;
    for (const StageSet set : sets) {
      const size_t n = arms_[set.bits()].joules.size();
      if (n < options_.min_runs) lacking.push_back(fmt::format("{} has {}", set.Name(), n));
    }
    if (lacking.empty()) return OkStatus();
    return InvalidArgument(fmt::format("each set of stages needs {} good runs: {}",
                                       options_.min_runs, fmt::join(lacking, ", ")));
  }

  std::vector<StageSetMean> Means(std::span<const StageSet> sets) const {
    std::vector<StageSetMean> means;
    for (const StageSet set : sets) {
      const Arm& arm = arms_[set.bits()];
      StageSetMean mean{.set = set,
                        .n = arm.joules.size(),
                        .joules = Summarise(arm.joules),
                        .seconds = Summarise(arm.seconds),
                        .watts = Summarise(arm.watts)};
      if (const Summary* power = options_.baseline_watts) {
        mean.net = MeanNetOf(arm.joules, arm.seconds, *power);
      }
      means.push_back(std::move(mean));
    }
    return means;
  }

  StageEnergy Of(std::string name, const Contrast& factors) const {
    StageEnergy energy{.name = std::move(name)};
    std::vector<WeightedEstimate> joules, seconds, nets;
    double time = 0;  // that the baseline's power is multiplied with
    for (size_t set = 0; set < kSets; ++set) {
      if (factors[set] == 0) continue;
      const Arm& arm = arms_[set];
      joules.push_back({factors[set], Summarise(arm.joules).estimate()});
      seconds.push_back({factors[set], Summarise(arm.seconds).estimate()});
      time += factors[set] * Summarise(arm.seconds).mean;
      if (const Summary* power = options_.baseline_watts) {
        std::vector<double> net(arm.joules.size());
        for (size_t i = 0; i < net.size(); ++i) {
          net[i] = arm.joules[i] - power->mean * arm.seconds[i];
        }
        nets.push_back({factors[set], Summarise(net).estimate()});
      }
    }
    energy.total = Combine(joules);
    energy.seconds = Combine(seconds);
    if (const Summary* power = options_.baseline_watts) {
      // One baseline for all runs: its error moves every set by its own time.
      Estimate error = power->estimate();
      error.value = 0;
      nets.push_back({-time, error});
      energy.net = Combine(nets);
    }
    return energy;
  }

  bool Unpaced(std::span<const StageSet> sets) const {
    double low = 0;
    double high = 0;
    for (const StageSet set : sets) {
      const double seconds = Summarise(arms_[set.bits()].seconds).mean;
      low = low == 0 ? seconds : std::min(low, seconds);
      high = std::max(high, seconds);
    }
    return high > low * (1 + kPacedWithin);
  }

 private:
  const LadderOptions& options_;
  std::array<Arm, kSets> arms_;
};

Contrast Factors(std::initializer_list<std::pair<StageSet, double>> factors) {
  Contrast contrast{};
  for (const auto& [set, factor] : factors) contrast[set.bits()] += factor;
  return contrast;
}

// The mean over all orders of what the stage adds to those before it. An empty set uses nothing.
Contrast ShapleyFactors(Stage stage) {
  constexpr std::array<double, kStages> kWeight = {1.0 / 3, 1.0 / 6, 1.0 / 3};  // |S|!(2-|S|)!/3!
  Contrast contrast{};
  for (unsigned bits = 0; bits < kSets; ++bits) {
    const StageSet set(bits);
    if (set.Has(stage)) continue;
    contrast[set.With(stage).bits()] += kWeight[set.size()];
    if (bits != 0) contrast[bits] -= kWeight[set.size()];
  }
  return contrast;
}

}  // namespace

std::string_view StageName(Stage stage) { return kStageNames[static_cast<size_t>(stage)]; }

std::string StageSet::Name() const {
  constexpr std::array<std::string_view, kStages> kLetters = {"R", "P", "T"};
  std::vector<std::string_view> letters;
  for (const Stage stage : kAll) {
    if (Has(stage)) letters.push_back(kLetters[static_cast<size_t>(stage)]);
  }
  return fmt::format("{}", fmt::join(letters, "+"));
}

std::string StageSet::List() const {
  std::vector<std::string_view> names;
  for (const Stage stage : kAll) {
    if (Has(stage)) names.push_back(StageName(stage));
  }
  return fmt::format("{}", fmt::join(names, ","));
}

std::optional<StageSet> StageSet::FromList(std::string_view list) {
  for (unsigned bits = 1; bits < kSets; ++bits) {
    if (StageSet(bits).List() == list) return StageSet(bits);
  }
  return std::nullopt;
}

std::vector<StageSet> LadderSets() { return {kReadOnly, kReadPreprocess, kAllStages, kTrainOnly}; }

std::vector<StageSet> ShapleySets() {
  std::vector<StageSet> sets;
  for (unsigned bits = 1; bits < kSets; ++bits) sets.push_back(StageSet(bits));
  return sets;
}

std::vector<StageSet> StageSchedule(std::span<const StageSet> sets, size_t rounds, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<StageSet> schedule;
  for (size_t round = 0; round < rounds; ++round) {
    std::vector<StageSet> order(sets.begin(), sets.end());
    // Not std::shuffle: what it does with the numbers differs between standard libraries.
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
    schedule.insert(schedule.end(), order.begin(), order.end());
  }
  return schedule;
}

Result<Ladder> AnalyseLadder(std::span<const StageRun> runs, const LadderOptions& options) {
  const auto sets = LadderSets();
  const Analysis analysis(runs, options);
  EMLIO_RETURN_IF_ERROR(analysis.Check(sets));
  Ladder ladder;
  ladder.sets = analysis.Means(sets);
  ladder.marginal = {
      analysis.Of("read", Factors({{kReadOnly, 1}})),
      analysis.Of("preprocess", Factors({{kReadPreprocess, 1}, {kReadOnly, -1}})),
      analysis.Of("train", Factors({{kAllStages, 1}, {kReadPreprocess, -1}})),
  };
  ladder.train_alone = analysis.Of("train alone", Factors({{kTrainOnly, 1}}));
  ladder.interaction = analysis.Of(
      "interaction", Factors({{kAllStages, 1}, {kReadPreprocess, -1}, {kTrainOnly, -1}}));
  ladder.whole = analysis.Of("whole", Factors({{kAllStages, 1}}));
  ladder.unpaced = analysis.Unpaced(sets);
  return ladder;
}

Result<Shapley> AnalyseShapley(std::span<const StageRun> runs, const LadderOptions& options) {
  const auto sets = ShapleySets();
  const Analysis analysis(runs, options);
  EMLIO_RETURN_IF_ERROR(analysis.Check(sets));
  Shapley shapley;
  shapley.sets = analysis.Means(sets);
  for (const Stage stage : kAll) {
    shapley.shares[static_cast<size_t>(stage)] =
        analysis.Of(std::string(StageName(stage)), ShapleyFactors(stage));
  }
  shapley.whole = analysis.Of("whole", Factors({{kAllStages, 1}}));
  shapley.unpaced = analysis.Unpaced(sets);
  return shapley;
}

}  // namespace emlio::energy_analysis
