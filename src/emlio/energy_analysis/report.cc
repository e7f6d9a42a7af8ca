// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_analysis/report.h"

#include "emlio/energy_analysis/report_parts.h"

namespace emlio::energy_analysis {

EnergyReport MakeReport(ReportInput input) {
  CompleteFacts(input.facts, &input.runs);
  CompleteFacts(input.facts, &input.against);
  EnergyReport report;
  report.title = input.title;
  report.baseline = input.baseline;
  report.no_baseline = input.no_baseline;
  if (report.baseline) {
    auto good = GoodRuns(input.runs);
    for (const RunFigures* run : GoodRuns(input.against)) good.push_back(run);
    if (auto mismatch = BaselineMismatch(*report.baseline, good); !mismatch.empty()) {
      report.baseline.reset();
      report.no_baseline = std::move(mismatch);
    }
  }
  report.arm = MakeArm("these runs", std::move(input.runs), report.baseline);
  if (!input.against.empty()) {
    report.against = MakeArm(input.against_name, std::move(input.against), report.baseline);
  }
  AddNodesAndDomains(report.baseline, &report);
  AddWindows(&report);
  AddEpochs(report.baseline, &report);
  AddStages(input, &report);
  if (report.title.find("I/O energy") != std::string::npos &&
      !(report.ladder && report.ladder->whole.net)) {
    report.title = "Energy report";
    report.warnings.push_back(
        "the title spoke of I/O energy, which is the net energy of a stage and nothing else");
  }
  AddCounterChecks(&report);
  AddRatios(&report);
  AddModelled(input, &report);
  AddAllocated(&report);
  JudgeClocks(&report);
  AddMixtureWarnings(report.arm, &report.warnings);
  if (report.against) AddMixtureWarnings(*report.against, &report.warnings);
  AddWorkWarnings(report.arm, &report.warnings);
  if (report.against) AddWorkWarnings(*report.against, &report.warnings);
  AddBaselineWarnings(&report);
  AddQualityWarnings(&report);
  report.meter = MeterText(input, report.arm);
  report.trace = std::move(input.trace);
  report.traced_run = std::move(input.traced_run);
  AddHeadline(input, &report);
  return report;
}

}  // namespace emlio::energy_analysis
