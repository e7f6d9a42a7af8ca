// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/dataset/known_offsets.h"

#include <fmt/format.h>

#include <array>
#include <span>

#include "emlio/base/file.h"

namespace emlio::dataset {
namespace {

// Reads "<offset> <size>\n" again and again, a byte at a time.
class LineParser {
 public:
  explicit LineParser(std::vector<uint64_t>* offsets) : offsets_(offsets) {}

  // False: the text is something else.
  bool Add(uint8_t byte) {
    if (byte >= '0' && byte <= '9') {
      has_digit_ = true;
      return !__builtin_mul_overflow(number_, 10, &number_) &&
             !__builtin_add_overflow(number_, byte - '0', &number_);
    }
    if (!has_digit_) return false;
    if (byte == ' ' && !has_offset_ && number_ == offsets_->back()) {
      has_offset_ = true;
    } else if (byte == '\n' && has_offset_ && number_ >= tfrecord::kFramingBytes &&
               !__builtin_add_overflow(number_, offsets_->back(), &number_)) {
      has_offset_ = false;
      offsets_->push_back(number_);
    } else {
      return false;
    }
    number_ = 0;
    has_digit_ = false;
    return true;
  }
  bool is_between_lines() const { return !has_digit_ && !has_offset_; }

 private:
  std::vector<uint64_t>* const offsets_;
  uint64_t number_ = 0;
  bool has_digit_ = false;   // of the number
  bool has_offset_ = false;  // of the line
};

}  // namespace

Result<DaliOffsets> DaliOffsets::Read(const std::string& path) {
  EMLIO_ASSIGN_OR_RETURN(const auto file, OpenForReading(path));
  DaliOffsets offsets;
  LineParser parser(&offsets.offsets_);
  const auto other = [&] { return Corrupt(fmt::format("{} is no index for DALI", path)); };
  std::array<uint8_t, size_t{64} << 10> piece;
  for (uint64_t at = 0;;) {
    EMLIO_ASSIGN_OR_RETURN(const size_t read, file->ReadAt(at, piece.size(), piece.data()));
    for (const uint8_t byte : std::span(piece.data(), read)) {
      if (!parser.Add(byte)) return other();
    }
    at += read;
    if (read < piece.size()) break;
  }
  return parser.is_between_lines() ? Result<DaliOffsets>(std::move(offsets)) : other();
}

std::optional<DaliOffsets::Entry> DaliOffsets::Locate(uint64_t record) const {
  return Entry{offsets_[record], offsets_[record + 1] - offsets_[record] - tfrecord::kFramingBytes};
}

}  // namespace emlio::dataset
