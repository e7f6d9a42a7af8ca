// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/example/columns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "emlio/example/builder.h"
#include "emlio/example/test_util.h"

namespace emlio::example {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Wanted = std::vector<std::pair<std::string, std::string>>;

// Columns of a batch, or the error. Owns the records that the columns borrow.
struct Parsed {
  std::vector<std::string> records;
  Status status;
  size_t bad_record = 0;
  std::vector<Column> columns;
};

std::vector<FeatureSpec> Specs(const Wanted& wanted) {
  std::vector<FeatureSpec> specs;
  for (const auto& [name, text] : wanted) {
    auto spec = ParseFeatureSpec(name, text);
    EXPECT_TRUE(spec.ok()) << spec.status().ToString();
    specs.push_back(*std::move(spec));
  }
  return specs;
}

Parsed Parse(const Wanted& wanted, std::vector<std::string> records) {
  Parsed parsed;
  parsed.records = std::move(records);
  std::vector<std::span<const uint8_t>> spans;
  for (const std::string& record : parsed.records) spans.push_back(AsBytes(record));
  parsed.status = ParseColumns(Specs(wanted), spans, &parsed.columns, &parsed.bad_record);
  return parsed;
}

std::string Record(int64_t label, std::string_view image, std::vector<int64_t> tokens,
                   std::vector<float> box) {
  ExampleBuilder builder;
  builder.SetInt64("label", label);
  builder.SetBytes("image", image);
  builder.SetInt64("tokens", tokens);
  builder.SetFloat("box", box);
  builder.SetBytes("unwanted", std::string(1000, 'u'));
  return builder.Serialize();
}

TEST(ParseColumns, FillsScalarFixedAndRaggedColumns) {
  const std::vector<std::string> records = {Record(-1, "one", {1, 2, 3}, {1, 2}),
                                            Record(int64_t{1} << 62, "", {}, {3, 4}),
                                            Record(3, "three", {4}, {5, 6})};
  const Parsed parsed =
      Parse({{"image", "bytes"}, {"tokens", "int64[]"}, {"label", "int64"}, {"box", "float[2]"}},
            records);
  ASSERT_TRUE(parsed.status.ok()) << parsed.status.ToString();
  ASSERT_EQ(parsed.columns.size(), 4u);
  const Column& image = parsed.columns[0];
  ASSERT_EQ(image.bytes_values.size(), 3u);
  EXPECT_EQ(AsString(image.bytes_values[0]), "one");
  EXPECT_EQ(AsString(image.bytes_values[1]), "");
  EXPECT_EQ(AsString(image.bytes_values[2]), "three");
  const Column& tokens = parsed.columns[1];
  EXPECT_THAT(tokens.int64_values, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(tokens.row_offsets, ElementsAre(0, 3, 3, 4));
  EXPECT_THAT(parsed.columns[2].int64_values, ElementsAre(-1, int64_t{1} << 62, 3));
  EXPECT_THAT(parsed.columns[3].float_values, ElementsAre(1, 2, 3, 4, 5, 6));
  for (const Column& column : parsed.columns) {
    EXPECT_THAT(column.present, IsEmpty());
    EXPECT_EQ(column.row_offsets.empty(), column.spec.length != 0);
  }
}

TEST(ParseColumns, OptionalFeaturesMayBeAbsent) {
  ExampleBuilder builder;
  const std::string nothing = builder.Serialize();
  builder.SetInt64("n", 5);
  builder.SetFloat("f", std::vector<float>{1, 2});
  builder.SetBytes("b", "x");
  builder.SetInt64("r", std::vector<int64_t>{7, 8});
  const std::string all = builder.Serialize();
  const std::string no_list = Example(Entry("n", "") + Entry("f", ""));
  const Parsed parsed =
      Parse({{"n", "int64?"}, {"f", "float[2]?"}, {"b", "bytes?"}, {"r", "int64[]?"}},
            {nothing, all, no_list});
  ASSERT_TRUE(parsed.status.ok()) << parsed.status.ToString();
  for (const Column& column : parsed.columns) EXPECT_THAT(column.present, ElementsAre(0, 1, 0));
  EXPECT_THAT(parsed.columns[0].int64_values, ElementsAre(0, 5, 0));
  EXPECT_THAT(parsed.columns[1].float_values, ElementsAre(0, 0, 1, 2, 0, 0));
  ASSERT_EQ(parsed.columns[2].bytes_values.size(), 3u);
  EXPECT_EQ(AsString(parsed.columns[2].bytes_values[1]), "x");
  EXPECT_TRUE(parsed.columns[2].bytes_values[2].empty());
  EXPECT_THAT(parsed.columns[3].row_offsets, ElementsAre(0, 0, 2, 2));
}

TEST(ParseColumns, AMissingFeatureNamesWhatThereIs) {
  const Parsed parsed =
      Parse({{"lable", "int64"}},
            {Example(Entry("lable", Int64List(VarintField(1, 1)))), Record(1, "x", {1, 2}, {})});
  EXPECT_EQ(parsed.status.code(), Code::kInvalidArgument);
  EXPECT_EQ(parsed.bad_record, 1u);
  EXPECT_THAT(parsed.status.message(), HasSubstr("'lable'"));
  EXPECT_THAT(parsed.status.message(), HasSubstr("'label' (1 int64)"));
  EXPECT_THAT(parsed.status.message(), HasSubstr("'tokens' (2 int64)"));
}

TEST(ParseColumns, WrongKindAndWrongCountAreErrors) {
  const std::vector<std::string> records = {Record(1, "x", {1, 2}, {1})};
  const std::map<std::string, std::pair<std::string, std::string>> cases = {
      {"label", {"float", "as int64"}},       {"image", {"int64[]", "as bytes"}},
      {"box", {"bytes?", "as float"}},        {"tokens", {"int64", "2 values"}},
      {"unwanted", {"bytes[2]", "1 values"}},
  };
  for (const auto& [name, c] : cases) {
    const Parsed parsed = Parse({{name, c.first}}, records);
    EXPECT_EQ(parsed.status.code(), Code::kInvalidArgument) << name;
    EXPECT_THAT(parsed.status.message(), HasSubstr("'" + name + "'"));
    EXPECT_THAT(parsed.status.message(), HasSubstr(c.second));
  }
  // An empty list is not absence.
  EXPECT_EQ(Parse({{"n", "int64?"}}, {Example(Entry("n", Int64List("")))}).status.code(),
            Code::kInvalidArgument);
}

TEST(ParseColumns, LastOfEqualKeysAndLastOfOneofCount) {
  const std::string record =
      Example(Entry("n", Int64List(VarintField(1, 1) + VarintField(1, 2))) +
              Entry("n", Int64List(VarintField(1, 3)) + FloatList(Fixed32Field(1, 1)) +
                             Int64List(VarintField(1, 4))));
  const Parsed parsed = Parse({{"n", "int64"}}, {record, record});
  ASSERT_TRUE(parsed.status.ok()) << parsed.status.ToString();
  EXPECT_THAT(parsed.columns[0].int64_values, ElementsAre(4, 4));
  // Values of the wanted kind that a later kind voids leave nothing behind.
  const std::string voided =
      Example(Entry("n", Int64List(VarintField(1, 1)) + FloatList(Fixed32Field(1, 1))));
  EXPECT_THAT(Parse({{"n", "int64[]"}}, {voided}).status.message(), HasSubstr("as float"));
}

TEST(ParseColumns, GarbageIsCorruptAndNamesTheRecord) {
  const std::string good = Record(1, "x", {}, {1, 2});
  const Parsed parsed = Parse({{"label", "int64"}}, {good, good, good.substr(0, 20)});
  EXPECT_EQ(parsed.status.code(), Code::kCorrupt);
  EXPECT_EQ(parsed.bad_record, 2u);
}

TEST(ParseColumns, ReusesColumnsOfAnotherBatchAndOtherSpecs) {
  const std::vector<std::string> records = {Record(1, "x", {1}, {}), Record(2, "y", {}, {})};
  std::vector<std::span<const uint8_t>> spans;
  for (const auto& record : records) spans.push_back(AsBytes(record));
  std::vector<Column> columns;
  size_t bad_record = 0;
  ASSERT_TRUE(
      ParseColumns(Specs({{"image", "bytes"}, {"tokens", "int64[]"}}), spans, &columns, &bad_record)
          .ok());
  const auto specs = Specs({{"label", "int64"}});
  ASSERT_TRUE(ParseColumns(specs, spans, &columns, &bad_record).ok());
  ASSERT_EQ(columns.size(), 1u);
  EXPECT_THAT(columns[0].int64_values, ElementsAre(1, 2));
  EXPECT_THAT(columns[0].bytes_values, IsEmpty());
  const int64_t* before = columns[0].int64_values.data();
  ASSERT_TRUE(ParseColumns(specs, spans, &columns, &bad_record).ok());
  EXPECT_EQ(columns[0].int64_values.data(), before);
}

TEST(ParseColumns, WithoutSpecsOrRecordsIsEmpty) {
  EXPECT_TRUE(Parse({}, {Record(1, "", {}, {})}).status.ok());
  const Parsed parsed = Parse({{"tokens", "int64[]"}}, {});
  ASSERT_TRUE(parsed.status.ok());
  EXPECT_THAT(parsed.columns[0].row_offsets, ElementsAre(0));
}

}  // namespace
}  // namespace emlio::example
