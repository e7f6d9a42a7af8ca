// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "emlio/base/testing/file_size_limit.h"
#include "emlio/base/thread.h"

namespace emlio {
namespace {

class FileTest : public testing::Test {
 protected:
  FileTest() {
    std::string pattern = testing::TempDir() + "emlio_file_test_XXXXXX";
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  ~FileTest() override { std::filesystem::remove_all(directory_); }

  std::string PathOf(const std::string& name) const { return directory_ + "/" + name; }
  std::string Write(const std::string& name, const std::string& contents) const {
    std::ofstream(PathOf(name), std::ios::binary) << contents;
    return PathOf(name);
  }
  std::string Read(const std::string& path) const {
    Result<std::string> contents = ReadWholeFile(path, size_t{1} << 30);
    EXPECT_TRUE(contents.ok()) << contents.status().ToString();
    return contents.ok() ? *contents : std::string();
  }
  size_t EntriesInDirectory() const {
    size_t entries = 0;
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      (void)entry;
      ++entries;
    }
    return entries;
  }

  std::string directory_;
};

// --- Reading

TEST_F(FileTest, ReadsAtAnyPositionAndLessAtTheEnd) {
  const auto file = OpenForReading(Write("a", "0123456789"));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ((*file)->path(), PathOf("a"));
  char bytes[10] = {};
  EXPECT_EQ(*(*file)->ReadAt(3, 4, bytes), 4u);
  EXPECT_EQ(std::string(bytes, 4), "3456");
  EXPECT_EQ(*(*file)->ReadAt(8, 10, bytes), 2u);
  EXPECT_EQ(*(*file)->ReadAt(100, 10, bytes), 0u);
  EXPECT_EQ((*file)->ReadAt(uint64_t{1} << 63, 1, bytes).status().code(), Code::kIo);
  (*file)->WillNeed(0, 10);
}

TEST_F(FileTest, ReadsIntoSeveralPlacesAndLessAtTheEnd) {
  const auto file = OpenForReading(Write("a", "0123456789"));
  ASSERT_TRUE(file.ok());
  std::array<uint8_t, 4> first{};
  std::array<uint8_t, 3> second{};
  const std::array<std::span<uint8_t>, 3> places = {first, std::span<uint8_t>(), second};
  EXPECT_EQ(*(*file)->ReadInto(1, places), 7u);
  EXPECT_EQ(std::string(first.begin(), first.end()), "1234");
  EXPECT_EQ(std::string(second.begin(), second.end()), "567");
  EXPECT_EQ(*(*file)->ReadInto(5, places), 5u);
  EXPECT_EQ(std::string(first.begin(), first.end()), "5678");
  EXPECT_EQ(second[0], '9');
  EXPECT_EQ(*(*file)->ReadInto(100, places), 0u);
  EXPECT_EQ(*(*file)->ReadInto(0, {}), 0u);
  (*file)->WillNotNeed(3, 5);
}

// What else lies in the pages at the edges may have been read ahead for somebody.
TEST_F(FileTest, PagesThatAreOnlyPartlyInTheRangeAreNotLetGo) {
  const size_t page_bytes = sysconf(_SC_PAGESIZE);
  const std::string path = Write("a", std::string(3 * page_bytes, 'x'));
  const int fd = open(path.c_str(), O_RDONLY);
  ASSERT_EQ(fsync(fd), 0);  // what is not written yet would not be let go in any case
  close(fd);
  const auto file = OpenForReading(path);
  const auto mapped = MappedFile::Map(path);
  ASSERT_TRUE(file.ok() && mapped.ok());
  std::vector<char> bytes(3 * page_bytes);
  ASSERT_EQ(*(*file)->ReadAt(0, bytes.size(), bytes.data()), bytes.size());
  (*file)->WillNotNeed(100, 50);
  (*file)->WillNotNeed(page_bytes - 100, 200);
  (*file)->WillNotNeed(page_bytes / 2, 2 * page_bytes);
  std::array<unsigned char, 3> resident{};
  ASSERT_EQ(mincore(const_cast<uint8_t*>((*mapped)->data()), 3 * page_bytes, resident.data()), 0);
  EXPECT_TRUE(resident[0] & 1);
  EXPECT_TRUE(resident[2] & 1);
}

TEST_F(FileTest, AnOpenFileKeepsItsInodeWhenThePathIsReplaced) {
  const auto file = OpenForReading(Write("a", "old"));
  ASSERT_TRUE(file.ok());
  std::filesystem::rename(Write("b", "new contents"), PathOf("a"));
  EXPECT_EQ((*file)->Identity()->size_bytes, 3u);
  EXPECT_NE((*file)->Identity()->inode, IdentityOf(PathOf("a"))->inode);
}

TEST_F(FileTest, IdentityShowsGrowthAndTouching) {
  const std::string path = Write("a", "0123");
  const FileIdentity before = *IdentityOf(path);
  EXPECT_EQ(before.size_bytes, 4u);
  EXPECT_EQ(*IdentityOf(path), before);
  const struct timespec times[2] = {{1, 5}, {1'700'000'000, 5}};
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  EXPECT_EQ(IdentityOf(path)->mtime_ns, 1'700'000'000'000'000'005);
  Write("a", "01234");
  EXPECT_EQ(IdentityOf(path)->size_bytes, 5u);
}

TEST_F(FileTest, MissingFilesAndOtherThanFilesAreRefusedByName) {
  const Status missing = OpenForReading(PathOf("none")).status();
  EXPECT_EQ(missing.code(), Code::kNotFound);
  EXPECT_NE(missing.message().find(PathOf("none")), std::string::npos);
  EXPECT_EQ(IdentityOf(PathOf("none")).status().code(), Code::kNotFound);
  EXPECT_EQ(MappedFile::Map(PathOf("none")).status().code(), Code::kNotFound);
  EXPECT_EQ(OpenForReading(directory_).status().code(), Code::kInvalidArgument);
  ASSERT_EQ(mkfifo(PathOf("fifo").c_str(), 0600), 0);
  // Must not wait for a writer.
  EXPECT_EQ(OpenForReading(PathOf("fifo")).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(MappedFile::Map(PathOf("fifo")).status().code(), Code::kInvalidArgument);
}

TEST_F(FileTest, WholeFileHonoursItsLimit) {
  const std::string path = Write("a", std::string("\0binary\n", 8));
  EXPECT_EQ(*ReadWholeFile(path, 8), std::string("\0binary\n", 8));
  const Status refused = ReadWholeFile(path, 7).status();
  EXPECT_EQ(refused.code(), Code::kLimitExceeded);
  EXPECT_NE(refused.message().find(path), std::string::npos);
}

TEST_F(FileTest, MakesParentsAndAcceptsADirectoryThatIsThere) {
  EXPECT_TRUE(MakeDirectories(PathOf("a/b/c")).ok());
  EXPECT_TRUE(MakeDirectories(PathOf("a/b/c")).ok());
  EXPECT_TRUE(std::filesystem::is_directory(PathOf("a/b/c")));
  Write("file", "");
  EXPECT_FALSE(MakeDirectories(PathOf("file/below")).ok());
  EXPECT_FALSE(MakeDirectories(PathOf("file")).ok());
}

// --- AtomicFile

TEST_F(FileTest, AtomicFileAppearsWholeAtCommit) {
  const std::string path = PathOf("out");
  std::string expected;
  {
    auto file = AtomicFile::Create(path);
    ASSERT_TRUE(file.ok());
    for (int i = 0; i < 300; ++i) {  // more than its write buffer
      const std::string piece(10'000, static_cast<char>('a' + i % 26));
      ASSERT_TRUE((*file)->Append(piece.data(), piece.size()).ok());
      expected += piece;
    }
    EXPECT_FALSE(std::filesystem::exists(path));
    EXPECT_EQ((*file)->written_bytes(), expected.size());
    ASSERT_TRUE((*file)->Commit().ok());
    EXPECT_EQ(Read(path), expected);
  }
  EXPECT_EQ(Read(path), expected);
  EXPECT_EQ(EntriesInDirectory(), 1u);
}

TEST_F(FileTest, AtomicFileWithoutCommitLeavesNothing) {
  {
    auto file = AtomicFile::Create(PathOf("out"));
    ASSERT_TRUE(file.ok());
    const std::string piece(3 << 20, 'x');
    ASSERT_TRUE((*file)->Append(piece.data(), piece.size()).ok());
    EXPECT_EQ(EntriesInDirectory(), 1u);
  }
  EXPECT_EQ(EntriesInDirectory(), 0u);
}

TEST_F(FileTest, AtomicFileReplacesWhatWasThereInOneStep) {
  const std::string path = Write("out", "old");
  const auto reader = OpenForReading(path);
  ASSERT_TRUE(reader.ok());
  auto file = AtomicFile::Create(path);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE((*file)->Append("newer", 5).ok());
  EXPECT_EQ(Read(path), "old");
  ASSERT_TRUE((*file)->Commit().ok());
  EXPECT_EQ(Read(path), "newer");
  EXPECT_EQ((*reader)->Identity()->size_bytes, 3u) << "open readers keep the old contents";
}

TEST_F(FileTest, AtomicFilesOfOneDestinationDoNotDisturbEachOther) {
  auto first = AtomicFile::Create(PathOf("out"));
  auto second = AtomicFile::Create(PathOf("out"));
  ASSERT_TRUE(first.ok() && second.ok());
  ASSERT_TRUE((*first)->Append("first", 5).ok());
  ASSERT_TRUE((*second)->Append("second", 6).ok());
  ASSERT_TRUE((*second)->Commit().ok());
  EXPECT_EQ(Read(PathOf("out")), "second");
  ASSERT_TRUE((*first)->Commit().ok());
  EXPECT_EQ(Read(PathOf("out")), "first");
}

TEST_F(FileTest, AtomicFileStepsOverALeftoverOfAKilledProcess) {
  // The next temporary names of this process, as a former process of the same id left them.
  std::string taken;
  {
    auto file = AtomicFile::Create(PathOf("out"));
    ASSERT_TRUE(file.ok());
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      taken = entry.path().filename();
    }
  }
  const size_t dot = taken.rfind('.');
  const int number = std::stoi(taken.substr(dot + 1));
  for (int i = 1; i <= 3; ++i) Write(taken.substr(0, dot + 1) + std::to_string(number + i), "left");
  auto file = AtomicFile::Create(PathOf("out"));
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  ASSERT_TRUE((*file)->Commit().ok());
  EXPECT_EQ(Read(PathOf("out")), "");
  EXPECT_EQ(EntriesInDirectory(), 4u);
}

TEST_F(FileTest, AtomicFileReplacesWhatALinkLeadsTo) {
  ASSERT_TRUE(MakeDirectories(PathOf("far")).ok());
  Write("far/target", "old");
  std::filesystem::create_symlink("far/target", PathOf("one"));
  std::filesystem::create_symlink(PathOf("one"), PathOf("two"));
  std::filesystem::create_symlink("far/none", PathOf("dangling"));
  for (const char* name : {"two", "dangling"}) {
    const auto file = AtomicFile::Create(PathOf(name));
    ASSERT_TRUE(file.ok()) << file.status().ToString();
    ASSERT_TRUE((*file)->Append(name, 3).ok());
    ASSERT_TRUE((*file)->Commit().ok());
    EXPECT_TRUE(std::filesystem::is_symlink(PathOf(name)));
  }
  EXPECT_EQ(Read(PathOf("far/target")), "two");
  EXPECT_EQ(Read(PathOf("far/none")), "dan");
  std::filesystem::create_symlink("round", PathOf("round"));
  EXPECT_FALSE(AtomicFile::Create(PathOf("round")).ok());
  EXPECT_EQ(EntriesInDirectory(), 5u);
}

TEST_F(FileTest, AtomicFileWritesToAPipeOrADeviceAndLeavesItThere) {
  ASSERT_EQ(mkfifo(PathOf("pipe").c_str(), 0600), 0);
  const std::string text(3 << 20, 'x');  // more than the pipe and the buffer hold
  const auto write = [&](const std::string& path) -> Status {
    auto file = AtomicFile::Create(path);
    if (!file.ok()) return file.status();
    EMLIO_RETURN_IF_ERROR((*file)->Append(text.data(), text.size()));
    return (*file)->Commit();
  };
  const int in = open(PathOf("pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(in, 0);
  std::string got;
  std::atomic<bool> is_written{false};
  std::thread reader([&] {
    std::vector<char> piece(1 << 16);
    while (true) {
      const bool last = is_written;
      const ssize_t n = read(in, piece.data(), piece.size());
      if (n > 0) {
        got.append(piece.data(), static_cast<size_t>(n));
      } else if (last) {
        return;
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
  });
  const Status written = write(PathOf("pipe"));
  is_written = true;
  reader.join();
  close(in);
  EXPECT_TRUE(written.ok()) << written.ToString();
  EXPECT_EQ(got, text);
  EXPECT_TRUE(std::filesystem::is_fifo(PathOf("pipe")));

  std::filesystem::create_symlink("/dev/null", PathOf("null"));
  EXPECT_TRUE(write(PathOf("null")).ok());
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  EXPECT_TRUE(std::filesystem::is_symlink(PathOf("null")));

  // A descriptor's name: what is written comes behind what is in its file.
  const int fd = open(PathOf("log").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::write(fd, "said\n", 5), 5);
  EXPECT_TRUE(write("/proc/self/fd/" + std::to_string(fd)).ok());
  EXPECT_TRUE(write("/dev/fd/" + std::to_string(fd)).ok());
  close(fd);
  EXPECT_EQ(Read(PathOf("log")), "said\n" + text + text);

  // As a shell's >(command): a pipe that has no other name.
  int pipe_of_two[2];
  ASSERT_EQ(pipe2(pipe_of_two, O_CLOEXEC), 0);
  const auto file = AtomicFile::Create("/dev/fd/" + std::to_string(pipe_of_two[1]));
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  ASSERT_TRUE((*file)->Append("short", 5).ok());
  EXPECT_TRUE((*file)->Commit().ok());
  std::array<char, 16> came{};
  EXPECT_EQ(read(pipe_of_two[0], came.data(), came.size()), 5);
  close(pipe_of_two[0]);
  close(pipe_of_two[1]);
  EXPECT_EQ(EntriesInDirectory(), 3u);
}

TEST_F(FileTest, AtomicFileFollowsNoLinkThatSomebodyElsePutWhereEverybodyMay) {
  if (geteuid() != 0) GTEST_SKIP() << "nobody else's links can be made here";
  Write("target", "old");
  std::filesystem::create_symlink("target", PathOf("link"));
  ASSERT_EQ(lchown(PathOf("link").c_str(), 65534, 65534), 0);
  EXPECT_TRUE(AtomicFile::Create(PathOf("link")).ok());
  ASSERT_EQ(chmod(directory_.c_str(), 01777), 0);
  EXPECT_EQ(AtomicFile::Create(PathOf("link")).status().code(), Code::kPermissionDenied);
  ASSERT_EQ(lchown(PathOf("link").c_str(), 0, 0), 0);
  EXPECT_TRUE(AtomicFile::Create(PathOf("link")).ok());
  EXPECT_EQ(Read(PathOf("target")), "old");
}

TEST_F(FileTest, AtomicFileNamesThePlaceItCannotWriteTo) {
  const Status status = AtomicFile::Create(PathOf("none/out")).status();
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_NE(status.message().find("none/out"), std::string::npos);
}

TEST_F(FileTest, AtomicFileThatCouldNotTakeTheNameRemovesItself) {
  ASSERT_TRUE(MakeDirectories(PathOf("out/inside")).ok());
  {
    auto file = AtomicFile::Create(PathOf("out"));
    ASSERT_TRUE(file.ok());
    EXPECT_FALSE((*file)->Commit().ok());
  }
  EXPECT_EQ(EntriesInDirectory(), 1u);
}

TEST_F(FileTest, AtomicFileIsNotCommittedAfterAFailedWriteEvenWhenRoomComesBack) {
  auto file = AtomicFile::Create(PathOf("out"));
  ASSERT_TRUE(file.ok());
  const std::string piece(3 << 20, 'x');
  const Status failed = [&] {
    const FileSizeLimit limit(1 << 20);
    return (*file)->Append(piece.data(), piece.size());
  }();
  EXPECT_EQ(failed.code(), Code::kIo);
  EXPECT_EQ((*file)->Commit(), failed);
  file->reset();
  EXPECT_EQ(EntriesInDirectory(), 0u);
}

// --- MappedFile and GuardedCopy

// --- Appending, locks, names

TEST_F(FileTest, AppendFileGoesOnWhereItEnded) {
  for (const char* piece : {"one\n", "two\n"}) {
    const auto file = AppendFile::Open(PathOf("log"));
    ASSERT_TRUE(file.ok()) << file.status().ToString();
    ASSERT_TRUE((*file)->Append(piece).ok());
    ASSERT_TRUE((*file)->Append("-\n").ok());
  }
  EXPECT_EQ(Read(PathOf("log")), "one\n-\ntwo\n-\n");
  EXPECT_EQ(AppendFile::Open(PathOf("no/log")).status().code(), Code::kNotFound);
}

TEST_F(FileTest, ALockKeepsOthersOutUntilItIsGone) {
  auto lock = DirectoryLock::Take(directory_);
  ASSERT_TRUE(lock.ok()) << lock.status().ToString();
  const auto second = DirectoryLock::Take(directory_);
  EXPECT_EQ(second.status().code(), Code::kPermissionDenied);
  EXPECT_NE(second.status().message().find(directory_), std::string::npos);
  lock = NotFound("let go");
  EXPECT_TRUE(DirectoryLock::Take(directory_).ok());
  EXPECT_EQ(DirectoryLock::Take(PathOf("missing")).status().code(), Code::kNotFound);
}

TEST_F(FileTest, NamesAreListedMovedAndRemoved) {
  Write("b", "B");
  Write(".a", "A");
  std::filesystem::create_directory(PathOf("c"));
  EXPECT_EQ(*NamesInDirectory(directory_), (std::vector<std::string>{".a", "b", "c"}));
  EXPECT_EQ(NamesInDirectory(PathOf("missing")).status().code(), Code::kNotFound);
  ASSERT_TRUE(MoveFile(PathOf("b"), PathOf(".a")).ok());
  EXPECT_EQ(Read(PathOf(".a")), "B");
  EXPECT_EQ(MoveFile(PathOf("b"), PathOf("x")).code(), Code::kNotFound);
  EXPECT_TRUE(RemoveFile(PathOf(".a")).ok());
  EXPECT_TRUE(RemoveFile(PathOf(".a")).ok()) << "gone already";
  EXPECT_FALSE(RemoveFile(PathOf("c")).ok());
  EXPECT_TRUE(SyncDirectory(directory_).ok());
  EXPECT_EQ(SyncDirectory(PathOf("missing")).code(), Code::kNotFound);
}

// --- Mapping

TEST_F(FileTest, MappingShowsTheContentsAndOutlivesThePath) {
  const std::string path = Write("a", "0123456789");
  const auto file = MappedFile::Map(path);
  ASSERT_TRUE(file.ok());
  std::filesystem::remove(path);
  ASSERT_EQ((*file)->size(), 10u);
  EXPECT_EQ((*file)->identity().size_bytes, 10u);
  EXPECT_EQ(std::memcmp((*file)->data(), "0123456789", 10), 0);
}

TEST_F(FileTest, AnEmptyFileMapsToNothing) {
  const auto file = MappedFile::Map(Write("a", ""));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ((*file)->size(), 0u);
}

TEST_F(FileTest, GuardedCopyGathersRanges) {
  const auto file = MappedFile::Map(Write("a", "0123456789"));
  ASSERT_TRUE(file.ok());
  const uint8_t* data = (*file)->data();
  uint8_t to[6] = {};
  const CopyRange ranges[] = {{data + 7, to, 3}, {}, {data, to + 3, 2}};
  EXPECT_TRUE(GuardedCopy(ranges));
  EXPECT_EQ(std::string(reinterpret_cast<char*>(to), 5), "78901");
  EXPECT_EQ(to[5], 0) << "nothing is written outside the ranges";
  EXPECT_TRUE(GuardedCopy({}));
}

constexpr size_t kPages = 64;

class TruncatedFileTest : public FileTest {
 protected:
  TruncatedFileTest() {
    path_ = Write("a", std::string(kPages * page_bytes_, 'x'));
    auto file = MappedFile::Map(path_);
    EXPECT_TRUE(file.ok());
    file_ = *std::move(file);
    to_.resize(file_->size());
  }
  bool CopyPages(size_t from, size_t pages) {
    const CopyRange range = {file_->data() + from * page_bytes_, to_.data(), pages * page_bytes_};
    return GuardedCopy({&range, 1});
  }
  void TruncateToPages(size_t pages) {
    ASSERT_EQ(truncate(path_.c_str(), static_cast<off_t>(pages * page_bytes_)), 0);
  }

  const size_t page_bytes_ = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::string path_;
  std::unique_ptr<MappedFile> file_;
  std::vector<uint8_t> to_;
};

TEST_F(TruncatedFileTest, CopyOfLostPagesFailsAndTheProcessGoesOn) {
  ASSERT_TRUE(CopyPages(0, kPages));
  TruncateToPages(1);
  EXPECT_TRUE(CopyPages(0, 1));
  EXPECT_FALSE(CopyPages(0, kPages));
  EXPECT_FALSE(CopyPages(2, 1)) << "again: the signal must not stay blocked";
  TruncateToPages(0);
  EXPECT_FALSE(CopyPages(0, 1));
  TruncateToPages(kPages);
  EXPECT_TRUE(CopyPages(0, kPages)) << "a file that grew back reads as zeros";
  EXPECT_EQ(to_[0], 0);
}

TEST_F(TruncatedFileTest, ManyThreadsCopyWhileTheFileShrinksAndGrows) {
  std::atomic<uint64_t> copied = 0;
  std::atomic<uint64_t> failed = 0;
  std::vector<Thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back("copier", [&](std::stop_token stop) {
      std::vector<uint8_t> to(file_->size());
      const CopyRange range = {file_->data(), to.data(), to.size()};
      while (!stop.stop_requested()) ++(GuardedCopy({&range, 1}) ? copied : failed);
    });
  }
  while (copied < 50 || failed < 50) {
    TruncateToPages(kPages / 2);
    std::this_thread::yield();
    TruncateToPages(kPages);
    std::this_thread::yield();
  }
  threads.clear();
  EXPECT_GE(copied, 50u);
  EXPECT_GE(failed, 50u);
}

using TruncatedFileDeathTest = TruncatedFileTest;

TEST_F(TruncatedFileDeathTest, AFaultThatIsNotOursStillEndsTheProcess) {
  ASSERT_TRUE(CopyPages(0, 1));  // the handler is installed now
  TruncateToPages(0);
  EXPECT_EXIT(
      {
        const volatile uint8_t* lost = file_->data();
        std::exit(*lost);
      },
      [](int status) {
        return WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) != 0);
      },
      "");
}

TEST_F(TruncatedFileDeathTest, AFaultThatIsNotOursReachesTheFormerHandler) {
  TruncateToPages(0);
  EXPECT_EXIT(
      {
        signal(SIGBUS, [](int) { _exit(42); });
        const CopyRange nothing;
        (void)GuardedCopy({&nothing, 1});
        const volatile uint8_t* lost = file_->data();
        std::exit(*lost);
      },
      testing::ExitedWithCode(42), "");
}

}  // namespace
}  // namespace emlio
