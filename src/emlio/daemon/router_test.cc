// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
// What clients can do to a daemon that well-behaved loaders never would. The clients here speak the
// protocol by hand, over TCP.
#include "emlio/daemon/router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <thread>

#include "emlio/daemon/manifest_pages.h"
#include "emlio/session/bitmap.h"
#include "emlio/tfrecord/writer.h"
#include "emlio/transport/tcp_testing.h"
#include "emlio/transport/zmtp.h"

namespace emlio::daemon {
namespace {

using ::testing::HasSubstr;

constexpr auto kDeadline = std::chrono::seconds(60);
constexpr uint64_t kEndless = uint64_t{1} << 62;

// A control connection and data connections to a daemon.
class Client {
 public:
  explicit Client(const Daemon& daemon) : endpoint_(daemon.endpoint()) {
    dialer_ = *transport::DialZmq({});
    control_ = Dial();
    Send(control_, wire::Hello{});
    EXPECT_TRUE(Await<wire::Welcome>().has_value());
  }

  transport::ConnectionId Dial() {
    const transport::ConnectionId connection = *dialer_->Dial(endpoint_, 10'000);
    EXPECT_TRUE(Until([&](const transport::Event& event) {
      return event.kind == transport::Event::Kind::kConnected && event.connection == connection;
    }));
    return connection;
  }
  void Close(transport::ConnectionId connection) { dialer_->Close(connection); }
  void Send(transport::ConnectionId to, const wire::AnyMessage& message) {
    transport::Message out;
    out.header = Buffer::Of(wire::Encode(message));
    const auto deadline = std::chrono::steady_clock::now() + kDeadline;
    while (dialer_->Send(to, &out) == transport::SendResult::kFull) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      std::this_thread::yield();
    }
  }
  void Tell(const wire::AnyMessage& message) { Send(control_, message); }
  void Join(transport::ConnectionId connection, wire::OpenId open_id, uint32_t stream,
            uint32_t generation = 0) {
    Send(connection, wire::Join{open_id, stream, generation, 0});
  }

  // Reads until `wanted` says so; false at the deadline.
  bool Until(const std::function<bool(const transport::Event&)>& wanted) {
    const auto deadline = std::chrono::steady_clock::now() + kDeadline;
    while (std::chrono::steady_clock::now() < deadline) {
      while (!events_.empty()) {
        const transport::Event event = std::move(events_.front());
        events_.pop_front();
        if (wanted(event)) return true;
      }
      std::vector<transport::Event> events;
      EXPECT_TRUE(dialer_->Poll(100, &events).ok());
      for (transport::Event& event : events) events_.push_back(std::move(event));
    }
    return false;
  }
  // The next message of that type, others are passed over.
  template <typename Message>
  std::optional<Message> Await() {
    std::optional<Message> found;
    Until([&](const transport::Event& event) {
      if (event.kind != transport::Event::Kind::kMessage) return false;
      const auto message = wire::Decode({event.message.header.data(), event.message.header.size()});
      if (!message.ok()) return false;
      if (const auto* wanted = std::get_if<Message>(&*message)) found = *wanted;
      return found.has_value();
    });
    return found;
  }
  bool IsAnswered() {
    Tell(wire::Ping{++nonce_});
    std::optional<wire::Pong> pong;
    do {
      pong = Await<wire::Pong>();
    } while (pong.has_value() && pong->nonce != nonce_);
    return pong.has_value();
  }
  Code ErrorCode() {
    const auto error = Await<wire::Error>();
    return error.has_value() ? error->code : Code::kOk;
  }

 private:
  const std::string endpoint_;
  std::unique_ptr<transport::Dialer> dialer_;
  std::deque<transport::Event> events_;
  transport::ConnectionId control_ = 0;
  uint64_t nonce_ = 0;
};

// Counts what a daemon would have read ahead; nothing ever seems to be in memory.
class CountingDataset : public dataset::Dataset {
 public:
  explicit CountingDataset(std::unique_ptr<Dataset> from) : from_(std::move(from)) {}

  uint64_t read_ahead() const { return read_ahead_; }

  const std::string& name() const override { return from_->name(); }
  const dataset::Manifest& manifest() const override { return from_->manifest(); }
  dataset::IoMode io() const override { return from_->io(); }
  const std::string& path(uint32_t shard) const override { return from_->path(shard); }
  dataset::RecordLocation Locate(uint32_t shard, uint64_t record) const override {
    return from_->Locate(shard, record);
  }
  void Prefetch(uint32_t, uint64_t) const override {}
  void ReadAhead(std::span<const dataset::RecordId> records) const override {
    read_ahead_ += records.size();
  }
  bool seems_in_memory() const override { return false; }
  Status Gather(std::span<dataset::GatherItem> items, dataset::BadItem* bad) const override {
    return from_->Gather(items, bad);
  }
  bool is_larger_than_memory() const override { return true; }
  void LetGo(std::span<const dataset::GatherItem>) const override {}
  Status CheckUnchanged(uint32_t) const override { return OkStatus(); }
  Status VerifyRecord(uint32_t, uint64_t, dataset::BadItem*) const override { return OkStatus(); }

 private:
  const std::unique_ptr<Dataset> from_;
  mutable std::atomic<uint64_t> read_ahead_ = 0;
};

class RouterTest : public ::testing::Test {
 protected:
  RouterTest() {
    std::string pattern = std::filesystem::temp_directory_path() / "emlio-router-XXXXXX";
    directory_ = mkdtemp(pattern.data());
  }
  ~RouterTest() override { std::filesystem::remove_all(directory_); }

  // One shard of so many records.
  void Serve(int records, size_t record_bytes, DaemonOptions options = {}) {
    auto writer = tfrecord::ShardWriter::Create(directory_ + "/s-0");
    ASSERT_TRUE(writer.ok());
    const std::vector<uint8_t> payload(record_bytes, 7);
    for (int i = 0; i < records; ++i) ASSERT_TRUE((*writer)->Append(payload).ok());
    ASSERT_TRUE((*writer)->Commit().ok());
    dataset::DatasetOptions dataset;
    dataset.name = "train";
    dataset.patterns = {directory_ + "/s-*"};
    dataset.index_directory = directory_ + "/index";
    options.datasets.push_back(std::move(dataset));
    auto daemon = Daemon::Start(std::move(options));
    ASSERT_TRUE(daemon.ok()) << daemon.status().ToString();
    daemon_ = *std::move(daemon);
  }
  const dataset::Manifest& manifest() const { return daemon_->datasets().front()->manifest(); }

  wire::Open MakeOpen(wire::OpenId open_id, uint64_t batch) const {
    wire::Open open;
    open.open_id = open_id;
    open.dataset = "train";
    open.sources = {{manifest().digest(), 1, 0}};
    open.global_batch = batch;
    open.tail = 1;
    open.streams = 1;
    open.credit_bytes = kEndless;
    return open;
  }
  // Our shard, and one that nobody has, of so many records.
  dataset::Manifest Invent(uint64_t records) const {
    std::vector<dataset::ShardInfo> shards = manifest().shards();
    shards.push_back({"invented", records, records, 1, {}});
    return *dataset::Manifest::Create(std::move(shards));
  }
  // Opens over the invented manifest, with our shard alone assigned.
  void OpenInvented(Client* client, wire::Open open, const dataset::Manifest& invented) const {
    open.sources[0].manifest_digest = invented.digest();
    for (size_t i = 0; i < invented.shards().size(); ++i) {
      if (invented.shards()[i].name != "invented") session::SetBit(&open.assigned, i);
    }
    client->Tell(open);
    ASSERT_TRUE(client->Await<wire::NeedManifest>().has_value());
    client->Tell(MakeManifestPage("train", invented, 0));
    client->Tell(open);
  }
  // Reads an epoch as a well-behaved receiver that can take everything.
  void ExpectAnEpochCanBeRead(uint64_t records) const {
    Client client(*daemon_);
    client.Tell(MakeOpen(0xe60c, 10));
    ASSERT_TRUE(client.Await<wire::Opened>().has_value());
    client.Join(client.Dial(), 0xe60c, 0);
    uint64_t received = 0;
    while (received < records) {
      const auto chunk = client.Await<wire::Chunk>();
      ASSERT_TRUE(chunk.has_value()) << "after " << received << " records";
      if (chunk->open_id == 0xe60c) received += chunk->slots.size();
    }
    EXPECT_EQ(received, records);
  }
  // Waits until no chunk has been sent for a while.
  std::vector<std::unique_ptr<Client>> StallSessions(uint64_t batch);
  void AwaitStall() const {
    const auto deadline = std::chrono::steady_clock::now() + kDeadline;
    uint64_t before = 0;
    while (std::chrono::steady_clock::now() < deadline) {
      const uint64_t now = daemon_->stats().chunks_sent;
      if (now == before && now > 0) return;
      before = now;
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
    }
    FAIL() << "the daemon still sends";
  }

  std::string directory_;
  std::unique_ptr<Daemon> daemon_;
};

TEST_F(RouterTest, BatchesBeyondTheLimitAreRefusedHoweverManyRecordsAManifestClaims) {
  Serve(10, 100);
  Client client(*daemon_);
  OpenInvented(&client, MakeOpen(1, uint64_t{1} << 31), Invent(uint64_t{1} << 33));
  EXPECT_EQ(client.ErrorCode(), Code::kLimitExceeded);
  EXPECT_TRUE(client.IsAnswered());
}

TEST_F(RouterTest, ASearchThatFindsNothingDelaysNobody) {
  Serve(10, 100);
  Client client(*daemon_);
  wire::Open open = MakeOpen(1, 1);
  open.sources[0].shuffle = 1;
  open.epochs = 0;
  OpenInvented(&client, open, Invent(uint64_t{1} << 40));
  ASSERT_TRUE(client.Await<wire::Opened>().has_value());
  client.Join(client.Dial(), 1, 0);
  EXPECT_TRUE(client.IsAnswered());
  ExpectAnEpochCanBeRead(10);
  EXPECT_EQ(daemon_->Shutdown(0).code(), Code::kTimeout);
}

TEST_F(RouterTest, ManySearchesDelayOthersNoMoreThanOne) {
  Serve(8000, 100);
  Client client(*daemon_);
  const dataset::Manifest invented = Invent(uint64_t{1} << 40);
  const transport::ConnectionId data = client.Dial();
  for (wire::OpenId open_id = 1; open_id <= 300; ++open_id) {
    wire::Open open = MakeOpen(open_id, 1);
    open.sources[0].shuffle = 1;
    open.epochs = 0;
    if (open_id == 1) {
      OpenInvented(&client, open, invented);
    } else {
      open.sources[0].manifest_digest = invented.digest();
      for (size_t i = 0; i < invented.shards().size(); ++i) {
        if (invented.shards()[i].name != "invented") session::SetBit(&open.assigned, i);
      }
      client.Tell(open);
    }
    ASSERT_TRUE(client.Await<wire::Opened>().has_value());
    client.Join(open_id == 1 ? data : client.Dial(), open_id, 0);
  }
  const auto deadline = std::chrono::steady_clock::now() + kDeadline;
  ExpectAnEpochCanBeRead(8000);
  EXPECT_LT(std::chrono::steady_clock::now(), deadline);
}

TEST_F(RouterTest, EpochsWithoutEndAreCountedBelow2To63) {
  Serve(10, 100);
  Client client(*daemon_);
  wire::Open open = MakeOpen(1, 10);
  open.epoch = ~uint64_t{0};
  client.Tell(open);
  EXPECT_EQ(client.ErrorCode(), Code::kInvalidArgument);
  open.epoch = 0;
  open.epochs = ~uint64_t{0};
  client.Tell(open);
  EXPECT_EQ(client.ErrorCode(), Code::kInvalidArgument);
}

// A legal Fill may be answered by as many Skips as it names slots.
TEST_F(RouterTest, ThousandsOfSkipsReachAReceiverThatReads) {
  Serve(20'000, 0);
  Client client(*daemon_);
  client.Tell(MakeOpen(1, 20'000));
  ASSERT_TRUE(client.Await<wire::Opened>().has_value());
  client.Join(client.Dial(), 1, 0);
  ASSERT_TRUE(client.Await<wire::EpochEnd>().has_value());
  wire::Fill fill;
  fill.open_id = 1;
  fill.reason = wire::FillReason::kLost;
  for (uint32_t slot = 0; slot < 20'000; ++slot) fill.slots.push_back(slot);
  for (int attempt = 0; attempt < 4; ++attempt) client.Tell(fill);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // it is busy with something else
  for (int skips = 0; skips < 20'000; ++skips) {
    ASSERT_TRUE(client.Await<wire::Skip>().has_value()) << skips;
  }
  EXPECT_TRUE(client.IsAnswered());
}

TEST_F(RouterTest, ASendBufferThatDoesNotFitIntoMemoryIsCutDown) {
  DaemonOptions options;
  options.send_buffer_bytes = uint64_t{1} << 50;
  testing::internal::CaptureStderr();
  Serve(10, 100, std::move(options));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("does not fit into the memory"));
  ExpectAnEpochCanBeRead(10);
}

// Receivers that open sessions without end and read none of their data.
std::vector<std::unique_ptr<Client>> RouterTest::StallSessions(uint64_t batch) {
  std::vector<std::unique_ptr<Client>> stalled;
  for (wire::OpenId open_id = 1; open_id <= 3; ++open_id) {
    Client& client = *stalled.emplace_back(std::make_unique<Client>(*daemon_));
    wire::Open open = MakeOpen(open_id, batch);
    open.streams = 8;
    open.epochs = 0;
    client.Tell(open);
    EXPECT_TRUE(client.Await<wire::Opened>().has_value());
    std::vector<transport::ConnectionId> connections;
    for (int i = 0; i < 8; ++i) connections.push_back(client.Dial());
    for (uint32_t i = 0; i < 8; ++i) client.Join(connections[i], open_id, i);
  }
  AwaitStall();
  return stalled;
}

// Records that are copied.
TEST_F(RouterTest, ReceiversThatDoNotReadDoNotStarveOthers) {
  DaemonOptions options;
  options.send_buffer_bytes = 8 << 20;
  options.max_chunk_bytes = 1 << 20;
  Serve(500, 10'000, std::move(options));
  const auto stalled = StallSessions(500);
  EXPECT_GT(daemon_->stats().send_buffer_bytes_now, 0u);
  EXPECT_LE(daemon_->stats().send_buffer_bytes_now, uint64_t{8} << 20);
  ExpectAnEpochCanBeRead(500);
}

// Those that are sent from where they are take no send buffer.
TEST_F(RouterTest, ReceiversThatDoNotReadDoNotStarveOthersOfLargeRecords) {
  DaemonOptions options;
  options.send_buffer_bytes = 8 << 20;
  Serve(100, 50'000, std::move(options));
  const auto stalled = StallSessions(100);
  EXPECT_EQ(daemon_->stats().send_buffer_bytes_now, 0u);
  ExpectAnEpochCanBeRead(100);
}

TEST_F(RouterTest, WhatNobodyReadsOfASessionThatEndedIsGivenUp) {
  DaemonOptions options;
  options.peer_silence_ms = 2000;
  Serve(500, 10'000, std::move(options));
  const auto stalled = StallSessions(500);
  ASSERT_GT(daemon_->stats().send_buffer_bytes_now, 0u);
  for (wire::OpenId open_id = 1; open_id <= 3; ++open_id) {
    stalled[open_id - 1]->Tell(wire::Close{open_id});
  }
  const auto deadline = std::chrono::steady_clock::now() + kDeadline;
  while (daemon_->stats().send_buffer_bytes_now > 0) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

TEST_F(RouterTest, SessionsShareWhatMayBeReadAhead) {
  Serve(4000, 1000);
  dataset::DatasetOptions dataset_options;
  dataset_options.name = "train";
  dataset_options.patterns = {directory_ + "/s-*"};
  dataset_options.index_directory = directory_ + "/index";
  auto opened = dataset::Dataset::Open(dataset_options);
  ASSERT_TRUE(opened.ok());
  const auto counting = std::make_shared<CountingDataset>(*std::move(opened));
  DaemonOptions options;
  options.read_ahead_bytes = 2'000'000;
  options.total_read_ahead_bytes = 400'000;
  daemon_ = *Daemon::StartOn(*transport::ListenZmq("127.0.0.1:0", {}), {counting}, options);
  // Four sessions whose receivers take one record each.
  Client client(*daemon_);
  for (wire::OpenId open_id = 1; open_id <= 4; ++open_id) {
    wire::Open open = MakeOpen(open_id, 10);
    open.credit_bytes = 1;
    client.Tell(open);
    ASSERT_TRUE(client.Await<wire::Opened>().has_value());
  }
  for (wire::OpenId open_id = 1; open_id <= 4; ++open_id) {
    client.Join(client.Dial(), open_id, 0);
    ASSERT_TRUE(client.Await<wire::Chunk>().has_value());
  }
  AwaitStall();
  EXPECT_GT(counting->read_ahead(), 200u);
  EXPECT_LE(counting->read_ahead(), 500u);  // 400, and what a step has beyond
}

TEST_F(RouterTest, AConnectionServesTheStreamThatItJoinedLast) {
  Serve(100, 1000);
  Client client(*daemon_);
  wire::Open open = MakeOpen(1, 1);
  open.streams = 2;
  open.epochs = 0;
  open.credit_bytes = 20 * 1016;
  client.Tell(open);
  ASSERT_TRUE(client.Await<wire::Opened>().has_value());
  const transport::ConnectionId connection = client.Dial();
  client.Join(connection, 1, 0);
  client.Join(connection, 1, 1);
  uint64_t flow = 0;
  uint32_t stream = 0;  // until the daemon has the second Join
  while (flow < 20 * 1016) {
    const auto chunk = client.Await<wire::Chunk>();
    ASSERT_TRUE(chunk.has_value());
    EXPECT_GE(chunk->stream, stream);
    stream = chunk->stream;
    flow = chunk->flow_end;
  }
  // Nobody is there to take more.
  client.Close(connection);
  wire::Grant grant;
  grant.open_id = 1;
  grant.limit = kEndless;
  client.Tell(grant);
  AwaitStall();
  // Some may go into the connection before the daemon knows that it is gone; far fewer than wait
  // for an acknowledgement at most.
  EXPECT_LT(daemon_->stats().chunks_sent, session::Sender::kMaxUnacknowledged / 2);
  // A new connection gets what was not acknowledged, and the rest.
  client.Join(client.Dial(), 1, 1, 1);
  EXPECT_TRUE(client.Await<wire::Chunk>().has_value());
}

TEST_F(RouterTest, AConnectionKeepsItsRole) {
  Serve(10, 100);
  Client client(*daemon_);
  client.Tell(wire::Join{1, 0, 0, 0});
  EXPECT_EQ(client.ErrorCode(), Code::kProtocol);
  client.Tell(wire::Hello{});
  EXPECT_EQ(client.ErrorCode(), Code::kProtocol);
  client.Tell(MakeOpen(1, 10));
  ASSERT_TRUE(client.Await<wire::Opened>().has_value());
  const transport::ConnectionId data = client.Dial();
  client.Join(data, 1, 0);
  ASSERT_TRUE(client.Await<wire::Chunk>().has_value());
  client.Send(data, wire::Hello{});
  EXPECT_EQ(client.ErrorCode(), Code::kProtocol);
  client.Send(data, wire::Ping{});
  EXPECT_EQ(client.ErrorCode(), Code::kProtocol);
  EXPECT_TRUE(client.IsAnswered());
}

TEST_F(RouterTest, ManifestsThatWereNotAskedForAreRefused) {
  Serve(10, 100);
  Client client(*daemon_);
  client.Tell(MakeManifestPage("train", Invent(5), 0));
  EXPECT_EQ(client.ErrorCode(), Code::kProtocol);
  EXPECT_TRUE(client.IsAnswered());
}

TEST_F(RouterTest, AReceiverThatAsksWithoutReadingIsGivenUp) {
  Serve(10, 100);
  // A transport would read.
  const auto greedy = transport::testing::TcpSocket::ConnectToLoopback(
      transport::testing::PortOf(daemon_->endpoint()));
  const auto frame = [](const wire::AnyMessage& message) {
    const std::vector<uint8_t> bytes = wire::Encode(message);
    uint8_t header[transport::kMaxZmtpFrameHeader];
    const size_t size = transport::EncodeZmtpFrameHeader(bytes.size(), false, header);
    std::string text(header, header + size);
    text.append(bytes.begin(), bytes.end());
    return text;
  };
  const std::vector<uint8_t> opening = transport::ZmtpOpening("DEALER");
  ASSERT_TRUE(greedy.Send(std::string(opening.begin(), opening.end()) + frame(wire::Hello{}) +
                          frame(MakeOpen(1, 10))));
  const auto deadline = std::chrono::steady_clock::now() + kDeadline;
  while (daemon_->stats().sessions_now == 0) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::yield();
  }
  // Its session goes with it.
  const std::string question = frame(wire::Describe{"absent" + std::string(2000, 'x')});
  while (daemon_->stats().sessions_now > 0) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    if (!greedy.Send(question)) std::this_thread::yield();
  }
  ExpectAnEpochCanBeRead(10);
}

}  // namespace
}  // namespace emlio::daemon
