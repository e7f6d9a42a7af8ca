// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/convert/conversion_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "emlio/base/crc32c.h"

namespace emlio::convert {
namespace {

constexpr std::string_view kName = "emlio-convert ";
constexpr std::string_view kVersion = "1";
constexpr std::string_view kOption = "option ";
constexpr std::string_view kShard = "shard ";
constexpr std::string_view kComplete = "complete";
constexpr size_t kChecksumDigits = 8;

std::string Checked(std::string_view content) {
  return fmt::format("{} #{:08x}\n", content, Crc32c(content.data(), content.size()));
}

// Takes the next line off the text. nullopt at its end, and where a line does not hold.
std::optional<std::string_view> TakeLine(std::string_view* text) {
  const size_t end = text->find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  std::string_view content = text->substr(0, end);
  text->remove_prefix(end + 1);
  constexpr size_t kCheckBytes = 2 + kChecksumDigits;  // " #" and the digits
  if (content.size() < kCheckBytes) return std::nullopt;
  const std::string_view check = content.substr(content.size() - kCheckBytes);
  content.remove_suffix(kCheckBytes);
  if (check != fmt::format(" #{:08x}", Crc32c(content.data(), content.size()))) return std::nullopt;
  return content;
}

bool TakePrefix(std::string_view prefix, std::string_view* text) {
  if (!text->starts_with(prefix)) return false;
  text->remove_prefix(prefix.size());
  return true;
}

std::string_view TakeWord(std::string_view* text) {
  const std::string_view word = text->substr(0, text->find(' '));
  text->remove_prefix(std::min(text->size(), word.size() + 1));
  return word;
}

bool TakeNumber(std::string_view* text, uint64_t* number) {
  const std::string_view word = TakeWord(text);
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), *number);
  return error == std::errc() && end == word.data() + word.size();
}

bool TakeHash(std::string_view* text, Hash128* hash) {
  const auto parsed = Hash128FromHex(TakeWord(text));
  if (parsed.has_value()) *hash = *parsed;
  return parsed.has_value();
}

// False for a line that this version does not know.
bool ParseLine(std::string_view line, ConversionState* state) {
  if (line == kComplete) {
    state->complete = true;
    return true;
  }
  if (TakePrefix(kOption, &line)) {
    const std::string_view name = TakeWord(&line);
    state->options.emplace_back(name, line);
    return true;
  }
  uint64_t number = 0;
  FinishedShard shard;
  if (!TakePrefix(kShard, &line) || !TakeNumber(&line, &number) ||
      !TakeHash(&line, &shard.source) || !TakeNumber(&line, &shard.records) ||
      !TakeNumber(&line, &shard.payload_bytes) || !TakeNumber(&line, &shard.source_bytes) ||
      !TakeHash(&line, &shard.fingerprint) || !line.empty()) {
    return false;
  }
  state->shards[number] = shard;
  return true;
}

}  // namespace

std::string StateHead(const ConversionOptions& options) {
  std::string text = Checked(fmt::format("{}{}", kName, kVersion));
  for (const auto& [name, value] : options) {
    text += Checked(fmt::format("{}{} {}", kOption, name, value));
  }
  return text;
}

std::string StateLine(uint64_t shard, const FinishedShard& finished) {
  return Checked(fmt::format("{}{} {} {} {} {} {}", kShard, shard, ToHex(finished.source),
                             finished.records, finished.payload_bytes, finished.source_bytes,
                             ToHex(finished.fingerprint)));
}

std::string StateEnd() { return Checked(kComplete); }

Result<ConversionState> ParseState(std::string_view text) {
  std::optional<std::string_view> line = TakeLine(&text);
  if (!line.has_value() || !TakePrefix(kName, &*line)) {
    return Corrupt("not the state of a conversion, or damaged");
  }
  if (*line != kVersion) {
    return Unsupported(
        fmt::format("the state of a conversion by another version of EMLIO ({})", *line));
  }
  ConversionState state;
  while ((line = TakeLine(&text)).has_value() && ParseLine(*line, &state)) {
  }
  return state;
}

}  // namespace emlio::convert
