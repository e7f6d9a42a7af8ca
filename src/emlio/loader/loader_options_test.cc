// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
// What loaders and daemons refuse before they start.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "emlio/daemon/daemon.h"
#include "emlio/loader/loader.h"
#include "emlio/loader/loader_testing.h"
#include "emlio/loader/source_list.h"

namespace emlio::loader {
namespace {

TEST_F(LoaderTest, PositionsThatCannotBeAreRefused) {
  WriteShards("d", 0, 1, 100, 0);
  LoaderOptions options = Options({Path("d") + "/s-*"}, 10);
  auto loader = Open(options);
  options.step_stride = 2;
  auto strided = Open(options);
  for (const Cursor& position :
       {Cursor{0, 3, {3}}, Cursor{0, 3, {2}}, Cursor{0, 3, {5, 5}}, Cursor{0, 3, {6, 5}},
        Cursor{0, 3, {10}}, Cursor{0, 10, {11}}, Cursor{0, 11}}) {
    EXPECT_EQ(loader->StartPass(position).code(), Code::kInvalidArgument);
  }
  EXPECT_EQ(strided->StartPass({0, 3, {6}}).code(), Code::kInvalidArgument);
  EXPECT_THAT(RestOfEpoch(strided.get(), {0, 3, {5}}), ::testing::ElementsAre(3, 7, 9));
  EXPECT_THAT(RestOfEpoch(loader.get(), {0, 7, {9}}), ::testing::ElementsAre(7, 8));
}

TEST_F(LoaderTest, OptionsThatCannotWorkAreRefused) {
  WriteShards("d", 0, 1, 10, 0);
  const std::string local = Path("d") + "/s-*";
  const auto code = [&](const std::function<void(LoaderOptions*)>& change) {
    LoaderOptions options = Options({local}, 2);
    change(&options);
    return Loader::Open(std::move(options)).status().code();
  };
  EXPECT_EQ(code([](LoaderOptions* o) { o->batch_size = 0; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](LoaderOptions* o) { o->global_batch_size = 4; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](LoaderOptions* o) { o->rank = 1; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](LoaderOptions* o) { o->world_size = 0; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](LoaderOptions* o) { o->streams = 257; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](LoaderOptions* o) { o->step_stride = 0; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](LoaderOptions* o) { o->ready_window = 0; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](LoaderOptions* o) { o->ready_window = 4097; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](LoaderOptions* o) { o->sources.clear(); }), Code::kInvalidArgument);
  EXPECT_EQ(code([](LoaderOptions* o) { o->sources = {"http://x/y"}; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](LoaderOptions* o) { o->sources = {"tcp://x:1"}; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](LoaderOptions* o) { o->sources = {"/nowhere/*"}; }), Code::kNotFound);
  EXPECT_EQ(code([](LoaderOptions* o) { o->features.resize(2); }), Code::kInvalidArgument);
  EXPECT_EQ(code([](LoaderOptions* o) { o->max_record_bytes = 10; }), Code::kLimitExceeded);
  EXPECT_EQ(code([](LoaderOptions* o) { o->shuffle_window = {{.amount = 5}}; }),
            Code::kInvalidArgument);
  EXPECT_EQ(code([](LoaderOptions* o) {
              o->shuffle = plan::Shuffle::kBlock;
              o->shuffle_block = plan::ShuffleSize{};
            }),
            Code::kInvalidArgument);
  EXPECT_EQ(code([](LoaderOptions* o) {
              o->shuffle = plan::Shuffle::kBlock;
              o->shuffle_block = {{.amount = 6}};
              o->shuffle_window = {{.amount = 5}};
            }),
            Code::kInvalidArgument);
  EXPECT_EQ(code([](LoaderOptions* o) {
              o->batch_size = 11;
              o->tail = plan::Tail::kDrop;
            }),
            Code::kInvalidArgument);
}

TEST_F(LoaderTest, ABatchOfMillionsOfRecordsIsRefusedBeforeItIsPlanned) {
  WriteShards("d", 0, 1, (1 << 22) + 1, 0, [](uint64_t) -> size_t { return 0; });
  auto loader = Loader::Open(Options({Path("d") + "/s-*"}, uint64_t{1} << 30));
  ASSERT_FALSE(loader.ok());
  EXPECT_EQ(loader.status().code(), Code::kLimitExceeded);
}

TEST_F(LoaderTest, ADaemonListensOnLoopbackOnly) {
  WriteShards("d", 0, 1, 10, 0);
  daemon::DaemonOptions options;
  options.bind = "0.0.0.0:0";
  options.datasets.push_back(DatasetAt("train", "d"));
  EXPECT_EQ(daemon::Daemon::Start(options).status().code(), Code::kPermissionDenied);
  options.bind = "127.example.com:0";  // a name, whatever it looks like
  EXPECT_EQ(daemon::Daemon::Start(options).status().code(), Code::kPermissionDenied);
  options.bind = "0.0.0.0:0";
  options.insecure = true;
  EXPECT_TRUE(daemon::Daemon::Start(options).ok());
  options.bind = "127.0.0.1:0";
  options.roots = {Path("d")};
  EXPECT_TRUE(daemon::Daemon::Start(options).ok());
  std::filesystem::create_directories(Path("elsewhere"));
  options.roots = {Path("elsewhere")};
  EXPECT_EQ(daemon::Daemon::Start(options).status().code(), Code::kPermissionDenied);
}

TEST(SourceListTest, TellsRemoteFromLocal) {
  auto list = ParseSources({"tcp://[::1]:5/a", "/data/x*", "tcp://host:77/b"});
  ASSERT_TRUE(list.ok());
  ASSERT_EQ(list->remote.size(), 2u);
  EXPECT_EQ(list->remote[0].endpoint, "tcp://[::1]:5");
  EXPECT_EQ(list->remote[1].dataset, "b");
  EXPECT_EQ(list->local_patterns, std::vector<std::string>{"/data/x*"});
  for (const char* bad : {"tcp://host/a", "tcp://[::1]/a", "tcp://host:1/a/b", "tcp:///a", ""}) {
    EXPECT_EQ(ParseSources({bad}).status().code(), Code::kInvalidArgument) << bad;
  }
}

}  // namespace
}  // namespace emlio::loader
