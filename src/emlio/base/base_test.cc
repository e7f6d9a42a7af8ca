// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "emlio/base/clock.h"
#include "emlio/base/crc32c.h"
#include "emlio/base/endian.h"
#include "emlio/base/hash128.h"
#include "emlio/base/log.h"
#include "emlio/base/mutex.h"
#include "emlio/base/status.h"
#include "emlio/base/thread.h"

namespace emlio {
namespace {

// --- Status and Result

TEST(StatusTest, DefaultIsOk) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.ToString(), "OK");
  EXPECT_EQ(status, OkStatus());
}

TEST(StatusTest, TextNamesCodeAndMessage) {
  EXPECT_EQ(Corrupt("shard a, record 3").ToString(), "CORRUPT: shard a, record 3");
}

TEST(StatusTest, ContextGoesBeforeTheMessageAndKeepsTheCode) {
  EXPECT_EQ(Truncated("ends at 12").WithContext("shard a"), Truncated("shard a: ends at 12"));
  EXPECT_TRUE(OkStatus().WithContext("shard a").ok());
}

TEST(StatusTest, EveryCodeHasItsOwnNameAndSurvivesItsNumber) {
  std::set<std::string_view> names;
  for (int number = 0; number <= static_cast<int>(Code::kInternal); ++number) {
    const Code code = CodeFromNumber(number);
    EXPECT_EQ(static_cast<int>(code), number);
    EXPECT_TRUE(names.insert(CodeName(code)).second) << CodeName(code);
  }
}

TEST(StatusTest, NumbersOfLaterVersionsAreInternal) {
  EXPECT_EQ(CodeFromNumber(static_cast<int>(Code::kInternal) + 1), Code::kInternal);
  EXPECT_EQ(CodeFromNumber(-1), Code::kInternal);
}

TEST(StatusTest, ErrnoDecidesTheCode) {
  EXPECT_EQ(ErrnoStatus(ENOENT, "cannot open a"),
            NotFound("cannot open a: No such file or directory"));
  EXPECT_EQ(ErrnoStatus(ENOTDIR, "x").code(), Code::kNotFound);
  EXPECT_EQ(ErrnoStatus(EACCES, "x").code(), Code::kPermissionDenied);
  EXPECT_EQ(ErrnoStatus(EPERM, "x").code(), Code::kPermissionDenied);
  EXPECT_EQ(ErrnoStatus(EROFS, "x").code(), Code::kPermissionDenied);
  EXPECT_EQ(ErrnoStatus(ENOSPC, "x").code(), Code::kIo);
}

TEST(ResultTest, HoldsAValueThatMayBeMoveOnly) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(7));
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result.status().ok());
  const std::unique_ptr<int> value = *std::move(result);
  EXPECT_EQ(*value, 7);
}

TEST(ResultTest, HoldsTheReason) {
  const Result<int> result(NotFound("no shard"));
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.status(), NotFound("no shard"));
}

TEST(ResultTest, AnOkStatusIsNotAResult) {
  const Result<int> result(OkStatus());
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), Code::kInternal);
}

Result<int> Half(int number) {
  if (number % 2 != 0) return InvalidArgument("odd");
  return number / 2;
}
Result<int> Quarter(int number) {
  EMLIO_ASSIGN_OR_RETURN(const int half, Half(number));
  EMLIO_ASSIGN_OR_RETURN(const int quarter, Half(half));
  return quarter;
}
Status CheckQuarter(int number) {
  EMLIO_RETURN_IF_ERROR(Quarter(number).status());
  return OkStatus();
}

TEST(ResultTest, MacrosPassTheFirstErrorOn) {
  EXPECT_EQ(*Quarter(12), 3);
  EXPECT_EQ(Quarter(7).status(), InvalidArgument("odd"));
  EXPECT_EQ(Quarter(6).status(), InvalidArgument("odd"));
  EXPECT_TRUE(CheckQuarter(8).ok());
  EXPECT_EQ(CheckQuarter(6), InvalidArgument("odd"));
}

// --- Checksums and hashes

uint32_t CrcOf(const std::string& bytes) { return Crc32c(bytes.data(), bytes.size()); }

// RFC 3720, appendix B.4.
TEST(Crc32cTest, KnownVectors) {
  EXPECT_EQ(CrcOf("123456789"), 0xe3069283u);
  EXPECT_EQ(CrcOf(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(CrcOf(std::string(32, '\xff')), 0x62a8ab43u);
  std::string rising;
  for (char c = 0; c < 32; ++c) rising += c;
  EXPECT_EQ(CrcOf(rising), 0x46dd794eu);
  EXPECT_EQ(CrcOf(std::string(rising.rbegin(), rising.rend())), 0x113fdb5cu);
}

TEST(Crc32cTest, NothingIsZero) { EXPECT_EQ(Crc32c(nullptr, 0), 0u); }

uint32_t BitwiseCrc32c(const uint8_t* bytes, size_t size) {
  uint32_t state = 0xffffffffu;
  for (size_t i = 0; i < size; ++i) {
    state ^= bytes[i];
    for (int bit = 0; bit < 8; ++bit) state = (state >> 1) ^ ((state & 1) != 0 ? 0x82f63b78u : 0);
  }
  return ~state;
}

// The library takes other paths for heads, tails and long runs: all lengths at all alignments.
TEST(Crc32cTest, AgreesWithTheDefinitionAtAnyLengthAndAlignment) {
  std::vector<uint8_t> bytes(4096 + 16);
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<uint8_t>(i * 131 + (i >> 8) * 17);
  for (size_t size = 0; size <= 300; ++size) {
    for (size_t offset = 0; offset < 8; ++offset) {
      ASSERT_EQ(Crc32c(&bytes[offset], size), BitwiseCrc32c(&bytes[offset], size))
          << size << " bytes at " << offset;
    }
  }
  EXPECT_EQ(Crc32c(&bytes[3], 4096), BitwiseCrc32c(&bytes[3], 4096));
}

TEST(Crc32cTest, OfPiecesIsTheOneOfTheWhole) {
  const std::string bytes = "123456789";
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    EXPECT_EQ(Crc32c(bytes.data() + cut, bytes.size() - cut, Crc32c(bytes.data(), cut)),
              0xe3069283u);
  }
}

TEST(Crc32cTest, MaskIsTheOneOfTfrecordAndCanBeUndone) {
  // The length field of a TFRecord whose payload is empty: eight zero bytes, then 29 03 98 07.
  EXPECT_EQ(MaskCrc(CrcOf(std::string(8, '\0'))), 0x07980329u);
  for (uint32_t crc : {0u, 1u, 0xe3069283u, 0xffffffffu}) {
    EXPECT_NE(MaskCrc(crc), crc);
    EXPECT_EQ(UnmaskCrc(MaskCrc(crc)), crc);
  }
}

TEST(Hash128Test, KnownVectors) {
  EXPECT_EQ(ToHex(Xxh3(nullptr, 0)), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(ToHex(Xxh3("abc", 3)), "06b05ab6733a618578af5f94892f3950");
}

TEST(Hash128Test, DigitsGiveTheHashBackAndOtherTextsNone) {
  const std::string digits = "06b05ab6733a618578af5f94892f3950";
  EXPECT_EQ(Hash128FromHex(digits), Xxh3("abc", 3));
  EXPECT_FALSE(Hash128FromHex("").has_value());
  EXPECT_FALSE(Hash128FromHex(digits.substr(1)).has_value());
  EXPECT_FALSE(Hash128FromHex(digits + "0").has_value());
  for (const char wrong : {'g', 'A', ' ', '/', ':', '`'}) {
    EXPECT_FALSE(Hash128FromHex(digits.substr(1) + wrong).has_value()) << wrong;
  }
}

TEST(Hash128Test, StreamOfAnyPiecesIsTheHashOfTheWhole) {
  std::string bytes;
  for (int i = 0; i < 5000; ++i) bytes += static_cast<char>(i * 7 + i / 256);
  const Hash128 whole = Xxh3(bytes.data(), bytes.size());
  for (size_t piece : {1, 7, 64, 1000, 5000}) {
    Xxh3Stream stream;
    for (size_t at = 0; at < bytes.size(); at += piece) {
      stream.Update(bytes.data() + at, std::min(piece, bytes.size() - at));
    }
    EXPECT_EQ(stream.Digest(), whole) << piece;
    EXPECT_EQ(stream.Digest(), whole) << "a digest must not change the stream";
  }
}

TEST(EndianTest, LoadsAndStoresLittleEndianAtAnyAlignment) {
  uint8_t bytes[9] = {};
  StoreLe<uint64_t>(bytes + 1, 0x0102030405060708u);
  EXPECT_EQ(bytes[1], 8);
  EXPECT_EQ(bytes[8], 1);
  EXPECT_EQ(LoadLe<uint64_t>(bytes + 1), 0x0102030405060708u);
  EXPECT_EQ(LoadLe<uint16_t>(bytes + 1), 0x0708u);
}

// --- Time, waiting, threads

TEST(ClockTest, SystemClockNeverGoesBack) {
  int64_t last_ns = SystemClock().NowNs();
  for (int i = 0; i < 10'000; ++i) {
    const int64_t now_ns = SystemClock().NowNs();
    ASSERT_GE(now_ns, last_ns);
    last_ns = now_ns;
  }
}

TEST(ClockTest, SystemClockCountsNanoseconds) {
  const auto begin = std::chrono::steady_clock::now();
  const int64_t begin_ns = SystemClock().NowNs();
  while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(20)) {
  }
  EXPECT_GE(SystemClock().NowNs() - begin_ns, 19 * kNsPerMs);
}

TEST(ClockTest, ManualClockMovesOnlyByHand) {
  ManualClock clock;
  EXPECT_EQ(clock.NowNs(), 0);
  clock.AdvanceNs(3 * kNsPerSecond);
  EXPECT_EQ(clock.NowNs(), 3'000'000'000);
}

TEST(CondVarTest, WaitUntilReportsAPassedDeadline) {
  Mutex mu;
  CondVar changed;
  MutexLock lock(mu);
  const auto now = std::chrono::steady_clock::now();
  EXPECT_FALSE(changed.WaitUntil(mu, now - std::chrono::seconds(1)));
  const auto deadline = now + std::chrono::milliseconds(5);
  while (changed.WaitUntil(mu, deadline)) {
  }
  EXPECT_GE(std::chrono::steady_clock::now(), deadline);
}

TEST(CondVarTest, WaitUntilIsWokenLongBeforeTheDeadline) {
  struct {
    Mutex mu;
    CondVar changed;
    bool done EMLIO_GUARDED_BY(mu) = false;
  } shared;
  Thread setter("setter", [&](std::stop_token) {
    MutexLock lock(shared.mu);
    shared.done = true;
    shared.changed.NotifyAll();
  });
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::hours(1);
  MutexLock lock(shared.mu);
  while (!shared.done) ASSERT_TRUE(shared.changed.WaitUntil(shared.mu, deadline));
}

TEST(ThreadTest, HasItsNameCutToWhatTheSystemTakes) {
  std::string short_name, long_name;
  const auto read_name = [](std::string* to) {
    return [to](std::stop_token) {
      char name[64] = {};
      pthread_getname_np(pthread_self(), name, sizeof(name));
      *to = name;
    };
  };
  Thread("emlio-recv-1", read_name(&short_name)).Join();
  Thread("emlio-a-very-long-name", read_name(&long_name)).Join();
  EXPECT_EQ(short_name, "emlio-recv-1");
  EXPECT_EQ(long_name, "emlio-a-very-lo");
}

TEST(ThreadTest, DestructorAsksToStopAndJoins) {
  std::atomic<bool> stopped = false;
  {
    Thread thread("waiter", [&](std::stop_token stop) {
      while (!stop.stop_requested()) std::this_thread::yield();
      stopped = true;
    });
    EXPECT_TRUE(thread.joinable());
  }
  EXPECT_TRUE(stopped);
}

TEST(ThreadTest, MoveAssignmentEndsTheFormerThread) {
  std::atomic<int> ended = 0;
  const auto until_stopped = [&](std::stop_token stop) {
    while (!stop.stop_requested()) std::this_thread::yield();
    ++ended;
  };
  Thread thread("first", until_stopped);
  thread = Thread("second", until_stopped);
  EXPECT_EQ(ended, 1);
  thread.RequestStop();
  thread.Join();
  EXPECT_EQ(ended, 2);
  EXPECT_FALSE(thread.joinable());
}

TEST(ThreadTest, LeavesAsynchronousSignalsToTheProgramsOwnThreads) {
  sigset_t inside, before, after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  Thread("mask", [&](std::stop_token) { pthread_sigmask(SIG_SETMASK, nullptr, &inside); }).Join();
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (int asynchronous : {SIGINT, SIGTERM, SIGCHLD, SIGUSR1}) {
    EXPECT_EQ(sigismember(&inside, asynchronous), 1) << asynchronous;
    EXPECT_EQ(sigismember(&after, asynchronous), sigismember(&before, asynchronous));
  }
  EXPECT_EQ(sigismember(&inside, SIGBUS), 0);
  EXPECT_EQ(sigismember(&inside, SIGSEGV), 0);
}

// While one exists the system refuses every new thread: no stack is that large.
class NoThreadsLeft {
 public:
  NoThreadsLeft() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, size_t{1} << 46);
    pthread_setattr_default_np(&attributes);
    pthread_attr_destroy(&attributes);
  }
  ~NoThreadsLeft() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  NoThreadsLeft(const NoThreadsLeft&) = delete;
  NoThreadsLeft& operator=(const NoThreadsLeft&) = delete;

 private:
  pthread_attr_t before_;
};

TEST(ThreadTest, AThreadThatCannotBeHadIsAnErrorThatSaysWhatToDo) {
  const NoThreadsLeft none;
  const auto thread = Thread::Start("worker", [](std::stop_token) {});
  EXPECT_EQ(thread.status().code(), Code::kIo);
  EXPECT_NE(thread.status().message().find("thread worker"), std::string::npos);
  EXPECT_NE(thread.status().message().find("ulimit -u"), std::string::npos);
  EXPECT_EQ(StartPool("worker", 3, [](int, std::stop_token) {}).status().code(), Code::kIo);
  EXPECT_EQ(CheckThreadsLeft(1).code(), Code::kIo);
}

TEST(ThreadTest, APoolNumbersItsThreads) {
  std::atomic<int> sum = 0;
  {
    const auto pool = StartPool("worker", 4, [&](int number, std::stop_token) { sum += number; });
    ASSERT_TRUE(pool.ok());
    EXPECT_EQ(pool->size(), 4u);
  }
  EXPECT_EQ(sum, 0 + 1 + 2 + 3);
}

TEST(ThreadTest, CountsThatNoMachineNeedsAreRefused) {
  EXPECT_TRUE(CheckThreadCount("workers", 0).ok());
  EXPECT_TRUE(CheckThreadCount("workers", kMaxThreads).ok());
  for (const int count : {-1, kMaxThreads + 1, 2'000'000'000}) {
    const Status status = CheckThreadCount("workers", count);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << count;
    EXPECT_NE(status.message().find("workers"), std::string::npos);
  }
}

TEST(ThreadTest, ThreadsThatAreLeftAreLeftAfterTheCheckToo) {
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(CheckThreadsLeft(4).ok());
}

TEST(ThreadTest, SignalsAreBlockedForAWhile) {
  const auto is_blocked = [](int number) {
    sigset_t now;
    pthread_sigmask(SIG_SETMASK, nullptr, &now);
    return sigismember(&now, number) == 1;
  };
  ASSERT_FALSE(is_blocked(SIGTERM));
  {
    const AsynchronousSignalsBlocked blocked;
    EXPECT_TRUE(is_blocked(SIGTERM));
    EXPECT_TRUE(is_blocked(SIGINT));
    EXPECT_FALSE(is_blocked(SIGSEGV));
  }
  EXPECT_FALSE(is_blocked(SIGTERM));
}

// --- Log

TEST(LogTest, LevelDecidesWhatIsWritten) {
  SetLogLevel(LogLevel::kInfo);
  EXPECT_TRUE(LogEnabled(LogLevel::kInfo));
  EXPECT_FALSE(LogEnabled(LogLevel::kDebug));
  testing::internal::CaptureStderr();
  LogInfo("port {}", 5555);
  Log(LogLevel::kDebug, "unseen");
  Log(LogLevel::kWarning, "braces {} stay as they are");
  SetLogLevel(LogLevel::kOff);
  LogError("unseen too");
  SetLogLevel(LogLevel::kWarning);
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("I emlio: port 5555\n"), std::string::npos) << text;
  EXPECT_NE(text.find("W emlio: braces {} stay as they are\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("unseen"), std::string::npos) << text;
}

}  // namespace
}  // namespace emlio
