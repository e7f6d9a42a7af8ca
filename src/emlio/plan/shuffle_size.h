// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "emlio/base/status.h"

namespace emlio::plan {

// The size of a block or of a window of Shuffle::kBlock, as users give it.
struct ShuffleSize {
  uint64_t amount = 0;
  bool is_bytes = false;  // else records
  friend bool operator==(const ShuffleSize&, const ShuffleSize&) = default;
};

inline constexpr ShuffleSize kDefaultShuffleBlock{uint64_t{1} << 20, true};
inline constexpr ShuffleSize kDefaultShuffleWindow{uint64_t{64} << 20, true};

// "500": records. "4MiB", with the units B, KB, MB, GB, KiB, MiB and GiB: bytes. kInvalidArgument
// for anything else, and for 0.
Result<ShuffleSize> ParseShuffleSize(std::string_view text);

// What the plan knows: both at least 1.
struct BlockSizes {
  uint32_t block_records = 0;
  uint32_t window_blocks = 0;
};

// Turns sizes in bytes into records by the mean record of a data set of `records` that take `bytes`
// in all; a block has at least one record. Blocks are rounded down, windows up to whole blocks.
// Without a window it is the default one, or one block where that is larger. kInvalidArgument: a
// window smaller than a block, or a block of more records than the plan can have. REQUIRES: records
// > 0, bytes > 0, the sizes are not 0.
Result<BlockSizes> MakeBlockSizes(ShuffleSize block, std::optional<ShuffleSize> window,
                                  uint64_t records, uint64_t bytes);

}  // namespace emlio::plan
