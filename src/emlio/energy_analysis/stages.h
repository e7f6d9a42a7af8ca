// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emlio/base/status.h"
#include "emlio/energy_analysis/statistics.h"

// What each stage of a pipeline costs, found by running it with some of its stages only
// (ANALYSIS.md, "Stages"). The others are replaced by data that are in memory already.
namespace emlio::energy_analysis {

enum class Stage { kRead, kPreprocess, kTrain };
inline constexpr size_t kStages = 3;
std::string_view StageName(Stage stage);  // "read", "preprocess", "train"

// Which stages are active in a run.
class StageSet {
 public:
  constexpr StageSet() = default;
  constexpr explicit StageSet(unsigned bits) : bits_(bits) {}

  constexpr bool Has(Stage stage) const { return (bits_ >> static_cast<unsigned>(stage)) & 1; }
  constexpr StageSet With(Stage stage) const {
    return StageSet(bits_ | (1u << static_cast<unsigned>(stage)));
  }
  constexpr unsigned bits() const { return bits_; }
  constexpr size_t size() const { return static_cast<size_t>(__builtin_popcount(bits_)); }
  std::string Name() const;  // "R+P"
  std::string List() const;  // "read,preprocess": the value of EMLIO_STAGES
  static std::optional<StageSet> FromList(std::string_view list);

  friend constexpr bool operator==(StageSet, StageSet) = default;

 private:
  unsigned bits_ = 0;
};
inline constexpr StageSet kReadOnly{0b001};
inline constexpr StageSet kReadPreprocess{0b011};
inline constexpr StageSet kTrainOnly{0b100};
inline constexpr StageSet kAllStages{0b111};

std::vector<StageSet> LadderSets();   // R, R+P, R+P+T, T
std::vector<StageSet> ShapleySets();  // all seven

// `rounds` rounds of all sets, each in a random order of its own, so that what drifts meets all
// sets alike. The same seed gives the same schedule.
std::vector<StageSet> StageSchedule(std::span<const StageSet> sets, size_t rounds, uint64_t seed);

// One run that succeeded, of what is analysed: the total, a node or a domain.
struct StageRun {
  StageSet set = {};
  double joules = 0;
  double seconds = 0;
};

// What is ascribed to something. `net` is none without a baseline.
struct StageEnergy {
  std::string name = {};
  Estimate total = {};
  std::optional<Estimate> net = {};
  Estimate seconds = {};
};

struct StageSetMean {
  StageSet set = {};
  size_t n = 0;
  Summary joules = {};
  Summary seconds = {};
  Summary watts = {};
  std::optional<Estimate> net = {};
};

struct LadderOptions {
  size_t min_runs = 5;                      // of each set
  const Summary* baseline_watts = nullptr;  // not owned; null: only totals
};

struct Ladder {
  std::vector<StageSetMean> sets = {};  // as measured
  // Marginal energies in the order R, P, T: E(R), E(RP) - E(R), E(RPT) - E(RP). They add up to the
  // whole and hold for this order only.
  std::array<StageEnergy, kStages> marginal = {};
  StageEnergy train_alone = {};  // E(T)
  StageEnergy interaction = {};  // E(RPT) - E(RP) - E(T): what overlapping saves or costs
  StageEnergy whole = {};        // E(RPT)
  // The sets' mean times differ by more than 5 %, so that idle power moves with the stages: only
  // net energies may be compared.
  bool unpaced = false;
};
// kInvalidArgument names the sets that lack runs.
Result<Ladder> AnalyseLadder(std::span<const StageRun> runs, const LadderOptions& options = {});

struct Shapley {
  std::vector<StageSetMean> sets = {};
  std::array<StageEnergy, kStages> shares = {};  // they add up to the whole
  StageEnergy whole = {};
  bool unpaced = false;
};
Result<Shapley> AnalyseShapley(std::span<const StageRun> runs, const LadderOptions& options = {});

}  // namespace emlio::energy_analysis
