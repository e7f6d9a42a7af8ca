// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "emlio/base/status.h"

namespace emlio::loader {

// What LoaderOptions::sources names, sorted out.
struct SourceList {
  struct Remote {
    std::string endpoint;  // "tcp://host:port"
    std::string dataset;
  };
  std::vector<Remote> remote;
  std::vector<std::string> local_patterns;
};

// "tcp://host:port/dataset" is remote, everything without "://" local. kInvalidArgument for other
// schemes, a missing port or data set, or no source at all.
Result<SourceList> ParseSources(const std::vector<std::string>& sources);

}  // namespace emlio::loader
