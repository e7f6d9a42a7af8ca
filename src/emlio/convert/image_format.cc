// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/convert/image_format.h"

#include <algorithm>
#include <string>

namespace emlio::convert {

bool HasImageEnding(std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return false;
  std::string ending(name.substr(dot));
  for (char& letter : ending) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  std::string_view known = kImageEndings;
  while (!known.empty()) {
    const size_t end = std::min(known.find(' '), known.size());
    if (known.substr(0, end) == ending) return true;
    known.remove_prefix(std::min(end + 1, known.size()));
  }
  return false;
}

}  // namespace emlio::convert
