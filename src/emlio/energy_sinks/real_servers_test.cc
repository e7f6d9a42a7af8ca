// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
// The sinks against servers as Debian ships them: InfluxDB 1, VictoriaMetrics, Prometheus. A server
// that is not installed is skipped, and said so; scripts/setup --dev installs them.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <netinet/in.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "emlio/energy/testing/store_file.h"
#include "emlio/energy_sinks/exposition.h"
#include "emlio/energy_sinks/influx_sink.h"
#include "emlio/energy_sinks/line_protocol.h"
#include "emlio/energy_sinks/prometheus_sink.h"

namespace emlio::energy_sinks {
namespace {

using energy::testing::SteadySamples;
using energy::testing::TwoSocketsWithMemory;
using Json = nlohmann::json;

constexpr int64_t kLongNs = 60 * kNsPerSecond;
constexpr auto kDeadline = std::chrono::seconds(60);

std::string FindProgram(const std::string& name) {
  std::istringstream folders(std::string(std::getenv("PATH")) + ":" EMLIO_SERVERS);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string path = folder + "/" + name;
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

#define EMLIO_NEED_PROGRAM(variable, name)                                               \
  const std::string variable = FindProgram(name);                                        \
  if (variable.empty()) {                                                                \
    GTEST_SKIP() << "NOT TESTED: " << name << " is missing: scripts/setup --dev has it"; \
  }

int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  close(fd);
  return ntohs(address.sin_port);
}

// A server of the test's own; what it prints goes to a file.
class ServerProcess {
 public:
  ServerProcess(std::vector<std::string> command, const std::string& log) : log_(log) {
    std::vector<char*> argv;
    for (std::string& argument : command) argv.push_back(argument.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT, 0644);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    EXPECT_EQ(posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
  }
  ~ServerProcess() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  std::string Log() const {
    std::ifstream file(log_);
    return std::string((std::istreambuf_iterator<char>(file)), {});
  }

 private:
  std::string log_;
  pid_t pid_ = -1;
};

// Asks until it holds.
bool Eventually(const std::function<bool()>& holds) {
  const auto until = std::chrono::steady_clock::now() + kDeadline;
  while (std::chrono::steady_clock::now() < until) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return false;
}

std::string Ask(int port, const std::string& path) {
  httplib::Client client("127.0.0.1", port);
  const auto answer = client.Get(path.c_str());
  return answer && answer->status / 100 == 2 ? answer->body : "";
}

// Of now: databases forget what is old.
int64_t WallNow() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Four domains, of which nobody can read the last one.
std::vector<energy::Domain> Domains() {
  auto domains = TwoSocketsWithMemory();
  domains[3].cause = "nobody may read it";
  return domains;
}

constexpr int64_t kTicks = 50;

// Ticks 100 ms apart whose last one is now.
int64_t WallOf(int64_t now_ns, int64_t tick) { return now_ns - (kTicks - 1 - tick) * 100'000'000; }

void AppendTicks(InfluxSink& sink, int64_t now_ns) {
  for (int64_t tick = 0; tick < kTicks; ++tick) {
    sink.Append(WallOf(now_ns, tick), SteadySamples(4, tick));
  }
}

class RealServersTest : public ::testing::Test {
 protected:
  // The first column behind the time of a query of InfluxDB 1.
  static std::string Query(int port, const std::string& query) {
    const std::string body =
        Ask(port, "/query?db=emlio&q=" + httplib::detail::encode_query_param(query));
    const Json json = Json::parse(body, nullptr, false);
    if (!json.is_object() || !json["results"][0].contains("series")) return "nothing: " + body;
    return json["results"][0]["series"][0]["values"][0][1].dump();
  }
  energy::testing::TemporaryFolder folder_;
};

TEST_F(RealServersTest, InfluxDbTakesEveryPointOnce) {
  EMLIO_NEED_PROGRAM(program, "influxd");
  const int port = FreePort();
  std::ofstream(folder_.File("influxdb.conf"))
      << "reporting-disabled = true\nbind-address = \"127.0.0.1:" << FreePort()
      << "\"\n[meta]\ndir = \"" << folder_.File("meta") << "\"\n[data]\ndir = \""
      << folder_.File("data") << "\"\nwal-dir = \"" << folder_.File("wal")
      << "\"\n[http]\nbind-address = \"127.0.0.1:" << port
      << "\"\n[monitor]\nstore-enabled = false\n";
  const ServerProcess server({program, "-config", folder_.File("influxdb.conf")},
                             folder_.File("log"));
  httplib::Client client("127.0.0.1", port);
  ASSERT_TRUE(Eventually([&] {
    const auto answer = client.Get("/ping");
    return answer && answer->status == 204;
  })) << server.Log();

  InfluxOptions options;
  options.version = InfluxVersion::kV1;
  options.url = "http://127.0.0.1:" + std::to_string(port);
  options.database = "emlio";
  const auto sink = InfluxSink::Start(options, "run", "node 1,a=b", Domains());
  ASSERT_TRUE(sink.ok());
  const int64_t now_ns = WallNow();
  // Without the database every point is refused, and counted.
  AppendTicks(**sink, now_ns - 3600 * kNsPerSecond);
  ASSERT_TRUE((*sink)->Flush(kLongNs).ok());
  EXPECT_EQ((*sink)->Report().points_refused, kTicks * 4);
  EXPECT_THAT((*sink)->Report().last_error, ::testing::HasSubstr("HTTP 404"));

  ASSERT_EQ(client.Post("/query?q=CREATE%20DATABASE%20emlio", "", "text/plain")->status, 200);
  const auto fresh = InfluxSink::Start(options, "run", "node 1,a=b", Domains());
  AppendTicks(**fresh, now_ns);
  ASSERT_TRUE((*fresh)->Flush(kLongNs).ok());
  EXPECT_EQ((*fresh)->Report().points_sent, kTicks * 4);
  EXPECT_EQ((*fresh)->Report().last_error, "");
  const auto expect_points = [&] {
    // An absent value is no field; its state is there.
    EXPECT_EQ(Query(port, "SELECT count(energy_uj) FROM emlio_energy"), std::to_string(kTicks * 3));
    EXPECT_EQ(Query(port, "SELECT count(state) FROM emlio_energy"), std::to_string(kTicks * 4));
    EXPECT_EQ(Query(port, "SELECT count(energy_uj) FROM emlio_energy WHERE state='unavailable'")
                  .substr(0, 7),
              "nothing");
    // 1, 2 and 3 J a tick but for the first: the differences add up to the sums.
    EXPECT_EQ(Query(port, "SELECT sum(delta_j) FROM emlio_energy WHERE \"domain\"='package-1'"),
              std::to_string((kTicks - 1) * 3));
    EXPECT_EQ(Query(port,
                    "SELECT max(energy_uj) FROM emlio_energy WHERE \"domain\"='package-1' AND "
                    "\"node\"='node 1,a=b'"),
              std::to_string((kTicks - 1) * 3'000'000));
  };
  expect_points();
  // All of it again, as after an answer that was lost.
  const auto again = InfluxSink::Start(options, "run", "node 1,a=b", Domains());
  AppendTicks(**again, now_ns);
  ASSERT_TRUE((*again)->Flush(kLongNs).ok());
  expect_points();
}

TEST_F(RealServersTest, VictoriaMetricsTakesBothVersions) {
  EMLIO_NEED_PROGRAM(program, "victoria-metrics");
  const int port = FreePort();
  const ServerProcess server(
      {program, "-storageDataPath=" + folder_.File("data"),
       "-httpListenAddr=127.0.0.1:" + std::to_string(port), "-retentionPeriod=1d",
       "-memory.allowedBytes=256MiB", "-search.latencyOffset=0s"},
      folder_.File("log"));
  ASSERT_TRUE(Eventually([&] { return !Ask(port, "/health").empty(); })) << server.Log();
  // What is newer than some moments is not exported.
  const int64_t now_ns = WallNow() - 60 * kNsPerSecond;
  for (const auto& [version, run] :
       {std::pair{InfluxVersion::kV1, "one"}, {InfluxVersion::kV2, "two"}}) {
    InfluxOptions options;
    options.version = version;
    options.url = "http://127.0.0.1:" + std::to_string(port);
    options.database = "emlio";
    options.bucket = "emlio";
    options.organisation = "lab";
    options.token = "unchecked";
    const auto sink = InfluxSink::Start(options, run, "n", Domains());
    ASSERT_TRUE(sink.ok());
    AppendTicks(**sink, now_ns);
    ASSERT_TRUE((*sink)->Flush(kLongNs).ok());
    EXPECT_EQ((*sink)->Report().points_sent, kTicks * 4);
  }
  (void)Ask(port, "/internal/force_flush");
  for (const char* const run : {"one", "two"}) {
    const std::string matcher = httplib::detail::encode_query_param(
        "{__name__=\"emlio_energy_energy_uj\",run=\"" + std::string(run) + "\"}");
    std::string body;
    ASSERT_TRUE(Eventually([&] {
      body = Ask(port, "/api/v1/export?match[]=" + matcher);
      return std::count(body.begin(), body.end(), '\n') == 3;  // a line a series: 3 domains
    })) << body;
    std::istringstream lines(body);
    for (std::string line; std::getline(lines, line);) {
      const Json series = Json::parse(line);
      EXPECT_EQ(series["values"].size(), static_cast<size_t>(kTicks));
      EXPECT_EQ(series["timestamps"].back(), now_ns / 1'000'000);
    }
  }
}

TEST_F(RealServersTest, PrometheusScrapesWhatPromtoolApproves) {
  EMLIO_NEED_PROGRAM(promtool, "promtool");
  const std::vector<energy::SinkReport> sinks = {{"influx", "http://db", 1, 2, 3, 4, ""}};
  for (const MetricNames names : {MetricNames::kEmlio, MetricNames::kOpenTelemetry}) {
    const std::string text = ExpositionText(names, "n", Domains(), SteadySamples(4, 3), sinks);
    std::ofstream(folder_.File("metrics")) << text;
    const std::string command = promtool + " check metrics < " + folder_.File("metrics") + " > " +
                                folder_.File("verdict") + " 2>&1";
    const int status = std::system(command.c_str());
    std::ifstream verdict(folder_.File("verdict"));
    EXPECT_EQ(status, 0) << std::string((std::istreambuf_iterator<char>(verdict)), {}) << text;
  }

  EMLIO_NEED_PROGRAM(program, "prometheus");
  const auto sink = PrometheusSink::Start({}, "n", Domains());
  ASSERT_TRUE(sink.ok());
  (*sink)->Update(SteadySamples(4, 30));
  const int port = FreePort();
  std::ofstream(folder_.File("prom.yml"))
      << "global:\n  scrape_interval: 200ms\nscrape_configs:\n- job_name: emlio\n  "
         "static_configs:\n"
         "  - targets: ['127.0.0.1:"
      << (*sink)->port() << "']\n";
  const ServerProcess server({program, "--config.file=" + folder_.File("prom.yml"),
                              "--storage.tsdb.path=" + folder_.File("tsdb"),
                              "--web.listen-address=127.0.0.1:" + std::to_string(port)},
                             folder_.File("log"));
  const auto value = [&](const std::string& query) -> std::string {
    const Json json =
        Json::parse(Ask(port, "/api/v1/query?query=" + httplib::detail::encode_query_param(query)),
                    nullptr, false);
    if (!json.is_object() || json["data"]["result"].empty()) return "";
    return json["data"]["result"][0]["value"][1].get<std::string>();
  };
  ASSERT_TRUE(Eventually([&] { return value("up{job=\"emlio\"}") == "1"; })) << server.Log();
  // 1, 2 and 3 J a tick; the domain that nobody may read is not among them.
  EXPECT_EQ(value("sum(emlio_energy_joules_total)"), "180");
  EXPECT_EQ(value("count(emlio_energy_joules_total)"), "3");
  EXPECT_EQ(value("emlio_energy_source_info{domain=\"dram-1\",state=\"unavailable\"}"), "1");
  (*sink)->Update(SteadySamples(4, 31));
  EXPECT_TRUE(Eventually([&] { return value("sum(emlio_energy_joules_total)") == "186"; }));
}

}  // namespace
}  // namespace emlio::energy_sinks
