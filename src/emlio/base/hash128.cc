// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/base/hash128.h"

#include <xxhash.h>

#include <cstring>
#include <new>

namespace emlio {
namespace {

Hash128 ToBytes(XXH128_hash_t hash) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  Hash128 bytes;
  static_assert(sizeof(canonical.digest) == sizeof(Hash128));
  std::memcpy(bytes.data(), canonical.digest, bytes.size());
  return bytes;
}

}  // namespace

Hash128 Xxh3(const void* data, size_t size) { return ToBytes(XXH3_128bits(data, size)); }

std::string ToHex(const Hash128& hash) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * hash.size());
  for (uint8_t byte : hash) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::optional<Hash128> Hash128FromHex(std::string_view digits) {
  Hash128 hash;
  if (digits.size() != 2 * hash.size()) return std::nullopt;
  for (size_t i = 0; i < digits.size(); ++i) {
    const char c = digits[i];
    const bool is_decimal = c >= '0' && c <= '9';
    if (!is_decimal && !(c >= 'a' && c <= 'f')) return std::nullopt;
    const int value = is_decimal ? c - '0' : c - 'a' + 10;
    hash[i / 2] = static_cast<uint8_t>(i % 2 == 0 ? value << 4 : hash[i / 2] | value);
  }
  return hash;
}

struct Xxh3Stream::Impl {
  XXH3_state_t* state = XXH3_createState();
  ~Impl() { XXH3_freeState(state); }
};

Xxh3Stream::Xxh3Stream() : impl_(std::make_unique<Impl>()) {
  if (impl_->state == nullptr) throw std::bad_alloc();
  XXH3_128bits_reset(impl_->state);
}
Xxh3Stream::~Xxh3Stream() = default;
void Xxh3Stream::Update(const void* data, size_t size) {
  XXH3_128bits_update(impl_->state, data, size);
}
Hash128 Xxh3Stream::Digest() const { return ToBytes(XXH3_128bits_digest(impl_->state)); }

}  // namespace emlio
