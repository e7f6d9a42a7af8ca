// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "text.h"

#include <gtest/gtest.h>

#include <string>

#include "emlio/base/utf8.h"

namespace emlio::tool {
namespace {

using std::string_literals::operator""s;

TEST(WrapWordsTest, LinesAreBrokenAtBlanks) {
  EXPECT_EQ(WrapWords("one two three", 2, 10), "  one two\n  three\n");
  EXPECT_EQ(WrapWords("one\ntwo three", 0, 20), "one\ntwo three\n");
  EXPECT_EQ(WrapWords("a wordthatistoolong b", 0, 8), "a\nwordthat\nistoolon\ng\nb\n");
  EXPECT_EQ(WrapWords("", 2, 8), "  \n");
}

TEST(PrintableTest, LetsTextThroughAndEscapesWhatATerminalWouldObey) {
  EXPECT_EQ(Printable("image/class 1"), "image/class 1");
  EXPECT_EQ(Printable("ключ 中文"), "ключ 中文");
  EXPECT_EQ(Printable("\x1b[2J\x07\n\t\r\0\x7f"s), R"(\x1b[2J\x07\n\t\r\x00\x7f)");
  EXPECT_EQ(Printable("a\\n"), R"(a\\n)");
  // Not UTF-8; a control character above ASCII; direction of writing; zero width.
  EXPECT_EQ(Printable("caf\xe9"), R"(caf\xe9)");
  EXPECT_EQ(Printable("\xc2\x9b"), R"(\u{9b})");
  EXPECT_EQ(Printable("\xe2\x80\xae\xe2\x80\x8b\xef\xbb\xbf"), R"(\u{202e}\u{200b}\u{feff})");
}

TEST(QuoteTest, TextIsQuotedAndBytesAreMarked) {
  const auto quote = [](const std::string& bytes, size_t columns = 40) {
    return QuoteBytes(bytes, bytes.size(), columns);
  };
  EXPECT_EQ(quote(""), R"("")");
  EXPECT_EQ(quote("a \"cat\"\n"), R"("a \"cat\"\n")");
  EXPECT_EQ(quote("\xff\0"s), R"(b"\xff\x00")");
  EXPECT_EQ(quote("a\0b\n\""s), R"(b"a\x00b\x0a\"")");
  EXPECT_EQ(quote("ключ"), R"("ключ")");
  // In bytes that are no text, nothing is taken for text.
  EXPECT_EQ(quote("\xd0\xba\xff"), R"(b"\xd0\xba\xff")");
}

TEST(QuoteTest, KeepsToTheColumnsAndSaysWhenItCuts) {
  EXPECT_EQ(QuoteBytes("0123456789", 10, 12), R"("0123456789")");
  EXPECT_EQ(QuoteBytes("0123456789a", 11, 12), R"("0123456"...)");
  EXPECT_EQ(QuoteBytes("ключключключ", 24, 12), R"("ключклю"...)");
  EXPECT_EQ(QuoteBytes("\x01\x02\x03\x04", 4, 14), R"(b"\x01\x02"...)");
  EXPECT_EQ(QuoteBytes("short", 5000, 40), R"("short"...)");
  // Cut in the middle of a character.
  EXPECT_EQ(QuoteBytes("kl\xd0", 5000, 40), R"("kl"...)");
  for (size_t columns = 12; columns < 40; ++columns) {
    for (const std::string& value : {std::string(50, '\x01'), std::string(50, 'x'), "\n\n\n"s}) {
      EXPECT_LE(TextColumns(QuoteBytes(value, value.size(), columns)), columns);
    }
  }
}

TEST(QuoteTest, EveryByteStaysSafe) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  for (const std::string& text : {QuoteBytes(all, all.size(), 5000), Printable(all)}) {
    EXPECT_EQ(ValidUtf8Prefix(text), text.size());
    for (const char byte : text) EXPECT_GE(static_cast<uint8_t>(byte), 0x20);
  }
}

TEST(IsTextTest, ControlCharactersAndBrokenUtf8AreNoText) {
  EXPECT_TRUE(IsText("a\tb\r\n"));
  EXPECT_TRUE(IsText(""));
  EXPECT_FALSE(IsText("a\x01"));
  EXPECT_FALSE(IsText("a\xd0"));
  EXPECT_TRUE(IsText("a\xd0", true));
  EXPECT_FALSE(IsText("\xff", true));
  EXPECT_FALSE(IsText("a\xd0zzzzz", true));
}

TEST(CutToTest, CutsBetweenCharacters) {
  EXPECT_EQ(CutTo("ключи", 5), "ключи");
  EXPECT_EQ(CutTo("ключики", 5), "кл...");
  EXPECT_EQ(CutTo("abc", 2), "..");
}

TEST(HexDumpTest, ShowsOffsetsBytesAndCharacters) {
  EXPECT_EQ(HexDump(""), "");
  EXPECT_EQ(HexDump("0123456789abcdefG\n"),
            "00000000  30 31 32 33 34 35 36 37  38 39 61 62 63 64 65 66  |0123456789abcdef|\n"
            "00000010  47 0a                                             |G.|\n");
}

TEST(Base64Test, FollowsTheRfc) {
  EXPECT_EQ(Base64(""), "");
  EXPECT_EQ(Base64("f"), "Zg==");
  EXPECT_EQ(Base64("fo"), "Zm8=");
  EXPECT_EQ(Base64("foo"), "Zm9v");
  EXPECT_EQ(Base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(Base64("\xff\0\xfe"s), "/wD+");
}

TEST(WrapTest, FillsLinesAndKeepsEveryItem) {
  EXPECT_EQ(WrapItems({}, 2, 10), "");
  EXPECT_EQ(WrapItems({"1"}, 2, 10), "  1\n");
  EXPECT_EQ(WrapItems({"1", "22", "333", "4"}, 2, 10), "  1, 22,\n  333, 4\n");
  EXPECT_EQ(WrapItems({"1", "much too long", "2"}, 2, 10), "  1,\n  much too long,\n  2\n");
}

TEST(WrapTest, KeepsTheLinesOfATextAndBreaksLongOnes) {
  EXPECT_EQ(WrapText("one\ntwo\n", 2, 20), "  one\n  two\n");
  EXPECT_EQ(WrapText("ключики\n\nx", 2, 6), "  ключ\n  ики\n  \n  x\n");
  // An escape stays in one piece.
  EXPECT_EQ(WrapText("abc\x1b", 0, 5), "abc\n\\x1b\n");
}

TEST(TableTest, AlignsColumnsAndCutsTheLastOne) {
  Table table({{"name"}, {"count", true}, {"value"}});
  table.AddRow({"ключ", "7", "short"});
  table.AddRow({"x", "1,000", "a value that does not fit into the line"});
  EXPECT_EQ(table.Render(34),
            "name  count  value\n"
            "ключ      7  short\n"
            "x     1,000  a value that does ...\n");
}

TEST(TableTest, WithoutTitlesHasRowsOnly) {
  Table table({{""}, {""}});
  table.AddRow({"a", "b"});
  table.AddRow({"cc", ""});
  EXPECT_EQ(table.Render(80), "a   b\ncc\n");
}

}  // namespace
}  // namespace emlio::tool
