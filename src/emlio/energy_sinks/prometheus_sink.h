// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "emlio/base/status.h"
#include "emlio/base/thread_owner.h"
#include "emlio/energy/run.h"
#include "emlio/energy_sinks/exposition.h"

namespace emlio::energy_sinks {

struct PrometheusOptions {
  std::string address = "127.0.0.1";  // a wider one shows figures to whoever asks
  int port = 0;                       // 0: the system chooses
  MetricNames names = MetricNames::kEmlio;
  // Asked at each scrape, by a thread of the server's: what other sinks did. Empty: none.
  std::function<std::vector<energy::SinkReport>()> sinks;
};

// Serves /metrics of one node over HTTP until it is destroyed: the sums of the latest tick. All
// functions are thread-safe.
class PrometheusSink {
 public:
  // kUnavailable: the address or the port cannot be had.
  static Result<std::unique_ptr<PrometheusSink>> Start(PrometheusOptions options,
                                                       const std::string& node,
                                                       std::vector<energy::Domain> domains);
  ~PrometheusSink();
  PrometheusSink(const PrometheusSink&) = delete;
  PrometheusSink& operator=(const PrometheusSink&) = delete;

  int port() const;
  // REQUIRES: a sample for each domain. Waits for nobody but another copy of as much.
  void Update(std::span<const energy::Sample> samples);

 private:
  struct Shared;
  explicit PrometheusSink(std::unique_ptr<Shared> shared);
  ThreadOwner<Shared> shared_;
};

}  // namespace emlio::energy_sinks
