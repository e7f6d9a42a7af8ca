// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/base/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace emlio {
namespace {

TEST(Utf8, KnowsWhatIsWellFormed) {
  for (const std::string good : {"", "a", "\xc2\x80", "\xe0\xa0\x80", "\xed\x9f\xbf",
                                 "\xee\x80\x80", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(ValidUtf8Prefix(good), good.size());
  }
  for (const std::string bad :
       {"\x80", "\xc0\x80", "\xc1\xbf", "\xc3", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xe2\x82",
        "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xfe", "\xc3x"}) {
    EXPECT_EQ(ValidUtf8Prefix(bad), 0u);
    EXPECT_EQ(ValidUtf8Prefix("ok" + bad), 2u);
  }
}

}  // namespace
}  // namespace emlio
