// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/wire/utf8.h"

#include <cstdint>

#include "emlio/base/utf8.h"

namespace emlio::wire {
namespace {

bool IsContinuation(uint8_t byte) { return (byte & 0xc0) == 0x80; }

}  // namespace

std::string_view SendableText(std::string_view text, size_t max_bytes, std::string* storage) {
  size_t valid = ValidUtf8Prefix(text);
  if (valid == text.size() && valid <= max_bytes) return text;
  storage->clear();
  while (storage->size() <= max_bytes) {
    storage->append(text.substr(0, valid));
    if (valid == text.size()) break;
    storage->append("\xef\xbf\xbd");
    text.remove_prefix(valid + 1);
    valid = ValidUtf8Prefix(text);
  }
  if (storage->size() > max_bytes) {
    size_t cut = max_bytes;
    while (cut > 0 && IsContinuation(static_cast<uint8_t>((*storage)[cut]))) --cut;
    storage->resize(cut);
  }
  return *storage;
}

}  // namespace emlio::wire
