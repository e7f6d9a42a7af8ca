// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <random>

#include "emlio/energy_analysis/regression.h"
#include "emlio/energy_analysis/stages.h"

namespace emlio::energy_analysis::testing {

// A pipeline whose energy is a known function of its active stages: E(S) = idle × time(S) + Σ
// stages
// + Σ pairs + noise. Net of idle the truth of every analysis follows by hand.
struct SyntheticPipeline {
  double idle_watts = 100;
  std::array<double, kStages> stage_joules = {2000, 3000, 8000};
  double read_preprocess_joules = 400;  // both active cost that much more
  double read_train_joules = 150;
  double preprocess_train_joules = -700;                      // and these share something
  std::array<double, kStages> stage_seconds = {60, 70, 100};  // the slowest active one decides
  double noise_joules = 40;
  double noise_seconds = 0.2;

  double Net(StageSet set) const {
    double joules = 0;
    for (size_t i = 0; i < kStages; ++i) {
      if (set.Has(static_cast<Stage>(i))) joules += stage_joules[i];
    }
    const bool read = set.Has(Stage::kRead);
    const bool preprocess = set.Has(Stage::kPreprocess);
    const bool train = set.Has(Stage::kTrain);
    if (read && preprocess) joules += read_preprocess_joules;
    if (read && train) joules += read_train_joules;
    if (preprocess && train) joules += preprocess_train_joules;
    return joules;
  }
  double Seconds(StageSet set) const {
    double seconds = 0;
    for (size_t i = 0; i < kStages; ++i) {
      if (set.Has(static_cast<Stage>(i))) seconds = std::max(seconds, stage_seconds[i]);
    }
    return seconds;
  }
  StageRun Run(StageSet set, std::mt19937_64* random) const {
    std::normal_distribution<double> normal;
    const double seconds = Seconds(set) + noise_seconds * normal(*random);
    return {.set = set,
            .joules = idle_watts * seconds + Net(set) + noise_joules * normal(*random),
            .seconds = seconds};
  }

  // Its power over blocks of time. Stages move together, as in a pipeline, unless they are
  // dithered: then each runs in the blocks in which the schedule does not pause it.
  std::array<double, kStages> stage_watts = {20, 30, 80};
  std::vector<Observation> Blocks(std::span<const DitherBlock> schedule, double noise_watts,
                                  std::mt19937_64* random) const {
    std::normal_distribution<double> normal;
    std::vector<Observation> blocks;
    for (const DitherBlock& block : schedule) {
      const double pace = 0.7 + 0.1 * normal(*random);
      Observation observation{.seconds = block.seconds, .watts = idle_watts, .activities = {}};
      for (size_t i = 0; i < kStages; ++i) {
        const bool paused = block.paused.Has(static_cast<Stage>(i));
        const double activity = paused ? 0 : pace + 0.005 * normal(*random);
        observation.activities.push_back(activity);
        observation.watts += stage_watts[i] * activity;
      }
      observation.watts += noise_watts * normal(*random);
      blocks.push_back(observation);
    }
    return blocks;
  }
};

}  // namespace emlio::energy_analysis::testing
