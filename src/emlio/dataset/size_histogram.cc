// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/dataset/size_histogram.h"

#include <algorithm>
#include <bit>

namespace emlio::dataset {

void SizeHistogram::Add(uint64_t bytes) {
  smallest_ = records_ == 0 ? bytes : std::min(smallest_, bytes);
  largest_ = std::max(largest_, bytes);
  ++counts_[std::bit_width(bytes)];
  ++records_;
  bytes_ += bytes;
}

std::vector<SizeHistogram::Bin> SizeHistogram::bins() const {
  std::vector<Bin> bins;
  if (records_ == 0) return bins;
  const int last = static_cast<int>(std::bit_width(largest_));
  for (int bits = static_cast<int>(std::bit_width(smallest_)); bits <= last; ++bits) {
    const uint64_t from = bits == 0 ? 0 : uint64_t{1} << (bits - 1);
    bins.push_back({.from = from, .to = bits == 0 ? 1 : 2 * from, .records = counts_[bits]});
  }
  return bins;
}

SizeHistogram RecordSizes(const Dataset& dataset, uint64_t max_records) {
  const Manifest& manifest = dataset.manifest();
  const uint64_t stride = (manifest.records() + max_records - 1) / max_records;
  SizeHistogram sizes;
  uint64_t next = 0;  // in the current shard
  for (uint32_t shard = 0; shard < manifest.shards().size(); ++shard) {
    const uint64_t records = manifest.shards()[shard].records;
    for (; next < records; next += stride) sizes.Add(dataset.Locate(shard, next).payload_bytes);
    next -= records;
  }
  return sizes;
}

}  // namespace emlio::dataset
