// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emlio/base/status.h"

namespace emlio::energy_sinks {

struct HttpAnswer {
  int status = 0;
  std::string body;                      // at most its first 64 KiB
  std::optional<int64_t> retry_after_s;  // of the header, where it is a number
};

struct HttpTarget {
  std::string url;
  std::vector<std::string> headers;  // "Name: value"
  std::string user_and_password;     // "name:secret" for Basic; empty: none
  int64_t connect_timeout_ms = 5'000;
  int64_t timeout_ms = 10'000;
};

// Posts to one address over a connection that is kept. One thread at a time.
class HttpPoster {
 public:
  // kInvalidArgument: the address is none that can be posted to.
  static Result<std::unique_ptr<HttpPoster>> Create(HttpTarget target);
  ~HttpPoster();
  HttpPoster(const HttpPoster&) = delete;
  HttpPoster& operator=(const HttpPoster&) = delete;

  // kUnavailable or kTimeout: there was no answer; the body may have been taken or not. Asked about
  // once a second, `give_up` ends it with kCancelled.
  Result<HttpAnswer> Post(std::string_view body, const std::function<bool()>& give_up);

 private:
  struct Connection;
  explicit HttpPoster(std::unique_ptr<Connection> connection);
  std::unique_ptr<Connection> connection_;
};

// gzip (RFC 1952).
std::string Gzip(std::string_view text);
// For a part of a query.
std::string UrlEncoded(std::string_view text);

}  // namespace emlio::energy_sinks
