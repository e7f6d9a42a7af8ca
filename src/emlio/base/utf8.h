// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace emlio {

// Length of the longest prefix that is well-formed UTF-8 (RFC 3629: no surrogates, no overlong
// forms, nothing above U+10FFFF).
size_t ValidUtf8Prefix(std::string_view text);

// Length in bytes of the well-formed sequence that begins at `at`; 0 when it is malformed.
// REQUIRES: at < text.size().
size_t Utf8SequenceLength(std::string_view text, size_t at);

}  // namespace emlio
