// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <httplib.h>
#include <zlib.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace emlio::energy_sinks::testing {

// A server that has the write routes of InfluxDB 1, 2 and 3, answers as it is told, and keeps
// points as InfluxDB does: by series and time, so that a point that comes again replaces itself.
class ScriptedInflux {
 public:
  // What one request gets; without any, everything is taken (204).
  struct Answer {
    int status = 204;
    std::string body = {};
    std::vector<std::pair<std::string, std::string>> headers = {};
    size_t takes = static_cast<size_t>(-1);  // so many of its lines are kept all the same
    bool hang = false;                       // no answer until the server ends
  };
  struct Request {
    std::string path;
    std::multimap<std::string, std::string> query;
    std::string authorization;
    size_t lines = 0;
    std::chrono::steady_clock::time_point at;
  };

  ScriptedInflux() {
    for (const char* const path : {"/write", "/api/v2/write", "/api/v3/write_lp"}) {
      server_.Post(path, [this](const httplib::Request& request, httplib::Response& response) {
        Take(request, response);
      });
    }
    server_.new_task_queue = [] { return new httplib::ThreadPool(4); };
    port_ = server_.bind_to_any_port("127.0.0.1");
    EXPECT_GT(port_, 0);
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ~ScriptedInflux() {
    {
      const std::lock_guard lock(mu_);
      ending_ = true;
      changed_.notify_all();
    }
    server_.stop();
    thread_.join();
  }

  std::string Url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  void Script(std::vector<Answer> answers) {
    const std::lock_guard lock(mu_);
    answers_.insert(answers_.end(), answers.begin(), answers.end());
  }
  // Lines by their series and time; how often each came.
  std::map<std::string, int> points() {
    const std::lock_guard lock(mu_);
    return points_;
  }
  // The fields of that series and time.
  std::string FieldsOf(const std::string& point) {
    const std::lock_guard lock(mu_);
    return fields_[point];
  }
  std::vector<Request> requests() {
    const std::lock_guard lock(mu_);
    return requests_;
  }
  void WaitForRequests(size_t count) {
    std::unique_lock lock(mu_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60),
                                  [&] { return requests_.size() >= count; }));
  }

 private:
  static std::string Inflated(const std::string& body) {
    z_stream stream = {};
    EXPECT_EQ(inflateInit2(&stream, 15 + 16), Z_OK);
    std::string out(64 << 20, '\0');
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(body.data()));
    stream.avail_in = static_cast<uInt>(body.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
    out.resize(stream.total_out);
    inflateEnd(&stream);
    return out;
  }

  void Take(const httplib::Request& request, httplib::Response& response) {
    // The server may have unpacked it already.
    const bool packed = request.body.starts_with("\x1f\x8b");
    EXPECT_EQ(request.get_header_value("Content-Encoding"), "gzip");
    const std::string body = packed ? Inflated(request.body) : request.body;
    std::vector<std::string> lines;
    for (size_t at = 0; at < body.size();) {
      const size_t end = body.find('\n', at);
      EXPECT_NE(end, std::string::npos) << "a line without an end";
      if (end == std::string::npos) break;
      lines.push_back(body.substr(at, end - at));
      at = end + 1;
    }
    std::unique_lock lock(mu_);
    Answer answer;
    if (!answers_.empty()) {
      answer = answers_.front();
      answers_.pop_front();
    } else {
      answer.takes = lines.size();
    }
    if (answer.status / 100 == 2) answer.takes = std::min(answer.takes, lines.size());
    for (size_t i = 0; i < lines.size() && answer.takes != static_cast<size_t>(-1); ++i) {
      if (i >= answer.takes) break;
      // The first blank that is not escaped ends the tags, the last one the fields.
      size_t tags = lines[i].find(' ');
      while (tags != std::string::npos && lines[i][tags - 1] == '\\') {
        tags = lines[i].find(' ', tags + 1);
      }
      const size_t time = lines[i].rfind(' ');
      EXPECT_LT(tags, time) << lines[i];
      const std::string point = lines[i].substr(0, tags) + lines[i].substr(time);
      ++points_[point];
      fields_[point] = lines[i].substr(tags + 1, time - tags - 1);
    }
    Request seen;
    seen.path = request.path;
    seen.query.insert(request.params.begin(), request.params.end());
    seen.authorization = request.get_header_value("Authorization");
    seen.lines = lines.size();
    seen.at = std::chrono::steady_clock::now();
    requests_.push_back(std::move(seen));
    changed_.notify_all();
    if (answer.hang) changed_.wait(lock, [this] { return ending_; });
    response.status = answer.status;
    for (const auto& [name, value] : answer.headers) response.set_header(name.c_str(), value);
    if (!answer.body.empty()) response.set_content(answer.body, "application/json");
  }

  httplib::Server server_;
  int port_ = 0;
  std::thread thread_;
  std::mutex mu_;
  std::condition_variable changed_;
  bool ending_ = false;
  std::deque<Answer> answers_;
  std::map<std::string, int> points_;
  std::map<std::string, std::string> fields_;
  std::vector<Request> requests_;
};

}  // namespace emlio::energy_sinks::testing
