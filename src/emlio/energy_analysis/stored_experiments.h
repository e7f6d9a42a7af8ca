// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "emlio/base/status.h"
#include "emlio/energy/run_store.h"
#include "emlio/energy_analysis/baseline.h"
#include "emlio/energy_analysis/meter_comparison.h"
#include "emlio/energy_analysis/regression.h"
#include "emlio/energy_analysis/report.h"

// Experiments of several runs, as they lie in a store (ANALYSIS.md, "Labels of runs").
namespace emlio::energy_analysis {

// Labels of runs.
inline constexpr char kPurposeLabel[] = "purpose";        // "baseline", "stages", ...
inline constexpr char kBaselineLabel[] = "baseline";      // a BaselineKindName
inline constexpr char kExperimentLabel[] = "experiment";  // runs that belong together
inline constexpr char kStagesLabel[] = "stages";          // a StageSet::List
inline constexpr char kMeterNoteKind[] = "meter";         // of a note: what a comparison found

// Whether it has all of them.
bool HasLabels(const energy::Run& run, const std::map<std::string, std::string>& labels);

// The latest baseline of that kind; kNotFound, or why it is refused. With `experiment`: that one.
Result<NamedBaseline> LoadBaseline(energy::RunReader* reader, BaselineKind kind,
                                   const BaselineLimits& limits = {},
                                   const std::string& experiment = {});

// Mean power of each part of a run and how much of it windows of each stage were open: what a
// regression needs. kInvalidArgument when no window has a stage.
struct StageObservations {
  std::vector<std::string> stages;
  std::vector<Observation> observations;
};
Result<StageObservations> LoadObservations(energy::RunReader* reader, const energy::Run& run,
                                           double part_seconds);

// A run as a level of load, a second a part.
Result<MeterLevel> LoadLevel(energy::RunReader* reader, const energy::Run& run, std::string name);

// What comparisons with meters found, of any run of the store.
Result<std::vector<MeterNote>> LoadMeterNotes(energy::RunReader* reader);

}  // namespace emlio::energy_analysis
