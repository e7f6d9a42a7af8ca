// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "emlio/base/observer.h"
#include "emlio/base/status.h"
#include "emlio/base/thread_owner.h"
#include "emlio/energy/domain.h"
#include "emlio/energy/monitor.h"

namespace emlio::energy_agent {

// Where a coordinator tells the processes that it starts how to reach it: "tcp://127.0.0.1:port".
inline constexpr char kLinkVariable[] = "EMLIO_ENERGY_AGENT";

// A window as the agent measured it.
struct WindowOfHost {
  std::vector<energy::Domain> domains;
  energy::WindowReport window;
};

// Tells an agent on the same host of this process's windows and epochs, and of the agents of the
// hosts that its data come from. All functions but Energy return at once: a thread of its own
// sends. What happens to the connection is told in a warning and changes nothing else. Thread-safe;
// in a child made by fork it does nothing.
class Link : public Observer {
 public:
  static Result<std::shared_ptr<Link>> Start(const std::string& endpoint);
  // What kLinkVariable says; null when it is not set, or with a warning when it does not work.
  static std::shared_ptr<Link> FromEnvironment();
  // Waits until the agent has taken what there is to tell, for at most two seconds.
  ~Link() override;

  // Windows of this process: Open returns a number for Close, 0 when nothing is recorded.
  uint64_t Open(energy::WindowLabel label);
  void Close(uint64_t number, energy::WindowWork work = {});
  // What the agent's host used in such a window, until now if it is open. Waits until that has been
  // sampled: about one interval. kNotFound: it is none of this process, or forgotten (the latest
  // 10,000 are kept). kUnavailable: the connection is lost, or this is a child made by fork.
  // kTimeout: no Welcome within 5 s, or no answer within 5 s and one interval, as of an agent that
  // is stopped. kUnsupported: the agent is of a version that knows no such questions.
  Result<WindowOfHost> Energy(uint64_t number);

  uint64_t OnEpochBegin(const EpochInfo& info) override;
  void OnEpochEnd(uint64_t number, const EpochWork& work) override;
  void OnEnergyAgent(std::string_view endpoint) override;
  void OnUnmeasuredPeer(std::string_view endpoint, std::string_view boot_id) override;

 private:
  class Impl;
  explicit Link(std::unique_ptr<Impl> impl);
  ThreadOwner<Impl> impl_;
};

}  // namespace emlio::energy_agent
