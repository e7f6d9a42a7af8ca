// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/example/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "emlio/example/builder.h"
#include "emlio/example/columns.h"
#include "emlio/example/test_util.h"

namespace emlio::example {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using std::string_literals::operator""s;

void Add(const std::string& record, Schema* schema) { schema->Add(AsBytes(record)); }

// The spec as users write it, or the reason why there is none.
std::string SpecText(const Schema& schema, std::string_view name) {
  const auto at = schema.features().find(name);
  if (at == schema.features().end()) return "no such feature";
  const auto spec = schema.SpecOf(at->second);
  if (!spec.ok()) return spec.status().message();
  EXPECT_EQ(spec->name, name);
  return FeatureSpecText(*spec);
}

TEST(SchemaTest, SpecsAreAsStrictAsTheRecordsAllow) {
  Schema schema;
  for (int i = 0; i < 3; ++i) {
    ExampleBuilder builder;
    builder.SetInt64("label", i);
    builder.SetBytes("image", "x");
    const std::vector<float> box(4, 0.5f);
    builder.SetFloat("box", box);
    const std::vector<int64_t> tokens(i, 7);
    builder.SetInt64("tokens", tokens);
    builder.SetInt64("never", std::span<const int64_t>());
    if (i == 1) builder.SetFloat("score", 0.5f);
    Add(builder.Serialize(), &schema);
  }
  EXPECT_EQ(SpecText(schema, "label"), "int64");
  EXPECT_EQ(SpecText(schema, "image"), "bytes");
  EXPECT_EQ(SpecText(schema, "box"), "float[4]");
  EXPECT_EQ(SpecText(schema, "tokens"), "int64[]");
  EXPECT_EQ(SpecText(schema, "never"), "int64[]");
  EXPECT_EQ(SpecText(schema, "score"), "float?");
}

TEST(SchemaTest, EveryRecordThatWasAddedCanBeReadWithTheSpecs) {
  std::vector<std::string> records = {
      Example(Entry("a", Int64List(Field(1, "\x01"))) + Entry("b", "")),
      Example(Entry("b", BytesList(Field(1, "x") + Field(1, "")))),
      Example(Entry("a", Int64List(Field(1, "\x02"))) + Entry("c", FloatList(""))),
      "",
      Example(""),
  };
  Schema schema;
  std::vector<std::span<const uint8_t>> views;
  for (const std::string& record : records) {
    schema.Add(AsBytes(record));
    views.push_back(AsBytes(record));
  }
  std::vector<FeatureSpec> specs;
  for (const auto& [name, feature] : schema.features()) {
    const auto spec = schema.SpecOf(feature);
    ASSERT_TRUE(spec.ok()) << spec.status().ToString();
    specs.push_back(*spec);
  }
  EXPECT_THAT(specs, SizeIs(3));
  std::vector<Column> columns;
  size_t bad_record = 0;
  const Status status = ParseColumns(specs, views, &columns, &bad_record);
  EXPECT_TRUE(status.ok()) << "record " << bad_record << ": " << status.ToString();
}

TEST(SchemaTest, FeaturesThatNobodyCouldAskForHaveAReason) {
  Schema schema;
  Add(Example(Entry("mixed", Int64List(Field(1, "\x01"))) + Entry("none", "") +
              Entry("\xff", Int64List(Field(1, "\x01"))) + Entry("ключ", BytesList(Field(1, "x")))),
      &schema);
  Add(Example(Entry("mixed", FloatList(""))), &schema);
  EXPECT_THAT(SpecText(schema, "mixed"),
              HasSubstr("1 records have it as int64, 1 records have it as float"));
  EXPECT_THAT(SpecText(schema, "none"), HasSubstr("no record has a list"));
  EXPECT_THAT(SpecText(schema, "\xff"), HasSubstr("UTF-8"));
  EXPECT_EQ(SpecText(schema, "ключ"), "bytes?");
}

TEST(SchemaTest, ValuesAreSummedUpAndTheFirstOnesKept) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  Schema schema;
  ExampleBuilder builder;
  builder.SetInt64("i", std::vector<int64_t>{-1, int64_t{1} << 40, kMin, kMax});
  builder.SetFloat("f", std::vector<float>{std::nanf(""), 2, -0.5f});
  const std::string two = "\xff\0"s;
  const auto a = AsBytes("a"), nothing = AsBytes(""), binary = AsBytes(two);
  builder.SetBytes("b", std::vector<std::span<const uint8_t>>{a, nothing, binary});
  Add(builder.Serialize(), &schema);
  builder.SetInt64("i", 3);
  Add(builder.Serialize(), &schema);

  const FeatureSummary& ints = schema.features().find("i")->second;
  EXPECT_THAT(ints.sample_int64s, ElementsAre(-1, int64_t{1} << 40, kMin, kMax));
  EXPECT_EQ(ints.int64_values.min, kMin);
  EXPECT_EQ(ints.int64_values.max, kMax);
  EXPECT_EQ(ints.values.min, 1u);
  EXPECT_EQ(ints.values.max, 4u);
  const FeatureSummary& floats = schema.features().find("f")->second;
  EXPECT_THAT(floats.sample_floats, SizeIs(3));
  EXPECT_EQ(floats.float_values.min, -0.5f);
  EXPECT_EQ(floats.float_values.max, 2);
  const FeatureSummary& bytes = schema.features().find("b")->second;
  ASSERT_THAT(bytes.sample_bytes, SizeIs(3));
  EXPECT_EQ(bytes.sample_bytes[0].begin, "a");
  EXPECT_EQ(bytes.sample_bytes[1].begin, "");
  EXPECT_EQ(bytes.sample_bytes[2].begin, "\xff\0"s);
  EXPECT_EQ(bytes.value_bytes.min, 0u);
  EXPECT_EQ(bytes.value_bytes.max, 2u);
}

TEST(SchemaTest, SamplesAreBounded) {
  Schema schema;
  ExampleBuilder builder;
  builder.SetInt64("i", std::vector<int64_t>(1000, 1));
  builder.SetBytes("b", std::string(100'000, 'x'));
  Add(builder.Serialize(), &schema);
  const FeatureSummary& ints = schema.features().find("i")->second;
  EXPECT_THAT(ints.sample_int64s, SizeIs(kMaxSampleValues));
  EXPECT_EQ(ints.sample_values, 1000u);
  const BytesSample& sample = schema.features().find("b")->second.sample_bytes[0];
  EXPECT_THAT(sample.begin, SizeIs(kMaxSampleBytes));
  EXPECT_EQ(sample.bytes, 100'000u);
}

TEST(SchemaTest, ImagesAreCountedByFormatAndSize) {
  const auto gif = [](char width) { return "GIF89a"s + width + "\0\x10\0"s; };
  Schema schema;
  for (const char width : {'\x20', '\x40'}) {
    ExampleBuilder builder;
    builder.SetBytes("image", gif(width));
    Add(builder.Serialize(), &schema);
  }
  ExampleBuilder builder;
  builder.SetBytes("image", "no image");
  Add(builder.Serialize(), &schema);
  const FeatureSummary& feature = schema.features().find("image")->second;
  EXPECT_EQ(feature.images[static_cast<size_t>(ImageFormat::kGif)], 2u);
  EXPECT_EQ(feature.widths.min, 0x20u);
  EXPECT_EQ(feature.widths.max, 0x40u);
  EXPECT_EQ(feature.heights.max, 0x10u);
  ASSERT_TRUE(feature.sample_bytes[0].image.has_value());
}

TEST(SchemaTest, OtherRecordsAreCountedAndHaveNoFeatures) {
  Schema schema;
  Add("", &schema);
  Add("raw bytes", &schema);
  Add(Field(2, Field(1, Field(1, "frames") + Field(2, ""))), &schema);
  EXPECT_EQ(schema.examples(), 0u);
  Add(Example(Entry("a", Int64List(Field(1, "\x01")))), &schema);
  EXPECT_EQ(schema.records(), 4u);
  EXPECT_EQ(schema.records_of(RecordContent::kEmpty), 1u);
  EXPECT_EQ(schema.records_of(RecordContent::kRaw), 1u);
  EXPECT_EQ(schema.records_of(RecordContent::kSequenceExample), 1u);
  EXPECT_EQ(schema.records_of(RecordContent::kExample), 1u);
  // An empty record is an Example that lacks the feature.
  EXPECT_EQ(schema.examples(), 2u);
  EXPECT_EQ(SpecText(schema, "a"), "int64?");
}

TEST(SchemaTest, KeepsABoundedNumberOfFeatures) {
  Schema schema;
  for (size_t i = 0; i < Schema::kMaxFeatures + 1; ++i) {
    Add(Example(Entry(std::to_string(i), Int64List(""))), &schema);
    EXPECT_EQ(schema.is_cut(), i == Schema::kMaxFeatures);
  }
  EXPECT_THAT(schema.features(), SizeIs(Schema::kMaxFeatures));
}

}  // namespace
}  // namespace emlio::example
