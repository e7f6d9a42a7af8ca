// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy/activity.h"

#include <unistd.h>

#include <array>
#include <charconv>
#include <span>

#include "emlio/energy/sysfs.h"

namespace emlio::energy {
namespace {

constexpr uint64_t kSectorBytes = 512;  // in /proc/diskstats, whatever the device has

// The words of the next line; fewer than `most` when it has fewer. Returns how many.
size_t NextWords(std::string_view* text, std::span<std::string_view> words) {
  const size_t end = text->find('\n');
  std::string_view line = text->substr(0, end);
  text->remove_prefix(end == std::string_view::npos ? text->size() : end + 1);
  size_t count = 0;
  while (count < words.size()) {
    const size_t begin = line.find_first_not_of(" \t");
    if (begin == std::string_view::npos) break;
    line.remove_prefix(begin);
    const size_t length = std::min(line.find_first_of(" \t"), line.size());
    words[count++] = line.substr(0, length);
    line.remove_prefix(length);
  }
  return count;
}

std::optional<uint64_t> Number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

template <typename T>
std::optional<T> Difference(const std::optional<T>& before, const std::optional<T>& after) {
  if (!before || !after || *after < *before) return std::nullopt;
  return *after - *before;
}

}  // namespace

std::optional<ByteCounts> ParseNetDev(std::string_view text) {
  ByteCounts sum;
  std::array<std::string_view, 10> words;
  bool any = false;
  while (!text.empty()) {
    // "  eth0: 1234 ...": the name's colon may touch the first number.
    const size_t end = std::min(text.find('\n'), text.size());
    std::string line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;  // a heading
    line[colon] = ' ';
    std::string_view rest = line;
    if (NextWords(&rest, words) < words.size()) return std::nullopt;
    if (words[0] == "lo") continue;
    const auto in = Number(words[1]);
    const auto out = Number(words[9]);
    if (!in || !out) return std::nullopt;
    sum.in += *in;
    sum.out += *out;
    any = true;
  }
  if (!any) return std::nullopt;
  return sum;
}

std::optional<ByteCounts> ParseDiskStats(std::string_view text,
                                         const std::function<bool(std::string_view)>& is_whole) {
  ByteCounts sum;
  std::array<std::string_view, 10> words;
  bool any = false;
  while (!text.empty()) {
    if (NextWords(&text, words) < words.size()) return std::nullopt;
    if (!is_whole(words[2])) continue;
    const auto read = Number(words[5]);
    const auto written = Number(words[9]);
    if (!read || !written) return std::nullopt;
    sum.in += *read * kSectorBytes;
    sum.out += *written * kSectorBytes;
    any = true;
  }
  if (!any) return std::nullopt;
  return sum;
}

Activity ReadActivity(const std::string& root) {
  static const auto ticks_per_second = static_cast<double>(sysconf(_SC_CLK_TCK));
  Activity activity;
  if (const auto stat = ReadText(root + "proc/stat"); stat.ok()) {
    if (const auto ticks = ParseBusyTicks(*stat)) {
      activity.cpu_seconds = static_cast<double>(*ticks) / ticks_per_second;
    }
  }
  if (const auto net = ReadText(root + "proc/net/dev"); net.ok()) {
    if (const auto bytes = ParseNetDev(*net)) {
      activity.network_received_bytes = bytes->in;
      activity.network_sent_bytes = bytes->out;
    }
  }
  if (const auto disks = ReadText(root + "proc/diskstats"); disks.ok()) {
    // What a device is made of others (loop, dm, md) or of memory has no `device`.
    const auto is_whole = [&](std::string_view name) {
      return access((root + "sys/block/" + std::string(name) + "/device").c_str(), F_OK) == 0;
    };
    if (const auto bytes = ParseDiskStats(*disks, is_whole)) {
      activity.storage_read_bytes = bytes->in;
      activity.storage_written_bytes = bytes->out;
    }
  }
  return activity;
}

Activity Between(const Activity& before, const Activity& after) {
  return {
      Difference(before.cpu_seconds, after.cpu_seconds),
      Difference(before.gpu_seconds, after.gpu_seconds),
      Difference(before.network_received_bytes, after.network_received_bytes),
      Difference(before.network_sent_bytes, after.network_sent_bytes),
      Difference(before.storage_read_bytes, after.storage_read_bytes),
      Difference(before.storage_written_bytes, after.storage_written_bytes),
  };
}

}  // namespace emlio::energy
