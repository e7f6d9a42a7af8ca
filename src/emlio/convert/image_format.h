// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace emlio::convert {

// The endings of files that are taken for images, for messages.
inline constexpr char kImageEndings[] =
    ".jpg .jpeg .png .webp .bmp .gif .tif .tiff .pbm .pgm .ppm .pnm";

// Whether a file's name has one of these endings, in upper or lower case.
bool HasImageEnding(std::string_view name);

}  // namespace emlio::convert
