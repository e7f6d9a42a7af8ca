// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/convert/conversion_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace emlio::convert {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

FinishedShard Finished(const std::string& seed) {
  return {.source = Xxh3(seed.data(), seed.size()),
          .records = 10 + seed.size(),
          .payload_bytes = ~uint64_t{0},
          .source_bytes = 0,
          .fingerprint = Xxh3("f", 1)};
}

const ConversionOptions kOptions = {{"conversion", "test/1"}, {"prefix", "a b #"}, {"empty", ""}};

TEST(ConversionStateTest, WhatIsWrittenIsRead) {
  const std::string text =
      StateHead(kOptions) + StateLine(0, Finished("a")) + StateLine(7, Finished("b"));
  const auto state = ParseState(text);
  ASSERT_TRUE(state.ok()) << state.status().ToString();
  EXPECT_EQ(state->options, kOptions);
  EXPECT_THAT(state->shards, ElementsAre(Pair(0, Finished("a")), Pair(7, Finished("b"))));
  EXPECT_FALSE(state->complete);
  EXPECT_TRUE(ParseState(text + StateEnd())->complete);
}

// The document's words: a program that knows only them can read the file.
TEST(ConversionStateTest, LinesAreThoseOfTheDocument) {
  EXPECT_EQ(StateHead({{"conversion", "test/1"}}),
            "emlio-convert 1 #5778004b\noption conversion test/1 #369d253e\n");
  EXPECT_EQ(StateEnd(), "complete #081f839d\n");
  FinishedShard shard;
  shard.records = 3;
  shard.payload_bytes = 30;
  shard.source_bytes = 20;
  const std::string zeros(32, '0');
  EXPECT_EQ(StateLine(5, shard).substr(0, StateLine(5, shard).find(" #")),
            "shard 5 " + zeros + " 3 30 20 " + zeros);
}

TEST(ConversionStateTest, OfTwoLinesAboutAShardTheLaterOneCounts) {
  const auto state =
      ParseState(StateHead({}) + StateLine(1, Finished("a")) + StateLine(1, Finished("bb")));
  EXPECT_THAT(state->shards, ElementsAre(Pair(1, Finished("bb"))));
}

TEST(ConversionStateTest, ReadingEndsWhereTheTextIsTorn) {
  const std::string head = StateHead(kOptions) + StateLine(1, Finished("a"));
  const std::string line = StateLine(2, Finished("b"));
  for (size_t size = 0; size < line.size(); ++size) {
    const auto state = ParseState(head + line.substr(0, size));
    ASSERT_TRUE(state.ok());
    EXPECT_THAT(state->shards, ElementsAre(Pair(1, Finished("a")))) << size;
  }
}

TEST(ConversionStateTest, ReadingEndsAtDamage) {
  const std::string head = StateHead({}) + StateLine(1, Finished("a"));
  const std::string line = StateLine(2, Finished("b"));
  for (size_t byte = 0; byte < line.size(); ++byte) {
    std::string damaged = line;
    damaged[byte] ^= 1;
    const auto state = ParseState(head + damaged + StateLine(3, Finished("c")) + StateEnd());
    ASSERT_TRUE(state.ok());
    EXPECT_THAT(state->shards, ElementsAre(Pair(1, Finished("a")))) << byte;
    EXPECT_FALSE(state->complete);
  }
}

TEST(ConversionStateTest, OtherTextsAreNoState) {
  for (const char* text : {"", "\n", "emlio-convert 1\n", "emlio-convert 1 #00000000\n", "#"}) {
    EXPECT_EQ(ParseState(text).status().code(), Code::kCorrupt) << text;
  }
  EXPECT_EQ(ParseState("emlio-convert 2 #4428f3bf\n").status().code(), Code::kUnsupported);
  EXPECT_THAT(ParseState(StateHead({}))->options, IsEmpty());
}

}  // namespace
}  // namespace emlio::convert
