// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "emlio/dataset/dataset.h"
#include "emlio/session/sender.h"

namespace emlio::daemon {

// Records of a merged manifest's shards, as far as this daemon has them.
class LocalRecords : public session::RecordSource {
 public:
  static constexpr uint32_t kNotHere = 0xffffffffu;

  // `local_shards` has for every shard of the merged manifest its position in `dataset`'s own, or
  // kNotHere.
  LocalRecords(std::shared_ptr<const dataset::Dataset> dataset, std::vector<uint32_t> local_shards)
      : dataset_(std::move(dataset)), local_shards_(std::move(local_shards)) {}

  uint64_t PayloadBytes(uint32_t shard, uint64_t record) const override {
    return dataset_->Locate(local_shards_[shard], record).payload_bytes;
  }
  void Prefetch(uint32_t shard, uint64_t record) const override {
    if (local_shards_[shard] != kNotHere) dataset_->Prefetch(local_shards_[shard], record);
  }
  void Place(uint32_t shard, uint64_t record, wire::Skip* skip) const override {
    const uint32_t local = local_shards_[shard];
    skip->shard = dataset_->manifest().shards()[local].name;
    skip->record = record;
    skip->offset = dataset_->Locate(local, record).payload_offset - 12;
  }
  uint32_t local_shard(uint32_t shard) const { return local_shards_[shard]; }
  const std::shared_ptr<const dataset::Dataset>& dataset() const { return dataset_; }

 private:
  const std::shared_ptr<const dataset::Dataset> dataset_;
  const std::vector<uint32_t> local_shards_;
};

}  // namespace emlio::daemon
