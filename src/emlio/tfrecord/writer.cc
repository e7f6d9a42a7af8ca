// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/tfrecord/writer.h"

#include <array>

#include "emlio/base/crc32c.h"
#include "emlio/base/endian.h"
#include "emlio/tfrecord/record.h"

namespace emlio::tfrecord {

Result<std::unique_ptr<ShardWriter>> ShardWriter::Create(const std::string& path) {
  EMLIO_ASSIGN_OR_RETURN(auto file, AtomicFile::Create(path));
  return std::unique_ptr<ShardWriter>(new ShardWriter(std::move(file)));
}

Status ShardWriter::Append(std::span<const uint8_t> payload) {
  std::array<uint8_t, kHeaderBytes> header;
  EncodeHeader(payload.size(), header.data());
  std::array<uint8_t, kFooterBytes> footer;
  StoreLe<uint32_t>(footer.data(), MaskCrc(Crc32c(payload.data(), payload.size())));
  EMLIO_RETURN_IF_ERROR(file_->Append(header.data(), header.size()));
  EMLIO_RETURN_IF_ERROR(file_->Append(payload.data(), payload.size()));
  EMLIO_RETURN_IF_ERROR(file_->Append(footer.data(), footer.size()));
  fingerprinter_.Add(payload.size(), footer.data());
  ++records_;
  payload_bytes_ += payload.size();
  return OkStatus();
}

}  // namespace emlio::tfrecord
