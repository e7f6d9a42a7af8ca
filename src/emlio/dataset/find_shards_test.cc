// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/dataset/find_shards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emlio/tfrecord/test_util.h"

namespace emlio::dataset {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using tfrecord::TempDir;
using tfrecord::WriteBytes;

TEST(MatchesComponent, KnowsStarsQuestionMarksAndBrackets) {
  const struct {
    const char* pattern;
    const char* name;
    bool matches;
  } kCases[] = {
      {"", "", true},
      {"*", "", true},
      {"a", "", false},
      {"a*", "abc", true},
      {"*c", "abc", true},
      {"*b", "abc", false},
      {"a*c*e", "abcde", true},
      {"*ab*ab", "abab", true},
      {"*ab*ab", "aab", false},
      {"**", "x", true},
      {"a?c", "abc", true},
      {"a?", "a", false},
      {"?", "ж", true},
      {"??", "ж", false},
      {"к?юч", "ключ", true},
      {"[a-c]1", "b1", true},
      {"[a-c]1", "d1", false},
      {"[!a-c]1", "d1", true},
      {"[^a]", "a", false},
      {"[]]", "]", true},
      {"[a-]", "-", true},
      {"[[]x", "[x", true},
      {"a[", "a[", true},
      {"[ab", "[ab", true},
      {"[ab", "a", false},
      {"\\*", "*", true},
      {"\\*", "x", false},
      {"a\\", "a\\", true},
      {"*", ".hidden", false},
      {"?hidden", ".hidden", false},
      {".*", ".hidden", true},
      {"*.x", "\xff\xfe.x", true},
      {"s-[0-9]*", "s-12", true},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(MatchesComponent(c.pattern, c.name), c.matches) << c.pattern << " " << c.name;
  }
}

TEST(MatchesComponent, ManyStarsTakeNoTime) {
  std::string pattern;
  for (int i = 0; i < 30; ++i) pattern += "*a";
  EXPECT_FALSE(MatchesComponent(pattern + "b", std::string(200, 'a')));
}

class FindShardsTest : public ::testing::Test {
 protected:
  void Touch(const std::string& name) {
    const std::filesystem::path path(dir_ / name);
    std::filesystem::create_directories(path.parent_path());
    WriteBytes(path.string(), name);
  }
  // Names of the shards, or the text of the error.
  std::vector<std::string> Find(const std::vector<std::string>& patterns) {
    std::vector<std::string> full;
    for (const auto& pattern : patterns) full.push_back(dir_ / pattern);
    const auto found = FindShards(full);
    if (!found.ok()) return {found.status().ToString()};
    std::vector<std::string> names;
    for (const auto& shard : *found) {
      names.push_back(shard.name);
      EXPECT_TRUE(std::filesystem::exists(shard.path)) << shard.path;
    }
    return names;
  }

  const TempDir dir_;
};

TEST_F(FindShardsTest, OrderIsBytewiseAndOverlapsCountOnce) {
  for (const char* directory : {"one", "two"}) {
    for (int i : {7, 2, 12, 1, 9, 4, 11, 3, 10, 8, 6, 5}) {
      Touch(std::string(directory) + "/s-" + std::to_string(i));
    }
  }
  const auto one = Find({"one/s-*", "one/s-1*"});
  EXPECT_THAT(one, ElementsAre("s-1", "s-10", "s-11", "s-12", "s-2", "s-3", "s-4", "s-5", "s-6",
                               "s-7", "s-8", "s-9"));
  EXPECT_EQ(Find({"two/s-1*", "two/s-*"}), one);
}

TEST_F(FindShardsTest, NamesBeginAtTheFirstWildcard) {
  Touch("a/train/x");
  Touch("b/train/x");
  Touch("b/eval/x");
  EXPECT_THAT(Find({"*/train/x"}), ElementsAre("a/train/x", "b/train/x"));
  EXPECT_THAT(Find({"b/*/x"}), ElementsAre("eval/x", "train/x"));
  EXPECT_THAT(Find({"b/eval/x"}), ElementsAre("x"));
  EXPECT_THAT(Find({"b//eval/"}), ElementsAre("x"));
  EXPECT_THAT(Find({"*/train"}), ElementsAre("a/train/x", "b/train/x"));
  EXPECT_THAT(Find({"*/tr*"}), ElementsAre(HasSubstr("NOT_FOUND")));
}

TEST_F(FindShardsTest, DirectoriesGiveTheirFilesButNoSidecars) {
  for (const char* name : {"d/a", "d/b", "d/.hidden", "d/a.idx", "d/a.emlio-index", "d/c.tmp.12.0",
                           "d/labels.txt", "d/info.json", "d/sub/x"}) {
    Touch(name);
  }
  EXPECT_THAT(Find({"d"}), ElementsAre("a", "b"));
  EXPECT_THAT(Find({"d/*"}), ElementsAre("a", "b"));
  EXPECT_THAT(Find({"d/a.idx"}), ElementsAre("a.idx"));
}

TEST_F(FindShardsTest, OddNamesAreBytes) {
  Touch("odd [dir]/s 1");
  Touch("odd [dir]/ключ");
  Touch("odd [dir]/[x]");
  Touch("odd [dir]/x");
  Touch("odd [dir]/\xff\xfe");
  EXPECT_EQ(Find({"odd [dir]/*"}).size(), 5u);
  EXPECT_THAT(Find({"odd [dir]/[x]"}), ElementsAre("[x]")) << "it exists as written";
  EXPECT_THAT(Find({"odd [dir]/[wx]"}), ElementsAre("x"));
  EXPECT_THAT(Find({"odd [dir]/кл*"}), ElementsAre("ключ"));
  EXPECT_THAT(Find({"odd*/s 1"}), ElementsAre("odd [dir]/s 1"));
}

TEST_F(FindShardsTest, LinksToOneFileCountOnceUnderTheFirstName) {
  Touch("a");
  std::filesystem::create_symlink(dir_ / "a", dir_ / "link");
  std::filesystem::create_hard_link(dir_ / "a", dir_ / "hard");
  EXPECT_THAT(Find({"*"}), ElementsAre("a"));
  EXPECT_THAT(Find({"link", "*"}), ElementsAre("link"));
}

TEST_F(FindShardsTest, MissingFilesNameTheirPattern) {
  Touch("a");
  for (const char* pattern : {"b", "b*", "no/dir/*", "a/x", "a/*"}) {
    EXPECT_THAT(Find({"a", pattern}), ElementsAre(HasSubstr("NOT_FOUND"))) << pattern;
    EXPECT_THAT(Find({"a", pattern}), ElementsAre(HasSubstr("'" + (dir_ / pattern) + "'")));
  }
  std::filesystem::create_symlink(dir_ / "gone", dir_ / "dangling");
  EXPECT_THAT(Find({"d*"}), ElementsAre(HasSubstr("dangling")));
}

TEST_F(FindShardsTest, TwoFilesWithOneNameAreRefused) {
  Touch("one/s");
  Touch("two/s");
  EXPECT_THAT(Find({"one/s", "two/s"}),
              ElementsAre(testing::AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr("one/s"),
                                         HasSubstr("two/s"))));
  EXPECT_THAT(Find({"*/s"}), ElementsAre("one/s", "two/s"));
}

}  // namespace
}  // namespace emlio::dataset
