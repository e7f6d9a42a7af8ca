// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "sample_sinks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "console.h"
#include "emlio/base/file.h"
#include "emlio/transport/endpoint.h"
#include "text.h"

namespace emlio::tool {
namespace {

using nlohmann::ordered_json;

constexpr char kTokenVariable[] = "EMLIO_INFLUX_TOKEN";
constexpr char kPasswordVariable[] = "EMLIO_INFLUX_PASSWORD";
constexpr size_t kMaxSecretBytes = 64 << 10;

// What a file, or else a variable of the environment, says; without the line end behind it.
Result<std::string> ReadSecret(const std::string& file, const char* variable) {
  std::string secret;
  if (!file.empty()) {
    EMLIO_ASSIGN_OR_RETURN(secret, ReadWholeFile(file, kMaxSecretBytes));
  } else if (const char* said = std::getenv(variable); said != nullptr) {
    secret = said;
  }
  while (secret.ends_with('\n') || secret.ends_with('\r')) secret.pop_back();
  // It becomes a part of a header's line.
  if (std::any_of(secret.begin(), secret.end(),
                  [](char byte) { return byte >= 0 && byte < ' '; })) {
    return InvalidArgument(fmt::format("{} holds more than one line",
                                       file.empty() ? std::string("$") + variable : file));
  }
  return secret;
}

bool HasPassword(std::string_view url) {
  const size_t scheme = url.find("://");
  const size_t host = scheme == std::string_view::npos ? 0 : scheme + 3;
  return url.substr(host, url.find('/', host) - host).find('@') != std::string_view::npos;
}

Result<std::unique_ptr<energy_sinks::InfluxSink>> StartInflux(const SampleSinkOptions& options,
                                                              const std::string& run,
                                                              const energy::Monitor& monitor) {
  energy_sinks::InfluxOptions influx = options.influx;
  if (HasPassword(influx.url)) {
    return InvalidArgument(fmt::format(
        "--influx-url has a name or a password in it, which everybody on this host could read: "
        "use --influx-user and ${} or --influx-password-file",
        kPasswordVariable));
  }
  EMLIO_ASSIGN_OR_RETURN(influx.token, ReadSecret(options.influx_token_file, kTokenVariable));
  EMLIO_ASSIGN_OR_RETURN(influx.password,
                         ReadSecret(options.influx_password_file, kPasswordVariable));
  return energy_sinks::InfluxSink::Start(std::move(influx), run, monitor.node(), monitor.domains());
}

}  // namespace

Status SampleSinks::Start(const SampleSinkOptions& options, const std::string& run,
                          const energy::Monitor& monitor) {
  if (!options.any()) {
    relay_.End();
    return OkStatus();
  }
  std::unique_ptr<energy_sinks::InfluxSink> influx;
  if (!options.influx.url.empty()) {
    EMLIO_ASSIGN_OR_RETURN(influx, StartInflux(options, run, monitor));
  }
  if (const std::string& bind = options.prometheus_bind; !bind.empty()) {
    EMLIO_ASSIGN_OR_RETURN(const transport::HostPort address, transport::ParseHostPort(bind));
    if (!options.prometheus_insecure && !transport::IsLoopback(bind)) {
      return PermissionDenied(fmt::format(
          "metrics on {} can be read by any host that reaches it: bind them to a loopback address, "
          "or allow that (--prometheus-insecure)",
          bind));
    }
    energy_sinks::PrometheusOptions prometheus;
    prometheus.address = address.host == "*" ? "0.0.0.0" : address.host;
    prometheus.port = address.port;
    prometheus.names = options.prometheus_names;
    if (influx != nullptr) {
      prometheus.sinks = [sink = influx.get()] { return std::vector{sink->Report()}; };
    }
    EMLIO_ASSIGN_OR_RETURN(
        prometheus_, energy_sinks::PrometheusSink::Start(std::move(prometheus), monitor.node(),
                                                         monitor.domains()));
    metrics_ =
        fmt::format("http://{}:{}/metrics", bind.substr(0, bind.rfind(':')), prometheus_->port());
  }
  influx_ = std::move(influx);
  relay_.Begin([this](const energy::Moment& taken, std::span<const energy::Sample> samples) {
    if (influx_ != nullptr) influx_->Append(taken.wall_ns, samples);
    if (prometheus_ != nullptr) prometheus_->Update(samples);
  });
  return OkStatus();
}

void SampleSinks::Finish() {
  relay_.End();
  if (influx_ != nullptr) influx_->Close();
}

std::vector<energy::SinkReport> SampleSinks::Reports() const {
  if (influx_ == nullptr) return {};
  return {influx_->Report()};
}

ordered_json SinksJson(const std::vector<energy::SinkReport>& reports) {
  ordered_json json = ordered_json::array();
  for (const energy::SinkReport& report : reports) {
    json.push_back({{"sink", report.sink},
                    {"target", report.target},
                    {"points_sent", report.points_sent},
                    {"points_refused", report.points_refused},
                    {"points_dropped", report.points_dropped},
                    {"retries", report.retries},
                    {"last_error", report.last_error}});
  }
  return json;
}

std::string SinksText(const std::vector<energy::SinkReport>& reports, const std::string& stored) {
  std::string text;
  for (const energy::SinkReport& report : reports) {
    const auto points = [](int64_t count) {
      return FormatCount(static_cast<uint64_t>(count), "point");
    };
    text += fmt::format("emlio: {} at {}: {} delivered", report.sink, Printable(report.target),
                        points(report.points_sent));
    if (report.points_refused > 0) {
      text +=
          fmt::format(", {} refused", FormatCount(static_cast<uint64_t>(report.points_refused)));
    }
    if (report.points_dropped > 0) {
      text += fmt::format(", {} lost, for it did not take them in time",
                          FormatCount(static_cast<uint64_t>(report.points_dropped)));
    }
    if (!report.last_error.empty()) text += fmt::format(": {}", Printable(report.last_error));
    text += '\n';
    if (report.points_refused + report.points_dropped == 0) continue;
    text += stored.empty() ? "  nothing else has them\n"
                           : fmt::format(
                                 "  the store has them: emlio energy export {} --format "
                                 "influx\n",
                                 stored);
  }
  return text;
}

}  // namespace emlio::tool
