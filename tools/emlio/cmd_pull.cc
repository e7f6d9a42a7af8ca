// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "commands.h"
#include "console.h"
#include "emlio/base/clock.h"
#include "emlio/base/hash128.h"
#include "emlio/base/nanoseconds.h"
#include "emlio/energy_agent/link.h"
#include "exactly_once.h"
#include "interrupt.h"

namespace emlio::tool {
namespace {

constexpr double kGb = 1e9;
constexpr double kMb = 1e6;

// 0 where there is nothing to divide by: JSON has no infinity.
double Ratio(double of, double by) { return by > 0 ? of / by : 0; }

// User and system time of this process.
double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double MaxRssMib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

// "NAME=SPEC". A name may hold '=', a spec does not.
Result<example::FeatureSpec> ParseFeature(const std::string& text) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos) {
    return InvalidArgument(
        fmt::format("'{}' is not NAME=SPEC; write for example image/class/label=int64", text));
  }
  return example::ParseFeatureSpec(std::string_view(text).substr(0, equals),
                                   std::string_view(text).substr(equals + 1));
}

// What one pass handed out.
struct PassResult {
  uint64_t epoch = 0;
  uint64_t first_step = 0;
  uint64_t batches = 0;
  uint64_t records = 0;  // padding included
  uint64_t padded = 0;
  uint64_t payload_bytes = 0;
  double seconds = 0;
};

// One line a batch: "EPOCH STEP INDEX INDEX ...". Without a path it writes nothing.
class IndexDump {
 public:
  Status Open(const std::string& path) {
    if (path.empty()) return OkStatus();
    path_ = path;
    file_.reset(std::fopen(path.c_str(), "w"));
    return file_ == nullptr ? ErrnoStatus(errno, "--dump-indices " + path_) : OkStatus();
  }
  Status Write(const loader::Batch& batch) {
    if (file_ == nullptr) return OkStatus();
    line_.clear();
    fmt::format_to(std::back_inserter(line_), "{} {}", batch.epoch(), batch.step());
    for (const uint64_t index : batch.indices()) {
      fmt::format_to(std::back_inserter(line_), " {}", index);
    }
    line_.push_back('\n');
    if (std::fwrite(line_.data(), 1, line_.size(), file_.get()) != line_.size()) return Failed();
    return OkStatus();
  }
  Status Close() {
    if (file_ == nullptr) return OkStatus();
    return std::fclose(file_.release()) == 0 ? OkStatus() : Failed();
  }

 private:
  Status Failed() const { return ErrnoStatus(errno, "--dump-indices " + path_); }

  std::string path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_{nullptr, &std::fclose};
  fmt::memory_buffer line_;
};

// One run: makes the passes and measures them.
class Pull {
 public:
  Pull(const PullCommand& command, loader::Loader& loader)
      : command_(command),
        loader_(loader),
        check_(loader.plan(), command.loader.rank, command.loader.world_size) {}

  // Ends early, with kCancelled, after a signal. What was measured by then stays valid.
  Status Run();
  nlohmann::ordered_json ToJson() const;
  void Print() const;

 private:
  // Sets `at` to where the next pass begins.
  Status RunPass(loader::Cursor* at);
  uint64_t RecordsDue() const;
  Status CheckOnceStatus() const;
  bool EnoughBatches() const {
    return command_.max_batches > 0 && batches_ >= command_.max_batches;
  }

  const PullCommand& command_;
  loader::Loader& loader_;
  ExactlyOnce check_;
  IndexDump dump_;
  ProgressBar bar_{"pulling", "records"};
  std::vector<PassResult> passes_;
  uint64_t batches_ = 0;
  uint64_t records_ = 0;  // padding included
  uint64_t padded_ = 0;
  uint64_t records_due_ = 0;
  uint64_t payload_bytes_ = 0;
  int64_t begin_ns_ = 0;
  double seconds_ = 0;  // to the last batch
  double cpu_s_ = 0;
};

Status Pull::Run() {
  EMLIO_RETURN_IF_ERROR(dump_.Open(command_.dump_indices));
  records_due_ = RecordsDue();

  const double cpu_begin_s = CpuSeconds();
  begin_ns_ = SystemClock().NowNs();
  Status status;
  loader::Cursor at = command_.start;
  for (uint64_t pass = 0; pass < command_.passes && !EnoughBatches(); ++pass) {
    status = RunPass(&at);
    if (!status.ok()) break;
  }
  cpu_s_ = CpuSeconds() - cpu_begin_s;
  bar_.Finish();
  const Status closed = dump_.Close();
  if (!status.ok()) return status;
  EMLIO_RETURN_IF_ERROR(closed);
  return CheckOnceStatus();
}

// Of all passes. All steps of an epoch but the last are alike.
uint64_t Pull::RecordsDue() const {
  const auto slots = [this](uint64_t step) -> uint64_t {
    return loader_.plan().Share(step, command_.loader.rank, command_.loader.world_size).slots;
  };
  const uint64_t last_step = loader_.steps_per_epoch() - 1;
  const uint64_t per_epoch = last_step * slots(0) + slots(last_step);
  return per_epoch * command_.passes - command_.start.step * slots(0);
}

Status Pull::RunPass(loader::Cursor* at) {
  const int64_t begin_ns = SystemClock().NowNs();
  EMLIO_RETURN_IF_ERROR(loader_.StartPass(*at));
  *at = loader_.cursor();  // the end of an epoch is the beginning of the next one
  PassResult& pass = passes_.emplace_back();
  pass.epoch = at->epoch;
  pass.first_step = at->step;
  if (command_.check_once) check_.BeginPass(at->epoch, at->step);
  bool ended = false;
  while (!EnoughBatches()) {
    EMLIO_ASSIGN_OR_RETURN(const auto batch, loader_.Next(&InterruptFlag::IsSet));
    ended = batch == nullptr;
    if (ended) break;
    const uint64_t records = batch->records().size();
    ++pass.batches;
    pass.records += records;
    pass.padded += records - batch->valid_records();
    pass.payload_bytes += batch->payload_bytes();
    const int64_t now_ns = SystemClock().NowNs();
    pass.seconds = Seconds(now_ns - begin_ns);
    seconds_ = Seconds(now_ns - begin_ns_);
    ++batches_;
    records_ += records;
    padded_ += records - batch->valid_records();
    payload_bytes_ += batch->payload_bytes();
    bar_.Update(
        {.items_done = records_, .items_total = records_due_, .bytes_done = payload_bytes_});
    if (command_.check_once) {
      check_.Add(batch->step(), batch->indices().first(batch->valid_records()));
      // Due, known and allowed to be missing.
      for (const loader::Batch::BadRecord& bad : batch->bad_records()) {
        if (bad.is_valid) check_.Add(batch->step(), {&bad.index, 1});
      }
    }
    EMLIO_RETURN_IF_ERROR(dump_.Write(*batch));
    // Next looks at the flag only while it waits.
    if (InterruptFlag::IsSet()) return Cancelled("interrupted by a signal");
  }
  if (command_.check_once) check_.EndPass(ended);
  *at = {.epoch = pass.epoch + 1, .step = 0};
  return OkStatus();
}

Status Pull::CheckOnceStatus() const {
  if (!command_.check_once || check_.ok()) return OkStatus();
  return Corrupt(fmt::format("--check-once: {} missing, {} repeated, {} not of this rank, in {}",
                             FormatCount(check_.missing(), "record"), check_.repeated(),
                             check_.unexpected(), FormatCount(check_.passes(), "pass")));
}

nlohmann::ordered_json Pull::ToJson() const {
  const loader::LoaderOptions& options = command_.loader;
  const loader::LoaderStats stats = loader_.stats();
  const plan::PlanSpec& spec = loader_.plan().spec();
  auto epochs = nlohmann::ordered_json::array();
  for (const PassResult& pass : passes_) {
    const auto bytes = static_cast<double>(pass.payload_bytes);
    epochs.push_back({{"epoch", pass.epoch},
                      {"first_step", pass.first_step},
                      {"batches", pass.batches},
                      {"records", pass.records},
                      {"padded", pass.padded},
                      {"payload_bytes", pass.payload_bytes},
                      {"seconds", pass.seconds},
                      {"records_per_s", Ratio(static_cast<double>(pass.records), pass.seconds)},
                      {"payload_mb_per_s", Ratio(bytes / kMb, pass.seconds)}});
  }
  auto bad_records_of_shard = nlohmann::ordered_json::object();
  for (const auto& [shard, count] : stats.bad_records_of_shard) {
    bad_records_of_shard[shard] = count;
  }
  auto unreadable_bytes_of_shard = nlohmann::ordered_json::object();
  for (const auto& [shard, unreadable_bytes] : stats.unreadable_bytes_of_shard) {
    unreadable_bytes_of_shard[shard] = unreadable_bytes;
  }
  const auto bytes = static_cast<double>(payload_bytes_);
  nlohmann::ordered_json json = {
      {"version", EMLIO_VERSION},
      {"records", records_},
      {"padded", padded_},
      {"batches", batches_},
      {"payload_bytes", payload_bytes_},
      {"seconds", seconds_},
      {"records_per_s", Ratio(static_cast<double>(records_), seconds_)},
      {"payload_mb_per_s", Ratio(bytes / kMb, seconds_)},
      {"cpu_s", cpu_s_},
      {"cpu_s_per_gb", Ratio(cpu_s_, bytes / kGb)},
      {"wait_s", Seconds(stats.wait_ns)},
      {"wait_share", std::min(1.0, Ratio(Seconds(stats.wait_ns), seconds_))},
      {"time_to_first_batch_s", Seconds(stats.time_to_first_batch_ns)},
      {"max_rss_mb", MaxRssMib()},
      {"max_ready_mb", static_cast<double>(stats.max_ready_bytes) / (1 << 20)},
      {"chunks", stats.chunks},
      {"bad_records", stats.bad_records},
      {"bad_records_of_shard", std::move(bad_records_of_shard)},
      {"unreadable_bytes_of_shard", std::move(unreadable_bytes_of_shard)},
      {"duplicates", stats.duplicate_records},
      {"refilled", stats.refilled_records},
      {"sources", options.sources},
      {"dataset_digest", ToHex(loader_.manifest().digest())},
      {"dataset_records", loader_.records()},
      {"plan_hash", ToHex(loader_.plan().hash())},
      {"seed", spec.seed},
      {"shuffle", plan::ShuffleName(options.shuffle)},
      {"block_records", spec.sources[0].block_records},
      {"window_blocks", spec.sources[0].window_blocks},
      {"tail", plan::TailName(options.tail)},
      {"global_batch_size", spec.global_batch},
      {"steps_per_epoch", loader_.steps_per_epoch()},
      {"rank", options.rank},
      {"world_size", options.world_size},
      {"streams", options.streams},  // 0: automatic; so is the next
      {"prefetch_mb", options.prefetch_bytes >> 20},
      {"order", loader::OrderName(options.order)},
      {"ready_window", options.ready_window},
      {"epochs", std::move(epochs)},
  };
  if (command_.check_once) {
    json["check_once"] = {{"ok", check_.ok()},
                          {"passes", check_.passes()},
                          {"missing", check_.missing()},
                          {"repeated", check_.repeated()},
                          {"unexpected", check_.unexpected()}};
  }
  return json;
}

void Pull::Print() const {
  const loader::LoaderOptions& options = command_.loader;
  const loader::LoaderStats stats = loader_.stats();
  const auto bytes = static_cast<double>(payload_bytes_);
  fmt::print("{} in {}, {}, {}\n", FormatCount(records_, "record"), FormatCount(batches_, "batch"),
             FormatBytes(bytes), FormatCount(passes_.size(), "epoch"));
  fmt::print("  {:<22}{:.3f}\n", "seconds", seconds_);
  fmt::print("  {:<22}{:.0f}\n", "records/s", Ratio(static_cast<double>(records_), seconds_));
  fmt::print("  {:<22}{:.1f}\n", "MB/s", Ratio(bytes / kMb, seconds_));
  fmt::print("  {:<22}{:.3f}\n", "CPU s/GB", Ratio(cpu_s_, bytes / kGb));
  fmt::print("  {:<22}{:.3f}\n", "wait share", Ratio(Seconds(stats.wait_ns), seconds_));
  fmt::print("  {:<22}{:.3f}\n", "first batch after s", Seconds(stats.time_to_first_batch_ns));
  fmt::print("  {:<22}{}\n", "bad records", stats.bad_records);
  if (options.tail == plan::Tail::kPad) fmt::print("  {:<22}{}\n", "padded", padded_);
  if (options.shuffle == plan::Shuffle::kBlock) {
    const plan::PlanSpec::Source& source = loader_.plan().spec().sources[0];
    fmt::print("  {:<22}{} records, windows of {} blocks\n", "blocks", source.block_records,
               source.window_blocks);
  }
  fmt::print("  {:<22}{}\n", "plan hash", ToHex(loader_.plan().hash()));
  if (command_.check_once && check_.ok()) {
    std::string what = "each record of " + FormatCount(check_.passes(), "pass");
    if (command_.max_batches > 0) what = "each record of these batches";
    if (stats.bad_records > 0) what += " that is not bad";
    fmt::print("  {:<22}{} exactly once\n", "checked", what);
  }
}

// A state taken at the end of an epoch names the beginning of the next one, so a step behind the
// last one is a mistake, and reading other records than those asked for would hide it.
Status CheckStart(const PullCommand& command, const loader::Loader& loader) {
  const uint64_t steps = loader.steps_per_epoch();
  if (command.start.step < steps) return OkStatus();
  return InvalidArgument(
      fmt::format("--start {}:{}: the last step of an epoch is {}; the next epoch begins at {}:0",
                  command.start.epoch, command.start.step, steps - 1, command.start.epoch + 1));
}

}  // namespace

int RunPull(const PullCommand& command) {
  const Report report(command.json);
  if (const Status status = report.Check(); !status.ok()) return Fail(status);
  loader::LoaderOptions options = command.loader;
  if (command.passes > std::numeric_limits<uint64_t>::max() - command.start.epoch) {
    return report.Finish(InvalidArgument("--start and --epochs lead beyond the last epoch"), {});
  }
  options.epochs = command.start.epoch + command.passes;
  options.observer = energy_agent::Link::FromEnvironment();  // under `emlio energy record`
  for (const std::string& text : command.features) {
    auto feature = ParseFeature(text);
    if (!feature.ok()) return report.Finish(feature.status().WithContext("--features"), {});
    options.features.push_back(*std::move(feature));
  }
  std::unique_ptr<loader::Loader> loader;
  {
    ProgressBar bar("indexing", "shards");
    options.index_progress = [&bar](const dataset::Progress& progress) {
      bar.Update({.items_done = progress.shards_done,
                  .items_total = progress.shards_total,
                  .bytes_done = progress.bytes_done,
                  .bytes_total = progress.bytes_total});
    };
    auto opened = loader::Loader::Open(options, &InterruptFlag::IsSet);
    if (!opened.ok()) return report.Finish(opened.status(), {});
    loader = *std::move(opened);
  }

  if (const Status status = CheckStart(command, *loader); !status.ok()) {
    return report.Finish(status, {});
  }

  nlohmann::ordered_json json;
  Status status;
  {
    Pull pull(command, *loader);
    status = pull.Run();
    json = pull.ToJson();
    if (report.for_people()) pull.Print();
  }
  const int exit_code = report.Finish(status, std::move(json));
  // The command line was good until here; that a record lacks a feature, say, is the data's fault.
  return exit_code == kExitUsage ? kExitFailed : exit_code;
}

}  // namespace emlio::tool
