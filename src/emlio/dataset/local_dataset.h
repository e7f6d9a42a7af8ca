// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emlio/base/status.h"
#include "emlio/dataset/dataset.h"
#include "emlio/dataset/live_indexes.h"
#include "emlio/dataset/manifest.h"
#include "emlio/dataset/open_shard.h"
#include "emlio/tfrecord/index.h"
#include "emlio/tfrecord/record.h"

namespace emlio::dataset {

// The shards of a data set that Dataset::Open has opened. Private to the module.
class LocalDataset final : public Dataset {
 public:
  LocalDataset(std::string name, Manifest manifest, std::vector<OpenedShard> shards, IoMode io,
               bool is_larger_than_memory);

  const std::string& name() const override { return name_; }
  const Manifest& manifest() const override { return manifest_; }
  IoMode io() const override { return io_; }
  bool is_larger_than_memory() const override { return is_larger_than_memory_; }
  const std::string& path(uint32_t shard) const override { return shards_[shard].path; }
  RecordLocation Locate(uint32_t shard, uint64_t record) const override {
    const auto entry = indexes_.Of(shard)->Locate(record);
    if (!entry.has_value()) return {};
    return {entry->offset + tfrecord::kHeaderBytes, entry->payload_bytes};
  }
  void Prefetch(uint32_t shard, uint64_t record) const override {
    indexes_.Of(shard)->Prefetch(record);
  }
  bool seems_in_memory() const override { return calls_in_memory_ >= 8; }

  // local_dataset.cc: reading records.
  using Dataset::Gather;
  using Dataset::VerifyRecord;
  Status Gather(std::span<GatherItem> items, BadItem* bad) const override;
  Status CheckUnchanged(uint32_t shard) const override;
  Status VerifyRecord(uint32_t shard, uint64_t record, BadItem* bad) const override;

  // local_dataset_memory.cc: what is in memory, should be, or need not be any more.
  void ReadAhead(std::span<const RecordId> records) const override;
  bool FindInMemory(std::span<const GatherItem> items,
                    std::vector<StoredPiece>* pieces) const override;
  void LetGo(std::span<const GatherItem> items) const override;

 private:
  // Index entries are asked for so many records before they are needed.
  static constexpr size_t kPrefetchDistance = 8;

  // What may be to blame for an error.
  struct Suspect {
    uint32_t shard = 0;
    size_t position = 0;                          // of the item
    const tfrecord::ShardIndex* index = nullptr;  // whose entry does not lead to a record
    bool is_unread = false;                       // the item
  };

  // After an error that one item or its index may be to blame for, `suspect` names them. REQUIRES:
  // few enough items.
  Status GatherSome(std::span<GatherItem> items, Suspect* suspect) const;
  Status Changed(const GatherItem& item, const tfrecord::ShardIndex::Entry& entry,
                 std::string_view how) const;

  const std::string name_;
  const Manifest manifest_;
  const std::vector<OpenedShard> shards_;  // in the order of the manifest
  const IoMode io_;
  const bool is_larger_than_memory_;
  mutable std::atomic<uint32_t> calls_in_memory_ = 0;  // of ReadAhead, since something was not
  mutable LiveIndexes indexes_;
};

}  // namespace emlio::dataset
