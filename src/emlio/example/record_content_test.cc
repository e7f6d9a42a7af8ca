// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/example/record_content.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "emlio/example/test_util.h"

namespace emlio::example {
namespace {

using std::string_literals::operator""s;

RecordContent ContentOf(const std::string& record) { return RecognizeRecord(AsBytes(record)); }

const std::string kContext = Entry("length", Int64List(Field(1, "\x02")));
// Two steps of bytes.
const std::string kFrames = Field(
    1, Field(1, "frames") + Field(2, Field(1, BytesList(Field(1, "a"))) + Field(1, BytesList(""))));

TEST(RecordContentTest, AnExampleIsRecognisedWhateverItHolds) {
  EXPECT_EQ(ContentOf(Example(Entry("id", Int64List(Field(1, "\x05"))))), RecordContent::kExample);
  EXPECT_EQ(ContentOf(Example(Entry("id", ""))), RecordContent::kExample);
  EXPECT_EQ(ContentOf(Example("")), RecordContent::kExample);
  // Fields of a later version do not make it something else.
  EXPECT_EQ(ContentOf(Example(Entry("id", BytesList(Field(1, "x")))) + VarintField(7, 1)),
            RecordContent::kExample);
}

TEST(RecordContentTest, ASequenceExampleIsNotTakenForAnExample) {
  EXPECT_EQ(ContentOf(Field(1, kContext) + Field(2, kFrames)), RecordContent::kSequenceExample);
  EXPECT_EQ(ContentOf(Field(2, kFrames)), RecordContent::kSequenceExample);
}

TEST(RecordContentTest, OtherPayloadsAreNeither) {
  EXPECT_EQ(ContentOf(""), RecordContent::kEmpty);
  for (const auto& payload : {"hello, world"s, "\0\0\0\0\0\0\0\0"s, "\x0a\0\0\0\0\0\0\0"s, "\x0a"s,
                              "\xff\xd8\xff\xe0"s, "{\"a\": 1}"s, VarintField(3, 9)}) {
    EXPECT_EQ(ContentOf(payload), RecordContent::kRaw) << payload;
  }
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string payload(random() % 200 + 1, '\0');
    for (char& byte : payload) byte = static_cast<char>(random());
    EXPECT_EQ(ContentOf(payload), RecordContent::kRaw);
  }
}

TEST(RecordContentTest, MessagesOfOtherProtocolsAreNeither) {
  // A name, an id and a nested message: valid protobuf, fields where an Example has its own.
  EXPECT_EQ(ContentOf(Field(1, Field(2, "x") + VarintField(3, 4)) + VarintField(2, 150)),
            RecordContent::kRaw);
}

TEST(FeatureListsTest, HaveNamesStepsAndKinds) {
  const std::string numbers =
      Field(1, Field(1, "audio") + Field(2, Field(1, "") + Field(1, FloatList(Field(1, "1234"))) +
                                                Field(1, FloatList(""))));
  const std::string none = Field(1, Field(1, "none") + Field(2, ""));
  const std::string record = Field(1, kContext) + Field(2, kFrames + numbers) + Field(2, none);
  const auto lists = ReadFeatureLists(AsBytes(record));
  ASSERT_TRUE(lists.ok()) << lists.status().ToString();
  ASSERT_EQ(lists->size(), 3u);
  EXPECT_EQ(lists->at(0).name, "audio");
  EXPECT_EQ(lists->at(0).steps, 3u);
  EXPECT_EQ(lists->at(0).kind, FeatureKind::kFloat);
  EXPECT_EQ(lists->at(1).name, "frames");
  EXPECT_EQ(lists->at(1).steps, 2u);
  EXPECT_EQ(lists->at(1).kind, FeatureKind::kBytes);
  EXPECT_EQ(lists->at(2).name, "none");
  EXPECT_EQ(lists->at(2).steps, 0u);
  EXPECT_EQ(lists->at(2).kind, std::nullopt);
}

TEST(FeatureListsTest, OfSeveralWithOneNameTheLastCounts) {
  const std::string again = Field(1, Field(1, "frames") + Field(2, Field(1, Int64List(""))));
  const std::string record = Field(2, kFrames + again);
  const auto lists = ReadFeatureLists(AsBytes(record));
  ASSERT_TRUE(lists.ok());
  ASSERT_EQ(lists->size(), 1u);
  EXPECT_EQ(lists->at(0).steps, 1u);
  EXPECT_EQ(lists->at(0).kind, FeatureKind::kInt64);
}

TEST(FeatureListsTest, DamageIsAnError) {
  const std::string record = Field(2, kFrames);
  for (size_t size = 1; size < record.size(); ++size) {
    EXPECT_EQ(ReadFeatureLists(AsBytes(record.substr(0, size))).status().code(), Code::kCorrupt);
  }
}

}  // namespace
}  // namespace emlio::example
