// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "emlio/convert/image_folder.h"
#include "emlio/convert/recompress.h"
#include "emlio/convert/synthetic.h"
#include "emlio/daemon/daemon.h"
#include "emlio/loader/loader.h"
#include "plan_report.h"
#include "record_source.h"
#include "sample_sinks.h"

// The subcommands: their options as main.cc reads them from the command line, and one function
// each, which returns the exit code. docs/cli.md describes them for users.
namespace emlio::tool {

struct ServeCommand {
  std::vector<std::string> datasets;  // "NAME=PATTERN"; a name may come several times
  daemon::DaemonOptions daemon;       // but for its data sets
  std::string index_directory;
  bool index_beside = false;
  uint64_t max_record_bytes = 0;
  dataset::IoMode io = dataset::IoMode::kAuto;
  dataset::BadShardPolicy on_bad_shard = dataset::BadShardPolicy::kError;
  std::string ready_file;
  bool energy = true;       // an energy agent inside
  std::string energy_bind;  // empty: on the host of daemon.bind, a free port
  std::string energy_root = "/";
  SampleSinkOptions sinks;
  int64_t drain_ms = 0;
  bool check = false;
  std::string json;
};
int RunServe(const ServeCommand& command);

struct PullCommand {
  loader::LoaderOptions loader;       // but for its features and epochs
  std::vector<std::string> features;  // "NAME=SPEC"
  loader::Cursor start;
  uint64_t passes = 1;
  uint64_t max_batches = 0;  // 0: all
  bool check_once = false;
  std::string dump_indices;
  std::string json;
};
int RunPull(const PullCommand& command);

struct IndexCommand {
  std::vector<std::string> patterns;
  std::string index_directory;
  bool index_beside = false;
  bool rebuild = false;
  bool dali_idx = false;       // <shard>.idx beside every shard
  std::string dali_directory;  // or here
  uint64_t max_record_bytes = 0;
  dataset::BadShardPolicy on_bad_shard = dataset::BadShardPolicy::kError;
  int jobs = 0;
  std::string json;
};
int RunIndex(const IndexCommand& command);

struct VerifyCommand {
  std::vector<std::string> patterns;
  uint64_t max_record_bytes = 0;
  int jobs = 0;  // 0: one per processor
  std::string json;
};
int RunVerify(const VerifyCommand& command);

struct InspectCommand {
  RecordSourceOptions source;
  uint64_t records = 100;  // to look at, from the first on; 0: all
  std::string record;      // "N" or "SHARD:N": this one alone; empty: the data set
  bool schema = false;     // the features option alone
  std::string json;
};
int RunInspect(const InspectCommand& command);

struct PlanCommand {
  RecordSourceOptions source;
  loader::LoaderOptions loader;  // what decides about the plan, but for the rank
  std::optional<uint32_t> rank;  // whose batches to list; not set: all
  NumberRange epochs{.begin = 0, .end = 1};
  std::optional<NumberRange> steps;  // to list
  std::string record;                // "N" or "SHARD:N": find this one
  std::string json;
};
int RunPlan(const PlanCommand& command);

struct ConvertImageFolderCommand {
  convert::ImageFolderOptions options;
  std::string json;
};
int RunConvertImageFolder(const ConvertImageFolderCommand& command);

struct ConvertRecompressCommand {
  convert::RecompressOptions options;  // without sources
  std::vector<std::string> patterns;   // of the sources
  std::string json;
};
int RunConvertRecompress(ConvertRecompressCommand command);

struct ConvertSyntheticCommand {
  convert::SyntheticOptions options;
  std::string json;
};
int RunConvertSynthetic(const ConvertSyntheticCommand& command);

}  // namespace emlio::tool
