// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "emlio/base/file.h"
#include "emlio/convert/as_bytes.h"
#include "emlio/tfrecord/reader.h"

namespace emlio::convert {

// A folder of its own for every test, removed at its end.
class ConvertTest : public ::testing::Test {
 protected:
  ConvertTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "convert_XXXXXX").string();
    root_ = mkdtemp(pattern.data());
  }
  ~ConvertTest() override {
    std::error_code error;
    std::filesystem::remove_all(root_, error);
  }

  std::string Path(const std::string& relative) const { return (root_ / relative).string(); }

  // Makes the folders on the way too.
  void Write(const std::string& relative, const std::string& content) {
    std::filesystem::create_directories((root_ / relative).parent_path());
    std::ofstream(root_ / relative, std::ios::binary) << content;
  }

  static std::string ReadFile(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream content;
    content << file.rdbuf();
    return content.str();
  }

  // Name and content of every file in a folder; what is unfinished lies in a folder below.
  std::map<std::string, std::string> FilesIn(const std::string& relative) const {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(root_ / relative)) {
      if (!entry.is_regular_file()) continue;
      files[entry.path().filename().string()] = ReadFile(entry.path());
    }
    return files;
  }

  std::vector<std::string> NamesIn(const std::string& relative) const {
    std::vector<std::string> names;
    for (const auto& [name, content] : FilesIn(relative)) names.push_back(name);
    return names;
  }

  // The payloads of one shard, checked by the shard reader.
  std::vector<std::string> RecordsOf(const std::string& relative) const {
    std::vector<std::string> records;
    auto file = OpenForReading(Path(relative));
    if (!file.ok()) {
      ADD_FAILURE() << file.status().ToString();
      return records;
    }
    auto reader = tfrecord::ShardReader::Open(file->get());
    if (!reader.ok()) {
      ADD_FAILURE() << reader.status().ToString();
      return records;
    }
    while (true) {
      std::span<const uint8_t> payload;
      const Result<bool> more = (*reader)->Next(&payload);
      if (!more.ok()) ADD_FAILURE() << more.status().ToString();
      if (!more.ok() || !*more) return records;
      records.emplace_back(AsText(payload));
    }
  }

  // The payloads of all shards of a folder, by shard name.
  std::vector<std::string> AllRecordsOf(const std::string& folder) const {
    std::vector<std::string> all;
    for (const std::string& name : NamesIn(folder)) {
      if (!name.ends_with(".tfrecord")) continue;
      for (std::string& record : RecordsOf(folder + "/" + name)) all.push_back(std::move(record));
    }
    return all;
  }

 private:
  std::filesystem::path root_;
};

}  // namespace emlio::convert
