// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "emlio/example/columns.h"
#include "emlio/loader/loader.h"
#include "emlio/plan/plan.h"
#include "emlio/session/receiver.h"

namespace emlio::loader {

// A batch with everything that its views need: received buffers, and the plan for the indices.
class AssembledBatchView : public Batch {
 public:
  AssembledBatchView(session::AssembledBatch assembled, std::shared_ptr<const plan::Plan> plan,
                     plan::StepShare share);

  // Parses the features into columns. The error names the record by shard and number.
  Status Parse(std::span<const example::FeatureSpec> features, const dataset::Manifest& manifest);

  uint64_t epoch() const override { return assembled_.epoch; }
  uint64_t step() const override { return assembled_.step; }
  size_t valid_records() const override { return valid_records_; }
  std::span<const std::span<const uint8_t>> records() const override { return assembled_.records; }
  std::span<const uint64_t> indices() const override;
  std::span<const BadRecord> bad_records() const override { return bad_records_; }
  uint64_t payload_bytes() const override { return assembled_.payload_bytes; }
  std::span<const example::Column> columns() const override { return columns_; }

 private:
  session::AssembledBatch assembled_;  // its records: those that are left
  const std::shared_ptr<const plan::Plan> plan_;
  const plan::StepShare share_;
  size_t valid_records_ = 0;
  std::vector<BadRecord> bad_records_;
  std::vector<example::Column> columns_;
  mutable std::once_flag indices_once_;  // most users never ask
  mutable std::vector<uint64_t> indices_;
};

}  // namespace emlio::loader
