// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "emlio/base/hash128.h"
#include "emlio/base/status.h"

namespace emlio::convert {

inline constexpr size_t kMaxStateBytes = size_t{256} << 20;

// Names and values, in order.
using ConversionOptions = std::vector<std::pair<std::string, std::string>>;

// A shard that an unfinished conversion has made.
struct FinishedShard {
  Hash128 source{};
  uint64_t records = 0;
  uint64_t payload_bytes = 0;
  uint64_t source_bytes = 0;
  Hash128 fingerprint{};
  friend bool operator==(const FinishedShard&, const FinishedShard&) = default;
};

// What an unfinished conversion has left: the content of its state file (STATE.md).
struct ConversionState {
  ConversionOptions options;
  std::map<uint64_t, FinishedShard> shards;  // by number
  bool complete = false;
};

// The lines that a state file is made of, in this order. REQUIRES: no line feed in names and
// values, no blank in names.
std::string StateHead(const ConversionOptions& options);
std::string StateLine(uint64_t shard, const FinishedShard& finished);
std::string StateEnd();

// Reads as far as the lines hold. kCorrupt: not even the first one does. kUnsupported: another
// version.
Result<ConversionState> ParseState(std::string_view text);

}  // namespace emlio::convert
