// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "emlio/energy_analysis/report.h"

// The parts that MakeReport (report.cc) puts together, a file each. For report*.cc alone.
namespace emlio::energy_analysis {

// report_runs.cc: which runs are looked at.
//
// It ended well and has joules.
bool IsGood(const RunFigures& run);
std::vector<const RunFigures*> GoodRuns(const std::vector<RunFigures>& runs);
// The runs of a stage experiment that stand for the whole job, or all runs.
std::vector<const RunFigures*> JobRuns(const std::vector<RunFigures>& runs);
// The good ones among them: means are of these.
std::vector<const RunFigures*> CountedRuns(const std::vector<RunFigures>& runs);
// These or, where no run counts, the job's: what there is of them says why.
std::vector<const RunFigures*> ShownRuns(const Arm& arm);
// The domains that its total is the sum of, as "node/domain".
std::set<std::string> SummedDomains(const RunFigures& run);
// "work.bytes", "work.samples" and "work.epochs", as far as the run's windows counted them.
Facts CountedWork(const RunFigures& run);
// What users say comes first; what windows counted stands in for what nobody said.
void CompleteFacts(const Facts& said, std::vector<RunFigures>* runs);
// Why the baseline may not be subtracted from these runs, or nothing: it fits runs of exactly the
// domains that it has, on the hosts that it was taken on.
std::string BaselineMismatch(const NamedBaseline& baseline,
                             const std::vector<const RunFigures*>& runs);

// report_energy.cc: joules and seconds of the runs that count, total and net.
Arm MakeArm(std::string name, std::vector<RunFigures> runs,
            const std::optional<NamedBaseline>& baseline);
void AddNodesAndDomains(const std::optional<NamedBaseline>& baseline, EnergyReport* report);
void AddEpochs(const std::optional<NamedBaseline>& baseline, EnergyReport* report);
void AddWindows(EnergyReport* report);

// report_derived.cc: what is concluded from these joules.
void AddStages(const ReportInput& input, EnergyReport* report);
void AddCounterChecks(EnergyReport* report);
void AddRatios(EnergyReport* report);
void AddModelled(const ReportInput& input, EnergyReport* report);
// A window's share of its host's CPU joules by CPU time, where both are known.
void AddAllocated(EnergyReport* report);

// report_warnings.cc: why the figures may not be what they seem to be.
//
// Windows of several nodes are one only as far as the nodes' clocks are: takes their joules away
// where clocks are too far apart.
void JudgeClocks(EnergyReport* report);
// Runs whose mean is taken are repetitions of one thing; where they may not be, that is said.
void AddMixtureWarnings(const Arm& arm, std::vector<std::string>* warnings);
// What users say of the work is taken instead of what was counted: where both differ, and where
// what they say does not fit together, that is said.
void AddWorkWarnings(const Arm& arm, std::vector<std::string>* warnings);
// A baseline is of the same host; after another boot its idle power may be another one.
void AddBaselineWarnings(EnergyReport* report);
void AddQualityWarnings(EnergyReport* report);

// report_headline.cc: the line on top, with all that has to be known beside a number.
std::string MeterText(const ReportInput& input, const Arm& arm);
// Takes all else from the report: comes last.
void AddHeadline(const ReportInput& input, EnergyReport* report);

}  // namespace emlio::energy_analysis
