// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/loader/batch.h"

#include <algorithm>

#include "fmt/format.h"

namespace emlio::loader {
namespace {

// Removes the elements of skipped slots, which are in ascending order.
template <typename T>
void EraseSlots(const std::vector<session::SkippedSlot>& skipped, std::vector<T>* of_slots) {
  if (skipped.empty()) return;
  auto next = skipped.begin();
  size_t kept = next->slot;
  for (size_t slot = kept; slot < of_slots->size(); ++slot) {
    if (next != skipped.end() && next->slot == slot) {
      ++next;
    } else {
      (*of_slots)[kept++] = (*of_slots)[slot];
    }
  }
  of_slots->resize(kept);
}

}  // namespace

AssembledBatchView::AssembledBatchView(session::AssembledBatch assembled,
                                       std::shared_ptr<const plan::Plan> plan,
                                       plan::StepShare share)
    : assembled_(std::move(assembled)),
      plan_(std::move(plan)),
      share_(share),
      valid_records_(share.slots - share.padded) {
  auto& skipped = assembled_.skipped;
  std::sort(skipped.begin(), skipped.end(),
            [](const auto& a, const auto& b) { return a.slot < b.slot; });
  const size_t valid_slots = valid_records_;
  EraseSlots(skipped, &assembled_.records);
  for (const session::SkippedSlot& bad : skipped) {
    bad_records_.push_back({plan_->RecordAt(assembled_.epoch, share_.first_position + bad.slot),
                            bad.slot < valid_slots, bad.reason});
    if (bad.slot < valid_slots) --valid_records_;
  }
}

Status AssembledBatchView::Parse(std::span<const example::FeatureSpec> features,
                                 const dataset::Manifest& manifest) {
  if (features.empty()) return OkStatus();
  size_t bad_record = 0;
  const Status status = example::ParseColumns(features, assembled_.records, &columns_, &bad_record);
  if (status.ok()) return status;
  size_t slot = bad_record;
  for (const session::SkippedSlot& skipped : assembled_.skipped) slot += skipped.slot <= slot;
  const plan::PlannedRecord place =
      plan_->Locate(plan_->RecordAt(assembled_.epoch, share_.first_position + slot));
  return status.WithContext(fmt::format("shard {}, record {} (epoch {}, step {}, slot {})",
                                        manifest.shards()[place.shard].name, place.record,
                                        assembled_.epoch, assembled_.step, slot));
}

std::span<const uint64_t> AssembledBatchView::indices() const {
  std::call_once(indices_once_, [this] {
    plan_->Numbers(assembled_.epoch, share_, &indices_);
    EraseSlots(assembled_.skipped, &indices_);
  });
  return indices_;
}

}  // namespace emlio::loader
