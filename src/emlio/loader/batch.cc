// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/loader/batch.h"

#include "fmt/format.h"

namespace emlio::loader {

Status AssembledBatchView::Parse(std::span<const example::FeatureSpec> features,
                                 const dataset::Manifest& manifest) {
  if (features.empty()) return OkStatus();
  size_t bad_record = 0;
  const Status status = example::ParseColumns(features, assembled_.records, &columns_, &bad_record);
  if (status.ok()) return status;
  const plan::PlannedRecord place =
      plan_->Locate(plan_->RecordAt(assembled_.epoch, share_.first_position + bad_record));
  return status.WithContext(fmt::format("shard {}, record {} (epoch {}, step {}, slot {})",
                                        manifest.shards()[place.shard].name, place.record,
                                        assembled_.epoch, assembled_.step, bad_record));
}

std::span<const uint64_t> AssembledBatchView::indices() const {
  std::call_once(indices_once_, [this] { plan_->Numbers(assembled_.epoch, share_, &indices_); });
  return indices_;
}

}  // namespace emlio::loader
