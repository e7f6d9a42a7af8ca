// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <thread>

namespace emlio {

// A thread with a name (at most 15 characters, shown by top and gdb), an owner, a stop token and a
// join. The destructor asks it to stop and joins. An exception that leaves the body ends the
// process: bodies return, they do not throw.
class Thread {
 public:
  Thread() = default;
  Thread(std::string name, std::function<void(std::stop_token)> body);
  Thread(Thread&&) = default;
  Thread& operator=(Thread&&) = default;

  void RequestStop() { thread_.request_stop(); }
  void Join() {
    if (thread_.joinable()) thread_.join();
  }
  bool joinable() const { return thread_.joinable(); }

 private:
  std::jthread thread_;
};

}  // namespace emlio
