// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_sinks/exposition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emlio/energy/accumulator.h"
#include "emlio/energy/testing/store_file.h"

namespace emlio::energy_sinks {
namespace {

using energy::Domain;
using energy::DomainKind;
using energy::Sample;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<Domain> Domains() {
  std::vector<Domain> domains;
  domains.push_back(energy::MakeDomain(DomainKind::kPackage, "perf", 0, -1));
  domains.push_back(energy::MakeDomain(DomainKind::kCore, "perf", 0, -1));
  domains.push_back(energy::MakeDomain(DomainKind::kGpu, "nvml", -1, -1));
  domains[0].in_total = domains[2].in_total = true;
  domains[2].id = "gpu-GPU-1";
  domains[2].device = "GPU-1";
  return domains;
}

std::vector<Sample> Samples() {
  std::vector<Sample> samples(3);
  samples[0].joules = 12.5;
  samples[0].wraps = 2;
  samples[0].void_ns = 500'000'000;
  samples[1].joules = 7;
  samples[2].joules = 30;
  return samples;
}

TEST(ExpositionTest, WhatOverlapsIsAMetricOfItsOwn) {
  const std::string text = ExpositionText(MetricNames::kEmlio, "n", Domains(), Samples(), {});
  EXPECT_THAT(text, HasSubstr("# TYPE emlio_energy_joules_total counter\n"
                              "emlio_energy_joules_total{node=\"n\",domain=\"package-0\",kind="
                              "\"package\",source=\"perf\",device=\"\"} 12.5\n"
                              "emlio_energy_joules_total{node=\"n\",domain=\"gpu-GPU-1\",kind="
                              "\"gpu\",source=\"nvml\",device=\"GPU-1\"} 30\n#"));
  EXPECT_THAT(text, HasSubstr("emlio_energy_overlapping_joules_total{node=\"n\",domain=\"core-0\","
                              "kind=\"core\",source=\"perf\",device=\"\"} 7\n#"));
  EXPECT_THAT(text, HasSubstr("emlio_energy_void_seconds_total{node=\"n\",domain=\"package-0\","
                              "kind=\"package\",source=\"perf\",device=\"\"} 0.5\n"));
  EXPECT_THAT(text, HasSubstr("emlio_energy_wraps_total{node=\"n\",domain=\"package-0\",kind="
                              "\"package\",source=\"perf\",device=\"\"} 2\n"));
}

TEST(ExpositionTest, WhatCannotBeReadHasAReasonAndNoNumber) {
  auto domains = Domains();
  domains[0].cause = "no \"right\"\nto read C:\\";
  domains[0].fix = "a rule";
  const std::string text = ExpositionText(MetricNames::kEmlio, "n", domains, Samples(), {});
  EXPECT_THAT(text, Not(HasSubstr("joules_total{node=\"n\",domain=\"package-0\"")));
  EXPECT_THAT(text, HasSubstr("emlio_energy_source_info{node=\"n\",domain=\"package-0\",kind="
                              "\"package\",source=\"perf\",device=\"\",state=\"unavailable\","
                              "in_total=\"yes\",cause=\"no \\\"right\\\"\\nto read C:\\\\\",fix="
                              "\"a rule\"} 1\n"));
  const std::string otel = ExpositionText(MetricNames::kOpenTelemetry, "n", domains, Samples(), {});
  EXPECT_THAT(otel, Not(HasSubstr("hw_host_energy")));
}

TEST(ExpositionTest, BeforeTheFirstTickThereAreNoNumbers) {
  const std::string text = ExpositionText(MetricNames::kEmlio, "n", Domains(), {}, {});
  EXPECT_THAT(text, Not(HasSubstr("joules_total{")));
  EXPECT_THAT(text, HasSubstr("emlio_energy_source_info{"));
  EXPECT_THAT(ExpositionText(MetricNames::kOpenTelemetry, "n", Domains(), {}, {}),
              Not(HasSubstr("{")));
}

TEST(ExpositionTest, OpenTelemetryHasComponentsThatAddUpAndTheHostApart) {
  const std::string text =
      ExpositionText(MetricNames::kOpenTelemetry, "n", Domains(), Samples(), {});
  EXPECT_THAT(text, HasSubstr("hw_energy_joules_total{hw_id=\"package-0\",hw_type=\"cpu\","
                              "host_name=\"n\"} 12.5\n"));
  EXPECT_THAT(text, HasSubstr("hw_energy_joules_total{hw_id=\"gpu-GPU-1\",hw_type=\"gpu\","
                              "host_name=\"n\"} 30\n"));
  EXPECT_THAT(text, Not(HasSubstr("core-0")));
  EXPECT_THAT(text, HasSubstr("hw_host_energy_joules_total{host_name=\"n\"} 42.5\n"));
}

TEST(ExpositionTest, WhatSinksDidIsShown) {
  const std::vector<energy::SinkReport> sinks = {{"influx", "http://db", 1, 2, 3, 4, "x"}};
  const std::string text = ExpositionText(MetricNames::kEmlio, "n", Domains(), Samples(), sinks);
  const std::string labels = "{node=\"n\",sink=\"influx\",target=\"http://db\"}";
  EXPECT_THAT(text, HasSubstr("emlio_energy_sink_points_total" + labels + " 1\n"));
  EXPECT_THAT(text, HasSubstr("emlio_energy_sink_refused_points_total" + labels + " 2\n"));
  EXPECT_THAT(text, HasSubstr("emlio_energy_sink_dropped_points_total" + labels + " 3\n"));
  EXPECT_THAT(text, HasSubstr("emlio_energy_sink_retries_total" + labels + " 4\n"));
}

TEST(ExpositionTest, SumsGoOnOverWraps) {
  Domain domain = energy::MakeDomain(DomainKind::kPackage, "powercap", 0, -1);
  domain.range_units = 1'000'000;  // 1 J
  domain.max_watts = 8;            // less than that in 100 ms
  domain.in_total = true;
  energy::Accumulator accumulator(domain);
  double before = -1;
  for (int i = 0; i < 40; ++i) {
    const auto value = static_cast<uint64_t>(i * 300'000 % 1'000'000);
    const std::vector samples = {accumulator.Add(i * 100 * kNsPerMs, value)};
    const std::string text =
        ExpositionText(MetricNames::kEmlio, "n", std::vector{domain}, samples, {});
    const size_t at = text.find("device=\"\"} ");
    ASSERT_NE(at, std::string::npos);
    const double now = std::stod(text.substr(at + 11));
    EXPECT_GE(now, before);
    before = now;
  }
  EXPECT_NEAR(before, 39 * 0.3, 1e-4);
}

}  // namespace
}  // namespace emlio::energy_sinks
