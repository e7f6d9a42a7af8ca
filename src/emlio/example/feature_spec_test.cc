// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/example/feature_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace emlio::example {
namespace {

using ::testing::HasSubstr;

TEST(FeatureSpec, ReadsWhatUsersWrite) {
  const struct {
    const char* text;
    FeatureKind kind;
    uint32_t length;
    bool scalar;
    bool optional;
  } kCases[] = {
      {"bytes", FeatureKind::kBytes, 1, true, false},
      {"int64", FeatureKind::kInt64, 1, true, false},
      {"float", FeatureKind::kFloat, 1, true, false},
      {"int64?", FeatureKind::kInt64, 1, true, true},
      {"int64[1]", FeatureKind::kInt64, 1, false, false},
      {"float[3]", FeatureKind::kFloat, 3, false, false},
      {"float[16777216]?", FeatureKind::kFloat, 1 << 24, false, true},
      {"bytes[]", FeatureKind::kBytes, 0, false, false},
      {"int64[]?", FeatureKind::kInt64, 0, false, true},
  };
  for (const auto& c : kCases) {
    const auto spec = ParseFeatureSpec("label", c.text);
    ASSERT_TRUE(spec.ok()) << spec.status().ToString();
    EXPECT_EQ(spec->name, "label");
    EXPECT_EQ(spec->kind, c.kind) << c.text;
    EXPECT_EQ(spec->length, c.length) << c.text;
    EXPECT_EQ(spec->scalar, c.scalar) << c.text;
    EXPECT_EQ(spec->optional, c.optional) << c.text;
    EXPECT_EQ(FeatureSpecText(*spec), c.text);
  }
}

TEST(FeatureSpec, RefusesTheRestWithAnExplanation) {
  for (const char* text : {"", "?", "int", "int32", "Int64", "int64[", "int64]", "int64[0]", "[3]",
                           "int64[-1]", "int64[1.5]", "int64[ 3]", "int64[3,3]", "int64[16777217]",
                           "int64[99999999999]", "int64??", "int64?[3]", "bytes ", "floats"}) {
    const auto spec = ParseFeatureSpec("label", text);
    ASSERT_FALSE(spec.ok()) << text;
    EXPECT_EQ(spec.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(spec.status().message(), HasSubstr("'label'"));
    EXPECT_THAT(spec.status().message(), HasSubstr("float[3]"));
  }
}

}  // namespace
}  // namespace emlio::example
