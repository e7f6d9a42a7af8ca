// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/loader/source_list.h"

#include "fmt/format.h"

namespace emlio::loader {

Result<SourceList> ParseSources(const std::vector<std::string>& sources) {
  SourceList list;
  for (const std::string& source : sources) {
    if (source.empty()) return InvalidArgument("a source is empty");
    const size_t scheme = source.find("://");
    if (scheme == std::string::npos) {
      list.local_patterns.push_back(source);
      continue;
    }
    const std::string form = "remote sources look like tcp://host:port/dataset";
    if (source.compare(0, scheme, "tcp") != 0) {
      return InvalidArgument(fmt::format("source {}: unknown scheme '{}'; {}", source,
                                         source.substr(0, scheme), form));
    }
    const size_t authority = scheme + 3;
    const size_t slash = source.find('/', authority);
    if (slash == std::string::npos || slash + 1 == source.size() || slash == authority) {
      return InvalidArgument(fmt::format("source {} names no data set; {}", source, form));
    }
    if (source.find(':', source.find(']', authority) == std::string::npos
                             ? authority
                             : source.find(']', authority)) >= slash) {
      return InvalidArgument(fmt::format("source {} names no port; {}", source, form));
    }
    if (source.find('/', slash + 1) != std::string::npos) {
      return InvalidArgument(
          fmt::format("source {}: a data set's name has no '/'; {}", source, form));
    }
    list.remote.push_back({source.substr(0, slash), source.substr(slash + 1)});
  }
  if (list.remote.empty() && list.local_patterns.empty()) {
    return InvalidArgument("no source was given");
  }
  return list;
}

}  // namespace emlio::loader
