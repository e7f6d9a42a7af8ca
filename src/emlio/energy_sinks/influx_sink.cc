// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_sinks/influx_sink.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>
#include <random>
#include <utility>

#include "emlio/base/log.h"
#include "emlio/base/mutex.h"
#include "emlio/base/nanoseconds.h"
#include "emlio/energy_sinks/http_post.h"
#include "emlio/energy_sinks/influx_answer.h"
#include "emlio/energy_sinks/line_protocol.h"

namespace emlio::energy_sinks {
namespace {

constexpr int64_t kLongestRetryAfterNs = 600 * kNsPerSecond;

struct WaitingTick {
  int64_t wall_ns;
  int64_t appended_ns;
  std::vector<energy::Sample> samples;
};

// What one request holds.
struct Batch {
  std::string lines;
  int64_t points = 0;
};

// The address of the write API. The unit of time is always named: version 3 would guess it.
Result<HttpTarget> TargetOf(const InfluxOptions& options) {
  HttpTarget target;
  target.headers = {"Content-Type: text/plain; charset=utf-8", "Content-Encoding: gzip",
                    "User-Agent: emlio", "Expect:"};  // ask for leave first only costs a round trip
  target.connect_timeout_ms = options.connect_timeout_ms;
  target.timeout_ms = options.timeout_ms;
  std::string_view base = options.url;
  while (base.ends_with('/')) base.remove_suffix(1);
  const auto missing = [](std::string_view what, int version) {
    return InvalidArgument(fmt::format("InfluxDB {} needs {}", version, what));
  };
  switch (options.version) {
    case InfluxVersion::kV1:
      if (options.database.empty()) return missing("a database", 1);
      target.url = fmt::format("{}/write?db={}&precision=u", base, UrlEncoded(options.database));
      if (!options.retention_policy.empty()) {
        target.url += "&rp=" + UrlEncoded(options.retention_policy);
      }
      if (!options.user.empty()) {
        target.user_and_password = options.user + ":" + options.password;
      }
      return target;
    case InfluxVersion::kV2:
      if (options.bucket.empty()) return missing("a bucket", 2);
      target.url = fmt::format("{}/api/v2/write?bucket={}&org={}&precision=us", base,
                               UrlEncoded(options.bucket), UrlEncoded(options.organisation));
      if (!options.token.empty()) {
        target.headers.push_back("Authorization: Token " + options.token);
      }
      return target;
    case InfluxVersion::kV3:
      if (options.database.empty()) return missing("a database", 3);
      target.url = fmt::format("{}/api/v3/write_lp?accept_partial=true&db={}&precision=microsecond",
                               base, UrlEncoded(options.database));
      if (!options.token.empty()) {
        target.headers.push_back("Authorization: Bearer " + options.token);
      }
      return target;
  }
  return InvalidArgument("no such version of InfluxDB");
}

// An address as it may be shown: without a name and a password in it.
std::string Shown(std::string_view url) {
  const size_t begin = url.find("://");
  if (begin == std::string_view::npos) return std::string(url);
  const size_t host = begin + 3;
  const std::string_view authority = url.substr(host, url.find('/', host) - host);
  const size_t at = authority.rfind('@');
  if (at == std::string_view::npos) return std::string(url);
  return fmt::format("{}{}", url.substr(0, host), url.substr(host + at + 1));
}

// The first `lines` lines and the rest.
std::pair<Batch, Batch> Split(Batch batch, int64_t lines) {
  size_t end = 0;
  for (int64_t i = 0; i < lines; ++i) end = batch.lines.find('\n', end) + 1;
  Batch rest = {batch.lines.substr(end), batch.points - lines};
  batch.lines.resize(end);
  batch.points = lines;
  return {std::move(batch), std::move(rest)};
}

}  // namespace

Result<InfluxVersion> ParseInfluxVersion(std::string_view name) {
  if (name == "1") return InfluxVersion::kV1;
  if (name == "2") return InfluxVersion::kV2;
  if (name == "3") return InfluxVersion::kV3;
  return InvalidArgument(fmt::format("'{}' is no version of InfluxDB: 1, 2 or 3", name));
}

struct InfluxSink::Shared {
  Shared(InfluxOptions sink_options, std::unique_ptr<HttpPoster> http, LineWriter lines)
      : options(std::move(sink_options)), poster(std::move(http)), writer(std::move(lines)) {
    const MutexLock lock(mu);
    report.sink = "influx";
    report.target = Shown(options.url);
  }

  void Run() EMLIO_EXCLUDES(mu);
  void RequestEnd() EMLIO_EXCLUDES(mu) {
    const MutexLock lock(mu);
    if (stop) return;
    stop = true;
    close_by_ns = SystemClock().NowNs() + options.close_timeout_ns;
    work.NotifyAll();
  }
  // Waits until something is to be sent, and makes requests of it. False: the end.
  bool Fill(std::deque<Batch>* batches) EMLIO_EXCLUDES(mu);
  // True when the batch is done with; what is left of it stays in front.
  bool Send(std::deque<Batch>* batches) EMLIO_EXCLUDES(mu);
  void WaitBeforeTryingAgain(std::optional<int64_t> retry_after_s) EMLIO_EXCLUDES(mu);
  // Whether the time that the end may take is over.
  bool Late() EMLIO_EXCLUDES(mu) {
    const MutexLock lock(mu);
    return stop && SystemClock().NowNs() >= close_by_ns;
  }
  void Done(int64_t points) EMLIO_REQUIRES(mu) {
    done_points += points;
    changed.NotifyAll();
  }

  const InfluxOptions options;
  // The thread's.
  const std::unique_ptr<HttpPoster> poster;
  LineWriter writer;
  int failures = 0;  // one behind the other
  std::mt19937_64 random{std::random_device{}()};

  mutable Mutex mu;
  CondVar work;
  CondVar changed;
  bool stop EMLIO_GUARDED_BY(mu) = false;
  int64_t close_by_ns EMLIO_GUARDED_BY(mu) = 0;
  bool ended EMLIO_GUARDED_BY(mu) = false;
  bool flush EMLIO_GUARDED_BY(mu) = false;
  std::deque<WaitingTick> queue EMLIO_GUARDED_BY(mu);
  size_t waiting_points EMLIO_GUARDED_BY(mu) = 0;
  int64_t appended_points EMLIO_GUARDED_BY(mu) = 0;
  int64_t done_points EMLIO_GUARDED_BY(mu) = 0;  // sent, refused or dropped
  energy::SinkReport report EMLIO_GUARDED_BY(mu);
};

bool InfluxSink::Shared::Fill(std::deque<Batch>* batches) {
  std::deque<WaitingTick> taken;
  {
    const MutexLock lock(mu);
    while (!stop && !flush && waiting_points < options.max_lines) {
      if (queue.empty()) {
        work.Wait(mu);
        continue;
      }
      const int64_t due_ns = queue.front().appended_ns + options.flush_interval_ns;
      if (SystemClock().NowNs() >= due_ns) break;
      work.WaitUntil(mu, SteadyTime(due_ns));
    }
    size_t points = 0;
    while (!queue.empty() && points < options.max_lines) {
      points += queue.front().samples.size();
      taken.push_back(std::move(queue.front()));
      queue.pop_front();
    }
    waiting_points -= points;
    if (queue.empty()) flush = false;
    if (taken.empty()) return !stop;
  }
  Batch batch;
  for (const WaitingTick& tick : taken) {
    writer.Write(tick.wall_ns, tick.samples, &batch.lines);
    batch.points += static_cast<int64_t>(tick.samples.size());
  }
  const auto most = static_cast<int64_t>(options.max_lines);
  while (batch.points > most) {
    auto [first, rest] = Split(std::move(batch), most);
    batches->push_back(std::move(first));
    batch = std::move(rest);
  }
  if (batch.points > 0) batches->push_back(std::move(batch));
  return true;
}

bool InfluxSink::Shared::Send(std::deque<Batch>* batches) {
  const int64_t points = batches->front().points;
  const auto answer = poster->Post(Gzip(batches->front().lines), [this] { return Late(); });
  InfluxVerdict verdict;
  if (answer.ok()) {
    verdict = JudgeInfluxAnswer(*answer, points);
  } else {
    // Whether any of it was taken is not known: the same points again change nothing.
    verdict.what = InfluxVerdict::What::kTryAgain;
    verdict.error = answer.status().ToString();
  }
  if (verdict.what == InfluxVerdict::What::kTooLarge) {
    auto [first, rest] = Split(std::move(batches->front()), points / 2);
    batches->front() = std::move(rest);
    batches->push_front(std::move(first));
    return false;
  }
  {
    const MutexLock lock(mu);
    if (!verdict.error.empty() && verdict.error != report.last_error) {
      LogWarning("energy: InfluxDB at {}: {}{}", report.target, verdict.error,
                 verdict.what == InfluxVerdict::What::kTryAgain ? "; it is tried again" : "");
    }
    report.last_error = verdict.error;
    if (verdict.what == InfluxVerdict::What::kTaken) {
      report.points_sent += points - verdict.refused;
      report.points_refused += verdict.refused;
      Done(points);
    } else {
      ++report.retries;
    }
  }
  if (verdict.what == InfluxVerdict::What::kTaken) {
    batches->pop_front();
    failures = 0;
    return true;
  }
  ++failures;
  WaitBeforeTryingAgain(answer.ok() ? answer->retry_after_s : std::nullopt);
  return false;
}

void InfluxSink::Shared::WaitBeforeTryingAgain(std::optional<int64_t> retry_after_s) {
  const double backoff = std::min(
      static_cast<double>(options.min_backoff_ns) * std::pow(2.0, std::min(failures - 1, 30)),
      static_cast<double>(options.max_backoff_ns));
  // Many nodes that lose one database at once do not come back at once.
  const double jitter = std::uniform_real_distribution<double>(0.5, 1.0)(random);
  auto wait_ns = static_cast<int64_t>(backoff * jitter);
  if (retry_after_s) {
    const int64_t asked_ns =
        std::min(*retry_after_s, kLongestRetryAfterNs / kNsPerSecond) * kNsPerSecond;
    wait_ns = asked_ns + static_cast<int64_t>(static_cast<double>(options.min_backoff_ns) * jitter);
  }
  const int64_t until_ns = SystemClock().NowNs() + wait_ns;
  const MutexLock lock(mu);
  while (true) {
    const int64_t end_ns = stop ? std::min(until_ns, close_by_ns) : until_ns;
    if (SystemClock().NowNs() >= end_ns) return;
    work.WaitUntil(mu, SteadyTime(end_ns));
  }
}

void InfluxSink::Shared::Run() {
  std::deque<Batch> batches;
  while (Fill(&batches)) {
    while (!batches.empty() && !Late()) Send(&batches);
    if (batches.empty()) continue;
    // The end came before they could be sent.
    const MutexLock lock(mu);
    int64_t points = static_cast<int64_t>(waiting_points);
    for (const Batch& batch : batches) points += batch.points;
    queue.clear();
    waiting_points = 0;
    report.points_dropped += points;
    Done(points);
    break;
  }
  const MutexLock lock(mu);
  if (report.points_dropped + report.points_refused > 0) {
    LogWarning(
        "energy: InfluxDB at {} lacks {} points that it refused and {} that could not wait for it",
        report.target, report.points_refused, report.points_dropped);
  }
  ended = true;
  changed.NotifyAll();
}

InfluxSink::InfluxSink(std::unique_ptr<Shared> shared) : shared_(std::move(shared)) {}

Result<std::unique_ptr<InfluxSink>> InfluxSink::Start(InfluxOptions options, const std::string& run,
                                                      const std::string& node,
                                                      std::vector<energy::Domain> domains) {
  options.max_lines = std::max<size_t>(options.max_lines, 1);
  EMLIO_ASSIGN_OR_RETURN(HttpTarget target, TargetOf(options));
  EMLIO_ASSIGN_OR_RETURN(auto poster, HttpPoster::Create(std::move(target)));
  auto sink = std::unique_ptr<InfluxSink>(new InfluxSink(std::make_unique<Shared>(
      std::move(options), std::move(poster), LineWriter(run, node, std::move(domains)))));
  EMLIO_RETURN_IF_ERROR(sink->shared_.Start("emlio-influx"));
  return sink;
}

InfluxSink::~InfluxSink() = default;

void InfluxSink::Close() {
  Shared& shared = *shared_;
  if (shared_.in_child()) return;
  shared.RequestEnd();
  const MutexLock lock(shared.mu);
  // Several may close it; only the destructor joins.
  while (!shared.ended) shared.changed.Wait(shared.mu);
}

void InfluxSink::Append(int64_t wall_ns, std::span<const energy::Sample> samples) {
  Shared& shared = *shared_;
  if (shared_.in_child() || samples.empty()) return;
  WaitingTick tick = {wall_ns, SystemClock().NowNs(), {samples.begin(), samples.end()}};
  const MutexLock lock(shared.mu);
  shared.appended_points += static_cast<int64_t>(samples.size());
  if (shared.stop) {
    shared.report.points_dropped += static_cast<int64_t>(samples.size());
    return shared.Done(static_cast<int64_t>(samples.size()));
  }
  shared.waiting_points += samples.size();
  shared.queue.push_back(std::move(tick));
  // What is newest tells most. Sums are sums since the start: those that come later are right.
  while (shared.waiting_points > shared.options.max_waiting_points) {
    const size_t points = shared.queue.front().samples.size();
    shared.queue.pop_front();
    shared.waiting_points -= points;
    shared.report.points_dropped += static_cast<int64_t>(points);
    shared.Done(static_cast<int64_t>(points));
  }
  shared.work.NotifyAll();
}

Status InfluxSink::Flush(int64_t timeout_ns) {
  Shared& shared = *shared_;
  if (shared_.in_child()) return Unavailable("this process is a fork of the one that sends");
  const auto deadline = SteadyTime(SystemClock().NowNs() + timeout_ns);
  const MutexLock lock(shared.mu);
  const int64_t wanted = shared.appended_points;
  while (shared.done_points < wanted) {
    shared.flush = true;
    shared.work.NotifyAll();
    if (shared.changed.WaitUntil(shared.mu, deadline) || shared.done_points >= wanted) continue;
    return TimeoutError(
        fmt::format("points wait for InfluxDB at {}: {}", shared.report.target,
                    shared.report.last_error.empty() ? "it is slow" : shared.report.last_error));
  }
  return OkStatus();
}

energy::SinkReport InfluxSink::Report() const {
  if (shared_.in_child()) return {};
  const MutexLock lock(shared_->mu);
  return shared_->report;
}

}  // namespace emlio::energy_sinks
