// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "emlio/base/observer.h"
#include "emlio/energy/monitor.h"

namespace emlio::energy {

// The names of windows that come of epochs: "epoch" around a loader's pass, "serve" around what a
// daemon sends of one.
inline constexpr char kLoaderWindow[] = "epoch";
inline constexpr char kDaemonWindow[] = "serve";

WindowLabel LabelOf(const EpochInfo& info);

// Makes a window of a monitor for every epoch that it is told of.
class EpochObserver : public Observer {
 public:
  // `on_agent` is told of agents; it must be as quick as the observer itself. May be null.
  explicit EpochObserver(std::shared_ptr<Monitor> monitor,
                         std::function<void(std::string_view endpoint)> on_agent = nullptr)
      : monitor_(std::move(monitor)), on_agent_(std::move(on_agent)) {}

  uint64_t OnEpochBegin(const EpochInfo& info) override;
  void OnEpochEnd(uint64_t number, const EpochWork& work) override;
  void OnEnergyAgent(std::string_view endpoint) override {
    if (on_agent_) on_agent_(endpoint);
  }

 private:
  const std::shared_ptr<Monitor> monitor_;
  const std::function<void(std::string_view)> on_agent_;
};

}  // namespace emlio::energy
