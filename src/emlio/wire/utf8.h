// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

// Text on the wire is UTF-8; text that EMLIO says comes from file systems and need not be. Private
// to the codec.
namespace emlio::wire {

// The text with every malformed byte replaced by U+FFFD, cut between characters to `max_bytes`.
// Returns `text` itself when nothing has to be done, else a view of `*storage`.
std::string_view SendableText(std::string_view text, size_t max_bytes, std::string* storage);

}  // namespace emlio::wire
