// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/base/observer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace emlio {
namespace {

using ::testing::ElementsAre;

class Log : public Observer {
 public:
  uint64_t OnEpochBegin(const EpochInfo& info) override {
    lines.push_back(fmt::format("begin {}", info.epoch));
    return info.epoch + 100;
  }
  void OnEpochEnd(uint64_t number, const EpochWork& work) override {
    lines.push_back(fmt::format("end {} {} {} {}", number, work.records, work.bytes,
                                work.complete ? "complete" : "cut"));
  }
  void OnEnergyAgent(std::string_view endpoint) override { lines.emplace_back(endpoint); }
  std::vector<std::string> lines;
};

EpochInfo Epoch(uint64_t epoch) {
  EpochInfo info;
  info.epoch = epoch;
  return info;
}

TEST(EpochWatchTest, EveryEpochBeginsAndEndsOnce) {
  const auto log = std::make_shared<Log>();
  {
    EpochWatch watch(log);
    watch.At(Epoch(4));
    watch.At(Epoch(4));
    watch.Add(4, 2, 20);
    watch.At(Epoch(5));
    watch.Add(5, 1, 10);
    watch.Add(4, 3, 30);
    watch.Add(9, 1, 1);  // of none that is under way
    watch.EndBefore(5);
    watch.EndBefore(5);
    watch.Add(5, 1, 10);
  }
  EXPECT_THAT(log->lines,
              ElementsAre("begin 4", "begin 5", "end 104 5 50 complete", "end 105 2 20 cut"));
}

TEST(EpochWatchTest, WithoutAnObserverNothingHappens) {
  EpochWatch watch;
  watch.At(Epoch(1));
  watch.Add(1, 1, 1);
  watch.EndAll(true);
  EXPECT_FALSE(watch.enabled());
}

}  // namespace
}  // namespace emlio
