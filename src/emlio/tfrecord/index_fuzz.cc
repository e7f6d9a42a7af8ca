// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
// Any bytes as a saved index: loading and every lookup must stay inside the file and the shard.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "emlio/base/crc32c.h"
#include "emlio/base/endian.h"
#include "emlio/tfrecord/index.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace emlio;
  if (size == 0) return 0;
  std::vector<uint8_t> bytes(data + 1, data + size);
  FileIdentity shard;
  if (bytes.size() >= 96 && (data[0] & 1) != 0) {
    // The checksum and the identity would stop nearly every input: give it the right ones.
    shard.size_bytes = LoadLe<uint64_t>(&bytes[40]);
    shard.mtime_ns = LoadLe<int64_t>(&bytes[48]);
    shard.inode = LoadLe<uint64_t>(&bytes[56]);
    StoreLe<uint32_t>(&bytes[92], Crc32c(bytes.data(), 92));
  }
  static const int fd = memfd_create("index", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(fd);
  if (ftruncate(fd, 0) != 0 ||
      pwrite(fd, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    std::abort();
  }
  const auto index = tfrecord::ShardIndex::Load(path, shard);
  if (!index.ok()) return 0;
  (void)index->CheckTable();
  for (uint64_t record = 0; record < index->records(); ++record) {
    const auto entry = index->Locate(record);
    if (entry.has_value() &&
        (!tfrecord::FitsAt(shard.size_bytes, entry->offset, entry->payload_bytes) ||
         entry->payload_bytes > index->max_record_bytes())) {
      std::abort();
    }
  }
  return 0;
}
