// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <zlib.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "emlio/convert/inflater.h"

namespace emlio::convert {

// One gzip member, or a zlib stream, for tests and fuzzers.
inline std::string Compress(std::string_view bytes, Compression compression) {
  z_stream stream{};
  const int window_bits = compression == Compression::kGzip ? 16 + MAX_WBITS : MAX_WBITS;
  if (deflateInit2(&stream, 1, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    std::abort();
  std::string compressed(deflateBound(&stream, bytes.size()), '\0');
  std::string input(bytes);  // zlib takes no const
  stream.next_in = reinterpret_cast<Bytef*>(input.data());
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = reinterpret_cast<Bytef*>(compressed.data());
  stream.avail_out = static_cast<uInt>(compressed.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) std::abort();
  compressed.resize(stream.total_out);
  deflateEnd(&stream);
  return compressed;
}

}  // namespace emlio::convert
