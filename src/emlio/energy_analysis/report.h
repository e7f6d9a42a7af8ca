// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "emlio/base/status.h"
#include "emlio/energy_analysis/baseline.h"
#include "emlio/energy_analysis/headline.h"
#include "emlio/energy_analysis/run_figures.h"
#include "emlio/energy_analysis/stages.h"
#include "emlio/energy_analysis/statistics.h"

// What a report says of some runs, before it is text, JSON or a page (ANALYSIS.md, "Reports").
namespace emlio::energy_analysis {

inline constexpr char kNotValidated[] = "not validated against a meter";

// What tells hosts of one name, and boots of one host, apart.
struct HostIdentity {
  std::set<std::string> boot_ids = {};
  Facts hardware = {};  // what does not change with a boot: "system.cpu", ...
};
using Hosts = std::map<std::string, HostIdentity>;  // by the names of nodes
void AddHosts(const RunFigures& run, Hosts* hosts);

// A baseline that a report may subtract: that of each "node/domain" beside the sum.
struct NamedBaseline {
  Baseline baseline;
  std::string id = {};  // where it is from
  Hosts hosts = {};     // that it was taken on
};

// kInvalidArgument: names all facts that nobody may say, because a report finds them itself: how
// good the figures are, what they include, and of which runs they are.
Status CheckSaidFacts(const Facts& facts);

// What was said of a host when it was compared with a meter.
struct MeterNote {
  std::string node = {};
  std::string text = {};
};

struct ReportInput {
  std::string title = {};
  std::vector<RunFigures> runs = {};  // repetitions of one job, or a job with different stages
  RunTrace trace;                     // of one of them
  std::string traced_run = {};
  std::vector<RunFigures> against = {};  // repetitions of another job, to compare with
  std::string against_name = {};
  std::optional<NamedBaseline> baseline = {};
  std::string no_baseline = {};  // why there is none
  std::vector<MeterNote> meters = {};
  std::optional<PowerModel> model = {};
  // Said by the user, before those of the runs. Where CheckSaidFacts refuses them there is no
  // headline.
  Facts facts = {};
  std::map<std::string, Facts> node_facts = {};  // the same of each node
  size_t min_stage_runs = 5;
};

// Total and net of anything over the good runs.
struct Quantity {
  std::string name = {};
  std::string detail = {};  // kind and source of a domain; role of a node
  Label label = Label::kNone;
  std::string cause = {};             // why there are none, or why they are outside the total
  std::string fix = {};               // what helps
  std::optional<Summary> total = {};  // none: n/a
  std::optional<Estimate> net = {};
  bool in_total = true;
};

// n, mean and sd of net energies: the scatter of single runs, the baseline's error with it.
// REQUIRES: there are total and net ones.
Summary NetSummary(const Quantity& quantity);

// Energy for a unit of work.
struct PerUnit {
  std::string unit = {};  // "GB", "sample", "epoch"
  Estimate total = {};
  std::optional<Estimate> net = {};
};

// An epoch as one node saw it, over the good runs.
struct EpochEnergy {
  int64_t epoch = 0;
  std::optional<int64_t> rank = {};
  std::string node = {};
  std::string window = {};  // "epoch" where batches are used, "serve" where they are sent
  std::string stage = {};
  size_t windows = 0;  // of all runs
  Summary seconds = {};
  Quantity energy;                     // of the whole node
  std::vector<Quantity> domains = {};  // `detail` is the kind
};

struct Arm {
  std::string name = {};
  std::vector<RunFigures> runs = {};  // all of them
  size_t whole = 0;                   // those of the whole job, not of some of its stages
  size_t good = 0;                    // of these: that ended well and have joules
  Quantity energy;
  Summary seconds = {};
  Summary watts = {};
  std::vector<PerUnit> per_unit = {};
};

// Two ways to the same joules of a GPU: E15.
struct CounterCheck {
  std::string run = {};
  std::string node = {};
  std::string device = {};
  double counter_joules = 0;
  double integrated_joules = 0;
  double gap_percent = 0;
  bool warns = false;  // more than 5 %
};

struct EnergyReport {
  std::string title = {};
  Arm arm;
  std::optional<Arm> against = {};
  std::vector<NamedRatio> ratios = {};  // arm to against; energy, time and mean power
  std::optional<NamedBaseline> baseline = {};
  std::string no_baseline = {};
  std::vector<Quantity> nodes = {};
  std::vector<Quantity> domains = {};
  std::vector<WindowFigures> windows = {};  // of all good runs, summed
  std::vector<EpochEnergy> epochs = {};     // in order, those of one node beside the other's
  size_t epochs_left_out = 0;
  std::optional<Ladder> ladder = {};
  std::optional<Shapley> shapley = {};
  std::string no_stages = {};  // why there are none; empty: there are, or nobody asked
  std::vector<CounterCheck> counter_checks = {};
  std::vector<std::pair<std::string, Figure>> modelled = {};   // never in a sum
  std::vector<std::pair<std::string, Figure>> allocated = {};  // the same
  std::vector<std::string> warnings = {};
  std::string meter = {};  // kNotValidated, or what was found
  RunTrace trace;
  std::string traced_run = {};
  Headline headline_parts;
  std::string headline = {};     // empty: it was refused
  std::string no_headline = {};  // why
};

EnergyReport MakeReport(ReportInput input);

}  // namespace emlio::energy_analysis
