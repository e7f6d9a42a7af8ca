// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "emlio/base/status.h"
#include "emlio/energy/monitor.h"
#include "emlio/energy/run.h"
#include "emlio/energy_sinks/exposition.h"
#include "emlio/energy_sinks/influx_sink.h"
#include "emlio/energy_sinks/prometheus_sink.h"
#include "tick_relay.h"

namespace emlio::tool {

// Where the samples of this host go beside a store: the same for `energy record`, `energy agent`
// and `serve`.
struct SampleSinkOptions {
  // An empty URL: no InfluxDB. Its token and its password come from the files below or from the
  // environment, for everybody on a host can read command lines.
  energy_sinks::InfluxOptions influx;
  std::string influx_token_file;     // empty: $EMLIO_INFLUX_TOKEN, else none
  std::string influx_password_file;  // empty: $EMLIO_INFLUX_PASSWORD, else none

  std::string prometheus_bind;  // "host:port"; empty: no /metrics
  bool prometheus_insecure = false;
  energy_sinks::MetricNames prometheus_names = energy_sinks::MetricNames::kEmlio;

  bool any() const { return !influx.url.empty() || !prometheus_bind.empty(); }
};

// The sinks of one monitor. Made before it, for it calls OnTick.
class SampleSinks {
 public:
  // For MonitorOptions::on_tick.
  void OnTick(const energy::TickView& tick) { relay_.OnTick(tick); }

  // Starts what the options name and hands every tick on to it. An error says which option is
  // wrong, or that the address cannot be had; then no sink was started. `run`: the points' tag;
  // empty: none.
  Status Start(const SampleSinkOptions& options, const std::string& run,
               const energy::Monitor& monitor);
  // Waits, for some seconds at most, until what was handed on is delivered. REQUIRES: the monitor
  // has stopped, or its later ticks do not matter.
  void Finish();

  // "http://127.0.0.1:9100/metrics"; empty: none.
  const std::string& metrics() const { return metrics_; }
  // What each sink delivered and lost so far; thread-safe once Start has returned.
  std::vector<energy::SinkReport> Reports() const;

 private:
  TickRelay relay_;
  std::unique_ptr<energy_sinks::InfluxSink> influx_;
  std::unique_ptr<energy_sinks::PrometheusSink> prometheus_;
  std::string metrics_;
};

nlohmann::ordered_json SinksJson(const std::vector<energy::SinkReport>& reports);
// A line a sink for the end: what it delivered, and what it could not. `stored`: the run that has
// all samples in a store; empty: nothing else has them.
std::string SinksText(const std::vector<energy::SinkReport>& reports, const std::string& stored);

}  // namespace emlio::tool
