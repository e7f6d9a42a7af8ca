// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/dataset/find_shards.h"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "emlio/tfrecord/content.h"

namespace emlio::dataset {
namespace {

bool IsContinuation(char c) { return (static_cast<uint8_t>(c) & 0xc0) == 0x80; }

// Matches one byte against the bracket expression at the start of `pattern`, and cuts it off.
// nullopt-like: `*closed` is false when nothing closes it, and the pattern stays.
bool MatchBracket(std::string_view* pattern, char c, bool* closed) {
  std::string_view rest = pattern->substr(1);
  const bool negated = !rest.empty() && (rest[0] == '!' || rest[0] == '^');
  if (negated) rest.remove_prefix(1);
  const auto byte = static_cast<uint8_t>(c);
  bool found = false;
  // A ']' that comes first is a member.
  for (bool first = true; !rest.empty() && (first || rest[0] != ']'); first = false) {
    const auto low = static_cast<uint8_t>(rest[0]);
    rest.remove_prefix(1);
    auto high = low;
    if (rest.size() >= 2 && rest[0] == '-' && rest[1] != ']') {
      high = static_cast<uint8_t>(rest[1]);
      rest.remove_prefix(2);
    }
    found = found || (low <= byte && byte <= high);
  }
  *closed = !rest.empty();
  if (*closed) *pattern = rest.substr(1);
  return found != negated;
}

bool HasWildcard(std::string_view component) {
  return component.find_first_of("*?[\\") != std::string_view::npos;
}

using tfrecord::IsSidecarOrUnfinished;

std::string Join(std::string_view directory, std::string_view name) {
  if (directory.empty()) return std::string(name);
  return fmt::format("{}{}{}", directory, directory.ends_with('/') ? "" : "/", name);
}

// The names in a directory, sorted. One that does not exist has none.
Result<std::vector<std::string>> ListDirectory(const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(path.empty() ? "." : path.c_str()),
                                                      &closedir);
  std::vector<std::string> names;
  if (directory == nullptr) {
    if (errno == ENOENT || errno == ENOTDIR) return names;
    return ErrnoStatus(errno, fmt::format("cannot list directory {}", path));
  }
  for (;;) {
    errno = 0;
    const dirent* entry = readdir(directory.get());
    if (entry == nullptr) break;
    names.emplace_back(entry->d_name);
  }
  if (errno != 0) return ErrnoStatus(errno, fmt::format("cannot list directory {}", path));
  std::sort(names.begin(), names.end());
  return names;
}

class Finder {
 public:
  // Adds what one pattern matches.
  Status Add(const std::string& pattern) {
    components_.clear();
    for (size_t at = 0; at < pattern.size();) {
      const size_t end = std::min(pattern.find('/', at), pattern.size());
      if (end > at) components_.push_back(std::string_view(pattern).substr(at, end - at));
      at = end + 1;
    }
    matches_ = 0;
    EMLIO_RETURN_IF_ERROR(Walk(pattern.starts_with('/') ? "/" : "", "", 0));
    if (matches_ > 0) return OkStatus();
    return NotFound(fmt::format(
        "no file matches '{}': check the path (relative ones begin at the working directory)",
        pattern));
  }

  Result<std::vector<FoundShard>> Take() {
    std::sort(found_.begin(), found_.end(),
              [](const FoundShard& a, const FoundShard& b) { return a.name < b.name; });
    for (size_t i = 1; i < found_.size(); ++i) {
      if (found_[i - 1].name == found_[i].name) {
        return InvalidArgument(fmt::format(
            "two files have the shard name '{}': {} and {}; reach them by one pattern whose "
            "wildcard covers what differs, or rename one",
            found_[i].name, found_[i - 1].path, found_[i].path));
      }
    }
    return std::move(found_);
  }

 private:
  // `path`: what components_[0, depth) led to. `name`: the part of it since the first wildcard.
  Status Walk(const std::string& path, const std::string& name, size_t depth) {
    if (depth == components_.size()) return AddPath(path, name);
    const std::string_view component = components_[depth];
    const std::string literal = Join(path, component);
    struct stat info;
    if (!HasWildcard(component) || lstat(literal.c_str(), &info) == 0) {
      return Walk(literal, name.empty() ? name : Join(name, component), depth + 1);
    }
    EMLIO_ASSIGN_OR_RETURN(const auto entries, ListDirectory(path));
    for (const std::string& entry : entries) {
      if (entry == "." || entry == ".." || !MatchesComponent(component, entry)) continue;
      const bool last = depth + 1 == components_.size();
      if (last && IsSidecarOrUnfinished(entry)) continue;
      const std::string child = Join(path, entry);
      if (last) {
        EMLIO_RETURN_IF_ERROR(AddIfRegular(child, Join(name, entry)));
      } else {
        EMLIO_RETURN_IF_ERROR(Walk(child, Join(name, entry), depth + 1));
      }
    }
    return OkStatus();
  }

  // A path that is written out, at least in its last component.
  Status AddPath(const std::string& path, const std::string& name) {
    struct stat info;
    if (stat(path.c_str(), &info) != 0) {
      // Missing files are told by the pattern's having no match.
      if (errno == ENOENT || errno == ENOTDIR) return OkStatus();
      return ErrnoStatus(errno, fmt::format("cannot stat {}", path));
    }
    if (!S_ISDIR(info.st_mode)) {
      return AddIfRegular(path, name.empty() ? path.substr(path.rfind('/') + 1) : name);
    }
    EMLIO_ASSIGN_OR_RETURN(const auto entries, ListDirectory(path));
    for (const std::string& entry : entries) {
      if (entry.starts_with('.') || IsSidecarOrUnfinished(entry)) continue;
      EMLIO_RETURN_IF_ERROR(AddIfRegular(Join(path, entry), Join(name, entry)));
    }
    return OkStatus();
  }

  Status AddIfRegular(const std::string& path, const std::string& name) {
    struct stat info;
    if (stat(path.c_str(), &info) != 0) {
      return ErrnoStatus(errno, fmt::format("cannot stat {}", path));
    }
    if (!S_ISREG(info.st_mode)) return OkStatus();
    ++matches_;
    if (!seen_.insert({info.st_dev, info.st_ino}).second) return OkStatus();
    EMLIO_ASSIGN_OR_RETURN(const FileIdentity identity, IdentityOf(path));
    found_.push_back({path, name, identity});
    return OkStatus();
  }

  std::vector<std::string_view> components_;
  size_t matches_ = 0;
  std::set<std::pair<dev_t, ino_t>> seen_;
  std::vector<FoundShard> found_;
};

}  // namespace

bool MatchesComponent(std::string_view pattern, std::string_view name) {
  if (name.starts_with('.') && !pattern.starts_with('.') && !pattern.starts_with("\\.")) {
    return false;
  }
  // Where to go on when a match fails behind the last '*': that star takes one byte more.
  bool have_star = false;
  std::string_view after_star, name_at_star;
  while (!name.empty() || !pattern.empty()) {
    bool matched = false;
    if (!pattern.empty() && pattern[0] == '*') {
      pattern.remove_prefix(1);
      have_star = true;
      after_star = pattern;
      name_at_star = name;
      continue;
    }
    if (!pattern.empty() && !name.empty()) {
      const char c = name[0];
      bool bracket_closed = false;
      if (pattern[0] == '?') {
        pattern.remove_prefix(1);
        name.remove_prefix(1);
        if (static_cast<uint8_t>(c) >= 0xc0) {
          while (!name.empty() && IsContinuation(name[0])) name.remove_prefix(1);
        }
        continue;
      }
      if (pattern[0] == '[') matched = MatchBracket(&pattern, c, &bracket_closed);
      if (!bracket_closed) {
        if (pattern[0] == '\\' && pattern.size() > 1) pattern.remove_prefix(1);
        matched = pattern[0] == c;
        pattern.remove_prefix(1);
      }
      name.remove_prefix(1);
    }
    if (matched) continue;
    if (!have_star || name_at_star.empty()) return false;
    name_at_star.remove_prefix(1);
    name = name_at_star;
    pattern = after_star;
  }
  return true;
}

Result<std::vector<FoundShard>> FindShards(std::span<const std::string> patterns) {
  Finder finder;
  for (const std::string& pattern : patterns) EMLIO_RETURN_IF_ERROR(finder.Add(pattern));
  return finder.Take();
}

}  // namespace emlio::dataset
