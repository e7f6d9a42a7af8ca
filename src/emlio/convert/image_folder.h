// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "emlio/base/status.h"
#include "emlio/convert/shard_set.h"

namespace emlio::convert {

struct ImageFolderOptions : ShardSetOptions {
  ImageFolderOptions() { prefix = "train"; }

  // <source>/<class>/**/<image>: every folder in it is a class. Names that begin with a dot are
  // passed over, symbolic links are followed.
  std::string source;
  uint64_t shards = 0;  // 0: as many as give shards of about shard_bytes
  uint64_t shard_bytes = kGoodShardBytes;
  // Mixes the images of all classes over the shards, so that a sequential reader sees no long runs
  // of one class. Without it they come by class and path.
  bool shuffle = true;
  uint64_t seed = 0;
};

struct ImageFolderSummary : ShardSetSummary {
  std::vector<std::string> classes;  // the index is the label
  uint64_t passed_over = 0;          // files whose names do not end like an image's, and strays
};

// Turns a folder of images, one sub-folder a class, into shards of tf.train.Example records:
//   image/encoded      bytes  the file as it is
//   image/format       bytes  "jpeg", "png", "webp", "bmp", "gif", "tiff" or "pnm", by its content
//   image/filename     bytes  path below the source folder, with '/'
//   image/class/label  int64  position of the class in bytewise order, from 0
//   image/class/text   bytes  name of the class
// and writes labels.txt beside them: line n is the name of class n - 1. The same images and options
// give the same bytes, whatever the number of threads.
// kNotFound: no such folder, no class, or a class without images. kCorrupt: a file whose content is
// no image. kLimitExceeded: an image over 256 MiB, or folders nested too deeply.
Result<ImageFolderSummary> ImageFolderToShards(const ImageFolderOptions& options,
                                               const ProgressFunction& progress = {});

}  // namespace emlio::convert
