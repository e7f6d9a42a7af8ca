// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <memory>
#include <string>

#include "emlio/base/status.h"

namespace emlio::energy {

// A shared library that is loaded when it is needed: the driver's, which a build cannot require. It
// stays loaded until the process ends: drivers' libraries have threads and exit handlers.
class Library {
 public:
  // `path` when it is not empty, else what the variable says, else the first of `names` that loads.
  static Result<Library> Open(const std::string& path, const char* variable,
                              std::initializer_list<const char*> names);
  const std::string& name() const { return name_; }

  // Null when the library has no such function.
  template <typename Function>
  Function* Find(const char* function) const {
    return reinterpret_cast<Function*>(Symbol(function));
  }

 private:
  Library(std::string name, void* handle) : name_(std::move(name)), handle_(handle) {}
  void* Symbol(const char* function) const;
  std::string name_;
  void* handle_;
};

}  // namespace emlio::energy
