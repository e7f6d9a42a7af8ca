// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy/library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <utility>
#include <vector>

namespace emlio::energy {

Result<Library> Library::Open(const std::string& path, const char* variable,
                              std::initializer_list<const char*> names) {
  std::vector<std::string> candidates;
  const char* named = std::getenv(variable);
  if (!path.empty()) {
    candidates.push_back(path);
  } else if (named != nullptr && *named != '\0') {
    candidates.emplace_back(named);
  } else {
    candidates.assign(names.begin(), names.end());
  }
  std::string errors;
  for (const std::string& name : candidates) {
    void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) return Library(name, handle);
    const char* error = dlerror();
    errors += fmt::format("{}{}", errors.empty() ? "" : "; ", error ? error : name);
  }
  return NotFound(std::move(errors));
}

void* Library::Symbol(const char* function) const { return dlsym(handle_, function); }

}  // namespace emlio::energy
