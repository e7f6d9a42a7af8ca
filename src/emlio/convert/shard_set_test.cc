// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/convert/shard_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "emlio/base/hash128.h"
#include "emlio/convert/test_util.h"
#include "emlio/tfrecord/index.h"

namespace emlio::convert {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ShardSetTest : public ConvertTest {
 protected:
  ShardSetOptions Options(const std::string& prefix = "a") {
    ShardSetOptions options;
    options.destination = Path("out");
    options.prefix = prefix;
    options.threads = 3;
    return options;
  }

  // Every shard holds two records that name it.
  static Status Fill(uint64_t shard, ShardSink* sink) {
    const std::string payload = "shard " + std::to_string(shard);
    EMLIO_RETURN_IF_ERROR(sink->Append(AsBytes(payload), 1, "source of " + payload));
    return sink->Append(AsBytes(payload), 1, "source of " + payload);
  }

  static ShardSet SetOf(uint64_t shards, std::function<Status(uint64_t, ShardSink*)> fill = Fill) {
    ShardSet set;
    set.options = {{"conversion", "test/1"}, {"shards", std::to_string(shards)}};
    set.shards = shards;
    set.fill = std::move(fill);
    set.source = [](uint64_t shard) { return Xxh3(&shard, sizeof(shard)); };
    set.total.records_total = 2 * shards;
    return set;
  }

  static Result<ShardSetSummary> WriteSet(const ShardSetOptions& options, uint64_t shards,
                                          std::function<Status(uint64_t, ShardSink*)> fill = Fill,
                                          const ProgressFunction& progress = {}) {
    EMLIO_RETURN_IF_ERROR(CheckShardSetOptions(options));
    return MakeShardSet(options, SetOf(shards, std::move(fill)), progress);
  }
};

TEST_F(ShardSetTest, EveryShardHasItsNameAndItsRecords) {
  const auto summary = WriteSet(Options(), 3);
  ASSERT_TRUE(summary.ok()) << summary.status().ToString();
  EXPECT_THAT(NamesIn("out"), ElementsAre("a-00000-of-00003.tfrecord", "a-00001-of-00003.tfrecord",
                                          "a-00002-of-00003.tfrecord"));
  EXPECT_THAT(RecordsOf("out/a-00001-of-00003.tfrecord"), ElementsAre("shard 1", "shard 1"));
  EXPECT_EQ(summary->shards, 3);
  EXPECT_EQ(summary->records, 6);
  EXPECT_EQ(summary->payload_bytes, 6 * 7);
  EXPECT_EQ(summary->file_bytes, 6 * (7 + 16));
}

TEST_F(ShardSetTest, AFolderThatHoldsShardsIsRefusedAndLeftAlone) {
  ASSERT_TRUE(WriteSet(Options("old"), 2).ok());
  const auto before = FilesIn("out");
  for (const char* prefix : {"old", "new"}) {
    const Status status = WriteSet(Options(prefix), 2).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("old-00000-of-00002.tfrecord"));
    EXPECT_THAT(status.message(), HasSubstr("overwrite"));
  }
  EXPECT_EQ(FilesIn("out"), before);
}

TEST_F(ShardSetTest, OverwriteReplacesOtherSetsAndTheirIndexesAndNothingElse) {
  ASSERT_TRUE(WriteSet(Options("old"), 4).ok());
  Write("out/old-00000-of-00004.tfrecord.emlio-index", "index");
  Write("out/old-00000-of-00004.tfrecord.idx", "DALI's");
  Write("out/notes.txt", "keep");
  ShardSetOptions options = Options("new");
  options.overwrite = true;
  ASSERT_TRUE(WriteSet(options, 1).ok());
  EXPECT_THAT(NamesIn("out"), ElementsAre("new-00000-of-00001.tfrecord", "notes.txt"));
}

TEST_F(ShardSetTest, FilesThatWouldBeReadWithTheSetAreNeitherMixedInNorRemoved) {
  ASSERT_TRUE(WriteSet(Options("a"), 2).ok());
  for (const char* other : {"mine.tfrecord", "x-1-of-2.tfrecord", "README"}) {
    Write(std::string("out/") + other, "keep");
    const auto before = FilesIn("out");
    ShardSetOptions options = Options("a");
    for (const auto set : {&ShardSetOptions::overwrite, &ShardSetOptions::check}) {
      options.overwrite = options.check = false;
      options.*set = true;
      const Status status = WriteSet(options, 2).status();
      EXPECT_EQ(status.code(), options.check ? Code::kCorrupt : Code::kInvalidArgument);
      EXPECT_THAT(status.message(), HasSubstr(other));
      EXPECT_EQ(FilesIn("out"), before);
    }
    std::filesystem::remove(Path(std::string("out/") + other));
  }
}

TEST_F(ShardSetTest, AFailureLeavesNoShardOfTheNewSetAndAllOfTheOld) {
  ASSERT_TRUE(WriteSet(Options("old"), 2).ok());
  const auto before = FilesIn("out");
  ShardSetOptions options = Options("new");
  options.overwrite = true;
  const auto fail_late = [](uint64_t shard, ShardSink* sink) {
    EMLIO_RETURN_IF_ERROR(Fill(shard, sink));
    return shard == 15 ? Corrupt("shard 15 cannot be made") : OkStatus();
  };
  const Status status = WriteSet(options, 20, fail_late).status();
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(status.message(), HasSubstr("shard 15 cannot be made"));
  EXPECT_EQ(FilesIn("out"), before);
}

// --- Going on with what an earlier run has left

class UnfinishedTest : public ShardSetTest {
 protected:
  // Makes all shards but those from `from` on. One at a time, so that it is known which are left.
  void BreakOffAt(uint64_t from, uint64_t shards, const ShardSetOptions& options) {
    ShardSetOptions one_thread = options;
    one_thread.threads = 1;
    const Status status = WriteSet(one_thread, shards, [&](uint64_t shard, ShardSink* sink) {
                            if (shard == from) return IoError("the disk is full");
                            return Fill(shard, sink);
                          }).status();
    ASSERT_EQ(status.code(), Code::kIo);
    if (from > 0) {
      EXPECT_THAT(status.message(), HasSubstr("the disk is full"));
      EXPECT_THAT(status.message(), HasSubstr(std::to_string(from) + " of"));
    }
  }

  // Counts the shards that are made.
  std::function<Status(uint64_t, ShardSink*)> CountingFill() {
    return [this](uint64_t shard, ShardSink* sink) {
      ++made_;
      return Fill(shard, sink);
    };
  }
  Result<ShardSetSummary> GoOn(const ShardSetOptions& options, uint64_t shards) {
    made_ = 0;
    return WriteSet(options, shards, CountingFill());
  }

  std::string Unfinished(const std::string& name) const { return "out/.emlio-convert/" + name; }
  void ExpectNothingUnfinished() const {
    EXPECT_FALSE(std::filesystem::exists(Path("out/.emlio-convert")));
  }

  std::atomic<int> made_ = 0;
};

TEST_F(UnfinishedTest, ShardsThatAreFinishedAreKept) {
  BreakOffAt(3, 5, Options());
  EXPECT_THAT(NamesIn("out"), IsEmpty());
  Progress last;
  made_ = 0;
  const auto summary =
      WriteSet(Options(), 5, CountingFill(), [&](const Progress& now) { last = now; });
  ASSERT_TRUE(summary.ok()) << summary.status().ToString();
  EXPECT_EQ(made_, 2);
  EXPECT_EQ(summary->kept_shards, 3);
  EXPECT_EQ(summary->shards, 5);
  EXPECT_EQ(summary->records, 10);
  EXPECT_EQ(summary->file_bytes, 10 * (7 + 16));
  EXPECT_EQ(last.records_done, 10);
  EXPECT_EQ(last.records_kept, 6);
  EXPECT_EQ(last.bytes_kept, 6);
  ShardSetOptions elsewhere = Options();
  elsewhere.destination = Path("whole");
  ASSERT_TRUE(WriteSet(elsewhere, 5).ok());
  EXPECT_EQ(FilesIn("out"), FilesIn("whole"));
  ExpectNothingUnfinished();
}

TEST_F(UnfinishedTest, AFinishedShardThatWasDamagedMeanwhileIsMadeAgain) {
  BreakOffAt(3, 5, Options());
  const std::vector<std::string> names = NamesIn("out/.emlio-convert");
  const auto shard = std::find_if(names.begin(), names.end(), [](const std::string& name) {
    return name.find("-00001-of-") != std::string::npos;
  });
  ASSERT_NE(shard, names.end());
  // A payload bit: the stored checksums, and so the fingerprint, stay as they are.
  std::fstream file(Path(Unfinished(*shard)), std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(12);
  const char byte = static_cast<char>(file.get() ^ 1);
  file.seekp(12);
  file.put(byte);
  file.close();
  const auto summary = WriteSet(Options(), 5, CountingFill(), {});
  ASSERT_TRUE(summary.ok()) << summary.status().ToString();
  EXPECT_EQ(summary->kept_shards, 2);
  ShardSetOptions elsewhere = Options();
  elsewhere.destination = Path("whole");
  ASSERT_TRUE(WriteSet(elsewhere, 5).ok());
  EXPECT_EQ(FilesIn("out"), FilesIn("whole"));
}

TEST_F(UnfinishedTest, NothingIsLeftWhenNothingWasFinished) {
  BreakOffAt(0, 5, Options());
  ExpectNothingUnfinished();
}

TEST_F(UnfinishedTest, OtherOptionsAreRefusedUnlessTheWorkIsToBeDropped) {
  BreakOffAt(3, 5, Options());
  const Status status = GoOn(Options(), 6).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("shards 5 instead of 6"));
  ShardSetOptions options = Options();
  options.overwrite = true;
  const auto summary = GoOn(options, 6);
  ASSERT_TRUE(summary.ok()) << summary.status().ToString();
  EXPECT_EQ(summary->kept_shards, 0);
  EXPECT_EQ(made_, 6);
  EXPECT_EQ(NamesIn("out").size(), 6);
  ExpectNothingUnfinished();
}

TEST_F(UnfinishedTest, ShardsThatWereChangedCutOrTakenAwayAreMadeAgain) {
  BreakOffAt(4, 5, Options());
  const std::string last = Unfinished("a-00003-of-00005.tfrecord");
  std::string bytes = ReadFile(Path(last));
  bytes[bytes.size() - 1] ^= 1;  // the checksum of a payload
  Write(last, bytes);
  std::filesystem::resize_file(Path(Unfinished("a-00001-of-00005.tfrecord")), 23);
  std::filesystem::remove(Path(Unfinished("a-00000-of-00005.tfrecord")));
  Write(Unfinished("a-00004-of-00005.tfrecord"), "no line of the state knows it");
  const auto summary = GoOn(Options(), 5);
  ASSERT_TRUE(summary.ok()) << summary.status().ToString();
  EXPECT_EQ(summary->kept_shards, 1);
  EXPECT_EQ(made_, 4);
  EXPECT_EQ(AllRecordsOf("out").size(), 10);
  EXPECT_THAT(RecordsOf("out/a-00004-of-00005.tfrecord"), ElementsAre("shard 4", "shard 4"));
}

TEST_F(UnfinishedTest, ShardsOfAnotherSourceAreMadeAgain) {
  BreakOffAt(3, 4, Options());
  ShardSet set = SetOf(4, CountingFill());
  const auto source = set.source;
  set.source = [&](uint64_t shard) { return source(shard == 1 ? 100 : shard); };
  const auto summary = MakeShardSet(Options(), set, {});
  ASSERT_TRUE(summary.ok()) << summary.status().ToString();
  EXPECT_EQ(summary->kept_shards, 2);
  EXPECT_EQ(made_, 2);
}

TEST_F(UnfinishedTest, ATornOrDamagedStateCostsShardsAndNothingElse) {
  for (const size_t cut : {size_t{1}, size_t{60}, size_t{100'000}}) {
    BreakOffAt(3, 5, Options());
    const std::string state = ReadFile(Path(Unfinished("state")));
    Write(Unfinished("state"), state.substr(0, state.size() - std::min(cut, state.size())));
    Write(Unfinished("a-00004-of-00005.tfrecord.tmp.1.2"), "left by a killed process");
    const auto summary = GoOn(Options(), 5);
    ASSERT_TRUE(summary.ok()) << summary.status().ToString();
    EXPECT_EQ(summary->kept_shards, cut > state.size() ? 0 : 2);
    EXPECT_EQ(AllRecordsOf("out").size(), 10);
    ExpectNothingUnfinished();
    std::filesystem::remove_all(Path("out"));
  }
}

// As a process that is killed while it renames leaves it.
TEST_F(UnfinishedTest, RenamingIsFinishedToo) {
  for (const bool overwrite : {false, true}) {
    ShardSetOptions options = Options("new");
    options.overwrite = overwrite;
    if (overwrite) {
      ASSERT_TRUE(WriteSet(Options("old"), 3).ok());
    }
    BreakOffAt(3, 4, options);
    std::string state = ReadFile(Path(Unfinished("state")));
    std::filesystem::copy(Path("out/.emlio-convert"), Path("work"));
    ASSERT_TRUE(WriteSet(options, 4).ok());
    const auto whole = FilesIn("out");

    std::filesystem::rename(Path("work"), Path("out/.emlio-convert"));
    const std::string moved = "new-00003-of-00004.tfrecord";
    const std::string payload = "shard 3";
    FinishedShard shard = {.source = SetOf(4).source(3), .records = 2, .payload_bytes = 14};
    {
      const auto file = OpenForReading(Path("out/" + moved));
      shard.fingerprint = tfrecord::ShardIndex::Build(**file, {})->fingerprint();
    }
    Write(Unfinished("state"), state + StateLine(3, shard) + StateEnd());
    for (int i = 0; i < 3; ++i) {
      std::filesystem::remove(Path("out/new-0000" + std::to_string(i) + "-of-00004.tfrecord"));
    }
    const auto summary = GoOn(options, 4);
    ASSERT_TRUE(summary.ok()) << summary.status().ToString();
    EXPECT_EQ(summary->kept_shards, 4);
    EXPECT_EQ(made_, 0);
    EXPECT_EQ(FilesIn("out"), whole);
    ExpectNothingUnfinished();
    std::filesystem::remove_all(Path("out"));
  }
}

TEST_F(UnfinishedTest, ShardsThatCameInBetweenAreNotReplaced) {
  BreakOffAt(3, 4, Options());
  Write("out/other-00000-of-00001.tfrecord", "precious");
  const Status status = GoOn(Options(), 4).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("other-00000-of-00001.tfrecord"));
  EXPECT_EQ(ReadFile(Path("out/other-00000-of-00001.tfrecord")), "precious");
}

TEST_F(UnfinishedTest, OneConversionAtATimeWorksInAFolder) {
  Status second;
  ASSERT_TRUE(WriteSet(Options(), 1, [&](uint64_t shard, ShardSink* sink) {
                second = WriteSet(Options(), 1).status();
                return Fill(shard, sink);
              }).ok());
  EXPECT_EQ(second.code(), Code::kPermissionDenied);
  EXPECT_THAT(NamesIn("out"), ElementsAre("a-00000-of-00001.tfrecord"));
}

// --- Checking

class CheckTest : public ShardSetTest {
 protected:
  CheckTest() {
    EXPECT_TRUE(WriteSet(Options(), 3).ok());
    options_ = Options();
    options_.check = true;
  }
  Status Check(uint64_t shards = 3, std::function<Status(uint64_t, ShardSink*)> fill = Fill) {
    const auto before = FilesIn("out");
    const auto summary = WriteSet(options_, shards, std::move(fill));
    EXPECT_EQ(FilesIn("out"), before);
    return summary.status();
  }
  // The source gives other records for shard 1.
  Status CheckAgainst(const std::vector<std::string>& payloads) {
    return Check(3, [=](uint64_t shard, ShardSink* sink) -> Status {
      if (shard != 1) return Fill(shard, sink);
      for (const std::string& payload : payloads) {
        EMLIO_RETURN_IF_ERROR(sink->Append(AsBytes(payload), 1, "source of " + payload));
      }
      return OkStatus();
    });
  }

  ShardSetOptions options_;
  const std::string shard_ = "a-00001-of-00003.tfrecord";
};

TEST_F(CheckTest, EqualShardsAreCounted) {
  Progress last;
  const auto summary = WriteSet(options_, 3, Fill, [&](const Progress& now) { last = now; });
  ASSERT_TRUE(summary.ok()) << summary.status().ToString();
  EXPECT_EQ(summary->shards, 3);
  EXPECT_EQ(summary->records, 6);
  EXPECT_EQ(summary->payload_bytes, 6 * 7);
  EXPECT_EQ(summary->file_bytes, 6 * (7 + 16));
  EXPECT_EQ(last.records_done, 6);
}

TEST_F(CheckTest, ADifferenceNamesShardRecordAndSource) {
  for (const char* other : {"shard X", "shard 11", "shard", ""}) {
    const Status status = CheckAgainst({"shard 1", other});
    EXPECT_EQ(status.code(), Code::kCorrupt);
    EXPECT_THAT(status.message(), HasSubstr(shard_ + ", record 1 at offset 23"));
    EXPECT_THAT(status.message(), HasSubstr(std::string("source of ") + other));
  }
}

TEST_F(CheckTest, MissingAndAdditionalRecordsAreDifferences) {
  Status status = CheckAgainst({"shard 1", "shard 1", "one more"});
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(status.message(), HasSubstr(shard_));
  EXPECT_THAT(status.message(), HasSubstr("source of one more"));
  status = CheckAgainst({"shard 1"});
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(status.message(), HasSubstr(shard_ + ", record 1 at offset 23"));
}

TEST_F(CheckTest, DamagedShardsAreFound) {
  std::string bytes = ReadFile(Path("out/" + shard_));
  bytes[12] ^= 1;
  Write("out/" + shard_, bytes);
  EXPECT_THAT(Check().message(), HasSubstr("payload checksum"));
  Write("out/" + shard_, bytes.substr(0, 30));
  EXPECT_EQ(Check().code(), Code::kCorrupt);
}

TEST_F(CheckTest, MissingAndForeignShardsAreFound) {
  Status status = Check(4);
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("a-00000-of-00004.tfrecord"));
  EXPECT_THAT(status.message(), HasSubstr("a-00000-of-00003.tfrecord"));
  Write("out/b-00000-of-00001.tfrecord", "");
  status = Check();
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(status.message(), HasSubstr("b-00000-of-00001.tfrecord"));
  options_.destination = Path("nowhere");
  EXPECT_EQ(WriteSet(options_, 3).status().code(), Code::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(Path("nowhere")));
}

TEST_F(CheckTest, OtherFilesAreCompared) {
  ShardSet set = SetOf(3);
  set.files = {{"labels.txt", "cat\ndog\n"}};
  EXPECT_EQ(MakeShardSet(options_, set, {}).status().code(), Code::kNotFound);
  for (const char* content : {"cat\ndoc\n", "cat\n", "cat\ndog\nemu\n"}) {
    Write("out/labels.txt", content);
    const Status status = MakeShardSet(options_, set, {}).status();
    EXPECT_EQ(status.code(), Code::kCorrupt);
    EXPECT_THAT(status.message(), HasSubstr("labels.txt"));
  }
  Write("out/labels.txt", "cat\ndog\n");
  EXPECT_TRUE(MakeShardSet(options_, set, {}).ok());
}

// --- Advice

class AdviceTest : public ShardSetTest {
 protected:
  // What is logged about so many shards of so many bytes together.
  std::string Advice(uint64_t shards, uint64_t bytes) {
    ShardSet set = SetOf(shards, [](uint64_t, ShardSink*) { return Cancelled("enough"); });
    set.total = {.records_total = 1'000'000'000, .bytes_total = bytes};
    testing::internal::CaptureStderr();
    EXPECT_EQ(MakeShardSet(Options(), set, {}).status().code(), Code::kCancelled);
    return testing::internal::GetCapturedStderr();
  }
};

TEST_F(AdviceTest, ShardsOfAnUnfortunateSizeAreToldWithABetterNumber) {
  constexpr uint64_t kMib = uint64_t{1} << 20;
  EXPECT_THAT(Advice(1000, 1000 * kMib), HasSubstr("small"));
  EXPECT_THAT(Advice(1000, 1000 * kMib), HasSubstr("8 of about 125 MiB"));
  EXPECT_THAT(Advice(1, 10'240 * kMib), HasSubstr("large"));
  EXPECT_THAT(Advice(1, 10'240 * kMib), HasSubstr("80 of about 128 MiB"));
  EXPECT_EQ(Advice(8, 8 * kMib), "") << "a few harm nobody";
  EXPECT_EQ(Advice(100, 12'800 * kMib), "");
  EXPECT_EQ(Advice(1000, 0), "") << "not known";
}

TEST_F(AdviceTest, RecommendedShardsAreOfAGoodSizeAndNoneIsEmpty) {
  EXPECT_EQ(RecommendedShards(0, 0), 1);
  EXPECT_EQ(RecommendedShards(kGoodShardBytes, 100), 1);
  EXPECT_EQ(RecommendedShards(kGoodShardBytes + 1, 100), 2);
  EXPECT_EQ(RecommendedShards(~uint64_t{0}, 100), 100);
  EXPECT_EQ(RecommendedShards(~uint64_t{0}, ~uint64_t{0}), kMaxShards);
}

TEST_F(ShardSetTest, StoppingCancelsAndLeavesNothing) {
  std::stop_source stop;
  ShardSetOptions options = Options();
  options.stop = stop.get_token();
  // Records without end: only the cancellation can end it.
  const auto endless = [](uint64_t, ShardSink* sink) {
    while (true) EMLIO_RETURN_IF_ERROR(sink->Append(AsBytes("x"), 1, "nothing"));
  };
  const Status status = WriteSet(options, 4, endless, [&](const Progress& now) {
                          if (now.records_done > 0) stop.request_stop();
                        }).status();
  EXPECT_EQ(status.code(), Code::kCancelled);
  EXPECT_THAT(NamesIn("out"), IsEmpty());
}

TEST_F(ShardSetTest, ProgressComesFromTheCallersThreadAndEndsAtTheTotals) {
  std::set<std::thread::id> threads;
  Progress last;
  ASSERT_TRUE(WriteSet(Options(), 5, Fill, [&](const Progress& now) {
                threads.insert(std::this_thread::get_id());
                EXPECT_GE(now.records_done, last.records_done);
                last = now;
              }).ok());
  EXPECT_THAT(threads, ElementsAre(std::this_thread::get_id()));
  EXPECT_EQ(last.records_done, 10);
  EXPECT_EQ(last.records_total, 10);
  EXPECT_EQ(last.bytes_done, 10);
}

TEST_F(ShardSetTest, PrefixesThatMakeNoFileNameAreRefused) {
  for (const std::string& prefix : {std::string(), std::string("../x"), std::string(".x"),
                                    std::string("a\nb"), std::string(201, 'x')}) {
    EXPECT_EQ(CheckShardSetOptions(Options(prefix)).code(), Code::kInvalidArgument) << prefix;
  }
}

TEST_F(ShardSetTest, ADestinationThatIsAFileIsAnError) {
  Write("out", "a file");
  EXPECT_FALSE(WriteSet(Options(), 1).ok());
  EXPECT_EQ(ReadFile(Path("out")), "a file");
}

TEST(FirstRecordTest, SplitsEvenlyWithoutGapsAtAnySize) {
  for (uint64_t records : {uint64_t{10}, uint64_t{11}, ~uint64_t{0}}) {
    for (uint64_t shards : {1, 3, 10}) {
      EXPECT_EQ(FirstRecord(0, shards, records), 0);
      EXPECT_EQ(FirstRecord(shards, shards, records), records);
      for (uint64_t i = 0; i < shards; ++i) {
        const uint64_t size = FirstRecord(i + 1, shards, records) - FirstRecord(i, shards, records);
        EXPECT_GE(size, records / shards);
        EXPECT_LE(size - records / shards, 1);
      }
    }
  }
}

}  // namespace
}  // namespace emlio::convert
