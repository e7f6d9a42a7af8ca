// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/convert/image_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "emlio/convert/image_format.h"
#include "emlio/convert/test_util.h"
#include "emlio/example/example.h"

namespace emlio::convert {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kJpeg = "\xff\xd8\xff\xe0 a jpeg ";
const std::string kPng = "\x89PNG\r\n\x1a\n a png ";

struct Image {
  std::string encoded, format, filename, text;
  int64_t label = -1;
};

class ImageFolderTest : public ConvertTest {
 protected:
  ImageFolderOptions Options() {
    ImageFolderOptions options;
    options.source = Path("in");
    options.destination = Path("out");
    options.shards = 1;
    options.shuffle = false;
    return options;
  }

  void WriteThreeClasses(int images_per_class) {
    for (const char* name : {"b", "a", "Z"}) {
      for (int i = 0; i < images_per_class; ++i) {
        const std::string number = std::to_string(1000 + i);
        Write("in/"s + name + "/" + number + ".jpg", kJpeg + name + number);
      }
    }
  }

  std::vector<Image> Images(const std::string& folder = "out") const {
    std::vector<Image> images;
    for (const std::string& record : AllRecordsOf(folder)) {
      const auto example = example::ExampleView::Parse(AsBytes(record));
      if (!example.ok()) {
        ADD_FAILURE() << example.status().ToString();
        continue;
      }
      EXPECT_EQ(example->features().size(), 5);
      const auto text = [&](const char* name) {
        std::vector<std::span<const uint8_t>> values;
        EXPECT_TRUE(example->Find(name)->ReadBytes(&values).ok());
        return std::string(AsText(values.at(0)));
      };
      std::vector<int64_t> label;
      EXPECT_TRUE(example->Find("image/class/label")->ReadInt64(&label).ok());
      images.push_back({text("image/encoded"), text("image/format"), text("image/filename"),
                        text("image/class/text"), label.at(0)});
    }
    return images;
  }

  std::vector<std::string> Filenames(const std::string& folder = "out") const {
    std::vector<std::string> names;
    for (const Image& image : Images(folder)) names.push_back(image.filename);
    return names;
  }

  Status Convert(const ImageFolderOptions& options) {
    return ImageFolderToShards(options).status();
  }
};

TEST_F(ImageFolderTest, RecordsHoldTheFilesAndTheirClassesInBytewiseOrder) {
  Write("in/dog/2.jpg", kJpeg + "2");
  Write("in/dog/10.PNG", kPng + "10");
  Write("in/Cat/x.jpeg", kJpeg + "x");
  Write("in/dog/readme.txt", "not an image");
  Write("in/stray.jpg", kJpeg);
  Write("in/dog/.hidden.jpg", "resource fork");
  Write("in/.git/config.jpg", "no class");
  const auto summary = ImageFolderToShards(Options());
  ASSERT_TRUE(summary.ok()) << summary.status().ToString();
  EXPECT_EQ(summary->records, 3);
  EXPECT_EQ(summary->passed_over, 2);
  EXPECT_THAT(summary->classes, ElementsAre("Cat", "dog"));
  EXPECT_THAT(NamesIn("out"), ElementsAre("labels.txt", "train-00000-of-00001.tfrecord"));
  EXPECT_EQ(ReadFile(Path("out/labels.txt")), "Cat\ndog\n");

  const std::vector<Image> images = Images();
  ASSERT_EQ(images.size(), 3);
  EXPECT_EQ(images[0].filename, "Cat/x.jpeg");
  EXPECT_EQ(images[0].label, 0);
  EXPECT_EQ(images[1].filename, "dog/10.PNG");
  EXPECT_EQ(images[1].encoded, kPng + "10");
  EXPECT_EQ(images[1].format, "png");
  EXPECT_EQ(images[1].label, 1);
  EXPECT_EQ(images[1].text, "dog");
  EXPECT_EQ(images[2].filename, "dog/2.jpg");
  EXPECT_EQ(images[2].format, "jpeg");
}

TEST_F(ImageFolderTest, FormatIsThatOfTheContentAndNotOfTheName) {
  Write("in/a/named.jpg", kPng);
  ASSERT_TRUE(Convert(Options()).ok());
  EXPECT_EQ(Images().at(0).format, "png");
}

TEST_F(ImageFolderTest, NestedFoldersAndLinksBelongToTheirClass) {
  Write("in/a/deep/er/1.jpg", kJpeg);
  Write("elsewhere/2.jpg", kJpeg);
  fs::create_symlink(Path("elsewhere/2.jpg"), Path("in/a/link.jpg"));
  fs::create_directory_symlink(Path("elsewhere"), Path("in/b"));
  ASSERT_TRUE(Convert(Options()).ok());
  EXPECT_THAT(Filenames(), ElementsAre("a/deep/er/1.jpg", "a/link.jpg", "b/2.jpg"));
}

TEST_F(ImageFolderTest, ALoopOfLinksIsAnErrorAndNotAHang) {
  Write("in/a/1.jpg", kJpeg);
  fs::create_directory_symlink(Path("in/a"), Path("in/a/loop"));
  const Status status = Convert(Options());
  EXPECT_EQ(status.code(), Code::kLimitExceeded);
  EXPECT_THAT(status.message(), HasSubstr("symbolic link"));
}

TEST_F(ImageFolderTest, ABrokenLinkIsAnErrorThatNamesIt) {
  Write("in/a/1.jpg", kJpeg);
  fs::create_symlink(Path("nowhere"), Path("in/a/broken.jpg"));
  const Status status = Convert(Options());
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("in/a/broken.jpg"));
}

TEST_F(ImageFolderTest, NamesNeedNotBeUtf8NorTame) {
  const std::string name = "caf\xe9 'x' %s";
  Write("in/" + name + "/a b\xff.jpg", kJpeg);
  ASSERT_TRUE(Convert(Options()).ok());
  EXPECT_EQ(Images().at(0).filename, name + "/a b\xff.jpg");
  EXPECT_EQ(Images().at(0).text, name);
  EXPECT_EQ(ReadFile(Path("out/labels.txt")), name + "\n");

  Write("in/line\nbreak/1.jpg", kJpeg);
  EXPECT_EQ(Convert(Options()).code(), Code::kUnsupported);
}

TEST_F(ImageFolderTest, ShuffleMixesTheClassesTheSameWayForAnyNumberOfThreads) {
  WriteThreeClasses(20);
  ImageFolderOptions options = Options();
  options.shuffle = true;
  options.shards = 5;
  options.threads = 1;
  ASSERT_TRUE(Convert(options).ok());
  std::vector<std::string> names = Filenames();
  std::set<int64_t> labels_of_first_shard;
  for (int i = 0; i < 12; ++i) labels_of_first_shard.insert(Images()[i].label);
  EXPECT_THAT(labels_of_first_shard, ElementsAre(0, 1, 2));

  options.destination = Path("again");
  options.threads = 4;
  ASSERT_TRUE(Convert(options).ok());
  EXPECT_EQ(FilesIn("again"), FilesIn("out"));

  options.destination = Path("other");
  options.seed = 1;
  ASSERT_TRUE(Convert(options).ok());
  std::vector<std::string> other_names = Filenames("other");
  EXPECT_NE(other_names, names);
  std::sort(names.begin(), names.end());
  std::sort(other_names.begin(), other_names.end());
  EXPECT_EQ(other_names, names);
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), 60);
}

TEST_F(ImageFolderTest, NumberOfShardsFollowsTheSizeWhenItIsNotGiven) {
  for (int i = 0; i < 10; ++i) {
    Write("in/a/" + std::to_string(i) + ".jpg", kJpeg + std::string(1000 - kJpeg.size(), 'x'));
  }
  ImageFolderOptions options = Options();
  options.shards = 0;
  options.shard_bytes = 3000;
  auto summary = ImageFolderToShards(options);
  ASSERT_TRUE(summary.ok());
  EXPECT_EQ(summary->shards, 4);

  options.destination = Path("small");
  options.shard_bytes = 1;  // no shard is empty
  summary = ImageFolderToShards(options);
  ASSERT_TRUE(summary.ok());
  EXPECT_EQ(summary->shards, 10);

  options.destination = Path("large");
  options.shard_bytes = kGoodShardBytes;
  summary = ImageFolderToShards(options);
  ASSERT_TRUE(summary.ok());
  EXPECT_EQ(summary->shards, 1);
}

TEST_F(ImageFolderTest, SourcesWithoutImagesAreErrorsThatSayWhatIsLookedFor) {
  EXPECT_EQ(Convert(Options()).code(), Code::kNotFound);
  fs::create_directories(Path("in"));
  Status status = Convert(Options());
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("<class>"));
  Write("in/1.jpg", kJpeg);
  EXPECT_THAT(Convert(Options()).message(), HasSubstr("<class>"));
  Write("in/a/1.jpg", kJpeg);
  Write("in/empty/notes.txt", "");
  status = Convert(Options());
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("in/empty"));
  EXPECT_THAT(status.message(), HasSubstr(".jpg .jpeg .png .webp"));
  EXPECT_FALSE(fs::exists(Path("out")));
}

TEST_F(ImageFolderTest, AFileThatIsNoImageIsAnErrorThatNamesItAndLeavesNoShard) {
  const std::string lfs = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n";
  for (const auto& [content, reason] : {std::pair(""s, "empty"), std::pair("<html>"s, "3c 68 74"),
                                        std::pair(lfs, "git lfs pull")}) {
    WriteThreeClasses(5);
    Write("in/b/1002.jpg", content);
    ImageFolderOptions options = Options();
    options.shards = 5;
    const Status status = Convert(options);
    EXPECT_EQ(status.code(), Code::kCorrupt);
    EXPECT_THAT(status.message(), HasSubstr("in/b/1002.jpg"));
    EXPECT_THAT(status.message(), HasSubstr(reason));
    EXPECT_TRUE(NamesIn("out").empty());
  }
}

TEST_F(ImageFolderTest, MoreShardsThanImagesAreRefused) {
  WriteThreeClasses(1);
  ImageFolderOptions options = Options();
  options.shards = 4;
  const Status status = Convert(options);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("1 to 3 shards"));
}

TEST_F(ImageFolderTest, GoingOnMakesTheShardsAgainWhoseImagesHaveChanged) {
  WriteThreeClasses(20);
  ImageFolderOptions options = Options();
  options.shards = 6;  // of ten images
  options.shuffle = false;
  options.threads = 1;
  Write("in/b/1002.jpg", "not an image");  // the 43rd
  EXPECT_EQ(Convert(options).code(), Code::kCorrupt);
  EXPECT_TRUE(NamesIn("out").empty());
  Write("in/b/1002.jpg", kJpeg + "repaired");
  Write("in/Z/0.jpg", kJpeg + "one more: the first shard has eleven then");
  const auto summary = ImageFolderToShards(options);
  ASSERT_TRUE(summary.ok()) << summary.status().ToString();
  EXPECT_EQ(summary->kept_shards, 3);
  const auto resumed = FilesIn("out");
  options.destination = Path("anew");
  ASSERT_TRUE(Convert(options).ok());
  EXPECT_EQ(FilesIn("anew"), resumed);
}

TEST_F(ImageFolderTest, CheckingNamesTheImageThatDiffers) {
  WriteThreeClasses(5);
  ImageFolderOptions options = Options();
  options.shards = 3;
  options.shuffle = true;
  ASSERT_TRUE(Convert(options).ok());
  options.check = true;
  const auto summary = ImageFolderToShards(options);
  ASSERT_TRUE(summary.ok()) << summary.status().ToString();
  EXPECT_EQ(summary->records, 15);
  const std::string before = ReadFile(Path("in/b/1002.jpg"));
  Write("in/b/1002.jpg", kJpeg + "other");
  Status status = Convert(options);
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(status.message(), HasSubstr("in/b/1002.jpg"));
  EXPECT_THAT(status.message(), HasSubstr(".tfrecord, record "));
  Write("in/b/1002.jpg", before);
  options.seed = 7;
  EXPECT_EQ(Convert(options).code(), Code::kCorrupt);
  options.seed = 0;
  Write("out/labels.txt", "a\n");
  EXPECT_THAT(Convert(options).message(), HasSubstr("labels.txt"));
}

TEST(ImageFormatTest, EndingsAreKnownInAnyCase) {
  for (const char* name : {"a.jpg", "a.JPEG", "a.b.Png", "a.webp", ".bmp", "a.tiff", "a.ppm"}) {
    EXPECT_TRUE(HasImageEnding(name)) << name;
  }
  for (const char* name : {"a", "jpg", "a.jp", "a.jpgx", "a.", "a. ", "a.txt"}) {
    EXPECT_FALSE(HasImageEnding(name)) << name;
  }
}

}  // namespace
}  // namespace emlio::convert
