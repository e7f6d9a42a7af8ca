// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/plan/shuffle_size.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

namespace emlio::plan {
namespace {

struct Unit {
  std::string_view name;
  uint64_t bytes;
};
constexpr Unit kUnits[] = {
    {"B", 1},
    {"KB", 1'000},
    {"MB", 1'000'000},
    {"GB", 1'000'000'000},
    {"KiB", uint64_t{1} << 10},
    {"MiB", uint64_t{1} << 20},
    {"GiB", uint64_t{1} << 30},
};
constexpr uint64_t kMaxU64 = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kMaxU32 = std::numeric_limits<uint32_t>::max();

uint64_t InRecords(ShuffleSize size, uint64_t records, uint64_t bytes) {
  if (!size.is_bytes) return size.amount;
  const auto count = static_cast<unsigned __int128>(size.amount) * records / bytes;
  return static_cast<uint64_t>(
      std::clamp<unsigned __int128>(count, 1, std::numeric_limits<uint64_t>::max()));
}

}  // namespace

Result<ShuffleSize> ParseShuffleSize(std::string_view text) {
  ShuffleSize size;
  const char* const end = text.data() + text.size();
  const auto [unit_begin, error] = std::from_chars(text.data(), end, size.amount);
  const std::string_view unit_name(unit_begin, end);
  const Unit* const unit = std::find_if(std::begin(kUnits), std::end(kUnits),
                                        [&](const Unit& known) { return known.name == unit_name; });
  size.is_bytes = unit != std::end(kUnits);
  if (error != std::errc() || size.amount == 0 || (!size.is_bytes && !unit_name.empty()) ||
      (size.is_bytes && size.amount > kMaxU64 / unit->bytes)) {
    return InvalidArgument(fmt::format(
        "'{}' is no size: give records, such as '500', or bytes with a unit (B, KB, MB, GB, KiB, "
        "MiB, GiB), such as '4MiB'",
        text));
  }
  if (size.is_bytes) size.amount *= unit->bytes;
  return size;
}

Result<BlockSizes> MakeBlockSizes(ShuffleSize block, std::optional<ShuffleSize> window,
                                  uint64_t records, uint64_t bytes) {
  const uint64_t block_records = InRecords(block, records, bytes);
  const uint64_t window_records =
      window.has_value()
          ? InRecords(*window, records, bytes)
          : std::max(block_records, InRecords(kDefaultShuffleWindow, records, bytes));
  if (block_records > kMaxU32) {
    return InvalidArgument(
        fmt::format("blocks of {} records: at most {} are possible", block_records, kMaxU32));
  }
  if (window_records < block_records) {
    return InvalidArgument(fmt::format(
        "a shuffle window of {} records is smaller than a block of {} records: a window holds at "
        "least one block, and mixes the more the more blocks it holds",
        window_records, block_records));
  }
  const uint64_t window_blocks = (window_records - 1) / block_records + 1;
  return BlockSizes{static_cast<uint32_t>(block_records),
                    static_cast<uint32_t>(std::min(window_blocks, kMaxU32))};
}

}  // namespace emlio::plan
