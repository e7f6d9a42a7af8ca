// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/convert/image_format.h"

#include <algorithm>
#include <string>

namespace emlio::convert {

using namespace std::string_view_literals;

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

std::string_view ImageFormat(std::string_view content) {
  if (content.starts_with("\xff\xd8\xff"sv)) return "jpeg";
  if (content.starts_with("\x89PNG\r\n\x1a\n"sv)) return "png";
  if (content.starts_with("RIFF"sv) && content.size() >= 12 &&
      content.substr(8).starts_with("WEBP"sv)) {
    return "webp";
  }
  if (content.starts_with("GIF87a"sv) || content.starts_with("GIF89a"sv)) return "gif";
  if (content.starts_with("II*\0"sv) || content.starts_with("MM\0*"sv) ||
      content.starts_with("II+\0"sv) || content.starts_with("MM\0+"sv)) {
    return "tiff";
  }
  if (content.starts_with("BM"sv)) return "bmp";
  if (content.size() >= 3 && content[0] == 'P' && content[1] >= '1' && content[1] <= '6' &&
      " \t\r\n#"sv.find(content[2]) != std::string_view::npos) {
    return "pnm";
  }
  return "";
}

}  // namespace emlio::convert
