// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_analysis/document.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ctime>
#include <map>
#include <utility>

#include "emlio/energy_analysis/numbers.h"

namespace emlio::energy_analysis {
namespace {

constexpr size_t kMaxListedRows = 200;  // of nodes, domains, runs; the rest is counted
constexpr size_t kMaxWarnings = 50;

std::string TimeText(int64_t wall_ns) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC",
                     fmt::gmtime(static_cast<std::time_t>(wall_ns / 1'000'000'000)));
}

std::string NetText(const std::optional<Estimate>& net) {
  return net ? EstimateText(*net, "J") : "n/a";
}

std::string TotalText(const std::optional<Summary>& total) {
  return total ? EstimateText(total->estimate(), "J") : "n/a";
}

std::string LabelText(const Quantity& quantity) { return std::string(LabelName(quantity.label)); }

// The rows that a person can read; how many more there are goes below.
void AddTable(DocumentTable table, Section* section) {
  const size_t rows = table.rows.size();
  if (rows > kMaxListedRows) table.rows.resize(kMaxListedRows);
  section->blocks.emplace_back(std::move(table));
  if (rows > kMaxListedRows) {
    section->blocks.emplace_back(
        Paragraph{.text = fmt::format("... and {} more", rows - kMaxListedRows)});
  }
}

Section HeadlineSection(const EnergyReport& report) {
  Section section{.title = "Headline", .blocks = {}};
  if (!report.headline.empty()) {
    section.blocks.emplace_back(Paragraph{.text = report.headline});
  } else {
    section.blocks.emplace_back(Paragraph{.text = report.no_headline, .warning = true});
  }
  return section;
}

std::vector<std::string> EnergyRow(const std::string& name, const Arm& arm) {
  return {name,
          fmt::format("{} of {}", arm.good, arm.runs.size()),
          TotalText(arm.energy.total),
          NetText(arm.energy.net),
          arm.good > 0 ? EstimateText(arm.seconds.estimate(), "s") : "n/a",
          arm.good > 0 ? EstimateText(arm.watts.estimate(), "W") : "n/a",
          LabelText(arm.energy)};
}

Section EnergySection(const EnergyReport& report) {
  Section section{.title = "Energy", .blocks = {}};
  DocumentTable table{.columns = {{"runs"},
                                  {"counted", true},
                                  {"total", true},
                                  {"net", true},
                                  {"time", true},
                                  {"mean power", true},
                                  {"label"}},
                      .rows = {}};
  table.rows.push_back(EnergyRow(report.arm.name, report.arm));
  if (report.against) table.rows.push_back(EnergyRow(report.against->name, *report.against));
  section.blocks.emplace_back(std::move(table));
  if (!report.arm.energy.total) {
    section.blocks.emplace_back(Paragraph{
        .text = fmt::format("There are no joules: {}", report.arm.energy.cause), .warning = true});
  }
  if (report.baseline) {
    const Baseline& baseline = report.baseline->baseline;
    section.blocks.emplace_back(Paragraph{
        .text = fmt::format("Net is total minus the baseline {} ({}): {} × time; {} runs, {}.",
                            BaselineKindName(baseline.kind), report.baseline->id,
                            EstimateText(baseline.watts.estimate(), "W"), baseline.runs,
                            SecondsText(baseline.seconds))});
  } else {
    section.blocks.emplace_back(
        Paragraph{.text = fmt::format("No baseline was subtracted: {}. Totals hold what the hosts "
                                      "use at rest too, so that energy follows time.",
                                      report.no_baseline)});
  }
  section.blocks.emplace_back(Paragraph{
      .text = "After ± is half of the 95 % interval of the mean. " +
              (report.meter == kNotValidated ? fmt::format("These figures are {}.", kNotValidated)
                                             : fmt::format("Against a meter: {}.", report.meter))});
  return section;
}

Section PerUnitSection(const EnergyReport& report) {
  Section section{.title = "Energy for work", .blocks = {}};
  DocumentTable table{.columns = {{"joules for a"}, {"total", true}, {"net", true}}, .rows = {}};
  for (const PerUnit& per : report.arm.per_unit) {
    table.rows.push_back({per.unit, EstimateText(per.total, "J"), NetText(per.net)});
  }
  section.blocks.emplace_back(std::move(table));
  return section;
}

Section RatioSection(const EnergyReport& report) {
  Section section{.title = fmt::format("{} to {}", report.arm.name, report.against->name),
                  .blocks = {}};
  DocumentTable table{.columns = {{"ratio of means"}, {"value"}}, .rows = {}};
  for (const NamedRatio& ratio : report.ratios) {
    table.rows.push_back({ratio.name, RatioText(ratio.ratio)});
  }
  section.blocks.emplace_back(std::move(table));
  section.blocks.emplace_back(Paragraph{
      .text = "Energy is mean power times time: where energy and time have the same ratio, nothing "
              "but the time was saved."});
  return section;
}

Section PowerSection(const EnergyReport& report) {
  Section section{.title = fmt::format("Power over time, run {}", report.traced_run), .blocks = {}};
  PowerPlot plot{.seconds = report.trace.seconds, .series = {}, .spans = report.trace.spans};
  size_t parts = 0;
  for (const auto& [kind, trace] : report.trace.by_kind) {
    PowerPlot::Series series{.name = kind, .watts = {}};
    parts = trace.parts();
    for (size_t i = 0; i < parts; ++i) series.watts.push_back(trace.Watts(i));
    plot.series.push_back(std::move(series));
  }
  const double part_seconds = parts > 0 ? report.trace.seconds / static_cast<double>(parts) : 0;
  section.blocks.emplace_back(std::move(plot));
  section.blocks.emplace_back(
      Paragraph{.text = fmt::format(
                    "Domains of the total, all nodes together, one upon the other; mean power "
                    "over {}. Shaded: windows{}.",
                    SecondsText(part_seconds),
                    report.trace.spans_left_out > 0
                        ? fmt::format(" (the first {} of {})", report.trace.spans.size(),
                                      report.trace.spans.size() + report.trace.spans_left_out)
                        : "")});
  return section;
}

void AddStageRow(const StageEnergy& energy, DocumentTable* table, BarPlot* plot) {
  table->rows.push_back({energy.name, EstimateText(energy.total, "J"), NetText(energy.net),
                         EstimateText(energy.seconds, "s")});
  const Estimate& shown = energy.net ? *energy.net : energy.total;
  if (plot != nullptr) {
    plot->bars.push_back(
        {.name = energy.name, .value = shown.value, .interval = shown.confidence()});
  }
}

void AddSets(const std::vector<StageSetMean>& sets, Section* section) {
  DocumentTable table{.columns = {{"stages run"},
                                  {"n", true},
                                  {"total", true},
                                  {"net", true},
                                  {"time", true},
                                  {"mean power", true}},
                      .rows = {}};
  for (const StageSetMean& set : sets) {
    table.rows.push_back({set.set.Name(), std::to_string(set.n),
                          EstimateText(set.joules.estimate(), "J"), NetText(set.net),
                          EstimateText(set.seconds.estimate(), "s"),
                          EstimateText(set.watts.estimate(), "W")});
  }
  section->blocks.emplace_back(std::move(table));
}

DocumentTable StageTable(const char* title) {
  return {.columns = {{title}, {"total", true}, {"net", true}, {"time", true}}, .rows = {}};
}

Section LadderSection(const Ladder& ladder) {
  Section section{.title = "Stages: marginal energies of the ladder", .blocks = {}};
  AddSets(ladder.sets, &section);
  DocumentTable table = StageTable("stage");
  BarPlot plot{.unit = "J", .bars = {}};
  for (const StageEnergy& stage : ladder.marginal) AddStageRow(stage, &table, &plot);
  AddStageRow(ladder.train_alone, &table, &plot);
  AddStageRow(ladder.interaction, &table, &plot);
  AddStageRow(ladder.whole, &table, nullptr);
  section.blocks.emplace_back(std::move(table));
  section.blocks.emplace_back(std::move(plot));
  section.blocks.emplace_back(Paragraph{
      .text = fmt::format(
          "Label: derived. read = E(R), preprocess = E(R+P) - E(R), train = E(R+P+T) - E(R+P), "
          "true "
          "for this order only; interaction = E(R+P+T) - E(R+P) - E(T). Bars are {} energies with "
          "intervals of 95 %.{}",
          ladder.whole.net ? "net" : "total",
          ladder.whole.net ? fmt::format(" Net I/O energy (read): {}.",
                                         EstimateText(*ladder.marginal[0].net, "J"))
                           : "")});
  return section;
}

Section ShapleySection(const Shapley& shapley) {
  Section section{.title = "Stages: Shapley shares", .blocks = {}};
  AddSets(shapley.sets, &section);
  DocumentTable table = StageTable("stage");
  BarPlot plot{.unit = "J", .bars = {}};
  for (const StageEnergy& stage : shapley.shares) AddStageRow(stage, &table, &plot);
  AddStageRow(shapley.whole, &table, nullptr);
  section.blocks.emplace_back(std::move(table));
  section.blocks.emplace_back(std::move(plot));
  section.blocks.emplace_back(Paragraph{
      .text =
          "Label: derived. What each stage adds, averaged over all orders; shares add up to the "
          "whole."});
  return section;
}

void AddQuantities(const std::vector<Quantity>& quantities, const char* title, Section* section) {
  DocumentTable table{
      .columns = {{title}, {"what"}, {"total", true}, {"net", true}, {"label"}, {"remark"}},
      .rows = {}};
  for (const Quantity& quantity : quantities) {
    std::string remark = quantity.cause;
    if (!quantity.in_total) remark = "outside the total: " + remark;
    table.rows.push_back({quantity.name, quantity.detail, TotalText(quantity.total),
                          quantity.in_total ? NetText(quantity.net) : "", LabelText(quantity),
                          std::move(remark)});
  }
  AddTable(std::move(table), section);
}

Section WindowSection(const EnergyReport& report) {
  Section section{.title = "Windows", .blocks = {}};
  DocumentTable table{
      .columns =
          {{"stage"}, {"window"}, {"number", true}, {"time", true}, {"energy", true}, {"remark"}},
      .rows = {}};
  for (const WindowFigures& window : report.windows) {
    table.rows.push_back(
        {window.stage, window.name, std::to_string(window.windows), SecondsText(window.seconds),
         JoulesText(window.energy.joules),
         window.energy.joules ? std::string(LabelName(window.energy.label)) : window.energy.cause});
  }
  AddTable(std::move(table), &section);
  section.blocks.emplace_back(Paragraph{
      .text = "All counted runs together. A joule counts in every window that is open when it is "
              "used: sums over windows that overlap are not energies of stages."});
  return section;
}

Section ProxySection(const EnergyReport& report) {
  Section section{.title = "Proxy, not energy", .blocks = {}};
  DocumentTable table{.columns = {{"window"},
                                  {"CPU-seconds", true},
                                  {"GPU-seconds", true},
                                  {"read", true},
                                  {"sent", true},
                                  {"delivered", true},
                                  {"records", true}},
                      .rows = {}};
  const auto bytes = [](const std::optional<int64_t>& value) {
    return value ? WithUnit(static_cast<double>(*value), "B") : std::string("n/a");
  };
  const auto seconds = [](const std::optional<double>& value) {
    return value ? SecondsText(*value) : std::string("n/a");
  };
  for (const WindowFigures& window : report.windows) {
    const energy::Proxies& proxies = window.proxies;
    if (proxies == energy::Proxies{}) continue;
    table.rows.push_back(
        {window.stage.empty() ? window.name : fmt::format("{} {}", window.stage, window.name),
         seconds(proxies.cpu_seconds), seconds(proxies.gpu_seconds), bytes(proxies.bytes_read),
         bytes(proxies.bytes_sent), bytes(proxies.bytes_delivered),
         proxies.records_delivered ? std::to_string(*proxies.records_delivered) : "n/a"});
  }
  if (!table.rows.empty()) AddTable(std::move(table), &section);
  return section;
}

Section OtherJoulesSection(const std::vector<std::pair<std::string, Figure>>& figures,
                           const char* title) {
  Section section{.title = title, .blocks = {}};
  DocumentTable table{.columns = {{"of"}, {"energy", true}, {"label"}, {"remark"}}, .rows = {}};
  for (const auto& [name, figure] : figures) {
    table.rows.push_back(
        {name, figure.joules ? WithSpread(*figure.joules, figure.uncertainty_joules, "J") : "n/a",
         std::string(LabelName(figure.label)), figure.cause});
  }
  AddTable(std::move(table), &section);
  return section;
}

Section CounterSection(const EnergyReport& report) {
  Section section{.title = "Counters against integrated power", .blocks = {}};
  DocumentTable table{.columns = {{"run"},
                                  {"GPU"},
                                  {"counter", true},
                                  {"integrated power", true},
                                  {"difference", true}},
                      .rows = {}};
  for (const CounterCheck& check : report.counter_checks) {
    table.rows.push_back(
        {check.run, fmt::format("{}/{}", check.node, check.device),
         JoulesText(check.counter_joules), JoulesText(check.integrated_joules),
         fmt::format("{:+.1f} %{}", check.gap_percent, check.warns ? " (warning)" : "")});
  }
  AddTable(std::move(table), &section);
  return section;
}

void AddRuns(const Arm& arm, DocumentTable* table) {
  for (const RunFigures& run : arm.runs) {
    const auto stages = run.labels.find("stages");
    const bool bad = !run.failure.empty();
    table->rows.push_back(
        {run.id, TimeText(run.started_wall_ns), stages == run.labels.end() ? "" : stages->second,
         SecondsText(run.seconds), JoulesText(run.total.joules),
         run.total.joules && run.seconds > 0 ? WithUnit(*run.total.joules / run.seconds, "W")
                                             : "n/a",
         bad ? "failed: " + run.failure
             : (run.total.joules ? "counted" : "n/a: " + run.total.cause)});
  }
}

Section RunSection(const EnergyReport& report) {
  Section section{.title = "All runs", .blocks = {}};
  DocumentTable table{.columns = {{"run"},
                                  {"began"},
                                  {"stages"},
                                  {"time", true},
                                  {"total", true},
                                  {"mean power", true},
                                  {"state"}},
                      .rows = {}};
  AddRuns(report.arm, &table);
  if (report.against) AddRuns(*report.against, &table);
  AddTable(std::move(table), &section);
  return section;
}

Section ConfigurationSection(const EnergyReport& report) {
  Section section{.title = "Configuration", .blocks = {}};
  DocumentTable table{.columns = {{"what"}, {"value"}}, .rows = {}};
  for (const auto& [key, value] : report.headline_parts.facts) {
    if (!value.empty()) table.rows.push_back({key, value});
  }
  for (const HeadlineNode& node : report.headline_parts.nodes) {
    for (const auto& [key, value] : node.facts) {
      table.rows.push_back({fmt::format("{} {}", node.name, key), value});
    }
  }
  AddTable(std::move(table), &section);
  return section;
}

}  // namespace

Document DocumentOf(const EnergyReport& report) {
  Document document{.title = report.title, .sections = {}};
  auto& sections = document.sections;
  sections.push_back(HeadlineSection(report));
  sections.push_back(EnergySection(report));
  if (!report.warnings.empty()) {
    Section section{.title = "Mind", .blocks = {}};
    for (size_t i = 0; i < report.warnings.size() && i < kMaxWarnings; ++i) {
      section.blocks.emplace_back(Paragraph{.text = report.warnings[i], .warning = true});
    }
    if (report.warnings.size() > kMaxWarnings) {
      section.blocks.emplace_back(
          Paragraph{.text = fmt::format("... and {} more", report.warnings.size() - kMaxWarnings),
                    .warning = true});
    }
    sections.push_back(std::move(section));
  }
  if (!report.arm.per_unit.empty()) sections.push_back(PerUnitSection(report));
  if (report.against) sections.push_back(RatioSection(report));
  if (!report.trace.by_kind.empty()) sections.push_back(PowerSection(report));
  if (report.ladder) sections.push_back(LadderSection(*report.ladder));
  if (report.shapley) sections.push_back(ShapleySection(*report.shapley));
  if (!report.no_stages.empty()) {
    Section section{.title = "Stages", .blocks = {}};
    section.blocks.emplace_back(
        Paragraph{.text = "Not given: " + report.no_stages, .warning = true});
    sections.push_back(std::move(section));
  }
  if (!report.nodes.empty()) {
    Section section{.title = "Nodes and domains", .blocks = {}};
    AddQuantities(report.nodes, "node", &section);
    AddQuantities(report.domains, "domain", &section);
    sections.push_back(std::move(section));
  }
  if (!report.windows.empty()) sections.push_back(WindowSection(report));
  if (Section proxies = ProxySection(report); !proxies.blocks.empty()) {
    sections.push_back(std::move(proxies));
  }
  if (!report.counter_checks.empty()) sections.push_back(CounterSection(report));
  if (!report.allocated.empty()) {
    sections.push_back(
        OtherJoulesSection(report.allocated, "Allocated by CPU time: in no total, no ratio"));
  }
  if (!report.modelled.empty()) {
    sections.push_back(
        OtherJoulesSection(report.modelled, "Modelled, not measured: in no total, no ratio"));
  }
  sections.push_back(RunSection(report));
  sections.push_back(ConfigurationSection(report));
  return document;
}

}  // namespace emlio::energy_analysis
