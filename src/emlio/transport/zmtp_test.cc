// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/transport/zmtp.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "emlio/transport/transport_testing.h"

namespace emlio::transport {
namespace {

using Item = ZmtpReader::Item;

constexpr uint64_t kMaxFrame = 1 << 20;

Buffer Whole(uint64_t frame_bytes) { return Buffer::Allocate(frame_bytes); }
// As little as may be.
Buffer OneByte(uint64_t frame_bytes) {
  return Buffer::Allocate(std::min<uint64_t>(frame_bytes, 1));
}
// More than is wanted, as a pool gives.
Buffer Roomy(uint64_t frame_bytes) { return Buffer::Allocate(frame_bytes + 100); }

std::string Text(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

std::string Frame(std::string_view body, bool more = false) {
  uint8_t header[kMaxZmtpFrameHeader];
  const size_t size = EncodeZmtpFrameHeader(body.size(), more, header);
  return std::string(reinterpret_cast<const char*>(header), size) + std::string(body);
}
std::string Command(std::string_view body) {
  return std::string("\4") + static_cast<char>(body.size()) + std::string(body);
}
std::string Opening() { return Text(ZmtpOpening("DEALER")); }

// What a reader makes of bytes that come in pieces of `step`.
std::vector<ZmtpReader::Next> ReadAll(ZmtpReader* reader, std::string_view bytes, size_t step) {
  std::vector<ZmtpReader::Next> all;
  for (;;) {
    for (;;) {
      ZmtpReader::Next next = reader->Take();
      if (next.item == Item::kNothing) break;
      all.push_back(std::move(next));
      if (all.back().item == Item::kBad) return all;
    }
    if (bytes.empty()) return all;
    const auto space = reader->Space();
    EXPECT_FALSE(space.empty());
    const size_t size = std::min({step, space.size(), bytes.size()});
    std::copy_n(bytes.begin(), size, space.begin());
    reader->Filled(size);
    bytes.remove_prefix(size);
  }
}
std::vector<Item> ItemsOf(std::string_view bytes) {
  ZmtpReader reader("DEALER", kMaxFrame, &Whole);
  std::vector<Item> items;
  for (const auto& next : ReadAll(&reader, bytes, bytes.size())) items.push_back(next.item);
  return items;
}
Status StatusOf(std::string_view bytes) {
  ZmtpReader reader("DEALER", kMaxFrame, &Whole);
  ReadAll(&reader, bytes, bytes.size());
  return reader.status();
}

TEST(ZmtpTest, ReadsWhatItsOwnEndSaysHoweverItIsCut) {
  const std::string header = testing::Pattern(300, 1);
  const std::string payload = testing::Pattern(70'000, 2);
  const std::string bytes = Opening() + Frame("alone") + Frame(header, true) + Frame(payload) +
                            Frame("") + Frame("", true) + Frame("");
  for (const auto& allocate : {&Whole, &OneByte, &Roomy}) {
    for (const size_t step : {size_t{1}, size_t{7}, size_t{64}, size_t{1000}, bytes.size()}) {
      ZmtpReader reader("DEALER", kMaxFrame, allocate);
      const auto all = ReadAll(&reader, bytes, step);
      ASSERT_EQ(all.size(), 5u);
      EXPECT_EQ(all[0].item, Item::kHandshake);
      EXPECT_EQ(testing::Text(all[1].message.header), "alone");
      EXPECT_TRUE(all[1].message.payload.empty());
      EXPECT_EQ(testing::Text(all[2].message.header), header);
      EXPECT_TRUE(testing::Text(all[2].message.payload) == payload);
      for (const size_t empty : {3, 4}) {
        EXPECT_EQ(all[empty].item, Item::kMessage);
        EXPECT_TRUE(all[empty].message.header.empty());
        EXPECT_TRUE(all[empty].message.payload.empty());
      }
      EXPECT_EQ(reader.missing_bytes(), 0u);
    }
  }
}

TEST(ZmtpTest, SaysHowMuchOfAFrameIsMissing) {
  ZmtpReader reader("DEALER", kMaxFrame, &Whole);
  const std::string frame = Frame(std::string(1000, 'x'));
  ReadAll(&reader, Opening() + frame.substr(0, frame.size() - 400), 1 << 20);
  EXPECT_EQ(reader.missing_bytes(), 400u);
  // And has it put where it belongs.
  EXPECT_EQ(reader.Space().size(), 400u);
}

TEST(ZmtpTest, OpensAsTheSpecificationSays) {
  const std::string opening = Text(ZmtpOpening("ROUTER"));
  ASSERT_GT(opening.size(), 64u);
  EXPECT_EQ(opening.substr(0, 12), std::string("\xff\0\0\0\0\0\0\0\0\x7f\3\1", 12));
  EXPECT_EQ(opening.substr(12, 20), "NULL" + std::string(16, '\0'));
  EXPECT_EQ(opening.substr(32, 32), std::string(32, '\0')) << "as-server and filler";
  const std::string body =
      std::string("\5READY\x0bSocket-Type\0\0\0\6ROUTER\x08Identity\0\0\0\0", 41);
  EXPECT_EQ(opening.substr(64), Command(body));
}

TEST(ZmtpTest, AnswersPingsAndPassesPongsOver) {
  ZmtpReader reader("DEALER", kMaxFrame, &Whole);
  const auto all = ReadAll(&reader,
                           Opening() +
                               Command(std::string("\4PING\0\x10"
                                                   "context",
                                                   14)) +
                               Command("\4PONGcontext") + Frame("on"),
                           1);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[1].item, Item::kPing);
  EXPECT_EQ(Text(ZmtpPong(all[1].context)), Command("\4PONGcontext"));
  EXPECT_EQ(testing::Text(all[2].message.header), "on");
}

TEST(ZmtpTest, NamesOfPropertiesHaveNoCase) {
  const std::string body = std::string("\5READY\x0bsocket-TYPE\0\0\0\6DEALER", 28);
  EXPECT_EQ(ItemsOf(Opening().substr(0, 64) + Command(body)), std::vector{Item::kHandshake});
}

TEST(ZmtpTest, RefusesWhatIsNotOfIt) {
  const std::string greeting = Opening().substr(0, 64);
  const auto changed = [&](size_t at, char to) {
    std::string bytes = Opening();
    bytes[at] = to;
    return bytes;
  };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"an HTTP request", "GET / HTTP/1.1\r\n"},
      {"no signature", changed(9, 0)},
      {"an older version", std::string("\xff\0\0\0\0\0\0\0\1\x7f\1", 11)},
      {"another mechanism", changed(12, 'X')},
      {"a longer name of a mechanism", changed(16, 'X')},
      {"a message before the handshake", greeting + Frame("early")},
      {"another command before it", greeting + Command("\4PING\0\0")},
      {"a command without a name", greeting + Command("")},
      {"a name longer than its command", greeting + Command("\x09READY")},
      {"no socket type", greeting + Command("\5READY")},
      {"another socket type", Text(ZmtpOpening("PULL"))},
      {"a property that is cut", greeting + Command(std::string("\5READY\x0bSocket-Type\0\0\0\x7f"
                                                                "D",
                                                                23))},
      {"a huge property", greeting + Command(std::string("\5READY\x0bSocket-Type\xff\xff\xff\xff"
                                                         "DEALER",
                                                         28))},
      {"unknown flags", Opening() + std::string("\x08\1x", 3)},
      {"a command with more", Opening() + std::string("\5\6\4PING0", 8)},
      {"an unknown command", Opening() + Command("\4WHAT")},
      {"a PING without a time", Opening() + Command("\4PING0")},
      {"a PING with a long context", Opening() + Command("\4PING00" + std::string(17, 'c'))},
      {"three frames", Opening() + Frame("a", true) + Frame("b", true)},
  };
  for (const auto& [what, bytes] : cases) {
    EXPECT_EQ(StatusOf(bytes).code(), Code::kProtocol) << what;
  }
}

TEST(ZmtpTest, RefusesLargeFramesBeforeTheirMemory) {
  uint64_t allocated = 0;
  const auto counting = [&](uint64_t frame_bytes) {
    allocated += frame_bytes;
    return Buffer::Allocate(1);
  };
  for (const std::string& bytes :
       {std::string("\2\0\0\0\0\0\x10\0\1", 9), "\2" + std::string(8, '\xff'),
        std::string("\6\0\0\0\0\0\0\x10\1", 9)}) {
    ZmtpReader reader("DEALER", kMaxFrame, counting);
    ReadAll(&reader, Opening(), 1 << 20);
    const size_t opened = allocated;
    ReadAll(&reader, bytes, 1 << 20);
    EXPECT_EQ(reader.status().code(), Code::kLimitExceeded);
    EXPECT_EQ(allocated, opened);
  }
  EXPECT_EQ(ItemsOf(Opening() + Frame(std::string(kMaxFrame, 'x'))).size(), 2u);
}

}  // namespace
}  // namespace emlio::transport
