// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emlio/base/file.h"
#include "emlio/base/status.h"

namespace emlio::dataset {

// A file that the user's patterns name.
struct FoundShard {
  std::string path;
  std::string name;  // in the manifest
  FileIdentity identity;
};

// Whether a name matches one component of a pattern, the same in every locale: * (any bytes), ?
// (one UTF-8 character or one other byte), [a-z] and [!a-z] (one byte), \x (x itself). A '[' that
// nothing closes stands for itself. A leading '.' is matched by a '.' only.
bool MatchesComponent(std::string_view pattern, std::string_view name);

// The regular files that the patterns of DatasetOptions name, sorted by shard name; each file once,
// under the name that the first pattern gives it. A component of a pattern that exists exactly as
// it is written is taken as written, whatever characters it has. A last component that is written
// out may be a directory: its files, one level deep; what wildcards match are files only. Names
// that begin with '.' or that sidecar indexes and unfinished files have (.idx, .emlio-index,
// .tmp.*) count only if written out. kNotFound: a pattern without a match. kInvalidArgument: two
// files with one name.
Result<std::vector<FoundShard>> FindShards(std::span<const std::string> patterns);

}  // namespace emlio::dataset
