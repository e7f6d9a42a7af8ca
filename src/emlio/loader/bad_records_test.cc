// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
// Records that turn out bad while they are served: rotten lengths, and storage that fails. The
// whole data path in one process; reads of one file can be made to fail.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <set>

#include "emlio/base/endian.h"
#include "emlio/daemon/daemon.h"
#include "emlio/loader/loader.h"
#include "emlio/tfrecord/writer.h"
#include "fmt/format.h"

namespace {

// Bytes of a file that the device cannot read.
struct Failing {
  std::atomic<uint64_t> inode{0};
  std::atomic<int64_t> begin{0};
  std::atomic<int64_t> end{0};
  std::atomic<uint64_t> reads{0};  // that failed

  bool Hits(int fd, off_t offset, size_t size) {
    struct stat status;
    if (inode == 0 || fstat(fd, &status) != 0 || status.st_ino != inode) return false;
    if (offset >= end || offset + static_cast<int64_t>(size) <= begin) return false;
    ++reads;
    errno = EIO;
    return true;
  }
} failing;

}  // namespace

// In the place of the C library's, for the library's code in this program.
extern "C" ssize_t sendfile(int to, int from, off_t* offset, size_t size) {
  // What comes before the bad bytes can be sent.
  const int64_t good = failing.begin - *offset;
  if (good > 0) size = std::min(size, static_cast<size_t>(good));
  if (failing.Hits(from, *offset, size)) return -1;
  return syscall(SYS_sendfile, to, from, offset, size);
}
extern "C" ssize_t pread(int fd, void* to, size_t size, off_t offset) {
  if (failing.Hits(fd, offset, size)) return -1;
  return syscall(SYS_pread64, fd, to, size, offset);
}
extern "C" ssize_t preadv(int fd, const iovec* places, int count, off_t offset) {
  size_t size = 0;
  for (int i = 0; i < count; ++i) size += places[i].iov_len;
  if (failing.Hits(fd, offset, size)) return -1;
  return syscall(SYS_preadv, fd, places, count, offset, 0L);
}

namespace emlio::loader {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kShards = 4;
constexpr uint64_t kShardRecords = 100;
constexpr size_t kFrameBytes = 100;  // of the usual record

class BadRecordsTest : public ::testing::Test {
 protected:
  BadRecordsTest() {
    std::string pattern = std::filesystem::temp_directory_path() / "emlio-bad-records-XXXXXX";
    directory_ = mkdtemp(pattern.data());
  }
  ~BadRecordsTest() override {
    failing.inode = 0;
    std::filesystem::remove_all(directory_);
  }

  // Record i begins with i. One may be large.
  void WriteShards(uint64_t large = ~uint64_t{0}, size_t large_bytes = 0) {
    uint64_t id = 0;
    for (uint64_t shard = 0; shard < kShards; ++shard) {
      auto writer = tfrecord::ShardWriter::Create(Path(shard));
      ASSERT_TRUE(writer.ok()) << writer.status().ToString();
      for (uint64_t record = 0; record < kShardRecords; ++record, ++id) {
        std::vector<uint8_t> payload(id == large ? large_bytes : kFrameBytes - 16,
                                     static_cast<uint8_t>(id));
        StoreLe<uint64_t>(payload.data(), id);
        ASSERT_TRUE((*writer)->Append(payload).ok());
      }
      ASSERT_TRUE((*writer)->Commit().ok());
    }
  }
  std::string Path(uint64_t shard) const { return fmt::format("{}/s-{}", directory_, shard); }

  void Serve(dataset::IoMode io) {
    daemon::DaemonOptions options;
    dataset::DatasetOptions dataset;
    dataset.name = "train";
    dataset.patterns = {directory_ + "/s-*"};
    dataset.index_directory = directory_ + "/index";
    dataset.io = io;
    options.datasets.push_back(std::move(dataset));
    auto daemon = daemon::Daemon::Start(std::move(options));
    ASSERT_TRUE(daemon.ok()) << daemon.status().ToString();
    daemon_ = *std::move(daemon);
  }

  // Flips a bit of the length of each of the records, as a failing disk does: without a trace in
  // the file's time.
  void Rot(uint64_t shard, uint64_t first, uint64_t count = 1) {
    const auto time = std::filesystem::last_write_time(Path(shard));
    std::fstream file(Path(shard), std::ios::in | std::ios::out | std::ios::binary);
    for (uint64_t record = first; record < first + count; ++record) {
      const auto offset = static_cast<std::streamoff>(record * kFrameBytes + 1);
      file.seekg(offset);
      const char byte = static_cast<char>(file.get() ^ 4);
      file.seekp(offset);
      file.put(byte);
    }
    file.close();
    std::filesystem::last_write_time(Path(shard), time);
  }
  void Fail(uint64_t shard, uint64_t offset, uint64_t size) {
    struct stat status;
    ASSERT_EQ(stat(Path(shard).c_str(), &status), 0);
    failing.begin = static_cast<int64_t>(offset);
    failing.end = static_cast<int64_t>(offset + size);
    failing.reads = 0;
    failing.inode = status.st_ino;
  }

  // One pass; an error ends it. Checks that every record is the one that the plan has there.
  struct Pass {
    std::set<uint64_t> ids;
    std::set<uint64_t> bad;
    Status reason;  // of one of these
    Status status;
    LoaderStats stats;
  };
  Pass Read(uint64_t max_bad_records, plan::Shuffle shuffle = plan::Shuffle::kNone,
            const std::string& source = "") const {
    LoaderOptions options;
    options.sources = {source.empty() ? daemon_->endpoint() + "/train" : source};
    options.batch_size = 16;
    options.shuffle = shuffle;
    options.prefetch_bytes = 1 << 20;
    options.max_bad_records = max_bad_records;
    options.index_directory = directory_ + "/index";
    options.timeout_ms = 20'000;
    Pass pass;
    auto loader = Loader::Open(options);
    pass.status = loader.status();
    if (pass.status.ok()) pass.status = (*loader)->StartPass({0, 0});
    while (pass.status.ok()) {
      auto batch = (*loader)->Next();
      pass.status = batch.status();
      if (!batch.ok() || *batch == nullptr) break;
      EXPECT_EQ((*batch)->records().size() + (*batch)->bad_records().size(), 16u);
      for (size_t i = 0; i < (*batch)->records().size(); ++i) {
        const uint64_t id = LoadLe<uint64_t>((*batch)->records()[i].data());
        EXPECT_EQ(id, (*batch)->indices()[i]);
        EXPECT_TRUE(pass.ids.insert(id).second);
      }
      for (const Batch::BadRecord& record : (*batch)->bad_records()) {
        EXPECT_TRUE(pass.bad.insert(record.index).second);
        pass.reason = record.reason;
      }
    }
    if (loader.ok()) pass.stats = (*loader)->stats();
    return pass;
  }

  std::string directory_;
  std::unique_ptr<daemon::Daemon> daemon_;
};

TEST_F(BadRecordsTest, ARottenLengthCostsOneRecord) {
  WriteShards();
  Serve(dataset::IoMode::kMmap);
  Rot(1, 7);
  for (const std::string& source : {std::string(), directory_ + "/s-*"}) {
    const Pass pass = Read(1, plan::Shuffle::kFull, source);
    EXPECT_TRUE(pass.status.ok()) << pass.status.ToString();
    EXPECT_EQ(pass.ids.size(), 399u);
    EXPECT_THAT(pass.bad, ElementsAre(107));
    EXPECT_EQ(pass.reason.code(), Code::kCorrupt);
    EXPECT_THAT(pass.stats.bad_records_of_shard,
                ElementsAre(std::pair<const std::string, uint64_t>("s-1", 1)));
    const Pass strict = Read(0, plan::Shuffle::kNone, source);
    EXPECT_EQ(strict.ids.size(), 96u) << "all batches before it came";
    EXPECT_EQ(strict.status.code(), Code::kCorrupt);
    EXPECT_THAT(strict.status.message(), AllOf(HasSubstr("s-1, record 7, offset 700"),
                                               HasSubstr("length checksum does not hold")));
  }
  EXPECT_TRUE(Read(1).status.ok()) << "the daemon lives";
}

TEST_F(BadRecordsTest, ManyRottenLengthsInARowCostOneRecordEach) {
  WriteShards();
  Serve(dataset::IoMode::kPread);
  Rot(2, 0, kShardRecords);
  Rot(3, 90, 10);
  const Pass pass = Read(110);
  EXPECT_TRUE(pass.status.ok()) << pass.status.ToString();
  EXPECT_EQ(pass.ids.size(), 290u);
  EXPECT_EQ(pass.bad.size(), 110u);
  const Pass over = Read(109, plan::Shuffle::kFull);
  EXPECT_EQ(over.status.code(), Code::kCorrupt);
  EXPECT_THAT(over.status.message(), HasSubstr("more than 109 bad records"));
}

TEST_F(BadRecordsTest, ARecordThatCannotBeReadIsSkippedAfterFewReads) {
  WriteShards();
  Serve(dataset::IoMode::kPread);
  Fail(1, 40 * kFrameBytes + 30, 10);
  const Pass pass = Read(1, plan::Shuffle::kFull);
  EXPECT_TRUE(pass.status.ok()) << pass.status.ToString();
  EXPECT_EQ(pass.ids.size(), 399u);
  EXPECT_THAT(pass.bad, ElementsAre(140));
  EXPECT_EQ(pass.reason.code(), Code::kIo);
  EXPECT_LE(failing.reads, 4u);

  const Pass strict = Read(0);
  EXPECT_EQ(strict.status.code(), Code::kIo);
  EXPECT_THAT(strict.status.message(), HasSubstr("s-1, record 40, offset 4000"));
  failing.inode = 0;
  EXPECT_EQ(Read(0).ids.size(), 400u) << "it was not for good";
}

TEST_F(BadRecordsTest, AShardThatCannotBeReadAtAllCostsFewReadsARecord) {
  WriteShards();
  Serve(dataset::IoMode::kPread);
  Fail(2, 0, kShardRecords * kFrameBytes);
  const Pass pass = Read(kShardRecords);
  EXPECT_TRUE(pass.status.ok()) << pass.status.ToString();
  EXPECT_EQ(pass.ids.size(), 300u);
  EXPECT_EQ(pass.bad.size(), kShardRecords);
  EXPECT_LE(failing.reads, 4 * kShardRecords);
  EXPECT_EQ(daemon_->stats().records_skipped, kShardRecords);
}

TEST_F(BadRecordsTest, ALargeRecordThatFailsInItsMiddleIsSkippedAsAWhole) {
  constexpr uint64_t kLarge = 150;
  constexpr size_t kLargeBytes = 6'000'000;
  WriteShards(kLarge, kLargeBytes);
  Serve(dataset::IoMode::kPread);
  Fail(1, 50 * kFrameBytes + 3'500'000, 1);
  const Pass pass = Read(1);
  EXPECT_TRUE(pass.status.ok()) << pass.status.ToString();
  EXPECT_EQ(pass.ids.size(), 399u);
  EXPECT_THAT(pass.bad, ElementsAre(kLarge));
  EXPECT_EQ(pass.stats.ready_bytes_now, 0u) << "what came of it is given back";
  failing.inode = 0;
  EXPECT_EQ(Read(0).ids.size(), 400u);
}

// Records that are sent from the page cache: what cannot be read is found out in the midst of a
// frame.
TEST_F(BadRecordsTest, ARecordThatFailsWhileItIsSentIsSkippedAlone) {
  constexpr uint64_t kLarge = 250;
  WriteShards(kLarge, 900'000);
  for (const dataset::IoMode io : {dataset::IoMode::kMmap, dataset::IoMode::kPread}) {
    Serve(io);
    failing.reads = 0;
    Fail(2, 50 * kFrameBytes + 600'000, 1);
    const Pass pass = Read(1);
    EXPECT_TRUE(pass.status.ok()) << pass.status.ToString();
    EXPECT_GE(failing.reads, 1u);
    if (io == dataset::IoMode::kMmap) {
      // A mapping is not read by calls that this test can let fail.
      EXPECT_EQ(pass.ids.size(), 400u);
    } else {
      EXPECT_EQ(pass.ids.size(), 399u);
      EXPECT_THAT(pass.bad, ElementsAre(kLarge));
    }
    failing.inode = 0;
    EXPECT_EQ(Read(0).ids.size(), 400u);
  }
}

}  // namespace
}  // namespace emlio::loader
