// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_sinks/prometheus_sink.h"

#include <fmt/format.h>
#include <httplib.h>
#include <unistd.h>

#include <atomic>
#include <utility>

#include "emlio/base/mutex.h"

namespace emlio::energy_sinks {
namespace {

constexpr size_t kServerThreads = 2;
constexpr time_t kSeconds = 5;  // that a client may take to ask, and to read

}  // namespace

struct PrometheusSink::Shared {
  PrometheusOptions options;
  std::string node;
  std::vector<energy::Domain> domains;
  int port = 0;
  httplib::Server server;
  std::atomic<bool> ended = false;  // the server listens no longer

  Mutex mu;
  std::vector<energy::Sample> samples EMLIO_GUARDED_BY(mu);

  void Run() {
    server.listen_after_bind();
    ended = true;
  }
  void RequestEnd() {
    // Stopping a server that has not begun to listen would be forgotten.
    while (!server.is_running() && !ended) usleep(1000);
    server.stop();
  }
  std::string Text() EMLIO_EXCLUDES(mu) {
    std::vector<energy::Sample> latest;
    {
      const MutexLock lock(mu);
      latest = samples;
    }
    const auto sinks = options.sinks ? options.sinks() : std::vector<energy::SinkReport>();
    return ExpositionText(options.names, node, domains, latest, sinks);
  }
};

PrometheusSink::PrometheusSink(std::unique_ptr<Shared> shared) : shared_(std::move(shared)) {}

Result<std::unique_ptr<PrometheusSink>> PrometheusSink::Start(PrometheusOptions options,
                                                              const std::string& node,
                                                              std::vector<energy::Domain> domains) {
  auto shared = std::make_unique<Shared>();
  shared->options = std::move(options);
  shared->node = node;
  shared->domains = std::move(domains);
  Shared* const used = shared.get();
  httplib::Server& server = shared->server;
  server.new_task_queue = [] { return new httplib::ThreadPool(kServerThreads); };
  // By default two processes could have the same port, and each a part of the questions.
  server.set_socket_options([](socket_t socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  });
  server.set_read_timeout(kSeconds);
  server.set_write_timeout(kSeconds);
  server.set_payload_max_length(4096);
  server.Get("/metrics", [used](const httplib::Request&, httplib::Response& response) {
    response.set_content(used->Text(), "text/plain; version=0.0.4; charset=utf-8");
  });
  server.Get("/", [](const httplib::Request&, httplib::Response& response) {
    response.set_content("EMLIO's energy monitor: see /metrics\n", "text/plain; charset=utf-8");
  });
  const PrometheusOptions& wanted = shared->options;
  if (wanted.port == 0) {
    shared->port = server.bind_to_any_port(wanted.address);
  } else if (server.bind_to_port(wanted.address, wanted.port)) {
    shared->port = wanted.port;
  }
  if (shared->port <= 0) {
    return Unavailable(fmt::format(
        "metrics cannot be served on {}:{}: it is no address of this host, or the port is taken",
        wanted.address, wanted.port));
  }
  // The server's other threads are born of this one, with its signals blocked.
  auto sink = std::unique_ptr<PrometheusSink>(new PrometheusSink(std::move(shared)));
  EMLIO_RETURN_IF_ERROR(sink->shared_.Start("emlio-metrics"));
  return sink;
}

PrometheusSink::~PrometheusSink() = default;

int PrometheusSink::port() const { return shared_->port; }

void PrometheusSink::Update(std::span<const energy::Sample> samples) {
  if (shared_.in_child()) return;
  const MutexLock lock(shared_->mu);
  shared_->samples.assign(samples.begin(), samples.end());
}

}  // namespace emlio::energy_sinks
