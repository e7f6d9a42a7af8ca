// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/dataset/local_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "emlio/base/crc32c.h"
#include "emlio/base/endian.h"
#include "emlio/base/file.h"

namespace emlio::dataset {
namespace {

using tfrecord::ShardIndex;

// Copies of so many records share one guard; the scratch for them lies on the stack.
constexpr size_t kGatheredTogether = 64;

}  // namespace

LocalDataset::LocalDataset(std::string name, Manifest manifest, std::vector<OpenedShard> shards,
                           IoMode io, bool is_larger_than_memory)
    : name_(std::move(name)),
      manifest_(std::move(manifest)),
      shards_(std::move(shards)),
      io_(io),
      is_larger_than_memory_(is_larger_than_memory),
      indexes_(shards_, manifest_) {}

Status LocalDataset::GatherSome(std::span<GatherItem> items, Suspect* suspect) const {
  struct Framing {
    std::array<uint8_t, tfrecord::kHeaderBytes> header;
    std::array<uint8_t, tfrecord::kFooterBytes> footer;
  };
  std::array<Framing, kGatheredTogether> framings;
  std::array<ShardIndex::Entry, kGatheredTogether> entries;
  std::array<const ShardIndex*, kGatheredTogether> indexes;
  std::array<ShardData::Piece, 3 * kGatheredTogether> pieces;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i + kPrefetchDistance < items.size()) {
      const GatherItem& later = items[i + kPrefetchDistance];
      Prefetch(later.shard, later.record);
    }
    const GatherItem& item = items[i];
    const OpenedShard& shard = shards_[item.shard];
    indexes[i] = indexes_.Of(item.shard);
    const auto entry = indexes[i]->Locate(item.record);
    if (!entry.has_value()) {
      *suspect = {.shard = item.shard, .position = i, .index = indexes[i]};
      return Corrupt(
          fmt::format("index {} of shard {} is damaged: its entry of record {} cannot "
                      "be; delete it and start again",
                      indexes[i]->path(), shard.path, item.record));
    }
    if (item.size > entry->payload_bytes || item.begin > entry->payload_bytes - item.size) {
      // Planned with the old one.
      if (indexes[i] != &shard.index) return indexes_.Replaced(item.shard);
      return InvalidArgument(
          fmt::format("{}: {} bytes from {} are not inside the {} bytes of the record",
                      tfrecord::Place(shard.path, item.record, entry->offset), item.size,
                      item.begin, entry->payload_bytes));
    }
    entries[i] = *entry;
    // Inside the file: an index entry lies inside the shard as it was when it was opened.
    const uint64_t payload = entry->offset + tfrecord::kHeaderBytes;
    shard.data.Prefetch(payload, entry->payload_bytes + tfrecord::kFooterBytes);
    pieces[3 * i] = {&shard.data, entry->offset, framings[i].header.data(), tfrecord::kHeaderBytes};
    pieces[3 * i + 1] = {&shard.data, payload + item.begin, item.to, item.size};
    pieces[3 * i + 2] = {&shard.data, payload + entry->payload_bytes, framings[i].footer.data(),
                         tfrecord::kFooterBytes};
  }
  if (!ShardData::Copy({pieces.data(), 3 * items.size()})) {
    // Find out which one it was, for the message.
    size_t lost = 0;
    while (lost + 1 < items.size() && ShardData::Copy({&pieces[3 * lost], 3})) ++lost;
    *suspect = {.shard = items[lost].shard, .position = lost, .is_unread = true};
    return Changed(items[lost], entries[lost], "the file became shorter or cannot be read");
  }
  for (size_t i = 0; i < items.size(); ++i) {
    uint64_t payload_bytes = 0;
    if (!tfrecord::DecodeHeader(framings[i].header.data(), &payload_bytes) ||
        payload_bytes != entries[i].payload_bytes) {
      *suspect = {.shard = items[i].shard, .position = i, .index = indexes[i]};
      return Changed(items[i], entries[i],
                     fmt::format("its header is no longer that of a record of {} bytes",
                                 entries[i].payload_bytes));
    }
    items[i].crc32c = UnmaskCrc(LoadLe<uint32_t>(framings[i].footer.data()));
  }
  return OkStatus();
}

Status LocalDataset::Changed(const GatherItem& item, const ShardIndex::Entry& entry,
                             std::string_view how) const {
  return ShardChanged(fmt::format(
      "{}: the shard changed while it was open: {}; write new files instead of changing them",
      tfrecord::Place(shards_[item.shard].path, item.record, entry.offset), how));
}

Status LocalDataset::Gather(std::span<GatherItem> items, BadItem* bad) const {
  for (size_t at = 0; at < items.size(); at += kGatheredTogether) {
    const size_t count = std::min(kGatheredTogether, items.size() - at);
    Suspect suspect;
    Status status = GatherSome(items.subspan(at, count), &suspect);
    if (status.ok()) continue;
    Status reason;  // why the record is bad
    if (suspect.is_unread) {
      if (shards_[suspect.shard].IsAsOpened()) {
        reason = IoError("the system cannot read it, although the file has not changed");
      }
    } else if (suspect.index != nullptr) {
      status = indexes_.Mend(suspect.shard, suspect.index, status, &reason);
    }
    if (reason.ok()) return status;
    if (bad != nullptr) *bad = {at + suspect.position, reason};
    const GatherItem& item = items[at + suspect.position];
    return reason.WithContext(
        tfrecord::Place(shards_[item.shard].path, item.record,
                        Locate(item.shard, item.record).payload_offset - tfrecord::kHeaderBytes));
  }
  return OkStatus();
}

Status LocalDataset::CheckUnchanged(uint32_t shard) const {
  const OpenedShard& opened = shards_[shard];
  // By its descriptor if it has one, which is cheaper, and sees what was done under another name.
  const auto now =
      opened.data.has_descriptor() ? opened.data.IdentityNow() : IdentityOf(opened.path);
  const FileIdentity& then = opened.data.identity();
  if (!now.ok() || now->inode != then.inode || now->device != then.device || *now == then) {
    return OkStatus();
  }
  return ShardChanged(
      fmt::format("shard {} was changed while it was open ({} bytes now, {} before); write new "
                  "files instead of changing them",
                  opened.path, now->size_bytes, then.size_bytes));
}

Status LocalDataset::VerifyRecord(uint32_t shard, uint64_t record, BadItem* bad) const {
  const OpenedShard& opened = shards_[shard];
  GatherItem item;
  item.shard = shard;
  item.record = record;
  const RecordLocation location = Locate(shard, record);
  std::vector<uint8_t> payload(location.payload_bytes);
  item.size = payload.size();
  item.to = payload.data();
  EMLIO_RETURN_IF_ERROR(Gather({&item, 1}, bad));
  const uint32_t computed = Crc32c(payload.data(), payload.size());
  if (computed == item.crc32c) return OkStatus();
  const uint64_t offset = location.payload_offset - tfrecord::kHeaderBytes;
  // A cut inside the last page reads as zeros: was the file changed, or is it damaged?
  if (Status status = CheckUnchanged(shard); !status.ok()) {
    return status.WithContext(tfrecord::Place(opened.path, record, offset));
  }
  if (bad != nullptr) {
    bad->reason = Corrupt("payload checksum does not match: damaged where it is stored");
  }
  return tfrecord::PayloadChecksumError(opened.path, record, offset, item.crc32c, computed);
}

}  // namespace emlio::dataset
