// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/daemon/merged_manifests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace emlio::daemon {
namespace {

using ::testing::HasSubstr;

constexpr transport::ConnectionId kPeer = 5;

// `kind` makes manifests differ; every name has `name_bytes` bytes.
dataset::Manifest MakeManifest(size_t shards, char kind, size_t name_bytes = 20) {
  std::vector<dataset::ShardInfo> infos;
  for (size_t i = 0; i < shards; ++i) {
    std::string name = kind + std::to_string(i);
    name.resize(name_bytes, '-');
    infos.push_back({std::move(name), 10, 100, 20, {}});
  }
  return *dataset::Manifest::Create(std::move(infos));
}

Status Upload(MergedManifests* merged, const dataset::Manifest& manifest,
              transport::ConnectionId from = kPeer) {
  for (uint32_t page = 0; page < ManifestPageCount(manifest); ++page) {
    EMLIO_RETURN_IF_ERROR(merged->Add(from, MakeManifestPage("d", manifest, page)));
  }
  return OkStatus();
}

TEST(MergedManifestsTest, KeepsWhatWasAskedFor) {
  MergedManifests merged(1 << 20, 1 << 20);
  const dataset::Manifest manifest = MakeManifest(2500, 'a');
  EXPECT_EQ(merged.Find(manifest.digest()), nullptr);
  merged.Expect(kPeer, manifest.digest());
  EXPECT_TRUE(Upload(&merged, manifest).ok());
  const auto found = merged.Find(manifest.digest());
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->shards(), manifest.shards());
}

TEST(MergedManifestsTest, PagesThatNobodyAskedForAreRefused) {
  MergedManifests merged(1 << 20, 1 << 20);
  const dataset::Manifest manifest = MakeManifest(3, 'a');
  EXPECT_EQ(Upload(&merged, manifest).code(), Code::kProtocol);
  merged.Expect(kPeer + 1, manifest.digest());
  merged.Expect(kPeer, MakeManifest(3, 'b').digest());
  EXPECT_EQ(Upload(&merged, manifest).code(), Code::kProtocol);
  EXPECT_EQ(merged.Find(manifest.digest()), nullptr);
}

TEST(MergedManifestsTest, OneUploadAnswersOneQuestion) {
  MergedManifests merged(1 << 20, 1 << 20);
  const dataset::Manifest manifest = MakeManifest(3, 'a');
  merged.Expect(kPeer, manifest.digest());
  EXPECT_TRUE(Upload(&merged, manifest).ok());
  EXPECT_EQ(Upload(&merged, manifest).code(), Code::kProtocol);
}

TEST(MergedManifestsTest, APageThatDoesNotFitEndsTheUpload) {
  MergedManifests merged(1 << 20, 1 << 20);
  const dataset::Manifest manifest = MakeManifest(3000, 'a');
  merged.Expect(kPeer, manifest.digest());
  EXPECT_TRUE(merged.Add(kPeer, MakeManifestPage("d", manifest, 0)).ok());
  EXPECT_EQ(merged.Add(kPeer, MakeManifestPage("d", manifest, 2)).code(), Code::kProtocol);
  EXPECT_EQ(merged.Add(kPeer, MakeManifestPage("d", manifest, 1)).code(), Code::kProtocol);
  merged.Expect(kPeer, manifest.digest());
  EXPECT_TRUE(Upload(&merged, manifest).ok());
}

TEST(MergedManifestsTest, ADigestThatTheShardsDoNotHaveIsRefused) {
  MergedManifests merged(1 << 20, 1 << 20);
  wire::ManifestPage page = MakeManifestPage("d", MakeManifest(3, 'a'), 0);
  page.shards.front().records = 7;
  merged.Expect(kPeer, page.digest);
  EXPECT_EQ(merged.Add(kPeer, page).code(), Code::kProtocol);
}

TEST(MergedManifestsTest, AManifestOverItsLimitIsRefused) {
  MergedManifests merged(1 << 24, 1 << 20);
  const dataset::Manifest manifest = MakeManifest(10'000, 'a', 100);
  merged.Expect(kPeer, manifest.digest());
  const Status status = Upload(&merged, manifest);
  EXPECT_EQ(status.code(), Code::kLimitExceeded);
  EXPECT_THAT(status.message(), HasSubstr("more than 1 MiB"));
}

TEST(MergedManifestsTest, TheOldestMakeRoomForNewOnes) {
  MergedManifests merged(1 << 20, 1 << 20);
  std::vector<Hash128> digests;
  for (const char kind : {'a', 'b', 'c'}) {
    const dataset::Manifest manifest = MakeManifest(2500, kind, 100);
    merged.Expect(kPeer, manifest.digest());
    ASSERT_TRUE(Upload(&merged, manifest).ok());
    digests.push_back(manifest.digest());
  }
  EXPECT_EQ(merged.Find(digests[0]), nullptr);
  EXPECT_NE(merged.Find(digests[2]), nullptr);
}

TEST(MergedManifestsTest, UploadsThatNeverEndOccupyNoMoreThanTheLimit) {
  MergedManifests merged(1 << 20, 1 << 19);
  int refused = 0;
  for (transport::ConnectionId peer = 1; peer <= 20; ++peer) {
    const dataset::Manifest manifest = MakeManifest(1100, static_cast<char>('a' + peer), 100);
    merged.Expect(peer, manifest.digest());
    const Status status = merged.Add(peer, MakeManifestPage("d", manifest, 0));
    if (!status.ok()) {
      EXPECT_EQ(status.code(), Code::kLimitExceeded);
      ++refused;
    }
  }
  EXPECT_GT(refused, 10);
  for (transport::ConnectionId peer = 1; peer <= 20; ++peer) merged.Forget(peer);
  const dataset::Manifest manifest = MakeManifest(1100, 'A', 100);
  merged.Expect(kPeer, manifest.digest());
  EXPECT_TRUE(Upload(&merged, manifest).ok());
}

}  // namespace
}  // namespace emlio::daemon
