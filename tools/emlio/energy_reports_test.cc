// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0

// `emlio energy report` and `emlio energy meter` as they are called, on stores whose runs last as
// long as baselines and meters need: minutes that no test can wait for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "emlio/energy_analysis/headline.h"
#include "emlio/energy_analysis/report.h"
#include "emlio/energy_analysis/testing/recorded_runs.h"
#include "energy_commands.h"

namespace emlio::tool {
namespace {

using energy_analysis::testing::Record;
using energy_analysis::testing::RecordedNode;
using energy_analysis::testing::RecordedRun;
using energy_analysis::testing::RecordedStore;
using energy_analysis::testing::RunOfTwoNodes;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kBeginWallNs = 1'800'000'000 * kNsPerSecond;

class EnergyReportsTest : public ::testing::Test {
 protected:
  std::string File(const std::string& name) const { return folder_.File(name); }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(File(name)) << text;
  }
  static std::string Read(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  static std::string Printed() {  // in one line
    std::istringstream words(::testing::internal::GetCapturedStdout());
    std::string line;
    for (std::string word; words >> word;) line += (line.empty() ? "" : " ") + word;
    return line;
  }

  // What a report says, as people and as programs read it.
  struct Said {
    json object;
    std::string text;
    std::string page;
  };
  Said Report(EnergyReportCommand command, int exit_code = 0) {
    command.store = store_.path();
    command.json = File("report.json");
    command.html = File("report.html");
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(RunEnergyReport(command), exit_code);
    Said said;
    said.text = Printed();
    said.object = json::parse(Read(command.json));
    said.page = Read(command.html);
    return said;
  }
  json Meter(EnergyMeterCommand command, int exit_code) {
    command.store = store_.path();
    command.json = File("meter.json");
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(RunEnergyMeter(command), exit_code);
    meter_text_ = Printed();
    return json::parse(Read(command.json));
  }

  RecordedStore store_;
  std::string meter_text_;

 private:
  energy::testing::TemporaryFolder folder_;
};

// Everything that a headline needs and a report does not find itself.
json AllFacts(const std::set<std::string>& nodes) {
  json facts = json::object();
  for (const energy_analysis::HeadlineField& field : energy_analysis::HeadlineFields()) {
    const std::string group(field.group);
    const std::string name(field.name);
    if (field.per_node()) {
      for (const std::string& node : nodes) facts["nodes"][node][name] = "a " + name;
    } else if (energy_analysis::CheckSaidFacts({{field.key(), "x"}}).ok()) {
      facts[group][name] = "a " + name;
    }
  }
  facts["work"]["samples"] = 1000;
  facts["work"]["sample_bytes"] = 2'000'000;
  facts["work"]["epochs"] = 1;
  facts["work"]["bytes"] = 2'000'000'000;
  return facts;
}

TEST_F(EnergyReportsTest, ARunOfTwoNodesIsNetOfItsBaselineWithinOnePercent) {
  for (const char* id : {"b1", "b2", "b3"}) {
    RecordedRun run = RunOfTwoNodes(id, 60, 60, 30, 0.5);
    run.labels = {{"purpose", "baseline"}, {"baseline", "ready"}, {"experiment", "b"}};
    Record(store_.store(), run);
  }
  // Of both, 100 W and 20 W more than at rest; the others take twice as long.
  for (int i = 0; i < 5; ++i) {
    RecordedRun fast = RunOfTwoNodes("f" + std::to_string(i), 30 + 0.1 * i, 160, 50, 1);
    fast.labels = {{"job", "fast"}};
    Record(store_.store(), fast);
    RecordedRun slow = RunOfTwoNodes("s" + std::to_string(i), 60 + 0.2 * i, 160, 50, 1);
    slow.labels = {{"job", "slow"}};
    Record(store_.store(), slow);
  }
  const double seconds = 30.2;
  EnergyReportCommand command;
  command.where = {"job=fast"};
  command.against = {"job=slow"};
  Write("facts.json", AllFacts({"gpu1", "store1"}).dump());
  command.facts = File("facts.json");
  const Said said = Report(command);
  const auto& net = said.object["these"]["energy"]["net_joules"];
  EXPECT_NEAR(net["value"].get<double>(), 120 * seconds, 0.01 * 120 * seconds);
  const auto& total = said.object["these"]["energy"]["total_joules"];
  EXPECT_NEAR(total["mean"].get<double>(), 230 * seconds, 0.01 * 230 * seconds);
  EXPECT_EQ(total["n"], 5);
  ASSERT_EQ(said.object["nodes"].size(), 2U);
  EXPECT_NEAR(said.object["nodes"][0]["net_joules"]["value"].get<double>(), 100 * seconds, seconds);
  EXPECT_NEAR(said.object["nodes"][1]["net_joules"]["value"].get<double>(), 20 * seconds,
              0.2 * seconds);
  EXPECT_EQ(said.object["baseline"]["kind"], "ready");
  EXPECT_EQ(said.object["baseline"]["runs"], 3);
  EXPECT_THAT(said.text, HasSubstr("Net is total minus the baseline ready (b)"));
  // Half of the energy, for half of the time; the power is the same.
  for (const auto& [name, truth] :
       {std::pair{"total energy", 0.5}, {"net energy", 0.5}, {"time", 0.5}, {"mean power", 1.0}}) {
    const auto& ratio = said.object["ratios"][name];
    EXPECT_NEAR(ratio["value"].get<double>(), truth, 0.01 * truth) << name;
    EXPECT_LT(ratio["interval_95"][0].get<double>(), ratio["interval_95"][1].get<double>());
  }
  EXPECT_EQ(said.object["against"]["energy"]["total_joules"]["n"], 5);
  EXPECT_NEAR(said.object["against"]["energy"]["net_joules"]["value"].get<double>(), 240 * seconds,
              0.01 * 240 * seconds);

  // The headline, and everything that it depends on below it, for people and programs.
  EXPECT_EQ(said.object["no_headline"], "");
  const auto headline = said.object["headline"].get<std::string>();
  EXPECT_THAT(headline, HasSubstr("net energy 3.6"));
  EXPECT_THAT(headline, HasSubstr("n=5; derived; CPU+DRAM, 1 compute + 1 storage nodes; minus "
                                  "ready baseline) · total 6.9"));
  EXPECT_THAT(headline, HasSubstr("ratios to job=slow (n=5): total energy 0.500 (95 %: "));
  EXPECT_THAT(said.page, HasSubstr("minus ready baseline"));
  json detail = said.object["headline_detail"];
  for (const energy_analysis::HeadlineField& field : energy_analysis::HeadlineFields()) {
    bool found = false;
    for (const auto& group : detail) {
      found |= group["group"] == std::string(field.group) &&
               group["text"].get<std::string>().find(std::string(field.name) + ": ") !=
                   std::string::npos;
    }
    EXPECT_TRUE(found) << field.key();
    EXPECT_THAT(said.page, HasSubstr(std::string(field.name) + ": "));
  }
  EXPECT_THAT(said.text, HasSubstr("run_ids: f0, f1, f2, f3, f4; failed: none"));
}

TEST_F(EnergyReportsTest, AMeterIsComparedAndWhatWasFoundStandsInReports) {
  int64_t wall_ns = kBeginWallNs;
  std::string csv = "time,watts\n";
  std::string redfish;
  EnergyMeterCommand meter;
  for (const double load : {0.0, 30.0, 90.0}) {
    RecordedRun run{.id = "level" + std::to_string(meter.level_runs.size()), .seconds = 302};
    run.start_wall_ns = wall_ns;
    run.nodes[0].watts = [=](size_t domain, double seconds) {
      return 10 + (domain == 0 ? load : 0) + 0.3 * std::sin(seconds / 9);
    };
    Record(store_.store(), run);
    meter.level_runs.push_back(run.id);
    for (int second = 0; second < 310; ++second) {
      const double own = 40 + load + 1.2 * std::sin(second / 9.0);
      const double unix_s = static_cast<double>(wall_ns) * 1e-9 + second + 2;  // it is late
      csv += std::to_string(unix_s) + "," + std::to_string(20 + 1.1 * own) + "\n";
      redfish +=
          json{{"time", unix_s}, {"PowerWatts", {{"Reading", 20 + 1.1 * own}}}}.dump() + "\n";
    }
    wall_ns += 310 * kNsPerSecond;
  }
  EnergyReportCommand command;
  command.runs = {"level2"};
  EXPECT_THAT(Report(command).text, HasSubstr("not validated against a meter"));

  Write("series.csv", csv);
  meter.series = File("series.csv");
  meter.instrument = "bench meter 7";
  const json found = Meter(meter, 0);
  const json& comparison = found["comparison"];
  EXPECT_NEAR(comparison["slope"]["value"].get<double>(), 1.1, 0.01);
  EXPECT_NEAR(comparison["offset_watts"]["value"].get<double>(), 20, 1);
  EXPECT_NEAR(comparison["lag_seconds"].get<double>(), 2, 1);
  ASSERT_EQ(comparison["levels"].size(), 3U);
  EXPECT_EQ(comparison["levels"][0]["name"], "idle");
  for (const auto& [level, own] : {std::pair{0, 40.0}, {1, 70.0}, {2, 130.0}}) {
    const json& one = comparison["levels"][level];
    EXPECT_GE(one["spans"].get<int>(), 5);
    EXPECT_NEAR(one["error_percent"]["value"].get<double>(), (own / (20 + 1.1 * own) - 1) * 100,
                0.5);
  }
  EXPECT_THAT(meter_text_, HasSubstr("slope 1.1"));
  EXPECT_THAT(meter_text_, HasSubstr("load 2"));

  const Said said = Report(command);
  EXPECT_THAT(said.object["meter"].get<std::string>(),
              HasSubstr("node1: bench meter 7: slope 1.1"));
  EXPECT_THAT(said.text, HasSubstr("Against a meter: node1: bench meter 7: slope 1.1"));
  EXPECT_THAT(said.text, Not(HasSubstr("not validated")));
  // A job on that host and one more is validated in part only.
  Record(store_.store(), {.id = "two", .nodes = {RecordedNode{}, RecordedNode{.name = "other"}}});
  command.runs = {"two"};
  EXPECT_THAT(Report(command).object["meter"].get<std::string>(),
              HasSubstr("; other: not validated against a meter"));

  // The same series as a BMC tells it.
  Write("series.json", redfish);
  meter.series = File("series.json");
  meter.format = "redfish";
  EXPECT_NEAR(Meter(meter, 0)["comparison"]["slope"]["value"].get<double>(), 1.1, 0.01);
  // Levels in another order are refused, and nothing is kept of it.
  std::swap(meter.level_runs[0], meter.level_runs[2]);
  EXPECT_THAT(Meter(meter, 1)["error"]["message"].get<std::string>(),
              HasSubstr("has to be of the host at rest"));
}

}  // namespace
}  // namespace emlio::tool
