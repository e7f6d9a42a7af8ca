// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
// Any bytes as an index for DALI: what is taken for one has records that follow each other.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "emlio/dataset/known_offsets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace emlio;
  static const int fd = memfd_create("idx", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(fd);
  if (ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != static_cast<ssize_t>(size)) {
    std::abort();
  }
  const auto offsets = dataset::DaliOffsets::Read(path);
  if (!offsets.ok()) return 0;
  uint64_t end = 0;
  for (uint64_t record = 0; record < offsets->records(); ++record) {
    const auto entry = offsets->Locate(record);
    if (!entry.has_value() || entry->offset != end) std::abort();
    end += entry->payload_bytes + tfrecord::kFramingBytes;
    if (end <= entry->offset) std::abort();
  }
  return 0;
}
