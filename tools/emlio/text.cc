// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "text.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "emlio/base/utf8.h"

namespace emlio::tool {
namespace {

constexpr std::string_view kEllipsis = "...";

// REQUIRES: a well-formed sequence.
uint32_t CodePoint(std::string_view sequence) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(sequence[i]); };
  if (sequence.size() == 1) return byte(0);
  uint32_t code = byte(0) & (0x7f >> sequence.size());
  for (size_t i = 1; i < sequence.size(); ++i) code = code << 6 | (byte(i) & 0x3f);
  return code;
}

bool IsControl(uint32_t code) { return code < 0x20 || (code >= 0x7f && code < 0xa0); }

// Characters that show nothing, or change how others are shown.
bool IsInvisible(uint32_t code) {
  return IsControl(code) || (code >= 0x200b && code <= 0x200f) ||
         (code >= 0x2028 && code <= 0x202e) || (code >= 0x2060 && code <= 0x206f) ||
         code == 0xfeff || (code >= 0xfff9 && code <= 0xfffb);
}

// What stands for the character at `*at`, which moves behind it.
std::string NextEscaped(std::string_view bytes, size_t* at, bool as_text, bool quoted) {
  const size_t length = as_text ? Utf8SequenceLength(bytes, *at) : 0;
  const std::string_view sequence = bytes.substr(*at, std::max<size_t>(length, 1));
  const auto first = static_cast<uint8_t>(sequence[0]);
  *at += sequence.size();
  if (first == '\\' || (quoted && first == '"')) return {'\\', sequence[0]};
  if (first >= 0x20 && first < 0x7f) return std::string(sequence);
  if (as_text) {
    if (first == '\n') return "\\n";
    if (first == '\t') return "\\t";
    if (first == '\r') return "\\r";
  }
  if (length < 2) return fmt::format("\\x{:02x}", first);
  const uint32_t code = CodePoint(sequence);
  return IsInvisible(code) ? fmt::format("\\u{{{:x}}}", code) : std::string(sequence);
}

}  // namespace

size_t OutputColumns() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 100;
  return std::clamp<size_t>(size.ws_col, 60, 120);
}

size_t TextColumns(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<uint8_t>(byte) & 0xc0) != 0x80;
  }));
}

std::string CutTo(std::string_view text, size_t columns) {
  if (TextColumns(text) <= columns) return std::string(text);
  size_t at = 0;
  for (size_t kept = 0; kept + kEllipsis.size() < columns; ++kept) {
    at += std::max<size_t>(Utf8SequenceLength(text, at), 1);
  }
  return std::string(text.substr(0, at)).append(kEllipsis.substr(0, columns));
}

std::string Printable(std::string_view bytes) {
  std::string text;
  for (size_t at = 0; at < bytes.size();) text += NextEscaped(bytes, &at, true, false);
  return text;
}

bool IsText(std::string_view bytes, bool is_cut) {
  constexpr size_t kMaxSequence = 4;
  for (size_t at = 0; at < bytes.size();) {
    const size_t length = Utf8SequenceLength(bytes, at);
    if (length == 0) return is_cut && bytes.size() - at < kMaxSequence && at > 0;
    const uint32_t code = CodePoint(bytes.substr(at, length));
    if (IsControl(code) && code != '\t' && code != '\n' && code != '\r') return false;
    at += length;
  }
  return true;
}

std::string QuoteBytes(std::string_view begin, uint64_t bytes, size_t columns) {
  const bool as_text = IsText(begin, begin.size() < bytes);
  if (as_text) begin = begin.substr(0, ValidUtf8Prefix(begin));
  std::string text = as_text ? "\"" : "b\"";
  const size_t opening = text.size();
  // Columns for what is between the quotes, without and with "..." behind them.
  const size_t most = columns - opening - 1;
  const size_t most_if_cut = most - kEllipsis.size();
  size_t used = 0;
  size_t cut_at = text.size();  // as much as leaves room for "..."
  size_t at = 0;
  while (at < begin.size() && used <= most) {
    const std::string escaped = NextEscaped(begin, &at, as_text, true);
    text += escaped;
    used += TextColumns(escaped);
    if (used <= most_if_cut) cut_at = text.size();
  }
  if (used <= most && begin.size() == bytes) return text + '"';
  text.resize(cut_at);
  return (text + '"').append(kEllipsis);
}

std::string HexDump(std::string_view bytes) {
  constexpr size_t kLineBytes = 16;
  std::string text;
  for (size_t line = 0; line < bytes.size(); line += kLineBytes) {
    const std::string_view part = bytes.substr(line, kLineBytes);
    text += fmt::format("{:08x} ", line);
    std::string characters;
    for (size_t i = 0; i < kLineBytes; ++i) {
      if (i % 8 == 0) text += ' ';
      if (i < part.size()) {
        const auto byte = static_cast<uint8_t>(part[i]);
        text += fmt::format("{:02x} ", byte);
        characters += byte >= 0x20 && byte < 0x7f ? part[i] : '.';
      } else {
        text += "   ";
      }
    }
    text += fmt::format(" |{}|\n", characters);
  }
  return text;
}

std::string Base64(std::string_view bytes) {
  static constexpr char kDigits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - at);
    uint32_t bits = 0;
    for (size_t i = 0; i < 3; ++i) {
      bits = bits << 8 | (i < count ? static_cast<uint8_t>(bytes[at + i]) : 0);
    }
    for (size_t i = 0; i < 4; ++i) {
      text += i <= count ? kDigits[bits >> (18 - 6 * i) & 0x3f] : '=';
    }
  }
  return text;
}

std::string WrapItems(const std::vector<std::string>& items, size_t indent, size_t columns) {
  std::string text;
  size_t used = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    const std::string item = items[i] + (i + 1 < items.size() ? "," : "");
    const size_t width = TextColumns(item);
    if (i > 0 && used + 1 + width <= columns) {
      text += ' ';
      used += 1;
    } else {
      if (i > 0) text += '\n';
      text.append(indent, ' ');
      used = indent;
    }
    text += item;
    used += width;
  }
  return items.empty() ? text : text + '\n';
}

std::string WrapText(std::string_view text, size_t indent, size_t columns) {
  std::string lines(indent, ' ');
  size_t used = indent;
  const auto new_line = [&] {
    lines += '\n' + std::string(indent, ' ');
    used = indent;
  };
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '\n') {
      if (++at < text.size()) new_line();
      continue;
    }
    const std::string escaped = NextEscaped(text, &at, true, false);
    const size_t width = TextColumns(escaped);
    if (used + width > columns && used > indent) new_line();
    lines += escaped;
    used += width;
  }
  return lines + '\n';
}

std::string WrapWords(std::string_view text, size_t indent, size_t columns) {
  std::string lines;
  std::string line;
  const auto end_line = [&] {
    lines += WrapText(line, indent, columns);
    line.clear();
  };
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(" \n"), text.size());
    const std::string_view word = text.substr(0, end);
    const bool fits = indent + TextColumns(line) + 1 + TextColumns(word) <= columns;
    if (!line.empty() && !fits) end_line();
    if (!line.empty()) line += ' ';
    line += word;
    if (end < text.size() && text[end] == '\n') end_line();
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (!line.empty() || lines.empty()) end_line();
  return lines;
}

std::string Table::Render(size_t columns) const {
  constexpr size_t kGap = 2, kLeastLast = 16;
  std::vector<size_t> widths;
  size_t before_last = 0;
  for (size_t i = 0; i < columns_.size(); ++i) {
    size_t width = TextColumns(columns_[i].title);
    for (const auto& row : rows_) width = std::max(width, TextColumns(row[i]));
    widths.push_back(width);
    if (i + 1 < columns_.size()) before_last += width + kGap;
  }
  if (!widths.empty()) {
    const size_t left = columns > before_last ? columns - before_last : 0;
    widths.back() = std::min(widths.back(), std::max(left, kLeastLast));
  }

  std::string text;
  const auto add = [&](auto&& cell_of) {
    std::string line;
    for (size_t i = 0; i < columns_.size(); ++i) {
      const std::string cell = CutTo(cell_of(i), widths[i]);
      const size_t blanks = widths[i] - TextColumns(cell);
      if (i > 0) line.append(kGap, ' ');
      if (columns_[i].right) line.append(blanks, ' ');
      line += cell;
      if (!columns_[i].right) line.append(blanks, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  };
  const bool titled = std::any_of(columns_.begin(), columns_.end(),
                                  [](const Column& column) { return !column.title.empty(); });
  if (titled) add([&](size_t i) { return columns_[i].title; });
  for (const auto& row : rows_) add([&](size_t i) { return row[i]; });
  return text;
}

}  // namespace emlio::tool
