// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/dataset/survey.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emlio/tfrecord/test_util.h"

namespace emlio::dataset {
namespace {

using ::testing::SizeIs;
using tfrecord::TempDir;
using tfrecord::WriteBytes;
using std::string_literals::operator""s;

TEST(SurveyTest, FilesAreCountedByWhatTheyAre) {
  const TempDir dir;
  const std::string rest(600, 'x');
  WriteBytes(dir / "a", tfrecord::Shard({"one", "two"}));
  WriteBytes(dir / "b", "\x1f\x8b\x08\0"s + rest);
  WriteBytes(dir / "c", "");
  WriteBytes(dir / "d", tfrecord::Shard({std::string(1000, 'x')}));
  WriteBytes(dir / "e", rest);
  WriteBytes(dir / "f", "short");
  WriteBytes(dir / "g", "version https://git-lfs.github.com/spec/v1\n");
  const std::vector<std::string> patterns = {dir / "*"};
  const auto kinds = SurveyFiles(patterns);
  ASSERT_TRUE(kinds.ok()) << kinds.status().ToString();
  ASSERT_THAT(*kinds, SizeIs(5));
  const auto expect = [&](size_t at, const char* what, uint64_t files, const std::string& path,
                          const std::string& first_bytes) {
    const FileKind& kind = kinds->at(at);
    EXPECT_EQ(kind.what, what);
    EXPECT_EQ(kind.files, files);
    EXPECT_EQ(kind.first_path, path);
    EXPECT_EQ(kind.first_bytes, first_bytes);
  };
  expect(0, "TFRecord", 2, dir / "a", tfrecord::Framed("one").substr(0, 16));
  expect(1, "something else", 2, dir / "e", rest.substr(0, 16));
  expect(2, "gzip data", 1, dir / "b", "\x1f\x8b\x08\0xxxxxxxxxxxx"s);
  expect(3, "empty", 1, dir / "c", "");
  expect(4, "a Git-LFS pointer", 1, dir / "g", "version https://");
}

TEST(SurveyTest, PatternWithoutAMatchIsAnError) {
  const TempDir dir;
  const std::vector<std::string> patterns = {dir / "*.tfrecord"};
  EXPECT_EQ(SurveyFiles(patterns).status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace emlio::dataset
