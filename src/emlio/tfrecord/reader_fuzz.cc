// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
// Any bytes as a shard: the reader and the index must agree about what is in it.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "emlio/tfrecord/index.h"
#include "emlio/tfrecord/memory_file.h"
#include "emlio/tfrecord/reader.h"

namespace emlio::tfrecord {
namespace {

// The checksums would stop nearly every input: an input whose first byte is odd gets the right
// ones.
std::string Repair(std::string bytes) {
  size_t at = 0;
  while (bytes.size() - at >= kHeaderBytes) {
    auto* header = reinterpret_cast<uint8_t*>(bytes.data() + at);
    const uint64_t payload_bytes = LoadLe<uint64_t>(header);
    EncodeHeader(payload_bytes, header);
    if (!FitsAt(bytes.size(), at, payload_bytes)) break;
    uint8_t* payload = header + kHeaderBytes;
    StoreLe<uint32_t>(payload + payload_bytes, MaskCrc(Crc32c(payload, payload_bytes)));
    at += kFramingBytes + payload_bytes;
  }
  return bytes;
}

void Expect(bool condition) {
  if (!condition) std::abort();
}

// What can be read of it lies inside it and ends where it says.
void ExpectReadable(const std::string& bytes, IndexOptions options) {
  options.keep_readable = true;
  const auto index = ShardIndex::Build(MemoryFile(bytes), options);
  if (!index.ok()) return;
  uint64_t end = 0;
  for (uint64_t record = 0; record < index->records(); ++record) {
    const auto entry = index->Locate(record);
    Expect(entry.has_value() && entry->offset == end);
    end += entry->payload_bytes + kFramingBytes;
  }
  Expect(end + index->unreadable_bytes() == bytes.size());
}

// A damaged length changes nothing where an index knows the records.
void ExpectBridged(std::string bytes, const ShardIndex& index, IndexOptions options,
                   uint64_t record) {
  bytes[index.Locate(record)->offset + record % kHeaderBytes] ^= 0x20;
  const KnownOffsets* const known = &index;
  options.keep_readable = true;
  options.known = {&known, 1};
  Damage damage;
  const auto bridged = ShardIndex::Build(MemoryFile(bytes), options, &damage);
  Expect(bridged.ok() && damage.bad_records == 1 && damage.unreadable.ok());
  Expect(bridged->records() == index.records() && bridged->fingerprint() == index.fingerprint());
}

}  // namespace
}  // namespace emlio::tfrecord

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace emlio::tfrecord;
  if (size == 0) return 0;
  std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if ((data[0] & 1) != 0) bytes = Repair(std::move(bytes));
  const MemoryFile file(bytes);
  IndexOptions options;
  options.max_record_bytes = 4096;
  const auto index = ShardIndex::Build(file, options);
  ExpectReadable(bytes, options);
  if (index.ok() && index->records() > 0) {
    ExpectBridged(bytes, *index, options, data[0] % index->records());
  }

  auto reader = ShardReader::Open(&file, options.max_record_bytes);
  Expect(reader.ok());
  std::span<const uint8_t> payload;
  uint64_t records = 0;
  for (;; ++records) {
    const auto more = (*reader)->Next(&payload);
    if (!more.ok() && more.status().message().find("payload checksum") == std::string::npos) {
      Expect(!index.ok() && index.status() == more.status());
      return 0;
    }
    if (more.ok() && !*more) break;
    if (index.ok()) {
      const auto entry = index->Locate(records);
      Expect(entry.has_value() && entry->offset == (*reader)->offset());
      Expect(!more.ok() || entry->payload_bytes == payload.size());
    }
  }
  Expect(index.ok() && index->records() == records);
  return 0;
}
