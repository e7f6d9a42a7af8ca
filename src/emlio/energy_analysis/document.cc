// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_analysis/document.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "emlio/energy_analysis/numbers.h"

namespace emlio::energy_analysis {
namespace {

constexpr size_t kMaxListedRows = 200;  // of nodes, domains, runs; the rest is counted
constexpr size_t kMaxWarnings = 50;
constexpr std::string_view kLacks = "no headline: it lacks";  // HeadlineText

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

// Reasons, which are the same for many rows and may be long: said once, and referred to by number.
class Notes {
 public:
  // What stands in a row: the reason if it is short, else its number. A reason that ends like an
  // earlier one, as that of a sum ends like that of its part, has the same number.
  std::string Remark(const std::string& cause, const std::string& fix) {
    const std::string whole = fix.empty() ? cause : fmt::format("{}; fix: {}", cause, fix);
    if (whole.size() <= kMaxInline) return whole;
    for (size_t i = 0; i < notes_.size(); ++i) {
      if (!cause.ends_with(notes_[i].cause)) continue;
      const size_t before = cause.size() - notes_[i].cause.size();
      return fmt::format("{}note {}", cause.substr(0, before), i + 1);
    }
    notes_.push_back({cause, fix});
    return fmt::format("note {}", notes_.size());
  }
  std::string Remark(const Quantity& quantity) { return Remark(quantity.cause, quantity.fix); }
  std::string Remark(const Figure& figure) { return Remark(figure.cause, figure.fix); }

  Section Finish() const {
    Section section{.title = "What is n/a, and why", .blocks = {}};
    for (size_t i = 0; i < notes_.size() && i < kMaxListedRows; ++i) {
      const auto& [cause, fix] = notes_[i];
      section.blocks.emplace_back(
          Paragraph{.text = fmt::format("Note {}: {}.{}", i + 1, cause,
                                        fix.empty() ? "" : fmt::format(" Fix: {}.", fix))});
    }
    return section;
  }

 private:
  static constexpr size_t kMaxInline = 60;
  struct Note {
    std::string cause;
    std::string fix;
  };
  std::vector<Note> notes_;
};

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
    for (const HeadlineGroup& group : HeadlineDetail(report.headline_parts)) {
      section.blocks.emplace_back(Paragraph{.text = fmt::format("{}: {}", group.name, group.text)});
    }
    return section;
  }
  const auto missing = MissingFields(report.headline_parts);
  if (missing.empty() || !report.no_headline.starts_with(kLacks)) {
    section.blocks.emplace_back(Paragraph{.text = report.no_headline, .warning = true});
    return section;
  }
  section.blocks.emplace_back(
      Paragraph{.text = fmt::format("There is no headline: a figure without its configuration "
                                    "cannot be compared. Missing are {} facts; --facts FILE takes "
                                    "them.",
                                    missing.size()),
                .warning = true});
  // "node a: system.cpu (model)": a line for each group. Nodes that lack the same share one.
  std::vector<std::string> order;
  std::map<std::string, std::string> of_group;
  for (const std::string& field : missing) {
    const size_t key = field.rfind(": ", field.rfind(" ("));
    const std::string node = key == std::string::npos ? "" : field.substr(0, key + 2);
    const std::string rest = field.substr(node.size());
    const size_t dot = std::min(rest.find('.'), rest.find(' '));
    const auto [group, is_new] = of_group.try_emplace(node + rest.substr(0, dot));
    if (is_new) order.push_back(group->first);
    group->second += (is_new ? "" : ", ") + rest.substr(dot + 1);
  }
  std::map<std::string, std::vector<std::string>> groups;  // by what they lack
  for (const std::string& group : order) groups[of_group[group]].push_back(group);
  for (const std::string& group : order) {
    const std::string& lacks = of_group[group];
    const std::vector<std::string>& same = groups[lacks];
    if (same.front() != group) continue;
    const size_t shown = std::min<size_t>(same.size(), 3);
    const auto end = same.begin() + static_cast<std::ptrdiff_t>(shown);
    section.blocks.emplace_back(Paragraph{
        .text = fmt::format(
            "{}{}: {}", fmt::join(same.begin(), end, ", "),
            same.size() > shown ? fmt::format(" and {} more", same.size() - shown) : "", lacks)});
  }
  return section;
}

std::vector<std::string> EnergyRow(const std::string& name, const Arm& arm) {
  return {name,
          fmt::format("{} of {}", arm.good, arm.whole),
          TotalText(arm.energy.total),
          NetText(arm.energy.net),
          arm.good > 0 ? EstimateText(arm.seconds.estimate(), "s") : "n/a",
          arm.good > 0 ? EstimateText(arm.watts.estimate(), "W") : "n/a",
          LabelText(arm.energy)};
}

Section EnergySection(const EnergyReport& report, Notes* notes) {
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
  if (report.arm.whole < report.arm.runs.size()) {
    section.blocks.emplace_back(
        Paragraph{.text = fmt::format("{} more runs are of some of the job's stages only.",
                                      report.arm.runs.size() - report.arm.whole)});
  }
  if (!report.arm.energy.total) {
    section.blocks.emplace_back(
        Paragraph{.text = fmt::format("There are no joules: {}", notes->Remark(report.arm.energy)),
                  .warning = true});
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
  DocumentTable arms{.columns = {{"runs"}, {"n", true}, {"of"}, {"mean", true}, {"sd", true}},
                     .rows = {}};
  for (const Arm* arm : {&report.arm, &*report.against}) {
    const auto add = [&](const char* what, const Summary& summary, const char* unit) {
      arms.rows.push_back({arm->name, std::to_string(summary.n), what, WithUnit(summary.mean, unit),
                           summary.n > 1 ? WithUnit(summary.sd, unit) : "n/a"});
    };
    if (!arm->energy.total) continue;
    add("total energy", *arm->energy.total, "J");
    if (arm->energy.net) add("net energy", NetSummary(arm->energy), "J");
    add("time", arm->seconds, "s");
    add("mean power", arm->watts, "W");
  }
  section.blocks.emplace_back(std::move(arms));
  DocumentTable table{.columns = {{"ratio of means"}, {"value"}}, .rows = {}};
  for (const NamedRatio& ratio : report.ratios) {
    table.rows.push_back({ratio.name, RatioText(ratio.ratio)});
  }
  if (!table.rows.empty()) section.blocks.emplace_back(std::move(table));
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
                    "over {}. Hatched: not known. Shaded: windows{}.{}",
                    SecondsText(part_seconds),
                    report.trace.spans_left_out > 0
                        ? fmt::format(" (the first {} of {})", report.trace.spans.size(),
                                      report.trace.spans.size() + report.trace.spans_left_out)
                        : "",
                    report.trace.silent_nodes.empty()
                        ? ""
                        : fmt::format(" Without {}: the store has their energies and no samples.",
                                      fmt::join(report.trace.silent_nodes, ", ")))});
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

void AddQuantities(const std::vector<Quantity>& quantities, const char* title, Notes* notes,
                   Section* section) {
  DocumentTable table{
      .columns = {{title}, {"what"}, {"total", true}, {"net", true}, {"label"}, {"remark"}},
      .rows = {}};
  for (const Quantity& quantity : quantities) {
    std::string remark = notes->Remark(quantity);
    if (!quantity.in_total) remark = "outside the total: " + remark;
    table.rows.push_back({quantity.name, quantity.detail, TotalText(quantity.total),
                          quantity.in_total ? NetText(quantity.net) : "", LabelText(quantity),
                          std::move(remark)});
  }
  AddTable(std::move(table), section);
}

Section WindowSection(const EnergyReport& report, Notes* notes) {
  Section section{.title = "Windows", .blocks = {}};
  DocumentTable table{.columns = {{"stage"},
                                  {"window"},
                                  {"number", true},
                                  {"nodes", true},
                                  {"time", true},
                                  {"energy", true},
                                  {"remark"}},
                      .rows = {}};
  for (const WindowFigures& window : report.windows) {
    table.rows.push_back({window.stage, window.name, std::to_string(window.windows),
                          std::to_string(window.nodes), SecondsText(window.seconds),
                          JoulesText(window.energy.joules),
                          window.energy.joules ? std::string(LabelName(window.energy.label))
                                               : notes->Remark(window.energy)});
  }
  AddTable(std::move(table), &section);
  section.blocks.emplace_back(
      Paragraph{.text = "All counted runs together, of the nodes that have such windows. A joule "
                        "counts in every window that is open when it is "
                        "used: sums over windows that overlap are not energies of stages."});
  return section;
}

// Joules of a row's domains of one kind that are in the total.
std::string KindText(const EpochEnergy& epoch, const std::string& kind) {
  double joules = 0;
  bool any = false;
  for (const Quantity& domain : epoch.domains) {
    if (!domain.in_total || domain.detail != kind) continue;
    if (!domain.total) return "n/a";
    joules += domain.total->mean;
    any = true;
  }
  return any ? WithUnit(joules, "J") : "";
}

Section EpochSection(const EnergyReport& report, Notes* notes) {
  Section section{.title = "Epochs", .blocks = {}};
  std::vector<std::string> kinds;
  bool ranks = false;
  bool nets = false;
  for (const EpochEnergy& epoch : report.epochs) {
    ranks |= epoch.rank.has_value();
    nets |= epoch.energy.net.has_value();
    for (const Quantity& domain : epoch.domains) {
      if (domain.in_total && std::find(kinds.begin(), kinds.end(), domain.detail) == kinds.end()) {
        kinds.push_back(domain.detail);
      }
    }
  }
  DocumentTable table{.columns = {{"epoch", true}, {"node"}, {"window"}, {"number", true}},
                      .rows = {}};
  const auto column = [&](const std::string& title, bool right) {
    table.columns.push_back({title, right});
  };
  if (ranks) column("rank", true);
  column("time", true);
  column("total", true);
  if (nets) column("net", true);
  column("mean power", true);
  for (const std::string& kind : kinds) column(kind, true);
  column("remark", false);
  for (const EpochEnergy& epoch : report.epochs) {
    const auto& total = epoch.energy.total;
    std::vector<std::string> row = {
        std::to_string(epoch.epoch), epoch.node,
        epoch.stage.empty() ? epoch.window : fmt::format("{} {}", epoch.stage, epoch.window),
        std::to_string(epoch.windows)};
    if (ranks) row.push_back(epoch.rank ? std::to_string(*epoch.rank) : "");
    row.push_back(epoch.seconds.n > 1 ? EstimateText(epoch.seconds.estimate(), "s")
                                      : SecondsText(epoch.seconds.mean));
    row.push_back(!total ? "n/a" : total->n > 1 ? TotalText(total) : JoulesText(total->mean));
    if (nets) row.push_back(NetText(epoch.energy.net));
    row.push_back(total && epoch.seconds.mean > 0 ? WithUnit(total->mean / epoch.seconds.mean, "W")
                                                  : "n/a");
    for (const std::string& kind : kinds) row.push_back(KindText(epoch, kind));
    row.push_back(total ? LabelText(epoch.energy) : notes->Remark(epoch.energy));
    table.rows.push_back(std::move(row));
  }
  AddTable(std::move(table), &section);
  section.blocks.emplace_back(Paragraph{
      .text = fmt::format(
          "Each row is what a whole node used while these windows were open, the mean of the "
          "counted runs; by kind of domain behind it. Ranks of one node share its joules, and what "
          "a "
          "storage node sends ahead falls into an earlier epoch's time.{}",
          report.epochs_left_out > 0
              ? fmt::format(" {} more windows are not listed.", report.epochs_left_out)
              : "")});
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

void AddRuns(const Arm& arm, Notes* notes, DocumentTable* table) {
  for (const RunFigures& run : arm.runs) {
    const auto stages = run.labels.find("stages");
    const bool bad = !run.failure.empty();
    table->rows.push_back(
        {run.id, TimeText(run.started_wall_ns), stages == run.labels.end() ? "" : stages->second,
         SecondsText(run.seconds), JoulesText(run.total.joules),
         run.total.joules && run.seconds > 0 ? WithUnit(*run.total.joules / run.seconds, "W")
                                             : "n/a",
         bad ? "failed: " + run.failure
             : (run.total.joules ? "counted" : "n/a: " + notes->Remark(run.total))});
  }
}

Section RunSection(const EnergyReport& report, Notes* notes) {
  Section section{.title = "All runs", .blocks = {}};
  DocumentTable table{.columns = {{"run"},
                                  {"began"},
                                  {"stages"},
                                  {"time", true},
                                  {"total", true},
                                  {"mean power", true},
                                  {"state"}},
                      .rows = {}};
  AddRuns(report.arm, notes, &table);
  if (report.against) AddRuns(*report.against, notes, &table);
  AddTable(std::move(table), &section);
  return section;
}

// What is known of the configuration and does not stand below the headline.
Section ConfigurationSection(const EnergyReport& report) {
  Section section{.title = "Configuration", .blocks = {}};
  DocumentTable table{.columns = {{"what"}, {"value"}}, .rows = {}};
  std::set<std::string> told;
  if (!report.headline.empty()) {
    for (const HeadlineField& field : HeadlineFields()) told.insert(field.key());
  }
  for (const auto& [key, value] : report.headline_parts.facts) {
    if (!value.empty() && !told.contains(key)) table.rows.push_back({key, value});
  }
  // Nodes of which the same is known share a row.
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> nodes;
  for (const HeadlineNode& node : report.headline_parts.nodes) {
    for (const auto& [key, value] : node.facts) {
      if (!told.contains(key)) nodes[{key, value}].push_back(node.name);
    }
  }
  for (const auto& [fact, names] : nodes) {
    table.rows.push_back(
        {fmt::format("{} of {}", fact.first, fmt::join(names, ", ")), fact.second});
  }
  if (!table.rows.empty()) AddTable(std::move(table), &section);
  return section;
}

}  // namespace

Document DocumentOf(const EnergyReport& report) {
  Document document{.title = report.title, .sections = {}};
  auto& sections = document.sections;
  sections.push_back(HeadlineSection(report));
  Notes notes;
  // Those of domains are the shortest: others end like them.
  for (const Quantity& domain : report.domains) {
    if (!domain.total) (void)notes.Remark(domain);
  }
  sections.push_back(EnergySection(report, &notes));
  const auto notes_at = static_cast<std::ptrdiff_t>(sections.size());
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
    AddQuantities(report.nodes, "node", &notes, &section);
    AddQuantities(report.domains, "domain", &notes, &section);
    sections.push_back(std::move(section));
  }
  if (!report.epochs.empty()) sections.push_back(EpochSection(report, &notes));
  if (!report.windows.empty()) sections.push_back(WindowSection(report, &notes));
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
  sections.push_back(RunSection(report, &notes));
  if (Section configuration = ConfigurationSection(report); !configuration.blocks.empty()) {
    sections.push_back(std::move(configuration));
  }
  if (Section why = notes.Finish(); !why.blocks.empty()) {
    sections.insert(sections.begin() + notes_at, std::move(why));
  }
  return document;
}

}  // namespace emlio::energy_analysis
