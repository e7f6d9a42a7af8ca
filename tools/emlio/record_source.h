// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emlio/base/status.h"
#include "emlio/dataset/dataset.h"
#include "emlio/dataset/manifest.h"

namespace emlio::tool {

struct RecordSourceOptions {
  // As `emlio pull` takes them: local files, directories and patterns, tcp://HOST:PORT/NAME, or
  // both.
  std::vector<std::string> sources;
  std::string index_directory;  // local ones: see dataset::DatasetOptions
  uint64_t max_record_bytes = uint64_t{256} << 20;
  dataset::BadShardPolicy on_bad_shard = dataset::BadShardPolicy::kError;
  int64_t timeout_ms = 60'000;  // for daemons
};

// Where a record is, for messages.
struct RecordPlace {
  uint32_t shard = 0;   // in the manifest
  uint64_t record = 0;  // in the shard
  std::string path;     // of the shard; empty where a daemon has it
  uint64_t offset = 0;  // of the record's header in that file
};

// ", 116 B of 1 damaged shard left out", or nothing where shards are whole.
std::string UnreadableText(const dataset::Manifest& manifest);

// The records of a data set one by one, wherever it is. Not thread-safe.
class RecordSource {
 public:
  // Shows progress while indexes are built. Errors as those of dataset::Dataset::Open and
  // loader::Loader::Open; kCancelled after a signal, where an InterruptFlag exists.
  static Result<std::unique_ptr<RecordSource>> Open(const RecordSourceOptions& options);
  virtual ~RecordSource() = default;

  virtual const dataset::Manifest& manifest() const = 0;
  // The shards where they are all on this host, else nullptr.
  virtual const dataset::Dataset* local() const = 0;
  // The payload of a record, its checksum verified; valid until the next call. Cheapest in
  // ascending order. REQUIRES: number < manifest().records().
  virtual Result<std::span<const uint8_t>> Read(uint64_t number) = 0;

  // REQUIRES: number < manifest().records().
  RecordPlace Locate(uint64_t number) const;
  // The number of the record that a user calls "N" (a number in the data set) or "SHARD:N", where
  // SHARD is the name of a shard, its path on this host, or how either ends behind a '/'.
  // kInvalidArgument says what is wrong.
  Result<uint64_t> Find(std::string_view record) const;

 protected:
  // To be called once, when manifest() is there.
  void NumberRecords();

 private:
  std::vector<uint64_t> first_records_;  // of every shard, and the total
};

}  // namespace emlio::tool
