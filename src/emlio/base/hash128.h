// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace emlio {

// 128 bits that name contents: a shard's fingerprint, a manifest's digest, a plan's hash. The bytes
// are XXH3-128 in its canonical (big-endian) form, so that all machines print the same text.
// https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md
using Hash128 = std::array<uint8_t, 16>;

Hash128 Xxh3(const void* data, size_t size);
// 32 lower-case hexadecimal digits.
std::string ToHex(const Hash128& hash);
// The hash with such digits; nullopt for any other text.
std::optional<Hash128> Hash128FromHex(std::string_view digits);

// The same hash over bytes that come in pieces. Not thread-safe.
class Xxh3Stream {
 public:
  Xxh3Stream();
  ~Xxh3Stream();
  Xxh3Stream(const Xxh3Stream&) = delete;
  Xxh3Stream& operator=(const Xxh3Stream&) = delete;
  void Update(const void* data, size_t size);
  Hash128 Digest() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace emlio
