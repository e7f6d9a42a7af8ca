// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
// The `emlio` executable: reads the command line and hands it to a subcommand (commands.h). This
// and cli_energy*.cc are the only files that know CLI11, which is slow to compile.
#include <fmt/format.h>
#include <malloc.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "child_process.h"
#include "cli_energy.h"
#include "cli_options.h"
#include "commands.h"
#include "console.h"
#include "emlio/base/log.h"
#include "emlio/base/system_limits.h"
#include "emlio/base/thread.h"
#include "emlio/dataset/dataset.h"
#include "emlio/tfrecord/record.h"
#include "interrupt.h"

namespace emlio::tool {
namespace {

constexpr char kFooter[] =
    "\nExit codes:\n"
    "  0    done\n"
    "  1    the data or the run are at fault: corrupt, missing, mismatching, not permitted\n"
    "  2    the command line is at fault\n"
    "  3    a peer could not be reached, was lost, or did not answer in time; energy record: not "
    "measured\n"
    "  4    serve: stopped while sessions were still running\n"
    "  130  interrupted (Ctrl-C); 143 by SIGTERM\n"
    "\nExample:\n"
    "  emlio convert synthetic /tmp/shards --records 10000 --record-bytes 100KB --shards 4\n"
    "  emlio serve train='/tmp/shards/*.tfrecord' --bind 127.0.0.1:7777 &\n"
    "  emlio pull tcp://127.0.0.1:7777/train --batch-size 64 --shuffle full --check-once\n";

const char kPatternHelp[] =
    "Files, directories or glob patterns (quote them); a shard that several match counts once";

// The largest record, in MiB: the same limits for every command.
CLI::Option* AddMaxRecord(CLI::App* app, uint64_t* target_bytes, const std::string& help) {
  static constexpr char kFlag[] = "--max-record-mb";
  constexpr double kMib = 1 << 20;
  return app
      ->add_option_function<double>(
          kFlag,
          [=](double mib) {
            const double bytes = mib * kMib;
            if (!(bytes >= 1 && bytes <= tfrecord::kHighestMaxRecordBytes)) {
              throw CLI::ValidationError(
                  kFlag, fmt::format("{} is not a size above 0 and below {}", mib,
                                     (tfrecord::kHighestMaxRecordBytes + uint64_t{1}) >> 20));
            }
            *target_bytes = static_cast<uint64_t>(bytes);
          },
          help)
      ->type_name("MIB")
      ->default_str(fmt::format("{}", static_cast<double>(*target_bytes) / kMib));
}
void AddIndexPlace(CLI::App* app, std::string* directory, bool* beside, const char* beside_flag) {
  auto* directory_option =
      app->add_option("--index-dir", *directory,
                      "Keep indexes here [$XDG_CACHE_HOME/emlio/index or ~/.cache/emlio/index]")
          ->type_name("DIR");
  app->add_flag(beside_flag, *beside, "Keep indexes next to the shards")
      ->excludes(directory_option);
}

void AddBadShardPolicy(CLI::App* app, dataset::BadShardPolicy* target, const char* whose = "") {
  AddNamed(
      app, "--on-bad-shard", &dataset::ParseBadShardPolicy,
      [target](dataset::BadShardPolicy policy) { *target = policy; },
      fmt::format("{}What to do with a shard that is cut or has a damaged length field: error, or "
                  "keep-readable: use what can be read of it, with a warning",
                  whose))
      ->default_str("error");
}
constexpr char kForLocalSources[] = "For local sources: ";

// "EPOCH:STEP".
loader::Cursor ParseCursor(const std::string& text) {
  loader::Cursor cursor;
  const size_t colon = text.find(':');
  if (colon == std::string::npos ||
      !ParseWhole(std::string_view(text).substr(0, colon), &cursor.epoch) ||
      !ParseWhole(std::string_view(text).substr(colon + 1), &cursor.step)) {
    throw CLI::ValidationError("--start", "'" + text + "' is not EPOCH:STEP, for example 0:250");
  }
  return cursor;
}

CLI::App* AddServe(CLI::App& app, ServeCommand& command) {
  daemon::DaemonOptions& options = command.daemon;
  command.max_record_bytes = dataset::DatasetOptions{}.max_record_bytes;
  command.drain_ms = 10'000;
  CLI::App* sub = app.add_subcommand("serve", "Serve data sets to receivers: the storage side");
  sub->add_option("datasets", command.datasets,
                  "Data sets: a name for receivers, and a file, directory or glob pattern (quote "
                  "it). A name given several times is one data set of several patterns")
      ->type_name("NAME=PATTERN")
      ->required();
  sub->add_option("--bind", options.bind,
                  "Address to listen on; port 0 takes a free one. Anything but loopback needs "
                  "--insecure")
      ->type_name("HOST:PORT")
      ->take_last()
      ->capture_default_str();
  sub->add_flag("--insecure", options.insecure,
                "Listen beyond loopback although there are no keys: whoever can connect can read");
  sub->add_option("--root", options.roots,
                  "Serve only shards below this directory, links resolved; may come several times")
      ->type_name("DIR")
      ->allow_extra_args(false);
  AddMib(
      sub, "--send-buffer-mb", &options.send_buffer_bytes,
      "Memory for data that are gathered but not yet taken by the kernel, all sessions together");
  AddMib(sub, "--read-ahead-mb", &options.read_ahead_bytes,
         "How far ahead of what was sent to read from storage, a session; 0: not at all");
  AddNamed(
      sub, "--io", dataset::ParseIoMode, [&command](dataset::IoMode io) { command.io = io; },
      "How shards are read: mmap, pread, or auto, which is mmap for what fits into memory")
      ->default_str("auto");
  AddCount(sub, "--gather-threads", &options.gather_threads,
           "Threads that gather records; 0: the number of processors, at most 4", kThreadCount)
      ->capture_default_str();
  AddIndexPlace(sub, &command.index_directory, &command.index_beside, "--index-beside");
  AddMaxRecord(sub, &command.max_record_bytes, "Refuse shards with a larger record");
  AddBadShardPolicy(sub, &command.on_bad_shard);
  AddReadyFile(sub, &command.ready_file);
  auto* no_energy = sub->add_flag_callback(
      "--no-energy", [&command] { command.energy = false; },
      "Do not measure this host's energy for the runs that it serves");
  sub->add_option("--energy-bind", command.energy_bind,
                  "Address of the energy agent [the host of --bind, a free port]")
      ->type_name("HOST:PORT")
      ->excludes(no_energy);
  AddRoot(sub, "--energy-root", &command.energy_root);
  AddSampleSinks(sub, command.sinks);
  sub->final_callback([&command] {
    if (!command.energy && command.sinks.any()) {
      throw CLI::ValidationError("--no-energy", "there are no samples to send or to serve then");
    }
  });
  AddSeconds(sub, "--drain-s", &command.drain_ms,
             "How long running sessions may go on after SIGTERM or SIGINT");
  sub->add_flag("--check", command.check,
                "Check configuration and data, build missing indexes, print both, and leave");
  AddJson(sub, &command.json);
  return sub;
}

// What decides about the plan, but for the rank.
void AddPlanOptions(CLI::App* sub, loader::LoaderOptions& options) {
  auto* batch = sub->add_option_group("batch");
  AddCount(batch, "--batch-size", &options.batch_size, "Records a step and rank");
  AddCount(batch, "--global-batch-size", &options.global_batch_size,
           "Records a step over all ranks");
  batch->require_option(1);
  AddNamed(
      sub, "--shuffle", &plan::ParseShuffle, [&](plan::Shuffle value) { options.shuffle = value; },
      "Order of the records: none, full, or block (blocks of neighbours, mixed inside windows)")
      ->default_str("none");
  const auto add_size = [&](const char* flag, std::optional<plan::ShuffleSize>* size,
                            const char* help, const char* fallback) {
    AddNamed(
        sub, flag, &plan::ParseShuffleSize, [=](plan::ShuffleSize value) { *size = value; }, help)
        ->type_name("SIZE")
        ->default_str(fallback);
  };
  add_size("--shuffle-block", &options.shuffle_block,
           "With --shuffle block: what stays close together; records (500) or bytes (4MiB)",
           "1MiB");
  add_size("--shuffle-window", &options.shuffle_window,
           "With --shuffle block: what is mixed; the larger, the more like full", "64MiB");
  AddCount(sub, "--seed", &options.seed, "Of the shuffle; the same for all ranks")
      ->capture_default_str();
  AddNamed(
      sub, "--tail", &plan::ParseTail, [&](plan::Tail value) { options.tail = value; },
      "Records left over after the last full step: keep (a shorter step), drop, or pad (a full "
      "step, "
      "the rest of which repeats records)")
      ->default_str("keep");
}

CLI::App* AddPull(CLI::App& app, PullCommand& command) {
  loader::LoaderOptions& options = command.loader;
  CLI::App* sub = app.add_subcommand(
      "pull", "Receive epochs as one rank would, measure, and throw the records away");
  sub->add_option("sources", options.sources,
                  "Where the shards are: tcp://HOST:PORT/NAME of an emlio serve, or local files, "
                  "directories and glob patterns; any mixture")
      ->type_name("SOURCE")
      ->required();
  AddPlanOptions(sub, options);
  AddCount(sub, "--epochs", &command.passes, "Passes to make", {.lowest = 1});
  AddCount(sub, "--rank", &options.rank, "Which rank to be");
  AddCount(sub, "--world-size", &options.world_size, "Of how many");
  sub->add_option("--job", options.job,
                  "Name common to all ranks of a job; ranks that disagree about the plan are "
                  "refused");
  sub->add_option("--name", options.name, "Tells the loaders of one job apart");
  AddNamed(
      sub, "--order", &loader::ParseOrder, [&](loader::Order value) { options.order = value; },
      "When batches are handed out: step (in order), or ready (as they become complete)")
      ->default_str("step");
  AddCount(sub, "--ready-window", &options.ready_window,
           "With --order ready: steps that may be handed out, from the first one that was not on",
           {.lowest = 1, .highest = loader::kMaxReadyWindow})
      ->capture_default_str();
  AddCount(sub, "--streams", &options.streams,
           "Data connections to each daemon; 0: as many as distance and rate ask for");
  AddMib(sub, "--prefetch-mb", &options.prefetch_bytes,
         "Payload received or on the way, not yet handed out; 0: 256, more where distance and rate "
         "ask for it");
  sub->add_option("--features", command.features,
                  "Features of tf.train.Example to parse into columns; without any, records stay "
                  "raw")
      ->type_name("NAME=SPEC");
  AddSeconds(sub, "--timeout-s", &options.timeout_ms,
             "For connecting, and for waiting without any progress");
  AddMaxRecord(sub, &options.max_record_bytes, "Refuse a larger record");
  AddCount(sub, "--max-bad-records", &options.max_bad_records,
           "Leave out so many records that are bad where they are stored; one more is an error");
  AddCount(sub, "--workers", &options.worker_threads,
           "Threads that check and parse; 0: the number of processors, at most 4", kThreadCount)
      ->capture_default_str();
  sub->add_option("--index-dir", options.index_directory,
                  "For local sources: where indexes are kept")
      ->type_name("DIR");
  AddBadShardPolicy(sub, &options.on_bad_shard, kForLocalSources);
  sub->add_option_function<std::string>(
         "--start", [&command](const std::string& text) { command.start = ParseCursor(text); },
         "First batch of the first pass, as a checkpoint names it")
      ->type_name("EPOCH:STEP")
      ->default_str("0:0");
  AddCount(sub, "--batches", &command.max_batches, "Stop after so many batches; 0: all")
      ->capture_default_str();
  sub->add_flag("--check-once", command.check_once,
                "Check that every record of this rank's share came exactly once in every pass");
  AddFile(sub, "--dump-indices", &command.dump_indices,
          "Write a line a batch: epoch, step, and the record numbers in slot order");
  AddJson(sub, &command.json);
  return sub;
}

CLI::App* AddIndex(CLI::App& app, IndexCommand& command) {
  command.max_record_bytes = dataset::DatasetOptions{}.max_record_bytes;
  CLI::App* sub =
      app.add_subcommand("index", "Check the indexes of shards, and build those that are not good");
  sub->add_option("patterns", command.patterns, kPatternHelp)->type_name("PATTERN")->required();
  AddIndexPlace(sub, &command.index_directory, &command.index_beside, "--beside");
  auto* dali = sub->add_flag("--dali-idx", command.dali_idx,
                             "Write the indexes that DALI's TFRecord reader wants too: SHARD.idx");
  sub->add_option("--dali-idx-dir", command.dali_directory, "Put those here, not beside the shards")
      ->type_name("DIR")
      ->excludes(dali);
  sub->add_flag("--rebuild", command.rebuild, "Build all of them, the good ones too");
  AddMaxRecord(sub, &command.max_record_bytes, "Refuse shards with a larger record");
  AddBadShardPolicy(sub, &command.on_bad_shard);
  AddCount(sub, "--jobs", &command.jobs,
           "Shards at a time; 0: the number of processors, or 8 if that is more", kThreadCount)
      ->capture_default_str();
  AddJson(sub, &command.json);
  return sub;
}

CLI::App* AddVerify(CLI::App& app, VerifyCommand& command) {
  command.max_record_bytes = dataset::DatasetOptions{}.max_record_bytes;
  CLI::App* sub = app.add_subcommand(
      "verify", "Read every byte of the shards and report every place where a checksum fails");
  sub->add_option("patterns", command.patterns, kPatternHelp)->type_name("PATTERN")->required();
  AddCount(sub, "--jobs", &command.jobs, "Shards at a time; 0: the number of processors",
           kThreadCount)
      ->capture_default_str();
  AddMaxRecord(sub, &command.max_record_bytes, "Larger records count as bad");
  AddJson(sub, &command.json);
  return sub;
}

// Where inspect and plan find the records.
void AddRecordSource(CLI::App* sub, RecordSourceOptions& options) {
  sub->add_option("sources", options.sources,
                  "Local files, directories and glob patterns, or tcp://HOST:PORT/NAME of an emlio "
                  "serve; any mixture")
      ->type_name("SOURCE")
      ->required();
  sub->add_option("--index-dir", options.index_directory,
                  "For local sources: where indexes are kept")
      ->type_name("DIR");
  AddMaxRecord(sub, &options.max_record_bytes, "Refuse shards with a larger record");
  AddBadShardPolicy(sub, &options.on_bad_shard, kForLocalSources);
  AddSeconds(sub, "--timeout-s", &options.timeout_ms, "For daemons");
}

CLI::App* AddInspect(CLI::App& app, InspectCommand& command) {
  CLI::App* sub =
      app.add_subcommand("inspect", "Show what a data set holds: features, sizes, single records");
  AddRecordSource(sub, command.source);
  AddCount(sub, "--records", &command.records, "How many to look at, from the first on; 0: all")
      ->capture_default_str();
  auto* record = sub->add_option("--record", command.record,
                                 "Show this record in full: its number in the data set, or "
                                 "SHARD:N for number N of a shard")
                     ->type_name("RECORD");
  auto* schema = sub->add_flag("--schema", command.schema,
                               "Print only what emlio.Loader(features=...) takes to read what "
                               "was found, as JSON that is a Python dict, too")
                     ->excludes(record);
  AddJson(sub, &command.json);
  schema->excludes("--json");
  return sub;
}

// "A:B", both may be left out; or "A" alone. `open_end`: what a range without B ends at; 0: it
// needs one.
NumberRange ParseRange(const std::string& flag, const std::string& text, uint64_t open_end) {
  NumberRange range{.begin = 0, .end = open_end};
  const size_t colon = text.find(':');
  const std::string_view first = std::string_view(text).substr(0, colon);
  const std::string_view last =
      colon == std::string::npos ? "" : std::string_view(text).substr(colon + 1);
  const bool ok = (first.empty() ? colon != std::string::npos : ParseWhole(first, &range.begin)) &&
                  (last.empty() || ParseWhole(last, &range.end));
  if (colon == std::string::npos && range.begin < std::numeric_limits<uint64_t>::max()) {
    range.end = range.begin + 1;
  }
  if (!ok || range.begin >= range.end) {
    throw CLI::ValidationError(
        flag, "'" + text + "' is no range: write A:B for A up to B - 1, or A alone");
  }
  return range;
}

CLI::App* AddPlan(CLI::App& app, PlanCommand& command) {
  loader::LoaderOptions& options = command.loader;
  CLI::App* sub =
      app.add_subcommand("plan", "Show who gets which record, in which order; reads no record");
  AddRecordSource(sub, command.source);
  AddPlanOptions(sub, options);
  AddCount(sub, "--world-size", &options.world_size, "Of how many ranks");
  sub->add_option_function<std::string>(
         "--epoch",
         [&command](const std::string& text) { command.epochs = ParseRange("--epoch", text, 0); },
         "Which epoch, or which ones: A:B is A up to B - 1")
      ->type_name("A[:B]")
      ->default_str("0");
  auto* steps = sub->add_option_function<std::string>(
                       "--steps",
                       [&command](const std::string& text) {
                         command.steps =
                             ParseRange("--steps", text, std::numeric_limits<uint64_t>::max());
                       },
                       "List the slots of these steps: A:B is A up to B - 1, : is all")
                    ->type_name("A[:B]");
  sub->add_option_function<std::string>(
         "--rank",
         [&command](const std::string& text) {
           uint32_t rank = 0;
           if (!ParseWhole(text, &rank)) {
             throw CLI::ValidationError("--rank", "'" + text + "' is not a rank");
           }
           command.rank = rank;
         },
         "With --steps: of this rank alone")
      ->type_name("N")
      ->needs(steps);
  sub->add_option("--record", command.record,
                  "Tell in which step, rank and slot this record comes: its number in the data "
                  "set, or SHARD:N for number N of a shard")
      ->type_name("RECORD")
      ->excludes(steps);
  AddJson(sub, &command.json);
  return sub;
}

void AddPrefix(CLI::App* sub, convert::ShardSetOptions& options) {
  sub->add_option("--prefix", options.prefix, "Shards are named PREFIX-NUMBER-of-COUNT.tfrecord")
      ->capture_default_str();
}

void AddShardSet(CLI::App* sub, convert::ShardSetOptions& options) {
  auto* overwrite = sub->add_flag(
      "--overwrite", options.overwrite,
      "Replace the shards that the folder already holds, once the new ones are complete; drop an "
      "unfinished conversion with other options");
  sub->add_flag("--check", options.check,
                "Write nothing: prove that the shards that are there equal the source")
      ->excludes(overwrite);
  AddCount(sub, "--jobs", &options.threads, "Shards at a time; 0: the number of processors",
           kThreadCount)
      ->capture_default_str();
}

CLI::App* AddConvertImageFolder(CLI::App* convert, ConvertImageFolderCommand& command) {
  convert::ImageFolderOptions& options = command.options;
  CLI::App* sub = convert->add_subcommand(
      "imagefolder", "A folder of images, one sub-folder a class, to shards of tf.train.Example");
  sub->add_option("source", options.source, "Folder that holds a folder for every class")
      ->type_name("SRC")
      ->required();
  sub->add_option("destination", options.destination, "Folder for the shards; made when missing")
      ->type_name("DST")
      ->required();
  AddPrefix(sub, options);
  AddShardSet(sub, options);
  auto* shards = AddCount(sub, "--shards", &options.shards,
                          "How many; 0: as many as give shards of --shard-mb")
                     ->capture_default_str();
  AddMib(sub, "--shard-mb", &options.shard_bytes, "Size of a shard, about")->excludes(shards);
  sub->add_flag_callback(
      "--no-shuffle", [&options] { options.shuffle = false; },
      "Leave the images in order of class and path instead of mixing them");
  AddCount(sub, "--seed", &options.seed, "Of the mixing");
  AddJson(sub, &command.json);
  return sub;
}

CLI::App* AddConvertRecompress(CLI::App* convert, ConvertRecompressCommand& command) {
  convert::RecompressOptions& options = command.options;
  CLI::App* sub = convert->add_subcommand(
      "recompress",
      "TFRecord shards that are gzip or zlib data to plain ones, which can be served");
  sub->add_option_function<std::vector<std::string>>(
         "paths",
         [&command](std::vector<std::string> paths) {
           command.options.destination = std::move(paths.back());
           paths.pop_back();
           command.patterns = std::move(paths);
         },
         "Shards: files, directories or glob patterns (quote them); last the folder for the plain "
         "ones, made when missing")
      ->type_name("SRC ... DST")
      ->expected(2, std::numeric_limits<int>::max())
      ->required();
  AddShardSet(sub, options);
  AddMaxRecord(sub, &options.max_record_bytes, "Refuse shards with a larger record");
  AddJson(sub, &command.json);
  return sub;
}

CLI::App* AddConvertSynthetic(CLI::App* convert, ConvertSyntheticCommand& command) {
  convert::SyntheticOptions& options = command.options;
  CLI::App* sub = convert->add_subcommand(
      "synthetic", "Random records for tests and measurements; each begins with its number");
  sub->add_option("destination", options.destination, "Folder for the shards; made when missing")
      ->type_name("DST")
      ->required();
  AddCount(sub, "--records", &options.records, "How many records")->required();
  sub->add_option("--record-bytes", options.record_bytes,
                  "Size of each; KB is 1000 bytes, KiB 1024, and so on")
      ->transform(CLI::AsSizeValue(true).description(""))
      ->type_name("SIZE")
      ->required();
  AddCount(sub, "--shards", &options.shards, "How many shards");
  AddPrefix(sub, options);
  AddShardSet(sub, options);
  AddCount(sub, "--seed", &options.seed, "Of the bytes");
  sub->add_flag("--example", options.as_example,
                "Write tf.train.Example records (id, data) instead of raw ones");
  AddJson(sub, &command.json);
  return sub;
}

// A receiver allocates and frees a few MiB for every message. By default glibc gives such memory
// back to the system and faults it in again page by page: a quarter of the receiver's processor
// time. A library in somebody's process leaves this alone, an executable need not.
void KeepFreedMemory() {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // above any message; more is refused by older versions
  mallopt(M_TRIM_THRESHOLD, 64 << 20);
}

// A reader that has enough (`| head`) is no error to tell; the exit code is what it is elsewhere.
int FailedToWrite(int error) {
  if (error == EPIPE) return kExitSignalled + SIGPIPE;
  return Fail(ErrnoStatus(error, "writing to standard output"));
}

// The exit code of a command that has ended with `exit_code`: results that did not get to where
// they belong (a full disk) are a failure.
int Written(int exit_code) {
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  return written || exit_code != kExitOk ? exit_code : FailedToWrite(errno);
}

int Main(int argc, char** argv) {
  PrepareStandardStreams();
  CLI::App app("EMLIO: training data from storage nodes, pushed as ready batches.", "emlio");
  app.set_version_flag("--version", std::string("emlio ") + EMLIO_VERSION, "Print the version");
  app.require_subcommand(0, 1);  // not 1: so that the message is about an unknown word itself

  ServeCommand serve;
  PullCommand pull;
  IndexCommand index;
  VerifyCommand verify;
  InspectCommand inspect;
  PlanCommand plan;
  ConvertImageFolderCommand image_folder;
  ConvertRecompressCommand recompress;
  ConvertSyntheticCommand synthetic;
  const CLI::App* const serve_sub = AddServe(app, serve);
  const CLI::App* const pull_sub = AddPull(app, pull);
  const CLI::App* const index_sub = AddIndex(app, index);
  const CLI::App* const verify_sub = AddVerify(app, verify);
  const CLI::App* const inspect_sub = AddInspect(app, inspect);
  const CLI::App* const plan_sub = AddPlan(app, plan);
  CLI::App* const convert = app.add_subcommand("convert", "Make TFRecord shards out of other data");
  convert->require_subcommand(0, 1);
  const CLI::App* const image_folder_sub = AddConvertImageFolder(convert, image_folder);
  const CLI::App* const recompress_sub = AddConvertRecompress(convert, recompress);
  const CLI::App* const synthetic_sub = AddConvertSynthetic(convert, synthetic);
  for (CLI::App* sub : app.get_subcommands({})) {
    if (sub != convert) AddLog(sub);
  }
  for (CLI::App* sub : convert->get_subcommands({})) AddLog(sub);
  EnergyCli energy(app);

  app.footer(kFooter);  // after the subcommands, which would inherit it

  try {
    app.parse(energy.TakeCommand(argc, argv), argv);
  } catch (const CLI::ParseError& e) {
    // Help and version are errors for CLI11, with exit code 0.
    return Written(app.exit(e) == 0 ? kExitOk : kExitUsage);
  }
  const auto run_command = [&] {
    if (pull_sub->parsed()) return RunPull(pull);
    if (index_sub->parsed()) return RunIndex(index);
    if (verify_sub->parsed()) return RunVerify(verify);
    if (inspect_sub->parsed()) return RunInspect(inspect);
    if (plan_sub->parsed()) return RunPlan(plan);
    if (image_folder_sub->parsed()) return RunConvertImageFolder(image_folder);
    if (recompress_sub->parsed()) return RunConvertRecompress(std::move(recompress));
    if (synthetic_sub->parsed()) return RunConvertSynthetic(synthetic);
    SayText((convert->parsed() ? convert : &app)->help());
    return static_cast<int>(kExitUsage);
  };
  const auto run = [&] {
    if (const auto exit_code = energy.Run()) return *exit_code;
    // A daemon has a file a shard and a socket a stream; the usual soft limit of 1,024 is small.
    // (What `energy` runs keeps the limit that it was given.)
    RaiseMaxOpenFiles();
    KeepFreedMemory();
    if (serve_sub->parsed()) return RunServe(serve);  // drains its sessions at the first signal
    const InterruptFlag interrupt;
    return InterruptFlag::ExitCode(run_command());
  };
  try {
    return Written(run());
  } catch (const std::system_error& error) {  // fmt::print, in the middle of a long output
    return FailedToWrite(error.code().value());
  }
}

}  // namespace
}  // namespace emlio::tool

int main(int argc, char** argv) { return emlio::tool::Main(argc, argv); }
