// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include "emlio/base/endian.h"
#include "emlio/base/hash128.h"
#include "emlio/tfrecord/record.h"

namespace emlio::tfrecord {

// The fingerprint of a shard (FORMAT.md), from its records in order. The pairs are collected so
// that the hash is fed in large pieces.
class Fingerprinter {
 public:
  // `masked_crc`: the kFooterBytes behind the payload.
  void Add(uint64_t payload_bytes, const uint8_t* masked_crc) {
    if (pending_bytes_ == pending_.size()) Flush();
    StoreLe<uint64_t>(pending_.data() + pending_bytes_, payload_bytes);
    std::memcpy(pending_.data() + pending_bytes_ + sizeof(uint64_t), masked_crc, kFooterBytes);
    pending_bytes_ += kPairBytes;
  }
  Hash128 Digest() {
    Flush();
    return hash_.Digest();
  }

 private:
  static constexpr size_t kPairBytes = sizeof(uint64_t) + kFooterBytes;
  void Flush() { hash_.Update(pending_.data(), std::exchange(pending_bytes_, 0)); }

  Xxh3Stream hash_;
  std::array<uint8_t, 512 * kPairBytes> pending_;
  size_t pending_bytes_ = 0;
};

}  // namespace emlio::tfrecord
