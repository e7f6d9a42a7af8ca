// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/loader/source_client.h"

#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "emlio/base/clock.h"
#include "emlio/base/mutex.h"
#include "emlio/daemon/daemon.h"
#include "emlio/tfrecord/writer.h"
#include "emlio/wire/messages.h"
#include "gtest/gtest.h"

namespace emlio::loader {
namespace {

constexpr int kRecords = 2000;
constexpr int kBatch = 10;
constexpr auto kDeadline = std::chrono::seconds(60);  // against hangs only

// Says that the other host is far away, and may keep what is sent on the first connection, which is
// the control connection, back for a while: then Join overtakes Open.
class FarDialer : public transport::Dialer {
 public:
  FarDialer(std::unique_ptr<transport::Dialer> inner, int64_t round_trip_us, int64_t hold_open_ns)
      : inner_(std::move(inner)), round_trip_us_(round_trip_us), hold_open_ns_(hold_open_ns) {}

  Result<transport::ConnectionId> Dial(const std::string& endpoint, int deadline_ms) override {
    auto id = inner_->Dial(endpoint, deadline_ms);
    if (id.ok() && control_ == 0) control_ = *id;
    return id;
  }
  Status Poll(int timeout_ms, std::vector<transport::Event>* events) override {
    return inner_->Poll(open_until_ns_ > 0 ? 1 : timeout_ms, events);
  }
  transport::SendResult Send(transport::ConnectionId to, transport::Message* message) override {
    if (to == control_ && hold_open_ns_ > 0) {
      const auto decoded = wire::Decode({message->header.data(), message->header.size()});
      const int64_t now_ns = SystemClock().NowNs();
      if (decoded.ok() && std::holds_alternative<wire::Open>(*decoded)) {
        if (open_until_ns_ == 0) open_until_ns_ = now_ns + hold_open_ns_;
        if (now_ns < open_until_ns_) return transport::SendResult::kFull;
      }
    }
    return inner_->Send(to, message);
  }
  void Close(transport::ConnectionId connection) override { inner_->Close(connection); }
  std::optional<transport::LinkState> StateOf(transport::ConnectionId id) const override {
    auto state = inner_->StateOf(id);
    if (state.has_value()) state->min_round_trip_us = round_trip_us_;
    return state;
  }
  void Wake() override { inner_->Wake(); }

 private:
  const std::unique_ptr<transport::Dialer> inner_;
  const int64_t round_trip_us_;
  const int64_t hold_open_ns_;
  transport::ConnectionId control_ = 0;
  int64_t open_until_ns_ = 0;
};

// Counts what comes.
class CountingOwner : public SourceClient::Owner {
 public:
  void OnChunk(size_t, transport::Message message) override {
    const auto decoded = wire::Decode({message.header.data(), message.header.size()});
    const auto& chunk = std::get<wire::Chunk>(*decoded);
    Change([&] {
      records_ += chunk.slots.size();
      streams_.insert(chunk.stream);
    });
  }
  void OnMessage(size_t, wire::AnyMessage message) override {
    if (const auto* error = std::get_if<wire::Error>(&message)) {
      Change([&] { failure_ = Status(error->code, error->message); });
    }
  }
  void OnManifest(size_t) override {
    Change([&] { has_manifest_ = true; });
  }
  void OnRate(size_t, double, int64_t) override {}
  void OnFailed(size_t, Status reason) override {
    Change([&] { failure_ = std::move(reason); });
  }

  bool AwaitManifest() {
    return Await([&]() EMLIO_REQUIRES(mu_) { return has_manifest_; });
  }
  bool AwaitRecords(uint64_t count) {
    return Await([&]() EMLIO_REQUIRES(mu_) { return records_ >= count; });
  }
  size_t streams() {
    MutexLock lock(mu_);
    return streams_.size();
  }

 private:
  template <typename Do>
  void Change(Do change) {
    MutexLock lock(mu_);
    change();
    changed_.NotifyAll();
  }
  bool Await(const std::function<bool()>& done) {
    const auto deadline = std::chrono::steady_clock::now() + kDeadline;
    MutexLock lock(mu_);
    while (!done() && failure_.ok()) {
      if (!changed_.WaitUntil(mu_, deadline)) return false;
    }
    EXPECT_TRUE(failure_.ok()) << failure_.ToString();
    return failure_.ok();
  }

  Mutex mu_;
  CondVar changed_;
  bool has_manifest_ = false;
  uint64_t records_ = 0;
  std::set<uint32_t> streams_;
  Status failure_;
};

class SourceClientTest : public ::testing::Test {
 protected:
  SourceClientTest() {
    std::string pattern = std::filesystem::temp_directory_path() / "emlio-source-XXXXXX";
    directory_ = mkdtemp(pattern.data());
    auto writer = tfrecord::ShardWriter::Create(directory_ + "/shard");
    for (int i = 0; i < kRecords; ++i) {
      EXPECT_TRUE((*writer)->Append(std::vector<uint8_t>(1000, static_cast<uint8_t>(i))).ok());
    }
    EXPECT_TRUE((*writer)->Commit().ok());
    daemon::DaemonOptions options;
    options.max_chunk_bytes = 4096;
    options.first_chunk_bytes = 4096;
    dataset::DatasetOptions data;
    data.name = "train";
    data.patterns = {directory_ + "/shard"};
    data.index_directory = directory_ + "/index";
    options.datasets.push_back(data);
    auto daemon = daemon::Daemon::Start(std::move(options));
    EXPECT_TRUE(daemon.ok()) << daemon.status().ToString();
    daemon_ = *std::move(daemon);
  }
  ~SourceClientTest() override { std::filesystem::remove_all(directory_); }

  void Connect(int64_t round_trip_us, int64_t hold_open_ns, uint32_t streams = 0) {
    SourceClientOptions options;
    options.streams = streams;
    auto dialer = transport::DialZmq({});
    ASSERT_TRUE(dialer.ok());
    options.endpoint = daemon_->endpoint();
    options.dataset = "train";
    client_ = std::make_unique<SourceClient>(
        0, std::make_unique<FarDialer>(*std::move(dialer), round_trip_us, hold_open_ns), options,
        &owner_);
    ASSERT_TRUE(client_->Start().ok());
    ASSERT_TRUE(owner_.AwaitManifest());
  }
  void Read() {
    wire::Open open;
    open.open_id = 77;
    open.dataset = "train";
    open.sources = {{.manifest_digest = client_->manifest().digest(), .weight = 1}};
    open.global_batch = kBatch;
    open.tail = 0;
    open.world_size = 1;
    open.epochs = 1;
    open.streams = 64;
    open.credit_bytes = uint64_t{1} << 30;
    client_->Open(open, nullptr);
    EXPECT_TRUE(owner_.AwaitRecords(kRecords));
  }

  std::string directory_;
  std::unique_ptr<daemon::Daemon> daemon_;
  CountingOwner owner_;
  std::unique_ptr<SourceClient> client_;
};

TEST_F(SourceClientTest, NearbyFewStreamsAreMade) {
  Connect(/*round_trip_us=*/100, /*hold_open_ns=*/0);
  Read();
  EXPECT_LE(owner_.streams(), 4u);
}

TEST_F(SourceClientTest, FarAwayMoreStreamsAreMade) {
  Connect(/*round_trip_us=*/100'000, /*hold_open_ns=*/0);
  Read();
  EXPECT_GT(owner_.streams(), 4u);
}

TEST_F(SourceClientTest, AJoinThatOvertakesItsOpenIsSentAgain) {
  Connect(/*round_trip_us=*/40'000, /*hold_open_ns=*/200 * kNsPerMs);
  Read();
}

TEST_F(SourceClientTest, ANumberOfStreamsThatIsGivenHolds) {
  Connect(/*round_trip_us=*/100'000, /*hold_open_ns=*/0, /*streams=*/2);
  Read();
  EXPECT_LE(owner_.streams(), 2u);
}

}  // namespace
}  // namespace emlio::loader
