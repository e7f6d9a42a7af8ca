// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// Text for people: what data hold may be anything, and a terminal obeys some of it.
namespace emlio::tool {

inline constexpr size_t kAnyWidth = static_cast<size_t>(-1);

// How wide output may be: the terminal's columns, but 60 to 120; 100 where there is none.
size_t OutputColumns();
// One for each character. REQUIRES: UTF-8.
size_t TextColumns(std::string_view text);
// Cut to that many columns, of which the last three are then "...". REQUIRES: UTF-8.
std::string CutTo(std::string_view text, size_t columns);

// Bytes as text that is safe to print: control characters, those that are invisible or turn the
// direction of writing, and what is not UTF-8 as \n, \t, \r, \xNN, \u{NNNN}; a backslash doubled.
std::string Printable(std::string_view bytes);

// Whether all of it is UTF-8 without control characters but for \t, \n and \r. `is_cut`: the end
// may be missing, and with it the rest of the last character.
bool IsText(std::string_view bytes, bool is_cut = false);

// A value in quotes and escaped, in at most `columns`: "some text", or b"\xff\x00" for what is no
// text. `begin` is all of the `bytes` bytes or only their beginning; "..." stands for what is left
// out. REQUIRES: columns >= 12.
std::string QuoteBytes(std::string_view begin, uint64_t bytes, size_t columns);

// Lines of 16 bytes: offset, hexadecimal, characters. 78 columns; every line ends with \n.
std::string HexDump(std::string_view bytes);

// RFC 4648, with padding.
std::string Base64(std::string_view bytes);

// The items separated by ", " in lines of at most `columns`, all of them indented by `indent`
// blanks; every line ends with \n. An item that is longer has a line of its own.
std::string WrapItems(const std::vector<std::string>& items, size_t indent, size_t columns);

// Text in lines of at most `columns`, indented by `indent` blanks and escaped as Printable does it;
// its own lines stay lines. Every line ends with \n. REQUIRES: indent < columns.
std::string WrapText(std::string_view text, size_t indent, size_t columns);

// Our own words in lines of at most `columns`, indented by `indent` blanks and broken at blanks
// where that is possible; else as WrapText. Every line ends with \n. REQUIRES: indent < columns.
std::string WrapWords(std::string_view text, size_t indent, size_t columns);

// Columns of text with titles, two blanks apart.
class Table {
 public:
  struct Column {
    std::string title;
    bool right = false;  // aligned; for numbers
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // REQUIRES: a cell for every column, in UTF-8.
  void AddRow(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  // Every line ends with \n and none with a blank. The last column is cut so that lines have at
  // most `columns` columns, but not below 16.
  std::string Render(size_t columns) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace emlio::tool
