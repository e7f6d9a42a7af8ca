// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_agent/messages.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace emlio::energy_agent {
namespace {

energy::Energy SampleEnergy() {
  energy::Energy energy;
  energy.state = energy::State::kMeasured;
  energy.joules = 12.5;
  energy.uncertainty_joules = -2;  // whole numbers are written as such, of whatever sign
  energy.void_ns = 7;
  energy.wraps = 2;
  return energy;
}

std::vector<AnyMessage> Samples() {
  std::vector<AnyMessage> samples;
  samples.push_back(Hello{1, 1, "test/1"});
  Welcome welcome;
  welcome.node = "storage-1";
  welcome.boot_id = "b";
  welcome.role = "storage";
  welcome.interval_ns = 100'000'000;
  welcome.domains.push_back(energy::MakeDomain(energy::DomainKind::kDram, "perf", 1, -1));
  welcome.domains[0].in_total = true;
  welcome.domains[0].cause = "no";
  welcome.domains[0].facts = {{"driver", "550.54"}, {"mig", "off"}};
  welcome.domains[0].update_period_ns = 20'000'000;
  welcome.domains[0].plausible_from_watts = 0.5;
  welcome.absent.push_back({"hwmon", "cause", "fix"});
  welcome.facts = R"({"cpus": 4})";
  samples.push_back(welcome);
  samples.push_back(Probe{9});
  samples.push_back(Probed{9, {5, -6, 7}});
  samples.push_back(StartRun{"run", 5, "name", "R+P"});
  Started started;
  started.run = "run";
  started.begin_ns = 8;
  started.clock.offset_ns = -500;
  started.clock.synchronised = true;
  samples.push_back(started);
  samples.push_back(Look{"run", true, 3});
  Figures figures;
  figures.run = "run";
  figures.energies = {SampleEnergy(), energy::Energy{}};
  figures.energies[1].cause = "because";
  energy::WindowReport window;
  window.id = 4;
  window.label = {"serve", "R", 3, 1};
  window.work = {10, 1000};
  window.energies = {SampleEnergy()};
  figures.windows.push_back(window);
  figures.more = true;
  figures.stats.ticks = 77;
  figures.proxies.cpu_seconds = 1.5;
  figures.watts = {51.5, std::nullopt};
  figures.sinks.push_back({"influx", "http://db:8086", 5, 1, 2, 3, "HTTP 503"});
  samples.push_back(figures);
  samples.push_back(Window{3, {"read", "", -1, -1}, 5, 0, {}});
  samples.push_back(Peer{.endpoint = "tcp://storage:7778"});
  samples.push_back(Error{Code::kNotFound, "text", "run"});
  samples.push_back(GetTicks{"run", 17});
  samples.push_back(Ticks{"run", 17, 19, {std::string("\0\xff\x80 no text", 11)}, true, true});
  samples.push_back(GetWindow{6, 3});
  samples.push_back(WindowFigures{6, true, window});
  samples.push_back(Peer{.unmeasured = true, .endpoint = "tcp://storage:7777", .boot_id = "b"});
  return samples;
}

TEST(AgentMessagesTest, EveryMessageComesBackAsItWas) {
  for (const AnyMessage& sample : Samples()) {
    const std::vector<uint8_t> encoded = Encode(sample);
    const auto decoded = Decode(encoded);
    ASSERT_TRUE(decoded.ok()) << sample.index() << ": " << decoded.status().ToString();
    EXPECT_EQ(decoded->index(), sample.index());
    EXPECT_EQ(Encode(*decoded), encoded) << sample.index();
  }
}

TEST(AgentMessagesTest, FieldsAreWhereTheyBelong) {
  const auto decoded = Decode(Encode(Samples()[7]));
  const auto& figures = std::get<Figures>(*decoded);
  EXPECT_EQ(figures.energies[0].joules, 12.5);
  EXPECT_FALSE(figures.energies[1].joules) << "what is not known never becomes a number";
  EXPECT_EQ(figures.energies[1].state, energy::State::kUnavailable);
  EXPECT_EQ(figures.windows[0].label.stage, "R");
  EXPECT_EQ(figures.windows[0].work.bytes, 1000U);
  EXPECT_EQ(figures.proxies.cpu_seconds, 1.5);
  EXPECT_FALSE(figures.proxies.network_sent_bytes);
  EXPECT_EQ(figures.watts[0], 51.5);
  EXPECT_FALSE(figures.watts[1]);
  EXPECT_EQ(figures.sinks[0].points_dropped, 2);
  EXPECT_EQ(std::get<Ticks>(*Decode(Encode(Samples()[12]))).data.bytes.size(), 11U);
  const auto answer = std::get<WindowFigures>(*Decode(Encode(Samples()[14])));
  EXPECT_TRUE(answer.found);
  EXPECT_EQ(answer.window.label.epoch, 3);
  EXPECT_EQ(answer.window.energies[0].joules, 12.5);
  const auto peer = Decode(Encode(Samples().back()));
  EXPECT_TRUE(std::get<Peer>(*peer).unmeasured);
  EXPECT_EQ(std::get<Peer>(*peer).boot_id, "b");
  const auto welcome = Decode(Encode(Samples()[1]));
  EXPECT_EQ(std::get<Welcome>(*welcome).domains[0].kind, energy::DomainKind::kDram);
  EXPECT_EQ(std::get<Welcome>(*welcome).domains[0].facts,
            std::get<Welcome>(Samples()[1]).domains[0].facts);
  EXPECT_EQ(std::get<Welcome>(*welcome).domains[0].update_period_ns, 20'000'000);
  EXPECT_EQ(std::get<Welcome>(*welcome).domains[0].plausible_from_watts, 0.5);
  EXPECT_EQ(std::get<Welcome>(*welcome).boot_id, "b");
  EXPECT_EQ(std::get<Probed>(*Decode(Encode(Samples()[3]))).at.wall_ns, -6);
}

TEST(AgentMessagesTest, WhatIsCutShortOrChangedIsRefusedOrAMessage) {
  for (const AnyMessage& sample : Samples()) {
    const std::vector<uint8_t> encoded = Encode(sample);
    for (size_t size = 0; size < encoded.size(); ++size) {
      EXPECT_FALSE(Decode(std::vector<uint8_t>(encoded.begin(), encoded.begin() + size)).ok());
    }
    for (size_t at = 0; at < encoded.size(); ++at) {
      for (const int byte : {0x00, 0x7f, 0x80, 0x90, 0xc0, 0xcb, 0xd9, 0xdd, 0xdf, 0xff}) {
        std::vector<uint8_t> changed = encoded;
        changed[at] = static_cast<uint8_t>(byte);
        const auto decoded = Decode(changed);
        EXPECT_TRUE(!decoded.ok() || Decode(Encode(*decoded)).ok());
      }
    }
    std::vector<uint8_t> longer = encoded;
    longer.push_back(0xc0);
    EXPECT_FALSE(Decode(longer).ok());
  }
}

TEST(AgentMessagesTest, LimitsHold) {
  std::vector<uint8_t> deep(100, 0x91);  // arrays in arrays
  EXPECT_EQ(Decode(deep).status().code(), Code::kProtocol);
  const std::vector<uint8_t> huge = {0x81, 0xa1, 't', 0xdd, 0xff, 0xff, 0xff, 0xff};
  EXPECT_EQ(Decode(huge).status().code(), Code::kProtocol);
  const std::vector<uint8_t> unknown = {0x81, 0xa1, 't', 0x7f};
  EXPECT_EQ(Decode(unknown).status().code(), Code::kUnsupported);
  const std::vector<uint8_t> zero = {0x81, 0xa1, 't', 0x00};
  EXPECT_EQ(Decode(zero).status().code(), Code::kProtocol);
  EXPECT_EQ(Decode({}).status().code(), Code::kProtocol);
  // What is written can be read: texts are cut, between characters.
  Error error;
  for (int i = 0; i < 3000; ++i) error.text += "ж";
  const auto decoded = Decode(Encode(error));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(std::get<Error>(*decoded).text.size(), 4096U);
  error.text = "a\xff";
  EXPECT_EQ(std::get<Error>(*Decode(Encode(error))).text, "a");
}

}  // namespace
}  // namespace emlio::energy_agent
