// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "inspect_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "emlio/base/utf8.h"
#include "emlio/example/builder.h"
#include "emlio/example/test_util.h"
#include "text.h"

namespace emlio::tool {
namespace {

using example::AsBytes;
using example::ExampleBuilder;
using example::Schema;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using std::string_literals::operator""s;

const std::string kGif = "GIF89a\x40\1\xf0\0\0\0"s;  // 320x240

std::string Record(int64_t label, size_t tokens) {
  ExampleBuilder builder;
  builder.SetInt64("label", label);
  builder.SetInt64("tokens", std::vector<int64_t>(tokens, 7));
  builder.SetFloat("weight", 0.1f);
  builder.SetBytes("image", kGif);
  builder.SetBytes("text", "line\n\x1b[2J");
  return builder.Serialize();
}

Schema SchemaOf(const std::vector<std::string>& records) {
  Schema schema;
  for (const std::string& record : records) schema.Add(AsBytes(record));
  return schema;
}

TEST(InspectTextTest, FeaturesAreATable) {
  const Schema schema = SchemaOf({Record(3, 2), Record(-1, 0)});
  EXPECT_EQ(FeaturesText(schema, 80),
            "feature  type   values  records  range    first value\n"
            "image    bytes  1           all  12 B     GIF 320x240, 3 channels\n"
            "label    int64  1           all  -1 to 3  3\n"
            "text     bytes  1           all  9 B      b\"line\\x0a\\x1b[2J\"\n"
            "tokens   int64  0 to 2      all  7        [7, 7]\n"
            "weight   float  1           all  0.1      0.1\n"
            "images in image: 2 GIF, 320x240, 3 channels\n");
}

TEST(InspectTextTest, FeaturesThatRecordsLackOrDisagreeAboutAreSaidSo) {
  ExampleBuilder ints, floats;
  ints.SetInt64("x", 1);
  ints.SetInt64("rare", 2);
  floats.SetFloat("x", 0.5f);
  const Schema schema = SchemaOf({ints.Serialize(), floats.Serialize()});
  const std::string text = FeaturesText(schema, 80);
  EXPECT_THAT(text, HasSubstr("rare     int64        1             1  2      2\n"));
  EXPECT_THAT(text, HasSubstr("x        int64/float  1           all  1      1\n"));
  EXPECT_THAT(text, HasSubstr("no spec for x: 1 records have it as int64, 1 records"));
}

TEST(InspectTextTest, LongRangesAreRounded) {
  ExampleBuilder builder;
  builder.SetInt64("i", std::vector<int64_t>{std::numeric_limits<int64_t>::min(), 7});
  builder.SetFloat("f", std::vector<float>{-1.2345678e-20f, 1.2345678e20f});
  builder.SetInt64("exact", std::vector<int64_t>{-100'000'000'000, 1000});
  const std::string text = FeaturesText(SchemaOf({builder.Serialize()}), 80);
  EXPECT_THAT(text, HasSubstr("all  -9.22e+18 to 7 "));
  EXPECT_THAT(text, HasSubstr("all  -1.23e-20 to 1.23e+20 "));
  EXPECT_THAT(text, HasSubstr("all  -100000000000 to 1000 "));
}

TEST(InspectTextTest, KeepsToTheWidthAndToTextWhateverIsInThere) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  ExampleBuilder builder;
  builder.SetBytes("\x1b[31m\xff", all);
  builder.SetBytes("long", std::string(100'000, 'x'));
  builder.SetBytes("lines", "one\ntwo\n" + std::string(500, 'x'));
  builder.SetInt64("many", std::vector<int64_t>(10'000, std::numeric_limits<int64_t>::min()));
  const std::string record = builder.Serialize();
  const Schema schema = SchemaOf({record});
  for (const std::string& text :
       {FeaturesText(schema, 80), RecordText(AsBytes(record), 80), RecordText(AsBytes(all), 80),
        OtherRecordText(AsBytes(all), 80)}) {
    EXPECT_EQ(ValidUtf8Prefix(text), text.size());
    std::string_view rest = text;
    while (!rest.empty()) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      EXPECT_LE(TextColumns(line), 80u) << line;
      for (const char byte : line) EXPECT_GE(static_cast<uint8_t>(byte), 0x20);
      rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    }
  }
}

TEST(InspectTextTest, ContentIsNamedOrCounted) {
  EXPECT_EQ(ContentText(SchemaOf({Record(1, 1), Record(2, 1)})), "tf.train.Example");
  EXPECT_EQ(ContentText(SchemaOf({Record(1, 1), "", "raw bytes", "raw"})),
            "1 empty, 1 tf.train.Example, 2 raw");
}

TEST(InspectTextTest, ImagesHaveFormatAndSize) {
  using example::ImageFormat;
  EXPECT_EQ(ImageText({.format = ImageFormat::kJpeg, .width = 500, .height = 375, .channels = 3}),
            "JPEG 500x375, 3 channels");
  EXPECT_EQ(ImageText({.format = ImageFormat::kPng, .width = 32, .height = 32, .channels = 1}),
            "PNG 32x32, 1 channel");
  EXPECT_EQ(ImageText({.format = ImageFormat::kTiff}), "TIFF");
}

TEST(InspectTextTest, SizesHaveBars) {
  dataset::SizeHistogram sizes;
  for (int i = 0; i < 8; ++i) sizes.Add(100);
  sizes.Add(600);
  sizes.Add(1500);
  EXPECT_EQ(SizesText(sizes, 16),
            "  64-128 B  8  80.0 %  ########\n"
            " 128-256 B  0   0.0 %\n"
            " 256-512 B  0   0.0 %\n"
            "512-1024 B  1  10.0 %  #\n"
            "   1-2 KiB  1  10.0 %  #\n");
  dataset::SizeHistogram tiny;
  tiny.Add(0);
  tiny.Add(1);
  EXPECT_EQ(SizesText(tiny, 8), "0 B  1  50.0 %  ####\n1 B  1  50.0 %  ####\n");
}

TEST(InspectTextTest, ARecordIsShownInFull) {
  ExampleBuilder builder;
  const auto a = AsBytes("a"), nothing = AsBytes("");
  const std::string two = "\xff\0"s;
  builder.SetBytes("bytes", std::vector<std::span<const uint8_t>>{a, nothing, AsBytes(two)});
  builder.SetInt64("ints",
                   std::vector<int64_t>{-1, int64_t{1} << 40, std::numeric_limits<int64_t>::min(),
                                        std::numeric_limits<int64_t>::max()});
  builder.SetInt64("none", std::span<const int64_t>());
  builder.SetBytes("ключ", kGif);
  EXPECT_EQ(RecordText(AsBytes(builder.Serialize()), 60),
            "bytes: bytes, 3 values\n"
            "  \"a\"\n"
            "  \"\"\n"
            "  b\"\\xff\\x00\"\n"
            "ints: int64, 4 values\n"
            "  -1, 1099511627776, -9223372036854775808,\n"
            "  9223372036854775807\n"
            "none: int64, 0 values\n"
            "ключ: bytes, 1 value\n"
            "  GIF 320x240, 3 channels, 12 B\n");
  EXPECT_EQ(RecordText(AsBytes("{\"raw\": 1}\n"), 60), "  \"{\\\"raw\\\": 1}\\n\"\n");
  EXPECT_EQ(RecordText(AsBytes(""), 60), "");
}

TEST(InspectTextTest, ASequenceExampleShowsContextAndLists) {
  using namespace example;
  const std::string record =
      Field(1, Entry("length", Int64List(Field(1, "\x02")))) +
      Field(2, Field(1, Field(1, "frames") + Field(2, Field(1, BytesList(Field(1, "a"))) +
                                                          Field(1, BytesList(Field(1, "b"))))));
  EXPECT_EQ(RecordText(AsBytes(record), 60),
            "length: int64, 1 value\n  2\nlist frames (2 steps of bytes)\n");
  EXPECT_EQ(OtherRecordText(AsBytes(record), 80),
            "lists frames (2 steps of bytes); context 'length' (1 int64)");
}

TEST(InspectJsonTest, ARecordIsWhole) {
  ExampleBuilder builder;
  builder.SetFloat("f",
                   std::vector<float>{0.1f, std::numeric_limits<float>::infinity(), std::nanf("")});
  builder.SetInt64("i", std::numeric_limits<int64_t>::min());
  const std::string binary = "\xff\0\x10"s;
  const auto text = AsBytes("ключ");
  builder.SetBytes("b", std::vector<std::span<const uint8_t>>{AsBytes(binary), text});
  const auto json = RecordJson(AsBytes(builder.Serialize()));
  EXPECT_EQ(json["content"], "tf.train.Example");
  EXPECT_EQ(json["features"].dump(),
            R"([{"name":"b","kind":"bytes","values":[{"bytes":3,"base64":"/wAQ"},)"
            R"({"bytes":8,"text":"ключ"}]},)"
            R"({"name":"f","kind":"float","values":[0.1,"inf","nan"]},)"
            R"({"name":"i","kind":"int64","values":[-9223372036854775808]}])");
  EXPECT_EQ(RecordJson(AsBytes("plain"))["payload"].dump(), R"({"bytes":5,"text":"plain"})");
}

TEST(InspectJsonTest, FeaturesHaveCountsRangesAndFirstValues) {
  const auto json = FeaturesJson(SchemaOf({Record(3, 2), Record(-1, 0)}));
  ASSERT_EQ(json.size(), 5u);
  EXPECT_EQ(json[0]["images"]["formats"]["gif"], 2);
  EXPECT_EQ(json[0]["images"]["width"]["max"], 320);
  EXPECT_EQ(json[0]["size_range"]["min"], 12);
  EXPECT_EQ(json[0]["first_values"][0]["image"]["height"], 240);
  EXPECT_EQ(json[1]["name"], "label");
  EXPECT_EQ(json[1]["kinds"].dump(), R"({"int64":2})");
  EXPECT_EQ(json[1]["int64_range"].dump(), R"({"min":-1,"max":3})");
  EXPECT_EQ(json[3]["values_per_record"].dump(), R"({"min":0,"max":2})");
  EXPECT_EQ(json[3]["spec"], "int64[]");
  EXPECT_EQ(json[4]["first_values"][0], 0.1);
}

TEST(InspectJsonTest, LongValuesAreCutAndMarked) {
  ExampleBuilder builder;
  builder.SetBytes("b", std::string(1000, 'x'));
  const auto json = FeaturesJson(SchemaOf({builder.Serialize()}));
  const auto& value = json[0]["first_values"][0];
  EXPECT_EQ(value["bytes"], 1000);
  EXPECT_EQ(value["text"].get<std::string>().size(), 256u);
  EXPECT_EQ(value["cut"], true);
}

TEST(FeaturesOptionTest, HasASpecForEachFeatureAndReasonsForTheRest) {
  ExampleBuilder builder;
  builder.SetInt64("label", 1);
  builder.SetBytes("ключ \"x\"", "v");
  builder.SetBytes("\xff", "v");
  const FeaturesOption option = FeaturesOptionOf(SchemaOf({builder.Serialize()}));
  EXPECT_EQ(FeaturesOptionJson(option).dump(), R"({"label":"int64","ключ \"x\"":"bytes"})");
  EXPECT_THAT(option.left_out, ElementsAre(HasSubstr("\\xff: its name is not UTF-8")));
}

TEST(FileKindsTest, UnknownFilesShowTheirFirstBytes) {
  const std::vector<dataset::FileKind> kinds = {
      {.what = "TFRecord", .files = 1000, .first_path = "/d/a\x1b", .first_bytes = "x"},
      {.what = "something else", .files = 1, .first_path = "/d/b", .first_bytes = "<html>"}};
  EXPECT_EQ(FileKindsText(kinds),
            "files  are             for example\n"
            "1,000  TFRecord        /d/a\\x1b\n"
            "    1  else: \"<html>\"  /d/b\n");
}

}  // namespace
}  // namespace emlio::tool
