// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emlio/base/status.h"
#include "link_model.h"
#include "link_thread.h"

// What the emulator is told: its configuration, and commands while it runs. The text is JSON; the
// README has all fields. Unknown fields are refused.
namespace emlio::wanlab {

inline constexpr size_t kMaxConfigBytes = 1 << 20;
inline constexpr size_t kMaxCommandBytes = 1 << 16;
inline constexpr size_t kMaxNodes = 64;
inline constexpr size_t kMaxLinks = 64;
inline constexpr int64_t kMinQueueBytes = 1 << 20;

// A direction as it was asked for.
struct WantedDirection {
  DirectionSettings settings;
  // Neither a number of bytes nor of packets was given.
  bool queue_is_automatic = true;
};

struct LinkConfig {
  size_t storage = 0;  // index of a node
  size_t compute = 0;
  std::string storage_address;
  std::string compute_address;
  int prefix_bits = 30;
  int mtu = 1500;
  WantedDirection directions[2];
};

struct Config {
  std::vector<std::string> nodes;
  std::vector<LinkConfig> links;
  std::string control_path;
  uint64_t seed = 1;
};

struct Command {
  enum Kind { kSet, kStatistics, kStop } kind = kStatistics;
  std::string set;                     // JSON object: fields of a direction
  std::optional<size_t> link;          // all when absent
  std::optional<Direction> direction;  // both when absent
};

// kInvalidArgument says which field is wrong, and what it may be.
Result<Config> ParseConfig(std::string_view text);
Result<Command> ParseCommand(std::string_view text);

// Changes the fields that a JSON object names; "queue_bytes": null makes the queue automatic.
Status Apply(std::string_view json_text, WantedDirection* wanted);

// What one direction of a link does. An automatic queue holds what the direction's rate sends in a
// round trip, at least kMinQueueBytes.
DirectionSettings Resolve(const WantedDirection& wanted, const WantedDirection& opposite);

}  // namespace emlio::wanlab
