// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "emlio/base/status.h"
#include "emlio/tfrecord/index.h"

namespace emlio::dataset {

// Where records begin according to an index for DALI (dali_index.h). In memory, 8 bytes a record.
class DaliOffsets : public tfrecord::KnownOffsets {
 public:
  // kNotFound: there is none. kCorrupt: it is no such text, or its records do not follow each
  // other from the beginning of a file.
  static Result<DaliOffsets> Read(const std::string& path);

  uint64_t records() const override { return offsets_.size() - 1; }
  std::optional<Entry> Locate(uint64_t record) const override;

 private:
  std::vector<uint64_t> offsets_ = {0};  // one more than records
};

}  // namespace emlio::dataset
