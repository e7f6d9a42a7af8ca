// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "emlio/dataset/dataset.h"

namespace emlio::dataset {

// How large records are, in bins of powers of two. Not thread-safe.
class SizeHistogram {
 public:
  struct Bin {
    uint64_t from = 0;  // bytes, itself included
    uint64_t to = 0;    // itself not
    uint64_t records = 0;
  };

  void Add(uint64_t bytes);

  uint64_t records() const { return records_; }
  uint64_t bytes() const { return bytes_; }  // of all of them together
  // 0 without records.
  uint64_t smallest() const { return smallest_; }
  uint64_t largest() const { return largest_; }
  // From that of the smallest record to that of the largest, empty ones between them included. The
  // first bin is [0, 1), the next ones [1, 2), [2, 4), [4, 8) and so on.
  std::vector<Bin> bins() const;

 private:
  std::array<uint64_t, 65> counts_{};  // by the number of bits of the size
  uint64_t records_ = 0;
  uint64_t bytes_ = 0;
  uint64_t smallest_ = 0;
  uint64_t largest_ = 0;
};

// The sizes of all records, out of the indexes alone; or, where there are more than `max_records`,
// of every n-th one, so that it is that many at most. REQUIRES: max_records > 0.
SizeHistogram RecordSizes(const Dataset& dataset, uint64_t max_records);

}  // namespace emlio::dataset
