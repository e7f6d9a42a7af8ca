// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/transport/transport_conformance.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

namespace emlio::transport {
namespace {

testing::Ends MakeZmqEnds(TransportOptions options) {
  testing::Ends ends;
  auto listener = ListenZmq("127.0.0.1:0", options);
  EXPECT_TRUE(listener.ok()) << listener.status().ToString();
  auto dialer = DialZmq(options);
  EXPECT_TRUE(dialer.ok()) << dialer.status().ToString();
  if (!listener.ok() || !dialer.ok()) return ends;
  ends.endpoint = (*listener)->endpoint();
  ends.listener = *std::move(listener);
  ends.dialer = *std::move(dialer);
  return ends;
}

testing::Ends MakeInprocEnds(TransportOptions options) {
  InprocPair pair = MakeInproc(options);
  testing::Ends ends;
  ends.endpoint = "inproc";
  ends.listener = std::move(pair.listener);
  ends.dialer = std::move(pair.dialer);
  return ends;
}

constexpr TransportFactory kZmq = {"Zmq", &MakeZmqEnds, false};
constexpr TransportFactory kInproc = {"Inproc", &MakeInprocEnds, true};

INSTANTIATE_TEST_SUITE_P(Both, TransportConformanceTest, ::testing::Values(kZmq, kInproc),
                         [](const auto& param_info) { return param_info.param.name; });

TEST(InprocTest, HandsPayloadsOverWithoutCopying) {
  testing::Ends ends = MakeInprocEnds({});
  const auto id = ends.dialer->Dial("inproc", 0);
  ASSERT_TRUE(id.ok());
  Message message = testing::MakeMessage("h", "payload");
  const uint8_t* payload = message.payload.data();
  ASSERT_EQ(ends.dialer->Send(*id, &message), SendResult::kSent);
  ASSERT_TRUE(ends.listener->Poll(0, &ends.at_listener).ok());
  ASSERT_EQ(ends.at_listener.size(), 1u);
  EXPECT_EQ(ends.at_listener.front().message.payload.data(), payload);
}

TEST(InprocTest, OnSentFiresWhenTheOtherSideTakesTheMessage) {
  testing::Counters counters;
  testing::Ends ends = MakeInprocEnds({});
  const auto id = ends.dialer->Dial("inproc", 0);
  ASSERT_TRUE(id.ok());
  Message message = counters.Make("h", 10);
  ASSERT_EQ(ends.dialer->Send(*id, &message), SendResult::kSent);
  EXPECT_EQ(counters.sent, 0);
  ASSERT_TRUE(ends.listener->Poll(0, &ends.at_listener).ok());
  EXPECT_EQ(counters.sent, 1);
  EXPECT_EQ(counters.released, 0);  // the receiver has it now
}

// A file that is there as long as this object, without a name.
class UnnamedFile {
 public:
  explicit UnnamedFile(const std::string& bytes) : fd_(::memfd_create("pieces", MFD_CLOEXEC)) {
    EXPECT_EQ(::write(fd_, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  ~UnnamedFile() { ::close(fd_); }
  int fd() const { return fd_; }
  void Cut(uint64_t size) const { EXPECT_EQ(::ftruncate(fd_, static_cast<off_t>(size)), 0); }

 private:
  const int fd_;
};

// A message of file pieces, as it arrives.
std::string ArrivesAs(testing::Ends* ends, ConnectionId to, std::string header,
                      std::vector<FilePiece> pieces, testing::Counters* counters) {
  Message message = testing::MakeMessage(header);
  message.pieces = std::move(pieces);
  message.on_sent = counters->OnSent();
  const int sent = counters->sent;
  ends->at_dialer.clear();
  EXPECT_TRUE(testing::SendAlways(ends, ends->listener.get(), to, std::move(message)));
  EXPECT_TRUE(testing::PollBothUntil(
      ends, [&] { return !ends->at_dialer.empty() && counters->sent == sent + 1; }));
  EXPECT_EQ(testing::Text(ends->at_dialer.front().message.header), header);
  return testing::Text(ends->at_dialer.front().message.payload);
}

TEST(ZmtpFilesTest, PiecesOfFilesArriveAsOnePayload) {
  testing::Counters counters;
  testing::Ends ends = MakeZmqEnds({});
  ASSERT_TRUE(ends.listener->sends_files());
  const auto id = ends.dialer->Dial(ends.endpoint, 60'000);
  ASSERT_TRUE(id.ok());
  ASSERT_TRUE(testing::PollBothUntil(&ends, [&] { return !ends.at_dialer.empty(); }));
  ASSERT_TRUE(testing::SendAlways(&ends, ends.dialer.get(), *id, testing::MakeMessage("hello")));
  ASSERT_TRUE(testing::PollBothUntil(&ends, [&] { return !ends.at_listener.empty(); }));
  const ConnectionId to = ends.at_listener.front().connection;

  const std::string bytes = testing::Pattern(3 << 20, 3);
  const UnnamedFile file(bytes);
  const UnnamedFile other(testing::Pattern(1000, 4));
  // More than the kernel takes at once; odd bounds; an empty piece.
  EXPECT_TRUE(ArrivesAs(&ends, to, "large",
                        {{file.fd(), 1, (3 << 20) - 2}, {other.fd(), 5, 0}, {other.fd(), 7, 500}},
                        &counters) ==
              bytes.substr(1, (3 << 20) - 2) + testing::Pattern(1000, 4).substr(7, 500));
  for (int i = 0; i < 300; ++i) {
    const uint64_t at = static_cast<uint64_t>(i) * 10'000;
    ASSERT_TRUE(ArrivesAs(&ends, to, std::to_string(i), {{file.fd(), at, 9'999}, {file.fd(), 0, 1}},
                          &counters) == bytes.substr(at, 9'999) + bytes[0]);
  }

  // What is no longer there arrives as zeros, and the connection goes on.
  other.Cut(100);
  std::string cut = testing::Pattern(1000, 4).substr(50, 50) + std::string(350, '\0');
  EXPECT_EQ(ArrivesAs(&ends, to, "cut", {{other.fd(), 50, 400}, {file.fd(), 10, 20}}, &counters),
            cut + bytes.substr(10, 20));
  // A descriptor that cannot be read at all.
  const int write_only = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  EXPECT_EQ(ArrivesAs(&ends, to, "unreadable", {{write_only, 0, 5}, {file.fd(), 3, 5}}, &counters),
            std::string(5, '\0') + bytes.substr(3, 5));
  ::close(write_only);
}

TEST(ZmtpFilesTest, ALostReceiverOfFilesRaisesNoSignal) {
  testing::Counters counters;
  testing::Ends ends = MakeZmqEnds({.high_water_messages = 4});
  const auto id = ends.dialer->Dial(ends.endpoint, 60'000);
  ASSERT_TRUE(testing::PollBothUntil(&ends, [&] { return !ends.at_dialer.empty(); }));
  ASSERT_TRUE(testing::SendAlways(&ends, ends.dialer.get(), *id, testing::MakeMessage("hello")));
  ASSERT_TRUE(testing::PollBothUntil(&ends, [&] { return !ends.at_listener.empty(); }));
  const ConnectionId to = ends.at_listener.front().connection;
  const UnnamedFile file(testing::Pattern(4 << 20, 3));
  int taken = 0;
  // Until the kernel takes no more, and one waits half sent.
  for (SendResult result = SendResult::kSent; result == SendResult::kSent;) {
    Message message = testing::MakeMessage("files");
    message.pieces = {{file.fd(), 0, 4 << 20}};
    message.on_sent = counters.OnSent();
    result = ends.listener->Send(to, &message);
    taken += result == SendResult::kSent ? 1 : 0;
  }
  ends.dialer.reset();
  ends.at_listener.clear();
  ASSERT_TRUE(testing::PollUntil(ends.listener.get(), &ends.at_listener, nullptr, nullptr,
                                 [&] { return !ends.at_listener.empty(); }));
  EXPECT_EQ(ends.at_listener.front().kind, Event::Kind::kLost);
  EXPECT_EQ(counters.sent, taken) << "dropped with the connection";
}

}  // namespace
}  // namespace emlio::transport
