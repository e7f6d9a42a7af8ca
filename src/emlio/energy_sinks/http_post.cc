// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy_sinks/http_post.h"

#include <curl/curl.h>
#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <mutex>
#include <utility>

#include "emlio/base/thread.h"

namespace emlio::energy_sinks {
namespace {

constexpr size_t kMaxAnswerBytes = 64 << 10;

void InitialiseCurl() {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
}

struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
struct FreeCurl {
  void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
};

std::string_view Trimmed(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace

struct HttpPoster::Connection {
  HttpTarget target;
  std::unique_ptr<curl_slist, FreeList> headers;
  std::unique_ptr<CURL, FreeCurl> curl;
  // Of the post that goes on.
  HttpAnswer answer;
  const std::function<bool()>* give_up = nullptr;

  static size_t TakeBody(const char* data, size_t size, size_t count, void* connection) {
    std::string& body = static_cast<Connection*>(connection)->answer.body;
    body.append(data, std::min(size * count, kMaxAnswerBytes - body.size()));
    return size * count;
  }
  static size_t TakeHeader(const char* data, size_t size, size_t count, void* connection) {
    std::string_view line(data, size * count);
    constexpr std::string_view kName = "retry-after:";
    const bool same = line.size() > kName.size() &&
                      std::equal(kName.begin(), kName.end(), line.begin(), [](char a, char b) {
                        return a == (b >= 'A' && b <= 'Z' ? b - 'A' + 'a' : b);
                      });
    if (same) {
      line = Trimmed(line.substr(kName.size()));
      int64_t seconds = 0;
      const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), seconds);
      if (error == std::errc() && end == line.data() + line.size() && seconds >= 0) {
        static_cast<Connection*>(connection)->answer.retry_after_s = seconds;
      }
    }
    return size * count;
  }
  static int Progress(void* connection, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    const auto* const give_up = static_cast<Connection*>(connection)->give_up;
    return (*give_up)() ? 1 : 0;
  }
};

HttpPoster::HttpPoster(std::unique_ptr<Connection> connection)
    : connection_(std::move(connection)) {}
HttpPoster::~HttpPoster() = default;

Result<std::unique_ptr<HttpPoster>> HttpPoster::Create(HttpTarget target) {
  InitialiseCurl();
  if (!target.url.starts_with("http://") && !target.url.starts_with("https://")) {
    return InvalidArgument(
        fmt::format("{}: an address begins with http:// or https://", target.url));
  }
  auto connection = std::make_unique<Connection>();
  connection->target = std::move(target);
  connection->curl.reset(curl_easy_init());
  CURL* const curl = connection->curl.get();
  if (curl == nullptr) return IoError("libcurl has no memory");
  const HttpTarget& to = connection->target;
  for (const std::string& header : to.headers) {
    connection->headers.reset(curl_slist_append(connection->headers.release(), header.c_str()));
  }
  if (curl_easy_setopt(curl, CURLOPT_URL, to.url.c_str()) != CURLE_OK) {
    return InvalidArgument(to.url + " is no address");
  }
  curl_easy_setopt(curl, CURLOPT_POST, 1L);
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, connection->headers.get());
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(to.connect_timeout_ms));
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(to.timeout_ms));
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &Connection::TakeBody);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, connection.get());
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, &Connection::TakeHeader);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, connection.get());
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, &Connection::Progress);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, connection.get());
  if (!to.user_and_password.empty()) {
    curl_easy_setopt(curl, CURLOPT_HTTPAUTH, static_cast<long>(CURLAUTH_BASIC));
    curl_easy_setopt(curl, CURLOPT_USERPWD, to.user_and_password.c_str());
  }
  return std::unique_ptr<HttpPoster>(new HttpPoster(std::move(connection)));
}

Result<HttpAnswer> HttpPoster::Post(std::string_view body, const std::function<bool()>& give_up) {
  CURL* const curl = connection_->curl.get();
  connection_->answer = {};
  connection_->give_up = &give_up;
  curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.data());
  const CURLcode code = curl_easy_perform(curl);
  switch (code) {
    case CURLE_OK:
      break;
    case CURLE_ABORTED_BY_CALLBACK:
      return Cancelled("given up");
    case CURLE_OPERATION_TIMEDOUT:
      return TimeoutError(fmt::format("no answer in time: {}", curl_easy_strerror(code)));
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
      return InvalidArgument(curl_easy_strerror(code));
    default:
      return Unavailable(curl_easy_strerror(code));
  }
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  connection_->answer.status = static_cast<int>(status);
  return std::move(connection_->answer);
}

std::string Gzip(std::string_view text) {
  z_stream stream = {};
  // 16: with gzip's header and trailer.
  if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    return {};
  }
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int code = deflate(&stream, Z_FINISH);
  out.resize(code == Z_STREAM_END ? stream.total_out : 0);
  deflateEnd(&stream);
  return out;
}

std::string UrlEncoded(std::string_view text) {
  std::string out;
  for (const char byte : text) {
    const bool plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                       (byte >= '0' && byte <= '9') || byte == '-' || byte == '_' || byte == '.' ||
                       byte == '~';
    if (plain) {
      out += byte;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(byte));
    }
  }
  return out;
}

}  // namespace emlio::energy_sinks
