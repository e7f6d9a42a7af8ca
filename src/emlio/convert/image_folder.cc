// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/convert/image_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>

#include "emlio/base/file.h"
#include "emlio/base/hash128.h"
#include "emlio/convert/as_bytes.h"
#include "emlio/convert/image_format.h"
#include "emlio/convert/random.h"
#include "emlio/example/builder.h"
#include "emlio/example/image_header.h"
#include "emlio/tfrecord/content.h"
#include "emlio/tfrecord/record.h"

namespace emlio::convert {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxDepth = 32;
// An Example is a little larger than its image.
constexpr uint64_t kMaxImageBytes = tfrecord::kDefaultMaxRecordBytes - (uint64_t{1} << 20);
constexpr char kLabelsName[] = "labels.txt";

struct Image {
  uint32_t label = 0;
  uint64_t bytes = 0;
  int64_t mtime_ns = 0;
  std::string path;  // below the source folder
};

struct Listing {
  std::vector<std::string> classes;
  std::vector<Image> images;
  uint64_t image_bytes = 0;
  uint64_t passed_over = 0;
};

bool IsHidden(std::string_view name) { return name.starts_with('.'); }

// Lists the source: the classes in bytewise order, the images of each in bytewise order of paths.
class Lister {
 public:
  Lister(const ImageFolderOptions& options, const ProgressFunction& progress)
      : options_(options), progress_(progress) {}

  Result<Listing> List() {
    EMLIO_ASSIGN_OR_RETURN(const auto names, NamesIn(options_.source));
    bool has_images = false;
    for (const std::string& name : names) {
      EMLIO_ASSIGN_OR_RETURN(const fs::file_status status, StatusOf(name));
      if (status.type() == fs::file_type::directory) {
        listing_.classes.push_back(name);
      } else {
        ++listing_.passed_over;
        has_images = has_images || HasImageEnding(name);
      }
    }
    if (listing_.classes.empty()) {
      return NotFound(fmt::format("{} holds no folder: images must lie in {}/<class>/{}",
                                  options_.source, options_.source,
                                  has_images ? ", not beside each other" : ""));
    }
    for (uint32_t label = 0; label < listing_.classes.size(); ++label) {
      const std::string& name = listing_.classes[label];
      if (name.find('\n') != std::string::npos) {
        return Unsupported(
            fmt::format("the name of class folder {} holds a line break: rename it", PathOf(name)));
      }
      const size_t before = listing_.images.size();
      EMLIO_RETURN_IF_ERROR(ListFolder(name, label, 1));
      if (listing_.images.size() == before) {
        return NotFound(
            fmt::format("no image in class folder {}: the endings looked for are {}; remove the "
                        "folder if it is no class",
                        PathOf(name), kImageEndings));
      }
    }
    return std::move(listing_);
  }

 private:
  std::string PathOf(const std::string& relative) const {
    return (fs::path(options_.source) / relative).string();
  }

  // Of what a link leads to.
  Result<fs::file_status> StatusOf(const std::string& relative) const {
    std::error_code error;
    const fs::file_status status = fs::status(PathOf(relative), error);
    if (error)
      return ErrnoStatus(error.value(), fmt::format("cannot look at {}", PathOf(relative)));
    return status;
  }

  static Result<std::vector<std::string>> NamesIn(const std::string& path) {
    EMLIO_ASSIGN_OR_RETURN(std::vector<std::string> names, NamesInDirectory(path));
    std::erase_if(names, &IsHidden);
    return names;
  }

  Status ListFolder(const std::string& folder, uint32_t label, int depth) {
    if (depth > kMaxDepth) {
      return LimitExceeded(
          fmt::format("{} lies more than {} folders deep: does a symbolic link "
                      "lead back to a folder above it?",
                      PathOf(folder), kMaxDepth));
    }
    EMLIO_ASSIGN_OR_RETURN(const auto names, NamesIn(PathOf(folder)));
    for (const std::string& name : names) {
      std::string relative = folder + "/" + name;
      EMLIO_ASSIGN_OR_RETURN(const fs::file_status status, StatusOf(relative));
      if (status.type() == fs::file_type::directory) {
        EMLIO_RETURN_IF_ERROR(ListFolder(relative, label, depth + 1));
      } else if (status.type() == fs::file_type::regular && HasImageEnding(name)) {
        EMLIO_RETURN_IF_ERROR(Add(std::move(relative), label));
      } else {
        ++listing_.passed_over;
      }
    }
    return OkStatus();
  }

  Status Add(std::string relative, uint32_t label) {
    EMLIO_ASSIGN_OR_RETURN(const FileIdentity file, IdentityOf(PathOf(relative)));
    listing_.images.push_back({label, file.size_bytes, file.mtime_ns, std::move(relative)});
    listing_.image_bytes += file.size_bytes;
    if (listing_.images.size() % 1024 == 0) {
      if (options_.stop.stop_requested()) return Cancelled("the conversion was interrupted");
      if (progress_) {
        progress_({.records_total = listing_.images.size(), .bytes_total = listing_.image_bytes});
      }
    }
    return OkStatus();
  }

  const ImageFolderOptions& options_;
  const ProgressFunction& progress_;
  Listing listing_;
};

Status NoImage(const std::string& path, std::string_view content) {
  const std::span<const uint8_t> head = AsBytes(content.substr(0, 64));
  std::string what;
  if (content.empty()) {
    what = "the file is empty";
  } else if (tfrecord::RecognizeContent(head) == tfrecord::Content::kGitLfsPointer) {
    what = "it is a Git LFS pointer (fetch the content with 'git lfs pull')";
  } else {
    what = fmt::format("it begins with {:02x}",
                       fmt::join(head.first(std::min<size_t>(8, head.size())), " "));
  }
  return Corrupt(
      fmt::format("{} holds no image of a known format: {}; repair or remove it", path, what));
}

void Shuffle(uint64_t seed, std::vector<Image>* images) {
  Random random(seed, images->size());
  for (size_t i = images->size(); i > 1; --i)
    std::swap((*images)[i - 1], (*images)[random.Next() % i]);
}

std::string Labels(const std::vector<std::string>& classes) {
  std::string text;
  for (const std::string& name : classes) text += name + "\n";
  return text;
}

// What the records of some images are made of.
Hash128 SourceOf(std::span<const Image> images, const std::vector<std::string>& classes) {
  Xxh3Stream hash;
  const auto add = [&](const auto& value) { hash.Update(&value, sizeof(value)); };
  const auto add_text = [&](const std::string& text) {
    add(text.size());
    hash.Update(text.data(), text.size());
  };
  for (const Image& image : images) {
    add_text(image.path);
    add_text(classes[image.label]);
    add(image.label);
    add(image.bytes);
    add(image.mtime_ns);
  }
  return hash.Digest();
}

}  // namespace

Result<ImageFolderSummary> ImageFolderToShards(const ImageFolderOptions& options,
                                               const ProgressFunction& progress) {
  if (options.shards == 0 && options.shard_bytes == 0) {
    return InvalidArgument("shards of 0 bytes: give a number of shards, or a size above 0");
  }
  EMLIO_RETURN_IF_ERROR(CheckShardSetOptions(options));
  EMLIO_ASSIGN_OR_RETURN(Listing listing, Lister(options, progress).List());
  std::vector<Image>& images = listing.images;
  uint64_t shards = options.shards;
  if (shards == 0) {
    shards = std::clamp<uint64_t>(listing.image_bytes / options.shard_bytes +
                                      (listing.image_bytes % options.shard_bytes != 0 ? 1 : 0),
                                  1, images.size());
  }
  EMLIO_RETURN_IF_ERROR(CheckShardCount(shards, images.size()));
  if (options.shuffle) Shuffle(options.seed, &images);

  ShardSet set;
  set.options = {{"conversion", "imagefolder/1"},
                 {"prefix", options.prefix},
                 {"shards", std::to_string(shards)},
                 {"shuffle", options.shuffle ? "yes" : "no"},
                 {"seed", std::to_string(options.seed)}};
  set.shards = shards;
  const auto images_of = [&](uint64_t shard) {
    const uint64_t begin = FirstRecord(shard, shards, images.size());
    return std::span<const Image>(images).subspan(
        begin, FirstRecord(shard + 1, shards, images.size()) - begin);
  };
  set.source = [&](uint64_t shard) { return SourceOf(images_of(shard), listing.classes); };
  set.fill = [&](uint64_t shard, ShardSink* sink) -> Status {
    example::ExampleBuilder builder;
    for (const Image& image : images_of(shard)) {
      const std::string path = (fs::path(options.source) / image.path).string();
      EMLIO_ASSIGN_OR_RETURN(const std::string content, ReadWholeFile(path, kMaxImageBytes));
      const auto format = example::RecognizeImage(AsBytes(content));
      if (!format.has_value()) return NoImage(path, content);
      builder.SetBytes("image/encoded", content);
      builder.SetBytes("image/format", example::ImageFormatName(*format));
      builder.SetBytes("image/filename", image.path);
      builder.SetInt64("image/class/label", image.label);
      builder.SetBytes("image/class/text", listing.classes[image.label]);
      EMLIO_RETURN_IF_ERROR(sink->Append(AsBytes(builder.Serialize()), content.size(), path));
    }
    return OkStatus();
  };
  set.files = {{kLabelsName, Labels(listing.classes)}};
  set.total = {.records_total = images.size(), .bytes_total = listing.image_bytes};
  ImageFolderSummary summary;
  EMLIO_ASSIGN_OR_RETURN(static_cast<ShardSetSummary&>(summary),
                         MakeShardSet(options, set, progress));
  summary.classes = std::move(listing.classes);
  summary.passed_over = listing.passed_over;
  return summary;
}

}  // namespace emlio::convert
