// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
//
// Writes TFRecord shards whose records are valid and all zero, with holes for payloads: a data set
// of 100 GB that takes next to no room, to see what start-up costs depend on.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "bench.h"
#include "emlio/base/crc32c.h"
#include "emlio/base/endian.h"

namespace emlio::bench {
namespace {

void WriteShard(const std::string& path, uint64_t records, uint64_t record_bytes,
                uint32_t payload_crc) {
  // A record is length, CRC of the length, payload, CRC of the payload (src/emlio/tfrecord/
  // FORMAT.md). The CRC that ends one record is written together with the header of the next.
  uint8_t piece[16];
  StoreLe(piece, MaskCrc(payload_crc));
  StoreLe(piece + 4, record_bytes);
  StoreLe(piece + 12, MaskCrc(Crc32c(piece + 4, 8)));
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) DieErrno(path);
  const uint64_t stride = record_bytes + 16;
  for (uint64_t i = 0; i <= records; ++i) {
    const uint8_t* from = i == 0 ? piece + 4 : piece;
    const size_t size = i == 0 ? 12 : i == records ? 4 : 16;
    const uint64_t at = i == 0 ? 0 : i * stride - 4;
    if (pwrite(fd, from, size, static_cast<off_t>(at)) != static_cast<ssize_t>(size)) {
      DieErrno(path);
    }
  }
  if (close(fd) != 0) DieErrno(path);
}

int Main(int argc, char** argv) {
  std::string directory;
  uint64_t shards = 10;
  uint64_t records = 1000;
  uint64_t record_bytes = 1'000'000;
  CLI::App app("TFRecord shards of zeros with holes for payloads.");
  app.add_option("directory", directory, "created; shard-00000.tfrecord and so on inside")
      ->required();
  app.add_option("--shards", shards, "files")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--records", records, "over all shards, a multiple of their number")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--record-bytes", record_bytes, "payload of each")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  if (records % shards != 0) Die("--records must be a multiple of --shards");

  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) Die(directory + ": " + error.message());
  const std::vector<uint8_t> zeros(record_bytes);
  const uint32_t payload_crc = Crc32c(zeros.data(), zeros.size());
  for (uint64_t i = 0; i < shards; ++i) {
    WriteShard(fmt::format("{}/shard-{:05}.tfrecord", directory, i), records / shards, record_bytes,
               payload_crc);
  }
  return 0;
}

}  // namespace
}  // namespace emlio::bench

int main(int argc, char** argv) { return emlio::bench::Main(argc, argv); }
