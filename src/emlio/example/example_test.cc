// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/example/example.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "emlio/example/builder.h"
#include "emlio/example/test_util.h"

namespace emlio::example {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using std::string_literals::operator""s;

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

std::vector<int64_t> Int64sOf(const std::string& record, std::string_view name) {
  const auto view = ExampleView::Parse(AsBytes(record));
  EXPECT_TRUE(view.ok()) << view.status().ToString();
  const FeatureView* feature = view->Find(name);
  std::vector<int64_t> values;
  if (feature == nullptr) {
    ADD_FAILURE() << "no feature " << name;
    return values;
  }
  EXPECT_TRUE(feature->ReadInt64(&values).ok());
  EXPECT_EQ(feature->values(), values.size());
  return values;
}

std::vector<float> FloatsOf(const std::string& record, std::string_view name) {
  const auto view = ExampleView::Parse(AsBytes(record));
  EXPECT_TRUE(view.ok()) << view.status().ToString();
  std::vector<float> values;
  EXPECT_TRUE(view->Find(name)->ReadFloat(&values).ok());
  return values;
}

TEST(ExampleBuilder, WritesTheSameBytesInAnyOrder) {
  ExampleBuilder a, b;
  a.SetInt64("label", 7);
  a.SetBytes("image", "JPEG");
  b.SetBytes("image", "replaced");
  b.SetBytes("image", "JPEG");
  b.SetInt64("label", 7);
  EXPECT_EQ(a.Serialize(), b.Serialize());
  EXPECT_EQ(a.Serialize(), Example(Entry("image", BytesList(Field(1, "JPEG"))) +
                                   Entry("label", Int64List(Field(1, "\x07")))));
  a.Clear();
  EXPECT_EQ(a.Serialize(), "\x0a\0"s);
}

TEST(ExampleView, ReadsBackWhatTheBuilderWrote) {
  std::string all_bytes(256, '\0');
  for (int i = 0; i < 256; ++i) all_bytes[i] = static_cast<char>(i);
  const std::string two_bytes = "\xff\x00"s;
  const std::vector<std::span<const uint8_t>> bytes = {AsBytes("a"), AsBytes(""),
                                                       AsBytes(two_bytes), AsBytes(all_bytes)};
  const std::vector<int64_t> ints = {-1, int64_t{1} << 40, kMin, kMax, 0};
  const std::vector<float> floats = {1.5f, -0.0f, std::numeric_limits<float>::infinity()};
  ExampleBuilder builder;
  builder.SetBytes("ключ", bytes);
  builder.SetInt64("ints", ints);
  builder.SetFloat("floats", floats);
  const std::string record = builder.Serialize();

  const auto view = ExampleView::Parse(AsBytes(record));
  ASSERT_TRUE(view.ok());
  ASSERT_EQ(view->features().size(), 3u);
  std::vector<std::span<const uint8_t>> read;
  ASSERT_NE(view->Find("ключ"), nullptr);
  ASSERT_TRUE(view->Find("ключ")->ReadBytes(&read).ok());
  ASSERT_EQ(read.size(), bytes.size());
  for (size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(AsString(read[i]), AsString(bytes[i]));
    EXPECT_GE(reinterpret_cast<const char*>(read[i].data()), record.data()) << "a view, no copy";
    EXPECT_LE(reinterpret_cast<const char*>(read[i].data()), record.data() + record.size());
  }
  EXPECT_EQ(Int64sOf(record, "ints"), ints);
  EXPECT_EQ(FloatsOf(record, "floats"), floats);
}

TEST(ExampleView, ReadsPackedUnpackedAndChunkedLists) {
  const std::string minus_one = Varint(~uint64_t{0});
  const std::string packed = Field(1, "\x01"s + minus_one);
  const std::string unpacked = VarintField(1, 2) + VarintField(1, static_cast<uint64_t>(kMin));
  // Chunks of every kind in one list, the list twice in one Feature, the Feature twice in one
  // entry.
  const std::string entry =
      Field(1, Field(1, "n") + Field(2, Int64List(packed + unpacked) + Int64List(packed)) +
                   Field(2, Int64List(VarintField(1, 9))));
  EXPECT_THAT(Int64sOf(Example(entry), "n"), ElementsAre(1, -1, 2, kMin, 1, -1, 9));
  const std::string two_floats = "\0\0\x80\x3f\0\0\0\x40"s;
  EXPECT_THAT(FloatsOf(Example(Entry("f", FloatList(Field(1, two_floats) + Fixed32Field(1, 3.f) +
                                                    Field(1, two_floats)))),
                       "f"),
              ElementsAre(1.f, 2.f, 3.f, 1.f, 2.f));
}

TEST(ExampleView, TellsAbsentNoListEmptyAndPresentApart) {
  const std::string record = Example(Entry("no list", "") + Entry("empty", Int64List("")) +
                                     Entry("empty packed", Int64List(Field(1, ""))) +
                                     Entry("present", Int64List(VarintField(1, 0))));
  const auto view = ExampleView::Parse(AsBytes(record));
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(view->Find("absent"), nullptr);
  EXPECT_EQ(view->Find("no list")->kind(), std::nullopt);
  EXPECT_EQ(view->Find("empty")->kind(), FeatureKind::kInt64);
  EXPECT_EQ(view->Find("empty")->values(), 0u);
  EXPECT_THAT(Int64sOf(record, "empty"), IsEmpty());
  EXPECT_THAT(Int64sOf(record, "empty packed"), IsEmpty());
  EXPECT_THAT(Int64sOf(record, "present"), ElementsAre(0));
}

TEST(ExampleView, FollowsProtobufForWhatOccursTwice) {
  const std::string one = Int64List(VarintField(1, 1));
  const std::string two = Int64List(VarintField(1, 2));
  // The last entry of a key, in one Features message or in two.
  EXPECT_THAT(Int64sOf(Example(Entry("k", one) + Entry("a", one) + Entry("k", two)), "k"),
              ElementsAre(2));
  EXPECT_THAT(Int64sOf(Example(Entry("k", one)) + Example(Entry("k", two)), "k"), ElementsAre(2));
  // The last member of a oneof.
  EXPECT_THAT(Int64sOf(Example(Entry("k", two + FloatList(Fixed32Field(1, 1)) + one)), "k"),
              ElementsAre(1));
  // The last key and a value before its key.
  EXPECT_THAT(Int64sOf(Example(Field(1, Field(2, one) + Field(1, "x") + Field(1, "k"))), "k"),
              ElementsAre(1));
  // An entry without a key has the empty one.
  EXPECT_THAT(Int64sOf(Example(Field(1, Field(2, one))), ""), ElementsAre(1));
}

TEST(ExampleView, SkipsUnknownFields) {
  const std::string unknown = Field(9, "junk") + VarintField(10, 5) + Fixed32Field(11, 1);
  const std::string list = unknown + VarintField(1, 4) + unknown;
  const std::string feature = unknown + Int64List(list) + VarintField(3, 1) + unknown;
  const std::string entry = unknown + Field(1, "k") + unknown + Field(2, feature) + unknown;
  EXPECT_THAT(Int64sOf(unknown + Example(unknown + Field(1, entry)) + unknown, "k"),
              ElementsAre(4));
}

TEST(ExampleView, KindMismatchIsTyped) {
  ExampleBuilder builder;
  builder.SetFloat("x", 1);
  const std::string record = builder.Serialize();
  const auto view = ExampleView::Parse(AsBytes(record));
  std::vector<int64_t> ints;
  const Status status = view->Find("x")->ReadInt64(&ints);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("'x' holds float, not int64"));
}

TEST(ExampleView, ASequenceExampleShowsItsContextOnly) {
  const std::string record = Example(Entry("id", Int64List(VarintField(1, 3)))) +
                             Field(2, Field(1, Field(1, "frames") + Field(2, "")));
  EXPECT_THAT(Int64sOf(record, "id"), ElementsAre(3));
}

TEST(ExampleView, LimitsAreNamed) {
  ExampleBuilder builder;
  for (int i = 0; i < 10; ++i) builder.SetInt64("f" + std::to_string(i), i);
  const std::string record = builder.Serialize();
  ParseLimits limits;
  limits.max_features = 9;
  auto view = ExampleView::Parse(AsBytes(record), limits);
  EXPECT_EQ(view.status().code(), Code::kLimitExceeded);
  EXPECT_THAT(view.status().message(), HasSubstr("10 features"));
  limits.max_features = 10;
  EXPECT_TRUE(ExampleView::Parse(AsBytes(record), limits).ok());
  limits.max_record_bytes = 10;
  EXPECT_EQ(ExampleView::Parse(AsBytes(record), limits).status().code(), Code::kLimitExceeded);
}

TEST(ExampleView, EveryCutOfARecordIsHandled) {
  ExampleBuilder builder;
  builder.SetBytes("image", std::string(300, 'x'));
  builder.SetInt64("label", 1 << 20);
  builder.SetFloat("weights", std::vector<float>(10, 1.f));
  const std::string record = builder.Serialize();
  for (size_t size = 0; size < record.size(); ++size) {
    // From a fresh buffer of that size, so that a sanitizer sees any read behind it.
    const std::vector<uint8_t> cut(record.begin(), record.begin() + size);
    const auto view = ExampleView::Parse(cut);
    EXPECT_EQ(view.ok(), size == 0) << size;
    if (!view.ok()) {
      EXPECT_EQ(view.status().code(), Code::kCorrupt);
    }
  }
}

TEST(ExampleView, RandomBytesNeverCrash) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes(random() % 64, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    const auto view = ExampleView::Parse(AsBytes(bytes));
    if (!view.ok()) {
      EXPECT_EQ(view.status().code(), Code::kCorrupt);
    }
  }
  EXPECT_FALSE(ExampleView::Parse(AsBytes(std::string(1000, '\xa7'))).ok());
}

TEST(ExampleView, DescribesItself) {
  ExampleBuilder builder;
  EXPECT_EQ(ExampleView::Parse(AsBytes(builder.Serialize()))->Describe(), "no features");
  builder.SetBytes("image\n", "x");
  builder.SetInt64("label", std::vector<int64_t>{1, 2});
  const std::string record = builder.Serialize();
  EXPECT_EQ(ExampleView::Parse(AsBytes(record))->Describe(),
            "'image\\x0a' (1 bytes), 'label' (2 int64)");
}

}  // namespace
}  // namespace emlio::example
