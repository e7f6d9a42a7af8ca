// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
// Any bytes as a compressed shard, and any bytes compressed: these give the records and the errors
// that the plain ones give. The first byte chooses.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "emlio/convert/compress_testing.h"
#include "emlio/convert/compressed_shard.h"
#include "emlio/tfrecord/memory_file.h"
#include "emlio/tfrecord/reader.h"

namespace emlio::convert {
namespace {

using tfrecord::MemoryFile;

constexpr uint64_t kMaxRecordBytes = 1 << 16;

void Expect(bool condition) {
  if (!condition) std::abort();
}

// Lengths and checksums that hold, so that the input gets further.
std::string Repair(std::string bytes) {
  size_t at = 0;
  while (bytes.size() - at >= tfrecord::kHeaderBytes) {
    auto* header = reinterpret_cast<uint8_t*>(bytes.data() + at);
    const uint64_t payload_bytes = LoadLe<uint64_t>(header) & 0xff;
    tfrecord::EncodeHeader(payload_bytes, header);
    if (!tfrecord::FitsAt(bytes.size(), at, payload_bytes)) break;
    uint8_t* payload = header + tfrecord::kHeaderBytes;
    StoreLe<uint32_t>(payload + payload_bytes, MaskCrc(Crc32c(payload, payload_bytes)));
    at += tfrecord::kFramingBytes + payload_bytes;
  }
  return bytes;
}

void ReadAll(const std::string& compressed, Compression compression) {
  const MemoryFile file(compressed);
  CompressedShardReader reader(&file, compression, kMaxRecordBytes);
  std::span<const uint8_t> payload;
  while (true) {
    const auto more = reader.Next(&payload);
    Expect(reader.file_offset() <= compressed.size());
    if (!more.ok()) Expect(reader.Next(&payload).status() == more.status());
    if (!more.ok() || !*more) return;
  }
}

void ReadBeside(const std::string& plain, const std::string& compressed, Compression compression) {
  const MemoryFile plain_file(plain);
  const MemoryFile compressed_file(compressed);
  const auto reader = tfrecord::ShardReader::Open(&plain_file, kMaxRecordBytes);
  Expect(reader.ok());
  CompressedShardReader other(&compressed_file, compression, kMaxRecordBytes);
  std::span<const uint8_t> payload;
  std::span<const uint8_t> other_payload;
  while (true) {
    const auto more = (*reader)->Next(&payload);
    const auto other_more = other.Next(&other_payload);
    Expect(more.ok() == other_more.ok());
    if (!more.ok()) {
      // Of the first header the plain reader says "this is compressed" where it is so twice.
      Expect(more.status().code() == other_more.status().code() || other.record() == 0);
      return;
    }
    Expect(*more == *other_more && (*reader)->offset() == other.offset());
    if (!*more) return;
    Expect(std::equal(payload.begin(), payload.end(), other_payload.begin(), other_payload.end()));
  }
}

}  // namespace
}  // namespace emlio::convert

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace emlio::convert;
  if (size == 0) return 0;
  const auto compression = (data[0] & 1) != 0 ? Compression::kGzip : Compression::kZlib;
  std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if ((data[0] & 2) != 0) {
    ReadAll(bytes, compression);
    return 0;
  }
  if ((data[0] & 4) != 0) bytes = Repair(std::move(bytes));
  std::string compressed = Compress(bytes, compression);
  if ((data[0] & 8) != 0 && compression == Compression::kGzip) {
    const size_t middle = bytes.size() / 2;
    compressed = Compress(std::string_view(bytes).substr(0, middle), compression) +
                 Compress(std::string_view(bytes).substr(middle), compression);
  }
  ReadBeside(bytes, compressed, compression);
  return 0;
}
