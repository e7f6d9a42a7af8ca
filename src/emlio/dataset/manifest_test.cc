// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/dataset/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace emlio::dataset {
namespace {

using ::testing::HasSubstr;

ShardInfo Info(std::string name, uint64_t records, uint8_t contents = 1) {
  ShardInfo info;
  info.name = std::move(name);
  info.records = records;
  info.payload_bytes = 10 * records;
  info.max_record_bytes = 10;
  info.fingerprint.fill(contents);
  return info;
}

Manifest Make(std::vector<ShardInfo> shards) {
  auto manifest = Manifest::Create(std::move(shards));
  EXPECT_TRUE(manifest.ok()) << manifest.status().ToString();
  return manifest.ok() ? *manifest : Manifest();
}

TEST(Manifest, SortsBytewiseAndSumsUp) {
  const Manifest manifest = Make({Info("s-2", 1), Info("\xff", 2), Info("s-12", 3), Info("S", 4)});
  ASSERT_EQ(manifest.shards().size(), 4u);
  EXPECT_EQ(manifest.shards()[0].name, "S");
  EXPECT_EQ(manifest.shards()[1].name, "s-12");
  EXPECT_EQ(manifest.shards()[2].name, "s-2");
  EXPECT_EQ(manifest.shards()[3].name, "\xff");
  EXPECT_EQ(manifest.records(), 10u);
  EXPECT_EQ(manifest.payload_bytes(), 100u);
  EXPECT_EQ(manifest.max_record_bytes(), 10u);
  EXPECT_EQ(manifest.Find("s-2"), 2);
  EXPECT_EQ(manifest.Find("s-1"), -1);
  EXPECT_EQ(manifest.Find("zz"), -1);
}

TEST(Manifest, DigestNamesOrderedContents) {
  const Hash128 digest = Make({Info("a", 1), Info("b", 2)}).digest();
  EXPECT_EQ(digest, Make({Info("b", 2), Info("a", 1)}).digest());
  EXPECT_NE(digest, Make({Info("a", 1), Info("b", 3)}).digest());
  EXPECT_NE(digest, Make({Info("a", 1), Info("c", 2)}).digest());
  EXPECT_NE(digest, Make({Info("a", 1), Info("b", 2, 9)}).digest());
  EXPECT_NE(digest, Make({Info("a", 1)}).digest());
  // The definition of manifest.h, written out.
  std::string input("\x01\0\0\0\0\0\0\0a\x03\0\0\0\0\0\0\0", 17);
  input.append(16, '\x05');
  EXPECT_EQ(Make({Info("a", 3, 5)}).digest(), Xxh3(input.data(), input.size()));
}

TEST(Manifest, RefusesWhatCannotBe) {
  EXPECT_EQ(Manifest::Create({}).status().code(), Code::kNotFound);
  EXPECT_EQ(Manifest::Create({Info("a", 0)}).status().code(), Code::kNotFound);
  EXPECT_EQ(Manifest::Create({Info("", 1)}).status().code(), Code::kInvalidArgument);
  const auto twice = Manifest::Create({Info("a", 1), Info("b", 1), Info("a", 1)});
  EXPECT_EQ(twice.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(twice.status().message(), HasSubstr("'a'"));
  const auto absurd = Manifest::Create({Info("a", ~uint64_t{0}), Info("b", 1)});
  EXPECT_EQ(absurd.status().code(), Code::kInvalidArgument);
}

TEST(Manifest, MergeIsTheUnionInAnyOrder) {
  const Manifest left = Make({Info("a", 1), Info("c", 3)});
  const Manifest right = Make({Info("b", 2), Info("c", 3), Info("d", 0)});
  const auto merged = Manifest::Merge(std::vector<Manifest>{left, right});
  ASSERT_TRUE(merged.ok());
  EXPECT_EQ(merged->shards().size(), 4u);
  EXPECT_EQ(merged->records(), 6u);
  const auto other_way = Manifest::Merge(std::vector<Manifest>{right, left, right});
  EXPECT_EQ(merged->digest(), other_way->digest());
  EXPECT_EQ(Manifest::Merge({}).status().code(), Code::kNotFound);
}

TEST(Manifest, MergeRefusesOtherContentsUnderOneName) {
  const auto merged =
      Manifest::Merge(std::vector<Manifest>{Make({Info("a", 1)}), Make({Info("a", 1, 2)})});
  EXPECT_EQ(merged.status().code(), Code::kPlanMismatch);
  EXPECT_THAT(merged.status().message(), HasSubstr("'a'"));
}

}  // namespace
}  // namespace emlio::dataset
