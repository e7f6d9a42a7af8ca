// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy/sysfs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <set>
#include <utility>

#include "emlio/base/file.h"

namespace emlio::energy {
namespace {

constexpr size_t kMaxCpuInfoBytes = size_t{16} << 20;  // ten thousand CPUs

constexpr size_t kMaxTextBytes = size_t{64} << 10;
constexpr size_t kMaxCpus = 4096;
constexpr int kMaxId = 1 << 20;  // of sockets and dies: far more than there are

// A descriptor that is closed with its owner.
class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  ~Fd() { Reset(); }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }
  void Reset(int fd = -1) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }

 private:
  int fd_;
};

int OpenText(const std::string& path) {
  return open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

class FileCounter : public Counter {
 public:
  explicit FileCounter(std::string path) : path_(std::move(path)) {}

  Result<uint64_t> Read() override {
    if (fd_.get() < 0) fd_.Reset(OpenText(path_));
    if (fd_.get() < 0) return ErrnoStatus(errno, fmt::format("cannot open {}", path_));
    std::array<char, 64> text;
    const ssize_t size = pread(fd_.get(), text.data(), text.size(), 0);
    if (size < 0) {
      const int error_number = errno;
      fd_.Reset();
      return ErrnoStatus(error_number, fmt::format("cannot read {}", path_));
    }
    const std::string_view seen(text.data(), static_cast<size_t>(size));
    if (const auto value = ParseNumber(seen)) return *value;
    fd_.Reset();
    return Corrupt(fmt::format("{} holds no number but {} bytes of something else", path_, size));
  }

 private:
  const std::string path_;
  Fd fd_;
};

std::string_view WithoutNewline(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  return text;
}

// The whole text as a number in that base.
template <typename T>
std::optional<T> Whole(std::string_view text, int base = 10) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<int> Id(std::string_view text) {
  const auto id = Whole<uint32_t>(text);
  if (!id || *id > kMaxId) return std::nullopt;
  return static_cast<int>(*id);
}

// Takes what lies before the separator off the text; all of it when there is none.
std::string_view TakeUntil(std::string_view* text, char separator) {
  const size_t at = std::min(text->find(separator), text->size());
  const std::string_view taken = text->substr(0, at);
  text->remove_prefix(std::min(at + 1, text->size()));
  return taken;
}

// "a" or "a-b", as both ends.
std::optional<std::pair<uint32_t, uint32_t>> Range(std::string_view text) {
  const bool single = text.find('-') == std::string_view::npos;
  const auto first = Whole<uint32_t>(TakeUntil(&text, '-'));
  const auto last = single ? first : Whole<uint32_t>(text);
  if (!first || !last || *first > *last) return std::nullopt;
  return std::pair(*first, *last);
}

// The value of "key : value" in the first lines of cpuinfo.
std::string_view CpuInfoValue(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    std::string_view line = TakeUntil(&text, '\n');
    if (!line.starts_with(key)) continue;
    TakeUntil(&line, ':');
    return line;
  }
  return {};
}

bool HasWord(std::string_view text, std::string_view word) {
  while (!text.empty()) {
    if (TakeUntil(&text, ' ') == word) return true;
  }
  return false;
}

size_t CountSockets(std::string_view cpuinfo) {
  std::set<std::string_view> sockets;
  while (!cpuinfo.empty()) {
    const std::string_view line = TakeUntil(&cpuinfo, '\n');
    if (line.starts_with("physical id")) sockets.insert(line);
  }
  return sockets.size();
}

}  // namespace

Result<std::string> ReadText(const std::string& path) {
  const Fd fd(OpenText(path));
  if (fd.get() < 0) return ErrnoStatus(errno, fmt::format("cannot open {}", path));
  std::string text;
  std::array<char, 4096> block;
  while (text.size() < kMaxTextBytes) {
    const ssize_t size = read(fd.get(), block.data(), block.size());
    if (size < 0) return ErrnoStatus(errno, fmt::format("cannot read {}", path));
    if (size == 0) break;
    text.append(block.data(), static_cast<size_t>(size));
  }
  return text;
}

std::string ReadLine(const std::string& path) {
  const auto text = ReadText(path);
  if (!text.ok()) return "";
  std::string_view rest = *text;
  return std::string(TakeUntil(&rest, '\n'));
}

std::vector<std::string> SortedNames(const std::string& path) {
  auto names = NamesInDirectory(path);
  if (!names.ok()) return {};
  std::sort(names->begin(), names->end(), [](const std::string& a, const std::string& b) {
    return std::pair(a.size(), std::string_view(a)) < std::pair(b.size(), std::string_view(b));
  });
  return *std::move(names);
}

std::unique_ptr<Counter> SysfsCounter(std::string path) {
  return std::make_unique<FileCounter>(std::move(path));
}

std::optional<uint64_t> ParseNumber(std::string_view text) {
  return Whole<uint64_t>(WithoutNewline(text));
}

std::optional<double> ParseScale(std::string_view text) {
  text = WithoutNewline(text);
  double scale = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), scale);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (!std::isfinite(scale) || scale <= 0) return std::nullopt;
  return scale;
}

std::optional<std::vector<int>> ParseCpuList(std::string_view text) {
  text = WithoutNewline(text);
  std::vector<int> cpus;
  while (!text.empty()) {
    const auto range = Range(TakeUntil(&text, ','));
    if (!range || range->second >= kMaxCpus) return std::nullopt;
    for (uint32_t cpu = range->first; cpu <= range->second; ++cpu) {
      if (!cpus.empty() && static_cast<int>(cpu) <= cpus.back()) return std::nullopt;
      cpus.push_back(static_cast<int>(cpu));
    }
  }
  if (cpus.empty()) return std::nullopt;
  return cpus;
}

std::optional<uint64_t> ParseEvent(std::string_view event, std::string_view format) {
  event = WithoutNewline(event);
  format = WithoutNewline(format);
  if (!event.starts_with("event=0x") || !format.starts_with("config:")) return std::nullopt;
  const auto number = Whole<uint64_t>(event.substr(8), 16);
  const auto bits = Range(format.substr(7));
  if (!number || !bits || bits->second > 63) return std::nullopt;
  const uint32_t width = bits->second - bits->first + 1;
  if (width < 64 && *number >> width != 0) return std::nullopt;
  return *number << bits->first;
}

std::optional<ZoneName> ParseZoneName(std::string_view name) {
  name = WithoutNewline(name);
  ZoneName zone;
  if (name == "core") {
    zone.kind = DomainKind::kCore;
  } else if (name == "uncore") {
    zone.kind = DomainKind::kUncore;
  } else if (name == "dram") {
    zone.kind = DomainKind::kDram;
  } else if (name == "psys") {
    zone.kind = DomainKind::kPsys;
  } else if (name.starts_with("package-")) {
    name.remove_prefix(8);
    const bool has_die = name.find('-') != std::string_view::npos;
    const auto socket = Id(TakeUntil(&name, '-'));
    if (!socket) return std::nullopt;
    zone.socket = *socket;
    if (has_die) {
      if (!name.starts_with("die-")) return std::nullopt;
      const auto die = Id(name.substr(4));
      if (!die) return std::nullopt;
      zone.die = *die;
    }
  } else {
    return std::nullopt;
  }
  return zone;
}

std::optional<ZoneName> ParseGraceInfo(std::string_view text) {
  text = WithoutNewline(text);
  static constexpr std::pair<std::string_view, DomainKind> kParts[] = {
      {"Module Power Socket ", DomainKind::kModule},
      {"Grace Power Socket ", DomainKind::kGrace},
      {"CPU Power Socket ", DomainKind::kCpu},
      {"SysIO Power Socket ", DomainKind::kSysIo}};
  for (const auto& [prefix, kind] : kParts) {
    if (!text.starts_with(prefix)) continue;
    const auto socket = Id(text.substr(prefix.size()));
    if (!socket) return std::nullopt;
    return ZoneName{kind, *socket, -1};
  }
  return std::nullopt;
}

std::optional<uint64_t> ParseBusyTicks(std::string_view stat) {
  std::string_view line = TakeUntil(&stat, '\n');
  if (!line.starts_with("cpu ")) return std::nullopt;
  line.remove_prefix(4);
  // user nice system idle iowait irq softirq; what follows is part of these or of other guests.
  uint64_t busy = 0;
  for (int field = 0; field < 7;) {
    const std::string_view text = TakeUntil(&line, ' ');
    if (text.empty() && !line.empty()) continue;
    const auto ticks = Whole<uint64_t>(text);
    if (!ticks || *ticks > UINT64_MAX / 8) return std::nullopt;
    if (field != 3 && field != 4) busy += *ticks;
    ++field;
  }
  return busy;
}

CpuFacts ReadCpuFacts(const std::string& root) {
  CpuFacts facts;
  // Whole: the second socket may come hundreds of CPUs behind the first.
  const auto read = ReadWholeFile(root + "proc/cpuinfo", kMaxCpuInfoBytes);
  if (!read.ok()) return facts;
  const std::string_view vendor = CpuInfoValue(*read, "vendor_id");
  const std::string_view flags = CpuInfoValue(*read, "flags");
  facts.amd = HasWord(vendor, "AuthenticAMD") || HasWord(vendor, "HygonGenuine");
  facts.hypervisor = HasWord(flags, "hypervisor");
  facts.sockets = CountSockets(*read);
  if (facts.amd) {
    facts.filtering = CpuFacts::Filtering::kOff;
  } else if (HasWord(flags, "sgx")) {
    facts.filtering = CpuFacts::Filtering::kOn;
  } else {
    // MSR_MISC_PACKAGE_CTLS; bit 0 is ENERGY_FILTERING_ENABLE.
    const Fd fd(OpenText(root + "dev/cpu/0/msr"));
    uint64_t value = 0;
    if (fd.get() >= 0 && pread(fd.get(), &value, sizeof value, 0xBC) == sizeof value) {
      facts.filtering = value & 1 ? CpuFacts::Filtering::kOn : CpuFacts::Filtering::kOff;
    }
  }
  return facts;
}

std::string_view FilteringName(CpuFacts::Filtering filtering) {
  switch (filtering) {
    case CpuFacts::Filtering::kOn:
      return "on";
    case CpuFacts::Filtering::kOff:
      return "off";
    case CpuFacts::Filtering::kUnknown:
      return "unknown";
  }
  return "unknown";
}

}  // namespace emlio::energy
