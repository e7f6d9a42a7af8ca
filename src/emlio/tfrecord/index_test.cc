// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/tfrecord/index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "emlio/tfrecord/test_util.h"
#include "emlio/tfrecord/writer.h"

namespace emlio::tfrecord {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> MixedPayloads() {
  std::vector<std::string> payloads;
  for (int i = 0; i < 3000; ++i) payloads.push_back(std::string(i % 300, 'a' + i % 26));
  for (int i = 0; i < 20; ++i) payloads.push_back(std::string(40'000 + 7'000 * i, 'x'));
  for (int i = 0; i < 3000; ++i) payloads.push_back(std::to_string(i));
  return payloads;
}

void ExpectPlaces(const ShardIndex& index, const std::vector<std::string>& payloads) {
  ASSERT_EQ(index.records(), payloads.size());
  uint64_t offset = 0;
  for (size_t i = 0; i < payloads.size(); ++i) {
    const auto entry = index.Locate(i);
    ASSERT_TRUE(entry.has_value()) << i;
    ASSERT_EQ(entry->offset, offset) << i;
    ASSERT_EQ(entry->payload_bytes, payloads[i].size()) << i;
    offset += payloads[i].size() + kFramingBytes;
  }
}

Hash128 FingerprintOf(const std::vector<std::string>& payloads) {
  std::string pairs;
  for (const std::string& payload : payloads) {
    const uint64_t size = payload.size();
    const uint32_t crc = MaskCrc(Crc32c(payload.data(), payload.size()));
    pairs.append(reinterpret_cast<const char*>(&size), 8);
    pairs.append(reinterpret_cast<const char*>(&crc), 4);
  }
  return Xxh3(pairs.data(), pairs.size());
}

// A shard on disk with its identity and the path of an index for it.
class SavedIndex : public ::testing::Test {
 protected:
  void SetUp() override {
    WriteBytes(shard_path_, Shard(payloads_));
    auto built = BuildNow();
    ASSERT_TRUE(built.ok()) << built.status().ToString();
    ASSERT_TRUE(built->Save(index_path_).ok());
  }
  Result<ShardIndex> BuildNow() {
    EMLIO_ASSIGN_OR_RETURN(auto file, OpenForReading(shard_path_));
    return ShardIndex::Build(*file, {});
  }
  FileIdentity Identity() { return *IdentityOf(shard_path_); }
  Code LoadCode() { return ShardIndex::Load(index_path_, Identity()).status().code(); }

  const TempDir dir_;
  const std::vector<std::string> payloads_ = MixedPayloads();
  const std::string shard_path_ = dir_ / "a.tfrecord";
  const std::string index_path_ = dir_ / "a.emlio-index";
};

TEST(ShardIndex, FindsEveryRecordAndSumsUp) {
  const auto payloads = MixedPayloads();
  uint64_t payload_bytes = 0;
  for (const auto& payload : payloads) payload_bytes += payload.size();
  const MemoryFile file(Shard(payloads));
  uint64_t progress_bytes = 0;
  IndexOptions options;
  options.progress = [&](uint64_t bytes) { progress_bytes += bytes; };
  const auto index = ShardIndex::Build(file, options);
  ASSERT_TRUE(index.ok()) << index.status().ToString();
  ExpectPlaces(*index, payloads);
  EXPECT_EQ(index->payload_bytes(), payload_bytes);
  EXPECT_EQ(index->max_record_bytes(), 173'000u);
  EXPECT_EQ(index->fingerprint(), FingerprintOf(payloads));
  EXPECT_EQ(progress_bytes, file.Identity()->size_bytes);
}

TEST(ShardIndex, SmallRecordsAreReadInLargePiecesAndLargePayloadsNotAtAll) {
  const MemoryFile small(Shard(std::vector<std::string>(50'000, std::string(100, 's'))));
  ASSERT_TRUE(ShardIndex::Build(small, {}).ok());
  EXPECT_LE(small.reads, 25u);
  const MemoryFile large(Shard(std::vector<std::string>(30, std::string(1 << 20, 'l'))));
  ASSERT_TRUE(ShardIndex::Build(large, {}).ok());
  EXPECT_LE(large.reads, 31u);
  EXPECT_LE(large.read_bytes, size_t{300} << 10);
}

TEST(ShardIndex, BuildingEndsSoonAfterAStopIsRequested) {
  std::stop_source stop;
  stop.request_stop();
  IndexOptions options;
  options.stop = stop.get_token();
  const auto index =
      ShardIndex::Build(MemoryFile(Shard(std::vector<std::string>(64, "record"))), options);
  EXPECT_EQ(index.status().code(), Code::kCancelled);
}

TEST(ShardIndex, FingerprintDependsOnContentsAndOrderOnly) {
  const auto fingerprint = [](const std::vector<std::string>& payloads) {
    const auto index = ShardIndex::Build(MemoryFile(Shard(payloads)), {});
    EXPECT_TRUE(index.ok());
    return index->fingerprint();
  };
  EXPECT_EQ(fingerprint({"a", "b"}), fingerprint({"a", "b"}));
  EXPECT_NE(fingerprint({"a", "b"}), fingerprint({"b", "a"}));
  EXPECT_NE(fingerprint({"a", "b"}), fingerprint({"a", "c"}));
  EXPECT_NE(fingerprint({"a", "b"}), fingerprint({"a"}));
  EXPECT_EQ(fingerprint({}), ShardIndex(FileIdentity{}).fingerprint());
  EXPECT_EQ(ToHex(fingerprint({})), "99aa06d3014798d86001c324468d497f");
}

TEST(ShardIndex, FingerprintIsTheOneThatTheWriterHasComputed) {
  const TempDir dir;
  auto writer = ShardWriter::Create(dir / "a");
  ASSERT_TRUE(writer.ok());
  for (int i = 0; i < 2000; ++i) {
    ASSERT_TRUE((*writer)->Append(AsBytes(std::string(i % 50, 'a' + i % 26))).ok());
  }
  ASSERT_TRUE((*writer)->Commit().ok());
  const auto file = OpenForReading(dir / "a");
  EXPECT_EQ(ShardIndex::Build(**file, {})->fingerprint(), (*writer)->fingerprint());
}

TEST(ShardIndex, RefusesWhatTheReaderRefuses) {
  std::string flipped = Shard({"one", "two"});
  flipped[19] ^= 1;
  EXPECT_EQ(ShardIndex::Build(MemoryFile(flipped), {}).status().code(), Code::kCorrupt);
  const std::string whole = Shard({"one", "two"});
  for (size_t size = 1; size < whole.size(); ++size) {
    if (size == 19) continue;
    const auto index = ShardIndex::Build(MemoryFile(whole.substr(0, size)), {});
    EXPECT_EQ(index.status().code(), Code::kTruncated) << size;
  }
  IndexOptions options;
  options.max_record_bytes = 3;
  const auto index = ShardIndex::Build(MemoryFile(Shard({"abc", "abcd"})), options);
  EXPECT_EQ(index.status().code(), Code::kLimitExceeded);
  EXPECT_THAT(index.status().message(), HasSubstr("record 1 at offset 19"));
}

TEST(ShardIndex, ARecordOverTheLimitInASparseFileCostsNothing) {
  TempDir dir;
  constexpr uint64_t kPayloadBytes = uint64_t{300} << 20;
  WriteBytes(dir / "sparse", HeaderOf(kPayloadBytes));
  std::filesystem::resize_file(dir / "sparse", kPayloadBytes + kFramingBytes);
  auto file = OpenForReading(dir / "sparse");
  ASSERT_TRUE(file.ok());
  const auto index = ShardIndex::Build(**file, {});
  EXPECT_EQ(index.status().code(), Code::kLimitExceeded);
  EXPECT_THAT(index.status().message(), HasSubstr("314572800"));
  IndexOptions options;
  options.max_record_bytes = kPayloadBytes;
  EXPECT_TRUE(ShardIndex::Build(**file, options).ok());
}

TEST_F(SavedIndex, LoadsEqualToWhatWasBuilt) {
  const auto loaded = ShardIndex::Load(index_path_, Identity());
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  ExpectPlaces(*loaded, payloads_);
  const auto built = BuildNow();
  EXPECT_EQ(loaded->payload_bytes(), built->payload_bytes());
  EXPECT_EQ(loaded->max_record_bytes(), built->max_record_bytes());
  EXPECT_EQ(loaded->fingerprint(), built->fingerprint());
  EXPECT_FALSE(loaded->Save(dir_ / "again").ok());
}

TEST_F(SavedIndex, OfAnEmptyShardLoads) {
  WriteBytes(shard_path_, "");
  ASSERT_TRUE(BuildNow()->Save(index_path_).ok());
  const auto loaded = ShardIndex::Load(index_path_, Identity());
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_EQ(loaded->records(), 0u);
}

TEST_F(SavedIndex, MissingIsNotFound) {
  std::filesystem::remove(index_path_);
  EXPECT_EQ(LoadCode(), Code::kNotFound);
}

TEST_F(SavedIndex, IsStaleWhenTheShardWasReplacedTouchedOrCut) {
  const std::string bytes = ReadBytes(shard_path_);
  WriteBytes(dir_ / "copy", bytes);  // another inode
  EXPECT_EQ(ShardIndex::Load(index_path_, *IdentityOf(dir_ / "copy")).status().code(),
            Code::kShardChanged);
  std::filesystem::last_write_time(
      shard_path_, std::filesystem::last_write_time(shard_path_) - std::chrono::hours(1));
  EXPECT_EQ(LoadCode(), Code::kShardChanged);
  ASSERT_TRUE(BuildNow()->Save(index_path_).ok());
  EXPECT_EQ(LoadCode(), Code::kOk);
  // On the edge of a record: only the count tells.
  std::filesystem::resize_file(shard_path_, bytes.size() - kFramingBytes - payloads_.back().size());
  const auto loaded = ShardIndex::Load(index_path_, Identity());
  EXPECT_EQ(loaded.status().code(), Code::kShardChanged);
  EXPECT_THAT(loaded.status().message(), HasSubstr(std::to_string(payloads_.size()) + " records"));
}

TEST_F(SavedIndex, IsRefusedWhenDamagedForeignOrCut) {
  const std::string good = ReadBytes(index_path_);
  for (size_t byte = 0; byte < 96; ++byte) {
    std::string bad = good;
    bad[byte] ^= 0x40;
    WriteBytes(index_path_, bad);
    EXPECT_NE(LoadCode(), Code::kOk) << byte;
  }
  for (size_t size : {size_t{0}, size_t{1}, size_t{95}, size_t{96}, size_t{104}, good.size() - 1,
                      good.size() - 8}) {
    WriteBytes(index_path_, good.substr(0, size));
    EXPECT_EQ(LoadCode(), Code::kCorrupt) << size;
  }
  WriteBytes(index_path_, good + std::string(8, '\0'));
  EXPECT_EQ(LoadCode(), Code::kCorrupt);
  WriteBytes(index_path_, "0 129\n129 130\n" + std::string(200, ' '));
  EXPECT_EQ(LoadCode(), Code::kCorrupt);
}

TEST_F(SavedIndex, OfAnotherVersionIsUnsupported) {
  std::string bytes = ReadBytes(index_path_);
  bytes[8] = 3;
  WriteBytes(index_path_, bytes);
  EXPECT_EQ(LoadCode(), Code::kUnsupported);
}

TEST_F(SavedIndex, DamagedEntriesAreFoundWhenTheyAreUsed) {
  std::string bytes = ReadBytes(index_path_);
  const std::string far(8, '\x7f');
  bytes.replace(96 + 8 * 10, 8, far);  // offset of record 10
  WriteBytes(index_path_, bytes);
  const auto loaded = ShardIndex::Load(index_path_, Identity());
  ASSERT_TRUE(loaded.ok());
  EXPECT_TRUE(loaded->Locate(8).has_value());
  EXPECT_FALSE(loaded->Locate(9).has_value());
  EXPECT_FALSE(loaded->Locate(10).has_value());
  EXPECT_TRUE(loaded->Locate(11).has_value());
}

TEST_F(SavedIndex, CheckingTheTableFindsEveryDamage) {
  const std::string good = ReadBytes(index_path_);
  EXPECT_EQ(ShardIndex::Load(index_path_, Identity())->path(), index_path_);
  EXPECT_TRUE(ShardIndex::Load(index_path_, Identity())->CheckTable().ok());
  EXPECT_TRUE(BuildNow()->CheckTable().ok());
  for (size_t byte : {size_t{96}, good.size() / 2, good.size() - 1}) {
    std::string bad = good;
    bad[byte] ^= 1;  // a plausible entry: no use would find it
    WriteBytes(index_path_, bad);
    const auto loaded = ShardIndex::Load(index_path_, Identity());
    ASSERT_TRUE(loaded.ok());
    const Status status = loaded->CheckTable();
    EXPECT_EQ(status.code(), Code::kCorrupt) << byte;
    EXPECT_THAT(status.message(), HasSubstr(index_path_));
  }
  const auto loaded = ShardIndex::Load(index_path_, Identity());
  ASSERT_EQ(truncate(index_path_.c_str(), 0), 0);
  EXPECT_EQ(loaded->CheckTable().code(), Code::kCorrupt);
}

TEST_F(SavedIndex, CutWhileItIsMappedIsFoundAndTheProcessLives) {
  const auto loaded = ShardIndex::Load(index_path_, Identity());
  ASSERT_TRUE(loaded.ok());
  ASSERT_EQ(truncate(index_path_.c_str(), 0), 0);
  EXPECT_FALSE(loaded->Locate(5).has_value());
}

// What an index said before the shard was damaged.
class Offsets : public KnownOffsets {
 public:
  explicit Offsets(const std::vector<std::string>& payloads) {
    uint64_t offset = 0;
    for (const auto& payload : payloads) {
      entries_.push_back({offset, payload.size()});
      offset += payload.size() + kFramingBytes;
    }
  }
  uint64_t records() const override { return entries_.size(); }
  std::optional<Entry> Locate(uint64_t record) const override { return entries_[record]; }

 private:
  std::vector<Entry> entries_;
};

const std::vector<std::string> kFour = {"one", "three", "", "seventeen"};

Result<ShardIndex> Salvage(const std::string& shard, Damage* damage,
                           std::vector<const KnownOffsets*> known = {}) {
  IndexOptions options;
  options.keep_readable = true;
  options.known = known;
  return ShardIndex::Build(MemoryFile(shard), options, damage);
}

TEST(DamagedShard, IsReadUpToACutAtAnyByte) {
  const std::string whole = Shard(kFour);
  for (size_t size = 0; size <= whole.size(); ++size) {
    size_t records = 0, end = 0;
    while (records < kFour.size() && end + kFour[records].size() + kFramingBytes <= size) {
      end += kFour[records++].size() + kFramingBytes;
    }
    Damage damage;
    const auto index = Salvage(whole.substr(0, size), &damage);
    ASSERT_TRUE(index.ok()) << size << index.status().ToString();
    const std::vector<std::string> left(kFour.begin(), kFour.begin() + records);
    ExpectPlaces(*index, left);
    EXPECT_EQ(index->fingerprint(), FingerprintOf(left)) << "as of a shard of these records";
    EXPECT_EQ(index->unreadable_bytes(), size - end);
    EXPECT_EQ(damage.unreadable.code(), size == end ? Code::kOk : Code::kTruncated);
    EXPECT_EQ(damage.bad_records, 0u);
  }
}

TEST(DamagedShard, IsReadUpToTheFirstDamagedLength) {
  std::string shard = Shard(kFour);
  shard[19] ^= 1;  // of record 1
  Damage damage;
  auto index = Salvage(shard, &damage);
  ASSERT_TRUE(index.ok()) << index.status().ToString();
  ExpectPlaces(*index, {"one"});
  EXPECT_EQ(index->unreadable_bytes(), shard.size() - 19);
  EXPECT_EQ(damage.unreadable.code(), Code::kCorrupt);
  EXPECT_THAT(damage.unreadable.message(), HasSubstr("record 1 at offset 19: length checksum"));
  // A length that cannot be, with the right checksum.
  shard.replace(19, kHeaderBytes, HeaderOf((uint64_t{1} << 63) + 5));
  index = Salvage(shard, &damage);
  ASSERT_TRUE(index.ok()) << index.status().ToString();
  ExpectPlaces(*index, {"one"});
  EXPECT_EQ(damage.unreadable.code(), Code::kLimitExceeded);
}

TEST(DamagedShard, GoesOnWhereAnIndexKnowsTheNextRecords) {
  const Offsets known(kFour);
  for (size_t bad = 0; bad < kFour.size(); ++bad) {
    std::string shard = Shard(kFour);
    shard[known.Locate(bad)->offset + 3] ^= 0x40;
    Damage damage;
    const auto index = Salvage(shard, &damage, {&known});
    ASSERT_TRUE(index.ok()) << index.status().ToString();
    ExpectPlaces(*index, kFour);
    EXPECT_EQ(index->fingerprint(), FingerprintOf(kFour)) << "hosts with a good copy agree";
    EXPECT_EQ(index->unreadable_bytes(), 0u);
    EXPECT_TRUE(damage.unreadable.ok());
    EXPECT_EQ(damage.bad_records, 1u);
    EXPECT_THAT(damage.first_bad.message(), HasSubstr("record " + std::to_string(bad)));
  }
  // Two in a row, the first ones.
  std::string shard = Shard(kFour);
  shard[0] ^= 1;
  shard[19] ^= 1;
  Damage damage;
  const auto index = Salvage(shard, &damage, {&known});
  ASSERT_TRUE(index.ok()) << index.status().ToString();
  ExpectPlaces(*index, kFour);
  EXPECT_EQ(damage.bad_records, 2u);
}

TEST(DamagedShard, IndexesThatDoNotFitAreNotBelieved) {
  std::string shard = Shard(kFour);
  shard[19] ^= 1;
  for (const auto& other :
       {std::vector<std::string>{"one", "four", "xyz", "seventeen"},
        std::vector<std::string>{"ones", "three", "", "seventeen"}, std::vector<std::string>{"one"},
        std::vector<std::string>{}, std::vector<std::string>{"one", std::string(1000, 'x')}}) {
    const Offsets known(other);
    Damage damage;
    const auto index = Salvage(shard, &damage, {&known});
    ASSERT_TRUE(index.ok()) << index.status().ToString();
    ExpectPlaces(*index, {"one"});
    EXPECT_EQ(damage.bad_records, 0u);
    // The next one may.
    const Offsets right(kFour);
    EXPECT_EQ(Salvage(shard, &damage, {&known, &right})->records(), kFour.size());
  }
}

TEST(DamagedShard, OtherFilesAndRecordsOverTheLimitStayErrors) {
  Damage damage;
  EXPECT_EQ(Salvage("version https://git-lfs.github.com/spec/v1\noid", &damage).status().code(),
            Code::kCorrupt);
  EXPECT_EQ(Salvage("\x1f\x8b\x08 and so on", &damage).status().code(), Code::kUnsupported);
  IndexOptions options;
  options.keep_readable = true;
  options.max_record_bytes = 4;
  EXPECT_EQ(ShardIndex::Build(MemoryFile(Shard(kFour)), options, &damage).status().code(),
            Code::kLimitExceeded)
      << "the record is whole";
  const auto unknown = Salvage("some text that is no shard", &damage);
  ASSERT_TRUE(unknown.ok()) << "the first header may be what is damaged";
  EXPECT_EQ(unknown->records(), 0u);
  EXPECT_EQ(unknown->unreadable_bytes(), 26u);
}

TEST_F(SavedIndex, KeepsHowMuchOfTheShardCannotBeRead) {
  const std::string whole = Shard(payloads_);
  WriteBytes(shard_path_, whole.substr(0, whole.size() - 5));
  const auto file = OpenForReading(shard_path_);
  ASSERT_TRUE(file.ok());
  IndexOptions options;
  options.keep_readable = true;
  uint64_t progress_bytes = 0;
  options.progress = [&](uint64_t bytes) { progress_bytes += bytes; };
  const auto built = ShardIndex::Build(**file, options);
  ASSERT_TRUE(built.ok()) << built.status().ToString();
  EXPECT_EQ(progress_bytes, whole.size() - 5) << "all of the file was covered";
  ASSERT_TRUE(built->Save(index_path_).ok());
  const auto loaded = ShardIndex::Load(index_path_, Identity());
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_TRUE(loaded->CheckTable().ok());
  ExpectPlaces(*loaded, {payloads_.begin(), payloads_.end() - 1});
  EXPECT_EQ(loaded->unreadable_bytes(), payloads_.back().size() + kFramingBytes - 5);
  EXPECT_EQ(loaded->fingerprint(), built->fingerprint());
}

}  // namespace
}  // namespace emlio::tfrecord
