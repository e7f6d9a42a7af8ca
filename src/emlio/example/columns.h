// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "emlio/base/status.h"
#include "emlio/example/feature_spec.h"

namespace emlio::example {

// One feature over the records of a batch. Of the three value vectors the one of `spec.kind` is
// filled: record after record, spec.length values each, or with spec.length == 0 those of record i
// in [row_offsets[i], row_offsets[i + 1]).
struct Column {
  FeatureSpec spec;
  std::vector<uint8_t> present;       // optional features only: 1 or 0, one a record
  std::vector<uint64_t> row_offsets;  // ragged features only: records + 1
  std::vector<int64_t> int64_values;
  std::vector<float> float_values;
  std::vector<std::span<const uint8_t>> bytes_values;  // borrowed from the records
};

// Reads the wanted features of a batch of serialized tf.train.Example records; out->at(i) belongs
// to specs[i]. Features that nobody wants are skipped without decoding. `out` is overwritten; given
// the columns of an earlier batch it reuses their memory, and nothing is allocated per record.
// Thread-safe for different `out`.
//   An optional feature that a record lacks (or has without any list) counts as not present and
// gives zeros or empty spans, or no values when ragged. An empty list is not absence: it has no
// value, which is an error unless the feature is ragged.
//   On an error `*bad_record` is the index of the record that it is about and the contents of `out`
// are unspecified. kCorrupt: not an Example. kInvalidArgument: the record does not fit a spec; the
// message names the feature and what the record has instead.
//   Decoded int64 values take at most 8 times the bytes of their record, byte values 8 times.
// REQUIRES: the names of `specs` differ; `out` and `bad_record` are not null.
Status ParseColumns(std::span<const FeatureSpec> specs,
                    std::span<const std::span<const uint8_t>> records, std::vector<Column>* out,
                    size_t* bad_record);

}  // namespace emlio::example
