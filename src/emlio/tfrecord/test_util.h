// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Files for the tests of this module and of those above it.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "emlio/base/file.h"
#include "emlio/tfrecord/memory_file.h"
#include "emlio/tfrecord/record.h"
#include "emlio/tfrecord/writer.h"

namespace emlio::tfrecord {

inline std::span<const uint8_t> AsBytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}
inline std::string AsString(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A directory of its own, removed with all that is in it.
class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "emlio-test-XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~TempDir() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

inline void WriteBytes(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}
inline std::string ReadBytes(const std::string& path) {
  auto bytes = ReadWholeFile(path, size_t{1} << 30);
  EXPECT_TRUE(bytes.ok()) << bytes.status().ToString();
  return bytes.ok() ? *bytes : std::string();
}

// The framing of one record, written out here once more so that a fault of the writer shows.
inline std::string Framed(std::string_view payload) {
  std::string record(kHeaderBytes, '\0');
  EncodeHeader(payload.size(), reinterpret_cast<uint8_t*>(record.data()));
  record += payload;
  const uint32_t crc = MaskCrc(Crc32c(payload.data(), payload.size()));
  record.append(reinterpret_cast<const char*>(&crc), sizeof(crc));
  return record;
}
// A header alone, with the right checksum.
inline std::string HeaderOf(uint64_t payload_bytes) {
  std::string header(kHeaderBytes, '\0');
  EncodeHeader(payload_bytes, reinterpret_cast<uint8_t*>(header.data()));
  return header;
}
inline std::string Shard(const std::vector<std::string>& payloads) {
  std::string shard;
  for (const std::string& payload : payloads) shard += Framed(payload);
  return shard;
}

}  // namespace emlio::tfrecord
